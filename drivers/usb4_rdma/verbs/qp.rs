// SPDX-License-Identifier: GPL-2.0
//! Queue pairs: making them, their attributes, their end. How they run: run.rs.
//!
//! Lock order: `attrs` (may sleep) -> QP (`inner`) -> SRQ -> CQ -> lane TX -> lane RX
//! pool; `post` (interrupts off, kernel users only) stands alone. Completion
//! queues are notified and events raised with none of them held.

use super::env::{Events, Io};
use super::mr::Access;
use super::recv_queue::{RecvQueue, Source};
use super::recv_ring::RecvRing;
use super::send_queue::SendQueue;
use super::{limits, Cq, Device, Pd, Srq};
use crate::ffi::abi::{RQE_BYTES, SQE_BYTES};
use crate::ffi::bindings as c;
use crate::ffi::ib_context::Mapping;
use crate::ffi::ib_object::Target;
use crate::ffi::ib_qp::Address;
use crate::ffi::job::Job;
use crate::ffi::lock::{new_irqlock, IrqLock};
use crate::ffi::ring::Ring;
use crate::ffi::{clock, proto_qp};
use crate::proto::qp::{Qp as Core, Tuning};
use crate::proto::qp_state::{QpAttrs, QpKind, QpState};
use crate::proto::MAX_INFLIGHT;
use crate::tb::{Lane, RxBuf};
use kernel::alloc::KVBox;
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex, SetOnce, SpinLock};

/// Sizes of the queues.
#[derive(Clone, Copy)]
pub(crate) struct Caps {
    /// Entries of the send queue.
    pub(crate) send_wr: u32,
    /// Entries of the receive queue.
    pub(crate) recv_wr: u32,
    /// Scatter entries of a send entry.
    pub(crate) send_sge: u32,
    /// Scatter entries of a receive entry.
    pub(crate) recv_sge: u32,
    /// Bytes of inline data.
    pub(crate) inline: u32,
}

/// What a queue pair is made from.
pub(crate) struct QpInit {
    pub(crate) kind: QpKind,
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    /// Where receive entries come from; none: from a queue of its own.
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) caps: Caps,
    /// Every request completes visibly.
    pub(crate) signal_all: bool,
    /// The user is in the kernel.
    pub(crate) kernel: bool,
    /// The ib_qp, for the completions of a kernel user.
    pub(crate) owner: usize,
}

/// The memory of the two queues.
pub(crate) struct Rings {
    pub(crate) send: Arc<Ring>,
    /// None with a shared receive queue.
    pub(crate) recv: Option<Arc<Ring>>,
}

impl QpInit {
    /// Makes rings for at least what `caps` asks; `caps` then says what there is.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the limits, `ENOMEM`.
    pub(crate) fn rings(&mut self) -> Result<Rings> {
        let shared = self.srq.is_some();
        let caps = &mut self.caps;
        if shared {
            // What is said of the receive queue is ignored.
            (caps.recv_wr, caps.recv_sge) = (0, 0);
        }
        let fits = caps.send_wr <= limits::MAX_QP_WR
            && caps.recv_wr <= limits::MAX_QP_WR
            && caps.send_sge <= limits::MAX_SGE
            && caps.recv_sge <= limits::MAX_SGE
            && caps.inline <= limits::MAX_INLINE;
        if !fits {
            return Err(EINVAL);
        }
        caps.send_wr = caps.send_wr.max(1).next_power_of_two();
        caps.send_sge = caps.send_sge.max(1);
        let sge = size_of::<c::u4r_sge>() as u32;
        let payload = (caps.send_sge * sge).max(caps.inline);
        let send_stride = (SQE_BYTES + payload).next_multiple_of(64);
        // Whatever the padding leaves is inline room too.
        caps.inline = (send_stride - SQE_BYTES).min(limits::MAX_INLINE);
        let send = Arc::new(Ring::new(caps.send_wr, send_stride)?, GFP_KERNEL)?;
        let recv = if shared {
            None
        } else {
            caps.recv_wr = caps.recv_wr.max(1).next_power_of_two();
            caps.recv_sge = caps.recv_sge.max(1);
            let stride = RQE_BYTES + caps.recv_sge * sge;
            Some(Arc::new(Ring::new(caps.recv_wr, stride)?, GFP_KERNEL)?)
        };
        Ok(Rings { send, recv })
    }
}

/// Attributes, each if it is given (modify) or known (query). Units of verbs.
#[derive(Default)]
pub(crate) struct QpAttr {
    /// The address is one of this device's own.
    pub(crate) local: Option<bool>,
    pub(crate) address: Option<Address>,
    pub(crate) access: Option<u32>,
    pub(crate) path_mtu: Option<u32>,
    pub(crate) timeout: Option<u8>,
    pub(crate) retry_cnt: Option<u8>,
    pub(crate) rnr_retry: Option<u8>,
    pub(crate) min_rnr_timer: Option<u8>,
    pub(crate) rq_psn: Option<u32>,
    pub(crate) sq_psn: Option<u32>,
    pub(crate) dest_qpn: Option<u32>,
    pub(crate) rd_atomic: Option<u8>,
    pub(crate) dest_rd_atomic: Option<u8>,
    pub(crate) port: Option<u32>,
}

impl QpAttr {
    fn core(&self, state: QpState) -> QpAttrs {
        QpAttrs {
            state,
            dest_qpn: self.dest_qpn,
            rq_psn: self.rq_psn,
            sq_psn: self.sq_psn,
            max_rd_atomic: self.rd_atomic,
            max_dest_rd_atomic: self.dest_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
        }
    }

    /// Takes over what `change` gives.
    fn learn(&mut self, change: Self) {
        macro_rules! take {
            ($($field:ident)*) => { $(if change.$field.is_some() { self.$field = change.$field; })* };
        }
        take!(local address access path_mtu timeout retry_cnt rnr_retry min_rnr_timer
              rq_psn sq_psn dest_qpn rd_atomic dest_rd_atomic port);
    }
}

/// What the queue pair's lock protects.
pub(super) struct Inner {
    pub(super) core: KVBox<Core<RxBuf>>,
    pub(super) io: Io,
    pub(super) lane: Option<Arc<Lane>>,
    /// On the list of those that the batch at hand has to run.
    pub(super) touched: bool,
    /// On the waiting lists of its lane, for data and for control frames.
    pub(super) waiting: [bool; 2],
    /// When the ticker will look at it; `u64::MAX` if it does not know it.
    pub(super) armed_ns: u64,
    /// Destroyed: nothing may start any more.
    pub(super) dead: bool,
}

/// What `attrs` protects.
struct Known {
    attr: QpAttr,
    /// The rings as the program may map them; gone once the queue pair is.
    mappings: Option<(Mapping, Option<Mapping>)>,
}

/// Where a kernel user posts next.
pub(super) struct Post {
    pub(super) send_prod: u32,
    pub(super) recv_prod: u32,
}

/// A queue pair.
#[pin_data]
pub(crate) struct Qp {
    pub(super) number: u32,
    pub(super) device: Arc<Device>,
    kernel: bool,
    pub(super) caps: Caps,
    signal_all: bool,
    pub(super) rings: Rings,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    pub(super) srq: Option<Arc<Srq>>,
    /// Runs the queue pair for a kernel user, who may post in any context.
    pub(super) job: SetOnce<Job<Qp>>,
    #[pin]
    attrs: Mutex<Known>,
    #[pin]
    pub(super) inner: SpinLock<Inner>,
    #[pin]
    pub(super) post: IrqLock<Post>,
    #[pin]
    target: Target<c::ib_qp>,
}

impl Qp {
    /// Makes a queue pair in RESET and gives it a number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also beyond the device's limit.
    pub(crate) fn new(
        init: QpInit,
        rings: Rings,
        mappings: Option<(Mapping, Option<Mapping>)>,
        target: impl PinInit<Target<c::ib_qp>>,
    ) -> Result<Arc<Self>> {
        let device = init.pd.device().clone();
        let reserved = device.reserve_qpn()?;
        let number = reserved.number();
        let mut core = proto_qp::new::<RxBuf>()?;
        let tuning = Tuning {
            ack_delay_ns: u64::from(crate::ffi::params::ack_delay_us()) * 1000,
            max_held: device.max_held(),
        };
        core.setup(number, init.kind, tuning);
        let inner = Inner {
            core,
            io: Self::io(&init, &rings, number)?,
            lane: None,
            touched: false,
            waiting: [false; 2],
            armed_ns: u64::MAX,
            dead: false,
        };
        let qp = Arc::pin_init(
            pin_init!(Self {
                number,
                device,
                kernel: init.kernel,
                caps: init.caps,
                signal_all: init.signal_all,
                rings,
                send_cq: init.send_cq.clone(),
                recv_cq: init.recv_cq.clone(),
                srq: init.srq.clone(),
                job: SetOnce::new(),
                attrs <- kernel::new_mutex!(
                    Known { attr: QpAttr::default(), mappings },
                    "u4r_qp_attrs"
                ),
                inner <- kernel::new_spinlock!(inner, "u4r_qp"),
                post <- new_irqlock!(Post { send_prod: 0, recv_prod: 0 }, "u4r_qp_post"),
                target <- target,
            }),
            GFP_KERNEL,
        )?;
        reserved.publish(&qp)?;
        if qp.kernel {
            match Job::new::<0>(qp.device.work_queue(), qp.clone()) {
                Ok(job) => qp.job.populate(job),
                Err(error) => {
                    qp.destroy();
                    return Err(error);
                }
            };
        }
        Ok(qp)
    }

    fn io(init: &QpInit, rings: &Rings, number: u32) -> Result<Io> {
        let caps = &init.caps;
        let (source, recv_sge, recv_pdn) = match (&init.srq, &rings.recv) {
            (Some(srq), _) => (Source::Shared(srq.clone()), srq.caps().sge, srq.pdn()),
            (None, Some(ring)) => {
                let ring = RecvRing::new(ring.clone(), caps.recv_sge);
                (Source::Own(ring), caps.recv_sge, init.pd.pdn())
            }
            (None, None) => return Err(EINVAL),
        };
        Ok(Io {
            qpn: number,
            dest_qpn: 0,
            access: Access::of_qp(0),
            owner: if init.kernel { init.owner } else { 0 },
            signal_all: init.signal_all,
            pd: init.pd.clone(),
            send_cq: init.send_cq.clone(),
            recv_cq: init.recv_cq.clone(),
            send: SendQueue::new(
                rings.send.clone(),
                init.kind,
                caps.send_sge,
                caps.inline,
                MAX_INFLIGHT,
            )?,
            recv: RecvQueue::new(source, recv_sge)?,
            recv_pdn,
            last_wqe_told: false,
            events: Events::default(),
            overrun: false,
        })
    }

    /// Its number, 24 bits.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// What was made, at least what was asked for.
    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Every request completes visibly.
    pub(crate) fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// The user is in the kernel.
    pub(crate) fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// Whom events are for.
    pub(crate) fn target(&self) -> &Target<c::ib_qp> {
        &self.target
    }

    /// Ends it: what it held is released, nothing completes any more. May sleep.
    pub(crate) fn destroy(self: Arc<Self>) {
        self.device.forget_qp(&self);
        let lane = {
            let mut inner = self.inner.lock();
            Self::acknowledge_all(&mut inner);
            inner.dead = true;
            let Inner { core, io, lane, .. } = &mut *inner;
            core.reset();
            io.events = Events::default();
            self.device.keep_counters(core.counters());
            lane.take()
        };
        if let Some(job) = self.job.as_ref() {
            job.stop();
        }
        drop(lane);
        // The context must not outlive its mappings.
        let mappings = self.attrs.lock().mappings.take();
        drop(mappings);
    }

    /// Changes state and attributes. `assumed`: the state that the caller takes
    /// it to be in; `next`: where to go; `allowed(from, to)`: the core's table.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a transition or attribute that is not allowed, or another
    /// state than assumed.
    pub(crate) fn modify(
        self: &Arc<Self>,
        assumed: Option<QpState>,
        next: Option<QpState>,
        change: QpAttr,
        allowed: impl Fn(QpState, QpState) -> bool,
    ) -> Result {
        let mut known = self.attrs.lock();
        let result = self.change(assumed, next, &change, allowed);
        if result.is_ok() {
            if next == Some(QpState::Reset) {
                known.attr = QpAttr::default();
            } else {
                known.attr.learn(change);
            }
        }
        drop(known);
        self.finish();
        result
    }

    fn change(
        &self,
        assumed: Option<QpState>,
        next: Option<QpState>,
        change: &QpAttr,
        allowed: impl Fn(QpState, QpState) -> bool,
    ) -> Result {
        let mut inner = self.inner.lock();
        if matches!(next, Some(QpState::Err | QpState::Reset)) {
            Self::acknowledge_all(&mut inner);
        }
        let Inner { core, io, lane, .. } = &mut *inner;
        let from = core.state();
        let to = next.unwrap_or(from);
        if assumed.is_some_and(|assumed| assumed != from) || !allowed(from, to) {
            return Err(EINVAL);
        }
        if change.port.is_some_and(|port| port != 1) {
            return Err(EINVAL);
        }
        io.send.refill();
        core.modify(&change.core(to), clock::now_ns(), io)
            .map_err(|_| EINVAL)?;
        if let Some(access) = change.access {
            io.access = Access::of_qp(access);
        }
        if let Some(qpn) = change.dest_qpn {
            io.dest_qpn = qpn;
        }
        if let Some(local) = change.local {
            *lane = self.device.choose_lane(self.number, local);
        }
        if to == QpState::Reset {
            io.send.reset();
            io.recv.reset();
            (io.overrun, io.last_wqe_told) = (false, false);
            *lane = None;
        }
        Ok(())
    }

    /// Calls `tell` with the state and the attributes known.
    pub(crate) fn query(&self, tell: impl FnOnce(QpState, &QpAttr)) {
        let known = self.attrs.lock();
        let state = self.inner.lock().core.state();
        tell(state, &known.attr);
    }
}
