// SPDX-License-Identifier: GPL-2.0
//! The responder: places requests of the peer in their order, and answers READs and atomics.

use super::counters::QpCounters;
use super::env::{Access, AtomicOp, Env, FrameBuf, RecvDone};
use super::inflight::frames_of;
use super::qp_state::QpKind;
use super::rx_stream::RxStream;
use super::seq::before;
use super::status::{Nak, QpEvent, WcStatus};
use super::tx_stream::{Next, TxStream};
use super::wire::{flag, op, Header, Kind};
use super::{HEADER_BYTES, MAX_RD_ATOMIC, PAYLOAD_BYTES};

/// What became of a frame that was next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    Done,
    /// No receive entry.
    NotReady,
    /// Refused for good; with the event to raise, none where a receive entry has completed in error.
    Refused(Nak, Option<QpEvent>),
    /// A receive entry is bad or cannot be written; it has completed in error.
    Failed,
}

/// A READ or atomic to answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// READ: address. Atomic: the original value.
    va: u64,
    len: u32,
    rkey: u32,
    msn: u32,
    /// The request's frame, for a late refusal.
    req_psn: u32,
    /// First frame of the answer, once begun.
    first_psn: u32,
    atomic: bool,
    begun: bool,
}

impl Pending {
    const ZERO: Pending =
        Pending { va: 0, len: 0, rkey: 0, msn: 0, req_psn: 0, first_psn: 0, atomic: false, begun: false };

    const fn end_psn(&self) -> u32 {
        self.first_psn.wrapping_add(frames_of(self.len))
    }
}

/// Why stream REQ does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    Open = 0,
    /// The next frame was refused for want of a receive entry; what follows it is dropped until it comes again.
    NotReady,
    /// A request was refused for good; earlier responses are still on their way.
    Refusing,
    /// The refusal has been said, and is said again to whatever comes.
    Refused,
}

/// A refusal for good, as it goes over the wire.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// A [`Nak`] as its number: this must be valid when zero.
    pub syndrome: u8,
    pub psn: u32,
    pub msn: u32,
    /// To raise when the queue pair goes to ERR.
    pub event: Option<QpEvent>,
}

/// Responder half of a queue pair: receives stream REQ, sends stream RSP.
pub struct Responder<B> {
    pub rx: RxStream<B>,
    pub tx: TxStream,
    pub phase: Phase,
    refusal: Refusal,
    /// An RNR NAK or a refusal is to be sent.
    pub nak_due: bool,
    /// tx_seq of the frame that met no receive entry.
    pub rnr_seq: u16,
    /// Number of the message at hand, or of the next one.
    msn: u32,
    /// The message at hand; 0: none.
    opcode: u8,
    msg_len: u32,
    msg_off: u32,
    rkey: u32,
    va: u64,
    /// A receive entry is taken and not completed, of this capacity.
    recv_open: bool,
    recv_cap: u32,
    /// READs and atomics to answer: free-running; oldest, next to send, next free.
    head: u32,
    cur: u32,
    tail: u32,
    pending: [Pending; MAX_RD_ATOMIC],
    /// How many the peer may have out.
    pub max_rd: u8,
    /// When the last response frame left or the peer last gave news.
    pub quiet_since: u64,
    /// Probes without an answer.
    pub backoff: u8,
    pub probe_due: bool,
}

impl<B: FrameBuf> Responder<B> {
    /// Not started.
    pub const ZERO: Self = Responder {
        rx: RxStream::ZERO,
        tx: TxStream::ZERO,
        phase: Phase::Open,
        refusal: Refusal { syndrome: 0, psn: 0, msn: 0, event: None },
        nak_due: false,
        rnr_seq: 0,
        msn: 0,
        opcode: 0,
        msg_len: 0,
        msg_off: 0,
        rkey: 0,
        va: 0,
        recv_open: false,
        recv_cap: 0,
        head: 0,
        cur: 0,
        tail: 0,
        pending: [Pending::ZERO; MAX_RD_ATOMIC],
        max_rd: 0,
        quiet_since: 0,
        backoff: 0,
        probe_due: false,
    };

    /// Forgets everything; both streams begin at `psn`.
    pub fn start(&mut self, psn: u32) {
        self.rx.start(psn);
        self.tx.start(psn);
        self.phase = Phase::Open;
        self.nak_due = false;
        self.msn = 0;
        self.opcode = 0;
        self.recv_open = false;
        self.clear_pending();
        self.backoff = 0;
        self.probe_due = false;
    }

    fn clear_pending(&mut self) {
        self.head = 0;
        self.cur = 0;
        self.tail = 0;
    }

    /// READs and atomics not yet answered and acknowledged.
    pub const fn unanswered(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// The refusal to say, in phases Refusing and Refused.
    pub const fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// Places the frame that is next in stream REQ.
    pub fn place<E: Env>(&mut self, h: &Header, data: &[u8], kind: QpKind, env: &mut E) -> Placed {
        const BAD: Placed = Placed::Refused(Nak::RemInvReq, Some(QpEvent::ReqErr));
        if h.msg_off == 0 {
            // A new message cannot begin within one. UC ends the old one before it comes here.
            if self.opcode != 0 || (kind == QpKind::Rc && h.msn != self.msn) {
                return BAD;
            }
        } else if h.opcode != self.opcode
            || h.msn != self.msn
            || h.msg_off != self.msg_off
            || h.msg_len != self.msg_len
        {
            return BAD;
        }
        let placed = match h.opcode {
            op::SEND => self.place_send(h, data, kind, env),
            op::WRITE => self.place_write(h, data, env),
            op::READ_REQ if kind == QpKind::Rc => self.place_read(h, env),
            op::CMP_SWAP | op::FETCH_ADD if kind == QpKind::Rc => self.place_atomic(h, data, env),
            _ => BAD,
        };
        if placed == Placed::Done {
            self.after(h);
        }
        placed
    }

    /// Where the message stands after frame `h`.
    fn after(&mut self, h: &Header) {
        if h.has(flag::LAST) {
            self.opcode = 0;
            self.msn = h.msn.wrapping_add(1);
        } else {
            self.opcode = h.opcode;
            self.msn = h.msn;
            self.msg_len = h.msg_len;
            self.msg_off = h.msg_off + u32::from(h.payload_len);
        }
    }

    /// UC: a message is at hand.
    pub const fn in_message(&self) -> bool {
        self.opcode != 0
    }

    /// UC: the message at hand is lost. Its receive entry stays for the next.
    pub fn end_message(&mut self) {
        self.opcode = 0;
    }

    /// Makes sure that there is a current receive entry.
    fn open_recv<E: Env>(&mut self, h: &Header, env: &mut E) -> Result<(), Placed> {
        if self.recv_open {
            return Ok(());
        }
        match env.recv_next() {
            None => Err(Placed::NotReady),
            Some(Ok(cap)) => {
                self.recv_open = true;
                self.recv_cap = cap;
                Ok(())
            }
            Some(Err(status)) => {
                self.recv_open = true;
                self.recv_failed(h, status, env);
                Err(Placed::Failed)
            }
        }
    }

    fn recv_failed<E: Env>(&mut self, h: &Header, status: WcStatus, env: &mut E) {
        self.recv_open = false;
        env.recv_done(RecvDone { status, len: h.msg_len, imm: 0, flags: 0 });
    }

    fn place_send<E: Env>(&mut self, h: &Header, data: &[u8], kind: QpKind, env: &mut E) -> Placed {
        if let Err(p) = self.open_recv(h, env) {
            return p;
        }
        if h.msg_len > self.recv_cap {
            // UC keeps the entry and drops the message (IBA 9.8.3.2.2).
            if kind == QpKind::Rc {
                self.recv_failed(h, WcStatus::LocLenErr, env);
            }
            return Placed::Refused(Nak::RemInvReq, None);
        }
        if !data.is_empty() {
            if let Err(status) = env.recv_write(h.msg_off, data) {
                self.recv_failed(h, status, env);
                return Placed::Failed;
            }
        }
        if !h.has(flag::LAST) {
            return Placed::Done;
        }
        if h.has(flag::INVALIDATE) {
            if let Err(nak) = env.invalidate(h.imm) {
                self.recv_failed(h, nak.status(), env);
                return Placed::Refused(nak, None);
            }
        }
        self.recv_complete(h, 0, env);
        Placed::Done
    }

    fn recv_complete<E: Env>(&mut self, h: &Header, more: u8, env: &mut E) {
        let bit = |wire: u8, done: u8| if h.has(wire) { done } else { 0 };
        let flags = bit(flag::IMM, RecvDone::IMM)
            | bit(flag::INVALIDATE, RecvDone::INVALIDATED)
            | bit(flag::SOLICITED, RecvDone::SOLICITED)
            | more;
        self.recv_open = false;
        env.recv_done(RecvDone { status: WcStatus::Success, len: h.msg_len, imm: h.imm, flags });
    }

    fn place_write<E: Env>(&mut self, h: &Header, data: &[u8], env: &mut E) -> Placed {
        if h.msg_off == 0 {
            if h.msg_len != 0 {
                if let Err(nak) = env.mem_check(h.rkey, h.va, h.msg_len, Access::RemoteWrite) {
                    return refused(nak);
                }
            }
            // Later frames use what was checked.
            self.rkey = h.rkey;
            self.va = h.va;
        }
        if h.has(flag::IMM) {
            // Before the data: a frame that is refused must not have been executed.
            if let Err(p) = self.open_recv(h, env) {
                return p;
            }
        }
        if !data.is_empty() {
            let va = self.va.wrapping_add(u64::from(h.msg_off));
            if let Err(nak) = env.mem_write(self.rkey, va, data, h.has(flag::LAST)) {
                return refused(nak);
            }
        }
        if h.has(flag::IMM) {
            self.recv_complete(h, RecvDone::WRITE_IMM, env);
        }
        Placed::Done
    }

    fn place_read<E: Env>(&mut self, h: &Header, env: &mut E) -> Placed {
        if h.msg_len != 0 {
            if let Err(nak) = env.mem_check(h.rkey, h.va, h.msg_len, Access::RemoteRead) {
                return refused(nak);
            }
        }
        self.push(Pending { va: h.va, len: h.msg_len, rkey: h.rkey, ..Pending::ZERO }, h)
    }

    fn place_atomic<E: Env>(&mut self, h: &Header, data: &[u8], env: &mut E) -> Placed {
        let (Some(a), Some(b)) = (data.first_chunk::<8>(), data.last_chunk::<8>()) else {
            return refused(Nak::RemInvReq);
        };
        if h.va & 7 != 0 || self.is_full() {
            return refused(Nak::RemInvReq);
        }
        if let Err(nak) = env.mem_check(h.rkey, h.va, 8, Access::RemoteAtomic) {
            return refused(nak);
        }
        let (a, b) = (u64::from_le_bytes(*a), u64::from_le_bytes(*b));
        let what = if h.opcode == op::CMP_SWAP {
            AtomicOp::CmpSwap { compare: a, swap: b }
        } else {
            AtomicOp::FetchAdd { add: a }
        };
        match env.atomic(h.rkey, h.va, what) {
            Ok(original) => self.push(Pending { va: original, len: 8, atomic: true, ..Pending::ZERO }, h),
            Err(nak) => refused(nak),
        }
    }

    fn is_full(&self) -> bool {
        self.unanswered() >= u32::from(self.max_rd).min(MAX_RD_ATOMIC as u32)
    }

    fn push(&mut self, p: Pending, h: &Header) -> Placed {
        if self.is_full() {
            return refused(Nak::RemInvReq);
        }
        self.pending[self.tail as usize % MAX_RD_ATOMIC] = Pending { msn: h.msn, req_psn: h.psn, ..p };
        self.tail = self.tail.wrapping_add(1);
        Placed::Done
    }

    /// Response frames were acknowledged: forgets what is answered.
    pub fn on_acked(&mut self) {
        while self.head != self.cur {
            let p = &self.pending[self.head as usize % MAX_RD_ATOMIC];
            if before(self.tx.una(), p.end_psn()) {
                break;
            }
            self.head = self.head.wrapping_add(1);
        }
    }

    /// The next frame, transmission `tx_seq` of it, met no receive entry; what is held comes again with it.
    pub fn not_ready(&mut self, tx_seq: u16) {
        self.phase = Phase::NotReady;
        self.rnr_seq = tx_seq;
        self.nak_due = true;
        self.rx.drop_held();
        self.rx.forgive();
    }

    /// Refuses the message of `psn`, `msn` for good.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.rx.drop_held();
        self.rx.forgive();
        self.nak_due = false;
        self.phase = Phase::Refusing;
        self.refusal = refusal;
    }

    /// Refusing, and all earlier responses have arrived: it can be said now, in its place in the order.
    pub fn may_say_refusal(&self) -> bool {
        self.phase == Phase::Refusing && self.unanswered() == 0
    }

    /// Would `build` give a frame now?
    pub fn has_work(&self) -> bool {
        self.tx.must_resend() || (self.cur != self.tail && self.tx.has_room())
    }

    /// Builds the next frame of stream RSP: header without dst_qpn, acknowledgement and tag, and payload.
    pub fn build<E: Env>(&mut self, now: u64, env: &mut E, out: &mut [u8], c: &mut QpCounters) -> Option<Header> {
        let next = self.tx.next();
        let (index, psn) = match next {
            Next::Lost(psn) | Next::Again(psn) => (self.tx.owner_of(psn), psn),
            Next::New(psn) if self.cur != self.tail => (self.cur as usize % MAX_RD_ATOMIC, psn),
            _ => return None,
        };
        let p = &mut self.pending[index % MAX_RD_ATOMIC];
        if !p.begun {
            p.begun = true;
            p.first_psn = psn;
        }
        let p = *p;
        let mut h = response_header(&p, psn);
        let body = out.get_mut(HEADER_BYTES..HEADER_BYTES + h.payload_len as usize)?;
        if p.atomic {
            body.copy_from_slice(&p.va.to_le_bytes());
        } else if !body.is_empty() {
            let va = p.va.wrapping_add(u64::from(h.msg_off));
            if let Err(nak) = env.mem_read(p.rkey, va, body) {
                self.refuse_read(&p, nak);
                return None;
            }
        }
        let asks = h.has(flag::LAST) || self.tx.wants_ack(psn);
        if asks {
            h.flags |= flag::ACK_REQ;
        }
        if !self.tx.in_flight() {
            self.backoff = 0;
        }
        h.tx_seq = self.tx.sent(psn, index, asks, now);
        self.quiet_since = now;
        if matches!(next, Next::New(_)) && h.has(flag::LAST) {
            self.cur = self.cur.wrapping_add(1);
        }
        c.count_sent(next, h.payload_len);
        Some(h)
    }

    /// A READ was accepted, and its memory has gone since: refuse it now, and whatever was accepted after it.
    fn refuse_read(&mut self, p: &Pending, nak: Nak) {
        self.tx.cut(p.first_psn);
        while self.tail != self.head {
            let last = self.tail.wrapping_sub(1);
            let m = self.pending[last as usize % MAX_RD_ATOMIC].msn;
            if before(m, p.msn) {
                break;
            }
            self.tail = last;
        }
        if before(self.tail, self.cur) {
            self.cur = self.tail;
        }
        self.refuse(Refusal { syndrome: nak as u8, psn: p.req_psn, msn: p.msn, event: Some(event_of(nak)) });
        // What of it had been sent may have been acknowledged as far as the cut.
        self.on_acked();
    }

    /// The current receive entry, if any, ends with WR_FLUSH_ERR; nothing is answered any more.
    pub fn flush<E: Env>(&mut self, env: &mut E) {
        if self.recv_open {
            self.recv_open = false;
            env.recv_done(RecvDone { status: WcStatus::WrFlushErr, len: 0, imm: 0, flags: 0 });
        }
        env.flush_recv();
        self.rx.drop_held();
        self.rx.forgive();
        self.clear_pending();
        self.probe_due = false;
        if self.phase != Phase::Refused {
            self.nak_due = false;
        }
    }
}

/// The event of a refusal for access or otherwise.
pub const fn event_of(nak: Nak) -> QpEvent {
    match nak {
        Nak::RemAccess => QpEvent::AccessErr,
        Nak::RemInvReq | Nak::RemOp => QpEvent::ReqErr,
    }
}

const fn refused(nak: Nak) -> Placed {
    Placed::Refused(nak, Some(event_of(nak)))
}

fn response_header(p: &Pending, psn: u32) -> Header {
    let off = psn.wrapping_sub(p.first_psn).wrapping_mul(PAYLOAD_BYTES as u32);
    let left = p.len.saturating_sub(off);
    let last = left <= PAYLOAD_BYTES as u32;
    Header {
        kind: Kind::Data,
        opcode: if p.atomic { op::ATOMIC_RSP } else { op::READ_RSP },
        flags: flag::RSP | if last { flag::LAST } else { 0 },
        payload_len: left.min(PAYLOAD_BYTES as u32) as u16,
        psn,
        msn: p.msn,
        msg_off: off,
        msg_len: p.len,
        ..Header::default()
    }
}
