// SPDX-License-Identifier: GPL-2.0
//! Any bytes as a HELLO: the parser does not fail, what it accepts comes back from its own encoding, and both sides
//! of a negotiation agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_tests::proto::handshake::{negotiate, Hello, Kind, LaneOffer, MAX_BYTES, MAX_LANES};

fuzz_target!(|data: &[u8]| {
    let Ok(theirs) = Hello::parse(data) else { return };
    let mut out = [0; MAX_BYTES];
    let len = theirs.encode(&mut out);
    assert_eq!(Hello::parse(&out[..len]), Ok(theirs));
    assert!(theirs.lanes().len() <= MAX_LANES && theirs.nonce != 0);
    let mut ours = Hello::new(Kind::Reply, 7, theirs.nonce, theirs.name());
    for hopid in 8..8 + (theirs.nonce % 8) as u16 {
        assert!(ours.push_lane(LaneOffer { tx_hopid: hopid, rx_buffers: 256 }));
    }
    match (negotiate(&ours, &theirs), negotiate(&theirs, &ours)) {
        (Ok(a), Ok(b)) => {
            assert_eq!(a, b);
            assert!(a.version >= theirs.version_min && a.version <= theirs.version_max);
            assert!(a.lanes as usize <= theirs.lanes().len());
        }
        (Err(_), Err(_)) => {}
        other => panic!("only one side agrees: {other:?}"),
    }
});
