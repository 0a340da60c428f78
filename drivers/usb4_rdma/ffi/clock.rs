// SPDX-License-Identifier: GPL-2.0

//! The module's clock and checksum.

use super::bindings;

/// Nanoseconds since boot (CLOCK_MONOTONIC): the clock of every timer here.
#[inline]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: callable in any context.
    unsafe { bindings::u4r_now_ns() }
}

/// CRC-32C (Castagnoli) without initial and final inversion: `crc` goes in raw.
#[inline]
pub(crate) fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: `data` is valid for reads of its length.
    unsafe { bindings::u4r_crc32c(crc, data.as_ptr().cast(), data.len()) }
}
