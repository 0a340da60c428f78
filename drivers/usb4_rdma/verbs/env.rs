// SPDX-License-Identifier: GPL-2.0
//! The world of a queue pair's protocol core: its queues, memory, completions.
//!
//! All of it is called under the queue pair's lock. Regions are looked up for
//! each copy anew and held only for it.

use super::mr::{Access, Mr};
use super::recv_queue::RecvQueue;
use super::recv_ring::Received;
use super::send_queue::{SendQueue, Taken};
use super::window::WINDOW_BIT;
use super::{Completion, Cq, Device, Opcode, Pd};
use crate::ffi::abi::{self, Sge};
use crate::ffi::slot_table;
use crate::proto::env::{self as core_env, AtomicOp, Env, RecvDone, SendOp, SendWr};
use crate::proto::status::{Nak, QpEvent, WcStatus};
use kernel::prelude::*;
use kernel::sync::Arc;

/// Events that wait to be raised when the lock is free, as bits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Events(u8);

/// The bit of an event that the core knows nothing of.
const LAST_WQE: u8 = 1 << 7;

impl Events {
    const ALL: [QpEvent; 4] = [
        QpEvent::Fatal,
        QpEvent::AccessErr,
        QpEvent::ReqErr,
        QpEvent::CommEst,
    ];

    fn add(&mut self, event: QpEvent) {
        for (bit, known) in Self::ALL.iter().enumerate() {
            if *known == event {
                self.0 |= 1 << bit;
            }
        }
    }

    /// Whether the queue pair has done with its shared receive queue.
    pub(crate) fn last_wqe(self) -> bool {
        self.0 & LAST_WQE != 0
    }

    /// Calls `raise` for each event of the core's.
    pub(crate) fn each(self, mut raise: impl FnMut(QpEvent)) {
        for (bit, event) in Self::ALL.iter().enumerate() {
            if self.0 & 1 << bit != 0 {
                raise(*event);
            }
        }
    }
}

/// See the module.
pub(crate) struct Io {
    pub(crate) qpn: u32,
    pub(crate) dest_qpn: u32,
    /// What the peer may do.
    pub(crate) access: Access,
    /// A kernel user's ib_qp, for its completions; 0 for a program.
    pub(crate) owner: usize,
    pub(crate) signal_all: bool,
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) send: SendQueue,
    pub(crate) recv: RecvQueue,
    /// The domain that the memory of receive entries belongs to.
    pub(crate) recv_pdn: u32,
    /// It has been told that the shared receive queue is not used any more.
    pub(crate) last_wqe_told: bool,
    pub(crate) events: Events,
    /// A completion queue had no room: the queue pair must fail.
    pub(crate) overrun: bool,
}

const PROT: WcStatus = WcStatus::LocProtErr;

/// The region that `sge` lies in, with the offset of its first byte.
#[inline]
fn local<'a>(
    device: &'a Device,
    pdn: u32,
    sge: &Sge,
    wanted: Access,
) -> Result<(slot_table::Entry<'a, Mr>, u64), WcStatus> {
    let mr = device.mr(sge.lkey).ok_or(PROT)?;
    // The whole element, so that a message fails before its first byte is sent.
    let offset = mr
        .check(pdn, sge.addr, u64::from(sge.length), wanted)
        .ok_or(PROT)?;
    Ok((mr, offset))
}

/// Copies `data` to `count` bytes of a scatter element from `within` on.
#[inline]
fn store(device: &Device, pdn: u32, sge: &Sge, within: u32, data: &[u8]) -> Result<(), WcStatus> {
    let (mr, offset) = local(device, pdn, sge, Access::LOCAL_WRITE)?;
    if mr.backing().write(offset + u64::from(within), data) {
        Ok(())
    } else {
        Err(PROT)
    }
}

impl Io {
    #[inline]
    fn device(&self) -> &Device {
        self.pd.device()
    }

    /// The region of `rkey` with the offset of `va`, if the peer may do that.
    #[inline]
    fn remote(
        &self,
        rkey: u32,
        va: u64,
        len: u32,
        wanted: Access,
    ) -> Result<(slot_table::Entry<'_, Mr>, u64), Nak> {
        if !self.access.allows(wanted) {
            return Err(Nak::RemAccess);
        }
        if rkey & WINDOW_BIT != 0 {
            let found = self.through_window(rkey, va, len, wanted);
            return found.ok_or(Nak::RemAccess);
        }
        let mr = self.device().mr(rkey).ok_or(Nak::RemAccess)?;
        let offset = mr
            .check(self.pd.pdn(), va, u64::from(len), wanted)
            .ok_or(Nak::RemAccess)?;
        Ok((mr, offset))
    }

    fn complete(&mut self, cq: Which, completion: Completion, solicited: bool) {
        let cq = match cq {
            Which::Send => &self.send_cq,
            Which::Recv => &self.recv_cq,
        };
        if completion.status != 0 {
            self.pd.device().errors.completed(completion.status);
        }
        if !cq.push(&completion, solicited) {
            self.pd.device().errors.overrun();
            if !core::mem::replace(&mut self.overrun, true) {
                self.events.add(QpEvent::Fatal);
            }
        }
    }

    fn blank(&self, wr_id: u64, status: WcStatus, opcode: Opcode) -> Completion {
        Completion {
            wr_id,
            qpn: self.qpn,
            byte_len: 0,
            imm: 0,
            src_qpn: self.dest_qpn,
            opcode,
            status: status as u8,
            flags: 0,
            owner: self.owner,
        }
    }
}

enum Which {
    Send,
    Recv,
}

fn access_of(access: core_env::Access) -> Access {
    match access {
        core_env::Access::RemoteWrite => Access::REMOTE_WRITE,
        core_env::Access::RemoteRead => Access::REMOTE_READ,
        core_env::Access::RemoteAtomic => Access::REMOTE_ATOMIC,
    }
}

/// The core's form of a send entry.
fn request_of(entry: &super::send_queue::Entry) -> SendWr {
    let (op, mut flags) = match u32::from(entry.opcode) {
        abi::U4R_OP_SEND => (SendOp::Send, 0),
        abi::U4R_OP_SEND_IMM => (SendOp::Send, SendWr::IMM),
        abi::U4R_OP_SEND_INV => (SendOp::Send, SendWr::INVALIDATE),
        // The responder stores 8 aligned bytes at once (`Backing::write`).
        abi::U4R_OP_WRITE | abi::U4R_OP_ATOMIC_WRITE => (SendOp::Write, 0),
        abi::U4R_OP_WRITE_IMM => (SendOp::Write, SendWr::IMM),
        abi::U4R_OP_READ => (SendOp::Read, 0),
        abi::U4R_OP_CMP_SWAP => (SendOp::CmpSwap, 0),
        abi::U4R_OP_FETCH_ADD => (SendOp::FetchAdd, 0),
        _ => (SendOp::Local, 0),
    };
    if u32::from(entry.flags) & abi::U4R_SF_SOLICITED != 0 {
        flags |= SendWr::SOLICITED;
    }
    if u32::from(entry.flags) & abi::U4R_SF_FENCE != 0 {
        flags |= SendWr::FENCE;
    }
    SendWr {
        va: entry.remote_addr,
        compare_add: entry.compare_add,
        swap: entry.swap,
        rkey: entry.rkey,
        imm: entry.imm,
        len: entry.length,
        op,
        flags,
    }
}

impl Env for Io {
    fn next_send(&mut self, slot: usize) -> Option<Result<SendWr, WcStatus>> {
        match self.send.take(slot) {
            Taken::Nothing => None,
            Taken::Entry => self.send.entry(slot).map(|entry| Ok(request_of(entry))),
            Taken::Bad(status) => Some(Err(status)),
        }
    }

    #[inline]
    fn gather(&mut self, slot: usize, off: u32, out: &mut [u8]) -> Result<(), WcStatus> {
        if let Some(entry) = self.send.entry(slot).filter(|entry| entry.is_inline()) {
            let whole = self.send.inline_data(entry, off, out);
            return if whole {
                Ok(())
            } else {
                Err(WcStatus::LocLenErr)
            };
        }
        let (device, pdn) = (self.pd.device(), self.pd.pdn());
        self.send
            .pieces(slot, off, out.len(), |sge, within, done, count| {
                let (mr, offset) = local(device, pdn, sge, Access::LOCAL_READ)?;
                let piece = out.get_mut(done..done + count).ok_or(PROT)?;
                if mr.backing().read(offset + u64::from(within), piece) {
                    Ok(())
                } else {
                    Err(PROT)
                }
            })
    }

    fn scatter(&mut self, slot: usize, off: u32, data: &[u8]) -> Result<(), WcStatus> {
        let (device, pdn) = (self.pd.device(), self.pd.pdn());
        self.send
            .pieces(slot, off, data.len(), |sge, within, done, count| {
                store(
                    device,
                    pdn,
                    sge,
                    within,
                    data.get(done..done + count).ok_or(PROT)?,
                )
            })
    }

    fn local_op(&mut self, slot: usize) -> Result<(), WcStatus> {
        let entry = self.send.entry(slot).ok_or(WcStatus::LocQpOpErr)?;
        self.local(entry)
    }

    fn send_done(&mut self, slot: usize, status: WcStatus, byte_len: u32) {
        let Some(entry) = self.send.entry(slot) else {
            return;
        };
        let signaled = u32::from(entry.flags) & abi::U4R_SF_SIGNALED != 0;
        let (wr_id, opcode) = (entry.wr_id, entry.completes_as());
        // The place first: who sees the completion may post again at once.
        self.send.release(slot);
        if signaled || self.signal_all || status != WcStatus::Success {
            let completion = Completion {
                byte_len,
                ..self.blank(wr_id, status, opcode)
            };
            self.complete(Which::Send, completion, false);
        }
    }

    fn recv_next(&mut self) -> Option<Result<u32, WcStatus>> {
        match self.recv.take() {
            Received::Nothing => None,
            Received::Entry(room) => Some(Ok(room)),
            Received::Bad(status) => Some(Err(status)),
        }
    }

    #[inline]
    fn recv_write(&mut self, off: u32, data: &[u8]) -> Result<(), WcStatus> {
        let (device, pdn) = (self.pd.device(), self.recv_pdn);
        self.recv
            .pieces(off, data.len(), |sge, within, done, count| {
                store(
                    device,
                    pdn,
                    sge,
                    within,
                    data.get(done..done + count).ok_or(PROT)?,
                )
            })
    }

    fn recv_done(&mut self, done: RecvDone) {
        let Some(wr_id) = self.recv.finish() else {
            return;
        };
        let has = |flag| done.flags & flag != 0;
        let opcode = if has(RecvDone::WRITE_IMM) {
            Opcode::RecvWriteImm
        } else {
            Opcode::Recv
        };
        let mut completion = self.blank(wr_id, done.status, opcode);
        completion.byte_len = done.len;
        completion.imm = done.imm;
        if has(RecvDone::IMM) {
            completion.flags |= abi::U4R_WCF_IMM as u16;
        }
        if has(RecvDone::INVALIDATED) {
            completion.flags |= abi::U4R_WCF_INV as u16;
        }
        self.complete(Which::Recv, completion, has(RecvDone::SOLICITED));
    }

    fn flush_recv(&mut self) {
        if !self.recv.set_flushing(true) {
            // The entry at hand, if there was one, has completed just before.
            if !core::mem::replace(&mut self.last_wqe_told, true) {
                self.events.0 |= LAST_WQE;
            }
            return;
        }
        // No more than there can be, whatever the program does meanwhile.
        for _ in 0..self.recv.entries() {
            match self.recv.take() {
                Received::Nothing => break,
                Received::Entry(_) | Received::Bad(_) => {}
            }
            let Some(wr_id) = self.recv.finish() else {
                break;
            };
            let completion = self.blank(wr_id, WcStatus::WrFlushErr, Opcode::Recv);
            self.complete(Which::Recv, completion, false);
        }
    }

    fn mem_check(
        &mut self,
        rkey: u32,
        va: u64,
        len: u32,
        access: core_env::Access,
    ) -> Result<(), Nak> {
        self.remote(rkey, va, len, access_of(access)).map(|_| ())
    }

    #[inline]
    fn mem_write(&mut self, rkey: u32, va: u64, data: &[u8], last: bool) -> Result<(), Nak> {
        let (mr, offset) = self.remote(rkey, va, data.len() as u32, Access::REMOTE_WRITE)?;
        // The copy stores in ascending order; the barrier lets no later store of
        // ours (a completion, a next message) be seen before it.
        let whole = mr.backing().write(offset, data);
        if last {
            kernel::sync::barrier::smp_mb(kernel::sync::barrier::Write);
        }
        if whole {
            Ok(())
        } else {
            Err(Nak::RemAccess)
        }
    }

    #[inline]
    fn mem_read(&mut self, rkey: u32, va: u64, out: &mut [u8]) -> Result<(), Nak> {
        let (mr, offset) = self.remote(rkey, va, out.len() as u32, Access::REMOTE_READ)?;
        if mr.backing().read(offset, out) {
            Ok(())
        } else {
            Err(Nak::RemAccess)
        }
    }

    fn atomic(&mut self, rkey: u32, va: u64, op: AtomicOp) -> Result<u64, Nak> {
        let (mr, offset) = self.remote(rkey, va, 8, Access::REMOTE_ATOMIC)?;
        let old = match op {
            AtomicOp::CmpSwap { compare, swap } => mr.backing().compare_swap(offset, compare, swap),
            AtomicOp::FetchAdd { add } => mr.backing().fetch_add(offset, add),
        };
        old.ok_or(Nak::RemInvReq)
    }

    fn invalidate(&mut self, rkey: u32) -> Result<(), Nak> {
        self.invalidate_window(rkey)
    }

    fn event(&mut self, event: QpEvent) {
        self.events.add(event);
    }
}
