// SPDX-License-Identifier: GPL-2.0
//! Without loss: placement, completion, acknowledgement.
use super::bench::*;
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp::{Qp, Room};
use proto_tests::proto::qp_state::{QpAttrs, QpState};
use proto_tests::proto::status::QpEvent;
use proto_tests::proto::wire::{flag, Header, Kind};
use proto_tests::proto::PAYLOAD_BYTES;
use proto_tests::sim::lane::SimBuf;

const P: u32 = PAYLOAD_BYTES as u32;
/// Lengths around the boundaries of frames, of the window, of the 32 frames between acknowledgements.
const LENGTHS: [u32; 17] = [
    0, 1, 7, 8, 9, P - 1, P, P + 1, 2 * P - 1, 2 * P, 2 * P + 1, 31 * P, 32 * P, 33 * P, 256 * P, 256 * P + 1, 300 * P,
];

fn no_waste(b: &Bench) {
    for e in &b.ends {
        let c = e.qp.counters();
        assert_eq!((c.tx_retransmit, c.rx_duplicate, c.rx_held, c.tx_probe), (0, 0, 0, 0));
    }
}

#[test]
fn a_queue_pair_is_small_enough() {
    let size = std::mem::size_of::<Qp<SimBuf>>();
    assert!(size <= 16 * 1024, "{size}");
    assert_eq!(std::mem::size_of::<Option<SimBuf>>(), 8);
}

#[test]
fn each_operation_of_each_length() {
    for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
        for len in LENGTHS {
            let mut b = Bench::new(RC, vec![msg(op, len)], vec![]);
            b.exchange();
            b.assert_all_good();
            no_waste(&b);
        }
    }
}

#[test]
fn all_together_both_ways() {
    let mut msgs = Vec::new();
    for len in LENGTHS {
        for (op, flags) in [
            (SendOp::Send, 0),
            (SendOp::Send, SendWr::IMM | SendWr::SOLICITED),
            (SendOp::Send, SendWr::INVALIDATE),
            (SendOp::Write, 0),
            (SendOp::Write, SendWr::IMM),
            (SendOp::Read, 0),
            (SendOp::Local, 0),
            (SendOp::Write, SendWr::FENCE),
        ] {
            msgs.push(with(msg(op, len), flags));
        }
    }
    let mut b = Bench::new(RC, msgs.clone(), msgs);
    b.exchange();
    b.assert_all_good();
    no_waste(&b);
}

#[test]
fn more_requests_than_slots() {
    let msgs = vec![msg(SendOp::Write, 8); 1000];
    let mut b = Bench::new(RC, msgs, vec![]);
    assert_eq!(b.send(0).len(), 128, "as many as there are slots");
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8); 1000], vec![msg(SendOp::Read, 5); 500]);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn one_acknowledgement_for_a_batch() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8); 20], vec![]);
    let frames = b.send(0);
    assert_eq!(frames.len(), 20);
    frames.iter().for_each(|f| b.deliver(1, f));
    let acks = b.send(1);
    assert_eq!(acks.len(), 1);
    let h = Header::parse(&acks[0]).unwrap();
    assert_eq!((h.kind, h.ack, h.ack_tx_seq, h.payload_len), (Kind::Ack, PSN[0] + 20, 20, 0));
    assert_eq!((h.dst_qpn, h.src_tag, h.flags), (1, 2, flag::ACK_VALID));
    b.deliver(0, &acks[0]);
    b.assert_all_good();
}

#[test]
fn data_carries_the_acknowledgement() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![msg(SendOp::Send, 8)]);
    let ping = b.send(0);
    b.deliver(1, &ping[0]);
    let pong = b.send(1);
    assert_eq!(pong.len(), 1, "no frame of its own for the acknowledgement");
    let h = Header::parse(&pong[0]).unwrap();
    assert!(h.kind == Kind::Data && h.has(flag::ACK_VALID) && h.ack == PSN[0] + 1);
    b.deliver(0, &pong[0]);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn an_acknowledgement_may_wait_for_data() {
    let s = Setup { ack_delay_ns: 50_000, ..RC };
    let mut b = Bench::new(s, vec![msg(SendOp::Send, 8); 7], vec![msg(SendOp::Send, 8); 6]);
    let mut alone = Vec::new();
    for round in 1..=6 {
        b.ends.iter_mut().for_each(|e| e.env.posted = round - 1);
        for i in 0..2 {
            b.ends[i].env.posted = round;
            b.ends[i].qp.notify_sq();
            // The other end's program takes some time to answer.
            for f in b.send(i) {
                b.deliver(1 - i, &f);
            }
            let acks = b.send(1 - i);
            alone.push(acks.len());
            acks.iter().for_each(|f| b.deliver(i, f));
            b.now += 20_000;
        }
    }
    // After four that could have ridden at each end, they do.
    assert_eq!(alone, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
    b.ends[0].env.posted = 7;
    b.ends[0].qp.notify_sq();
    let ping = b.send(0);
    b.deliver(1, &ping[0]);
    let due = b.now + 50_000;
    assert_eq!(b.ends[1].qp.next_deadline(), Some(due));
    assert!(b.send(1).is_empty());
    b.now = due;
    assert!(b.ends[1].qp.wants_tx(due).control);
    assert_eq!(b.send(1).len(), 1);
}

#[test]
fn without_credit_only_control_frames_go() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![msg(SendOp::Send, 8)]);
    let ping = b.poll(0, Room::Data).unwrap();
    b.deliver(1, &ping);
    let ack = b.poll(1, Room::Control).expect("the acknowledgement needs no credit");
    assert_eq!(Header::parse(&ack).unwrap().kind, Kind::Ack);
    assert!(b.poll(1, Room::Control).is_none());
    assert!(b.ends[1].qp.wants_tx(b.now).data);
    b.deliver(0, &ack);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn a_server_in_rtr_acknowledges_and_answers() {
    let s = Setup { server: true, ..RC };
    let msgs = vec![msg(SendOp::Send, 9000), msg(SendOp::Read, 9000), msg(SendOp::Write, 1)];
    let mut b = Bench::new(s, msgs, vec![]);
    b.exchange();
    b.assert_all_good();
    assert_eq!(b.ends[1].qp.state(), QpState::Rtr);
    assert_eq!(b.ends[1].env.events, [QpEvent::CommEst]);
}

#[test]
fn a_queue_pair_may_be_connected_to_itself() {
    let msgs = vec![msg(SendOp::Send, 3 * P), msg(SendOp::Read, 3 * P), with(msg(SendOp::Write, 9), SendWr::IMM)];
    let mut b = Bench::new(RC, msgs, vec![]);
    b.loop_back();
    loop {
        let frames = b.send(0);
        b.now += 10_000;
        frames.iter().for_each(|f| b.deliver(0, f));
        if frames.is_empty() {
            break;
        }
    }
    assert_eq!(b.ends[0].env.sent.len(), 3);
    assert_eq!(b.ends[0].env.recv_ok, 2);
    assert!(b.ends[0].qp.is_idle());
}

#[test]
fn a_fence_waits_for_reads() {
    let msgs = vec![msg(SendOp::Read, 8), with(msg(SendOp::Send, 8), SendWr::FENCE), msg(SendOp::Send, 8)];
    let mut b = Bench::new(RC, msgs, vec![]);
    let first = b.send(0);
    assert_eq!(first.len(), 1, "the READ only");
    assert!(!b.ends[0].qp.wants_tx(b.now).data);
    b.deliver(1, &first[0]);
    let answer = b.send(1);
    answer.iter().for_each(|f| b.deliver(0, f));
    assert_eq!(b.send(0).len(), 2);
}

#[test]
fn frames_for_a_queue_pair_that_is_not_ready() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![]);
    let f = b.send(0);
    b.modify(1, QpAttrs::default());
    b.deliver(1, &f[0]);
    b.modify(1, QpAttrs { state: QpState::Init, ..QpAttrs::default() });
    b.deliver(1, &f[0]);
    b.to_err(1);
    b.deliver(1, &f[0]);
    assert_eq!(b.ends[1].qp.counters().rx_not_ready, 3);
    assert!(b.send(1).is_empty());
}

#[test]
fn frames_of_a_stranger() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![]);
    let f = b.send(0);
    let h = Header::parse(&f[0]).unwrap();
    b.deliver_as(1, Header { src_tag: 9, ..h }, &f[0][64..]);
    assert_eq!(b.ends[1].qp.counters().rx_wrong_sender, 1);
    assert!(b.send(1).is_empty());
    b.deliver(1, &f[0]);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn a_queue_pair_can_be_used_again() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 3 * P)], vec![]);
    let f = b.send(0);
    b.deliver(1, &f[0]);
    b.deliver(1, &f[2]);
    assert_eq!(b.ends[1].qp.counters().rx_held, 1);
    for i in 0..2 {
        b.modify(i, QpAttrs::default());
        assert_eq!(b.ends[i].qp.state(), QpState::Reset);
        assert_eq!(b.ends[i].qp.next_deadline(), None);
        assert!(b.ends[i].qp.is_idle());
    }
    // The programs' next life.
    let again = Bench::new(RC, vec![msg(SendOp::Read, 3 * P)], vec![msg(SendOp::Send, 5)]);
    let [x, y] = again.ends;
    (b.ends[0].env, b.ends[1].env) = (x.env, y.env);
    b.reconnect(RC);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn flush_completes_everything_once() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 3 * P); 200], vec![msg(SendOp::Send, 4); 3]);
    let f = b.send(0);
    b.deliver(1, &f[0]);
    for i in 0..2 {
        b.to_err(i);
        b.to_err(i);
        let e = &b.ends[i];
        assert!(e.env.sends_done());
        assert_eq!(e.env.sent.len(), e.env.mine.msgs.len());
        assert!(e.env.sent.iter().all(|s| *s as u8 == 5));
        assert_eq!(e.env.recvs_done(), e.env.recv_posted);
        assert_eq!(e.qp.next_deadline(), None);
        assert!(b.send(i).is_empty());
    }
}

#[test]
fn entries_posted_in_err_are_flushed() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 4); 5], vec![]);
    b.ends[0].env.posted = 2;
    b.to_err(0);
    b.ends[0].env.posted = 5;
    b.ends[0].qp.notify_sq();
    assert!(b.ends[0].qp.wants_tx(b.now).data);
    assert!(b.send(0).is_empty());
    assert_eq!(b.ends[0].env.sent.len(), 5);
    assert!(!b.ends[0].qp.wants_tx(b.now).data);
}
