// SPDX-License-Identifier: GPL-2.0
//! What the model needs from a guest: DMA memory, interrupts, and the ring index pages.

use std::sync::atomic::{AtomicU32, Ordering};

/// A DMA access to an address that the guest has not mapped for this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault {
    /// First I/O virtual address of the access.
    pub iova: u64,
    /// Length of the access in bytes.
    pub len: usize,
}

/// A contiguous piece of guest memory in this process, as handed out by [`Memory::raw`].
///
/// The model never dereferences it (it has no unsafe code); it exists so that one
/// implementation of [`Memory`] can copy straight from another.
#[derive(Clone, Copy, Debug)]
pub struct RawSpan {
    /// First byte; valid as long as the memory that gave it out keeps the mapping.
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// The memory of one guest as its device sees it.
///
/// All accesses are to memory that the guest may write at the same time.
pub trait Memory: Send + Sync {
    /// Copies guest memory at `iova` into `buf`.
    ///
    /// # Errors
    /// [`DmaFault`] when any byte of the range is not mapped readable.
    fn read(&self, iova: u64, buf: &mut [u8]) -> Result<(), DmaFault>;

    /// Copies `buf` into guest memory at `iova`.
    ///
    /// # Errors
    /// [`DmaFault`] when any byte of the range is not mapped writable.
    fn write(&self, iova: u64, buf: &[u8]) -> Result<(), DmaFault>;

    /// Loads an aligned little-endian dword with acquire ordering.
    ///
    /// # Errors
    /// [`DmaFault`] when it is not mapped, or `iova` is not a multiple of 4.
    fn load_u32(&self, iova: u64) -> Result<u32, DmaFault>;

    /// Stores an aligned little-endian dword with release ordering.
    ///
    /// # Errors
    /// [`DmaFault`] when it is not mapped writable, or `iova` is not a multiple of 4.
    fn store_u32(&self, iova: u64, value: u32) -> Result<(), DmaFault>;

    /// The range as one span of this process' memory, where it is one; `None` where there is
    /// no such thing or the range is not mapped.
    fn raw(&self, _iova: u64, _len: usize) -> Option<RawSpan> {
        None
    }

    /// Copies `len` bytes (at most 4096) from `src` at `src_iova` to here at `dst_iova`.
    ///
    /// The default goes through a buffer; an implementation with [`Memory::raw`] does it in
    /// one copy.
    ///
    /// # Errors
    /// [`DmaFault`] of whichever side is not mapped.
    fn copy_from(
        &self,
        dst_iova: u64,
        src: &dyn Memory,
        src_iova: u64,
        len: usize,
    ) -> Result<(), DmaFault> {
        let mut bounce = [0u8; 4096];
        let buf = bounce.get_mut(..len).ok_or(DmaFault { iova: src_iova, len })?;
        src.read(src_iova, buf)?;
        self.write(dst_iova, buf)
    }
}

/// The interrupt lines (MSI-X vectors) of one guest's device.
pub trait Interrupts: Send + Sync {
    /// Delivers MSI-X vector `vector` once. Called with the fabric borrowed: must not block.
    fn raise(&self, vector: u16);
}

/// Storage of the two register pages that hold ring base, index and size:
/// 0x0000-0x0fff (TX) and 0x8000-0x8fff (RX) of BAR0.
///
/// Trapped accesses to those pages come through [`super::Fabric::mmio_write`], which stores
/// into this object; a front end may also let the guest map the same memory, and then the
/// model learns of new producer indices in [`super::Fabric::poll`].
pub trait IndexPages: Send + Sync {
    /// Loads the dword at BAR0 offset `offset` (in one of the two pages) with acquire ordering.
    fn load(&self, offset: u32) -> u32;
    /// Stores the dword at BAR0 offset `offset` with release ordering.
    fn store(&self, offset: u32, value: u32);
    /// Zeroes both pages (at a reset).
    fn clear(&self);
}

/// Dwords in one index page.
const PAGE_DWORDS: usize = 1024;

/// [`IndexPages`] in private memory, for a front end that traps every access.
pub struct LocalPages {
    dwords: Vec<AtomicU32>,
}

impl LocalPages {
    /// Two zeroed pages.
    pub fn new() -> Self {
        LocalPages { dwords: (0..2 * PAGE_DWORDS).map(|_| AtomicU32::new(0)).collect() }
    }

    fn slot(&self, offset: u32) -> Option<&AtomicU32> {
        let page = (offset >> 15) as usize & 1;
        self.dwords.get(page * PAGE_DWORDS + ((offset as usize & 0xfff) >> 2))
    }
}

impl Default for LocalPages {
    fn default() -> Self {
        Self::new()
    }
}

impl IndexPages for LocalPages {
    fn load(&self, offset: u32) -> u32 {
        self.slot(offset).map_or(0, |d| d.load(Ordering::Acquire))
    }

    fn store(&self, offset: u32, value: u32) {
        if let Some(d) = self.slot(offset) {
            d.store(value, Ordering::Release);
        }
    }

    fn clear(&self) {
        for d in &self.dwords {
            d.store(0, Ordering::Release);
        }
    }
}
