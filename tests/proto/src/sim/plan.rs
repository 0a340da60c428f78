// SPDX-License-Identifier: GPL-2.0
//! What one side of a queue pair will send: messages made from the seed, with what must become of each.

use super::rng::Rng;
use crate::proto::env::{SendOp, SendWr};
use crate::proto::qp_state::QpKind;
use crate::proto::status::WcStatus;
use crate::proto::PAYLOAD_BYTES;

/// The rkey that opens everything; any other opens nothing.
pub const GOOD_KEY: u32 = 0x1234_5678;
/// Addresses that atomics work on, per direction.
pub const ATOMIC_CELLS: u64 = 3;

/// Something that goes wrong in one message, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A key that does not exist.
    BadKey,
    /// A SEND longer than its receive entry.
    TooLong,
    /// The local data cannot be read.
    Gather,
    /// READ data cannot be stored.
    Scatter,
    /// The entry in the send queue is nonsense.
    BadEntry,
    /// The peer's receive entry is nonsense.
    BadRecv,
    /// The peer's receive entry cannot be written.
    RecvWrite,
    /// The memory vanishes after the READ was accepted.
    ReadGone,
    /// No receive entry is ever posted for it, and the patience is finite.
    NoRecv,
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Msg {
    pub wr: SendWr,
    /// Atomics: the value it must find.
    pub expect: u64,
    pub fault: Fault,
}

impl Msg {
    /// Consumes a receive entry of the peer.
    pub fn takes_recv(&self) -> bool {
        match self.wr.op {
            SendOp::Send => true,
            SendOp::Write => self.wr.flags & SendWr::IMM != 0,
            _ => false,
        }
    }

    /// Leaves no trace in the calls that the responder makes.
    pub fn is_invisible(&self) -> bool {
        match self.wr.op {
            SendOp::Local => true,
            SendOp::Write => self.wr.len == 0 && !self.takes_recv(),
            SendOp::Read => self.wr.len == 0,
            _ => false,
        }
    }

    pub fn is_atomic(&self) -> bool {
        matches!(self.wr.op, SendOp::CmpSwap | SendOp::FetchAdd)
    }
}

/// The messages of one direction.
#[derive(Debug)]
pub struct Plan {
    pub msgs: Vec<Msg>,
    /// Key of the SEND data pattern.
    pub tag: u64,
}

fn length(rng: &mut Rng) -> u32 {
    let p = PAYLOAD_BYTES as u32;
    match rng.below(200) {
        0 => 0,
        1 => 1,
        2 => p - 1,
        3 => p,
        4 => p + 1,
        5 => 2 * p - 1,
        6 => 2 * p,
        7 => 2 * p + 1,
        8..=119 => rng.range(1, 256) as u32,
        120..=192 => rng.range(1, 5 * u64::from(p)) as u32,
        193..=198 => rng.range(1, 40 * u64::from(p)) as u32,
        // More than the window.
        _ => rng.range(200, 400) as u32 * p + rng.below(3) as u32,
    }
}

impl Plan {
    /// `count` messages of `len` bytes.
    pub fn of(op: SendOp, len: u32, count: usize, tag: u64) -> Plan {
        let msg = |i: u64| Msg {
            wr: SendWr { op, len, rkey: GOOD_KEY, va: (tag << 48) | (i << 32), ..SendWr::default() },
            expect: 0,
            fault: Fault::None,
        };
        Plan { msgs: (0..count as u64).map(msg).collect(), tag }
    }

    /// All that have data of a length of their own get three frames.
    pub fn three_frames(&mut self) {
        let own = |m: &&mut Msg| !m.is_atomic() && m.wr.op != SendOp::Local;
        self.msgs.iter_mut().filter(own).for_each(|m| m.wr.len = 2 * PAYLOAD_BYTES as u32 + 9);
    }

    /// `count` messages for a queue pair of this kind.
    pub fn new(rng: &mut Rng, kind: QpKind, count: usize, tag: u64) -> Plan {
        let mut cells = [0u64; ATOMIC_CELLS as usize];
        let mut msgs = Vec::with_capacity(count);
        for i in 0..count {
            msgs.push(Self::message(rng, kind, i as u64, tag, &mut cells));
        }
        Plan { msgs, tag }
    }

    fn message(rng: &mut Rng, kind: QpKind, i: u64, tag: u64, cells: &mut [u64]) -> Msg {
        let mut wr = SendWr { len: length(rng), rkey: GOOD_KEY, imm: i as u32, ..SendWr::default() };
        // Memory is a function of the address: the message's number stands in its upper half.
        wr.va = (tag << 48) | (i << 32);
        let roll = rng.below(100);
        wr.op = match (kind, roll) {
            (_, 0..=39) => SendOp::Send,
            (_, 40..=64) => SendOp::Write,
            (_, 65..=66) => SendOp::Local,
            (QpKind::Uc, _) => SendOp::Write,
            (QpKind::Rc, 67..=84) => SendOp::Read,
            (QpKind::Rc, 85..=92) => SendOp::CmpSwap,
            (QpKind::Rc, _) => SendOp::FetchAdd,
        };
        if kind == QpKind::Uc && wr.op == SendOp::Send {
            // The receiver tells by it which message it was.
            wr.flags |= SendWr::IMM;
        } else if matches!(wr.op, SendOp::Send | SendOp::Write) && rng.percent(35) {
            wr.flags |= SendWr::IMM;
        } else if wr.op == SendOp::Send && rng.percent(10) {
            wr.flags |= SendWr::INVALIDATE;
        }
        if rng.percent(20) {
            wr.flags |= SendWr::SOLICITED;
        }
        if rng.percent(10) {
            wr.flags |= SendWr::FENCE;
        }
        let mut expect = 0;
        if matches!(wr.op, SendOp::CmpSwap | SendOp::FetchAdd) {
            let cell = rng.below(ATOMIC_CELLS);
            let v = &mut cells[cell as usize];
            expect = *v;
            wr.len = 8;
            wr.va = (tag << 48) | (0xffff << 32) | (cell * 8);
            if wr.op == SendOp::CmpSwap {
                wr.compare_add = if rng.percent(50) { *v } else { rng.word() };
                wr.swap = rng.word();
                if wr.compare_add == *v {
                    *v = wr.swap;
                }
            } else {
                wr.compare_add = rng.word();
                *v = v.wrapping_add(wr.compare_add);
            }
        }
        Msg { wr, expect, fault: Fault::None }
    }

    /// Spoils one message; gives its number and the status that it must end with.
    pub fn spoil(&mut self, rng: &mut Rng) -> Option<(usize, WcStatus)> {
        let at = rng.below(self.msgs.len() as u64) as usize;
        let m = &mut self.msgs[at];
        let remote = matches!(m.wr.op, SendOp::Write | SendOp::Read) && m.wr.len > 0 || m.is_atomic();
        let fits: &[(Fault, WcStatus)] = match m.wr.op {
            SendOp::Send if m.wr.len > 0 => &[
                (Fault::TooLong, WcStatus::RemInvReqErr),
                (Fault::Gather, WcStatus::LocProtErr),
                (Fault::BadEntry, WcStatus::LocQpOpErr),
                (Fault::BadRecv, WcStatus::RemOpErr),
                (Fault::RecvWrite, WcStatus::RemOpErr),
                (Fault::NoRecv, WcStatus::RnrRetryExcErr),
            ],
            SendOp::Read if m.wr.len > 0 => &[
                (Fault::BadKey, WcStatus::RemAccessErr),
                (Fault::Scatter, WcStatus::LocProtErr),
                (Fault::ReadGone, WcStatus::RemAccessErr),
            ],
            _ if remote => &[(Fault::BadKey, WcStatus::RemAccessErr)],
            _ => &[(Fault::BadEntry, WcStatus::LocQpOpErr)],
        };
        let (fault, status) = *rng.pick(fits);
        m.fault = fault;
        if fault == Fault::BadKey {
            m.wr.rkey ^= 0x10;
        }
        Some((at, status))
    }
}

/// Eight bytes of the pattern of `key` at word `w`.
fn word(key: u64, w: u64) -> u64 {
    (key ^ w.wrapping_mul(0x2545_f491_4f6c_dd1d)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills `out` with the pattern of `key` from offset `off`.
pub fn fill(key: u64, off: u64, out: &mut [u8]) {
    assert_eq!(off % 8, 0, "frames begin at multiples of 8");
    for (i, c) in out.chunks_mut(8).enumerate() {
        let w = word(key, off / 8 + i as u64).to_le_bytes();
        c.copy_from_slice(&w[..c.len()]);
    }
}

/// Is `data` the pattern of `key` from offset `off`?
pub fn is_pattern(key: u64, off: u64, data: &[u8]) -> bool {
    off & 7 == 0
        && data.chunks(8).enumerate().all(|(i, c)| c == &word(key, off / 8 + i as u64).to_le_bytes()[..c.len()])
}
