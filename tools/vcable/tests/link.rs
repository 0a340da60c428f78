// SPDX-License-Identifier: GPL-2.0
//! Links: unplug and replug, one-sided resets, rate and latency limits.

mod driver;

use driver::bench::MS;
use driver::ring::Setup;
use driver::{Bench, Frame, Random};
use vcable::core::{LinkLimits, Profile};

/// Twenty cycles, each with traffic after the replug.
#[test]
fn unplug_and_replug() {
    let mut b = Bench::connected(Profile::amd(), Profile::tb5());
    b.ring_pair(1, 16, true);
    for cycle in 0..20u8 {
        assert!(b.send(0, 1, &Frame::new(&[cycle])));
        b.run(MS);
        assert_eq!(b.receive(1, 1).len(), 1, "cycle {cycle}");
        b.fabric.unplug(b.cable, b.now);
        assert!(b.send(0, 1, &Frame::new(b"lost")));
        b.run(10 * MS);
        assert!(b.receive(1, 1).is_empty());
        assert_eq!(b.lane_state(0, 1), 7);
        b.fabric.plug(b.cable, b.now);
        b.run(10 * MS);
        assert_eq!(b.lane_state(1, 1), 1, "training");
        b.run(60 * MS);
        assert_eq!(b.lane_state(1, 1), 2);
        for g in 0..2 {
            assert_eq!(b.guests[g].events, [(1, true), (1, false)], "cycle {cycle}");
            b.guests[g].events.clear();
        }
    }
    assert_eq!(b.counter("host.a.event_acks"), 41);
    assert_eq!(b.counter("cable.c0.a_to_b.link_down"), 20);
}

/// A cable that flaps faster than the link trains shows one unplug and one plug.
#[test]
fn fast_flaps_merge() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    for _ in 0..5 {
        b.fabric.unplug(b.cable, b.now);
        b.now += 1000;
        b.fabric.plug(b.cable, b.now);
        b.now += 1000;
    }
    b.run(200 * MS);
    assert_eq!(b.guests[0].events, [(1, true), (1, false)]);
}

/// A reload on one side (DPR on v1, host router reset on v2) is an unplug and a plug for the
/// other, and the reloaded side finds the link again.
#[test]
fn one_sided_reload() {
    for profile in [Profile::tb4(), Profile::tb5()] {
        let mut b = Bench::connected(Profile::tb4(), profile);
        for round in 0..20 {
            for tx in [true, false] {
                b.remove_ring(1, tx, 0);
            }
            b.guests[1].forget();
            b.run(50 * MS);
            b.start(1);
            b.run(300 * MS);
            assert_eq!(b.guests[0].events, [(1, true), (1, false)], "round {round}");
            assert_eq!(b.guests[1].events, [(1, false)], "round {round}");
            b.guests[0].events.clear();
            assert!(b.xdomain(0, 1, &[round], 100 * MS).is_some());
        }
        assert_eq!(b.guests[1].memory.violations(), [0u64; 0]);
    }
}

/// A function reset under traffic stops all DMA at once; a new driver starts on it.
#[test]
fn function_reset_under_traffic() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    for i in 0..15u8 {
        b.send(0, 1, &Frame::new(&[i]));
        b.send(1, 1, &Frame::new(&[i]));
    }
    let id = b.guests[1].id;
    b.fabric.host_reset(id, b.now);
    b.guests[1].memory.free(0..8 << 20);
    b.run(100 * MS);
    assert_eq!(b.guests[1].memory.violations(), [0u64; 0]);
    assert_eq!(b.guests[0].events, [(1, true), (1, false)]);
    assert_eq!(b.fabric.mmio_read(id, 0x8010, b.now), 0, "index pages are zero");
    assert_eq!(b.fabric.mmio_read(id, 0x38200, b.now), 0);
    assert_eq!(b.ring(0, true, 1).outstanding(), 0, "nothing hangs at the peer");
    let fresh = Bench::connected(Profile::tb4(), Profile::tb4()).guests.remove(1);
    assert_eq!(fresh.memory.violations(), [0u64; 0], "a new guest has no watch");
}

/// Keeps ring 1 of host 0 full for `ns` and returns the payload rate in Mb/s.
fn saturate(b: &mut Bench, ns: u64, gap: &mut Random) -> f64 {
    let frame = Frame::new(&[7; 4096]);
    let (start, mut bytes) = (b.now, 0usize);
    while b.now < start + ns {
        while b.send(0, 1, &frame) {}
        while b.step() {}
        bytes += b.receive(1, 1).iter().map(|f| f.frame.data.len()).sum::<usize>();
        b.now += 1 + gap.next() % 100_000;
    }
    bytes as f64 * 8000.0 / (b.now - start) as f64
}

#[test]
fn rate_limit_is_accurate() {
    let mut gap = Random::new(driver::seed(31));
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 256, true);
    for mbps in [100, 400, 1000, 5000] {
        b.fabric.set_limits(b.cable, LinkLimits { rate_mbps: Some(mbps), latency_ns: 0 });
        b.run(10 * MS);
        b.receive(1, 1);
        let rate = saturate(&mut b, 500 * MS, &mut gap);
        let wanted = mbps as f64;
        assert!((0.98..1.02).contains(&(rate / wanted)), "{rate:.1} instead of {wanted}");
    }
}

/// Both directions have the whole rate each; two rings of one direction share it evenly.
#[test]
fn rate_is_per_direction_and_shared() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 128, true);
    b.ring_pair(2, 128, true);
    b.fabric.set_limits(b.cable, LinkLimits { rate_mbps: Some(400), latency_ns: 0 });
    let frame = Frame::new(&[7; 4096]);
    let end = b.now + 200 * MS;
    while b.now < end {
        for (g, hop) in [(0, 1), (0, 2), (1, 1)] {
            while b.send(g, hop, &frame) {}
            b.receive(1 - g, hop);
        }
        while b.step() {}
        b.now += 50_000;
    }
    let frames = |n: &str| b.counter(n) as f64;
    let full = 400e6 * 0.2 / 8.0 / 4096.0;
    let (one, two) = (frames("host.b.rx1.frames"), frames("host.b.rx2.frames"));
    assert!(((one + two) / full - 1.0).abs() < 0.02, "{one} + {two} of {full}");
    assert!((one / two - 1.0).abs() < 0.05, "{one} and {two}");
    assert!((frames("host.a.rx1.frames") / full - 1.0).abs() < 0.02);
}

/// With latency frames arrive late, in order, and E2E still never overfills the ring.
#[test]
fn latency_delays_and_keeps_credits() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    b.fabric.set_limits(b.cable, LinkLimits { rate_mbps: None, latency_ns: 3 * MS });
    let (mut sent, mut got) = (0u32, Vec::new());
    for step in 0..200 {
        while sent < 100 && b.send(0, 1, &Frame::new(&sent.to_le_bytes())) {
            sent += 1;
        }
        b.run(MS);
        let new = b.receive(1, 1);
        assert!(step >= 2 || new.is_empty(), "nothing comes before 3 ms");
        got.extend(new.iter().map(|f| u32::from_le_bytes(f.frame.data[..].try_into().unwrap())));
    }
    assert_eq!(got, (0..100).collect::<Vec<_>>());
    assert_eq!(b.counter("host.b.rx1.no_buffer"), 0);
}

/// What is in its latency when the cable is pulled is lost; a stopped ring's frames are too.
#[test]
fn frames_under_way_are_lost_with_the_cable() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    b.fabric.set_limits(b.cable, LinkLimits { rate_mbps: None, latency_ns: 3 * MS });
    for i in 0..4u8 {
        assert!(b.send(0, 1, &Frame::new(&[i])));
    }
    b.run(MS);
    b.fabric.unplug(b.cable, b.now);
    b.run(10 * MS);
    assert!(b.receive(1, 1).is_empty());
    assert_eq!(b.counter("cable.c0.a_to_b.link_down"), 4);
    b.fabric.plug(b.cable, b.now);
    b.run(100 * MS);
    assert!(b.send(0, 1, &Frame::new(b"x")));
    b.run(MS);
    b.remove_ring(1, false, 1);
    b.run(10 * MS);
    assert_eq!(b.counter("cable.c0.a_to_b.dead_end"), 1);
    assert_eq!(b.guests[1].memory.violations(), [0u64; 0]);
    b.add_ring(1, Setup { e2e: true, ..Setup::new(false, 1) });
    b.run(10 * MS);
    assert!(b.receive(1, 1).is_empty(), "an old frame does not enter a new ring");
}
