// SPDX-License-Identifier: GPL-2.0
//! Shared receive queues: one ring of receive entries for many queue pairs.
//!
//! Programs post into the mapped ring, as into a queue pair's own; nobody needs
//! to be told, because a sender that met no entry tries again by itself.
//!
//! Lock order: QP -> SRQ (`state`) and nothing under it; `post` (interrupts off,
//! kernel users only) stands alone. Events are raised with none of them held.

use super::post::{self, RecvPost};
use super::recv_ring::{Received, RecvEntry, RecvRing};
use super::{limits, Pd};
use crate::ffi::abi::{Sge, RQE_BYTES};
use crate::ffi::bindings as c;
use crate::ffi::ib_context::Mapping;
use crate::ffi::ib_object::{unsupported, Target};
use crate::ffi::lock::{new_irqlock, IrqLock};
use crate::ffi::ring::Ring;
use crate::proto::status::WcStatus;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex, SpinLock};

/// Sizes of a shared receive queue.
#[derive(Clone, Copy)]
pub(crate) struct SrqCaps {
    /// Entries.
    pub(crate) wr: u32,
    /// Scatter entries of an entry.
    pub(crate) sge: u32,
    /// With fewer entries than this left the program is told, once; 0: never.
    pub(crate) limit: u32,
}

struct State {
    ring: RecvRing,
    limit: u32,
}

/// See the module.
#[pin_data(PinnedDrop)]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    /// Scatter entries of an entry.
    sge: u32,
    /// Where a kernel user's entries go; a program posts by itself.
    kernel: Option<Arc<Ring>>,
    /// Fewer entries are left than the limit, which is to be told.
    limit_due: Atomic<u32>,
    /// The ring is corrupt, which is to be told.
    error_due: Atomic<u32>,
    #[pin]
    mapping: Mutex<Option<Mapping>>,
    #[pin]
    state: SpinLock<State>,
    /// Where a kernel user posts next.
    #[pin]
    post: IrqLock<u32>,
    #[pin]
    target: Target<c::ib_srq>,
}

impl Srq {
    /// Makes a ring for at least what `caps` asks; `caps` then says what there is.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the limits or without entries, `ENOMEM`.
    pub(crate) fn ring(caps: &mut SrqCaps) -> Result<Arc<Ring>> {
        let fits = (1..=limits::MAX_SRQ_WR).contains(&caps.wr)
            && caps.sge <= limits::MAX_SGE
            && caps.limit <= caps.wr;
        if !fits {
            return Err(EINVAL);
        }
        caps.wr = caps.wr.next_power_of_two();
        caps.sge = caps.sge.max(1);
        let stride = RQE_BYTES + caps.sge * size_of::<Sge>() as u32;
        Ok(Arc::new(Ring::new(caps.wr, stride)?, GFP_KERNEL)?)
    }

    /// # Errors
    ///
    /// `ENOMEM`, also beyond the device's limit.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        caps: SrqCaps,
        ring: Arc<Ring>,
        mapping: Option<Mapping>,
        target: impl PinInit<Target<c::ib_srq>>,
    ) -> Result<Arc<Self>> {
        pd.device().srqs.take(limits::MAX_SRQ)?;
        let kernel = mapping.is_none().then(|| ring.clone());
        let state = State {
            ring: RecvRing::new(ring, caps.sge),
            limit: caps.limit,
        };
        let made = Arc::pin_init(
            pin_init!(Self {
                pd: pd.clone(),
                sge: caps.sge,
                kernel,
                limit_due: Atomic::new(0),
                error_due: Atomic::new(0),
                mapping <- kernel::new_mutex!(mapping, "u4r_srq_mapping"),
                state <- kernel::new_spinlock!(state, "u4r_srq"),
                post <- new_irqlock!(0, "u4r_srq_post"),
                target <- target,
            }),
            GFP_KERNEL,
        );
        if made.is_err() {
            pd.device().srqs.give_back();
        }
        made
    }

    /// What was made; the limit is that of the moment, 0 once the event is out.
    pub(crate) fn caps(&self) -> SrqCaps {
        let state = self.state.lock();
        SrqCaps {
            wr: state.ring.entries(),
            sge: self.sge,
            limit: state.limit,
        }
    }

    /// The domain that the memory of its entries belongs to.
    pub(super) fn pdn(&self) -> u32 {
        self.pd.pdn()
    }

    /// Sets the limit, for one event.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there can never be so many entries.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        let mut state = self.state.lock();
        if limit > state.ring.entries() {
            return Err(EINVAL);
        }
        state.limit = limit;
        self.check_limit(&mut state);
        drop(state);
        self.notify();
        Ok(())
    }

    /// Goes over to another ring, made by [`Srq::ring`] for the same scatter lists.
    ///
    /// # Errors
    ///
    /// `EINVAL` if what waits, or the limit, has no room there; `EOPNOTSUPP` for a
    /// kernel user.
    pub(crate) fn resize(&self, ring: Arc<Ring>, mapping: Mapping) -> Result {
        if self.kernel.is_some() {
            return Err(unsupported());
        }
        let mut state = self.state.lock();
        if state.limit > ring.entries() {
            return Err(EINVAL);
        }
        let old = state.ring.change_ring(ring)?;
        drop(state);
        drop(old);
        let old = self.mapping.lock().replace(mapping);
        drop(old);
        Ok(())
    }

    fn check_limit(&self, state: &mut State) {
        if state.limit != 0 && state.ring.waiting() < state.limit {
            state.limit = 0;
            self.limit_due.store(1, Relaxed);
        }
    }

    /// Takes the oldest entry. Under a queue pair's lock.
    pub(super) fn take(&self, entry: &mut RecvEntry) -> Received {
        let mut state = self.state.lock();
        if state.ring.is_corrupt() {
            // Each queue pair that needs an entry fails: none will ever come.
            return Received::Bad(WcStatus::LocQpOpErr);
        }
        let received = state.ring.take(entry);
        if state.ring.is_corrupt() {
            self.error_due.store(1, Relaxed);
        } else if !matches!(received, Received::Nothing) {
            self.check_limit(&mut state);
        }
        received
    }

    /// Raises what has become due. Call it without any lock.
    #[inline]
    pub(super) fn notify(&self) {
        let take = |due: &Atomic<u32>| due.load(Relaxed) != 0 && due.xchg(0, Relaxed) != 0;
        if take(&self.limit_due) {
            self.target.limit_reached();
        }
        if take(&self.error_due) {
            self.target.failed();
        }
    }

    /// Puts a receive request of a kernel user into the ring.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the queue is full, `EINVAL` for too long a scatter list,
    /// `EOPNOTSUPP` for a program's queue, whose entries come by its ring.
    pub(crate) fn post_recv(&self, request: &RecvPost<'_>) -> Result {
        let ring = self.kernel.as_ref().ok_or_else(unsupported)?;
        let mut prod = self.post.lock();
        *prod = post::put_recv(ring, *prod, request, self.sge)?;
        Ok(())
    }

    /// Ends it: no events any more, the program cannot map it any more.
    pub(crate) fn destroy(&self) {
        self.target.close();
        let mapping = self.mapping.lock().take();
        drop(mapping);
    }
}

#[pinned_drop]
impl PinnedDrop for Srq {
    fn drop(self: Pin<&mut Self>) {
        self.pd.device().srqs.give_back();
    }
}
