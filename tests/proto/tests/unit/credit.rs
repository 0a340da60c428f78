// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::counters::LaneCounters;
use proto_tests::proto::credit::*;
use proto_tests::proto::timers::{LANE_PROBE_MAX_NS, LANE_PROBE_MIN_NS};
use proto_tests::proto::wire::{lane_op, Header, Kind};

fn frame(lane_seq: u32, lane_limit: u32) -> Header {
    Header { kind: Kind::Data, lane_seq, lane_limit, ..Header::default() }
}

#[test]
fn reserve_at_its_bounds() {
    for (ring, reserve) in [(0, 4), (16, 4), (32, 4), (40, 5), (256, 32), (512, 64), (4096, 64), (u32::MAX, 64)] {
        assert_eq!(reserve_of(ring), reserve, "{ring}");
    }
}

#[test]
fn the_first_grant_is_the_ring_less_its_reserve() {
    let mut tx = LaneTx::new(16);
    for seq in 0..12 {
        assert!(tx.may_send());
        assert_eq!(tx.credit(), 12 - seq);
        assert_eq!(tx.take_seq(), seq);
    }
    assert!(!tx.may_send());
    // Control frames go on, and use numbers.
    assert_eq!(tx.take_seq(), 12);
    assert_eq!(tx.credit(), 0);
}

#[test]
fn placing_grants_again_and_losing_costs_nothing() {
    let mut c = LaneCounters::ZERO;
    let (mut tx, mut rx) = (LaneTx::new(16), LaneRx::new(16));
    for round in 0..1000u32 {
        while tx.may_send() {
            let h = frame(tx.take_seq(), 0);
            // Two of three are lost, but the last arrives.
            if h.lane_seq % 3 == 0 || !tx.may_send() {
                rx.on_frame(&h, &mut c);
                rx.reposted();
            }
        }
        let limit = rx.limit_to_send();
        tx.on_frame(&frame(round, limit), &mut c);
        assert_eq!(tx.credit(), 12, "round {round}");
    }
    assert!(c.rx_lost > 1000);
}

#[test]
fn a_buffer_that_is_kept_is_not_granted() {
    let mut c = LaneCounters::ZERO;
    let (mut tx, mut rx) = (LaneTx::new(16), LaneRx::new(16));
    for _ in 0..5 {
        rx.on_frame(&frame(tx.take_seq(), 0), &mut c);
    }
    let limit = rx.limit_to_send();
    tx.on_frame(&frame(0, limit), &mut c);
    assert_eq!(tx.credit(), 12 - 5);
    (0..5).for_each(|_| rx.reposted());
    assert!(rx.update_due(), "a quarter of 16 came back");
    let limit = rx.limit_to_send();
    assert!(!rx.update_due());
    tx.on_frame(&frame(1, limit), &mut c);
    assert_eq!(tx.credit(), 12);
    rx.reposted();
    assert_eq!(rx.posted(), 16, "never more than the ring");
}

#[test]
fn numbers_wrap() {
    let mut c = LaneCounters::ZERO;
    let (mut tx, mut rx) = (LaneTx::new(64), LaneRx::new(64));
    // The receiver sees only each 2^20th frame; the sender is told each time.
    for _ in 0..(1u64 << 33 >> 20) {
        let mut last = 0;
        for _ in 0..1 << 5 {
            last = tx.take_seq();
        }
        rx.on_frame(&frame(last, 0), &mut c);
        rx.reposted();
        let limit = rx.limit_to_send();
        tx.on_frame(&frame(0, limit), &mut c);
        assert_eq!(tx.credit(), 56);
    }
    // Near the wrap itself.
    let mut rx = LaneRx::new(64);
    for seq in [0x7fff_fff0, 0xffff_fff0u32, 5] {
        rx.on_frame(&frame(seq, 0), &mut c);
        rx.reposted();
        assert_eq!(rx.limit_to_send(), seq.wrapping_add(1 + 56));
    }
}

#[test]
fn old_and_wild_limits_are_ignored() {
    let mut c = LaneCounters::ZERO;
    let mut tx = LaneTx::new(16);
    tx.on_frame(&frame(0, 20), &mut c);
    assert_eq!(tx.credit(), 20);
    tx.on_frame(&frame(1, 15), &mut c);
    assert_eq!(tx.credit(), 20, "an old limit shrinks nothing");
    tx.on_frame(&frame(2, 65536), &mut c);
    assert_eq!((tx.credit(), c.rx_bad_limit), (65536, 0));
    tx.on_frame(&frame(2, 65537), &mut c);
    assert_eq!((tx.credit(), c.rx_bad_limit), (65536, 1));
}

#[test]
fn old_numbers_are_counted_and_move_nothing() {
    let mut c = LaneCounters::ZERO;
    let mut rx = LaneRx::new(16);
    for seq in [5, 5, 4] {
        rx.on_frame(&frame(seq, 0), &mut c);
        rx.reposted();
    }
    assert_eq!((c.rx_old, c.rx_lost, c.rx_frames), (2, 5, 3));
    assert_eq!(rx.limit_to_send(), 6 + 12);
}

#[test]
fn a_waiter_probes_with_growing_pauses_until_credit_comes() {
    let mut c = LaneCounters::ZERO;
    let mut tx = LaneTx::new(4);
    assert_eq!((tx.may_send(), tx.probe_deadline()), (false, None));
    let mut now = 1000;
    tx.wait(now);
    tx.wait(now + 500);
    assert_eq!(tx.probe_deadline(), Some(now + LANE_PROBE_MIN_NS), "waiting again changes nothing");
    assert!(!tx.probe_due(now + LANE_PROBE_MIN_NS - 1));
    let mut pause = LANE_PROBE_MIN_NS;
    for _ in 0..10 {
        now += pause;
        assert!(tx.probe_due(now));
        pause = (pause * 2).min(LANE_PROBE_MAX_NS);
        assert_eq!(tx.probe_deadline(), Some(now + pause));
    }
    assert!(!tx.on_frame(&frame(0, 0), &mut c), "no credit in it");
    assert!(tx.on_frame(&frame(1, 3), &mut c), "wakes");
    assert!(!tx.on_frame(&frame(2, 4), &mut c), "nobody waits any more");
    assert_eq!(tx.probe_deadline(), None);
}

#[test]
fn a_probe_is_answered_at_once() {
    let mut c = LaneCounters::ZERO;
    let mut rx = LaneRx::new(64);
    assert!(!rx.update_due());
    rx.on_frame(&Header { lane_seq: 70, ..Header::lane(lane_op::PROBE) }, &mut c);
    rx.reposted();
    assert!(rx.update_due());
    assert_eq!((c.rx_probe, rx.limit_to_send()), (1, 71 + 56), "lost frames are granted again");
    assert!(!rx.update_due());
    rx.on_frame(&Header { lane_seq: 71, ..Header::lane(lane_op::UPDATE) }, &mut c);
    assert_eq!(c.rx_update, 1);
}
