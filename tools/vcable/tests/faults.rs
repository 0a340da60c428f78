// SPDX-License-Identifier: GPL-2.0
//! Each kind of fault, as it shows in the guest.

mod driver;

use driver::bench::MS;
use driver::ring::{CRC_ERROR, OVERRUN};
use driver::{Bench, Frame, Random};
use vcable::core::{Direction, FaultKind, FaultSpec, Profile};

/// Two connected hosts with ring pairs 1 and 2.
fn bench(e2e: bool) -> Bench {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 64, e2e);
    b.ring_pair(2, 64, e2e);
    b
}

fn fault(b: &mut Bench, spec: FaultSpec) {
    b.fabric.add_fault(spec).unwrap();
}

/// Sends `count` numbered frames of 100 bytes on ring 1, ten at a time, and receives them.
fn numbered(b: &mut Bench, count: u32) -> Vec<driver::Received> {
    let mut out = Vec::new();
    for i in 0..count {
        assert!(b.send(0, 1, &frame(i)));
        if i % 10 == 9 {
            b.run(MS);
            out.extend(b.receive(1, 1));
        }
    }
    b.run(20 * MS);
    out.extend(b.receive(1, 1));
    out
}

fn frame(i: u32) -> Frame {
    let mut r = Random::new(u64::from(i) + 1);
    let mut data = i.to_le_bytes().to_vec();
    data.extend(r.bytes(96));
    Frame::new(&data)
}

fn number(f: &driver::Received) -> u32 {
    u32::from_le_bytes(f.frame.data[..4].try_into().unwrap())
}

#[test]
fn drop_loses_frames_and_tells_nobody() {
    let seed = driver::seed(21);
    let mut b = bench(true);
    fault(&mut b, FaultSpec::new(FaultKind::Drop, seed, 10));
    let got = numbered(&mut b, 1000);
    let fired = b.counter("fault.0.drop.fired");
    assert_eq!(got.len() as u64 + fired, 1000);
    assert!((50..200).contains(&fired), "{fired} of 1000 at one in ten");
    assert!(got
        .iter()
        .all(|f| f.frame == frame(number(f)) && f.flags & (CRC_ERROR | OVERRUN) == 0));
    assert_eq!(b.ring(0, true, 1).outstanding(), 0, "they completed at the sender");
    b.fabric.clear_faults();
    assert_eq!(numbered(&mut b, 100).len(), 100);
}

#[test]
fn crc_is_flagged_and_one_bit_wrong() {
    let seed = driver::seed(22);
    let mut b = bench(true);
    fault(&mut b, FaultSpec::new(FaultKind::Crc, seed, 5));
    let mut flagged = 0;
    for (i, f) in numbered(&mut b, 500).into_iter().enumerate() {
        let right = frame(i as u32);
        let bits: u32 =
            f.frame.data.iter().zip(&right.data).map(|(x, y)| (x ^ y).count_ones()).sum();
        let bad = f.flags & CRC_ERROR != 0;
        assert_eq!(bits, u32::from(bad), "frame {i}");
        flagged += u64::from(bad);
    }
    assert_eq!(flagged, b.counter("fault.0.crc.fired"));
    assert!(flagged > 50);
}

#[test]
fn corrupt_is_one_header_bit_and_unflagged() {
    let seed = driver::seed(23);
    let mut b = bench(true);
    fault(&mut b, FaultSpec::new(FaultKind::Corrupt, seed, 1));
    for (i, f) in numbered(&mut b, 200).into_iter().enumerate() {
        let right = frame(i as u32);
        let wrong: Vec<usize> =
            (0..right.data.len()).filter(|k| f.frame.data[*k] != right.data[*k]).collect();
        assert_eq!(wrong.len(), 1, "frame {i}");
        assert!(wrong[0] < 64);
        assert_eq!(f.flags & (CRC_ERROR | OVERRUN), 0);
    }
}

#[test]
fn overrun_is_flagged() {
    let mut b = bench(true);
    fault(&mut b, FaultSpec { count: Some(3), ..FaultSpec::new(FaultKind::Overrun, 1, 1) });
    let got = numbered(&mut b, 10);
    let flags: Vec<bool> = got.iter().map(|f| f.flags & OVERRUN != 0).collect();
    assert_eq!(flags, [true, true, true, false, false, false, false, false, false, false]);
}

#[test]
fn duplicate_arrives_twice_in_order() {
    let mut b = bench(true);
    fault(&mut b, FaultSpec { count: Some(2), ..FaultSpec::new(FaultKind::Duplicate, 1, 1) });
    let got: Vec<u32> = numbered(&mut b, 4).iter().map(number).collect();
    assert_eq!(got, [0, 0, 1, 1, 2, 3]);
}

/// A delayed ring stays in order, and the other ring overtakes it.
#[test]
fn delay_reorders_across_rings_only() {
    let mut b = bench(true);
    let spec = FaultSpec::new(FaultKind::Delay, 1, 1);
    fault(&mut b, FaultSpec { hop: Some(1), count: Some(1), duration_ns: 5 * MS, ..spec });
    for i in 0..5 {
        assert!(b.send(0, 1, &frame(i)));
    }
    assert!(b.send(0, 2, &frame(9)));
    b.run(MS);
    assert!(b.receive(1, 1).is_empty());
    assert_eq!(b.receive(1, 2).len(), 1);
    b.run(5 * MS);
    let got: Vec<u32> = b.receive(1, 1).iter().map(number).collect();
    assert_eq!(got, [0, 1, 2, 3, 4]);
}

/// A stall is a slow consumer: back-pressure with E2E, loss without.
#[test]
fn stall() {
    for e2e in [true, false] {
        let mut b = bench(e2e);
        let spec = FaultSpec::new(FaultKind::Stall, 1, 1);
        fault(&mut b, FaultSpec { count: Some(1), duration_ns: 5 * MS, ..spec });
        assert!(b.send(0, 1, &frame(0)));
        b.run(MS);
        assert_eq!(b.ring(0, true, 1).outstanding(), u16::from(e2e));
        assert!(b.receive(1, 1).is_empty());
        b.run(5 * MS);
        assert_eq!(b.receive(1, 1).len(), usize::from(e2e));
        assert_eq!(b.counter("host.b.rx1.no_buffer"), u64::from(!e2e));
        assert!(b.send(0, 1, &frame(1)));
        b.run(MS);
        assert_eq!(b.receive(1, 1).len(), 1, "it is over");
    }
}

/// A retrain stops all rings, both ways, and loses nothing.
#[test]
fn pause_link_is_a_stall_of_everything() {
    let mut b = bench(true);
    let spec = FaultSpec::new(FaultKind::PauseLink, 1, 1);
    fault(&mut b, FaultSpec { count: Some(1), duration_ns: 5 * MS, ..spec });
    assert!(b.send(0, 1, &frame(0)));
    b.run(MS);
    assert!(b.send(1, 2, &frame(1)));
    b.run(MS);
    assert!(b.receive(1, 1).is_empty() && b.receive(0, 2).is_empty());
    b.run(5 * MS);
    assert_eq!((b.receive(1, 1).len(), b.receive(0, 2).len()), (1, 1));
    assert!(b.guests[0].events.is_empty(), "no driver event");
}

/// A stranded frame lies completed without an interrupt; the next one's drains both.
#[test]
fn strand_rx() {
    let mut b = bench(true);
    fault(&mut b, FaultSpec { count: Some(1), ..FaultSpec::new(FaultKind::StrandRx, 1, 1) });
    let before = b.ring(1, false, 1).interrupts;
    assert!(b.send(0, 1, &frame(0)));
    b.run(10 * MS);
    assert_eq!(b.ring(1, false, 1).interrupts, before);
    assert!(b.send(0, 1, &frame(1)));
    b.run(MS);
    assert_eq!(b.ring(1, false, 1).interrupts, before + 1);
    assert_eq!(b.receive(1, 1).len(), 2);
}

#[test]
fn lost_tx() {
    let mut b = bench(true);
    let spec = FaultSpec::new(FaultKind::LostTx, 1, 1);
    let host = Some(b.guests[0].id);
    fault(&mut b, FaultSpec { host, hop: Some(1), direction: Some(Direction::Tx), ..spec });
    assert!(b.send(0, 1, &frame(0)));
    assert!(b.send(0, 2, &frame(0)));
    b.run(10 * MS);
    assert_eq!(b.ring(0, true, 1).interrupts, 0);
    assert_eq!(b.ring(0, true, 1).outstanding(), 1, "nobody drained it");
    assert_eq!(b.ring(0, true, 2).interrupts, 1);
    assert_eq!(b.receive(1, 1).len(), 1);
}

#[test]
fn pending_stuck() {
    let mut b = bench(true);
    fault(&mut b, FaultSpec { count: Some(1), ..FaultSpec::new(FaultKind::PendingStuck, 1, 1) });
    let before = b.now;
    assert!(!b.clear_hop(0, 1, 8));
    assert!(b.now - before >= 500 * MS);
    assert!(b.clear_hop(0, driver::control::NHI, 1));
    fault(&mut b, FaultSpec::new(FaultKind::PendingStuck, 1, 1));
    b.set_hop(0, 1, 8, 1, driver::control::NHI);
    assert!(!b.clear_hop(0, 1, 8));
    b.fabric.clear_faults();
    b.set_hop(0, 1, 8, 1, driver::control::NHI);
    assert!(b.clear_hop(0, 1, 8));
}

/// A scope keeps faults to one host and ring.
#[test]
fn scope_is_respected() {
    let mut b = bench(true);
    let host = Some(b.guests[1].id);
    fault(&mut b, FaultSpec { host, hop: Some(2), ..FaultSpec::new(FaultKind::Drop, 1, 1) });
    for (from, hop) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        assert!(b.send(from, hop, &frame(0)));
    }
    b.run(MS);
    let got = [(1, 1), (1, 2), (0, 1), (0, 2)].map(|(g, hop)| b.receive(g, hop).len());
    assert_eq!(got, [1, 0, 1, 1]);
    let unknown = FaultSpec { host, hop: Some(99), ..FaultSpec::new(FaultKind::Drop, 1, 1) };
    assert!(b.fabric.add_fault(unknown).is_err());
    assert!(b.fabric.add_fault(FaultSpec::new(FaultKind::Drop, 1, 0)).is_err());
}

/// Every kind parses from its own name.
#[test]
fn names() {
    for (kind, name) in FaultKind::ALL {
        assert_eq!(name.parse(), Ok(kind));
        assert_eq!(kind.name(), name);
    }
    assert!("nonsense".parse::<FaultKind>().is_err());
}
