// SPDX-License-Identifier: GPL-2.0
//! The limits that query_device announces. Each is enforced where the object is
//! made; Documentation/verbs.md says what they are for.

/// Queue pairs of a device; also the size of the table they are found in.
pub(crate) const MAX_QP: u32 = 4096;
/// Entries of a send or receive queue.
pub(crate) const MAX_QP_WR: u32 = 16384;
/// Shared receive queues of a device.
pub(crate) const MAX_SRQ: u32 = 4096;
/// Entries of a shared receive queue.
pub(crate) const MAX_SRQ_WR: u32 = 16384;
/// Scatter/gather entries of a work request.
pub(crate) const MAX_SGE: u32 = crate::ffi::abi::U4R_MAX_SGE;
/// Bytes of inline data of a send entry.
pub(crate) const MAX_INLINE: u32 = crate::ffi::abi::U4R_MAX_INLINE;
/// Completion queues of a device.
pub(crate) const MAX_CQ: u32 = 8192;
/// Entries of a completion queue.
pub(crate) const MAX_CQE: u32 = 65536;
/// Memory regions of a device; also the size of the table they are found in.
pub(crate) const MAX_MR: u32 = 65536;
/// Memory windows of a device; also the size of the table they are found in.
pub(crate) const MAX_MW: u32 = 8192;
/// Protection domains of a device.
pub(crate) const MAX_PD: u32 = 4096;
/// READs and atomics that a queue pair has under way, as requester or responder.
pub(crate) const MAX_RD_ATOM: u32 = 16;
/// Longest message in bytes.
pub(crate) const MAX_MSG_BYTES: u32 = 1 << 30;
/// Entries of the GID table: the addresses of the network interface.
pub(crate) const GID_TABLE_LEN: i32 = 128;
/// The one partition key.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;
/// Code of the time-out (4.096 us * 2^code) that an answer may take beyond the
/// time on the wire: 16.8 ms, two ticks of the slowest timer.
pub(crate) const LOCAL_CA_ACK_DELAY: u8 = 12;
/// The first number of a queue pair: 0 and 1 are QP0 and QP1 of the standard.
pub(crate) const QPN_FIRST: u32 = 2;
/// Numbers of queue pairs have 24 bits.
pub(crate) const QPN_END: u32 = 1 << 24;
/// Of the device: the Linux Foundation's, by which Linux hosts announce themselves
/// on a cable as well. Programs take 0 for a broken device.
pub(crate) const VENDOR_ID: u32 = 0x1d6b;
