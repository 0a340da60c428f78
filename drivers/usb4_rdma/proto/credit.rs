// SPDX-License-Identifier: GPL-2.0
//! Credits of a lane, both roles (Documentation/wire.md, section 5). Absolute counters only.
//!
//! One [`LaneTx`] and one [`LaneRx`] for each lane. The sender asks [`LaneTx::may_send`], takes a number with
//! [`LaneTx::take_seq`] for *every* frame and patches it in together with [`LaneRx::limit_to_send`].

use super::counters::LaneCounters;
use super::seq::before;
use super::timers::{LANE_PROBE_MAX_NS, LANE_PROBE_MIN_NS};
use super::wire::{lane_op, Header, Kind};

/// A grant further ahead than this is no ring's: ignored and counted.
const MAX_GRANT: u32 = 1 << 16;

/// Receive buffers of a ring of `ring` that are kept for frames without credit (ACK, LANE).
pub const fn reserve_of(ring: u32) -> u32 {
    let r = ring / 8;
    if r < 4 {
        4
    } else if r > 64 {
        64
    } else {
        r
    }
}

/// Early frames that a lane with a ring of `ring` may hold.
pub const fn max_held_by_lane(ring: u32) -> u32 {
    ring / 2
}

/// Early frames that one queue pair may hold of it. Never as many as a window has.
pub const fn max_held_by_qp(ring: u32) -> u32 {
    let n = ring / 8 * 3;
    if n < 255 {
        n
    } else {
        255
    }
}

/// Sender half.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneTx {
    next_seq: u32,
    limit: u32,
    /// When somebody began to wait for credit, or the last probe went out; 0: nobody waits.
    waiting_since: u64,
    probe_after: u64,
}

impl LaneTx {
    /// `peer_ring`: receive buffers of the peer's ring, from its HELLO.
    pub const fn new(peer_ring: u32) -> Self {
        LaneTx {
            next_seq: 0,
            limit: peer_ring.saturating_sub(reserve_of(peer_ring)),
            waiting_since: 0,
            probe_after: 0,
        }
    }

    /// As if `sent` frames had been sent and received. Tests begin near the wrap.
    pub const fn begin_at(mut self, sent: u32) -> Self {
        self.next_seq = self.next_seq.wrapping_add(sent);
        self.limit = self.limit.wrapping_add(sent);
        self
    }

    /// Credit for a DATA or UD frame. Control frames need none.
    pub const fn may_send(&self) -> bool {
        before(self.next_seq, self.limit)
    }

    /// Frames that may be sent now.
    pub const fn credit(&self) -> u32 {
        if self.may_send() {
            self.limit.wrapping_sub(self.next_seq)
        } else {
            0
        }
    }

    /// The lane_seq of the frame about to be sent.
    pub fn take_seq(&mut self) -> u32 {
        let s = self.next_seq;
        self.next_seq = s.wrapping_add(1);
        s
    }

    /// Somebody has data and found no credit.
    pub fn wait(&mut self, now: u64) {
        if self.waiting_since == 0 {
            self.waiting_since = now.max(1);
            self.probe_after = LANE_PROBE_MIN_NS;
        }
    }

    /// A frame of the other direction arrived. True: there is credit now and somebody waited for it.
    pub fn on_frame(&mut self, h: &Header, c: &mut LaneCounters) -> bool {
        if before(self.limit, h.lane_limit) {
            if h.lane_limit.wrapping_sub(self.next_seq) as i32 > MAX_GRANT as i32 {
                c.rx_bad_limit += 1;
                return false;
            }
            self.limit = h.lane_limit;
        }
        let woke = self.waiting_since != 0 && self.may_send();
        if woke {
            self.waiting_since = 0;
        }
        woke
    }

    /// When a LANE PROBE is due, if anybody waits.
    pub const fn probe_deadline(&self) -> Option<u64> {
        if self.waiting_since == 0 {
            None
        } else {
            Some(self.waiting_since.saturating_add(self.probe_after))
        }
    }

    /// True: send a LANE PROBE now; the next is due after twice the pause.
    pub fn probe_due(&mut self, now: u64) -> bool {
        match self.probe_deadline() {
            Some(at) if at <= now => {
                self.waiting_since = now.max(1);
                self.probe_after = (self.probe_after * 2).min(LANE_PROBE_MAX_NS);
                true
            }
            _ => false,
        }
    }
}

/// Receiver half. `posted` counts buffers that are in the ring for the NHI to fill, those that it has filled
/// and nobody has looked at included.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneRx {
    /// Latest lane_seq received + 1.
    next_seq: u32,
    posted: u32,
    ring: u32,
    last_sent: u32,
    asked: bool,
}

impl LaneRx {
    /// `ring`: buffers announced in HELLO; all are about to be posted.
    pub const fn new(ring: u32) -> Self {
        LaneRx {
            next_seq: 0,
            posted: ring,
            ring,
            last_sent: ring.saturating_sub(reserve_of(ring)),
            asked: false,
        }
    }

    /// As if `received` frames had been received. Tests begin near the wrap.
    pub const fn begin_at(mut self, received: u32) -> Self {
        self.next_seq = self.next_seq.wrapping_add(received);
        self.last_sent = self.last_sent.wrapping_add(received);
        self
    }

    /// A good frame was taken from the ring.
    pub fn on_frame(&mut self, h: &Header, c: &mut LaneCounters) {
        self.taken();
        c.rx_frames += 1;
        if before(h.lane_seq, self.next_seq) {
            c.rx_old += 1;
        } else {
            c.rx_lost += u64::from(h.lane_seq.wrapping_sub(self.next_seq));
            self.next_seq = h.lane_seq.wrapping_add(1);
        }
        if h.kind == Kind::Lane && h.opcode == lane_op::PROBE {
            c.rx_probe += 1;
            self.asked = true;
        } else if h.kind == Kind::Lane {
            c.rx_update += 1;
        }
    }

    /// A buffer left the ring with a frame that could not be used (flagged, unparsable): no number known.
    pub fn taken(&mut self) {
        self.posted = self.posted.saturating_sub(1);
    }

    /// A buffer is back in the ring.
    pub fn reposted(&mut self) {
        self.posted = (self.posted + 1).min(self.ring);
    }

    /// Buffers in the ring.
    pub const fn posted(&self) -> u32 {
        self.posted
    }

    const fn limit(&self) -> u32 {
        let free = self.posted.saturating_sub(reserve_of(self.ring));
        self.next_seq.wrapping_add(free)
    }

    /// The lane_limit for a frame that is sent now; remembers that it was said.
    pub fn limit_to_send(&mut self) -> u32 {
        self.last_sent = self.limit();
        self.asked = false;
        self.last_sent
    }

    /// A LANE UPDATE is due: a quarter of the ring came free since the limit was last said, or a probe asks.
    pub const fn update_due(&self) -> bool {
        let grown = self.limit().wrapping_sub(self.last_sent) as i32;
        self.asked || grown >= (self.ring / 4) as i32
    }
}
