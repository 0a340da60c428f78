// SPDX-License-Identifier: GPL-2.0
//! Completion statuses, refusals, asynchronous events: numbers that others defined, as types.

/// Completion status. The numbers are those of `enum ib_wc_status`, fixed by the verbs ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WcStatus {
    Success = 0,
    LocLenErr = 1,
    LocQpOpErr = 2,
    LocProtErr = 4,
    WrFlushErr = 5,
    MwBindErr = 6,
    BadRespErr = 7,
    LocAccessErr = 8,
    RemInvReqErr = 9,
    RemAccessErr = 10,
    RemOpErr = 11,
    RetryExcErr = 12,
    RnrRetryExcErr = 13,
    FatalErr = 19,
    GeneralErr = 21,
}

/// Why a responder refuses a request for good (IBA vol. 1, 9.7.5.2). Wire numbers: ACK syndromes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Nak {
    RemAccess = 2,
    RemInvReq = 3,
    RemOp = 4,
}

impl Nak {
    /// From an ACK's syndrome.
    pub const fn from_syndrome(s: u8) -> Option<Nak> {
        match s {
            2 => Some(Nak::RemAccess),
            3 => Some(Nak::RemInvReq),
            4 => Some(Nak::RemOp),
            _ => None,
        }
    }

    /// The status of the refused request at the requester.
    pub const fn status(self) -> WcStatus {
        match self {
            Nak::RemAccess => WcStatus::RemAccessErr,
            Nak::RemInvReq => WcStatus::RemInvReqErr,
            Nak::RemOp => WcStatus::RemOpErr,
        }
    }
}

/// What the core tells the driver to raise as an asynchronous event of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpEvent {
    /// First frame in RTR (IB_EVENT_COMM_EST).
    CommEst = 0,
    /// A request of the peer was refused for access (IB_EVENT_QP_ACCESS_ERR).
    AccessErr,
    /// A request of the peer was refused otherwise (IB_EVENT_QP_REQ_ERR).
    ReqErr,
    /// A local error moved the queue pair to ERR (IB_EVENT_QP_FATAL).
    Fatal,
}
