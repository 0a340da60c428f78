// SPDX-License-Identifier: GPL-2.0
//! Memory that verbs copy from and to: pinned pages of a program, or kernel
//! memory that a kernel user names by address.

use super::bindings as c;
use super::copy::copy;
use super::dmabuf::DmaBuf;
use core::ptr::NonNull;
use kernel::alloc::KVVec;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};
use kernel::prelude::*;

/// Pinned pages of a program and their addresses in the kernel.
///
/// # Invariants
///
/// `pages` holds the kernel address of each page of `umem`, in order, so that
/// bytes `first .. first + length` of their concatenation are the memory. The
/// pages stay pinned as long as `umem` lives.
pub(crate) struct UserMem {
    umem: NonNull<c::ib_umem>,
    pages: KVVec<usize>,
    first: usize,
    length: u64,
}

// SAFETY: The pages may be reached from any thread; the table does not change.
unsafe impl Send for UserMem {}
// SAFETY: As for `Send`.
unsafe impl Sync for UserMem {}

impl UserMem {
    /// Pins `length` bytes at `addr` of the current process.
    ///
    /// # Errors
    ///
    /// Those of pinning: `EFAULT` for addresses that are not mapped, `ENOMEM`
    /// beyond the memlock limit, `EINVAL` for an empty or wrapping range.
    ///
    /// # Safety
    ///
    /// `device` is a registered ib_device.
    pub(super) unsafe fn pin(
        device: *mut c::ib_device,
        addr: u64,
        length: u64,
        access: u32,
    ) -> Result<Self> {
        let size = usize::try_from(length).map_err(|_| EINVAL)?;
        let addr = usize::try_from(addr).map_err(|_| EINVAL)?;
        if size == 0 {
            return Err(EINVAL);
        }
        // SAFETY: `device` is registered by contract; the range is checked there.
        let umem = unsafe { c::u4r_umem_get(device, addr, size, access as c_int) };
        let umem = kernel::error::from_err_ptr(umem)?;
        let umem = NonNull::new(umem).ok_or(ENOMEM)?;
        let first = addr % PAGE_SIZE;
        let mut this = Self {
            umem,
            pages: KVVec::new(),
            first,
            length,
        };
        let count = (first + size).div_ceil(PAGE_SIZE);
        this.pages.resize(count, 0, GFP_KERNEL)?;
        // SAFETY: `umem` is valid and the table has room for `count` addresses.
        let full = unsafe { c::u4r_umem_pages(umem.as_ptr(), this.pages.as_mut_ptr(), count) };
        // INVARIANT: All pages are in the table, else the object is dropped here.
        full.then_some(this).ok_or(EFAULT)
    }

    /// Calls `step(address, done, count)` for each piece of `[offset, offset + len)`
    /// that lies in one page. False, and no call, if the range is not inside.
    #[inline]
    fn pieces(&self, offset: u64, len: usize, mut step: impl FnMut(usize, usize, usize)) -> bool {
        let Some(end) = offset.checked_add(len as u64) else {
            return false;
        };
        if end > self.length {
            return false;
        }
        let mut position = self.first + offset as usize;
        let mut done = 0;
        while done < len {
            let within = position & (PAGE_SIZE - 1);
            let count = core::cmp::min(PAGE_SIZE - within, len - done);
            let Some(page) = self.pages.get(position >> PAGE_SHIFT) else {
                return false;
            };
            step(page + within, done, count);
            position += count;
            done += count;
        }
        true
    }
}

impl Drop for UserMem {
    fn drop(&mut self) {
        // SAFETY: Got from `u4r_umem_get`; no copy can be under way, as copies
        // borrow the object.
        unsafe { c::ib_umem_release(self.umem.as_ptr()) };
    }
}

/// What stands behind a memory key.
pub(crate) enum Backing {
    /// A program's pages; offsets count from the start of the region.
    User(UserMem),
    /// A DMA buffer; offsets count from the start of the region.
    DmaBuf(DmaBuf),
    /// All kernel memory; offsets are kernel addresses. Only for keys that the
    /// core makes for kernel users (`get_dma_mr`).
    Kernel,
}

impl Backing {
    /// Copies out of the memory. False if the range does not lie in it.
    #[inline]
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let to = out.as_mut_ptr();
        self.pieces(offset, out.len(), |from, done, count| {
            // SAFETY: `from` is `count` bytes of pinned memory, `done + count` is
            // within `out`.
            unsafe { copy(to.add(done), from as *const u8, count) }
        })
    }

    /// Copies into the memory, ascending; 8 bytes to an address that is a multiple
    /// of 8 at once. False if the range does not lie in it.
    #[inline]
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> bool {
        if let Ok(word) = <[u8; 8]>::try_from(data) {
            if let Some(to) = self.word(offset) {
                // SAFETY: `to` is an aligned word of pinned memory.
                unsafe { core::ptr::write_volatile(to, u64::from_ne_bytes(word)) };
                return true;
            }
        }
        let from = data.as_ptr();
        self.pieces(offset, data.len(), |to, done, count| {
            // SAFETY: `to` is `count` bytes of pinned memory, `done + count` is
            // within `data`.
            unsafe { copy(to as *mut u8, from.add(done), count) }
        })
    }

    #[inline]
    fn pieces(&self, offset: u64, len: usize, mut step: impl FnMut(usize, usize, usize)) -> bool {
        match self {
            Self::User(mem) => mem.pieces(offset, len, step),
            Self::DmaBuf(mem) => match mem.at(offset, len) {
                Some(address) => {
                    step(address, 0, len);
                    true
                }
                None => false,
            },
            Self::Kernel => {
                step(offset as usize, 0, len);
                true
            }
        }
    }

    fn word(&self, offset: u64) -> Option<*mut u64> {
        let mut word = None;
        let inside = self.pieces(offset, 8, |address, _, count| {
            if count == 8 && address % 8 == 0 {
                word = Some(address as *mut u64);
            }
        });
        word.filter(|_| inside)
    }

    /// Compares and swaps an aligned 64-bit word; the old value, or None if the
    /// word is misaligned or outside.
    pub(crate) fn compare_swap(&self, offset: u64, compare: u64, swap: u64) -> Option<u64> {
        let word = self.word(offset)?;
        let mut old = compare;
        // SAFETY: `word` is an aligned word of pinned memory.
        unsafe { c::u4r_cmpxchg64(word, &mut old, swap) };
        Some(old)
    }

    /// Adds to an aligned 64-bit word; the old value, or None if the word is
    /// misaligned or outside.
    pub(crate) fn fetch_add(&self, offset: u64, add: u64) -> Option<u64> {
        let word = self.word(offset)?;
        // SAFETY: `word` is an aligned word of pinned memory.
        Some(unsafe { c::u4r_fetch_add64(word, add) })
    }
}
