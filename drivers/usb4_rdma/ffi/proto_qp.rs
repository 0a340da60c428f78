// SPDX-License-Identifier: GPL-2.0
//! Memory for the protocol core's queue pair, which is too large for the stack.

use crate::proto::env::FrameBuf;
use crate::proto::qp::Qp;
use kernel::alloc::KVBox;
use kernel::prelude::*;

/// A queue pair in RESET.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn new<B: FrameBuf>() -> Result<KVBox<Qp<B>>> {
    let memory = KVBox::<Qp<B>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
    // SAFETY: The memory is zeroed, and all-zero bytes are a valid `Qp`: it says so
    // for frame buffers that are one non-null pointer, which the check asserts.
    const { assert!(size_of::<Option<B>>() == size_of::<usize>()) };
    // SAFETY: As above.
    Ok(unsafe { memory.assume_init() })
}
