// SPDX-License-Identifier: GPL-2.0
//! Rings in memory shared with a program (layout: `uapi/usb4_rdma-abi.h`).
//!
//! The program may write to all of it at any time. So nothing here is a Rust
//! reference: words are loaded and stored one by one, and a caller copies what
//! it wants to check.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{atomic_load, atomic_store, Acquire, Relaxed, Release};

/// A word that only the program writes.
#[derive(Clone, Copy)]
pub(crate) enum UserWord {
    /// SQ, RQ: entries produced.
    Prod = 0,
    /// CQ: entries consumed.
    Cons = 4,
    /// CQ: arm word.
    Arm = 8,
}

/// A word that only the kernel writes.
#[derive(Clone, Copy)]
pub(crate) enum KernelWord {
    /// SQ, RQ: entries consumed.
    Cons = 0,
    /// CQ: entries produced.
    Prod = 4,
    /// Any ring: its state.
    State = 8,
}

/// A ring: two lines of counters, then `entries` slots of `stride` bytes.
///
/// # Invariants
///
/// `base` points to `bytes` bytes of `vmalloc_user` memory; `entries` is a power
/// of two; `stride` is a multiple of 8; all slots lie within `bytes`.
pub(crate) struct Ring {
    base: NonNull<u8>,
    bytes: usize,
    entries: u32,
    stride: u32,
}

// SAFETY: The memory is reached through word-wise volatile or atomic accesses only.
unsafe impl Send for Ring {}
// SAFETY: As for `Send`; callers order their accesses by locks of their own.
unsafe impl Sync for Ring {}

impl Ring {
    /// Allocates a zeroed ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `entries` is no power of two or `stride` no multiple of 8;
    /// `ENOMEM`.
    pub(crate) fn new(entries: u32, stride: u32) -> Result<Self> {
        if !entries.is_power_of_two() || stride == 0 || stride % 8 != 0 {
            return Err(EINVAL);
        }
        let slots = (entries as usize)
            .checked_mul(stride as usize)
            .ok_or(EINVAL)?;
        let page = kernel::page::PAGE_SIZE;
        let bytes = (c::U4R_RING_ENTRIES as usize + slots).next_multiple_of(page);
        // SAFETY: No requirements; the result is checked.
        let base = unsafe { c::u4r_ring_alloc(bytes) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: Established by the checks and the size computed above.
        Ok(Self {
            base,
            bytes,
            entries,
            stride,
        })
    }

    /// Length of the mapping in bytes, whole pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of slots, a power of two.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Bytes from slot to slot.
    pub(crate) fn stride(&self) -> u32 {
        self.stride
    }

    fn user_word(&self, word: UserWord) -> *mut u32 {
        let offset = c::U4R_RING_USER_LINE as usize + word as usize;
        // SAFETY: The line lies in front of the slots, within `bytes`.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }

    fn kernel_word(&self, word: KernelWord) -> *mut u32 {
        let offset = c::U4R_RING_KERNEL_LINE as usize + word as usize;
        // SAFETY: The line lies in front of the slots, within `bytes`.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }

    /// Reads a word of the program's with acquire semantics.
    #[inline]
    pub(crate) fn user(&self, word: UserWord) -> u32 {
        // SAFETY: An aligned word of our memory; races are what it is made for.
        unsafe { atomic_load(self.user_word(word), Acquire) }
    }

    /// Writes a word of the program's line: for kernel users, who have no
    /// program and let us keep its counters.
    pub(crate) fn set_user(&self, word: UserWord, value: u32) {
        // SAFETY: An aligned word of our memory.
        unsafe { atomic_store(self.user_word(word), value, Release) }
    }

    /// Writes a word of the kernel's with release semantics.
    #[inline]
    pub(crate) fn set_kernel(&self, word: KernelWord, value: u32) {
        // SAFETY: An aligned word of our memory.
        unsafe { atomic_store(self.kernel_word(word), value, Release) }
    }

    #[inline]
    fn slot(&self, index: u32) -> *mut u8 {
        let slot = (index & (self.entries - 1)) as usize;
        let offset = c::U4R_RING_ENTRIES as usize + slot * self.stride as usize;
        // SAFETY: By the invariants every slot lies within the allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Copies `N` 64-bit words of a slot, from word `first` on. Words beyond the
    /// slot read as zero.
    #[inline]
    pub(crate) fn read<const N: usize>(&self, index: u32, first: usize) -> [u64; N] {
        let mut words = [0; N];
        if (first + N) * 8 <= self.stride as usize {
            let slot = self.slot(index).cast::<u64>();
            for (i, word) in words.iter_mut().enumerate() {
                // SAFETY: Within the slot by the check; 8-aligned by the invariants.
                *word = unsafe { core::ptr::read_volatile(slot.add(first + i)) };
            }
        }
        words
    }

    /// Stores 64-bit words into a slot, from word `first` on; what would lie
    /// beyond the slot is left out.
    #[inline]
    pub(crate) fn write(&self, index: u32, first: usize, words: &[u64]) {
        if (first + words.len()) * 8 <= self.stride as usize {
            let slot = self.slot(index).cast::<u64>();
            for (i, word) in words.iter().enumerate() {
                // SAFETY: Within the slot by the check; 8-aligned by the invariants.
                unsafe { core::ptr::write_volatile(slot.add(first + i), *word) };
            }
        }
    }

    /// Stores the 32-bit word `word` of a slot, releasing all stores before it.
    #[inline]
    pub(crate) fn publish(&self, index: u32, word: usize, value: u32) {
        if (word + 1) * 4 <= self.stride as usize {
            // SAFETY: Within the slot by the check; aligned by the invariants.
            unsafe { atomic_store(self.slot(index).cast::<u32>().add(word), value, Release) };
        }
    }

    /// Copies `out.len()` bytes of a slot from byte `offset` on. False if they
    /// do not lie in it.
    #[inline]
    pub(crate) fn copy_out(&self, index: u32, offset: usize, out: &mut [u8]) -> bool {
        if offset + out.len() > self.stride as usize {
            return false;
        }
        // SAFETY: Both ranges are valid for `out.len()` bytes and do not overlap:
        // the ring is never lent out as a reference.
        unsafe { super::copy::copy(out.as_mut_ptr(), self.slot(index).add(offset), out.len()) };
        true
    }

    /// Where to map it from.
    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.base.as_ptr().cast()
    }

    /// A word of the kernel's, as the kernel last wrote it (a program may have
    /// written over it: for tests and dumps only).
    #[allow(dead_code)]
    pub(crate) fn kernel(&self, word: KernelWord) -> u32 {
        // SAFETY: An aligned word of our memory.
        unsafe { atomic_load(self.kernel_word(word), Relaxed) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A program may still map the pages: each mapping holds a reference to
        // them, so only the kernel's view goes away here.
        // SAFETY: Allocated by `u4r_ring_alloc`, not used any more.
        unsafe { c::u4r_ring_free(self.as_ptr()) };
    }
}
