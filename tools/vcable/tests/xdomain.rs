// SPDX-License-Identifier: GPL-2.0
//! XDomain packets between hosts, and what links do to them.

mod driver;

use driver::bench::MS;
use driver::Bench;
use vcable::core::{Attachment, Fabric, FabricError, LinkLimits, Profile};

const PAYLOAD: [u32; 5] = [0xdead_beef, 1, 2, 3, 4];

/// A request reaches the other host with the route rewritten, the response comes back the
/// same way, whichever profiles are joined.
#[test]
fn round_trip_between_unlike_hosts() {
    for (a, b) in [
        (Profile::amd(), Profile::tb5()),
        (Profile::tb4(), Profile::amd()),
        (Profile::tb5(), Profile::tb4()),
    ] {
        let mut b = Bench::connected(a, b);
        for (from, to) in [(0, 1), (1, 0)] {
            let r = b.xdomain(from, 1, &PAYLOAD, 100 * MS).expect("a response");
            assert_eq!(r[..4], b.guests[to].uuid);
            assert_eq!(r[4..], PAYLOAD);
        }
        assert_eq!(b.counter("host.a.xdomain_sent"), 2);
        assert_eq!(b.counter("cable.c0.a_to_b.control"), 2);
    }
}

/// The largest packet (256 bytes) goes through whole.
#[test]
fn largest_packet() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    let payload: Vec<u32> = (0..56).collect();
    let r = b.xdomain(0, 1, &payload, 100 * MS).expect("a response");
    assert_eq!(r[4..], payload[..]);
}

/// Without a link a request vanishes; so it does to a port without a cable.
#[test]
fn no_link_is_silence() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    assert_eq!(b.xdomain(0, 3, &PAYLOAD, 100 * MS), None);
    b.fabric.unplug(b.cable, b.now);
    assert_eq!(b.xdomain(0, 1, &PAYLOAD, 100 * MS), None);
    assert_eq!(b.counter("host.a.xdomain_dropped"), 2);
}

/// The cable's latency counts both ways.
#[test]
fn latency_applies_to_control_packets() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.fabric.set_limits(b.cable, LinkLimits { rate_mbps: None, latency_ns: 20 * MS });
    let start = b.now;
    b.xdomain(0, 1, &PAYLOAD, 100 * MS).expect("a response");
    assert!(b.now - start >= 40 * MS, "{} ns", b.now - start);
}

/// Three hosts in a row: each cable only joins its own two, ports are told apart.
#[test]
fn third_host_on_the_second_port() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb5());
    b.add_guest("c", Profile::amd());
    b.start(2);
    let ends = [(b.guests[1].id, 3), (b.guests[2].id, 1)];
    let c1 = b.fabric.add_cable("c1", ends[0], ends[1], LinkLimits::default()).unwrap();
    b.fabric.plug(c1, b.now);
    b.run(200 * MS);
    assert_eq!(b.guests[1].events, [(3, false)]);
    assert_eq!(b.guests[2].events, [(1, false)]);
    assert!(b.guests[0].events.is_empty());
    let r = b.xdomain(1, 3, &PAYLOAD, 100 * MS).expect("a response");
    assert_eq!(r[..4], b.guests[2].uuid);
    let r = b.xdomain(2, 1, &PAYLOAD, 100 * MS).expect("a response");
    assert_eq!(r[..4], b.guests[1].uuid);
    let r = b.xdomain(1, 1, &PAYLOAD, 100 * MS).expect("a response");
    assert_eq!(r[..4], b.guests[0].uuid);
}

/// Malformed packets are dropped and counted; the router goes on.
#[test]
fn malformed_packets() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    for data in [vec![0; 7], vec![0; 8], vec![0; 64], vec![0xff; 256]] {
        let frame = driver::Frame { sof: 1, eof: 1, data };
        assert!(b.send(0, 0, &frame));
        b.run(MS);
    }
    b.send_control(0, 13, &[0, 0, 0]);
    b.run(MS);
    assert_eq!(b.counter("host.a.ctl_malformed"), 4);
    assert_eq!(b.counter("host.a.ctl_unknown"), 1);
    assert!(b.xdomain(0, 1, &PAYLOAD, 100 * MS).is_some());
}

/// A response waits while the guest owes an answer itself, and 20 ms more: the kernel would
/// otherwise complete its own answer with it. It does not wait for ever.
#[test]
fn responses_keep_out_of_an_answers_way() {
    for answers in [true, false] {
        let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
        b.guests[0].answer_xdomain = false;
        b.send_control(1, driver::control::XD_REQUEST, &[0, 1, 77]);
        b.run(MS);
        let request = b.guests[0].control.remove(0);
        assert_eq!(driver::control::decode(&request.frame.data)[2], 77);
        b.send_control(0, driver::control::XD_REQUEST, &[0, 1, 88]);
        b.run(50 * MS);
        assert!(b.guests[0].control.is_empty(), "held");
        assert!(b.read(0, driver::control::ROUTER, 0, 0, 1).is_ok(), "config replies pass");
        if answers {
            b.send_control(0, driver::control::XD_RESPONSE, &[0, 1, 77]);
            b.run(15 * MS);
            assert!(b.guests[0].control.is_empty(), "held");
            b.run(10 * MS);
        } else {
            b.run(150 * MS);
        }
        assert_eq!(b.guests[0].control.len(), 1);
    }
}

/// More packets than ring 0 has buffers wait their turn.
#[test]
fn replies_queue_for_ring_0() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.guests[0].answer_xdomain = false;
    for i in 0..40 {
        b.send_control(1, driver::control::XD_REQUEST, &[0, 1, i]);
        b.run(MS);
    }
    let seen: Vec<u32> =
        b.guests[0].control.iter().map(|r| driver::control::decode(&r.frame.data)[2]).collect();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
}

/// Names and ports are checked when the fabric is built.
#[test]
fn fabric_refuses_nonsense() {
    let mut f = Fabric::new(1);
    let guest = || {
        let memory = std::sync::Arc::new(driver::memory::GuestMemory::new(4096));
        Attachment::trapped(memory, std::sync::Arc::new(driver::memory::Lines::default()))
    };
    let a = f.add_host("a", Profile::tb4(), guest()).unwrap();
    let b = f.add_host("b", Profile::tb4(), guest()).unwrap();
    let limits = LinkLimits::default();
    assert!(matches!(f.add_host("a", Profile::tb4(), guest()), Err(FabricError::InUse(_))));
    assert!(matches!(f.add_cable("c", (a, 2), (b, 1), limits), Err(FabricError::NotFound(_))));
    assert!(matches!(f.add_cable("c", (a, 1), (a, 1), limits), Err(FabricError::InUse(_))));
    let c = f.add_cable("c", (a, 1), (b, 1), limits).unwrap();
    assert!(matches!(f.add_cable("d", (a, 1), (b, 3), limits), Err(FabricError::InUse(_))));
    assert!(matches!(f.add_cable("c", (a, 3), (b, 3), limits), Err(FabricError::InUse(_))));
    assert_eq!((f.cable("c"), f.host("b"), f.host("x")), (Some(c), Some(b), None));
    assert_eq!(f.profile_rate_mbps(c), 20_000);
}
