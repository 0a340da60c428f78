// SPDX-License-Identifier: GPL-2.0
//! The requester: sends the entries of the send queue, takes responses, completes in order.

use super::counters::QpCounters;
use super::env::{Env, FrameBuf, SendOp, SendWr};
use super::inflight::{Inflight, Request};
use super::qp_state::QpKind;
use super::rx_stream::RxStream;
use super::seq::before;
use super::status::WcStatus;
use super::timers::quiet_after_send;
use super::tx_stream::{Next, TxStream};
use super::wire::{flag, op, Header, Kind};
use super::{HEADER_BYTES, MAX_RD_ATOMIC, PAYLOAD_BYTES};

/// Entries flushed in one go: more than a send queue holds, but a program that goes on posting meanwhile
/// does not keep us here for ever.
const FLUSH_AT_ONCE: u32 = 1 << 16;

/// Requester half of a queue pair: sends stream REQ, receives stream RSP.
pub struct Requester<B> {
    pub tx: TxStream,
    pub rx: RxStream<B>,
    pub inflight: Inflight,
    /// Slots of the READs and atomics that wait for their response, oldest at `rd_head`.
    rd_fifo: [u8; MAX_RD_ATOMIC],
    rd_head: u8,
    rd_count: u8,
    /// Offset that the next response frame must have.
    rd_off: u32,
    /// Responses seen so far, counted in frames: progress.
    next_msn: u32,
    /// READs and atomics that may be out.
    pub max_rd: u8,
    /// The send queue may have entries.
    pub sq_ready: bool,
    /// Nothing more is started: a request has failed and waits to be the oldest.
    stalled: bool,
    /// The RNR retries are used up: nothing from the refused frame on is sent any more.
    pub rnr_spent: bool,
    /// In an RNR wait until then; 0: not.
    pub rnr_until: u64,
    /// RNR NAKs in a row for one frame.
    pub rnr_tries: u8,
    /// When the last frame left, or the peer last gave news: the probe counts from there.
    pub quiet_since: u64,
    /// When the peer last made progress: the failure counts from there.
    pub progress_at: u64,
    /// Probes since news.
    pub backoff: u8,
    pub probe_due: bool,
}

impl<B: FrameBuf> Requester<B> {
    /// Not started.
    pub const ZERO: Self = Requester {
        tx: TxStream::ZERO,
        rx: RxStream::ZERO,
        inflight: Inflight::ZERO,
        rd_fifo: [0; MAX_RD_ATOMIC],
        rd_head: 0,
        rd_count: 0,
        rd_off: 0,
        next_msn: 0,
        max_rd: 0,
        sq_ready: false,
        stalled: false,
        rnr_spent: false,
        rnr_until: 0,
        rnr_tries: 0,
        quiet_since: 0,
        progress_at: 0,
        backoff: 0,
        probe_due: false,
    };

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.start(0);
        self.inflight.clear();
        self.sq_ready = false;
    }

    /// Both streams begin at `psn`.
    pub fn start(&mut self, psn: u32) {
        self.tx.start(psn);
        self.rx.start(psn);
        self.rd_head = 0;
        self.rd_count = 0;
        self.rd_off = 0;
        self.next_msn = 0;
        self.stalled = false;
        self.rnr_spent = false;
        self.rnr_until = 0;
        self.rnr_tries = 0;
        self.backoff = 0;
        self.probe_due = false;
    }

    /// Something is owed by the peer: an acknowledgement or a response.
    pub const fn waits_for_peer(&self) -> bool {
        self.tx.in_flight() || self.rd_count != 0
    }

    /// READs and atomics that are out.
    pub const fn rd_outstanding(&self) -> u8 {
        self.rd_count
    }

    /// The peer gave a sign of life (`progress`: and something has moved on).
    pub fn news(&mut self, now: u64, progress: bool) {
        self.quiet_since = now;
        self.backoff = 0;
        self.probe_due = false;
        if progress {
            self.progress_at = now;
            self.rnr_tries = 0;
        }
    }

    /// Would `build` give a frame now, as far as is known?
    pub fn has_work(&self) -> bool {
        if self.rnr_until != 0 || self.rnr_spent {
            return false;
        }
        self.tx.must_resend()
            || (!self.stalled
                && self.tx.has_room()
                && match self.inflight.current() {
                    None => self.sq_ready && !self.inflight.is_full(),
                    Some(s) => self.may_start(self.inflight.get(s)),
                })
    }

    /// Fence and the limit on READs and atomics.
    fn may_start(&self, r: &Request) -> bool {
        let fenced = r.wr.flags & SendWr::FENCE != 0 && self.rd_count != 0;
        let full = r.has_response() && self.rd_count >= self.max_rd;
        r.started || !(fenced || full)
    }

    /// The slot at work, taken from the send queue if need be. None: nothing can be started now.
    fn current<E: Env>(&mut self, env: &mut E) -> Option<usize> {
        loop {
            if self.stalled {
                return None;
            }
            let slot = match self.inflight.current() {
                Some(s) => s,
                None => self.take(env)?,
            };
            let r = self.inflight.get(slot);
            if r.failed != WcStatus::Success {
                self.stalled = true;
                return None;
            }
            if !self.may_start(r) {
                return None;
            }
            if r.wr.op != SendOp::Local {
                return Some(slot);
            }
            match env.local_op(slot) {
                Ok(()) => {
                    self.inflight.get_mut(slot).done = true;
                    self.inflight.next_current();
                }
                Err(status) => self.fail(slot, status),
            }
        }
    }

    fn take<E: Env>(&mut self, env: &mut E) -> Option<usize> {
        if !self.sq_ready || self.inflight.is_full() {
            return None;
        }
        let slot = self.inflight.tail_slot();
        let Some(entry) = env.next_send(slot) else {
            self.sq_ready = false;
            return None;
        };
        let mut r = match entry {
            Ok(wr) => Request::new(wr, WcStatus::Success),
            Err(status) => Request::new(SendWr::default(), status),
        };
        if r.has_response() && self.max_rd == 0 {
            // It would wait for ever.
            r.failed = WcStatus::LocQpOpErr;
        }
        self.inflight.push(r);
        Some(slot)
    }

    /// The request in `slot` will complete with `status` when it is the oldest; nothing more is started.
    pub fn fail(&mut self, slot: usize, status: WcStatus) {
        let r = self.inflight.get_mut(slot);
        if r.failed == WcStatus::Success {
            r.failed = status;
        }
        self.stalled = true;
    }

    /// Builds the next frame of stream REQ: header without dst_qpn, acknowledgement and tag, and payload.
    pub fn build<E: Env>(
        &mut self,
        kind: QpKind,
        now: u64,
        env: &mut E,
        out: &mut [u8],
        c: &mut QpCounters,
    ) -> Option<Header> {
        if self.rnr_until != 0 || self.rnr_spent {
            return None;
        }
        let next = self.tx.next();
        let (slot, psn) = match next {
            Next::Lost(psn) | Next::Again(psn) => (self.tx.owner_of(psn), psn),
            Next::New(psn) => (self.current(env)?, psn),
            Next::Blocked => return None,
        };
        if matches!(next, Next::New(_)) && !self.inflight.get(slot).started {
            self.begin(slot, psn);
        }
        let mut h = self.header(slot, psn);
        let body = out.get_mut(HEADER_BYTES..HEADER_BYTES + h.payload_len as usize)?;
        if let Err(status) = payload(self.inflight.get(slot), slot, h.msg_off, env, body) {
            self.tx.give_up(psn);
            self.fail(slot, status);
            return None;
        }
        let asks = kind == QpKind::Rc && (h.has(flag::LAST) || self.tx.wants_ack(psn));
        if asks {
            h.flags |= flag::ACK_REQ;
        }
        self.sent(&mut h, slot, asks, now);
        c.count_sent(next, h.payload_len);
        Some(h)
    }

    fn begin(&mut self, slot: usize, psn: u32) {
        let msn = self.next_msn;
        self.next_msn = msn.wrapping_add(1);
        let r = self.inflight.get_mut(slot);
        r.first_psn = psn;
        r.msn = msn;
        r.started = true;
        if r.has_response() {
            let at = (self.rd_head as usize + self.rd_count as usize) % MAX_RD_ATOMIC;
            self.rd_fifo[at] = slot as u8;
            self.rd_count += 1;
        }
    }

    fn sent(&mut self, h: &mut Header, slot: usize, asks: bool, now: u64) {
        if !self.tx.in_flight() {
            // From idle: nothing was owed until now.
            self.progress_at = now;
            self.backoff = 0;
        }
        let fresh = h.psn == self.tx.max();
        h.tx_seq = self.tx.sent(h.psn, slot, asks, now);
        self.quiet_since = quiet_after_send(self.quiet_since, self.progress_at, now);
        if fresh && h.has(flag::LAST) {
            self.inflight.next_current();
        }
    }

    /// The header of frame `psn` of the request in `slot`; the same each time but for tx_seq.
    fn header(&self, slot: usize, psn: u32) -> Header {
        let r = self.inflight.get(slot);
        let off = psn.wrapping_sub(r.first_psn).wrapping_mul(PAYLOAD_BYTES as u32);
        let mut h = Header { kind: Kind::Data, psn, msn: r.msn, msg_len: r.wr.len, ..Header::default() };
        match r.wr.op {
            SendOp::Send | SendOp::Local => h.opcode = op::SEND,
            SendOp::Write => h.opcode = op::WRITE,
            SendOp::Read => h.opcode = op::READ_REQ,
            SendOp::CmpSwap => h.opcode = op::CMP_SWAP,
            SendOp::FetchAdd => h.opcode = op::FETCH_ADD,
        }
        if !matches!(r.wr.op, SendOp::Send) {
            h.va = r.wr.va;
            h.rkey = r.wr.rkey;
        }
        match r.wr.op {
            SendOp::Send | SendOp::Write | SendOp::Local => {
                h.msg_off = off;
                let left = r.wr.len.saturating_sub(off);
                h.payload_len = left.min(PAYLOAD_BYTES as u32) as u16;
                if left <= PAYLOAD_BYTES as u32 {
                    last_flags(&r.wr, &mut h);
                }
            }
            SendOp::Read => h.flags = flag::LAST,
            SendOp::CmpSwap | SendOp::FetchAdd => {
                h.flags = flag::LAST;
                h.msg_len = 8;
                h.payload_len = 16;
            }
        }
        h
    }

    /// UC: a request is complete when its last frame was built.
    pub fn uc_sent(&mut self) {
        let max = self.tx.max();
        self.tx.advance(max);
    }

    /// All of it is acknowledged and, where that is needed, answered or executed. A local operation has no PSN.
    fn is_done(&self, r: &Request) -> bool {
        let acked = r.frames == 0 || !before(self.tx.una(), r.end_psn());
        let answered = r.done || !(r.has_response() || r.wr.op == SendOp::Local);
        acked && answered
    }

    /// Completes what is complete, in order. True: a failed one was among it, and the queue pair must go to
    /// ERR.
    #[must_use]
    pub fn complete<E: Env>(&mut self, env: &mut E) -> bool {
        while let Some((slot, r)) = self.inflight.oldest() {
            if r.failed != WcStatus::Success {
                env.send_done(slot, r.failed, 0);
                self.inflight.pop();
                return true;
            }
            if !(self.inflight.oldest_is_sent() && self.is_done(r)) {
                return false;
            }
            env.send_done(slot, WcStatus::Success, r.byte_len());
            self.inflight.pop();
        }
        false
    }

    /// Completes all that is in flight or queued with WR_FLUSH_ERR.
    pub fn flush<E: Env>(&mut self, env: &mut E) {
        while let Some((slot, _)) = self.inflight.oldest() {
            env.send_done(slot, WcStatus::WrFlushErr, 0);
            self.inflight.pop();
        }
        self.rd_count = 0;
        self.rnr_until = 0;
        self.probe_due = false;
        self.stalled = true;
        for _ in 0..FLUSH_AT_ONCE {
            let slot = self.inflight.tail_slot();
            if env.next_send(slot).is_none() {
                self.sq_ready = false;
                return;
            }
            self.inflight.push(Request::ZERO);
            self.inflight.pop();
            env.send_done(slot, WcStatus::WrFlushErr, 0);
        }
        // The rest is for the next `poll_tx`.
        self.sq_ready = true;
    }

    /// Places the next frame of stream RSP. False: it belongs to nothing; the request that waited for a
    /// response has failed.
    pub fn place<E: Env>(&mut self, h: &Header, data: &[u8], env: &mut E) -> bool {
        if self.rd_count == 0 {
            return false;
        }
        let slot = self.rd_fifo[self.rd_head as usize % MAX_RD_ATOMIC] as usize;
        let r = self.inflight.get(slot);
        let atomic = r.wr.op != SendOp::Read;
        let len = if atomic { 8 } else { r.wr.len };
        let opcode = if atomic { op::ATOMIC_RSP } else { op::READ_RSP };
        if h.opcode != opcode || h.msn != r.msn || h.msg_len != len || h.msg_off != self.rd_off {
            self.fail(slot, WcStatus::BadRespErr);
            return false;
        }
        if let Err(status) = env.scatter(slot, h.msg_off, data) {
            self.fail(slot, status);
            return true;
        }
        self.rd_off = h.msg_off + u32::from(h.payload_len);
        if h.has(flag::LAST) {
            self.inflight.get_mut(slot).done = true;
            self.rd_head = (self.rd_head + 1) % MAX_RD_ATOMIC as u8;
            self.rd_count -= 1;
            self.rd_off = 0;
        }
        true
    }

    /// The peer refused message `msn` for good. False: no such message is out.
    ///
    /// The peer refuses only when all before is answered; what is still open then will never be answered, and
    /// completes as flushed.
    pub fn refused<E: Env>(&mut self, msn: u32, psn: u32, status: WcStatus, env: &mut E) -> bool {
        let Some(refused) = self.inflight.find(msn, psn) else {
            return false;
        };
        if self.inflight.get(refused).done {
            return false;
        }
        self.fail(refused, status);
        while let Some((slot, r)) = self.inflight.oldest() {
            if slot == refused || r.failed != WcStatus::Success {
                break;
            }
            let status = if self.is_done(r) { WcStatus::Success } else { WcStatus::WrFlushErr };
            env.send_done(slot, status, r.byte_len());
            self.inflight.pop();
        }
        true
    }

    /// Fails the oldest request (time-outs).
    pub fn fail_oldest(&mut self, status: WcStatus) {
        if let Some((slot, _)) = self.inflight.oldest() {
            self.fail(slot, status);
        }
    }
}

fn last_flags(wr: &SendWr, h: &mut Header) {
    h.flags |= flag::LAST;
    if wr.flags & SendWr::SOLICITED != 0 {
        h.flags |= flag::SOLICITED;
    }
    if wr.flags & SendWr::IMM != 0 {
        h.flags |= flag::IMM;
        h.imm = wr.imm;
    } else if wr.flags & SendWr::INVALIDATE != 0 && wr.op == SendOp::Send {
        h.flags |= flag::INVALIDATE;
        h.imm = wr.imm;
    }
}

/// Fills a frame's payload.
fn payload<E: Env>(r: &Request, slot: usize, off: u32, env: &mut E, body: &mut [u8]) -> Result<(), WcStatus> {
    match r.wr.op {
        SendOp::CmpSwap | SendOp::FetchAdd => {
            let swap = if r.wr.op == SendOp::CmpSwap { r.wr.swap } else { 0 };
            let (a, b) = body.split_at_mut(8);
            a.copy_from_slice(&r.wr.compare_add.to_le_bytes());
            b.copy_from_slice(&swap.to_le_bytes());
            Ok(())
        }
        _ if body.is_empty() => Ok(()),
        _ => env.gather(slot, off, body),
    }
}
