// SPDX-License-Identifier: GPL-2.0
//! Every timer of both ends, in one table (Documentation/protocol-timers.md explains it). Nanoseconds.

/// Shortest and first-guess wait before a sender asks for the state of its stream with a probe.
pub const PROBE_MIN_NS: u64 = 1_000_000;
pub const PROBE_INITIAL_NS: u64 = 4_000_000;
/// Longest pause between two probes.
pub const PROBE_MAX_NS: u64 = 64_000_000;
/// A requester never gives up sooner than this, however short the verbs time-out: a host that is paused
/// for a moment (a virtual machine, a debugger) is not dead.
pub const FAIL_FLOOR_NS: u64 = 250_000_000;
/// A responder stops probing for its responses after this many probes without an answer; any frame of the
/// peer starts it again. It never errors the queue pair: that is the requester's to decide.
pub const RSP_SILENT_PROBES: u8 = 64;
/// First and longest pause of the credit probe of a lane.
pub const LANE_PROBE_MIN_NS: u64 = 2_000_000;
pub const LANE_PROBE_MAX_NS: u64 = 64_000_000;

/// The verbs time-out attribute as T: 4.096 us * 2^timeout; None for 0 (never).
pub const fn verbs_timeout_ns(timeout: u8) -> Option<u64> {
    if timeout == 0 {
        None
    } else {
        Some(4096u64 << (timeout & 31))
    }
}

/// How long a requester waits without progress before RETRY_EXC_ERR: 4T * (retry_cnt + 1).
pub const fn fail_after_ns(timeout: u8, retry_cnt: u8) -> Option<u64> {
    match verbs_timeout_ns(timeout) {
        None => None,
        Some(t) => {
            let total = t * 4 * (retry_cnt as u64 + 1);
            Some(if total < FAIL_FLOOR_NS { FAIL_FLOOR_NS } else { total })
        }
    }
}

/// From when the probe counts after a frame was sent at `now`: from then, but while nothing moves on, the
/// sending of frames does not put the probe off for longer than the longest pause. Else frames that are
/// dropped and sent again for ever (the peer can hold no more) would keep the question from being asked.
pub const fn quiet_after_send(quiet_since: u64, progress_at: u64, now: u64) -> u64 {
    let latest = progress_at.saturating_add(PROBE_MAX_NS);
    let at = if now < latest { now } else { latest };
    if at > quiet_since {
        at
    } else {
        quiet_since
    }
}

/// IBA vol. 1, table 45: RNR NAK timer codes, in units of 10 us.
const RNR_10US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The wait that an RNR NAK with `code` asks for.
pub const fn rnr_wait_ns(code: u32) -> u64 {
    RNR_10US[(code & 31) as usize] as u64 * 10_000
}
