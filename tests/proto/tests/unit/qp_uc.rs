// SPDX-License-Identifier: GPL-2.0
//! UC: no acknowledgement, a gap ends the message.
use super::bench::*;
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp_state::{QpKind, QpState};
use proto_tests::proto::wire::{op, Header};
use proto_tests::proto::PAYLOAD_BYTES;
use proto_tests::sim::plan::Msg;

const P: u32 = PAYLOAD_BYTES as u32;
const UC: Setup = Setup { kind: QpKind::Uc, ..RC };

fn send(len: u32) -> Msg {
    with(msg(SendOp::Send, len), SendWr::IMM)
}

#[test]
fn complete_when_handed_to_the_lane() {
    let mut b = Bench::new(UC, vec![send(3 * P), msg(SendOp::Write, 2 * P), send(0)], vec![]);
    let frames = b.send(0);
    assert_eq!(frames.len(), 6);
    assert_eq!(b.ends[0].env.sent.len(), 3);
    assert_eq!(b.ends[0].qp.next_deadline(), None);
    frames.iter().for_each(|f| b.deliver(1, f));
    assert!(b.send(1).is_empty(), "nothing is acknowledged");
    b.assert_all_good();
}

#[test]
fn a_thousand_requests_leak_no_slot() {
    let mut b = Bench::new(UC, vec![send(10); 1000], vec![]);
    let frames = b.send(0);
    frames.iter().for_each(|f| b.deliver(1, f));
    b.assert_all_good();
}

#[test]
fn a_gap_ends_its_message_and_the_receive_entry_serves_the_next() {
    // Each frame of three messages of three frames lost in turn. While one message is still to come, one
    // receive entry less is enough.
    for lost in 0..9 {
        let mut b = Bench::new(UC, vec![send(3 * P); 3], vec![]);
        b.ends[1].env.recv_posted = if lost < 6 { 2 } else { 3 };
        for (i, f) in b.send(0).iter().enumerate() {
            if i != lost {
                b.deliver(1, f);
            }
        }
        assert_eq!(b.ends[1].env.recv_ok, 2, "frame {lost}");
        assert_eq!(b.ends[1].qp.counters().uc_dropped, 0);
        assert_eq!(b.ends[1].qp.state(), QpState::Rts);
    }
}

#[test]
fn without_a_receive_entry_the_message_is_dropped() {
    let mut b = Bench::new(UC, vec![send(2 * P), send(8), send(2 * P)], vec![]);
    b.ends[1].env.recv_posted = 0;
    let frames = b.send(0);
    for f in &frames[..3] {
        b.deliver(1, f);
    }
    assert_eq!(b.ends[1].qp.counters().uc_dropped, 2);
    b.ends[1].env.recv_posted = 1;
    for f in &frames[3..] {
        b.deliver(1, f);
    }
    assert_eq!(b.ends[1].env.recv_ok, 1);
}

#[test]
fn bad_requests_are_dropped_and_the_next_works() {
    let mut b = Bench::new(UC, vec![msg(SendOp::Write, 2 * P), send(8)], vec![]);
    let frames = b.send(0);
    let first = Header::parse(&frames[0]).unwrap();
    // A wrong key: nothing of it is written.
    b.deliver_as(1, Header { rkey: first.rkey ^ 1, ..first }, &frames[0][64..]);
    b.deliver(1, &frames[1]);
    assert_eq!(b.ends[1].qp.counters().uc_dropped, 1);
    b.deliver(1, &frames[2]);
    assert_eq!(b.ends[1].env.recv_ok, 1);
    // Operations that UC has not.
    let read = Header { opcode: op::READ_REQ, psn: first.psn + 3, payload_len: 0, msg_len: 8, ..first };
    b.deliver_as(1, read, &[]);
    assert_eq!(b.ends[1].qp.counters().uc_dropped, 2);
    assert_eq!(b.ends[1].qp.state(), QpState::Rts);
}

#[test]
fn old_and_wild_numbers() {
    let mut b = Bench::new(UC, vec![send(8); 4], vec![]);
    let frames = b.send(0);
    b.deliver(1, &frames[1]);
    b.deliver(1, &frames[0]);
    b.deliver(1, &frames[1]);
    let h = Header::parse(&frames[2]).unwrap();
    b.deliver_as(1, Header { psn: h.psn + 65536, ..h }, &frames[2][64..]);
    assert_eq!(b.ends[1].qp.counters().rx_out_of_window, 3);
    b.deliver(1, &frames[2]);
    b.deliver_as(1, Header { psn: h.psn + 65536, imm: 3, ..h }, &pattern_of(&frames[3]));
    assert_eq!(b.ends[1].env.recv_ok, 3);
}

fn pattern_of(f: &Frame) -> Vec<u8> {
    f[64..].to_vec()
}
