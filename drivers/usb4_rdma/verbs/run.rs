// SPDX-License-Identifier: GPL-2.0
//! How queue pairs run: doorbells, received frames, timers, room on a lane.
//!
//! Each of them takes the queue pair's lock, tells the protocol core, and then
//! lets it fill frames while the lane takes them. After the lock, completion
//! queues are notified and events raised. A sender gives the lock up after each
//! burst, so that what arrives meanwhile does not wait for a whole window.
//!
//! Lock order: see qp.rs.

use super::env::Events;
use super::qp::{Inner, Qp};
use super::Device;
use crate::ffi::clock;
use crate::ffi::ib_object::QpEvent;
use crate::ffi::job::Runs;
use crate::proto::env::FrameBuf;
use crate::proto::qp::Room;
use crate::proto::qp_state::QpState;
use crate::proto::status;
use crate::tb::{Kind, RxBuf, Sent};
use kernel::prelude::*;
use kernel::sync::Arc;

/// Frames that are sent under one hold of the lock.
const BURST: usize = 32;
/// Acknowledgements that a queue pair can owe: one for each channel, and a refusal.
const MAX_OWED: usize = 4;
/// Longer than any acknowledgement is delayed.
const LATER_NS: u64 = 1_000_000_000;

impl Qp {
    /// Entries were posted.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair cannot send in its state; nothing was taken.
    pub(crate) fn doorbell(self: &Arc<Self>) -> Result {
        let mut result = Ok(());
        self.work(|inner, _now| {
            let Inner { core, io, .. } = inner;
            match core.state() {
                QpState::Rts => core.notify_sq(),
                QpState::Err => core.flush(io),
                QpState::Reset | QpState::Init | QpState::Rtr => result = Err(EINVAL),
            }
        });
        result
    }

    /// Something changed that may let it send, or have completed something.
    pub(super) fn finish(self: &Arc<Self>) {
        self.work(|_inner, _now| {});
    }

    /// A deadline has passed that the ticker was told.
    pub(super) fn on_tick(self: &Arc<Self>) {
        self.work(|inner, now| {
            inner.armed_ns = u64::MAX;
            if inner
                .core
                .next_deadline()
                .is_some_and(|deadline| deadline <= now)
            {
                let Inner { core, io, .. } = inner;
                core.on_timer(now, io);
            }
        });
    }

    /// Its lane has room again for frames of this kind.
    pub(super) fn on_room(self: &Arc<Self>, kind: Kind) {
        self.work(|inner, _now| inner.waiting[usize::from(kind == Kind::Control)] = false);
    }

    /// The cable is gone: everything fails.
    pub(super) fn on_link_down(self: &Arc<Self>) {
        self.work(|inner, _now| {
            let Inner { core, io, .. } = inner;
            core.flush(io);
        });
    }

    /// Takes a frame. True if the caller must call [`Qp::finish`] at the end of
    /// its batch.
    #[inline]
    pub(super) fn receive(&self, frame: RxBuf, now: u64) -> bool {
        let mut inner = self.inner.lock();
        let Inner {
            core,
            io,
            touched,
            dead,
            ..
        } = &mut *inner;
        if *dead {
            return false;
        }
        io.send.refill();
        core.on_frame(frame, now, io);
        !core::mem::replace(touched, true)
    }

    fn work(self: &Arc<Self>, mut first: impl FnMut(&mut Inner, u64)) {
        let mut fresh = true;
        loop {
            let now = clock::now_ns();
            let mut inner = self.inner.lock();
            if inner.dead {
                return;
            }
            inner.io.send.refill();
            if core::mem::take(&mut fresh) {
                first(&mut inner, now);
                inner.touched = false;
            }
            let more = self.pump(&mut inner, now);
            self.settle(&mut inner);
            let events = core::mem::take(&mut inner.io.events);
            drop(inner);
            self.tell(events);
            if !more {
                return;
            }
        }
    }

    /// The queue pair is about to forget everything. What it has received is
    /// acknowledged first: a program may end as soon as it sees its last
    /// completion, and its peer would take a delivered request for a failed one.
    pub(super) fn acknowledge_all(inner: &mut Inner) {
        // Those that are not due yet go out as well.
        let now = clock::now_ns().saturating_add(LATER_NS);
        let Inner { core, io, lane, .. } = inner;
        let Some(lane) = lane else { return };
        for _ in 0..MAX_OWED {
            if !core.wants_tx(now).control {
                return;
            }
            let sent = lane.send(Kind::Control, |out| {
                core.poll_tx(now, io, Room::Control, out)
            });
            if !matches!(sent, Sent::Sent) {
                return;
            }
        }
    }

    /// Sends a burst. Whether there may be more to send at once.
    fn pump(&self, inner: &mut Inner, now: u64) -> bool {
        let Inner {
            core,
            io,
            lane,
            waiting,
            ..
        } = inner;
        let Some(lane) = lane else { return false };
        let mut room_for_data = true;
        for _ in 0..BURST {
            let wants = core.wants_tx(now);
            // Without room for data, what needs no credit still goes out.
            let data = wants.data && room_for_data;
            if !data && !wants.control {
                return false;
            }
            let (kind, room) = if data {
                (Kind::Data, Room::Data)
            } else {
                (Kind::Control, Room::Control)
            };
            match lane.send(kind, |out| core.poll_tx(now, io, room, out)) {
                Sent::Sent => continue,
                Sent::Nothing | Sent::Down => return false,
                Sent::NoRoom => {}
            }
            let place = &mut waiting[usize::from(!data)];
            if !core::mem::replace(place, true) {
                lane.wait(self.number, kind);
            }
            if !data {
                return false;
            }
            room_for_data = false;
        }
        true
    }

    /// What follows from what the core did: failure by overrun, its next timer.
    fn settle(self: &Arc<Self>, inner: &mut Inner) {
        if inner.io.overrun && inner.core.state() != QpState::Err {
            let Inner { core, io, .. } = inner;
            core.flush(io);
        }
        if let Some(deadline) = inner.core.next_deadline() {
            if deadline < inner.armed_ns {
                let known = inner.armed_ns != u64::MAX;
                inner.armed_ns = deadline;
                self.device.arm(self, deadline, known);
            }
        }
    }

    /// Notifies and raises, with no lock held.
    fn tell(&self, events: Events) {
        self.send_cq.notify();
        if !Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.recv_cq.notify();
        }
        if let Some(srq) = &self.srq {
            srq.notify();
        }
        if events.last_wqe() {
            self.target().event(QpEvent::LastWqe);
        }
        events.each(|event| {
            self.target().event(match event {
                status::QpEvent::CommEst => QpEvent::Established,
                status::QpEvent::AccessErr => QpEvent::AccessError,
                status::QpEvent::ReqErr => QpEvent::RequestError,
                status::QpEvent::Fatal => QpEvent::Fatal,
            });
        });
    }
}

impl Runs for Qp {
    /// A kernel user posted.
    fn run(this: &Arc<Self>) {
        // A kernel user may post before it may send; going to RTS looks again.
        let _ = this.doorbell();
    }
}

/// Queue pairs that one batch of received frames has touched, each once.
pub(crate) struct Batch {
    touched: [Option<Arc<Qp>>; Self::SIZE],
    count: usize,
    /// The queue pair of the last frame: mostly that of the next, too.
    last: Option<Arc<Qp>>,
    now: u64,
    frames: u32,
}

impl Batch {
    const SIZE: usize = 32;
    /// Frames after which a long batch is finished in part.
    const PART: u32 = 32;

    /// An empty batch; one for each drainer.
    pub(crate) const fn new() -> Self {
        Self {
            touched: [const { None }; Self::SIZE],
            count: 0,
            last: None,
            now: 0,
            frames: 0,
        }
    }

    /// Takes a received DATA or ACK frame. False if its queue pair does not exist.
    pub(crate) fn deliver(&mut self, device: &Device, frame: RxBuf) -> bool {
        // The clock is read for every eighth frame: its resolution is ample.
        if self.frames % 8 == 0 {
            self.now = clock::now_ns();
        }
        self.frames = self.frames.wrapping_add(1);
        let qpn = frame.header().dst_qpn;
        if !self.last.as_ref().is_some_and(|qp| qp.number == qpn) {
            self.last = device.qp(qpn);
        }
        let Some(qp) = &self.last else { return false };
        if qp.receive(frame, self.now) {
            if let Some(place) = self.touched.get_mut(self.count) {
                *place = Some(qp.clone());
                self.count += 1;
            } else {
                qp.finish();
            }
        }
        // A ring may come full at once: its sender must not wait for all of it.
        if self.frames % Self::PART == 0 {
            self.finish();
        }
        true
    }

    /// The end of the batch.
    pub(crate) fn end(&mut self) {
        self.finish();
        self.frames = 0;
        self.last = None;
    }

    /// Acknowledgements go out, senders go on, completion queues are notified.
    fn finish(&mut self) {
        for place in self.touched.iter_mut().take(self.count) {
            if let Some(qp) = place.take() {
                qp.finish();
            }
        }
        self.count = 0;
    }
}
