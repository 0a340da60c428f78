// SPDX-License-Identifier: GPL-2.0
//! The command line: see Documentation/vcable.md.

fn main() {}
