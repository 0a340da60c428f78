// SPDX-License-Identifier: GPL-2.0

//! A lane: one transmit and one receive ring with their HopIDs, buffers and
//! credits, or the way back to this same device (loopback.rs).
//!
//! Lock order: (queue pair ->) `waiters`; (queue pair ->) `tx` -> `rx`, then the
//! thunderbolt core's ring locks. All are taken in process context only.

use super::link::Link;
use super::loopback::Loopback;
use super::waiters::Waiters;
use crate::ffi::clock::now_ns;
use crate::ffi::tb_frames::{Frame, FramePool};
use crate::ffi::tb_ring::{RxRing, TxRing};
use crate::ffi::tb_rxbuf::{Entries, Received};
use crate::ffi::tb_xdomain::{InHop, OutHop, Paths};
use crate::proto::counters::{BadFrames, LaneCounters};
use crate::proto::credit::{self, LaneRx, LaneTx};
use crate::proto::wire::{self, lane_op, Header};
use crate::proto::HEADER_BYTES;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A received frame of a lane.
pub(crate) type RxBuf = Received<Lane>;

/// What a frame is to the lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Needs credit, and leaves some buffers for the other kind.
    Data,
    /// Acknowledgements and the lane's own frames: no credit, they may be lost.
    Control,
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// It is on its way.
    Sent,
    /// There was nothing to send.
    Nothing,
    /// No buffer or no credit: see [`Lane::wait`].
    NoRoom,
    /// The lane is closed for good.
    Down,
}

/// Transmit buffers that only control frames may take, of a ring of `size`.
const fn control_reserve(size: u32) -> usize {
    let share = size / 16;
    (if share < 4 { 4 } else { share }) as usize
}

/// Most queue pairs that can wait: all that a device has.
const MAX_WAITERS: usize = crate::verbs::limits::MAX_QP as usize;

/// The transmit side.
pub(super) struct Tx {
    /// None on the loopback lane.
    pub(super) ring: Option<TxRing>,
    pub(super) free: KVVec<Frame>,
    /// None on the loopback lane: its buffers are its credit.
    pub(super) credit: Option<LaneTx>,
    /// Data frames that are being built, and have been promised credit.
    building: u32,
    open: bool,
    in_flight: u32,
    pub(super) counters: LaneCounters,
}

/// The receive side.
pub(super) struct Rx {
    pub(super) credit: LaneRx,
    /// The limit that the peer said last.
    pub(super) peer_limit: Option<u32>,
    /// Early frames that queue pairs hold.
    pub(super) held: u32,
    pub(super) counters: LaneCounters,
    pub(super) bad: BadFrames,
}

/// How frames come in.
pub(super) enum Port {
    Ring(Pin<KBox<RxRing<Lane>>>),
    Loop(Loopback),
}

/// What a lane holds of the XDomain, in the order in which it is let go.
pub(super) struct Hops {
    pub(super) paths: Option<Paths>,
    pub(super) _out: OutHop,
    pub(super) _inward: InHop,
}

/// See the module.
#[pin_data]
pub(crate) struct Lane {
    number: u8,
    size: u32,
    link: Arc<Link>,
    pub(super) pool: FramePool,
    pub(super) port: Port,
    pub(super) entries: Entries<Lane>,
    #[pin]
    pub(super) tx: SpinLock<Tx>,
    #[pin]
    pub(super) rx: SpinLock<Rx>,
    /// For data, and for control frames.
    #[pin]
    waiters: SpinLock<[Waiters; 2]>,
    waiting: Atomic<u32>,
    #[pin]
    hops: SpinLock<Option<Hops>>,
}

/// What a lane is made of.
pub(super) struct Parts {
    pub(super) number: u8,
    /// Descriptors in each ring.
    pub(super) size: u32,
    pub(super) ring: Option<TxRing>,
    /// The transmit buffers and their tokens.
    pub(super) pool: FramePool,
    pub(super) free: KVVec<Frame>,
    pub(super) port: Port,
    pub(super) credit: Option<LaneTx>,
}

impl Lane {
    /// A lane that is open to senders but not yet started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(link: &Arc<Link>, parts: Parts) -> Result<Arc<Self>> {
        let buffers = parts.size - 1;
        let entries = Entries::new(buffers as usize)?;
        let waiters = [Waiters::new(MAX_WAITERS)?, Waiters::new(MAX_WAITERS)?];
        let tx = Tx {
            ring: parts.ring,
            free: parts.free,
            credit: parts.credit,
            building: 0,
            open: true,
            in_flight: 0,
            counters: LaneCounters::ZERO,
        };
        let rx = Rx {
            credit: LaneRx::new(buffers),
            peer_limit: None,
            held: 0,
            counters: LaneCounters::ZERO,
            bad: BadFrames::default(),
        };
        let link = link.clone();
        let init = pin_init!(Self {
            number: parts.number,
            size: parts.size,
            link,
            pool: parts.pool,
            port: parts.port,
            entries,
            tx <- new_spinlock!(tx, "usb4_rdma lane tx"),
            rx <- new_spinlock!(rx, "usb4_rdma lane rx"),
            waiters <- new_spinlock!(waiters, "usb4_rdma lane waiters"),
            waiting: Atomic::new(0),
            hops <- new_spinlock!(None, "usb4_rdma lane hops"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Its number on the link; 255 for loopback.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// The link it belongs to.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Does it lead back to this device?
    #[allow(dead_code)]
    pub(crate) fn is_loop(&self) -> bool {
        matches!(self.port, Port::Loop(_))
    }

    /// Early frames that one queue pair may hold.
    pub(crate) fn max_held_by_qp(&self) -> u32 {
        credit::max_held_by_qp(self.size)
    }

    /// Early frames that all queue pairs together may hold.
    pub(super) fn max_held(&self) -> u32 {
        credit::max_held_by_lane(self.size)
    }

    /// Sends one frame. `build` writes header and payload into a 4 KiB buffer and
    /// gives the length, or None if there is nothing to send; the lane adds its
    /// number, credit and CRC. Takes no lock while it builds.
    #[inline]
    pub(crate) fn send(&self, kind: Kind, build: impl FnOnce(&mut [u8]) -> Option<usize>) -> Sent {
        let mut frame = match self.take_buffer(kind) {
            Ok(frame) => frame,
            Err(why) => return why,
        };
        let built = build(self.pool.bytes_mut(&mut frame));
        match built {
            Some(len) if (HEADER_BYTES..=crate::proto::FRAME_BYTES).contains(&len) => {
                self.transmit(kind, frame, len)
            }
            _ => {
                let mut tx = self.tx.lock();
                tx.promise_back(kind);
                tx.put(frame);
                Sent::Nothing
            }
        }
    }

    /// Asks that the queue pair be run when there is room for frames of this kind.
    /// At most once for each queue pair and kind until it has been run.
    pub(crate) fn wait(&self, qpn: u32, kind: Kind) {
        let fits = {
            let mut waiters = self.waiters.lock();
            waiters[kind as usize].push(qpn)
        };
        if !fits {
            kernel::pr_warn_once!("more queue pairs wait for a lane than can exist\n");
            return;
        }
        self.waiting.fetch_add(1, Relaxed);
        // Room that came after the caller looked would call nobody: look again.
        if self.room(kind) {
            self.link.run_now();
        } else {
            self.link.touch();
        }
    }

    /// Is there room for a frame of this kind? Takes back what has been sent.
    pub(crate) fn room(&self, kind: Kind) -> bool {
        let mut tx = self.tx.lock();
        tx.open && self.has_buffer(&mut tx, kind) && (kind == Kind::Control || tx.has_credit())
    }

    /// Runs queue pairs that wait, as long as there is room, each at most once.
    pub(super) fn run_waiters(this: &Arc<Self>) {
        if this.waiting.load(Relaxed) == 0 {
            return;
        }
        let Some(device) = this.link.device() else {
            return;
        };
        for kind in [Kind::Control, Kind::Data] {
            let mut left = this.waiters.lock()[kind as usize].len();
            while left > 0 && this.room(kind) {
                let Some(qpn) = this.waiters.lock()[kind as usize].pop() else {
                    break;
                };
                this.waiting.fetch_sub(1, Relaxed);
                left -= 1;
                device.lane_has_room(qpn, kind);
            }
        }
    }

    /// Does anything depend on a frame or an interrupt that may never come?
    pub(super) fn is_busy(&self) -> bool {
        self.waiting.load(Relaxed) != 0 || self.tx.lock().in_flight != 0
    }

    /// What the ticker does for a lane: takes back buffers, finds stranded frames,
    /// asks for credit. Gives the time of the next credit probe.
    pub(super) fn tick(this: &Arc<Self>, now: u64) -> Option<u64> {
        if let Port::Ring(ring) = &this.port {
            if ring.poke() {
                this.rx.lock().counters.rx_polled += 1;
            }
        }
        let (ask, next) = {
            let mut tx = this.tx.lock();
            this.reap(&mut tx);
            match &mut tx.credit {
                Some(credit) => (credit.probe_due(now), credit.probe_deadline()),
                None => (false, None),
            }
        };
        if ask {
            this.send_own(lane_op::PROBE);
        }
        this.update_if_due();
        Self::run_waiters(this);
        next
    }

    /// Tells the peer of free buffers if that is due.
    pub(super) fn update_if_due(&self) {
        if !self.is_loop() && self.rx.lock().credit.update_due() {
            self.send_own(lane_op::UPDATE);
        }
    }

    fn send_own(&self, opcode: u8) {
        let sent = self.send(Kind::Control, |out| {
            Header::lane(opcode).encode(out).then_some(HEADER_BYTES)
        });
        if sent == Sent::Sent {
            let mut tx = self.tx.lock();
            if opcode == lane_op::UPDATE {
                tx.counters.tx_update += 1;
            } else {
                tx.counters.tx_probe += 1;
            }
        }
    }

    fn take_buffer(&self, kind: Kind) -> Result<Frame, Sent> {
        let mut tx = self.tx.lock();
        if !tx.open {
            return Err(Sent::Down);
        }
        if !self.has_buffer(&mut tx, kind) {
            tx.counters.tx_no_buffer += 1;
            return Err(Sent::NoRoom);
        }
        if kind == Kind::Data {
            if !tx.has_credit() {
                tx.counters.tx_no_credit += 1;
                if let Some(credit) = &mut tx.credit {
                    credit.wait(now_ns());
                }
                return Err(Sent::NoRoom);
            }
            tx.building += 1;
        }
        tx.free.pop().ok_or(Sent::NoRoom)
    }

    /// Is there a buffer for a frame of this kind, after a look at what was sent?
    fn has_buffer(&self, tx: &mut Tx, kind: Kind) -> bool {
        let keep = match kind {
            Kind::Data => control_reserve(self.size),
            Kind::Control => 0,
        };
        if tx.free.len() <= keep {
            self.reap(tx);
        }
        tx.free.len() > keep
    }

    /// Takes back the buffers of frames that have been sent.
    pub(super) fn reap(&self, tx: &mut Tx) {
        while let Some(frame) = tx.ring.as_mut().and_then(|ring| ring.reap(&self.pool)) {
            tx.in_flight = tx.in_flight.saturating_sub(1);
            tx.put(frame);
        }
    }

    /// The lane's last touch, and off it goes. The number of a frame is given under
    /// the lock, so that the ring's order is that of the numbers.
    fn transmit(&self, kind: Kind, mut frame: Frame, len: usize) -> Sent {
        if let Port::Loop(way) = &self.port {
            wire::finish(self.pool.bytes_mut(&mut frame), 0, 0);
            let mut tx = self.tx.lock();
            tx.promise_back(kind);
            if !tx.open {
                return Sent::Down;
            }
            tx.counters.tx_frames += 1;
            drop(tx);
            way.push(frame, len);
            return Sent::Sent;
        }
        let mut tx = self.tx.lock();
        tx.promise_back(kind);
        if !tx.open {
            return Sent::Down;
        }
        let number = tx.credit.as_mut().map_or(0, LaneTx::take_seq);
        let limit = self.rx.lock().credit.limit_to_send();
        wire::finish(self.pool.bytes_mut(&mut frame), number, limit);
        let Some(ring) = tx.ring.as_mut() else {
            return Sent::Down;
        };
        if let Err(frame) = ring.enqueue(&self.pool, frame, len) {
            tx.put(frame);
            return Sent::Down;
        }
        tx.in_flight += 1;
        tx.counters.tx_frames += 1;
        drop(tx);
        self.link.touch();
        Sent::Sent
    }

    /// Starts the rings and posts all receive buffers. The paths come after this,
    /// so that no frame finds an empty ring.
    pub(super) fn start(this: &Arc<Self>, buffers: KVVec<Frame>) {
        if let Some(ring) = this.tx.lock().ring.as_mut() {
            ring.start();
        }
        if let Port::Ring(ring) = &this.port {
            ring.start(this.clone());
            for frame in buffers {
                ring.post(frame);
            }
        }
    }

    /// Keeps what the lane holds of the XDomain until it closes.
    pub(super) fn keep(&self, hops: Hops) {
        *self.hops.lock() = Some(hops);
    }

    /// Refuses senders from now on.
    pub(super) fn shut(&self) {
        self.tx.lock().open = false;
    }

    /// Closes the paths, then stops the rings; sleeps until no callback runs.
    /// Received frames that somebody still holds stay readable.
    pub(super) fn close(&self) {
        self.shut();
        let hops = self.hops.lock().take();
        let hops = hops.map(|mut hops| {
            hops.paths = None;
            hops
        });
        let ring = self.tx.lock().ring.as_mut().map(TxRing::take);
        if let Some(ring) = ring {
            ring.end(&self.pool);
        }
        match &self.port {
            Port::Ring(ring) => drop(ring.end()),
            Port::Loop(way) => way.stop(),
        }
        drop(hops);
    }
}

impl Tx {
    /// Credit beyond what frames under construction have been promised?
    fn has_credit(&self) -> bool {
        self.credit
            .as_ref()
            .is_none_or(|credit| credit.credit() > self.building)
    }

    fn promise_back(&mut self, kind: Kind) {
        if kind == Kind::Data {
            self.building = self.building.saturating_sub(1);
        }
    }

    /// The list has room for every buffer of the pool: pushing allocates nothing.
    pub(super) fn put(&mut self, frame: Frame) {
        let _ = self.free.push_within_capacity(frame);
    }
}
