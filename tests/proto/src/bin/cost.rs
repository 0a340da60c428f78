// SPDX-License-Identifier: GPL-2.0
//! What the core costs: nanoseconds of CPU for each frame, both ends together, without copying payload.
//! Prints also the size of a queue pair.

use proto_tests::proto::env::{Access, AtomicOp, Env, FrameBuf, RecvDone, SendOp, SendWr};
use proto_tests::proto::qp::{Qp, Room, Tuning};
use proto_tests::proto::qp_state::{QpAttrs, QpKind, QpState};
use proto_tests::proto::status::{Nak, QpEvent, WcStatus};
use proto_tests::proto::wire::{finish, Header};
use proto_tests::proto::{FRAME_BYTES, HEADER_BYTES};

struct Buf(Box<(Header, [u8; 16])>);

impl FrameBuf for Buf {
    fn header(&self) -> &Header {
        &self.0 .0
    }
    fn payload(&self) -> &[u8] {
        &self.0 .1
    }
    fn try_hold(&mut self) -> bool {
        true
    }
}

/// Endless messages of one kind, nothing copied.
struct Null {
    wr: SendWr,
    left: u64,
    done: u64,
    received: u64,
}

impl Env for Null {
    fn next_send(&mut self, _: usize) -> Option<Result<SendWr, WcStatus>> {
        self.left = self.left.checked_sub(1)?;
        Some(Ok(self.wr))
    }
    fn gather(&mut self, _: usize, _: u32, _: &mut [u8]) -> Result<(), WcStatus> {
        Ok(())
    }
    fn scatter(&mut self, _: usize, _: u32, _: &[u8]) -> Result<(), WcStatus> {
        Ok(())
    }
    fn local_op(&mut self, _: usize) -> Result<(), WcStatus> {
        Ok(())
    }
    fn send_done(&mut self, _: usize, _: WcStatus, _: u32) {
        self.done += 1;
    }
    fn recv_next(&mut self) -> Option<Result<u32, WcStatus>> {
        Some(Ok(1 << 30))
    }
    fn recv_write(&mut self, _: u32, _: &[u8]) -> Result<(), WcStatus> {
        Ok(())
    }
    fn recv_done(&mut self, _: RecvDone) {
        self.received += 1;
    }
    fn flush_recv(&mut self) {}
    fn mem_check(&mut self, _: u32, _: u64, _: u32, _: Access) -> Result<(), Nak> {
        Ok(())
    }
    fn mem_write(&mut self, _: u32, _: u64, _: &[u8], _: bool) -> Result<(), Nak> {
        Ok(())
    }
    fn mem_read(&mut self, _: u32, _: u64, _: &mut [u8]) -> Result<(), Nak> {
        Ok(())
    }
    fn atomic(&mut self, _: u32, _: u64, _: AtomicOp) -> Result<u64, Nak> {
        Ok(0)
    }
    fn invalidate(&mut self, _: u32) -> Result<(), Nak> {
        Ok(())
    }
    fn event(&mut self, _: QpEvent) {}
}

fn connect(qpn: u32, peer: u32, env: &mut Null) -> Box<Qp<Buf>> {
    let mut qp = Box::new(Qp::<Buf>::new());
    qp.setup(qpn, QpKind::Rc, Tuning { ack_delay_ns: 0, max_held: 64 });
    let init = QpAttrs { state: QpState::Init, ..QpAttrs::default() };
    let rtr = QpAttrs {
        state: QpState::Rtr,
        dest_qpn: Some(peer),
        rq_psn: Some(0),
        max_dest_rd_atomic: Some(16),
        min_rnr_timer: Some(1),
        ..QpAttrs::default()
    };
    let rts = QpAttrs {
        state: QpState::Rts,
        sq_psn: Some(0),
        max_rd_atomic: Some(16),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        ..QpAttrs::default()
    };
    for attrs in [init, rtr, rts] {
        qp.modify(&attrs, 0, env).expect("modify");
    }
    qp
}

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
    let env = |left| Null { wr, left, done: 0, received: 0 };
    let (mut ea, mut eb) = (env(messages), env(0));
    let (mut a, mut b) = (connect(1, 2, &mut ea), connect(2, 1, &mut eb));
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
