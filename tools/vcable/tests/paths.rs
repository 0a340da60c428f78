// SPDX-License-Identifier: GPL-2.0
//! Frames through rings and paths.

mod driver;

use driver::bench::MS;
use driver::control::NHI;
use driver::ring::{Setup, OVERRUN};
use driver::{Bench, Frame, Random};
use vcable::core::{FabricError, Profile};

/// Sends `count` random frames from `from` to `to` on ring `hop`, interleaved with
/// receiving; returns what arrived.
fn stream(b: &mut Bench, from: usize, to: usize, hop: u16, count: usize, r: &mut Random) {
    let mut sent = std::collections::VecDeque::new();
    let (mut queued, mut got) = (0, 0);
    while got < count {
        while queued < count {
            let len = match r.next() % 4 {
                0 => 4096,
                1 => 1,
                _ => 1 + r.next() as usize % 4096,
            };
            let frame = Frame::new(&r.bytes(len));
            if !b.send(from, hop, &frame) {
                break;
            }
            sent.push_back(frame);
            queued += 1;
        }
        while b.step() {}
        let received = b.receive(to, hop);
        assert!(!received.is_empty(), "the stream stands still at {got}");
        for f in received {
            assert_eq!(Some(f.frame), sent.pop_front(), "frame {got}");
            assert_eq!(f.flags & OVERRUN, 0);
            got += 1;
        }
    }
}

#[test]
fn ten_thousand_frames_both_ways() {
    let mut r = Random::new(driver::seed(1));
    let mut b = Bench::connected(Profile::amd(), Profile::tb4());
    b.ring_pair(1, 64, true);
    for _ in 0..10 {
        stream(&mut b, 0, 1, 1, 1000, &mut r);
        stream(&mut b, 1, 0, 1, 1000, &mut r);
    }
    assert_eq!(b.counter("host.a.tx1.frames"), 10_000);
    assert_eq!(b.counter("host.b.rx1.frames"), 10_000);
    assert_eq!(b.counter("host.b.rx1.no_buffer"), 0);
    assert_eq!(b.counter("cable.c0.a_to_b.frames"), 10_000);
    assert_eq!(b.counter("host.a.tx1.bytes"), b.counter("host.b.rx1.bytes"));
}

/// Eleven ring pairs at once each carry their own frames.
#[test]
fn all_rings_at_once() {
    let mut r = Random::new(driver::seed(2));
    let mut b = Bench::connected(Profile::tb5(), Profile::tb4());
    for hop in 1..12 {
        for g in 0..2 {
            let quiet = |tx| Setup { interrupts: hop < 8, ..Setup::new(tx, hop) };
            b.add_ring(g, quiet(true));
            b.add_ring(g, Setup { e2e: true, ..quiet(false) });
        }
        b.enable_paths(hop);
    }
    for _ in 0..20 {
        for hop in 1..12 {
            stream(&mut b, 0, 1, hop, 7, &mut r);
            stream(&mut b, 1, 0, hop, 7, &mut r);
        }
    }
}

/// One busy ring does not keep another from its turn.
#[test]
fn rings_share_a_poll() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 256, true);
    b.ring_pair(2, 256, true);
    for i in 0..250u32 {
        assert!(b.send(0, 1, &Frame::new(&i.to_le_bytes())));
    }
    for i in 0..250u32 {
        assert!(b.send(0, 2, &Frame::new(&i.to_le_bytes())));
    }
    b.fabric.poll(b.now);
    let (one, two) = (b.counter("host.b.rx1.frames"), b.counter("host.b.rx2.frames"));
    assert!(one > 0 && two > 0 && one.abs_diff(two) <= 8, "{one} and {two}");
}

/// With E2E the sender waits for buffers; without it frames are dropped and counted.
#[test]
fn back_pressure_and_silent_drop() {
    for e2e in [true, false] {
        let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
        b.ring_pair(1, 16, e2e);
        for i in 0..15u8 {
            assert!(b.send(0, 1, &Frame::new(&[i])));
        }
        b.run(MS);
        for i in 15..25u8 {
            assert!(b.send(0, 1, &Frame::new(&[i])), "the first 15 are on their way");
        }
        b.run(MS);
        let waiting = b.ring(0, true, 1).outstanding();
        let got: Vec<u8> = b.receive(1, 1).iter().map(|f| f.frame.data[0]).collect();
        assert_eq!(got, (0..15).collect::<Vec<_>>());
        b.run(MS);
        let late: Vec<u8> = b.receive(1, 1).iter().map(|f| f.frame.data[0]).collect();
        if e2e {
            assert_eq!(waiting, 10, "TX does not complete");
            assert_eq!(late, (15..25).collect::<Vec<_>>());
            assert_eq!(b.counter("host.a.tx1.backpressure"), 1);
            assert_eq!(b.counter("host.b.rx1.no_buffer"), 0);
        } else {
            assert_eq!(waiting, 0);
            assert!(late.is_empty());
            assert_eq!(b.counter("host.b.rx1.no_buffer"), 10);
        }
    }
}

/// Frames outside the masks are dropped, and so are those without a path.
#[test]
fn masks_and_missing_paths() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    for (sof, eof) in [(1, 2), (2, 2), (1, 1), (0, 0), (15, 15), (1, 2)] {
        assert!(b.send(0, 1, &Frame { sof, eof, data: vec![sof, eof] }));
    }
    b.run(MS);
    assert_eq!(b.receive(1, 1).len(), 2);
    assert_eq!(b.counter("host.b.rx1.masked"), 4);
    assert!(b.clear_hop(1, 1, 8), "not pending");
    assert!(b.send(0, 1, &Frame::new(b"x")));
    b.run(MS);
    assert_eq!(b.counter("cable.c0.a_to_b.dead_end"), 1);
    assert!(b.clear_hop(0, NHI, 1));
    assert!(b.send(0, 1, &Frame::new(b"x")));
    b.run(MS);
    assert_eq!(b.counter("host.a.tx1.no_path"), 2);
    assert!(b.receive(1, 1).is_empty());
    assert_eq!(b.ring(0, true, 1).outstanding(), 0, "lost frames complete");
}

/// Once options = 0 is written, the device touches neither descriptors nor buffers.
#[test]
fn stop_is_synchronous() {
    let mut r = Random::new(driver::seed(3));
    for round in 0..50 {
        let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
        b.ring_pair(1, 64, true);
        for i in 0..60u8 {
            b.send(0, 1, &Frame::new(&[i; 512]));
        }
        for _ in 0..r.next() % 3 {
            b.fabric.poll(b.now);
        }
        b.remove_ring(1, false, 1);
        b.remove_ring(0, true, 1);
        b.run(10 * MS);
        for g in &b.guests {
            assert_eq!(g.memory.violations(), [0u64; 0], "round {round}");
        }
    }
}

/// A restarted ring begins at index 0 with nothing left over.
#[test]
fn restart_begins_at_zero() {
    let mut r = Random::new(driver::seed(4));
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    for _ in 0..10 {
        let count = 5 + r.next() as usize % 40;
        stream(&mut b, 0, 1, 1, count, &mut r);
        b.remove_ring(1, false, 1);
        b.remove_ring(0, true, 1);
        b.guests.iter_mut().for_each(|g| g.next_vector -= 1);
        b.add_ring(1, Setup { e2e: true, ..Setup::new(false, 1) });
        b.add_ring(0, Setup::new(true, 1));
        assert_eq!(b.guests[0].memory.violations(), [0u64; 0]);
    }
    assert_eq!(b.counter("host.a.tx1.starts"), 11);
}

/// A router with three paths has rings 1 and 2; beyond them there are no registers.
#[test]
fn three_paths_are_three() {
    let mut b = Bench::connected(Profile::amd(), Profile::amd());
    b.ring_pair(1, 16, true);
    b.ring_pair(2, 16, true);
    let id = b.guests[0].id;
    b.fabric.mmio_write(id, 0x19800 + 32 * 3, 1 << 31, b.now);
    b.fabric.mmio_write(id, 0x29800 + 32 * 3, 1 << 31, b.now);
    assert_eq!(b.fabric.mmio_read(id, 0x19800 + 32 * 3, b.now), 0);
    assert_eq!(b.counter("host.a.stray"), 3);
    let stray = b.fabric.stray_accesses(id)[0];
    assert_eq!((stray.offset, stray.written), (0x19860, Some(1 << 31)));
    assert!(b.send(0, 2, &Frame::new(b"still")));
    b.run(MS);
    assert_eq!(b.receive(1, 2).len(), 1);
}

/// Wild indices and unmapped addresses harm nobody but their ring.
#[test]
fn guest_nonsense_is_contained() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    b.ring_pair(2, 16, true);
    let id = b.guests[0].id;
    b.fabric.mmio_write(id, 16 + 8, 5000 << 16, b.now);
    b.run(MS);
    assert!(b.counter("host.a.tx1.bad_index") > 0);
    assert_eq!(b.counter("host.a.tx1.frames"), 0);
    b.fabric.mmio_write(id, 16 + 8, 0, b.now);
    assert!(b.send(0, 1, &Frame::new(b"gone")));
    let base = b.ring(0, true, 1).base;
    b.guests[0].memory.poke(base, &u64::MAX.to_le_bytes());
    b.run(MS);
    assert!(b.receive(1, 1).is_empty());
    assert!(b.counter("host.b.rx1.dma_faults") > 0);
    assert!(b.send(0, 2, &Frame::new(b"fine")));
    b.run(MS);
    assert_eq!(b.receive(1, 2).len(), 1);
}

/// A scripted frame lands as if a peer had sent it.
#[test]
fn injected_frames() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 16, true);
    let id = b.guests[1].id;
    b.fabric.inject(id, 1, 1, 2, b"hostile", b.now).unwrap();
    b.fabric.inject(id, 1, 7, 7, b"masked", b.now).unwrap();
    b.run(MS);
    let got = b.receive(1, 1);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].frame, Frame::new(b"hostile"));
    assert!(b.ring(1, false, 1).interrupts > 0);
    let mut refused = |hop, bytes: &[u8]| b.fabric.inject(id, hop, 1, 2, bytes, b.now);
    assert!(matches!(refused(3, b"x"), Err(FabricError::NotFound(_))));
    assert!(matches!(refused(0, b"x"), Err(FabricError::NotFound(_))));
    assert!(matches!(refused(1, b""), Err(FabricError::Invalid(_))));
    assert!(matches!(refused(1, &[0; 4097]), Err(FabricError::Invalid(_))));
    for _ in 0..15 {
        refused(1, b"x").unwrap();
    }
    assert!(matches!(refused(1, b"x"), Err(FabricError::InUse(_))));
}
