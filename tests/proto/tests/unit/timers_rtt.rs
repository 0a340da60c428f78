// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::rtt::Rtt;
use proto_tests::proto::timers::*;

#[test]
fn verbs_timeouts() {
    assert_eq!(verbs_timeout_ns(0), None);
    assert_eq!(verbs_timeout_ns(1), Some(8192));
    assert_eq!(verbs_timeout_ns(14), Some(67_108_864));
    assert_eq!(verbs_timeout_ns(31), Some(4096 << 31));
    assert_eq!(fail_after_ns(0, 7), None);
    assert_eq!(fail_after_ns(14, 7), Some(67_108_864 * 32));
    assert_eq!(fail_after_ns(14, 0), Some(67_108_864 * 4));
    assert_eq!(fail_after_ns(1, 0), Some(FAIL_FLOOR_NS));
    assert_eq!(fail_after_ns(31, 7), Some((4096 << 31) * 32));
}

#[test]
fn rnr_codes_are_those_of_the_table() {
    // IBA vol. 1, table 45, in milliseconds.
    for (code, ms) in [(0, 655.36), (1, 0.01), (5, 0.06), (12, 0.64), (20, 10.24), (26, 81.92), (31, 491.52)] {
        assert_eq!(rnr_wait_ns(code), (ms * 1e6) as u64, "{code}");
    }
    for code in 2..32 {
        assert!(rnr_wait_ns(code) > rnr_wait_ns(code - 1));
    }
    assert_eq!(rnr_wait_ns(32), rnr_wait_ns(0));
}

#[test]
fn sending_alone_does_not_put_the_probe_off_for_ever() {
    // quiet since, progress at, now, then
    for (quiet, progress, now, want) in [
        (10, 10, 20, 20),
        (10, 10, 10 + PROBE_MAX_NS, 10 + PROBE_MAX_NS),
        (10, 10, 11 + PROBE_MAX_NS, 10 + PROBE_MAX_NS),
        (500 + PROBE_MAX_NS, 10, 600 + PROBE_MAX_NS, 500 + PROBE_MAX_NS),
        (30, 0, 20, 30),
        (0, u64::MAX, 7, 7),
    ] {
        assert_eq!(quiet_after_send(quiet, progress, now), want, "{quiet} {progress} {now}");
    }
}

#[test]
fn every_end_gives_the_other_its_chance() {
    // Before a requester fails, probes with the longest pauses have been sent.
    assert!(FAIL_FLOOR_NS > 3 * PROBE_MAX_NS);
    // A responder asks longer than the pause in which a requester gives a sign.
    assert!(u64::from(RSP_SILENT_PROBES) > 2 * PROBE_MAX_NS / PROBE_MIN_NS / 8);
}

#[test]
fn first_guess_then_measured() {
    let mut r = Rtt::ZERO;
    assert_eq!(r.probe_after(0), PROBE_INITIAL_NS);
    r.sample(2_000_000);
    // 2 * 2 ms + 4 * 1 ms
    assert_eq!(r.probe_after(0), 8_000_000);
    for _ in 0..200 {
        r.sample(2_000_000);
    }
    assert!((1_900_000..=2_100_000).contains(&r.srtt_ns()));
    assert!(r.probe_after(0) < 4_300_000);
}

#[test]
fn bounds_and_backoff() {
    let mut r = Rtt::ZERO;
    for _ in 0..100 {
        r.sample(0);
    }
    assert_eq!(r.probe_after(0), PROBE_MIN_NS);
    for b in 0..=255u8 {
        let want = (PROBE_MIN_NS << b.min(7)).min(PROBE_MAX_NS);
        assert_eq!(r.probe_after(b), want);
    }
    r.sample(u64::MAX);
    assert!(r.probe_after(0) <= PROBE_MAX_NS);
    (0..100).for_each(|_| r.sample(u64::MAX));
    assert_eq!(r.probe_after(0), PROBE_MAX_NS);
}
