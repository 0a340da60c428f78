// SPDX-License-Identifier: GPL-2.0
//! A queue pair whose peer sends what the fuzzer likes. Each step: one byte what, then a header's worth of bytes.
//! Nothing fails, what is held stays bounded, and the queue pair does not send without end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_tests::null::{connect, Buf, Null};
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp::Room;
use proto_tests::proto::qp_state::{QpAttrs, QpKind, QpState};
use proto_tests::proto::wire::{finish, Header};
use proto_tests::proto::{FRAME_BYTES, HEADER_BYTES};

const STEP: usize = 1 + HEADER_BYTES;
const MESSAGES: u64 = 300;
/// All messages as frames, and some more.
const MAX_FRAMES: u64 = MESSAGES * 17 + 1000;

/// The header of a step, near enough to the truth that most are looked at.
fn header(bytes: &[u8]) -> Option<Header> {
    let mut frame = vec![0; FRAME_BYTES];
    frame[..HEADER_BYTES].copy_from_slice(bytes);
    let len = (u16::from_le_bytes([frame[4], frame[5]]) % 4033) as usize;
    frame.truncate(HEADER_BYTES + len);
    frame[0] = 1;
    frame[4..6].copy_from_slice(&(len as u16).to_le_bytes());
    frame[12..16].copy_from_slice(&1u32.to_le_bytes());
    frame[34..36].copy_from_slice(&2u16.to_le_bytes());
    finish(&mut frame, 0, 0);
    Header::parse(&frame).ok()
}

fuzz_target!(|data: &[u8]| {
    let Some((first, steps)) = data.split_first() else { return };
    let kind = if first & 1 == 0 { QpKind::Rc } else { QpKind::Uc };
    let op = [SendOp::Send, SendOp::Write, SendOp::Read, SendOp::FetchAdd][(first >> 1) as usize % 4];
    let op = if kind == QpKind::Uc { SendOp::Send } else { op };
    let len = if op == SendOp::FetchAdd { 8 } else { u32::from(*first) << 8 };
    let mut env = Null::new(SendWr { op, len, ..SendWr::default() }, MESSAGES);
    let mut qp = connect(kind, 1, 2, &mut env);
    let (mut now, mut out) = (1, vec![0; FRAME_BYTES]);
    let mut sent = 0;
    for step in steps.chunks_exact(STEP) {
        now += 1_000 << (step[0] & 15);
        match step[0] >> 4 {
            0..=11 => {
                let Some(h) = header(&step[1..]) else { continue };
                qp.on_frame(Buf(Box::new((h, [0x5a; 16]))), now, &mut env);
            }
            12 => qp.on_timer(now, &mut env),
            13 => {
                let err = QpAttrs { state: QpState::Err, ..QpAttrs::default() };
                qp.modify(&err, now, &mut env).expect("any state may go to ERR");
            }
            _ => {
                let mut n = 0;
                while qp.poll_tx(now, &mut env, Room::Data, &mut out).is_some() {
                    n += 1;
                    assert!(n < MAX_FRAMES, "sends without end");
                }
                sent += n;
            }
        }
    }
    qp.flush(&mut env);
    assert!(sent == 0 || env.done > 0, "nothing was completed");
    assert_eq!(env.done, MESSAGES, "each request completes exactly once");
    qp.reset();
    assert!(qp.is_idle());
});
