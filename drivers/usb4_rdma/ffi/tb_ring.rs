// SPDX-License-Identifier: GPL-2.0

//! Transmit and receive rings of the host interface.
//!
//! Receive rings work in callback mode: the interrupt queues the ring's own work
//! item, which is the only one to take frames from the ring, in order, and calls us
//! in process context without locks. The supplemental poll only queues that same
//! work item. Transmit rings take no interrupt and are reaped by their owner.
//!
//! Lock order: `RxRing::state`, then the thunderbolt core's ring lock.

use super::bindings;
use super::tb_frames::{Frame, FramePool, Slot, FRAME_SIZE};
use super::tb_xdomain::Xdomain;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A frame came with a CRC error on the link.
pub(crate) const FLAG_CRC_ERROR: u32 = bindings::ring_desc_flags_RING_DESC_CRC_ERROR;
/// A frame did not fit its buffer.
pub(crate) const FLAG_OVERRUN: u32 = bindings::ring_desc_flags_RING_DESC_BUFFER_OVERRUN;

/// A started or startable ring; stopped and freed exactly once.
struct Ring {
    raw: NonNull<bindings::tb_ring>,
    running: bool,
}

// SAFETY: the thunderbolt core locks its rings.
unsafe impl Send for Ring {}

impl Ring {
    fn hop(&self) -> i32 {
        // SAFETY: alive until `end`; set at allocation.
        unsafe { (*self.raw.as_ptr()).hop }
    }

    fn start(&mut self) {
        // SAFETY: allocated and not running.
        unsafe { bindings::tb_ring_start(self.raw.as_ptr()) };
        self.running = true;
    }

    /// Stops and frees; sleeps until no callback runs.
    fn end(self) {
        if self.running {
            // SAFETY: running; never called from a callback.
            unsafe { bindings::tb_ring_stop(self.raw.as_ptr()) };
        }
        // SAFETY: stopped, and `self` is consumed.
        unsafe { bindings::tb_ring_free(self.raw.as_ptr()) };
    }
}

/// A transmit ring. Its owner serialises the calls.
pub(crate) struct TxRing(Option<Ring>);

impl TxRing {
    /// Allocates a ring that takes at most `size - 1` frames, and its buffers.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when the host interface has no ring to give, `ENOMEM`.
    pub(crate) fn new(xd: &Xdomain, size: u32) -> Result<(Self, FramePool, KVVec<Frame>)> {
        // SAFETY: the host interface is alive; the result is checked.
        let raw = unsafe { bindings::u4r_ring_alloc_tx(xd.nhi().as_ptr(), size as i32) };
        let raw = NonNull::new(raw).ok_or(ENOSPC)?;
        let ring = Self(Some(Ring { raw, running: false }));
        let (mut pool, frames) = FramePool::new(xd.nhi(), size as usize - 1, true)?;
        pool.attach(core::ptr::null(), None);
        Ok((ring, pool, frames))
    }

    /// The ring's number.
    pub(crate) fn hop(&self) -> i32 {
        self.0.as_ref().map_or(-1, Ring::hop)
    }

    /// Starts the ring.
    pub(crate) fn start(&mut self) {
        if let Some(ring) = &mut self.0 {
            ring.start();
        }
    }

    /// Sends the first `len` bytes of a buffer, 64..=4096. Gives the token back
    /// when the ring has stopped.
    pub(crate) fn enqueue(&mut self, pool: &FramePool, frame: Frame, len: usize) -> Result<(), Frame> {
        let (Some(ring), Some(slot)) = (&self.0, pool.slot(&frame)) else {
            return Err(frame);
        };
        pool.sync_for_device(slot, len);
        // SAFETY: the ring is alive, and the token says that the slot is on no list.
        let ret = unsafe { bindings::u4r_ring_send(ring.raw.as_ptr(), slot.frame.get(), len) };
        if ret == 0 {
            Ok(())
        } else {
            Err(frame)
        }
    }

    /// Takes back the oldest frame if it has been sent.
    #[inline]
    pub(crate) fn reap(&mut self, pool: &FramePool) -> Option<Frame> {
        let ring = self.0.as_ref()?;
        // SAFETY: a ring without interrupts may be polled by its owner.
        let frame = NonNull::new(unsafe { bindings::tb_ring_poll(ring.raw.as_ptr()) })?;
        // SAFETY: the ring's frames are those of `pool`'s slots, `frame` being the
        // first member, and the ring has just returned this one.
        Some(unsafe { pool.returned(frame.cast::<Slot>()) })
    }

    /// Takes the ring out, so that it can be ended without its owner's lock.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Stops and frees the ring, and takes its buffers from the device.
    pub(crate) fn end(mut self, pool: &FramePool) {
        if let Some(ring) = self.0.take() {
            ring.end();
        }
        pool.unmap();
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        if let Some(ring) = self.0.take() {
            ring.end();
        }
    }
}

/// Who gets the frames of a receive ring. Process context, no locks held, one call
/// at a time.
pub(crate) trait FrameSink: Send + Sync + 'static {
    /// A frame of `len` bytes in `frame`'s buffer; `flags` as `FLAG_*`.
    fn frame(this: &Arc<Self>, frame: Frame, len: usize, flags: u32);
    /// No more frames are at hand.
    fn batch_end(this: &Arc<Self>);
}

/// A receive ring and its buffers. Created stopped.
#[pin_data(PinnedDrop)]
pub(crate) struct RxRing<T: FrameSink> {
    #[pin]
    state: SpinLock<Option<Ring>>,
    pool: FramePool,
    size: u32,
    /// Frames the ring's worker has handed over; only that worker writes it.
    seen: Atomic<u32>,
    /// The same ring for the worker, which outlives nothing of it.
    worker_ring: NonNull<bindings::tb_ring>,
    sink: UnsafeCell<Option<Arc<T>>>,
}

// SAFETY: the sink is written only while the ring does not run; `worker_ring` is
// used only by the ring's own worker.
unsafe impl<T: FrameSink> Send for RxRing<T> {}
// SAFETY: as above.
unsafe impl<T: FrameSink> Sync for RxRing<T> {}

impl<T: FrameSink> RxRing<T> {
    /// Allocates a ring that holds at most `size - 1` frames, and that many buffers.
    /// `moderation_ns`: least time between two interrupts.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when the host interface has no ring or vector to give, `ENOMEM`.
    pub(crate) fn new(
        xd: &Xdomain,
        size: u32,
        tx_hop: i32,
        moderation_ns: u32,
    ) -> Result<(Pin<KBox<Self>>, KVVec<Frame>)> {
        // SAFETY: the host interface is alive; the result is checked.
        let raw = unsafe {
            bindings::u4r_ring_alloc_rx(xd.nhi().as_ptr(), size as i32, tx_hop, moderation_ns)
        };
        let raw = NonNull::new(raw).ok_or(ENOSPC)?;
        let ring = RingGuard(Some(Ring { raw, running: false }));
        let (pool, frames) = FramePool::new(xd.nhi(), size as usize - 1, false)?;
        let mut this = KBox::pin_init(
            pin_init!(Self {
                state <- new_spinlock!(None, "usb4_rdma rx ring"),
                pool,
                size,
                seen: Atomic::new(0),
                worker_ring: raw,
                sink: UnsafeCell::new(None),
            }),
            GFP_KERNEL,
        )?;
        let owner: *const Self = &*this;
        this.as_mut()
            .project()
            .pool
            .attach(owner.cast(), Some(received::<T>));
        *this.state.lock() = ring.into_inner();
        Ok((this, frames))
    }

    /// The ring's number.
    pub(crate) fn hop(&self) -> i32 {
        self.state.lock().as_ref().map_or(-1, Ring::hop)
    }

    /// The buffers.
    #[inline]
    pub(crate) fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// Starts the ring; from now on `sink` gets its frames, and is kept alive until
    /// [`RxRing::end`]. To be called once, before the ring is shared.
    pub(crate) fn start(&self, sink: Arc<T>) {
        let Some(mut ring) = self.state.lock().take() else {
            return;
        };
        if !ring.running {
            // SAFETY: no frame is enqueued yet, so no callback reads it.
            unsafe { *self.sink.get() = Some(sink) };
            ring.start();
        }
        *self.state.lock() = Some(ring);
    }

    /// Gives a buffer to the device. After [`RxRing::end`] it does nothing.
    #[inline]
    pub(crate) fn post(&self, frame: Frame) {
        let state = self.state.lock();
        let (Some(ring), Some(slot)) = (&*state, self.pool.slot(&frame)) else {
            return;
        };
        self.pool.sync_for_device(slot, FRAME_SIZE);
        // SAFETY: the ring is alive, and the token says that the slot is on no list.
        // A failure means that the ring is stopping, and the buffer is not needed.
        unsafe { bindings::u4r_ring_post(ring.raw.as_ptr(), slot.frame.get()) };
    }

    /// The supplemental poll: hands a frame that lies there without an interrupt to
    /// the ring's worker. True if that was needed.
    pub(crate) fn poke(&self) -> bool {
        let state = self.state.lock();
        // SAFETY: alive while it is in `state`.
        state
            .as_ref()
            .is_some_and(|ring| unsafe { bindings::u4r_ring_poke(ring.raw.as_ptr()) })
    }

    /// Waits until callbacks that were queued or running have ended. Only while
    /// nobody ends the ring, and not from a callback.
    pub(crate) fn quiesce(&self) {
        let raw = self.state.lock().as_ref().map(|ring| ring.raw);
        if let Some(raw) = raw {
            // SAFETY: only `end` frees it, and the caller promises that none runs.
            unsafe { bindings::u4r_ring_quiesce(raw.as_ptr()) };
        }
    }

    /// Stops and frees the ring; sleeps until no callback runs, then lets the sink
    /// go, which is returned. Not from a callback.
    pub(crate) fn end(&self) -> Option<Arc<T>> {
        let ring = self.state.lock().take()?;
        ring.end();
        self.pool.unmap();
        // SAFETY: the ring is gone, so no callback reads it, and only one caller
        // got the ring.
        unsafe { (*self.sink.get()).take() }
    }

    fn deliver(&self, slot: NonNull<Slot>) {
        // SAFETY: `start` set it before the first frame, `end` takes it after the last.
        let Some(sink) = (unsafe { &*self.sink.get() }) else {
            return;
        };
        let (mut len, mut flags) = (0, 0);
        // SAFETY: a slot of this pool that the ring has just returned.
        let frame = unsafe {
            bindings::u4r_frame_result(slot.as_ref().frame.get(), &mut len, &mut flags);
            self.pool.sync_for_cpu(slot.as_ref(), len as usize);
            self.pool.returned(slot)
        };
        let next = self.seen.load(Relaxed).wrapping_add(1);
        let seen = if next < self.size { next } else { 0 };
        self.seen.store(seen, Relaxed);
        T::frame(sink, frame, len as usize, flags);
        // The worker moved the tail over the whole batch before the first callback.
        // SAFETY: we are its worker, and it is freed only after the worker ended.
        if seen == unsafe { bindings::u4r_ring_tail(self.worker_ring.as_ptr()) } as u32 {
            T::batch_end(sink);
        }
    }
}

#[pinned_drop]
impl<T: FrameSink> PinnedDrop for RxRing<T> {
    fn drop(self: Pin<&mut Self>) {
        self.end();
    }
}

/// Frees a ring that never got an owner.
struct RingGuard(Option<Ring>);

impl RingGuard {
    fn into_inner(mut self) -> Option<Ring> {
        self.0.take()
    }
}

impl Drop for RingGuard {
    fn drop(&mut self) {
        if let Some(ring) = self.0.take() {
            ring.end();
        }
    }
}

/// # Safety
///
/// Called by the thunderbolt core for frames of slots attached to an `RxRing<T>`.
unsafe extern "C" fn received<T: FrameSink>(
    _ring: *mut bindings::tb_ring,
    frame: *mut bindings::ring_frame,
    canceled: bool,
) {
    if canceled {
        return;
    }
    let slot = frame.cast::<Slot>();
    // SAFETY: `frame` is the first member of the slot, whose owner is the ring, which
    // lives until its callbacks have ended.
    let ring = unsafe { &*(*slot).owner.cast::<RxRing<T>>() };
    if let Some(slot) = NonNull::new(slot) {
        ring.deliver(slot);
    }
}
