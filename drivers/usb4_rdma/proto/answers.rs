// SPDX-License-Identifier: GPL-2.0
//! The responder's answers: READs and atomics that were accepted, and stream RSP that carries their data.
//!
//! `head <= cur <= tail`, free-running: oldest not acknowledged, next to send, next free.

use super::counters::QpCounters;
use super::env::Env;
use super::inflight::frames_of;
use super::seq::before;
use super::status::Nak;
use super::timers::quiet_after_send;
use super::tx_stream::{Next, TxStream};
use super::wire::{flag, op, Header, Kind};
use super::{HEADER_BYTES, MAX_RD_ATOMIC, PAYLOAD_BYTES};

/// A READ or atomic to answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// READ: address. Atomic: the original value.
    pub va: u64,
    pub len: u32,
    pub rkey: u32,
    pub msn: u32,
    /// The request's frame, for a late refusal.
    pub req_psn: u32,
    /// First frame of the answer, once begun.
    pub first_psn: u32,
    pub atomic: bool,
    pub begun: bool,
}

impl Answer {
    /// Nothing.
    pub const ZERO: Answer =
        Answer { va: 0, len: 0, rkey: 0, msn: 0, req_psn: 0, first_psn: 0, atomic: false, begun: false };

    const fn end_psn(&self) -> u32 {
        self.first_psn.wrapping_add(frames_of(self.len))
    }

    fn header(&self, psn: u32) -> Header {
        let off = psn.wrapping_sub(self.first_psn).wrapping_mul(PAYLOAD_BYTES as u32);
        let left = self.len.saturating_sub(off);
        let last = left <= PAYLOAD_BYTES as u32;
        Header {
            kind: Kind::Data,
            opcode: if self.atomic { op::ATOMIC_RSP } else { op::READ_RSP },
            flags: flag::RSP | if last { flag::LAST } else { 0 },
            payload_len: left.min(PAYLOAD_BYTES as u32) as u16,
            psn,
            msn: self.msn,
            msg_off: off,
            msg_len: self.len,
            ..Header::default()
        }
    }

    fn fill<E: Env>(&self, off: u32, env: &mut E, body: &mut [u8]) -> Result<(), Nak> {
        if self.atomic {
            body.copy_from_slice(&self.va.to_le_bytes());
            Ok(())
        } else if body.is_empty() {
            Ok(())
        } else {
            env.mem_read(self.rkey, self.va.wrapping_add(u64::from(off)), body)
        }
    }
}

/// The memory of an accepted READ has gone: its request is to be refused.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    pub nak: Nak,
    /// Frame and message of the request.
    pub psn: u32,
    pub msn: u32,
}

/// All answers, and the stream. All-zero is valid; `start` begins.
pub struct Answers {
    pub tx: TxStream,
    head: u32,
    cur: u32,
    tail: u32,
    ring: [Answer; MAX_RD_ATOMIC],
    /// When the last response frame left or the peer last gave news.
    pub quiet_since: u64,
    /// When the peer last gave news.
    progress_at: u64,
    /// Probes without an answer.
    pub backoff: u8,
    pub probe_due: bool,
}

const fn slot(n: u32) -> usize {
    n as usize % MAX_RD_ATOMIC
}

impl Answers {
    /// Not started.
    pub const ZERO: Answers = Answers {
        tx: TxStream::ZERO,
        head: 0,
        cur: 0,
        tail: 0,
        ring: [Answer::ZERO; MAX_RD_ATOMIC],
        quiet_since: 0,
        progress_at: 0,
        backoff: 0,
        probe_due: false,
    };

    /// Forgets everything; the stream begins at `psn`.
    pub fn start(&mut self, psn: u32) {
        self.tx.start(psn);
        self.clear();
        self.backoff = 0;
    }

    /// Answers nothing any more.
    pub fn clear(&mut self) {
        self.head = 0;
        self.cur = 0;
        self.tail = 0;
        self.probe_due = false;
    }

    /// READs and atomics not yet answered and acknowledged.
    pub const fn count(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Takes one on; there must be fewer than `MAX_RD_ATOMIC`.
    pub fn push(&mut self, answer: Answer) {
        self.ring[slot(self.tail)] = answer;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Response frames were acknowledged: forgets what is answered.
    pub fn on_acked(&mut self) {
        while self.head != self.cur && !before(self.tx.una(), self.ring[slot(self.head)].end_psn()) {
            self.head = self.head.wrapping_add(1);
        }
    }

    /// The peer gave news.
    pub fn news(&mut self, now: u64) {
        self.quiet_since = now;
        self.progress_at = now;
        self.backoff = 0;
        self.probe_due = false;
    }

    /// Would `build` give a frame now?
    pub fn has_work(&self) -> bool {
        self.tx.must_resend() || (self.cur != self.tail && self.tx.has_room())
    }

    /// Builds the next frame: header without dst_qpn, acknowledgement and tag, and payload.
    ///
    /// # Errors
    /// A READ's memory has gone; it and what was accepted after it are no longer answered.
    pub fn build<E: Env>(
        &mut self,
        now: u64,
        env: &mut E,
        out: &mut [u8],
        c: &mut QpCounters,
    ) -> Result<Option<Header>, Gone> {
        let next = self.tx.next();
        let (index, psn) = match next {
            Next::Lost(psn) | Next::Again(psn) => (self.tx.owner_of(psn), psn),
            Next::New(psn) if self.cur != self.tail => (slot(self.cur), psn),
            _ => return Ok(None),
        };
        let a = &mut self.ring[index % MAX_RD_ATOMIC];
        if !a.begun {
            a.begun = true;
            a.first_psn = psn;
        }
        let a = *a;
        let mut h = a.header(psn);
        let Some(body) = out.get_mut(HEADER_BYTES..HEADER_BYTES + h.payload_len as usize) else {
            return Ok(None);
        };
        if let Err(nak) = a.fill(h.msg_off, env, body) {
            self.cut(&a);
            return Err(Gone { nak, psn: a.req_psn, msn: a.msn });
        }
        let asks = h.has(flag::LAST) || self.tx.wants_ack(psn);
        if asks {
            h.flags |= flag::ACK_REQ;
        }
        if !self.tx.in_flight() {
            self.backoff = 0;
            self.progress_at = now;
        }
        h.tx_seq = self.tx.sent(psn, index, asks, now);
        self.quiet_since = quiet_after_send(self.quiet_since, self.progress_at, now);
        if matches!(next, Next::New(_)) && h.has(flag::LAST) {
            self.cur = self.cur.wrapping_add(1);
        }
        c.count_sent(next, h.payload_len);
        Ok(Some(h))
    }

    /// Gives up `a` and all after it.
    fn cut(&mut self, a: &Answer) {
        self.tx.cut(a.first_psn);
        while self.tail != self.head && !before(self.ring[slot(self.tail.wrapping_sub(1))].msn, a.msn) {
            self.tail = self.tail.wrapping_sub(1);
        }
        if before(self.tail, self.cur) {
            self.cur = self.tail;
        }
        // What comes before may have been acknowledged as far as the cut.
        self.on_acked();
    }
}
