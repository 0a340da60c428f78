// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::rtt::Rtt;
use proto_tests::proto::tx_stream::{Acked, Next, TxStream, REORDER};
use proto_tests::proto::window::View;

const NONE: View = [0; 4];

struct T {
    tx: Box<TxStream>,
    rtt: Rtt,
    now: u64,
}

impl T {
    fn new(psn: u32) -> T {
        let mut tx = Box::new(TxStream::ZERO);
        tx.start(psn);
        T { tx, rtt: Rtt::ZERO, now: 1 }
    }

    /// Sends `n` frames, whatever is next; gives their tx_seq.
    fn send(&mut self, n: usize) -> Vec<u16> {
        (0..n)
            .map(|_| match self.tx.next() {
                Next::Lost(p) | Next::Again(p) | Next::New(p) => self.tx.sent(p, 3, true, self.now),
                Next::Blocked => panic!("blocked"),
            })
            .collect()
    }

    fn ack(&mut self, ack: u32, arrived: u16, held: &View) -> Acked {
        self.tx.on_ack(ack, arrived, held, true, self.now, &mut self.rtt)
    }
}

#[test]
fn the_window_is_256_frames() {
    let mut t = T::new(u32::MAX - 100);
    assert_eq!(t.send(256), (1..=256).collect::<Vec<u16>>());
    assert_eq!(t.tx.next(), Next::Blocked);
    assert!(t.tx.wants_ack(t.tx.una().wrapping_add(255)) && !t.tx.has_room());
    let a = t.ack(u32::MAX - 99, 1, &NONE);
    assert_eq!((a.advanced, a.bad, a.held), (1, false, false));
    assert_eq!(t.tx.next(), Next::New(155));
    t.send(1);
    let max = t.tx.max();
    assert_eq!(t.ack(max, 257, &NONE).advanced, 256);
    assert!(!t.tx.in_flight() && !t.tx.must_resend());
}

#[test]
fn acknowledgements_of_what_was_not_sent_are_bad() {
    let mut t = T::new(10);
    t.send(3);
    assert!(t.ack(14, 3, &NONE).bad);
    assert!(t.ack(0x8000_0000, 3, &NONE).bad);
    assert_eq!(t.ack(9, 3, &NONE), Acked::default(), "an old one is just old");
    assert_eq!(t.tx.una(), 10);
    assert_eq!(t.ack(13, 3, &NONE).advanced, 3);
}

#[test]
fn a_gap_is_lost_after_the_allowance() {
    let mut t = T::new(0);
    let seqs = t.send(10);
    // Frame 0 is missing; the others arrive one by one.
    for (i, seq) in seqs.iter().enumerate().skip(1) {
        let held = [(1 << i) - 1, 0, 0, 0];
        let a = t.ack(0, *seq, &held);
        assert!(a.held);
        let lost = t.tx.next() == Next::Lost(0);
        assert_eq!(lost, i > REORDER as usize, "after frame {i}");
    }
    t.send(1);
    assert_eq!(t.tx.next(), Next::New(10));
    assert_eq!(t.ack(10, 11, &NONE).advanced, 10);
    assert!(!t.tx.must_resend());
}

#[test]
fn a_lost_retransmission_is_lost_again() {
    let mut t = T::new(0);
    t.send(8);
    t.ack(0, 8, &[0x7f, 0, 0, 0]);
    assert_eq!(t.send(1), [9], "frame 0 again");
    assert_eq!(t.tx.next(), Next::New(8));
    t.send(5);
    t.ack(0, 14, &[0xfff, 0, 0, 0]);
    assert_eq!(t.tx.next(), Next::Lost(0));
}

#[test]
fn nothing_is_lost_without_evidence() {
    let mut t = T::new(0);
    t.send(200);
    for i in 1..=200 {
        t.ack(i, i as u16, &NONE);
        assert!(!t.tx.must_resend());
    }
}

#[test]
fn a_probe_finds_the_lost_tail() {
    let mut t = T::new(0);
    t.send(3);
    t.ack(1, 1, &NONE);
    assert!(!t.tx.must_resend());
    let p = t.tx.probe();
    assert_eq!(p, 4);
    assert_eq!(t.tx.probe(), 4, "repeated, it has the same number");
    let a = t.ack(1, 4, &[0b1, 0, 0, 0]);
    assert!(a.answered && a.held);
    assert_eq!(t.tx.next(), Next::Lost(1));
    assert_eq!(t.send(1), [5]);
    assert_eq!(t.tx.next(), Next::New(3));
    t.ack(3, 5, &NONE);
    assert_eq!(t.tx.probe(), 6, "after an answer, a new one");
    t.send(1);
    assert_eq!(t.tx.probe(), 8, "and after a frame");
}

#[test]
fn only_a_frame_of_its_own_answers_a_probe() {
    let mut t = T::new(0);
    t.send(2);
    let p = t.tx.probe();
    let a = t.tx.on_ack(0, p, &NONE, false, 1, &mut t.rtt);
    assert!(!a.answered && !t.tx.must_resend());
    assert!(t.ack(0, p, &NONE).answered && t.tx.must_resend());
}

#[test]
fn an_answer_takes_back_what_was_held() {
    let mut t = T::new(0);
    t.send(3);
    t.ack(0, 3, &[0b11, 0, 0, 0]);
    let p = t.tx.probe();
    // The peer dropped what it held; its RNR NAK was lost.
    t.ack(0, p, &NONE);
    for psn in 0..3 {
        assert_eq!(t.tx.next(), Next::Lost(psn));
        t.send(1);
    }
    assert_eq!(t.tx.next(), Next::New(3));
}

#[test]
fn what_is_no_longer_held_is_lost_without_a_probe() {
    let mut t = T::new(0);
    t.send(6);
    t.ack(0, 6, &[0b11111, 0, 0, 0]);
    assert_eq!(t.tx.next(), Next::Lost(0));
    // Frame 0 came, found no receive entry, and took the others with it; the RNR NAK was lost; it came again.
    assert_eq!(t.send(2), [7, 8]);
    t.ack(1, 8, &NONE);
    for psn in 1..6 {
        assert_eq!(t.tx.next(), Next::Lost(psn));
        t.send(1);
    }
    // An older bitmap takes nothing back from what went out since.
    t.ack(1, 8, &[0b1, 0, 0, 0]);
    t.ack(1, 13, &[0b11111, 0, 0, 0]);
    t.tx.on_ack(1, 13, &NONE, false, 1, &mut t.rtt);
    assert!(!matches!(t.tx.next(), Next::Lost(p) if p > 1), "one that rides has no bitmap");
}

#[test]
fn rewinding_needs_the_right_transmission() {
    let mut t = T::new(0);
    t.send(5);
    assert!(!t.tx.rewind(2, 2) && !t.tx.rewind(5, 6) && !t.tx.rewind(9, 0));
    t.ack(2, 4, &NONE);
    assert!(t.tx.rewind(2, 3));
    assert!(!t.tx.in_flight());
    assert!(!t.tx.rewind(2, 3), "once");
    assert_eq!(t.tx.next(), Next::Again(2));
    // An old acknowledgement that speaks of held frames is no news for frames that are not out.
    t.ack(2, 5, &[0b11, 0, 0, 0]);
    assert_eq!(t.send(2), [6, 7]);
    // And none for frames that went out since.
    assert!(!t.ack(2, 5, &[0b1, 0, 0, 0]).held);
    assert_eq!(t.tx.next(), Next::Again(4));
    assert!(!t.tx.rewind(2, 3), "old");
    assert!(t.tx.rewind(2, 6), "new");
    // It was placed after all: a copy had been on its way.
    assert_eq!(t.ack(4, 7, &NONE).advanced, 2);
    assert_eq!(t.tx.next(), Next::Again(4));
}

#[test]
fn old_evidence_proves_nothing() {
    let mut t = T::new(0);
    t.send(20);
    t.ack(10, 15, &NONE);
    let before = t.tx.next();
    t.ack(10, 9, &[u64::MAX, 0, 0, 0]);
    assert_eq!(t.tx.next(), before);
    // A tx_seq that was never used.
    let a = t.ack(10, 21, &[u64::MAX, 0, 0, 0]);
    assert!(!a.held && t.tx.next() == before);
}

#[test]
fn cut_short() {
    let mut t = T::new(0);
    t.send(10);
    t.tx.cut(4);
    assert_eq!((t.tx.max(), t.tx.outstanding()), (4, 4));
    assert_eq!(t.ack(10, 10, &NONE).advanced, 4, "beyond the cut is everything");
    t.tx.cut(2);
    assert_eq!((t.tx.una(), t.tx.max()), (4, 4));
}

#[test]
fn round_trips_are_timed_one_at_a_time() {
    let mut t = T::new(0);
    t.now = 1_000;
    t.send(1);
    t.now = 2_000;
    t.send(1);
    t.now = 5_001_000;
    t.ack(1, 1, &NONE);
    assert_eq!(t.rtt.srtt_ns(), 5_000_000);
    t.now = 6_000_000;
    t.ack(2, 2, &NONE);
    assert_eq!(t.rtt.srtt_ns(), 5_000_000, "the second was not timed");
}

#[test]
fn numbers_of_transmissions_wrap() {
    let mut t = T::new(u32::MAX - 1000);
    let mut psn = u32::MAX - 1000;
    for round in 0..3000u32 {
        let first = t.send(50)[0];
        // One in three rounds loses a frame.
        if round % 3 == 0 {
            t.ack(psn.wrapping_add(7), first.wrapping_add(49), &[(1 << 42) - 1, 0, 0, 0]);
            assert_eq!(t.tx.next(), Next::Lost(psn.wrapping_add(7)));
            let again = t.send(1)[0];
            t.ack(psn.wrapping_add(50), again, &NONE);
        } else {
            t.ack(psn.wrapping_add(50), first.wrapping_add(49), &NONE);
        }
        psn = psn.wrapping_add(50);
        assert_eq!((t.tx.una(), t.tx.must_resend()), (psn, false));
    }
}
