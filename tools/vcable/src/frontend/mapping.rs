// SPDX-License-Identifier: GPL-2.0
//! Shared memory of another process: the one place that touches it.
//!
//! A guest changes its memory whenever it likes, so no reference to it is ever made: it is read and
//! written through raw pointers only, after a check of the bounds, and what was read is a private copy.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::core::RawSpan;
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

/// A shared, readable and writable mapping of a file, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, is not bound to a thread, and is only accessed
// through raw pointers and atomics, so moving it to another thread is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above; what threads do to the bytes at the same time is no more than what the other
// process does to them anyway.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset`. Refuses with `InvalidInput` an empty range, an offset
    /// off the page grid, and a range past the file's end (touching that would be a SIGBUS).
    pub fn new(file: impl AsFd, offset: u64, len: usize) -> io::Result<Mapping> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let size = nix::sys::stat::fstat(file.as_fd())?.st_size as u64;
        let end = offset.checked_add(len as u64).ok_or_else(refused)?;
        let length = NonZeroUsize::new(len).ok_or_else(refused)?;
        if end > size || offset % 4096 != 0 {
            return Err(refused());
        }
        let offset = i64::try_from(offset).map_err(|_| refused())?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address the kernel chooses; it overlays nothing.
        let base = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, file, offset)? };
        Ok(Mapping { base: base.cast(), len })
    }

    /// The address of `len` bytes at `offset`, or `None` where they are not all inside.
    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        // SAFETY: `offset <= end <= self.len`, so the result stays inside the mapping.
        (end <= self.len).then(|| unsafe { self.base.as_ptr().add(offset) })
    }

    /// Copies bytes out; `None`, and `into` untouched, where they are not all inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Option<()> {
        let from = self.at(offset, into.len())?;
        // SAFETY: `at` checked the source; the target is a private slice, so they do not overlap. The
        // bytes may change meanwhile; any mixture of old and new is a valid value of `u8`.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Copies bytes in; `None`, and nothing written, where they do not all fit inside.
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let into = self.at(offset, from.len())?;
        // SAFETY: `at` checked the target, which is mapped writable; the source is a private slice.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
        Some(())
    }

    /// Copies `span` in; `None`, and nothing written, where it does not fit inside.
    ///
    /// # Safety
    /// The span's memory must stay mapped until the call returns.
    pub unsafe fn copy_in(&self, offset: usize, span: RawSpan) -> Option<()> {
        let into = self.at(offset, span.len)?;
        // SAFETY: the caller vouches for the source and `at` for the target; `ptr::copy` allows them
        // to overlap, as they may when a host's cable ends at the same host.
        unsafe { ptr::copy(span.ptr, into, span.len) };
        Some(())
    }

    /// The range as a span for [`Mapping::copy_in`] of another mapping; `None` where it is not inside.
    pub fn span(&self, offset: usize, len: usize) -> Option<RawSpan> {
        self.at(offset, len).map(|ptr| RawSpan { ptr, len })
    }

    /// Sets bytes to zero; `None` where they are not all inside.
    pub fn clear(&self, offset: usize, len: usize) -> Option<()> {
        let into = self.at(offset, len)?;
        // SAFETY: `at` checked the range, which is mapped writable.
        unsafe { ptr::write_bytes(into, 0, len) };
        Some(())
    }

    /// The aligned dword at `offset`; `None` where it is misaligned or not inside.
    fn dword(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.at(offset, 4)?.cast::<AtomicU32>();
        // SAFETY: inside the mapping for as long as `self` lives, aligned (checked here), and every bit
        // pattern is a valid `u32`; other processes access it as plain, naturally atomic dwords.
        at.is_aligned().then(|| unsafe { &*at })
    }

    /// Loads an aligned dword; what is read afterwards is at least as new.
    pub fn load_acquire(&self, offset: usize) -> Option<u32> {
        self.dword(offset).map(|dword| dword.load(Ordering::Acquire))
    }

    /// Stores an aligned dword; whoever sees it sees all that was written before.
    pub fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.dword(offset).map(|dword| dword.store(value, Ordering::Release))
    }
}

impl Drop for Mapping {
    /// Nothing points into the mapping any more: pointers never leave this file's functions.
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of the mapping made in `new`, unmapped only here.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::sys::shared_file;

    fn page() -> Mapping {
        Mapping::new(shared_file("test", 4096).unwrap(), 0, 4096).unwrap()
    }

    #[test]
    fn ranges_are_checked() {
        let file = shared_file("test", 4096).unwrap();
        assert!(Mapping::new(&file, 0, 0).is_err());
        assert!(Mapping::new(&file, 0, 4097).is_err());
        assert!(Mapping::new(&file, 4096, 1).is_err());
        assert!(Mapping::new(&file, 12, 8).is_err());
        let page = page();
        assert!(page.read(4095, &mut [0; 1]).is_some());
        assert!(page.read(4095, &mut [0; 2]).is_none());
        assert!(page.write(usize::MAX, &[0; 2]).is_none());
        assert!(page.clear(1, 4096).is_none());
        assert!(page.span(4090, 7).is_none());
    }

    #[test]
    fn two_mappings_of_a_file_agree() {
        let file = shared_file("test", 8192).unwrap();
        let (one, two) =
            (Mapping::new(&file, 0, 8192).unwrap(), Mapping::new(&file, 4096, 4096).unwrap());
        one.write(4096, b"abcd").unwrap();
        let mut seen = [0; 4];
        two.read(0, &mut seen).unwrap();
        assert_eq!(&seen, b"abcd");
        let span = one.span(4096, 4).unwrap();
        // SAFETY: `one` lives to the end of this function.
        assert_eq!(unsafe { two.copy_in(4093, span) }, None);
        // SAFETY: as above.
        unsafe { two.copy_in(100, span) }.unwrap();
        two.read(100, &mut seen).unwrap();
        assert_eq!(&seen, b"abcd");
    }

    #[test]
    fn dwords_must_be_aligned() {
        let page = page();
        assert!(page.store_release(2, 1).is_none());
        assert!(page.store_release(4096, 1).is_none());
        page.store_release(4092, 0x0403_0201).unwrap();
        assert_eq!(page.load_acquire(4092), Some(0x0403_0201));
        page.clear(4093, 1).unwrap();
        assert_eq!(page.load_acquire(4092), Some(0x0403_0001));
    }
}
