// SPDX-License-Identifier: GPL-2.0
//! Interrupts: none lost between the last poll and the unmask, throttling, mask and status.

mod driver;

use driver::bench::MS;
use driver::{Bench, Frame};
use vcable::core::{FaultKind, FaultSpec, Profile};

/// Sends one frame from host 0 and moves it, without the driver's interrupt handling.
fn one_frame(b: &mut Bench) -> Vec<u16> {
    assert!(b.send(0, 1, &Frame::new(b"x")));
    while b.fabric.poll(b.now).work > 0 {}
    b.guests[0].lines.take();
    b.guests[1].lines.take()
}

/// The vector and the bit of host 1's RX ring 1.
fn rx_of(b: &mut Bench) -> (u16, u32) {
    let paths = b.guests[1].paths;
    let ring = b.ring(1, false, 1);
    (ring.vector, u32::from(ring.bit(paths)))
}

fn bench() -> Bench {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    b.ring_pair(1, 64, true);
    b
}

/// The start_poll cycle: masked while polling; what completes between the last poll and the
/// unmask raises the interrupt on unmask.
#[test]
fn nothing_is_lost_between_poll_and_unmask() {
    let mut b = bench();
    let (vector, bit) = rx_of(&mut b);
    let id = b.guests[1].id;
    assert_eq!(one_frame(&mut b), [vector]);
    b.fabric.mmio_write(id, 0x37808, 1 << bit, b.now);
    let enabled = b.fabric.mmio_read(id, 0x38200, b.now);
    assert_eq!(enabled >> bit & 1, 1);
    b.fabric.mmio_write(id, 0x38200, enabled & !(1 << bit), b.now);
    assert_eq!(b.fabric.mmio_read(id, 0x38200, b.now), enabled & !(1 << bit));
    assert_eq!(b.receive(1, 1).len(), 1, "the driver polls");
    assert_eq!(one_frame(&mut b), [0; 0], "masked");
    b.fabric.mmio_write(id, 0x38200, enabled, b.now);
    assert_eq!(b.guests[1].lines.take(), [vector], "fires on unmask");
    assert_eq!(b.receive(1, 1).len(), 1);
}

/// The edge-only fault loses exactly that interrupt; the next frame brings both.
#[test]
fn edge_only_fault_strands_a_frame() {
    let mut b = bench();
    let (vector, bit) = rx_of(&mut b);
    let id = b.guests[1].id;
    b.fabric.add_fault(FaultSpec::new(FaultKind::EdgeOnly, 1, 1)).unwrap();
    let enabled = b.fabric.mmio_read(id, 0x38200, b.now);
    b.fabric.mmio_write(id, 0x38208, 1 << bit, b.now);
    assert_eq!(one_frame(&mut b), [0; 0]);
    b.fabric.mmio_write(id, 0x38200, enabled, b.now);
    assert_eq!(b.guests[1].lines.take(), [0; 0], "lost");
    assert_eq!(b.counter("fault.0.edge-only.fired"), 1);
    b.fabric.mmio_write(id, 0x37808, 1 << bit, b.now);
    assert_eq!(one_frame(&mut b), [vector]);
    assert_eq!(b.receive(1, 1).len(), 2);
}

/// Completions while the status is set add no message; a cleared status does.
#[test]
fn one_message_until_cleared() {
    let mut b = bench();
    let (vector, bit) = rx_of(&mut b);
    let id = b.guests[1].id;
    assert_eq!(one_frame(&mut b), [vector]);
    for _ in 0..5 {
        assert_eq!(one_frame(&mut b), [0; 0]);
    }
    b.fabric.mmio_write(id, 0x37808, 1 << bit, b.now);
    assert_eq!(b.guests[1].lines.take(), [0; 0], "clearing fires nothing");
    assert_eq!(one_frame(&mut b), [vector]);
    assert_eq!(b.receive(1, 1).len(), 7);
}

/// A vector fires at most once an interval, and the held message comes by itself.
#[test]
fn throttle() {
    let mut b = bench();
    let (vector, bit) = rx_of(&mut b);
    let id = b.guests[1].id;
    // 400 units of 256 ns are 102.4 us.
    b.fabric.mmio_write(id, 0x38c00 + 4 * u32::from(vector), 400, b.now);
    let end = b.now + 10 * MS;
    let mut messages = 0;
    while b.now < end {
        let got = one_frame(&mut b);
        messages += got.len();
        if !got.is_empty() {
            b.fabric.mmio_write(id, 0x37808, 1 << bit, b.now);
            b.receive(1, 1);
        }
        b.now += 5_000;
    }
    assert!((95..=98).contains(&messages), "{messages} in 10 ms of 102.4 us");
    let held = one_frame(&mut b).is_empty();
    assert!(held, "a frame right after a message is held");
    let at = b.fabric.poll(b.now).next_deadline.expect("the held message");
    assert!(at > b.now && at <= b.now + 102_400);
    b.fabric.poll(at);
    assert_eq!(b.guests[1].lines.take(), [vector]);
}

/// Rings without interrupts complete silently.
#[test]
fn no_interrupt_rings() {
    let mut b = Bench::connected(Profile::tb4(), Profile::tb4());
    for g in 0..2 {
        for tx in [true, false] {
            let quiet =
                driver::ring::Setup { interrupts: false, ..driver::ring::Setup::new(tx, 1) };
            b.add_ring(g, quiet);
        }
    }
    b.enable_paths(1);
    let before = (b.counter("host.a.interrupts"), b.counter("host.b.interrupts"));
    assert_eq!(one_frame(&mut b), [0; 0]);
    assert_eq!((b.counter("host.a.interrupts"), b.counter("host.b.interrupts")), before);
    assert_eq!(b.receive(1, 1).len(), 1);
}

/// With auto-clear (DMA_MISC bit 17 off) a status read clears it, as the MSI mode needs.
#[test]
fn status_read() {
    let mut b = bench();
    let (_, bit) = rx_of(&mut b);
    let id = b.guests[1].id;
    one_frame(&mut b);
    let read = |b: &mut Bench| b.fabric.mmio_read(id, 0x37800, b.now) >> bit & 1;
    assert_eq!((read(&mut b), read(&mut b)), (1, 1), "the driver has set bit 17");
    b.fabric.mmio_write(id, 0x39864, 0, b.now);
    assert_eq!((read(&mut b), read(&mut b)), (1, 0));
}
