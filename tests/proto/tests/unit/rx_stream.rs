// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::env::FrameBuf;
use proto_tests::proto::rx_stream::{Place, RxStream};
use proto_tests::proto::wire::Header;
use std::cell::Cell;
use std::rc::Rc;

/// Counts how many are alive.
struct Buf(Header, Rc<Cell<i32>>);

impl FrameBuf for Buf {
    fn header(&self) -> &Header {
        &self.0
    }
    fn payload(&self) -> &[u8] {
        &[]
    }
    fn try_hold(&mut self) -> bool {
        true
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

fn buf(psn: u32, alive: &Rc<Cell<i32>>) -> Buf {
    alive.set(alive.get() + 1);
    Buf(Header { psn, ..Header::default() }, alive.clone())
}

fn stream(psn: u32) -> Box<RxStream<Buf>> {
    let mut rx = Box::new(RxStream::ZERO);
    rx.start(psn);
    rx
}

#[test]
fn where_a_frame_stands() {
    for start in [0, 1000, u32::MAX - 3] {
        let mut rx = stream(start);
        let at = |rx: &RxStream<Buf>, d: u32| rx.classify(start.wrapping_add(d));
        for (d, want) in [
            (0, Place::Next),
            (1, Place::Early),
            (255, Place::Early),
            (256, Place::Outside),
            (0x7fff_ffff, Place::Outside),
            (0x8000_0000, Place::Outside),
            (256u32.wrapping_neg() - 1, Place::Outside),
            (256u32.wrapping_neg(), Place::Duplicate),
            (u32::MAX, Place::Duplicate),
        ] {
            assert_eq!(at(&rx, d), want, "{start} + {d}");
        }
        let alive = Rc::new(Cell::new(0));
        rx.hold(start.wrapping_add(2), buf(0, &alive));
        assert_eq!(at(&rx, 2), Place::Duplicate);
        rx.advance();
        assert_eq!((at(&rx, 0), at(&rx, 1), at(&rx, 256)), (Place::Duplicate, Place::Next, Place::Early));
    }
}

#[test]
fn what_is_held_comes_out_in_order_and_is_freed() {
    let alive = Rc::new(Cell::new(0));
    let mut rx = stream(u32::MAX - 1);
    for d in [3u32, 1, 2, 7] {
        let psn = (u32::MAX - 1).wrapping_add(d);
        rx.hold(psn, buf(psn, &alive));
    }
    assert_eq!((rx.held_count(), alive.get()), (4, 4));
    assert!(rx.take_next().is_none());
    rx.advance();
    for d in 1..4u32 {
        let f = rx.take_next().expect("held");
        assert_eq!(f.header().psn, (u32::MAX - 1).wrapping_add(d));
        rx.advance();
    }
    assert!(rx.take_next().is_none());
    assert_eq!((rx.held_count(), alive.get()), (1, 1));
    rx.start(5);
    assert_eq!((rx.held_count(), alive.get(), rx.next()), (0, 0, 5));
}

#[test]
fn the_bitmap_begins_after_the_gap() {
    let alive = Rc::new(Cell::new(0));
    let mut rx = stream(100);
    let mut map = [0; 32];
    rx.saw(9);
    assert_eq!(rx.whole(&mut map), (100, 9, 0));
    for psn in [101, 110, 355] {
        rx.hold(psn, buf(psn, &alive));
    }
    let (ack, seq, len) = rx.whole(&mut map);
    assert_eq!((ack, seq, len), (100, 9, 32));
    assert_eq!((map[0], map[1], map[31]), (0b1, 0b10, 0b0100_0000));
}

#[test]
fn riding_does_not_claim_what_is_held_was_lost() {
    let alive = Rc::new(Cell::new(0));
    let mut rx = stream(0);
    rx.saw(1);
    rx.advance();
    rx.owe(50);
    assert_eq!(rx.ride(), (1, 1));
    assert!(!rx.is_owed(), "that was it");
    rx.saw(3);
    rx.hold(2, buf(2, &alive));
    rx.owe(60);
    assert_eq!(rx.ride(), (1, 1), "as old as the last time when nothing was held");
    assert!(rx.is_owed() && rx.is_due_alone(60), "the one with a bitmap stays owed");
    rx.saw(4);
    rx.advance();
    drop(rx.take_next());
    rx.advance();
    assert_eq!(rx.ride(), (3, 4));
}

#[test]
fn what_is_owed_and_when() {
    let mut rx = stream(0);
    assert_eq!((rx.due_at(), rx.is_due(u64::MAX)), (None, false));
    rx.owe(100);
    rx.owe(200);
    assert_eq!(rx.due_at(), Some(100), "the earlier counts");
    rx.owe(50);
    assert!(!rx.is_due(49) && rx.is_due(50) && !rx.is_due_alone(50));
    rx.forgive();
    for i in 1..=32 {
        rx.advance();
        rx.owe_by_count(7);
        assert_eq!(rx.is_owed(), i == 32, "frame {i}");
    }
}

#[test]
fn the_latest_number_only_grows() {
    let mut rx = stream(0);
    for (saw, latest) in [(5, 5), (3, 5), (5, 5), (32770, 32770), (2, 2), (65535, 2)] {
        rx.saw(saw);
        assert_eq!(rx.latest(), latest, "after {saw}");
    }
}
