// SPDX-License-Identifier: GPL-2.0
//! The counters that `rdma statistic` shows: those of the protocol core, summed
//! over all queue pairs that the device has had.
//!
//! Lock order: `retired` under a queue pair's lock, nothing under it.

use super::Device;
use crate::proto::counters::QpCounters;
use kernel::prelude::*;

macro_rules! names {
    ($($name:literal)*) => { [$($name),*] };
}

/// Names, in the order of [`QpCounters::NAMES`] (checked below).
pub(crate) const COUNTERS: [&CStr; QpCounters::NAMES.len()] = names!(
    c"tx_data" c"tx_bytes" c"tx_retransmit" c"tx_rnr_resend" c"tx_ack" c"tx_rnr" c"tx_nak"
    c"tx_probe" c"rx_data" c"rx_bytes" c"rx_ack" c"rx_rnr" c"rx_nak" c"rx_probe" c"rx_held"
    c"rx_hold_dropped" c"rx_duplicate" c"rx_rnr_dropped" c"rx_refused_dropped"
    c"rx_out_of_window" c"rx_wrong_sender" c"rx_not_ready" c"rx_violation" c"rx_bad_ack"
    c"uc_gaps" c"uc_dropped" c"retry_exceeded" c"rnr_exceeded" c"rsp_silenced"
);

// Used at compile time only.
#[allow(dead_code)]
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const _: () = {
    let mut i = 0;
    while i < COUNTERS.len() {
        assert!(same(
            COUNTERS[i].to_bytes(),
            QpCounters::NAMES[i].as_bytes()
        ));
        i += 1;
    }
};

impl Device {
    /// Keeps the counters of a queue pair that goes away.
    pub(super) fn keep_counters(&self, counters: &QpCounters) {
        self.retired.lock().add(counters);
    }

    /// Writes the sums, in the order of [`COUNTERS`].
    pub(crate) fn counters(&self, values: &mut [u64]) {
        let mut sum = *self.retired.lock();
        self.each_qp(|qp| sum.add(qp.inner.lock().core.counters()));
        let mut place = values.iter_mut();
        sum.each(|_, value| {
            if let Some(place) = place.next() {
                *place = value;
            }
        });
    }
}
