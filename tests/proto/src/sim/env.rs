// SPDX-License-Identifier: GPL-2.0
//! The world of one queue pair in the simulation, and the oracle: every call that the core makes is checked
//! against the peer's plan. Execution must be exactly once and in order; completions too.

use super::plan::{fill, is_pattern, Fault, Msg, Plan, ATOMIC_CELLS, GOOD_KEY};
use crate::proto::env::{Access, AtomicOp, Env, RecvDone, SendOp, SendWr};
use crate::proto::qp_state::QpKind;
use crate::proto::status::{Nak, QpEvent, WcStatus};
use crate::proto::MAX_INFLIGHT;
use std::cell::Cell;
use std::rc::Rc;

/// A receive entry is this large, unless its message shall not fit.
pub const RECV_BYTES: u32 = 1 << 22;

/// How far the peer of a plan has executed it; shared by both ends.
#[derive(Default)]
pub struct Executed {
    /// Messages before this one are executed.
    pub upto: Cell<usize>,
    /// Bytes of this one.
    pub off: Cell<u32>,
}

/// See the file's head.
pub struct SimEnv {
    pub kind: QpKind,
    /// What this side sends, and how far the peer has executed it.
    pub mine: Rc<Plan>,
    pub mine_done: Rc<Executed>,
    /// What the peer sends, and how far this side has executed it.
    pub theirs: Rc<Plan>,
    pub theirs_done: Rc<Executed>,
    /// Entries of `mine` in the send queue so far; taken so far.
    pub posted: usize,
    taken: usize,
    slots: [usize; MAX_INFLIGHT],
    next_slot: usize,
    /// Message of each number on the wire: local operations have none.
    by_msn: Vec<usize>,
    /// READ, atomic: bytes stored for each message.
    stored: Vec<u32>,
    local_done: Vec<bool>,
    /// Statuses of `mine`, in order.
    pub sent: Vec<WcStatus>,
    /// Receive entries posted, taken, completed well, flushed.
    pub recv_posted: usize,
    recv_taken: usize,
    pub recv_ok: usize,
    pub recv_bad: Vec<WcStatus>,
    recv_flushed: usize,
    recv_open: bool,
    /// Messages of the peer that take a receive entry, in order.
    recv_order: Vec<usize>,
    /// UC: the last message seen; the bytes of the one at hand.
    uc_last: Option<usize>,
    uc_data: Vec<u8>,
    /// UC: the WRITE at hand and how much of it has come.
    uc_write: (usize, u32),
    cells: [u64; ATOMIC_CELLS as usize],
    reads_until_gone: u32,
    pub events: Vec<QpEvent>,
}

impl SimEnv {
    pub fn new(
        kind: QpKind,
        mine: (Rc<Plan>, Rc<Executed>),
        theirs: (Rc<Plan>, Rc<Executed>),
        reads_until_gone: u32,
    ) -> SimEnv {
        let n = mine.0.msgs.len();
        let recv_order = theirs.0.msgs.iter().enumerate().filter(|(_, m)| m.takes_recv()).map(|(i, _)| i).collect();
        let on_wire = mine.0.msgs.iter().enumerate().filter(|(_, m)| m.wr.op != SendOp::Local);
        let by_msn = on_wire.map(|(i, _)| i).collect();
        SimEnv {
            kind,
            by_msn,
            mine: mine.0,
            mine_done: mine.1,
            theirs: theirs.0,
            theirs_done: theirs.1,
            posted: 0,
            taken: 0,
            slots: [usize::MAX; MAX_INFLIGHT],
            next_slot: 0,
            stored: vec![0; n],
            local_done: vec![false; n],
            sent: Vec::new(),
            recv_posted: 0,
            recv_taken: 0,
            recv_ok: 0,
            recv_bad: Vec::new(),
            recv_flushed: 0,
            recv_open: false,
            recv_order,
            uc_last: None,
            uc_data: Vec::new(),
            uc_write: (usize::MAX, 0),
            cells: [0; ATOMIC_CELLS as usize],
            reads_until_gone,
            events: Vec::new(),
        }
    }

    /// The message that goes over the wire as number `msn`.
    pub fn message_of(&self, msn: u32) -> usize {
        self.by_msn[msn as usize]
    }

    /// Bytes that have been stored for READ or atomic `i`.
    pub fn stored_of(&self, i: usize) -> u32 {
        self.stored[i]
    }

    /// Every posted send entry is complete.
    pub fn sends_done(&self) -> bool {
        self.sent.len() == self.posted
    }

    /// Receive entries that are complete, one way or the other.
    pub fn recvs_done(&self) -> usize {
        self.recv_ok + self.recv_bad.len() + self.recv_flushed
    }

    /// How many receive entries the peer's plan needs.
    pub fn recvs_wanted(&self) -> usize {
        self.recv_order.iter().take_while(|i| self.theirs.msgs[**i].fault != Fault::NoRecv).count()
    }

    fn my_msg(&self, slot: usize) -> (usize, Msg) {
        let i = self.slots[slot];
        (i, self.mine.msgs[i])
    }

    /// The peer's message that must be executed next, its number and how much of it is.
    fn due(&self) -> (usize, Msg, u32) {
        self.skip_invisible();
        let i = self.theirs_done.upto.get();
        assert!(i < self.theirs.msgs.len(), "executed more than was sent");
        (i, self.theirs.msgs[i], self.theirs_done.off.get())
    }

    fn skip_invisible(&self) {
        let d = &self.theirs_done;
        while d.off.get() == 0 && self.theirs.msgs.get(d.upto.get()).is_some_and(|m| m.is_invisible()) {
            d.upto.set(d.upto.get() + 1);
        }
    }

    fn executed(&self) {
        self.theirs_done.upto.set(self.theirs_done.upto.get() + 1);
        self.theirs_done.off.set(0);
        self.skip_invisible();
    }

    fn is_uc(&self) -> bool {
        self.kind == QpKind::Uc
    }

    fn check_sent_well(&self, i: usize, m: &Msg, byte_len: u32) {
        assert_eq!(m.fault, Fault::None, "message {i} was spoilt and succeeded");
        assert_eq!(byte_len, m.wr.len);
        if m.wr.op == SendOp::Local {
            assert!(self.local_done[i]);
        } else if self.kind == QpKind::Rc {
            let upto = self.mine_done.upto.get();
            let trailing = || self.mine.msgs[upto..=i].iter().all(|m| m.is_invisible());
            assert!(upto > i || trailing(), "message {i} succeeded before it was executed ({upto})");
        }
        if matches!(m.wr.op, SendOp::Read) || m.is_atomic() {
            assert_eq!(self.stored[i], m.wr.len, "message {i} succeeded without all its data");
        }
    }

    fn uc_recv_done(&mut self, done: &RecvDone) {
        let i = done.imm as usize;
        let m = self.theirs.msgs[i];
        assert!(self.uc_last.is_none_or(|l| i > l), "UC messages out of order");
        self.uc_last = Some(i);
        self.check_recv(&m, done);
        if m.wr.op == SendOp::Send {
            let len = m.wr.len as usize;
            assert!(is_pattern(self.theirs.tag ^ i as u64, 0, &self.uc_data[..len]), "UC message {i} is damaged");
        } else if m.wr.len > 0 {
            assert_eq!(self.uc_write, (i, m.wr.len), "UC WRITE {i} completed before its data");
        }
    }

    fn check_recv(&self, m: &Msg, done: &RecvDone) {
        let bit = |has: u8, flag: u8| if m.wr.flags & has != 0 { flag } else { 0 };
        let kind = if m.wr.op == SendOp::Write { RecvDone::WRITE_IMM } else { 0 };
        let flags = bit(SendWr::IMM, RecvDone::IMM)
            | bit(SendWr::INVALIDATE, RecvDone::INVALIDATED)
            | bit(SendWr::SOLICITED, RecvDone::SOLICITED)
            | kind;
        assert_eq!(done.flags, flags);
        assert_eq!(done.len, m.wr.len);
        if flags & (RecvDone::IMM | RecvDone::INVALIDATED) != 0 {
            assert_eq!(done.imm, m.wr.imm);
        }
    }
}

impl Env for SimEnv {
    fn next_send(&mut self, slot: usize) -> Option<Result<SendWr, WcStatus>> {
        if self.taken == self.posted {
            return None;
        }
        assert_eq!(slot, self.next_slot, "slots are cyclic");
        self.next_slot = (slot + 1) % MAX_INFLIGHT;
        assert_eq!(self.slots[slot], usize::MAX, "slot {slot} is in use");
        self.slots[slot] = self.taken;
        let m = self.mine.msgs[self.taken];
        self.taken += 1;
        Some(if m.fault == Fault::BadEntry { Err(WcStatus::LocQpOpErr) } else { Ok(m.wr) })
    }

    fn gather(&mut self, slot: usize, off: u32, out: &mut [u8]) -> Result<(), WcStatus> {
        let (i, m) = self.my_msg(slot);
        assert!(off + out.len() as u32 <= m.wr.len && !out.is_empty());
        // Its last byte is the one that cannot be read.
        if m.fault == Fault::Gather && off + out.len() as u32 == m.wr.len {
            return Err(WcStatus::LocProtErr);
        }
        match m.wr.op {
            SendOp::Send => fill(self.mine.tag ^ i as u64, off.into(), out),
            SendOp::Write => fill(m.wr.va >> 32, off.into(), out),
            _ => panic!("gather for {:?}", m.wr.op),
        }
        Ok(())
    }

    fn scatter(&mut self, slot: usize, off: u32, data: &[u8]) -> Result<(), WcStatus> {
        let (i, m) = self.my_msg(slot);
        if m.fault == Fault::Scatter {
            return Err(WcStatus::LocProtErr);
        }
        assert_eq!(off, self.stored[i], "READ data out of order");
        if m.is_atomic() {
            assert_eq!(data, m.expect.to_le_bytes(), "atomic {i} found another value");
        } else {
            assert_eq!(m.wr.op, SendOp::Read);
            assert!(is_pattern(m.wr.va >> 32, off.into(), data), "READ {i} is damaged");
        }
        self.stored[i] += data.len() as u32;
        Ok(())
    }

    fn local_op(&mut self, slot: usize) -> Result<(), WcStatus> {
        let (i, m) = self.my_msg(slot);
        assert_eq!(m.wr.op, SendOp::Local);
        assert!(!self.local_done[i]);
        self.local_done[i] = true;
        Ok(())
    }

    fn send_done(&mut self, slot: usize, status: WcStatus, byte_len: u32) {
        let (i, m) = self.my_msg(slot);
        assert_eq!(i, self.sent.len(), "completions out of order");
        self.slots[slot] = usize::MAX;
        if status == WcStatus::Success {
            self.check_sent_well(i, &m, byte_len);
            assert!(self.sent.last().is_none_or(|s| *s == WcStatus::Success), "success after failure");
        }
        self.sent.push(status);
    }

    fn recv_next(&mut self) -> Option<Result<u32, WcStatus>> {
        assert!(!self.recv_open);
        if self.recv_taken == self.recv_posted {
            return None;
        }
        self.recv_open = true;
        let n = self.recv_taken;
        self.recv_taken += 1;
        self.uc_data.clear();
        let fault = |f: Fault| self.recv_order.get(n).is_some_and(|i| self.theirs.msgs[*i].fault == f);
        if !self.is_uc() && fault(Fault::BadRecv) {
            return Some(Err(WcStatus::LocQpOpErr));
        }
        if !self.is_uc() && fault(Fault::TooLong) {
            return Some(Ok(self.theirs.msgs[self.recv_order[n]].wr.len - 1));
        }
        Some(Ok(RECV_BYTES))
    }

    fn recv_write(&mut self, off: u32, data: &[u8]) -> Result<(), WcStatus> {
        assert!(self.recv_open && !data.is_empty());
        if self.is_uc() {
            let end = off as usize + data.len();
            self.uc_data.resize(end.max(self.uc_data.len()), 0);
            self.uc_data[off as usize..end].copy_from_slice(data);
            return Ok(());
        }
        let (i, m, done) = self.due();
        if m.fault == Fault::RecvWrite {
            return Err(WcStatus::LocProtErr);
        }
        assert_eq!(m.wr.op, SendOp::Send, "message {i}");
        assert_eq!(off, done, "SEND data out of order");
        assert!(is_pattern(self.theirs.tag ^ i as u64, off.into(), data), "SEND {i} is damaged");
        self.theirs_done.off.set(done + data.len() as u32);
        Ok(())
    }

    fn recv_done(&mut self, done: RecvDone) {
        assert!(self.recv_open);
        self.recv_open = false;
        if done.status == WcStatus::WrFlushErr {
            self.recv_flushed += 1;
            return;
        }
        if done.status != WcStatus::Success {
            self.recv_bad.push(done.status);
            return;
        }
        self.recv_ok += 1;
        if self.is_uc() {
            self.uc_recv_done(&done);
            return;
        }
        let (i, m, off) = self.due();
        assert!(m.takes_recv(), "message {i} takes no receive entry");
        assert_eq!(off, m.wr.len, "message {i} completed before its data");
        self.check_recv(&m, &done);
        self.executed();
    }

    fn flush_recv(&mut self) {
        self.recv_flushed += self.recv_posted - self.recv_taken;
        self.recv_taken = self.recv_posted;
    }

    fn mem_check(&mut self, rkey: u32, va: u64, len: u32, access: Access) -> Result<(), Nak> {
        assert!(len > 0);
        if rkey != GOOD_KEY {
            return Err(Nak::RemAccess);
        }
        if self.is_uc() {
            return Ok(());
        }
        let (i, m, off) = self.due();
        assert_eq!((m.wr.va, m.wr.len, off), (va, len, 0), "message {i}");
        match access {
            Access::RemoteWrite => assert_eq!(m.wr.op, SendOp::Write),
            Access::RemoteAtomic => assert!(m.is_atomic()),
            Access::RemoteRead => {
                assert_eq!(m.wr.op, SendOp::Read);
                self.executed();
            }
        }
        Ok(())
    }

    fn mem_write(&mut self, rkey: u32, va: u64, data: &[u8], last: bool) -> Result<(), Nak> {
        assert_eq!(rkey, GOOD_KEY);
        let off = va & 0xffff_ffff;
        assert!(is_pattern(va >> 32, off, data), "WRITE is damaged");
        if self.is_uc() {
            let i = (va >> 32) as usize & 0xffff;
            assert!(self.uc_last.is_none_or(|l| i >= l), "UC messages out of order");
            let begun = if off == 0 { 0 } else { self.uc_write.1 };
            assert!(off == 0 || self.uc_write == (i, off as u32), "UC WRITE {i} goes on after a gap");
            self.uc_write = (i, begun + data.len() as u32);
            self.uc_last = Some(i).filter(|_| !self.theirs.msgs[i].takes_recv()).or(self.uc_last);
            return Ok(());
        }
        let (i, m, done) = self.due();
        assert_eq!((m.wr.op, m.wr.va + u64::from(done)), (SendOp::Write, va), "message {i}");
        let done = done + data.len() as u32;
        assert_eq!(last, done == m.wr.len);
        self.theirs_done.off.set(done);
        if last && !m.takes_recv() {
            self.executed();
        }
        Ok(())
    }

    fn mem_read(&mut self, rkey: u32, va: u64, out: &mut [u8]) -> Result<(), Nak> {
        assert_eq!(rkey, GOOD_KEY);
        let m = self.theirs.msgs[(va >> 32) as usize & 0xffff];
        let off = va & 0xffff_ffff;
        assert!(m.wr.op == SendOp::Read && off + out.len() as u64 <= m.wr.len.into());
        if m.fault == Fault::ReadGone {
            if self.reads_until_gone == 0 || off + out.len() as u64 == m.wr.len.into() {
                return Err(Nak::RemAccess);
            }
            self.reads_until_gone -= 1;
        }
        fill(va >> 32, off, out);
        Ok(())
    }

    fn atomic(&mut self, rkey: u32, va: u64, op: AtomicOp) -> Result<u64, Nak> {
        assert_eq!(rkey, GOOD_KEY);
        let (i, m, _) = self.due();
        assert!(m.is_atomic() && m.wr.va == va, "message {i}");
        let cell = &mut self.cells[(va as u32 / 8) as usize];
        let was = *cell;
        match op {
            AtomicOp::CmpSwap { compare, swap } if compare == was => *cell = swap,
            AtomicOp::CmpSwap { .. } => {}
            AtomicOp::FetchAdd { add } => *cell = was.wrapping_add(add),
        }
        assert_eq!(was, m.expect, "atomic {i} was executed out of order or twice");
        self.executed();
        Ok(was)
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), Nak> {
        let (_, m, _) = self.due();
        assert_eq!(rkey, m.wr.imm);
        Ok(())
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }
}
