// SPDX-License-Identifier: GPL-2.0
//! The counters of the device: completions that were no success, by status, and
//! completions that were lost.

use super::Device;
use crate::proto::status::WcStatus;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};

/// Statuses that this device gives, and what counts them.
const COUNTED: [(WcStatus, &CStr); 11] = [
    (WcStatus::LocLenErr, c"wc_loc_len_err"),
    (WcStatus::LocQpOpErr, c"wc_loc_qp_op_err"),
    (WcStatus::LocProtErr, c"wc_loc_prot_err"),
    (WcStatus::WrFlushErr, c"wc_flush_err"),
    (WcStatus::MwBindErr, c"wc_mw_bind_err"),
    (WcStatus::BadRespErr, c"wc_bad_resp_err"),
    (WcStatus::RemInvReqErr, c"wc_rem_inv_req_err"),
    (WcStatus::RemAccessErr, c"wc_rem_access_err"),
    (WcStatus::RemOpErr, c"wc_rem_op_err"),
    (WcStatus::RetryExcErr, c"wc_retry_exc_err"),
    (WcStatus::RnrRetryExcErr, c"wc_rnr_retry_exc_err"),
];

const OVERRUN: usize = COUNTED.len();

/// Names, in order.
pub(crate) const ERROR_COUNTERS: [&CStr; COUNTED.len() + 1] = {
    let mut names = [c"cq_overrun"; COUNTED.len() + 1];
    let mut i = 0;
    while i < OVERRUN {
        names[i] = COUNTED[i].1;
        i += 1;
    }
    names
};

/// See the module.
pub(super) struct Errors([Atomic<u64>; ERROR_COUNTERS.len()]);

impl Errors {
    pub(super) const fn new() -> Self {
        Self([const { Atomic::new(0) }; ERROR_COUNTERS.len()])
    }

    /// A completion with this status was made.
    pub(super) fn completed(&self, status: u8) {
        let known = COUNTED.iter().position(|(known, _)| *known as u8 == status);
        if let Some(count) = known.and_then(|i| self.0.get(i)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// A completion found no room.
    pub(super) fn overrun(&self) {
        if let Some(count) = self.0.get(OVERRUN) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl Device {
    /// Writes the counters, in the order of [`ERROR_COUNTERS`].
    pub(crate) fn error_counters(&self, values: &mut [u64]) {
        for (place, count) in values.iter_mut().zip(&self.errors.0) {
            *place = count.load(Relaxed);
        }
    }
}
