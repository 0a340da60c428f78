// SPDX-License-Identifier: GPL-2.0

//! A received frame as one owned pointer: the protocol core keeps hundreds of them
//! for each queue pair, so they must be small.

use super::tb_frames::{Frame, FramePool};
use crate::proto::env::FrameBuf;
use crate::proto::wire::Header;
use crate::proto::HEADER_BYTES;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Where frames come from and where their buffers go back to.
pub(crate) trait Owner: Send + Sync + Sized + 'static {
    /// The places for frames that were handed out, one for each buffer.
    fn entries(&self) -> &Entries<Self>;
    /// The buffers.
    fn pool(&self) -> &FramePool;
    /// May one more frame be held? True counts it.
    fn may_hold(&self) -> bool;
    /// A buffer is free again; `held`: it was counted by `may_hold`.
    fn give_back(&self, frame: Frame, held: bool);
}

/// A frame that was handed out.
struct Entry<T> {
    header: Header,
    frame: Frame,
    owner: Arc<T>,
    held: bool,
}

/// A place for each buffer's frame.
pub(crate) struct Entries<T>(KVVec<UnsafeCell<MaybeUninit<Entry<T>>>>);

// SAFETY: a place is reached only with its buffer's token, of which there is one.
unsafe impl<T: Send + Sync> Send for Entries<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Entries<T> {}

impl<T> Entries<T> {
    /// Places for a pool of `count` buffers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut places = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            places.push(UnsafeCell::new(MaybeUninit::uninit()), GFP_KERNEL)?;
        }
        Ok(Self(places))
    }
}

/// A received frame with a checked header. Dropping it gives the buffer, and with
/// it the credit, back to its owner; it keeps the owner's memory alive.
pub(crate) struct Received<T: Owner>(NonNull<Entry<T>>);

// SAFETY: owns its entry alone, and everything in that may be sent.
unsafe impl<T: Owner> Send for Received<T> {}
// SAFETY: shared references only read.
unsafe impl<T: Owner> Sync for Received<T> {}

impl<T: Owner> Received<T> {
    /// A frame of `owner` whose header was read from `frame`'s buffer. None if the
    /// buffer is not the owner's.
    #[inline]
    pub(crate) fn new(owner: &Arc<T>, frame: Frame, header: Header) -> Option<Self> {
        let place = owner.entries().0.get(usize::from(frame.index()))?;
        let entry = place.get().cast::<Entry<T>>();
        // SAFETY: we have the token, so nobody else uses the place; it lives as long
        // as the owner, to which the entry itself holds a reference.
        unsafe {
            entry.write(Entry {
                header,
                frame,
                owner: owner.clone(),
                held: false,
            });
            Some(Self(NonNull::new_unchecked(entry)))
        }
    }

    fn entry(&self) -> &Entry<T> {
        // SAFETY: written in `new`, ours until `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Owner> FrameBuf for Received<T> {
    fn header(&self) -> &Header {
        &self.entry().header
    }

    fn payload(&self) -> &[u8] {
        let entry = self.entry();
        let len = HEADER_BYTES + usize::from(entry.header.payload_len);
        let frame = entry.owner.pool().bytes(&entry.frame, len);
        frame.get(HEADER_BYTES..).unwrap_or(&[])
    }

    fn try_hold(&mut self) -> bool {
        // SAFETY: written in `new`, ours alone.
        let entry = unsafe { self.0.as_mut() };
        if !entry.held {
            entry.held = entry.owner.may_hold();
        }
        entry.held
    }
}

impl<T: Owner> Drop for Received<T> {
    fn drop(&mut self) {
        // SAFETY: written in `new`; the place is not used again before its token,
        // which is read out here, comes back.
        let entry = unsafe { self.0.as_ptr().read() };
        entry.owner.give_back(entry.frame, entry.held);
    }
}
