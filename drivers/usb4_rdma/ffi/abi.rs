// SPDX-License-Identifier: GPL-2.0
//! The numbers of the user ABI (uapi/usb4_rdma-abi.h), for the verbs side.

use super::bindings as c;

pub(crate) use c::{
    U4R_ARM_ANY, U4R_ARM_COUNT_SHIFT, U4R_ARM_KIND_MASK, U4R_ARM_SOLICITED, U4R_CQ_OVERRUN,
    U4R_MAX_INLINE, U4R_MAX_SGE, U4R_OP_ATOMIC_WRITE, U4R_OP_BIND_MW, U4R_OP_CMP_SWAP, U4R_OP_FETCH_ADD,
    U4R_OP_LOCAL_INV, U4R_OP_READ, U4R_OP_SEND, U4R_OP_SEND_IMM, U4R_OP_SEND_INV, U4R_OP_WRITE,
    U4R_OP_WRITE_IMM, U4R_RQ_FLUSH, U4R_RQ_OK, U4R_SF_FENCE, U4R_SF_INLINE, U4R_SF_SIGNALED,
    U4R_SF_SOLICITED, U4R_SQ_BUSY, U4R_SQ_IDLE, U4R_WCF_IMM, U4R_WCF_INV, U4R_WC_ATOMIC_WRITE, U4R_WC_BIND_MW,
    U4R_WC_CMP_SWAP, U4R_WC_FETCH_ADD, U4R_WC_LOCAL_INV, U4R_WC_READ, U4R_WC_RECV,
    U4R_WC_RECV_WRITE_IMM, U4R_WC_SEND, U4R_WC_WRITE,
};

/// Access flags that ask for what is not there.
pub(crate) const UNSUPPORTED_ACCESS: u32 = c::ib_access_flags_IB_ACCESS_ON_DEMAND
    | c::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
    | c::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;

/// A scatter/gather entry as programs and kernel users write it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Sge {
    /// Address, in terms of the region.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) length: u32,
    /// Key of the region.
    pub(crate) lkey: u32,
}

const _: () = assert!(size_of::<Sge>() == size_of::<c::u4r_sge>());

/// Bytes of a send entry in front of its scatter list or inline data.
pub(crate) const SQE_BYTES: u32 = size_of::<c::u4r_sqe>() as u32;
/// Bytes of a receive entry in front of its scatter list.
pub(crate) const RQE_BYTES: u32 = size_of::<c::u4r_rqe>() as u32;
