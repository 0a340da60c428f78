// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::ride::Ride;

#[test]
fn nothing_waits_at_first() {
    assert_eq!(Ride::ZERO.wait(1000), 0);
}

#[test]
fn answers_turn_it_on_and_waits_in_vain_turn_it_off() {
    let mut r = Ride::ZERO;
    for i in 0..4 {
        assert_eq!(r.wait(1000), 0, "after {i}");
        r.alone(10_000 * i + 1);
        r.data(10_000 * i + 1001, 1000);
    }
    assert_eq!(r.wait(1000), 1000);
    r.alone(100_000);
    assert_eq!(r.wait(1000), 0);
}

#[test]
fn a_long_habit_forgives_one_exception() {
    let mut r = Ride::ZERO;
    for i in 0..4 {
        r.alone(i * 100 + 1);
        r.data(i * 100 + 2, 1000);
    }
    (0..10).for_each(|i| r.data(5000 + i, 1000));
    r.alone(9000);
    assert_eq!(r.wait(1000), 1000);
    r.alone(9500);
    assert_eq!(r.wait(1000), 0);
}

#[test]
fn late_data_and_one_way_traffic_leave_it_off() {
    let mut r = Ride::ZERO;
    for i in 0..100 {
        r.alone(i * 10_000 + 1);
        r.data(i * 10_000 + 1002, 1000);
        assert_eq!(r.wait(1000), 0, "1001 ns were too late");
    }
    for i in 0..100 {
        // Data for one acknowledgement in three.
        (0..3).for_each(|j| r.alone(2_000_000 + i * 1000 + j));
        r.data(2_000_000 + i * 1000 + 10, 1000);
        assert_eq!(r.wait(1000), 0);
    }
}
