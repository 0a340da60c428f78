// SPDX-License-Identifier: GPL-2.0
//! The counters of the port, for `rdma statistic` and sysfs' hw_counters: those of
//! the protocol core, summed over all queue pairs that the device has had, then
//! those of the lanes, then frames that the parser dropped, by reason.
//!
//! Lock order: `retired` under a queue pair's lock, nothing under it; each lane's
//! `tx` and `rx` are taken alone.

use super::Device;
use crate::proto::counters::{LaneCounters, QpCounters};
use crate::proto::wire::BadFrame;
use kernel::prelude::*;

const LANE_FIRST: usize = QpCounters::NAMES.len();
const BAD_FIRST: usize = LANE_FIRST + LaneCounters::NAMES.len();
const COUNT: usize = BAD_FIRST + BadFrame::COUNT;

/// Names; that they are in the order of the sources is checked below. What counts
/// queue pairs has the core's own name, the rest says what it belongs to.
pub(crate) const COUNTERS: [&CStr; COUNT] = [
    c"tx_data",
    c"tx_bytes",
    c"tx_retransmit",
    c"tx_rnr_resend",
    c"tx_ack",
    c"tx_rnr",
    c"tx_nak",
    c"tx_probe",
    c"rx_data",
    c"rx_bytes",
    c"rx_ack",
    c"rx_rnr",
    c"rx_nak",
    c"rx_probe",
    c"rx_held",
    c"rx_hold_dropped",
    c"rx_duplicate",
    c"rx_rnr_dropped",
    c"rx_refused_dropped",
    c"rx_out_of_window",
    c"rx_wrong_sender",
    c"rx_not_ready",
    c"rx_violation",
    c"rx_bad_ack",
    c"uc_gaps",
    c"uc_dropped",
    c"retry_exceeded",
    c"rnr_exceeded",
    c"rsp_silenced",
    c"lane_tx_frames",
    c"lane_rx_frames",
    c"lane_tx_update",
    c"lane_rx_update",
    c"lane_tx_probe",
    c"lane_rx_probe",
    c"lane_rx_lost",
    c"lane_rx_old",
    c"lane_rx_bad_limit",
    c"lane_rx_flagged",
    c"lane_rx_unknown_qpn",
    c"lane_rx_unclaimed",
    c"lane_rx_polled",
    c"lane_tx_no_buffer",
    c"lane_tx_no_credit",
    c"bad_short",
    c"bad_long",
    c"bad_version",
    c"bad_crc",
    c"bad_kind",
    c"bad_opcode",
    c"bad_length",
    c"bad_reserved",
    c"bad_fields",
];

// Used at compile time only.
#[allow(dead_code)]
const fn is(name: &CStr, prefix: &str, rest: &str) -> bool {
    let (name, prefix, rest) = (name.to_bytes(), prefix.as_bytes(), rest.as_bytes());
    if name.len() != prefix.len() + rest.len() {
        return false;
    }
    let mut i = 0;
    while i < name.len() {
        let wanted = if i < prefix.len() {
            prefix[i]
        } else {
            rest[i - prefix.len()]
        };
        if name[i] != wanted {
            return false;
        }
        i += 1;
    }
    true
}

const _: () = {
    let mut i = 0;
    while i < COUNT {
        assert!(if i < LANE_FIRST {
            is(COUNTERS[i], "", QpCounters::NAMES[i])
        } else if i < BAD_FIRST {
            is(COUNTERS[i], "lane_", LaneCounters::NAMES[i - LANE_FIRST])
        } else {
            is(COUNTERS[i], "bad_", BadFrame::NAMES[i - BAD_FIRST])
        });
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
        let (lanes, bad) = self.link().counters();
        let mut place = values.iter_mut();
        let mut put = |value| {
            if let Some(place) = place.next() {
                *place = value;
            }
        };
        sum.each(|_, value| put(value));
        lanes.each(|_, value| put(value));
        bad.0.iter().for_each(|value| put(*value));
    }
}
