// SPDX-License-Identifier: GPL-2.0
//! READs and atomics: limits, order, exactly once.
use super::bench::*;
use proto_tests::proto::env::SendOp;
use proto_tests::proto::qp_state::QpState;
use proto_tests::proto::status::WcStatus;
use proto_tests::proto::wire::{flag, op, Header, Kind};
use proto_tests::proto::PAYLOAD_BYTES;
use proto_tests::sim::plan::Msg;

const P: u32 = PAYLOAD_BYTES as u32;

/// Adds of 1, 2, 3, ... to one cell, and what each must find.
fn adds(n: u64) -> Vec<Msg> {
    let mut sum = 0;
    (1..=n)
        .map(|i| {
            let mut m = msg(SendOp::FetchAdd, 8);
            m.wr.compare_add = i;
            m.expect = sum;
            sum += i;
            m
        })
        .collect()
}

#[test]
fn atomics_are_done_once_whatever_is_lost() {
    for every in [2, 3, 5, 7] {
        let mut b = Bench::new(Setup { timeout: 0, ..RC }, adds(60), adds(40));
        let mut n = 0u32;
        b.finish(2000, |_, _| {
            n = n.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (n >> 16) % every != 0
        });
        b.assert_all_good();
    }
}

#[test]
fn compare_and_swap_finds_and_misses() {
    let cas = |compare, swap, expect| {
        let mut m = msg(SendOp::CmpSwap, 8);
        (m.wr.compare_add, m.wr.swap, m.expect) = (compare, swap, expect);
        m
    };
    let mut b = Bench::new(RC, vec![cas(0, 5, 0), cas(0, 9, 5), cas(5, u64::MAX, 5), cas(1, 1, u64::MAX)], vec![]);
    b.exchange();
    b.assert_all_good();
}

#[test]
fn no_more_than_the_limit_is_out() {
    for max_rd in [1, 3, 16] {
        let mut b = Bench::new(Setup { max_rd, ..RC }, vec![msg(SendOp::Read, 8); 50], vec![]);
        assert_eq!(b.send(0).len(), usize::from(max_rd));
        let mut b = Bench::new(Setup { max_rd, ..RC }, vec![msg(SendOp::Read, 2 * P); 50], adds(50));
        b.exchange();
        b.assert_all_good();
    }
}

#[test]
fn sixteen_out_and_acknowledgements_lost_still_fit() {
    // The request that makes room at the requester tells the responder that it has room, too.
    let s = Setup { timeout: 0, ..RC };
    let mut b = Bench::new(s, vec![msg(SendOp::Read, 8); 200], vec![]);
    b.finish(2000, |i, h| !(i == 0 && h.kind == Kind::Ack && h.has(flag::ACK_RSP)));
    assert_eq!(b.ends[0].env.sent, [WcStatus::Success; 200]);
    assert_eq!(b.ends[1].qp.counters().rx_violation, 0);
}

#[test]
fn one_too_many_is_refused() {
    let mut b = Bench::new(RC, vec![msg(SendOp::Read, 8); 16], vec![]);
    let sent = b.send(0);
    sent.iter().for_each(|f| b.deliver(1, f));
    let h = Header::parse(&sent[15]).unwrap();
    // The oracle knows of no such request: a length of 0 asks it nothing.
    b.deliver_as(1, Header { psn: h.psn + 1, msn: h.msn + 1, tx_seq: 17, msg_len: 0, ..h }, &[]);
    b.exchange();
    assert_eq!(b.ends[1].qp.counters().rx_violation, 1);
    assert_eq!(b.ends[1].qp.state(), QpState::Err);
    assert!(b.ends[0].env.sent.iter().all(|s| *s == WcStatus::Success), "earlier ones were answered first");
}

#[test]
fn with_no_limit_at_all_a_read_fails_at_once() {
    let mut b = Bench::new(Setup { max_rd: 0, ..RC }, vec![msg(SendOp::Send, 8), msg(SendOp::Read, 8)], vec![]);
    b.exchange();
    assert_eq!(b.ends[0].env.sent, [WcStatus::Success, WcStatus::LocQpOpErr]);
}

#[test]
fn an_unaligned_atomic_is_refused() {
    let mut b = Bench::new(RC, adds(1), vec![]);
    let f = b.send(0);
    let h = Header::parse(&f[0]).unwrap();
    b.deliver_as(1, Header { va: h.va + 4, ..h }, &f[0][64..]);
    b.exchange();
    assert_eq!(b.ends[0].env.sent, [WcStatus::RemInvReqErr]);
}

#[test]
fn a_response_that_fits_no_request_fails_it() {
    let wrong: [fn(&mut Header); 4] = [
        |h| h.msn += 1,
        |h| h.msg_off = P,
        |h| h.msg_len += 1,
        |h| h.opcode = op::ATOMIC_RSP,
    ];
    for change in wrong {
        let mut b = Bench::new(RC, vec![msg(SendOp::Read, 3 * P)], vec![]);
        let f = b.send(0);
        b.deliver(1, &f[0]);
        let answer = b.send(1);
        let mut h = Header::parse(&answer[0]).unwrap();
        change(&mut h);
        b.deliver_as(0, h, &answer[0][64..]);
        assert_eq!(b.ends[0].env.sent, [WcStatus::BadRespErr]);
    }
    // One that nobody asked for.
    let mut b = Bench::new(RC, vec![], vec![]);
    let h = Header {
        kind: Kind::Data,
        opcode: op::READ_RSP,
        flags: flag::RSP | flag::LAST,
        psn: PSN[0],
        src_tag: 2,
        ..Header::default()
    };
    b.deliver_as(0, h, &[]);
    assert_eq!(b.ends[0].qp.counters().rx_violation, 1);
    assert_eq!(b.ends[0].qp.state(), QpState::Rts);
}

#[test]
fn reads_do_not_starve_requests() {
    // End 1 answers a long READ and has requests of its own: both go on in turn.
    let mut b = Bench::new(RC, vec![msg(SendOp::Read, 100 * P)], vec![msg(SendOp::Write, 100 * P)]);
    let f = b.send(0);
    b.deliver(1, &f[0]);
    let kinds: Vec<bool> = b.send(1).iter().take(40).map(|f| Header::parse(f).unwrap().has(flag::RSP)).collect();
    let rsp = kinds.iter().filter(|r| **r).count();
    assert!((18..=22).contains(&rsp), "{rsp} of 40");
}
