// SPDX-License-Identifier: GPL-2.0
//! The world as the core sees it: send and receive queues, memory regions, completions.
//!
//! The driver implements [`Env`] over its rings and memory regions; the simulation over plain arrays. All
//! calls come from within a `Qp` method, that is under the queue pair's lock; none may call the `Qp` back.

use super::status::{Nak, QpEvent, WcStatus};
use super::wire::Header;

/// A received frame, owned. Dropping it gives the buffer (and with it the credit) back to the lane.
///
/// For `Qp` to be creatable from zeroed memory, the all-zero bit pattern of `Option<Self>` must be `None`:
/// true when the type is one non-null pointer (`NonNull`, `Box`, `Arc`, or a struct of just such a one).
/// Keep it that small: a `Qp` has room for 2 x 256 of them.
pub trait FrameBuf {
    /// The header, checked by [`Header::parse`] when the frame arrived.
    fn header(&self) -> &Header;
    /// `header().payload_len` bytes after the header.
    fn payload(&self) -> &[u8];
    /// Asked before an early frame is held. False (the lane holds half of its ring already, wire.md
    /// section 5) drops the frame. True counts it; the drop of the buffer takes it back.
    fn try_hold(&mut self) -> bool;
}

/// What a send entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SendOp {
    #[default]
    Send = 0,
    /// With [`SendWr::IMM`] a WRITE_WITH_IMM.
    Write = 1,
    Read = 2,
    CmpSwap = 3,
    FetchAdd = 4,
    /// Done by [`Env::local_op`] when its turn comes (LOCAL_INV, BIND_MW); nothing crosses the cable.
    Local = 5,
}

/// A send entry as the core needs it; scatter/gather elements and inline data stay with the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendWr {
    /// WRITE, READ, atomics: remote address of the first byte.
    pub va: u64,
    /// CMP_SWAP: value to compare with; FETCH_ADD: value to add.
    pub compare_add: u64,
    /// CMP_SWAP: value to store.
    pub swap: u64,
    /// WRITE, READ, atomics.
    pub rkey: u32,
    /// With [`SendWr::IMM`]: the immediate data; with [`SendWr::INVALIDATE`]: the rkey.
    pub imm: u32,
    /// Bytes of the message, at most `MAX_MSG_BYTES` (atomics: 8).
    pub len: u32,
    pub op: SendOp,
    /// Or of the constants below.
    pub flags: u8,
}

impl SendWr {
    /// `imm` is immediate data (SEND, WRITE).
    pub const IMM: u8 = 1;
    /// `imm` is an rkey to invalidate (SEND).
    pub const INVALIDATE: u8 = 2;
    pub const SOLICITED: u8 = 4;
    /// Wait for all earlier READs and atomics.
    pub const FENCE: u8 = 8;
}

/// What kind of access a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    RemoteWrite,
    RemoteRead,
    RemoteAtomic,
}

/// An atomic operation on 8 bytes, values in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    CmpSwap { compare: u64, swap: u64 },
    FetchAdd { add: u64 },
}

/// A completed receive entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvDone {
    pub status: WcStatus,
    /// Bytes of the message.
    pub len: u32,
    /// Immediate data, or the invalidated rkey; by `flags`.
    pub imm: u32,
    /// Or of the constants below.
    pub flags: u8,
}

impl RecvDone {
    pub const IMM: u8 = 1;
    /// `imm` is the rkey that was invalidated.
    pub const INVALIDATED: u8 = 2;
    pub const SOLICITED: u8 = 4;
    /// The entry was consumed by a WRITE with immediate data, not by a SEND.
    pub const WRITE_IMM: u8 = 8;
}

/// Send and receive queues, memory, completions of one queue pair.
///
/// `slot` is below `MAX_INFLIGHT`. Slots are taken and completed in the order of the send queue, cyclically.
pub trait Env {
    /// Takes the next entry of the send queue into `slot`, copied and checked (opcode known and legal for the
    /// kind of queue pair, number and sum of lengths). None: the queue is empty. `Some(Err)`: the entry is
    /// taken but bad; the core completes it with that status in its turn and goes to ERR.
    /// Each `Some` is followed by exactly one `send_done(slot, ..)` unless the queue pair is reset.
    fn next_send(&mut self, slot: usize) -> Option<Result<SendWr, WcStatus>>;
    /// Copies `out.len()` bytes from offset `off` of the entry's data (its elements or inline data).
    fn gather(&mut self, slot: usize, off: u32, out: &mut [u8]) -> Result<(), WcStatus>;
    /// Copies `data` (READ data, or the 8 bytes of an atomic's original value) to offset `off` of the entry's elements.
    fn scatter(&mut self, slot: usize, off: u32, data: &[u8]) -> Result<(), WcStatus>;
    /// Does a [`SendOp::Local`] entry.
    fn local_op(&mut self, slot: usize) -> Result<(), WcStatus>;
    /// The entry in `slot` is complete, in the order of the send queue: completion entry if it was signaled
    /// or failed, and the send queue's place is free.
    fn send_done(&mut self, slot: usize, status: WcStatus, byte_len: u32);

    /// Takes the next receive entry, giving its capacity in bytes. None: none posted. It stays the current
    /// entry until `recv_done`. `Some(Err)`: the entry is bad; the core completes it with that status.
    fn recv_next(&mut self) -> Option<Result<u32, WcStatus>>;
    /// Copies `data` to offset `off` of the current receive entry; never beyond its capacity.
    fn recv_write(&mut self, off: u32, data: &[u8]) -> Result<(), WcStatus>;
    /// Completes the current receive entry.
    fn recv_done(&mut self, done: RecvDone);
    /// Completes every posted receive entry with WR_FLUSH_ERR (queues of its own only, not a shared one).
    fn flush_recv(&mut self);

    /// May the peer access `len` > 0 bytes at `va` through `rkey`? Checks key, PD, range, rights of region and
    /// queue pair.
    fn mem_check(&mut self, rkey: u32, va: u64, len: u32, access: Access) -> Result<(), Nak>;
    /// Stores `data` in ascending order after checking as `mem_check` does; with `last`, the last bytes with
    /// release semantics.
    fn mem_write(&mut self, rkey: u32, va: u64, data: &[u8], last: bool) -> Result<(), Nak>;
    /// Reads `out.len()` bytes after checking as `mem_check` does.
    fn mem_read(&mut self, rkey: u32, va: u64, out: &mut [u8]) -> Result<(), Nak>;
    /// Does an atomic on the 8 bytes at `va` (aligned: the core checked) and gives the original value.
    fn atomic(&mut self, rkey: u32, va: u64, op: AtomicOp) -> Result<u64, Nak>;
    /// Invalidates a key for SEND with invalidate.
    fn invalidate(&mut self, rkey: u32) -> Result<(), Nak>;

    /// An asynchronous event; ERR events come after the state has changed and before the flush.
    fn event(&mut self, event: QpEvent);
}
