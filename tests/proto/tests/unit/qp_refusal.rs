// SPDX-License-Identifier: GPL-2.0
//! RNR and refusals.
use super::bench::*;
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp_state::QpState;
use proto_tests::proto::status::{QpEvent, WcStatus};
use proto_tests::proto::timers::rnr_wait_ns;
use proto_tests::proto::wire::{flag, op, syndrome, Header, Kind};
use proto_tests::proto::PAYLOAD_BYTES;
use proto_tests::sim::plan::Fault;

const P: u32 = PAYLOAD_BYTES as u32;

#[test]
fn rnr_waits_and_sends_again_from_there() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Write, 8), msg(SendOp::Send, 2 * P), msg(SendOp::Write, 8)], vec![]);
    b.ends[1].env.recv_posted = 0;
    b.send(0).iter().for_each(|f| b.deliver(1, f));
    let nak = b.send(1);
    assert_eq!(nak.len(), 1);
    let h = Header::parse(&nak[0]).unwrap();
    assert_eq!((h.opcode, h.psn, h.ack, h.imm, h.ack_tx_seq), (syndrome::RNR, PSN[0] + 1, PSN[0] + 1, 12, 2));
    b.deliver(0, &nak[0]);
    assert_eq!(b.ends[0].env.sent.len(), 1, "what came before is complete");
    assert!(b.send(0).is_empty());
    assert_eq!(b.ends[0].qp.next_deadline(), Some(b.now + rnr_wait_ns(12)));
    // A repeated NAK is an old one.
    b.deliver(0, &nak[0]);
    assert_eq!(b.ends[0].qp.counters().rx_bad_ack, 1);
    b.ends[1].env.recv_posted = 1;
    assert!(b.wait());
    let again: Vec<u32> = b.send(0).iter().map(|f| { b.deliver(1, f); Header::parse(f).unwrap().psn }).collect();
    assert_eq!(again, [PSN[0] + 1, PSN[0] + 2, PSN[0] + 3]);
    b.exchange();
    b.assert_all_good();
    let c = b.ends[0].qp.counters();
    assert_eq!((c.tx_rnr_resend, c.tx_retransmit, c.rx_rnr), (3, 0, 1));
}

#[test]
fn a_lost_rnr_nak_heals() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 3 * P); 3], vec![]);
    b.ends[1].env.recv_posted = 1;
    let mut lost = 0;
    b.exchange_if(|_, h| {
        lost += u32::from(h.opcode == syndrome::RNR && h.kind == Kind::Ack);
        lost != 1
    });
    b.ends[1].env.recv_posted = 3;
    b.finish(20, |_, _| true);
    b.assert_all_good();
}

#[test]
fn rnr_retries_end_or_do_not() {
    for (retry, tries) in [(0, 1), (1, 2), (6, 7)] {
        let s = Setup { rnr_retry: retry, ..RC };
        let mut b = Bench::new(s, vec![msg(SendOp::Write, 8), msg(SendOp::Send, 8), msg(SendOp::Write, 8)], vec![]);
        b.ends[1].env.recv_posted = 0;
        while b.ends[0].qp.state() == QpState::Rts {
            b.exchange();
            b.wait();
        }
        use WcStatus::*;
        assert_eq!(b.ends[0].env.sent, [Success, RnrRetryExcErr, WrFlushErr]);
        assert_eq!(b.ends[0].qp.counters().rx_rnr, tries, "rnr_retry {retry}");
        assert_eq!(b.ends[1].qp.state(), QpState::Rts, "the peer has done nothing wrong");
    }
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![]);
    b.ends[1].env.recv_posted = 0;
    for _ in 0..500 {
        b.exchange();
        assert!(b.wait());
    }
    assert!(b.ends[0].qp.counters().rx_rnr > 400);
    b.ends[1].env.recv_posted = 1;
    b.finish(20, |_, _| true);
    b.assert_all_good();
}

#[test]
fn write_with_imm_is_refused_before_its_data() {
    // The oracle would object to data stored twice.
    for len in [0, 8, P, P + 1] {
        let mut b = Bench::new(RC, vec![with(msg(SendOp::Write, len), SendWr::IMM)], vec![]);
        b.ends[1].env.recv_posted = 0;
        b.exchange();
        assert_eq!(b.ends[0].qp.counters().rx_rnr, 1);
        b.ends[1].env.recv_posted = 1;
        b.finish(10, |_, _| true);
        b.assert_all_good();
    }
}

#[test]
fn each_fault_ends_with_its_status() {
    use WcStatus::*;
    let read = |f| spoilt(msg(SendOp::Read, 3 * P), f);
    let send = |f| spoilt(msg(SendOp::Send, 2 * P), f);
    let mut bad_key = msg(SendOp::Write, 2 * P);
    bad_key.wr.rkey ^= 1;
    let mut bad_read = msg(SendOp::Read, 2 * P);
    bad_read.wr.rkey ^= 1;
    let mut bad_atomic = msg(SendOp::FetchAdd, 8);
    bad_atomic.wr.rkey ^= 1;
    // message, its status, the peer's receive status, the peer's event; the peer goes to ERR with either.
    let table = [
        (spoilt(bad_key, Fault::BadKey), RemAccessErr, None, Some(QpEvent::AccessErr)),
        (spoilt(bad_read, Fault::BadKey), RemAccessErr, None, Some(QpEvent::AccessErr)),
        (spoilt(bad_atomic, Fault::BadKey), RemAccessErr, None, Some(QpEvent::AccessErr)),
        (read(Fault::ReadGone), RemAccessErr, None, Some(QpEvent::AccessErr)),
        (send(Fault::TooLong), RemInvReqErr, Some(LocLenErr), None),
        (send(Fault::BadRecv), RemOpErr, Some(LocQpOpErr), None),
        (send(Fault::RecvWrite), RemOpErr, Some(LocProtErr), None),
        (send(Fault::Gather), LocProtErr, None, None),
        (send(Fault::BadEntry), LocQpOpErr, None, None),
        (read(Fault::Scatter), LocProtErr, None, None),
    ];
    for (bad, status, recv, event) in table {
        let ok = [msg(SendOp::Read, 5 * P), msg(SendOp::Send, 3), msg(SendOp::Read, 1)];
        let mut msgs = ok.to_vec();
        msgs.push(bad);
        msgs.extend(ok);
        let mut b = Bench::new(RC, msgs, vec![]);
        b.exchange();
        let what = bad.fault;
        assert_eq!(b.ends[0].env.sent, [Success, Success, Success, status, WrFlushErr, WrFlushErr, WrFlushErr], "{what:?}");
        assert_eq!(b.ends[0].qp.state(), QpState::Err);
        assert_eq!(b.ends[1].env.recv_bad.first(), recv.as_ref(), "{what:?}");
        assert_eq!(b.ends[1].env.events.last(), event.as_ref(), "{what:?}");
        let died = event.is_some() || recv.is_some();
        let state = if died { QpState::Err } else { QpState::Rts };
        assert_eq!(b.ends[1].qp.state(), state, "{what:?}");
        if died {
            assert_eq!(b.ends[1].env.recvs_done(), b.ends[1].env.recv_posted);
        }
    }
}

#[test]
fn a_lost_refusal_is_said_again() {
    let mut bad = msg(SendOp::Write, 8);
    bad.wr.rkey ^= 1;
    let mut b = Bench::new(RC, vec![spoilt(bad, Fault::BadKey), msg(SendOp::Send, 8)], vec![]);
    let mut lost = 0;
    let mut three = |_: usize, h: &Header| {
        let nak = h.kind == Kind::Ack && h.opcode == syndrome::REM_ACCESS;
        lost += u32::from(nak);
        !nak || lost > 3
    };
    while b.ends[0].qp.state() == QpState::Rts {
        b.exchange_if(&mut three);
        b.wait();
    }
    assert_eq!(b.ends[0].env.sent, [WcStatus::RemAccessErr, WcStatus::WrFlushErr]);
    assert_eq!(b.ends[1].qp.counters().tx_nak, 4);
}

/// Delivers to end 1 a frame of end 0 with something changed, and gives the first answer's syndrome.
fn violate(change: impl Fn(&mut Header)) -> u8 {
    let mut b = Bench::new(RC, vec![msg(SendOp::Write, 3 * P)], vec![]);
    let sent = b.send(0);
    b.deliver(1, &sent[0]);
    let mut h = Header::parse(&sent[1]).unwrap();
    change(&mut h);
    b.deliver_as(1, h, &sent[1][64..]);
    let answer = b.send(1);
    Header::parse(&answer[0]).unwrap().opcode
}

#[test]
fn violations_of_a_stream_are_refused() {
    assert_eq!(violate(|h| h.flags |= flag::ACK_REQ), syndrome::OK);
    let wrong: [fn(&mut Header); 5] = [
        |h| h.msg_off += P,
        |h| h.msg_off = 0,
        |h| h.msn += 1,
        |h| h.msg_len += 1,
        |h| h.opcode = op::SEND,
    ];
    for (i, change) in wrong.iter().enumerate() {
        // The second frame's ACK_REQ makes an answer due in any case.
        assert_eq!(violate(|h| { h.flags |= flag::ACK_REQ; change(h) }), syndrome::REM_INV_REQ, "change {i}");
    }
    // The rest of a WRITE goes where its first frame said.
    assert_eq!(violate(|h| { h.flags |= flag::ACK_REQ; h.va = 1; h.rkey = 1 }), syndrome::OK);
}

#[test]
fn refusals_of_nothing_are_ignored() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8); 2], vec![]);
    b.send(0);
    let nak = Header {
        kind: Kind::Ack,
        opcode: syndrome::REM_OP,
        flags: flag::ACK_VALID,
        src_tag: 2,
        ack: PSN[0],
        ..Header::default()
    };
    for (msn, psn) in [(2, PSN[0]), (0, PSN[0] + 1), (0, PSN[0] - 1), (u32::MAX, PSN[0])] {
        b.deliver_as(0, Header { msn, psn, ..nak }, &[]);
    }
    b.deliver_as(0, Header { flags: flag::ACK_VALID | flag::ACK_RSP, psn: PSN[0], ..nak }, &[]);
    assert_eq!((b.ends[0].qp.counters().rx_bad_ack, b.ends[0].qp.counters().rx_violation), (4, 1));
    assert_eq!(b.ends[0].qp.state(), QpState::Rts);
    // One that lies about what came before: that will never be answered.
    b.deliver_as(0, Header { msn: 1, psn: PSN[0] + 1, ..nak }, &[]);
    assert_eq!(b.ends[0].env.sent, [WcStatus::WrFlushErr, WcStatus::RemOpErr]);
}

/// After 2^31 frames: a local operation has no PSN, and is done all the same.
#[test]
fn a_local_operation_before_a_refusal_was_done() {
    let mut bad = spoilt(msg(SendOp::Write, 8), Fault::BadKey);
    bad.wr.rkey ^= 1;
    let sends = vec![msg(SendOp::Local, 0), bad];
    let mut b = Bench::new(RC, sends, vec![]);
    for i in 0..2 {
        b.ends[i].qp.begin_at(0x9000_0000, 0x9000_0000);
    }
    b.ends[0].qp.notify_sq();
    b.finish(10, |_, _| true);
    assert_eq!(b.ends[0].env.sent, [WcStatus::Success, WcStatus::RemAccessErr]);
}
