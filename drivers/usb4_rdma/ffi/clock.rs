// SPDX-License-Identifier: GPL-2.0

//! The module's clock.

use super::bindings;

/// Nanoseconds since boot (CLOCK_MONOTONIC): the clock of every timer here.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: callable in any context.
    unsafe { bindings::u4r_now_ns() }
}
