// SPDX-License-Identifier: GPL-2.0

//! Frame buffers: 4 KiB each, mapped for DMA, allocated when a lane opens. Who may
//! touch a buffer is a token, [`Frame`]: there is exactly one for each buffer that
//! the host interface does not hold.

use super::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::types::Opaque;

/// Bytes in a frame buffer, whatever the page size.
pub(crate) const FRAME_SIZE: usize = 4096;

static NEXT_POOL: Atomic<u32> = Atomic::new(0);

/// The right to read and write one buffer of one pool.
pub(crate) struct Frame {
    index: u16,
    pool: u32,
}

impl Frame {
    /// Its number in the pool.
    #[inline]
    pub(crate) fn index(&self) -> u16 {
        self.index
    }
}

/// A buffer and the kernel's descriptor of it.
#[repr(C)]
pub(super) struct Slot {
    pub(super) frame: Opaque<bindings::ring_frame>,
    /// What the ring's callback needs; null while no ring is attached.
    pub(super) owner: *const c_void,
    dma: bindings::dma_addr_t,
    data: NonNull<u8>,
    pub(super) index: u16,
}

/// The buffers of one ring.
pub(crate) struct FramePool {
    slots: KVVec<Slot>,
    id: u32,
    /// None: the buffers never leave the CPU.
    device: Option<NonNull<bindings::device>>,
    to_device: bool,
    mapped: Atomic<bool>,
}

// SAFETY: buffers are reached through tokens only, of which there is one each;
// the frames are handed to the thunderbolt core, which locks its lists.
unsafe impl Send for FramePool {}
// SAFETY: as above.
unsafe impl Sync for FramePool {}

impl FramePool {
    /// `count` (at most 65535) buffers that no device reaches, and their tokens.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for a count that does not fit.
    pub(crate) fn in_memory(count: usize) -> Result<(Self, KVVec<Frame>)> {
        Self::allocate(None, count, true)
    }

    /// The same, mapped for `nhi`'s device.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) fn new(
        nhi: NonNull<bindings::tb_nhi>,
        count: usize,
        to_device: bool,
    ) -> Result<(Self, KVVec<Frame>)> {
        // SAFETY: the host interface is alive while one of its XDomains is.
        let device = NonNull::new(unsafe { (*nhi.as_ptr()).dev }).ok_or(ENODEV)?;
        // SAFETY: the device is alive; the reference is put in `drop`.
        unsafe { bindings::get_device(device.as_ptr()) };
        Self::allocate(Some(device), count, to_device)
    }

    /// Takes over a reference to the device.
    fn allocate(
        device: Option<NonNull<bindings::device>>,
        count: usize,
        to_device: bool,
    ) -> Result<(Self, KVVec<Frame>)> {
        let mut pool = Self {
            slots: KVVec::new(),
            id: NEXT_POOL.fetch_add(1, Relaxed),
            device,
            to_device,
            mapped: Atomic::new(device.is_some()),
        };
        u16::try_from(count)?;
        let mut frames = KVVec::with_capacity(count, GFP_KERNEL)?;
        pool.slots = KVVec::with_capacity(count, GFP_KERNEL)?;
        for index in 0..count as u16 {
            pool.add_slot(index)?;
            frames.push(Frame { index, pool: pool.id }, GFP_KERNEL)?;
        }
        Ok((pool, frames))
    }

    fn add_slot(&mut self, index: u16) -> Result {
        let mut dma = 0;
        // SAFETY: the device, if any, is alive.
        let data = unsafe {
            bindings::u4r_frame_alloc(self.device_ptr(), self.to_device, &mut dma)
        };
        let data = NonNull::new(data.cast()).ok_or(ENOMEM)?;
        let slot = Slot {
            frame: Opaque::zeroed(),
            owner: core::ptr::null(),
            dma,
            data,
            index,
        };
        Ok(self.slots.push(slot, GFP_KERNEL)?)
    }

    fn device_ptr(&self) -> *mut bindings::device {
        self.device.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    /// Attaches all buffers to a ring. Only while no frame is enqueued.
    pub(super) fn attach(&mut self, owner: *const c_void, callback: bindings::ring_cb) {
        for slot in self.slots.iter_mut() {
            slot.owner = owner;
            // SAFETY: the slot's memory does not move any more: the vector has its
            // full length.
            unsafe { bindings::u4r_ring_frame_init(slot.frame.get(), slot.dma, callback) };
        }
    }

    /// The slot of a token of this pool.
    #[inline]
    pub(super) fn slot(&self, frame: &Frame) -> Option<&Slot> {
        if frame.pool != self.id {
            return None;
        }
        self.slots.get(usize::from(frame.index))
    }

    /// The token of a buffer that came back from the ring.
    ///
    /// # Safety
    ///
    /// The ring has just returned this slot, and nobody holds its token.
    #[inline]
    pub(super) unsafe fn returned(&self, slot: NonNull<Slot>) -> Frame {
        Frame {
            // SAFETY: a slot of ours, alive as long as the pool.
            index: unsafe { slot.as_ref().index },
            pool: self.id,
        }
    }

    /// The first `len` bytes of a buffer; fewer if the buffer is shorter.
    #[inline]
    pub(crate) fn bytes<'a>(&'a self, frame: &'a Frame, len: usize) -> &'a [u8] {
        let Some(slot) = self.slot(frame) else {
            return &[];
        };
        // SAFETY: the buffer lives as long as the pool, has FRAME_SIZE bytes, and
        // the token says that nobody else touches it.
        unsafe { core::slice::from_raw_parts(slot.data.as_ptr(), len.min(FRAME_SIZE)) }
    }

    /// The whole buffer, to write.
    #[inline]
    pub(crate) fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let Some(slot) = self.slot(frame) else {
            return &mut [];
        };
        // SAFETY: as in `bytes`, and the token is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(slot.data.as_ptr(), FRAME_SIZE) }
    }

    /// Hands the first `len` bytes to the device.
    #[inline]
    pub(super) fn sync_for_device(&self, slot: &Slot, len: usize) {
        // SAFETY: mapped: rings stop before `unmap`.
        unsafe {
            bindings::u4r_frame_for_device(self.device_ptr(), self.to_device, slot.dma, len)
        };
    }

    /// Takes the first `len` bytes from the device.
    #[inline]
    pub(super) fn sync_for_cpu(&self, slot: &Slot, len: usize) {
        // SAFETY: mapped: rings stop before `unmap`.
        unsafe { bindings::u4r_frame_for_cpu(self.device_ptr(), slot.dma, len) };
    }

    /// Takes the buffers from the device for good; their content stays readable.
    /// Only after the ring has stopped.
    pub(super) fn unmap(&self) {
        if !self.mapped.xchg(false, Full) {
            return;
        }
        for slot in self.slots.iter() {
            // SAFETY: mapped in `add_slot`, unmapped here once.
            unsafe {
                bindings::u4r_frame_unmap(self.device_ptr(), self.to_device, slot.dma)
            };
        }
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        self.unmap();
        for slot in self.slots.iter() {
            // SAFETY: allocated in `add_slot`, and no token is left that could
            // reach it: tokens are kept with a reference to the pool.
            unsafe { bindings::u4r_frame_free(slot.data.as_ptr().cast()) };
        }
        // SAFETY: taken in `new`; a null pointer is ignored.
        unsafe { bindings::put_device(self.device_ptr()) };
    }
}
