// SPDX-License-Identifier: GPL-2.0
//! Probe and start of the driver, plug events, what the config spaces answer.

mod driver;

use driver::bench::MS;
use driver::control::{ADAPTER, HOPS, NHI, ROUTER};
use driver::Bench;
use vcable::core::{FaultKind, FaultSpec, Profile};

/// Every profile takes the driver's whole start, and nothing misses a register.
#[test]
fn every_profile_starts() {
    for (profile, paths) in [(Profile::amd(), 3), (Profile::tb4(), 12), (Profile::tb5(), 12)] {
        let mut b = Bench::new(profile.clone(), profile);
        b.start(0);
        assert_eq!(b.guests[0].paths, paths);
        assert_eq!(b.counter("host.a.stray"), 0, "{:?}", b.fabric.stray_accesses(b.guests[0].id));
        assert_eq!(b.counter("host.a.ctl_malformed"), 0);
        b.run(500 * MS);
        assert!(b.guests[0].events.is_empty(), "nothing is plugged");
        assert_eq!(b.lane_state(0, 1), 7);
    }
}

/// The plug event comes once per connection, the lane is up by then, and a request down the
/// route is answered by an error rather than silence.
#[test]
fn plug_is_announced_and_scanned() {
    for (a, b) in [
        (Profile::amd(), Profile::amd()),
        (Profile::tb4(), Profile::tb5()),
        (Profile::tb5(), Profile::tb5()),
        (Profile::amd(), Profile::tb5()),
    ] {
        let mut b = Bench::connected(a, b);
        for g in 0..2 {
            assert_eq!(b.lane_state(g, 1), 2);
            assert_eq!(b.read_route(g, 1), Err(15), "locked");
            let lck = b.read(g, ADAPTER, 1, 4, 1).unwrap()[0];
            b.write(g, ADAPTER, 1, 4, &[lck & !(1 << 31)]).unwrap();
            assert_eq!(b.read_route(g, 1), Err(4));
            assert_eq!(b.read_route(g, 3), Err(4), "no cable there");
        }
        b.run(1000 * MS);
        assert_eq!(b.counter("host.a.events"), 1);
        assert_eq!(b.counter("host.a.event_resends"), 0);
        assert_eq!(b.counter("host.a.event_acks"), 1);
    }
}

/// An event comes again every notification timeout (255 ms) until it is acknowledged.
#[test]
fn events_repeat_until_acknowledged() {
    let mut b = Bench::new(Profile::tb4(), Profile::tb4());
    b.start(0);
    b.run(200 * MS);
    b.guests[0].acknowledge = false;
    b.fabric.plug(b.cable, b.now);
    b.run(50 * MS + 3 * 255 * MS + 10 * MS);
    assert_eq!(b.counter("host.a.events"), 1);
    assert_eq!(b.counter("host.a.event_resends"), 3);
    b.guests[0].acknowledge = true;
    b.run(600 * MS);
    assert_eq!(b.counter("host.a.event_resends"), 4);
    assert_eq!(b.counter("host.a.event_acks"), 1);
    assert_eq!(b.guests[0].events, [(1, false)]);
}

/// A cable that is in from the start is announced once, after the port reset of the start.
#[test]
fn cable_at_boot_is_one_event() {
    let mut b = Bench::new(Profile::tb4(), Profile::tb4());
    b.fabric.plug(b.cable, b.now);
    b.run(200 * MS);
    b.start(0);
    b.run(500 * MS);
    assert_eq!(b.guests[0].events, [(1, false)]);
    assert_eq!(b.lane_state(0, 1), 2);
}

/// Requests outside the config spaces are errors, and change nothing.
#[test]
fn config_space_limits() {
    let mut b = Bench::new(Profile::amd(), Profile::amd());
    b.start(0);
    assert_eq!(b.read(0, ROUTER, 0, 60, 1), Err(2));
    assert_eq!(b.read(0, ADAPTER, 2, 0, 8), Err(2), "one lane only");
    assert_eq!(b.read(0, ADAPTER, 9, 0, 1), Err(2));
    assert_eq!(b.read(0, HOPS, NHI, 2 * 3, 2), Err(2), "three paths");
    assert_eq!(b.read(0, 3, 1, 0, 1), Err(2), "no counters");
    let uid = b.read(0, ROUTER, 0, 7, 2).unwrap();
    b.write(0, ROUTER, 0, 7, &[1, 2]).unwrap();
    assert_eq!(b.read(0, ROUTER, 0, 7, 2).unwrap(), uid, "read-only");
}

/// The sideband answers "no response", so that a retimer scan ends at once.
#[test]
fn sideband_has_nobody() {
    let mut b = Bench::new(Profile::tb5(), Profile::tb5());
    b.start(0);
    let at = b.find_cap(0, 1, 6).unwrap() + 1;
    b.write(0, ADAPTER, 1, at, &[1 << 31 | 4 << 8]).unwrap();
    let v = b.read(0, ADAPTER, 1, at, 1).unwrap()[0];
    assert_eq!((v >> 31, v >> 25 & 1), (0, 1));
}

/// Lost control packets cost a retry, not the request.
#[test]
fn control_loss_is_retried() {
    let seed = driver::seed(11);
    let mut b = Bench::new(Profile::tb4(), Profile::tb4());
    b.start(0);
    b.fabric.add_fault(FaultSpec::new(FaultKind::ControlLoss, seed, 8)).unwrap();
    let before = b.now;
    for _ in 0..100 {
        assert!(b.read(0, ROUTER, 0, 0, 5).is_ok(), "four tries are enough here");
    }
    assert!(b.counter("fault.0.control-loss.fired") > 3);
    assert!(b.now - before >= 100 * MS, "a loss costs a timeout");
}
