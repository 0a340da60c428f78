// SPDX-License-Identifier: GPL-2.0
//! Loss, duplication, reordering, silence.
use super::bench::*;
use proto_tests::proto::env::SendOp;
use proto_tests::proto::qp_state::QpState;
use proto_tests::proto::status::WcStatus;
use proto_tests::proto::timers::{fail_after_ns, RSP_SILENT_PROBES};
use proto_tests::proto::wire::{flag, syndrome, Header, Kind};
use proto_tests::proto::PAYLOAD_BYTES;

const P: u32 = PAYLOAD_BYTES as u32;

fn mixed() -> Vec<proto_tests::sim::plan::Msg> {
    vec![
        msg(SendOp::Send, 2 * P + 1),
        msg(SendOp::Read, 3 * P),
        msg(SendOp::Write, P),
        msg(SendOp::Read, 1),
        msg(SendOp::Send, 0),
    ]
}

#[test]
fn any_single_frame_may_be_lost() {
    let mut clean = Bench::new(RC, mixed(), mixed());
    let frames = clean.exchange();
    for lost in 0..frames {
        let mut b = Bench::new(RC, mixed(), mixed());
        let mut n = 0;
        b.finish(50, |_, _| {
            n += 1;
            n - 1 != lost
        });
        b.assert_all_good();
        let again: u64 = b.ends.iter().map(|e| e.qp.counters().tx_retransmit).sum();
        assert!(again <= 1, "frame {lost}: {again} sent again for one lost");
    }
}

#[test]
fn any_pair_of_frames_may_be_lost() {
    let frames = Bench::new(RC, mixed(), vec![]).exchange() + 3;
    for first in 0..frames {
        for second in first + 1..frames {
            let mut b = Bench::new(RC, mixed(), vec![]);
            let mut n = 0;
            b.finish(60, |_, _| {
                n += 1;
                n - 1 != first && n - 1 != second
            });
            b.assert_all_good();
        }
    }
}

#[test]
fn any_frame_may_come_twice_or_late() {
    let frames = Bench::new(RC, mixed(), vec![]).send(0).len();
    for i in 0..frames {
        let mut b = Bench::new(RC, mixed(), vec![]);
        let mut sent = b.send(0);
        let f = sent.remove(i);
        for g in &sent {
            b.deliver(1, g);
        }
        b.deliver(1, &f);
        b.deliver(1, &f);
        b.finish(20, |_, _| true);
        b.assert_all_good();
        assert_eq!(b.ends[1].qp.counters().rx_duplicate, 1);
    }
}

#[test]
fn backwards() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 100 * P)], vec![]);
    let mut sent = b.send(0);
    sent.reverse();
    sent.iter().for_each(|f| b.deliver(1, f));
    assert_eq!(b.ends[1].qp.counters().rx_held, 99);
    b.finish(20, |_, _| true);
    b.assert_all_good();
}

#[test]
fn what_may_be_held_is_bounded() {
    let s = Setup { max_held: 10, ..RC };
    let mut b = Bench::new(s, vec![msg(SendOp::Send, 60 * P)], vec![]);
    let sent = b.send(0);
    sent[1..].iter().for_each(|f| b.deliver(1, f));
    let c = b.ends[1].qp.counters();
    assert_eq!((c.rx_held, c.rx_hold_dropped), (10, 5));
    b.finish(20, |_, _| true);
    b.assert_all_good();
}

#[test]
fn a_gap_is_told_with_its_bitmap_and_only_the_gap_is_sent_again() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 10 * P)], vec![]);
    let sent = b.send(0);
    for (i, f) in sent.iter().enumerate() {
        if i != 2 && i != 3 {
            b.deliver(1, f);
        }
    }
    let acks = b.send(1);
    assert_eq!(acks.len(), 1);
    let h = Header::parse(&acks[0]).unwrap();
    assert_eq!((h.ack, h.payload_len, &acks[0][64..]), (PSN[0] + 2, 1, &[0b0111_1110][..]));
    b.deliver(0, &acks[0]);
    let again: Vec<u32> = b.send(0).iter().map(|f| Header::parse(f).unwrap().psn).collect();
    assert_eq!(again, [PSN[0] + 2, PSN[0] + 3]);
}

#[test]
fn a_probe_asks_and_nothing_is_sent_on_suspicion() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![]);
    let lost = b.send(0);
    assert!(b.wait());
    let probe = b.send(0);
    assert_eq!(probe.len(), 1);
    let h = Header::parse(&probe[0]).unwrap();
    assert_eq!((h.kind, h.opcode, h.flags, h.tx_seq), (Kind::Ack, syndrome::PROBE, flag::ACK_REQ, 2));
    // The frame was only slow: the answer says so.
    b.deliver(1, &lost[0]);
    b.deliver(1, &probe[0]);
    b.exchange();
    b.assert_all_good();
    assert_eq!(b.ends[0].qp.counters().tx_retransmit, 0);
}

#[test]
fn silence_fails_the_oldest_and_flushes_the_rest() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8); 3], vec![]);
    let start = b.now;
    b.exchange_if(|_, _| false);
    let mut probes = 0;
    while b.ends[0].qp.state() == QpState::Rts {
        assert!(b.wait());
        probes += b.send(0).len();
    }
    assert_eq!(b.ends[0].env.sent, [WcStatus::RetryExcErr, WcStatus::WrFlushErr, WcStatus::WrFlushErr]);
    let limit = fail_after_ns(14, 7).unwrap();
    assert!((start + limit..start + limit + 100_000).contains(&b.now), "{}", b.now - start);
    assert!((30..60).contains(&probes), "{probes}");
}

#[test]
fn time_out_zero_means_never() {
    let mut b = Bench::new(Setup { timeout: 0, ..RC }, vec![msg(SendOp::Send, 8)], vec![]);
    for _ in 0..1000 {
        b.exchange_if(|_, _| false);
        assert!(b.wait());
    }
    b.finish(10, |_, _| true);
    b.assert_all_good();
}

#[test]
fn a_dead_responder_of_an_accepted_read_is_found_out() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Read, 8)], vec![]);
    // The request is acknowledged, then the peer's program ends.
    b.exchange_if(|i, h| i == 0 || h.kind == Kind::Ack);
    let req = b.send(0);
    req.iter().for_each(|f| b.deliver(1, f));
    b.to_err(1);
    while b.ends[0].qp.state() == QpState::Rts {
        b.exchange();
        assert!(b.wait());
    }
    assert_eq!(b.ends[0].env.sent, [WcStatus::RetryExcErr]);
}

#[test]
fn a_responder_keeps_still_in_the_end_and_wakes_again() {
    let s = Setup { timeout: 0, ..RC };
    let mut b = Bench::new(s, vec![msg(SendOp::Read, 3 * P)], vec![]);
    let req = b.send(0);
    b.deliver(1, &req[0]);
    // From now on nothing of end 1 gets through, and nothing reaches it.
    let mut probes = 0;
    loop {
        probes += b.send(1).iter().filter(|f| f[1] == 2 && f[2] == syndrome::PROBE).count();
        let Some(at) = b.ends[1].qp.next_deadline() else { break };
        b.now = b.now.max(at);
        let now = b.now;
        let e = &mut b.ends[1];
        e.qp.on_timer(now, &mut e.env);
    }
    assert_eq!(probes, usize::from(RSP_SILENT_PROBES));
    assert_eq!(b.ends[1].qp.counters().rsp_silenced, 1);
    assert_eq!(b.ends[1].qp.state(), QpState::Rts);
    b.finish(50, |_, _| true);
    b.assert_all_good();
}

#[test]
fn frames_outside_the_window_and_bad_acknowledgements_change_nothing() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 8)], vec![]);
    let f = b.send(0);
    let h = Header::parse(&f[0]).unwrap();
    b.deliver_as(1, Header { psn: h.psn.wrapping_add(256), ..h }, &f[0][64..]);
    b.deliver_as(1, Header { psn: h.psn.wrapping_add(1 << 30), ..h }, &f[0][64..]);
    assert_eq!(b.ends[1].qp.counters().rx_out_of_window, 2);
    let ack = Header { kind: Kind::Ack, flags: flag::ACK_VALID, src_tag: 2, dst_qpn: 1, ..Header::default() };
    b.deliver_as(0, Header { ack: PSN[0] + 2, ack_tx_seq: 1, ..ack }, &[]);
    b.deliver_as(0, Header { ack: PSN[0], ack_tx_seq: 900, ..ack }, &[0xff; 32]);
    b.deliver_as(0, Header { flags: flag::ACK_VALID | flag::ACK_RSP, ack: PSN[1] + 1, ..ack }, &[0xff; 32]);
    assert_eq!(b.ends[0].qp.counters().rx_bad_ack, 2);
    assert!(b.send(0).is_empty());
    b.deliver(1, &f[0]);
    b.exchange();
    b.assert_all_good();
}

/// A host that was stopped may hand over a probe of the life before: its tx_seq must not vouch for what is lost
/// now.
#[test]
fn a_probe_of_an_earlier_life_proves_nothing() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Send, 3 * 4032)], vec![]);
    let stale = Header {
        kind: Kind::Ack,
        opcode: syndrome::PROBE,
        flags: flag::ACK_REQ,
        psn: PSN[0] + (1 << 20),
        tx_seq: 100,
        dst_qpn: 2,
        src_tag: 1,
        ..Header::default()
    };
    b.deliver_as(1, stale, &[]);
    assert_eq!(b.ends[1].qp.counters().rx_out_of_window, 1);
    assert!(b.send(1).is_empty(), "not worth an answer");
    let mut first = true;
    b.finish(10, |i, h| i == 1 || h.kind != Kind::Data || !std::mem::take(&mut first));
    b.assert_all_good();
}
