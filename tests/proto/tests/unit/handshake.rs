// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::handshake::*;

fn hello() -> Hello {
    let mut h = Hello::new(Kind::Hello, 0x1122_3344_5566_7788, 0, b"host-a");
    assert!(h.push_lane(LaneOffer { tx_hopid: 8, rx_buffers: 16 }));
    assert!(h.push_lane(LaneOffer { tx_hopid: 2047, rx_buffers: 65535 }));
    h
}

fn bytes(h: &Hello) -> Vec<u8> {
    let mut b = [0; MAX_BYTES];
    let n = h.encode(&mut b);
    b[..n].to_vec()
}

fn patched(at: usize, v: &[u8]) -> Result<Hello, BadHello> {
    let mut b = bytes(&hello());
    b[at..at + v.len()].copy_from_slice(v);
    Hello::parse(&b)
}

#[test]
fn there_and_back() {
    for kind in [Kind::Hello, Kind::Reply, Kind::Ready, Kind::Bye, Kind::Refuse] {
        let h = Hello { kind, peer_nonce: 9, ..hello() };
        assert_eq!(Hello::parse(&bytes(&h)), Ok(h));
    }
    let b = bytes(&hello());
    assert_eq!(&b[..8], &[0x75, 0x34, 0x72, 0x64, 1, 1, 1, 2]);
    assert_eq!(b.len(), 80);
    assert_eq!(hello().name(), b"host-a");
    assert_eq!(hello().lanes().len(), 2);
}

#[test]
fn as_many_lanes_as_fit() {
    let mut h = Hello::new(Kind::Reply, 1, 2, b"");
    for i in 0..MAX_LANES as u16 {
        assert!(h.push_lane(LaneOffer { tx_hopid: 8 + i, rx_buffers: 256 }));
    }
    assert!(!h.push_lane(LaneOffer { tx_hopid: 99, rx_buffers: 256 }));
    assert_eq!(bytes(&h).len(), MAX_BYTES);
    assert_eq!(Hello::parse(&bytes(&h)), Ok(h));
    let mut nine = bytes(&h);
    nine[7] = 9;
    nine.extend_from_slice(&[16, 0, 16, 0, 0, 0, 0, 0]);
    assert_eq!(Hello::parse(&nine), Err(BadHello::Lanes));
}

#[test]
fn garbage_is_refused_by_name() {
    let b = bytes(&hello());
    for n in 0..FIXED_BYTES {
        assert_eq!(Hello::parse(&b[..n]), Err(BadHello::Short));
    }
    assert_eq!(Hello::parse(&b[..b.len() - 1]), Err(BadHello::Lanes));
    assert_eq!(patched(0, b"XXXX"), Err(BadHello::Magic));
    for kind in [0, 6, 255] {
        assert_eq!(patched(4, &[kind]), Err(BadHello::Kind));
    }
    assert_eq!(patched(5, &[0, 1]), Err(BadHello::Versions));
    assert_eq!(patched(5, &[3, 2]), Err(BadHello::Versions));
    assert_eq!(patched(7, &[0]), Err(BadHello::Lanes));
    assert_eq!(patched(7, &[3]), Err(BadHello::Lanes));
    assert_eq!(patched(16, &[0; 8]), Err(BadHello::Nonce));
    assert_eq!(patched(33, b" "), Err(BadHello::Name));
    assert_eq!(patched(63, b"x"), Err(BadHello::Name));
    assert_eq!(patched(64, &[7, 0]), Err(BadHello::HopId));
    assert_eq!(patched(64, &[0, 8]), Err(BadHello::HopId));
    assert_eq!(patched(66, &[15, 0]), Err(BadHello::Buffers));
}

#[test]
fn goodbyes_need_no_lanes() {
    for kind in [Kind::Ready, Kind::Bye, Kind::Refuse] {
        let h = Hello::new(kind, 1, 2, b"n");
        assert_eq!(Hello::parse(&bytes(&h)), Ok(h));
    }
    let none = Hello::new(Kind::Reply, 1, 2, b"n");
    assert_eq!(Hello::parse(&bytes(&none)), Err(BadHello::Lanes));
}

#[test]
fn a_newer_peer_may_say_more() {
    let mut b = bytes(&Hello { version_max: 9, caps: !0, ..hello() });
    b.extend_from_slice(&[0xaa; 50]);
    let theirs = Hello::parse(&b).expect("longer is fine");
    let agreed = negotiate(&hello(), &theirs).expect("version 1 is common");
    assert_eq!(agreed, Agreed { version: 1, caps: CAPS, lanes: 2 });
}

#[test]
fn versions_meet_at_the_highest_common() {
    // ours, theirs, agreed
    for ((a, b), (c, d), want) in [
        ((1, 1), (1, 1), Some(1)),
        ((1, 3), (2, 9), Some(3)),
        ((1, 3), (3, 3), Some(3)),
        ((1, 1), (2, 9), None),
        ((4, 5), (1, 3), None),
        ((1, 255), (255, 255), Some(255)),
    ] {
        let ours = Hello { version_min: a, version_max: b, ..hello() };
        let theirs = Hello { version_min: c, version_max: d, ..hello() };
        assert_eq!(negotiate(&ours, &theirs).ok().map(|x| x.version), want, "{a}..{b} {c}..{d}");
        assert_eq!(negotiate(&theirs, &ours).ok().map(|x| x.version), want);
    }
}

#[test]
fn fewer_lanes_and_caps_win() {
    let mut one = Hello::new(Kind::Reply, 1, 2, b"b");
    one.push_lane(LaneOffer { tx_hopid: 9, rx_buffers: 64 });
    one.caps = cap::ATOMIC | cap::UD;
    let agreed = negotiate(&hello(), &one).expect("common");
    assert_eq!(agreed, Agreed { version: 1, caps: cap::ATOMIC, lanes: 1 });
}

#[test]
fn names_are_made_printable_and_cut() {
    let h = Hello::new(Kind::Bye, 1, 0, "a b\u{e9}-0123456789012345678901234567890123".as_bytes());
    assert_eq!(&h.name()[..6], b"a_b__-");
    assert_eq!(h.name().len(), NAME_BYTES);
    assert_eq!(Hello::parse(&bytes(&h)), Ok(h));
}

#[test]
fn random_bytes_never_panic() {
    let rng = &mut proto_tests::sim::rng::Rng::new(2);
    let good = bytes(&hello());
    for _ in 0..50_000 {
        let mut b = good.clone();
        b.truncate(rng.below(good.len() as u64 + 1) as usize);
        for _ in 0..rng.below(6) {
            if !b.is_empty() {
                let at = rng.below(b.len() as u64) as usize;
                b[at] = rng.word() as u8;
            }
        }
        if let Ok(h) = Hello::parse(&b) {
            assert!(h.lanes().len() <= MAX_LANES && h.nonce != 0);
        }
    }
}
