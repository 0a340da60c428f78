// SPDX-License-Identifier: GPL-2.0
//! Recovery must be quick: goodput, bytes sent again and repair times, in virtual time.

use proto_tests::null::{connect, Null};
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp::Room;
use proto_tests::proto::qp_state::QpKind;
use proto_tests::proto::timers::{PROBE_INITIAL_NS, PROBE_MIN_NS};
use proto_tests::proto::{FRAME_BYTES, PAYLOAD_BYTES};
use proto_tests::sim::{run, Config, Report};

const MIB: u32 = 1 << 20;
const P: u32 = PAYLOAD_BYTES as u32;

/// `count` messages under a loss of `ppm` of all frames, ACKs included.
fn stream(op: SendOp, len: u32, count: usize, ppm: u32, seed: u64) -> Report {
    run(&Config { seed, drop: ppm, ..Config::of_programme(op, len, count) })
}

#[test]
fn goodput_at_a_loss_of_one_in_a_thousand() {
    for op in [SendOp::Send, SendOp::Write, SendOp::Read] {
        let clean = stream(op, MIB, 200, 0, 1);
        assert_eq!((clean.counters.tx_retransmit, clean.lost), (0, 0));
        for seed in 1..4 {
            let r = stream(op, MIB, 200, 1_000, seed);
            let kept = 100 * clean.sent_at / r.sent_at;
            println!("{op:?} seed {seed}: {kept} % kept, {} lost, {} sent again", r.lost, r.counters.tx_retransmit);
            assert!(r.lost > 20, "{} lost", r.lost);
            assert!(kept >= 90, "{op:?}: {kept} % of the lossless goodput");
            // All frames that count are full ones, so frames stand for bytes.
            assert!(2 * r.counters.tx_retransmit <= 3 * r.lost, "{} for {}", r.counters.tx_retransmit, r.lost);
        }
    }
}

/// How much later the last completion comes when frame `lose` is lost, and the round trip of one full frame.
fn delay(len: u32, count: usize, lose: u64) -> (u64, u64) {
    let c = Config::of_programme(SendOp::Send, len, count);
    let rtt = run(&Config::of_programme(SendOp::Send, P, 1)).sent_at - first_post(&c);
    let clean = run(&c).sent_at;
    let lost = run(&Config { lose: Some(lose), ..c });
    assert_eq!((lost.lost, lost.counters.tx_retransmit), (1, 1));
    (lost.sent_at - clean, rtt)
}

/// When the programme posts: the same in each run, for the seed is the same.
fn first_post(c: &Config) -> u64 {
    let one = |latency| run(&Config { latency, ..Config::of_programme(SendOp::Send, P, 1) }).sent_at;
    // The post is what remains when the wire takes no time.
    let (short, long) = (one(c.latency), one(2 * c.latency));
    short - (long - short) - c.ns_per_frame
}

#[test]
fn a_loss_with_frames_behind_it_is_repaired_in_two_round_trips() {
    for lose in [0, 1, 20, 30] {
        let (late, rtt) = delay(40 * P, 1, lose);
        println!("frame {lose} lost: {late} ns later, round trip {rtt} ns");
        assert!(late <= 2 * rtt, "frame {lose}: {late} ns for a round trip of {rtt} ns");
    }
}

#[test]
fn a_lost_tail_is_repaired_within_one_time_out() {
    // Nothing measured yet: the first guess.
    let (late, rtt) = delay(10 * P, 1, 9);
    assert!(late <= PROBE_INITIAL_NS + 3 * rtt, "{late} ns");
    // Measured: the shortest, which is far above this round trip.
    let (late, rtt) = delay(10 * P, 300, 2999);
    println!("lost tail: {late} ns later, round trip {rtt} ns");
    // The round trip that it measured has the queue of the whole window in it.
    assert!(late <= 2 * PROBE_MIN_NS + 3 * rtt, "{late} ns");
}

#[test]
fn a_million_uc_sends_leak_nothing() {
    let wr = SendWr { op: SendOp::Send, len: 64, ..SendWr::default() };
    let mut env = Null::new(wr, 0);
    let mut qp = connect(QpKind::Uc, 1, 2, &mut env);
    let mut out = vec![0; FRAME_BYTES];
    for n in 1..=1_000_000 {
        env.left = 1;
        qp.notify_sq();
        assert!(qp.poll_tx(n, &mut env, Room::Data, &mut out).is_some(), "send {n} finds no room");
        // With one place in the send queue the next can only be posted when this one is complete.
        assert_eq!(env.done, n);
        assert!(qp.poll_tx(n, &mut env, Room::Data, &mut out).is_none());
    }
    assert!(qp.is_idle() && qp.next_deadline().is_none());
}
