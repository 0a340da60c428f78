// SPDX-License-Identifier: GPL-2.0
//! One host: what the driver does around the core, in the small.

use super::config::{Config, PAUSE_MAX_NS};
use super::env::SimEnv;
use super::lane::{LaneEnd, OnWire, SimBuf};
use super::rng::Rng;
use super::trace;
use super::watch::{Asked, Watch};
use super::world::{Event, Queue};
use crate::proto::counters::BadFrames;
use crate::proto::qp::{Qp, Room};
use crate::proto::qp_state::QpState;
use crate::proto::seq::before;
use crate::proto::wire::{finish, lane_op, Header, Kind};
use crate::proto::FRAME_BYTES;

/// Shortest pause before a timer is looked at again.
const TICK_NS: u64 = 50_000;

/// One side of a pair of queue pairs.
pub struct Side {
    pub qp: Box<Qp<SimBuf>>,
    pub env: SimEnv,
    lane: usize,
    waiting: bool,
    timer_at: u64,
    pub watch: Watch,
    /// When the latest send request was completed by a frame.
    pub sent_at: u64,
}

pub struct Host {
    pub me: usize,
    pub lanes: Vec<LaneEnd>,
    pub sides: Vec<Side>,
    pub bad: BadFrames,
    pub unknown: u64,
    /// Lanes before this one were closed.
    pub base: usize,
    /// DATA frames of this host that were lost on the way.
    pub lost: u64,
    /// DATA frames sent.
    data: u64,
    paused_until: u64,
    buf: Vec<u8>,
}

impl Side {
    pub fn new(qp: Box<Qp<SimBuf>>, env: SimEnv, lane: usize) -> Side {
        let watch = Watch::new(env.kind, Asked::default(), 0, qp.counters());
        Side { qp, env, lane, waiting: false, timer_at: 0, watch, sent_at: 0 }
    }
}

impl Host {
    pub fn new(me: usize, c: &Config) -> Host {
        Host {
            me,
            lanes: (0..c.lanes).map(|_| LaneEnd::begun(c.ring, c.first_seq)).collect(),
            sides: Vec::new(),
            bad: BadFrames::default(),
            unknown: 0,
            base: 0,
            lost: 0,
            data: 0,
            paused_until: 0,
            buf: vec![0; FRAME_BYTES],
        }
    }

    /// Lets queue pair `q` send what it can, and sets its timer.
    pub fn run(&mut self, q: usize, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        loop {
            let way = if c.spray { rng.below(c.lanes as u64) as usize } else { self.sides[q].lane };
            let lane = self.base + way;
            let l = &mut self.lanes[lane];
            let side = &mut self.sides[q];
            if l.tx_used >= c.tx_ring {
                Self::wait(l, side, q);
                break;
            }
            let room = if l.tx.may_send() { Room::Data } else { Room::Control };
            let Some(len) = side.qp.poll_tx(now, &mut side.env, room, &mut self.buf) else {
                if room == Room::Control && side.qp.wants_tx(now).data {
                    l.tx.wait(now);
                    Self::wait(l, side, q);
                }
                break;
            };
            assert!(finish(&mut self.buf[..len], 0, 0));
            let h = Header::parse(&self.buf[..len]).expect("the core builds only what it would accept");
            side.watch.sends(&h, &self.buf[crate::proto::HEADER_BYTES..len], now, &side.env);
            self.send(lane, len, now, c, rng, queue);
        }
        self.set_timer(q, now, queue);
        self.lane_upkeep(now, c, rng, queue);
    }

    /// The cable was pulled out and put in again, or the peer started anew: all lanes are new.
    pub fn new_lanes(&mut self, c: &Config) {
        for l in &mut self.lanes[self.base..] {
            l.waiting.clear();
            l.arrived.clear();
        }
        self.base = self.lanes.len();
        self.lanes.extend((0..c.lanes).map(|_| LaneEnd::begun(c.ring, c.first_seq)));
        self.sides.iter_mut().for_each(|s| s.waiting = false);
    }

    /// A restart: queue pair `q` as if it had never been.
    pub fn forget(&mut self, q: usize) {
        let side = &mut self.sides[q];
        side.qp = Box::default();
        side.watch = Watch::new(side.env.kind, Asked::default(), 0, side.qp.counters());
    }

    fn wait(l: &mut LaneEnd, side: &mut Side, q: usize) {
        if !side.waiting {
            side.waiting = true;
            l.waiting.push_back(q);
        }
    }

    fn set_timer(&mut self, q: usize, now: u64, queue: &mut Queue) {
        let side = &mut self.sides[q];
        if let Some(at) = side.qp.next_deadline() {
            // What is due already waits for the lane; a driver's ticker is no quicker.
            let at = if at > now { at } else { now + TICK_NS };
            if side.timer_at == 0 || at < side.timer_at {
                side.timer_at = at;
                queue.push(at, Event::Timer { host: self.me, q });
            }
        }
    }

    /// The timer of `q` fired.
    pub fn timer(&mut self, q: usize, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        let side = &mut self.sides[q];
        if side.timer_at != now {
            return;
        }
        side.timer_at = 0;
        if side.qp.next_deadline().is_some_and(|at| at <= now) {
            side.qp.on_timer(now, &mut side.env);
            side.watch.timed(now, side.qp.counters());
        }
        self.run(q, now, c, rng, queue);
    }

    /// Puts the `len` bytes of `buf` on the lane's wire.
    fn send(&mut self, lane: usize, len: usize, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        let l = &mut self.lanes[lane];
        let seq = l.tx.take_seq();
        let limit = l.buffers.borrow_mut().rx.limit_to_send();
        if before(l.granted, limit) {
            l.granted = limit;
        }
        assert!(finish(&mut self.buf[..len], seq, limit));
        l.counters.tx_frames += 1;
        l.tx_used += 1;
        l.busy_until = l.busy_until.max(now) + c.ns_per_frame * (len as u64 + 512) / 4608;
        queue.push(l.busy_until, Event::TxDone { host: self.me, lane });
        let is_data = Header::parse(&self.buf[..len]).is_ok_and(|h| {
            trace::note(now, || format!("host {} lane {lane} tx  {}", self.me, trace::header(&h)));
            h.kind == Kind::Data
        });
        let mut frame = OnWire { bytes: self.buf[..len].to_vec(), spoilt: false, flagged: false };
        let mut at = l.busy_until + c.latency;
        let to = 1 - self.me;
        if (c.blackout.0..c.blackout.1).contains(&now) {
            trace::note(now, || "    ... into the blackout".to_string());
            self.lost += u64::from(is_data);
            return;
        }
        if now < c.adversary_until {
            let chosen = is_data && self.me == 0 && c.lose == Some(self.data);
            self.data += u64::from(is_data);
            if chosen || rng.ppm(c.drop) {
                trace::note(now, || "    ... dropped".to_string());
                self.lost += u64::from(is_data);
                return;
            }
            if rng.ppm(c.flag) {
                trace::note(now, || "    ... payload damaged".to_string());
                frame.flagged = true;
            }
            if rng.ppm(c.corrupt) {
                let bit = rng.below(64 * 8) as usize;
                frame.bytes[bit / 8] ^= 1 << (bit % 8);
                frame.spoilt = true;
                trace::note(now, || format!("    ... bit {bit} flipped"));
            }
            self.lost += u64::from(is_data && (frame.flagged || frame.spoilt));
            if rng.ppm(c.duplicate) {
                let again = at + rng.below(2_000_000);
                queue.push(again, Event::Arrive { host: to, lane, frame: frame.clone() });
            }
            if rng.ppm(c.delay) {
                at += rng.below(3_000_000);
            }
        }
        queue.push(at, Event::Arrive { host: to, lane, frame });
    }

    /// A receive batch of `lane`: the only place where frames are looked at.
    pub fn batch(&mut self, lane: usize, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        if self.lanes[lane].batch_at != now || lane < self.base {
            return;
        }
        if now < c.adversary_until && rng.ppm(c.pause) {
            self.paused_until = now + rng.below(PAUSE_MAX_NS);
        }
        if now < self.paused_until {
            self.lanes[lane].batch_at = self.paused_until;
            queue.push(self.paused_until, Event::Batch { host: self.me, lane });
            return;
        }
        self.lanes[lane].batch_at = 0;
        if now < c.adversary_until && rng.ppm(c.starve) {
            self.starve(lane, now, rng, queue);
        }
        let mut touched = Vec::new();
        let mut woke = false;
        while let Some(f) = self.lanes[lane].arrived.pop_front() {
            woke |= self.frame(lane, f, now, &mut touched);
        }
        touched.sort_unstable();
        touched.dedup();
        for q in touched {
            self.run(q, now, c, rng, queue);
        }
        if woke {
            self.room(lane, now, c, rng, queue);
        }
        self.lane_upkeep(now, c, rng, queue);
    }

    /// One frame. True: there is credit again that somebody waits for.
    fn frame(&mut self, lane: usize, f: OnWire, now: u64, touched: &mut Vec<usize>) -> bool {
        let l = &mut self.lanes[lane];
        if f.flagged {
            // The driver does not look at it.
            l.counters.rx_flagged += 1;
            let mut b = l.buffers.borrow_mut();
            b.rx.taken();
            b.rx.reposted();
            return false;
        }
        let h = match Header::parse(&f.bytes) {
            Ok(h) => h,
            Err(bad) => {
                self.bad.count(bad);
                let mut b = l.buffers.borrow_mut();
                b.rx.taken();
                b.rx.reposted();
                return false;
            }
        };
        assert!(!f.spoilt, "the CRC missed a flipped bit");
        trace::note(now, || format!("host {} lane {lane}  rx {}", self.me, trace::header(&h)));
        if h.kind == Kind::Data {
            assert!(before(h.lane_seq, l.granted), "lane_seq {} without credit ({})", h.lane_seq, l.granted);
        }
        let woke = l.tx.on_frame(&h, &mut l.counters);
        l.buffers.borrow_mut().rx.on_frame(&h, &mut l.counters);
        let buf = SimBuf::new(h, f.bytes[crate::proto::HEADER_BYTES..].to_vec(), &l.buffers);
        if matches!(h.kind, Kind::Data | Kind::Ack) {
            let q = (h.dst_qpn as usize).wrapping_sub(1);
            match self.sides.get_mut(q) {
                Some(side) => {
                    let at_work = matches!(side.qp.state(), QpState::Rtr | QpState::Rts);
                    let heard = at_work && h.src_tag == h.dst_qpn as u16;
                    if heard {
                        side.watch.gets(&h, now);
                    }
                    let before = side.env.sent.len();
                    side.qp.on_frame(buf, now, &mut side.env);
                    if side.env.sent.len() != before {
                        side.sent_at = now;
                    }
                    if heard {
                        // One that has failed meanwhile waits for nothing.
                        let failed = side.qp.state() == QpState::Err;
                        let deadline = side.qp.next_deadline().or(failed.then_some(now));
                        side.watch.got(&h, now, side.qp.counters(), deadline);
                    }
                    touched.push(q);
                }
                None => self.unknown += 1,
            }
        }
        woke
    }

    /// Takes buffers away for a while.
    fn starve(&mut self, lane: usize, now: u64, rng: &mut Rng, queue: &mut Queue) {
        let l = &mut self.lanes[lane];
        let mut b = l.buffers.borrow_mut();
        let free = b.rx.posted().saturating_sub(l.arrived.len() as u32);
        let n = rng.below(u64::from(free) + 1) as u32;
        (0..n).for_each(|_| b.rx.taken());
        queue.push(now + rng.below(20_000_000) + 1, Event::Fed { host: self.me, lane, buffers: n });
    }

    /// Buffers that had vanished are back.
    pub fn fed(&mut self, lane: usize, buffers: u32, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        for _ in 0..buffers {
            self.lanes[lane].buffers.borrow_mut().rx.reposted();
        }
        self.lane_upkeep(now, c, rng, queue);
    }

    /// The TX ring or the credit has room: those that wait, in turn.
    pub fn room(&mut self, lane: usize, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        if lane < self.base {
            return;
        }
        for _ in 0..self.lanes[lane].waiting.len() {
            if self.lanes[lane].tx_used >= c.tx_ring {
                break;
            }
            if let Some(q) = self.lanes[lane].waiting.pop_front() {
                self.sides[q].waiting = false;
                self.run(q, now, c, rng, queue);
            }
        }
    }

    /// LANE frames that are due on any lane, and the timer for the next.
    pub fn lane_upkeep(&mut self, now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        for lane in self.base..self.lanes.len() {
            let l = &mut self.lanes[lane];
            if l.tx_used < c.tx_ring {
                let update = l.buffers.borrow().rx.update_due();
                let probe = l.tx.probe_due(now);
                for (due, op) in [(update, lane_op::UPDATE), (probe, lane_op::PROBE)] {
                    if due {
                        assert!(Header::lane(op).encode(&mut self.buf));
                        self.send(lane, crate::proto::HEADER_BYTES, now, c, rng, queue);
                    }
                }
            }
            let l = &mut self.lanes[lane];
            if let Some(at) = l.tx.probe_deadline() {
                let at = at.max(now + 1);
                if l.timer_at == 0 || at < l.timer_at {
                    l.timer_at = at;
                    queue.push(at, Event::LaneTimer { host: self.me, lane });
                }
            }
        }
    }
}
