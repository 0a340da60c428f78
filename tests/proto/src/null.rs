// SPDX-License-Identifier: GPL-2.0
//! A world that does nothing: endless messages of one kind, nothing copied. For measuring and counting.

use crate::proto::env::{Access, AtomicOp, Env, FrameBuf, RecvDone, SendWr};
use crate::proto::qp::{Qp, Tuning};
use crate::proto::qp_state::{QpAttrs, QpKind, QpState};
use crate::proto::status::{Nak, QpEvent, WcStatus};
use crate::proto::wire::Header;

/// A frame with its first payload bytes.
pub struct Buf(pub Box<(Header, [u8; 16])>);

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
pub struct Null {
    pub wr: SendWr,
    /// Messages still in the send queue, completed, received.
    pub left: u64,
    pub done: u64,
    pub received: u64,
}

impl Null {
    /// With `left` messages to send.
    pub fn new(wr: SendWr, left: u64) -> Null {
        Null { wr, left, done: 0, received: 0 }
    }
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

/// A queue pair in RTS, both streams from PSN 0.
pub fn connect(kind: QpKind, qpn: u32, peer: u32, env: &mut Null) -> Box<Qp<Buf>> {
    let mut qp = Box::new(Qp::<Buf>::new());
    qp.setup(qpn, kind, Tuning { ack_delay_ns: 0, max_held: 64 });
    let rc = |v: u8| Some(v).filter(|_| kind == QpKind::Rc);
    let init = QpAttrs { state: QpState::Init, ..QpAttrs::default() };
    let rtr = QpAttrs {
        state: QpState::Rtr,
        dest_qpn: Some(peer),
        rq_psn: Some(0),
        max_dest_rd_atomic: rc(16),
        min_rnr_timer: rc(1),
        ..QpAttrs::default()
    };
    let rts = QpAttrs {
        state: QpState::Rts,
        sq_psn: Some(0),
        max_rd_atomic: rc(16),
        timeout: rc(14),
        retry_cnt: rc(7),
        rnr_retry: rc(7),
        ..QpAttrs::default()
    };
    for attrs in [init, rtr, rts] {
        qp.modify(&attrs, 0, env).expect("modify");
    }
    qp
}
