// SPDX-License-Identifier: GPL-2.0
//! Comparison of counters that wrap. Valid while the two are less than half the range apart.

/// a comes before b, 32 bits (PSN, lane_seq, msn).
pub const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// a comes before b, 16 bits (tx_seq).
pub const fn before16(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) < 0
}

/// p lies in [from, to), 32 bits.
pub const fn within(p: u32, from: u32, to: u32) -> bool {
    p.wrapping_sub(from) < to.wrapping_sub(from)
}
