// SPDX-License-Identifier: GPL-2.0
//! Named counters, as a front end shows them.

/// One counter of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Dotted name, for example `host.a.rx1.frames` or `cable.c0.a_to_b.bytes`.
    pub name: String,
    /// Value since the fabric was made.
    pub value: u64,
}
