// SPDX-License-Identifier: GPL-2.0
//! What happened last, in words, for the replay of a seed that failed. Off unless asked for.

use crate::proto::wire::{flag, lane_op, op, syndrome, Header, Kind};
use std::cell::RefCell;
use std::collections::VecDeque;

#[derive(Default)]
struct Trace {
    keep: usize,
    lines: VecDeque<String>,
}

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::default();
}

/// Keeps the last `lines` of this thread's runs from now on.
pub fn keep(lines: usize) {
    TRACE.with_borrow_mut(|t| t.keep = lines);
}

/// Adds a line; `text` is only asked for when it is kept.
pub fn note(now: u64, text: impl FnOnce() -> String) {
    TRACE.with_borrow_mut(|t| {
        if t.keep == 0 {
            return;
        }
        if t.lines.len() == t.keep {
            t.lines.pop_front();
        }
        t.lines.push_back(format!("{:12.3} us  {}", now as f64 / 1e3, text()));
    });
}

/// What was kept, oldest first.
pub fn lines() -> Vec<String> {
    TRACE.with_borrow_mut(|t| t.lines.drain(..).collect())
}

/// A header in a line.
pub fn header(h: &Header) -> String {
    let channel = if h.has(flag::RSP) { "RSP" } else { "REQ" };
    let mut s = match h.kind {
        Kind::Lane if h.opcode == lane_op::PROBE => format!("LANE PROBE limit {}", h.lane_limit),
        Kind::Lane => format!("LANE UPDATE limit {}", h.lane_limit),
        Kind::Ud => "UD".to_string(),
        Kind::Data => format!(
            "qp {} {} {} psn {} seq {} msn {} bytes {}+{} of {}",
            h.dst_qpn, channel, opcode(h.opcode), h.psn, h.tx_seq, h.msn, h.msg_off, h.payload_len, h.msg_len
        ),
        Kind::Ack if h.opcode == syndrome::PROBE => format!("qp {} PROBE {channel} seq {}", h.dst_qpn, h.tx_seq),
        Kind::Ack => format!("qp {} {} psn {} bitmap {}", h.dst_qpn, answer(h.opcode), h.psn, h.payload_len),
    };
    if h.has(flag::ACK_VALID) {
        let of = if h.has(flag::ACK_RSP) { "RSP" } else { "REQ" };
        s += &format!(" acks {of} {} seq {}", h.ack, h.ack_tx_seq);
    }
    for (bit, name) in [(flag::LAST, " LAST"), (flag::ACK_REQ, " ACK_REQ"), (flag::IMM, " IMM")] {
        if h.has(bit) {
            s += name;
        }
    }
    s
}

fn opcode(code: u8) -> &'static str {
    match code {
        op::SEND => "SEND",
        op::WRITE => "WRITE",
        op::READ_REQ => "READ",
        op::CMP_SWAP => "CMP_SWAP",
        op::FETCH_ADD => "FETCH_ADD",
        op::READ_RSP => "READ_RSP",
        op::ATOMIC_RSP => "ATOMIC_RSP",
        _ => "?",
    }
}

fn answer(code: u8) -> &'static str {
    match code {
        syndrome::OK => "ACK",
        syndrome::RNR => "RNR",
        _ => "REFUSAL",
    }
}
