// SPDX-License-Identifier: GPL-2.0
//! Copying payload.
//!
//! Programs poll the last bytes of what a peer writes, so bytes must become
//! visible in ascending order. memcpy() does not promise that (fast-string
//! moves are weakly ordered among themselves), hence a loop of our own; volatile
//! stores keep the compiler from turning it into memcpy() again.

use core::ptr;

const WORD: usize = 8;

/// Copies `len` bytes from `src` to `dst` in ascending order of addresses.
///
/// # Safety
///
/// `src` is valid for reads and `dst` for writes of `len` bytes; they do not
/// overlap. Concurrent access by programs to either is tolerated.
#[inline]
pub(super) unsafe fn copy(mut dst: *mut u8, mut src: *const u8, len: usize) {
    let mut left = len;
    // SAFETY: All accesses stay within the `len` bytes of the contract: each step
    // moves by what it copied, and is taken only while that much is left.
    unsafe {
        while left > 0 && dst as usize % WORD != 0 {
            ptr::write_volatile(dst, ptr::read(src));
            (dst, src, left) = (dst.add(1), src.add(1), left - 1);
        }
        while left >= 8 * WORD {
            let from = src.cast::<u64>();
            let to = dst.cast::<u64>();
            let w = [
                ptr::read_unaligned(from),
                ptr::read_unaligned(from.add(1)),
                ptr::read_unaligned(from.add(2)),
                ptr::read_unaligned(from.add(3)),
                ptr::read_unaligned(from.add(4)),
                ptr::read_unaligned(from.add(5)),
                ptr::read_unaligned(from.add(6)),
                ptr::read_unaligned(from.add(7)),
            ];
            ptr::write_volatile(to, w[0]);
            ptr::write_volatile(to.add(1), w[1]);
            ptr::write_volatile(to.add(2), w[2]);
            ptr::write_volatile(to.add(3), w[3]);
            ptr::write_volatile(to.add(4), w[4]);
            ptr::write_volatile(to.add(5), w[5]);
            ptr::write_volatile(to.add(6), w[6]);
            ptr::write_volatile(to.add(7), w[7]);
            (dst, src, left) = (dst.add(8 * WORD), src.add(8 * WORD), left - 8 * WORD);
        }
        while left >= WORD {
            ptr::write_volatile(dst.cast::<u64>(), ptr::read_unaligned(src.cast::<u64>()));
            (dst, src, left) = (dst.add(WORD), src.add(WORD), left - WORD);
        }
        while left > 0 {
            ptr::write_volatile(dst, ptr::read(src));
            (dst, src, left) = (dst.add(1), src.add(1), left - 1);
        }
    }
}
