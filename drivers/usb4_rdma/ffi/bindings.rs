// SPDX-License-Identifier: GPL-2.0

//! bindgen's output: the types that the kernel crate has are taken from there, so
//! that they are the same; the rest is generated from bindings_helper.h.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    improper_ctypes,
    unreachable_pub,
    unused_imports,
    unsafe_op_in_unsafe_fn
)]

use kernel::ffi;
use kernel::bindings::*;
use kernel::prelude::Zeroable;
use pin_init::MaybeZeroable;

pub(crate) use kernel::bindings::*;

include!(env!("U4R_BINDINGS"));
