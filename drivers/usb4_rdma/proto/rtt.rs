// SPDX-License-Identifier: GPL-2.0
//! Round trip estimate (RFC 6298, integer form) and the probe time-out made of it.

use super::timers::{PROBE_INITIAL_NS, PROBE_MAX_NS, PROBE_MIN_NS};

/// Smoothed round trip and its variation, nanoseconds; zero until the first sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    srtt: u64,
    var: u64,
}

impl Rtt {
    /// No sample yet.
    pub const ZERO: Rtt = Rtt { srtt: 0, var: 0 };

    /// A measured round trip.
    pub fn sample(&mut self, ns: u64) {
        // A sample above the longest pause tells of a stopped host, not of the path.
        let ns = ns.clamp(1, PROBE_MAX_NS);
        if self.srtt == 0 {
            self.srtt = ns;
            self.var = ns / 2;
        } else {
            let err = self.srtt.abs_diff(ns);
            self.var = self.var - self.var / 4 + err / 4;
            self.srtt = self.srtt - self.srtt / 8 + ns / 8;
        }
    }

    /// Smoothed round trip, 0 if unknown.
    pub const fn srtt_ns(&self) -> u64 {
        self.srtt
    }

    /// How long an answer may take before a probe asks, after `backoff` probes without an answer.
    pub fn probe_after(&self, backoff: u8) -> u64 {
        let base = if self.srtt == 0 {
            PROBE_INITIAL_NS
        } else {
            (2 * self.srtt + 4 * self.var).max(PROBE_MIN_NS)
        };
        (base << backoff.min(7)).min(PROBE_MAX_NS)
    }
}
