// SPDX-License-Identifier: GPL-2.0
//! The responder: places requests of the peer in their order, and answers READs and atomics.

use super::answers::{Answer, Answers, Gone};
use super::counters::QpCounters;
use super::env::{Access, AtomicOp, Env, FrameBuf, RecvDone};
use super::qp_state::QpKind;
use super::rx_stream::RxStream;
use super::status::{Nak, QpEvent, WcStatus};
use super::wire::{flag, op, Header};
use super::MAX_RD_ATOMIC;

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
    pub answers: Answers,
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
    /// How many the peer may have out.
    pub max_rd: u8,
}

impl<B: FrameBuf> Responder<B> {
    /// Not started.
    pub const ZERO: Self = Responder {
        rx: RxStream::ZERO,
        answers: Answers::ZERO,
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
        max_rd: 0,
    };

    /// Forgets everything; both streams begin at `psn`.
    pub fn start(&mut self, psn: u32) {
        self.rx.start(psn);
        self.answers.start(psn);
        self.phase = Phase::Open;
        self.nak_due = false;
        self.msn = 0;
        self.opcode = 0;
        self.recv_open = false;
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
        self.answer(Answer { va: h.va, len: h.msg_len, rkey: h.rkey, ..Answer::ZERO }, h)
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
            Ok(original) => self.answer(Answer { va: original, len: 8, atomic: true, ..Answer::ZERO }, h),
            Err(nak) => refused(nak),
        }
    }

    fn is_full(&self) -> bool {
        self.answers.count() >= u32::from(self.max_rd).min(MAX_RD_ATOMIC as u32)
    }

    fn answer(&mut self, answer: Answer, h: &Header) -> Placed {
        if self.is_full() {
            return refused(Nak::RemInvReq);
        }
        self.answers.push(Answer { msn: h.msn, req_psn: h.psn, ..answer });
        Placed::Done
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
        self.phase == Phase::Refusing && self.answers.count() == 0
    }

    /// Builds the next frame of stream RSP: header without dst_qpn, acknowledgement and tag, and payload. A
    /// READ whose memory has gone since it was accepted is refused instead.
    pub fn build<E: Env>(&mut self, now: u64, env: &mut E, out: &mut [u8], c: &mut QpCounters) -> Option<Header> {
        match self.answers.build(now, env, out, c) {
            Ok(frame) => frame,
            Err(Gone { nak, psn, msn }) => {
                self.refuse(Refusal { syndrome: nak as u8, psn, msn, event: Some(event_of(nak)) });
                None
            }
        }
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
        self.answers.clear();
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
