// SPDX-License-Identifier: GPL-2.0
//! What the core costs: nanoseconds of CPU for each frame, both ends together, without copying payload.
//! Prints also the size of a queue pair.

use proto_tests::null::{connect, Buf, Null};
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp::{Qp, Room};
use proto_tests::proto::qp_state::QpKind;
use proto_tests::proto::wire::{finish, Header};
use proto_tests::proto::{FRAME_BYTES, HEADER_BYTES};

/// Sends what `from` has, in one batch, to `to`. Gives the number of frames.
fn batch(from: &mut Qp<Buf>, fenv: &mut Null, to: &mut Qp<Buf>, tenv: &mut Null, now: u64, out: &mut [u8]) -> u64 {
    let mut n = 0;
    while n < 64 {
        let Some(len) = from.poll_tx(now, fenv, Room::Data, out) else { break };
        finish(&mut out[..len], n as u32, 0);
        let h = Header::parse(&out[..len]).expect("a good frame");
        let mut payload = [0; 16];
        payload.copy_from_slice(&out[HEADER_BYTES..HEADER_BYTES + 16]);
        to.on_frame(Buf(Box::new((h, payload))), now, tenv);
        n += 1;
    }
    n
}

/// CPU time of this process so far, so that other load on the machine does not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("schedstat");
    stat.split(' ').next().and_then(|v| v.parse().ok()).expect("a number")
}

fn measure(name: &str, op: SendOp, len: u32, messages: u64) {
    let wr = SendWr { op, len, ..SendWr::default() };
    let env = |left| Null::new(wr, left);
    let (mut ea, mut eb) = (env(messages), env(0));
    let (mut a, mut b) = (connect(QpKind::Rc, 1, 2, &mut ea), connect(QpKind::Rc, 2, 1, &mut eb));
    let mut out = vec![0; FRAME_BYTES];
    let (mut frames, mut now) = (0, 1);
    let start = cpu_ns();
    while ea.done < messages {
        now += 20_000;
        frames += batch(&mut a, &mut ea, &mut b, &mut eb, now, &mut out);
        frames += batch(&mut b, &mut eb, &mut a, &mut ea, now + 10_000, &mut out);
    }
    let ns = cpu_ns() - start;
    println!("{name:16} {:6} ns a frame, {:7} ns a message, {frames} frames", ns / frames, ns / messages);
}

fn main() {
    println!("Qp: {} bytes, Header: {}", std::mem::size_of::<Qp<Buf>>(), std::mem::size_of::<Header>());
    measure("send 64 B", SendOp::Send, 64, 500_000);
    measure("write 64 KiB", SendOp::Write, 65536, 50_000);
    measure("read 64 KiB", SendOp::Read, 65536, 50_000);
    measure("fetch-add", SendOp::FetchAdd, 8, 300_000);
}
