// SPDX-License-Identifier: GPL-2.0
//! Requests taken from the send queue and not yet completed, in its order: a ring of slots.
//!
//! `head <= cur <= tail`, free-running. [head, cur) is sent as a whole, `cur` is at work (or waits for its
//! turn), `tail` is the next free slot.

use super::env::{SendOp, SendWr};
use super::status::WcStatus;
use super::{MAX_INFLIGHT, PAYLOAD_BYTES};

/// Frames of a message of `len` bytes.
pub const fn frames_of(len: u32) -> u32 {
    if len == 0 {
        1
    } else {
        len.div_ceil(PAYLOAD_BYTES as u32)
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub wr: SendWr,
    pub first_psn: u32,
    pub msn: u32,
    /// Number of its frames in the request stream; 0 for local operations.
    pub frames: u32,
    /// READ, atomic: response is complete. Local: executed.
    pub done: bool,
    /// Sending has begun: `first_psn`, `msn` are valid.
    pub started: bool,
    /// Not `Success`: it will complete with this when it is the oldest.
    pub failed: WcStatus,
}

impl Request {
    /// Nothing.
    pub const ZERO: Request = Request {
        wr: SendWr { va: 0, compare_add: 0, swap: 0, rkey: 0, imm: 0, len: 0, op: SendOp::Send, flags: 0 },
        first_psn: 0,
        msn: 0,
        frames: 0,
        done: false,
        started: false,
        failed: WcStatus::Success,
    };

    /// A request as taken from the queue.
    pub const fn new(wr: SendWr, failed: WcStatus) -> Request {
        let frames = match wr.op {
            SendOp::Send | SendOp::Write => frames_of(wr.len),
            SendOp::Read | SendOp::CmpSwap | SendOp::FetchAdd => 1,
            SendOp::Local => 0,
        };
        Request { wr, frames, failed, ..Request::ZERO }
    }

    /// READ or atomic: complete only with its response.
    pub const fn has_response(&self) -> bool {
        matches!(self.wr.op, SendOp::Read | SendOp::CmpSwap | SendOp::FetchAdd)
    }

    /// Bytes that its completion tells.
    pub const fn byte_len(&self) -> u32 {
        match self.wr.op {
            SendOp::CmpSwap | SendOp::FetchAdd => 8,
            _ => self.wr.len,
        }
    }

    /// The PSN after its last frame.
    pub const fn end_psn(&self) -> u32 {
        self.first_psn.wrapping_add(self.frames)
    }
}

/// The ring.
pub struct Inflight {
    head: u32,
    cur: u32,
    tail: u32,
    slots: [Request; MAX_INFLIGHT],
}

/// Slot of a free-running number.
pub const fn slot_of(n: u32) -> usize {
    n as usize % MAX_INFLIGHT
}

impl Inflight {
    /// Empty.
    pub const ZERO: Inflight = Inflight { head: 0, cur: 0, tail: 0, slots: [Request::ZERO; MAX_INFLIGHT] };

    /// Forgets everything; the next slot is 0.
    pub fn clear(&mut self) {
        self.head = 0;
        self.cur = 0;
        self.tail = 0;
    }

    /// Nothing is in flight.
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Every slot is taken.
    pub const fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) as usize >= MAX_INFLIGHT
    }

    /// The slot that the next request will have.
    pub const fn tail_slot(&self) -> usize {
        slot_of(self.tail)
    }

    /// Puts a request into the slot that `tail_slot` named.
    pub fn push(&mut self, r: Request) {
        self.slots[slot_of(self.tail)] = r;
        self.tail = self.tail.wrapping_add(1);
    }

    /// The oldest request.
    pub fn oldest(&self) -> Option<(usize, &Request)> {
        if self.is_empty() {
            return None;
        }
        let s = slot_of(self.head);
        Some((s, &self.slots[s]))
    }

    /// The oldest has been sent as a whole.
    pub const fn oldest_is_sent(&self) -> bool {
        self.head != self.cur
    }

    /// Removes the oldest.
    pub fn pop(&mut self) {
        if self.cur == self.head {
            self.cur = self.cur.wrapping_add(1);
        }
        self.head = self.head.wrapping_add(1);
    }

    /// The slot at work, if there is one.
    pub fn current(&self) -> Option<usize> {
        if self.cur == self.tail {
            None
        } else {
            Some(slot_of(self.cur))
        }
    }

    /// The one at work is sent as a whole.
    pub fn next_current(&mut self) {
        self.cur = self.cur.wrapping_add(1);
    }

    /// The request in a slot.
    pub const fn get(&self, slot: usize) -> &Request {
        &self.slots[slot % MAX_INFLIGHT]
    }

    /// The request in a slot, to change.
    pub fn get_mut(&mut self, slot: usize) -> &mut Request {
        &mut self.slots[slot % MAX_INFLIGHT]
    }

    /// The request whose message number is `msn` and whose frames include `psn`. Only for refusals: it looks
    /// at each request.
    pub fn find(&self, msn: u32, psn: u32) -> Option<usize> {
        let n = self.tail.wrapping_sub(self.head);
        (0..n).map(|i| slot_of(self.head.wrapping_add(i))).find(|s| {
            let r = &self.slots[*s];
            r.started && r.frames != 0 && r.msn == msn && super::seq::within(psn, r.first_psn, r.end_psn())
        })
    }
}
