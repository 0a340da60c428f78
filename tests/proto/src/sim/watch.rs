// SPDX-License-Identifier: GPL-2.0
//! An observer of one queue pair that sees only frames and knows only the specification: what may be
//! acknowledged, how far the window reaches, when an RNR wait or a time-out may end.

use super::env::SimEnv;
use crate::proto::counters::QpCounters;
use crate::proto::env::{SendOp, SendWr};
use crate::proto::qp_state::QpKind;
use crate::proto::wire::{flag, syndrome, Header, Kind};
use crate::proto::{MAX_INFLIGHT, WINDOW};
use std::collections::{BTreeSet, HashMap};

/// RNR wait of each code of IBA table 45, microseconds.
const RNR_US: [u64; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];
/// The shortest patience of a requester (protocol-timers.md).
const FLOOR_NS: u64 = 250_000_000;

/// A sending half.
#[derive(Default)]
struct Out {
    acked: u32,
    next: u32,
    end: u32,
    /// Last transmission of each frame.
    seqs: HashMap<u32, u16>,
}

/// A receiving half: every frame before `next` has come, and these.
#[derive(Default)]
struct In {
    next: u32,
    early: BTreeSet<u32>,
}

/// What a program asked of the queue pair.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    /// First PSN of the own requests, of the peer's.
    pub psn: [u32; 2],
    pub max_rd: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}

/// See the file's head. REQ is 0, RSP is 1.
pub struct Watch {
    kind: QpKind,
    asked: Asked,
    out: [Out; 2],
    came: [In; 2],
    rnr_until: u64,
    /// RNR NAKs obeyed in a row, and for which frame.
    rnr: (u32, u32),
    progress_at: u64,
    before: QpCounters,
}

fn later(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

impl Watch {
    pub fn new(kind: QpKind, asked: Asked, now: u64, counters: &QpCounters) -> Watch {
        let [mine, theirs] = asked.psn;
        let out = [mine, theirs].map(|p| Out { acked: p, next: p, end: p, seqs: HashMap::new() });
        let came = [theirs, mine].map(|p| In { next: p, early: BTreeSet::new() });
        Watch { kind, asked, out, came, rnr_until: 0, rnr: (0, 0), progress_at: now, before: *counters }
    }

    /// The queue pair sends this.
    pub fn sends(&mut self, h: &Header, body: &[u8], now: u64, env: &SimEnv) {
        let rsp = h.has(flag::RSP) as usize;
        if h.kind == Kind::Data {
            let o = &mut self.out[rsp];
            assert!(!later(h.psn, o.end), "PSN {} leaves a gap after {}", h.psn, o.end);
            if self.kind == QpKind::Rc {
                let ahead = h.psn.wrapping_sub(o.acked);
                assert!(ahead < WINDOW as u32, "PSN {} is {ahead} ahead of the acknowledgement", h.psn);
            }
            let fresh = h.psn == o.end;
            if h.psn == o.next {
                o.next = o.next.wrapping_add(1);
            }
            if later(o.next, o.end) {
                o.end = o.next;
            }
            o.seqs.insert(h.psn, h.tx_seq);
            if o.seqs.len() > 4 * WINDOW {
                let acked = o.acked;
                o.seqs.retain(|p, _| !later(acked, *p));
            }
            if rsp == 0 {
                assert!(now >= self.rnr_until, "sent {} us before the end of the RNR wait", (self.rnr_until - now) / 1000);
                if fresh && h.msg_off == 0 && self.kind == QpKind::Rc {
                    self.may_begin(h, env);
                }
            }
        }
        if h.has(flag::ACK_VALID) {
            self.acknowledges(h, body);
        }
    }

    /// Fence and the limit of READs and atomics.
    fn may_begin(&self, h: &Header, env: &SimEnv) {
        let i = env.message_of(h.msn);
        // No older one can be in flight.
        let waits = |j: &usize| {
            let m = &env.mine.msgs[*j];
            (m.wr.op == SendOp::Read || m.is_atomic()) && env.stored_of(*j) < m.wr.len
        };
        let open = (i.saturating_sub(MAX_INFLIGHT)..i).filter(waits).count();
        let m = &env.mine.msgs[i];
        if m.wr.flags & SendWr::FENCE != 0 {
            assert_eq!(open, 0, "message {i} passed its fence");
        }
        if m.wr.op == SendOp::Read || m.is_atomic() {
            assert!(open < self.asked.max_rd.into(), "message {i} is one READ too many");
        }
    }

    fn acknowledges(&self, h: &Header, body: &[u8]) {
        let i = &self.came[h.has(flag::ACK_RSP) as usize];
        assert!(!later(h.ack, i.next), "acknowledged {} and only {} has come", h.ack, i.next);
        if h.kind == Kind::Ack && h.opcode == syndrome::OK {
            for bit in (0..body.len() * 8).filter(|b| body[b / 8] >> (b % 8) & 1 != 0) {
                let psn = h.ack.wrapping_add(1 + bit as u32);
                let has = i.early.contains(&psn) || later(i.next, psn);
                assert!(has, "says that it holds {psn}, which has not come");
            }
        }
    }

    /// The queue pair is about to get this, and will use it.
    pub fn gets(&mut self, h: &Header, now: u64) {
        if h.kind == Kind::Data && self.kind == QpKind::Rc {
            let i = &mut self.came[h.has(flag::RSP) as usize];
            if h.psn.wrapping_sub(i.next) < 2 * WINDOW as u32 {
                i.early.insert(h.psn);
                while i.early.remove(&i.next) {
                    i.next = i.next.wrapping_add(1);
                }
            }
        }
        if h.has(flag::ACK_VALID) {
            let rsp = h.has(flag::ACK_RSP);
            let o = &mut self.out[rsp as usize];
            if later(h.ack, o.acked) && !later(h.ack, o.end) {
                o.acked = h.ack;
                if later(o.acked, o.next) {
                    o.next = o.acked;
                }
                if !rsp {
                    self.progress_at = now;
                    self.rnr.0 = 0;
                }
            }
        }
    }

    /// It has got it. `deadline` is when it wants to be called again.
    pub fn got(&mut self, h: &Header, now: u64, c: &QpCounters, deadline: Option<u64>) {
        let obeyed = c.rx_rnr != self.before.rx_rnr;
        if h.kind == Kind::Ack && h.opcode == syndrome::RNR {
            let o = &mut self.out[0];
            let out = !later(o.acked, h.psn) && later(o.next, h.psn);
            let must = out && o.seqs.get(&h.psn) == Some(&h.ack_tx_seq);
            assert_eq!(obeyed, must, "RNR NAK for {} seq {}", h.psn, h.ack_tx_seq);
            if obeyed {
                o.next = h.psn;
                let n = if self.rnr.1 == h.psn { self.rnr.0 + 1 } else { 1 };
                self.rnr = (n, h.psn);
                self.rnr_until = now + RNR_US[h.imm as usize] * 1000;
                let gave_up = c.rnr_exceeded != self.before.rnr_exceeded;
                let on_time = deadline.is_some_and(|d| d <= self.rnr_until);
                assert!(gave_up || on_time, "no timer for the end of the RNR wait: {deadline:?}");
                let may = self.asked.rnr_retry != 7 && n > self.asked.rnr_retry.into();
                assert!(!gave_up || may, "gave up after {n} RNR NAKs");
            }
        } else {
            assert!(!obeyed);
        }
        self.before = *c;
    }

    /// Its timer has run.
    pub fn timed(&mut self, now: u64, c: &QpCounters) {
        if c.retry_exceeded != self.before.retry_exceeded {
            assert_ne!(self.asked.timeout, 0, "gave up, and should never");
            let t = (4096 << self.asked.timeout) * 4 * (u64::from(self.asked.retry_cnt) + 1);
            let waited = now - self.progress_at;
            assert!(waited >= t.max(FLOOR_NS), "gave up after {} us", waited / 1000);
        }
        self.before = *c;
    }

    /// Everything that was sent is acknowledged.
    pub fn all_acknowledged(&self) -> bool {
        self.out.iter().all(|o| o.acked == o.end)
    }
}
