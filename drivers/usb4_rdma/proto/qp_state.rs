// SPDX-License-Identifier: GPL-2.0
//! States of a queue pair and the transitions between them, as data (IBA vol. 1, 10.3; RC and UC).

/// State; the numbers are those of `enum ib_qp_state` where both have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum QpState {
    #[default]
    Reset = 0,
    Init = 1,
    Rtr = 2,
    Rts = 3,
    Err = 6,
}

/// Transport of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum QpKind {
    #[default]
    Rc = 0,
    Uc = 1,
}

/// Attributes of a modify; None leaves what is. Verbs' units and codes.
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttrs {
    /// The state to go to (or the present one, to change attributes).
    pub state: QpState,
    pub dest_qpn: Option<u32>,
    /// First PSN of the peer's requests, 24 bits.
    pub rq_psn: Option<u32>,
    /// First PSN of our requests, 24 bits.
    pub sq_psn: Option<u32>,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: Option<u8>,
    /// Code of IBA table 45.
    pub min_rnr_timer: Option<u8>,
    /// T = 4.096 us * 2^timeout, 0 for never.
    pub timeout: Option<u8>,
    pub retry_cnt: Option<u8>,
    /// 7 for ever.
    pub rnr_retry: Option<u8>,
}

/// Why a modify was refused (EINVAL); the queue pair is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyError {
    /// No such transition.
    Transition,
    /// An attribute that the transition needs is missing.
    Missing,
    /// An attribute outside its range, or not allowed now.
    Range,
}

/// Bits of the attributes, for the table.
pub mod attr {
    pub const DEST_QPN: u16 = 1 << 0;
    pub const RQ_PSN: u16 = 1 << 1;
    pub const SQ_PSN: u16 = 1 << 2;
    pub const MAX_RD_ATOMIC: u16 = 1 << 3;
    pub const MAX_DEST_RD_ATOMIC: u16 = 1 << 4;
    pub const MIN_RNR_TIMER: u16 = 1 << 5;
    pub const TIMEOUT: u16 = 1 << 6;
    pub const RETRY_CNT: u16 = 1 << 7;
    pub const RNR_RETRY: u16 = 1 << 8;
}
use attr::*;

/// One allowed transition.
pub struct Transition {
    pub from: QpState,
    pub to: QpState,
    /// Attributes that must be given: RC, UC.
    pub required: [u16; 2],
    /// Attributes that may be given besides: RC, UC.
    pub optional: [u16; 2],
}

const fn t(from: QpState, to: QpState, required: [u16; 2], optional: [u16; 2]) -> Transition {
    Transition { from, to, required, optional }
}

const RTR_RC: u16 = DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
const RTS_RC: u16 = SQ_PSN | MAX_RD_ATOMIC | TIMEOUT | RETRY_CNT | RNR_RETRY;

/// Every transition but those that any state allows: to RESET and to ERR, without attributes.
pub const TRANSITIONS: [Transition; 5] = [
    t(QpState::Reset, QpState::Init, [0, 0], [0, 0]),
    t(QpState::Init, QpState::Init, [0, 0], [0, 0]),
    t(QpState::Init, QpState::Rtr, [RTR_RC, DEST_QPN | RQ_PSN], [0, 0]),
    t(QpState::Rtr, QpState::Rts, [RTS_RC, SQ_PSN], [MIN_RNR_TIMER, 0]),
    t(QpState::Rts, QpState::Rts, [0, 0], [MIN_RNR_TIMER, 0]),
];

impl QpAttrs {
    /// Which attributes are given.
    pub fn mask(&self) -> u16 {
        let bit = |given: bool, b: u16| if given { b } else { 0 };
        bit(self.dest_qpn.is_some(), DEST_QPN)
            | bit(self.rq_psn.is_some(), RQ_PSN)
            | bit(self.sq_psn.is_some(), SQ_PSN)
            | bit(self.max_rd_atomic.is_some(), MAX_RD_ATOMIC)
            | bit(self.max_dest_rd_atomic.is_some(), MAX_DEST_RD_ATOMIC)
            | bit(self.min_rnr_timer.is_some(), MIN_RNR_TIMER)
            | bit(self.timeout.is_some(), TIMEOUT)
            | bit(self.retry_cnt.is_some(), RETRY_CNT)
            | bit(self.rnr_retry.is_some(), RNR_RETRY)
    }

    fn in_range(&self) -> bool {
        let max = |v: Option<u8>, m: u8| v.is_none_or(|v| v <= m);
        let psn = |v: Option<u32>| v.is_none_or(|v| v < 1 << 24);
        psn(self.dest_qpn)
            && psn(self.rq_psn)
            && psn(self.sq_psn)
            && max(self.max_rd_atomic, super::MAX_RD_ATOMIC as u8)
            && max(self.max_dest_rd_atomic, super::MAX_RD_ATOMIC as u8)
            && max(self.min_rnr_timer, 31)
            && max(self.timeout, 31)
            && max(self.retry_cnt, 7)
            && max(self.rnr_retry, 7)
    }
}

/// Is going from `from` with `attrs` allowed?
///
/// # Errors
/// What is wrong; see [`ModifyError`].
pub fn check(kind: QpKind, from: QpState, attrs: &QpAttrs) -> Result<(), ModifyError> {
    if !attrs.in_range() {
        return Err(ModifyError::Range);
    }
    if matches!(attrs.state, QpState::Reset | QpState::Err) {
        return Ok(());
    }
    let row = TRANSITIONS
        .iter()
        .find(|t| t.from == from && t.to == attrs.state)
        .ok_or(ModifyError::Transition)?;
    let k = (kind == QpKind::Uc) as usize;
    let given = attrs.mask();
    if given & row.required[k] != row.required[k] {
        return Err(ModifyError::Missing);
    }
    if given & !(row.required[k] | row.optional[k]) != 0 {
        return Err(ModifyError::Range);
    }
    Ok(())
}
