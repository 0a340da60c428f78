// SPDX-License-Identifier: GPL-2.0
//! Any bytes as a frame: the parser does not fail, and what it accepts means the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_tests::proto::wire::{finish, Header};
use proto_tests::proto::HEADER_BYTES;

fuzz_target!(|data: &[u8]| {
    let _ = Header::parse(data);
    // With the right CRC and length the fields themselves are looked at.
    let mut frame = data.to_vec();
    if frame.len() >= HEADER_BYTES {
        let len = (frame.len() - HEADER_BYTES) as u16;
        frame[4..6].copy_from_slice(&len.to_le_bytes());
        let (seq, limit) = (frame.len() as u32, u32::from(frame[7]));
        assert!(finish(&mut frame, seq, limit));
    }
    if let Ok(h) = Header::parse(&frame) {
        let mut again = frame.clone();
        assert!(h.encode(&mut again) && finish(&mut again, h.lane_seq, h.lane_limit));
        let back = Header::parse(&again).expect("its own header");
        assert_eq!(format!("{h:?}"), format!("{back:?}"));
        assert_eq!(frame[..HEADER_BYTES], again[..HEADER_BYTES]);
    }
});
