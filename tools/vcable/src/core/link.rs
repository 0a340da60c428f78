// SPDX-License-Identifier: GPL-2.0
//! Cables: link state, limits, and the frames under way on them.

use std::collections::VecDeque;

use super::counters::DirectionCounters;
use super::faults::FrameFaults;
use super::tables::PORTS;
use super::{HostId, LinkLimits, Profile};

/// Time from both ends being ready to CL0.
pub(crate) const TRAINING_NS: u64 = 50_000_000;
/// How far behind its rate a direction may fall and still catch up: what a poller may sleep.
const CATCH_UP_NS: u64 = 5_000_000;
/// Frames that a direction holds (in its latency) at most.
const IN_FLIGHT_FRAMES: usize = 4096;

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plug {
    pub host: HostId,
    /// Index into the host's ports.
    pub port: usize,
}

impl Plug {
    /// The lane 0 adapter it is in.
    pub fn adapter(&self) -> u8 {
        PORTS[self.port]
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Down,
    Training { until: u64 },
    Up,
}

/// A frame in its latency.
pub(crate) struct InFlight {
    pub deliver_at: u64,
    pub bytes: Vec<u8>,
    pub sof: u8,
    pub eof: u8,
    /// Faults that show at delivery.
    pub faults: FrameFaults,
}

/// Frames of one HopID under way, in order.
pub(crate) struct Flow {
    pub hop: u16,
    pub frames: VecDeque<InFlight>,
}

/// One direction of a cable.
#[derive(Default)]
pub(crate) struct Lane {
    /// When the wire is free for the next frame.
    next_free: u64,
    /// A frame waited for the wire since the last [`Lane::end_poll`].
    pub backlogged: bool,
    /// Rings that wait for the wire, where it has a rate.
    queue: VecDeque<u16>,
    /// A ring waited for the first of them although the wire was free.
    passed_over: bool,
    /// The link carries nothing before this time (a fault).
    pub paused_until: u64,
    /// The frame at hand has been judged for that fault.
    pub judged: bool,
    pub flows: Vec<Flow>,
    in_flight: usize,
    pool: Vec<Vec<u8>>,
    pub counters: DirectionCounters,
}

impl Lane {
    /// Whether the sender's ring `ring` may start a frame at `now`; remembers that one waits
    /// if not. Rings that wait for a limited wire get it in the order in which they came.
    pub fn ready(&mut self, ring: u16, now: u64, limits: &LinkLimits) -> bool {
        let free = now >= self.paused_until && self.in_flight < IN_FLIGHT_FRAMES;
        if limits.rate_mbps.is_none() {
            self.backlogged |= !free;
            return free;
        }
        let free = free && self.next_free <= now;
        let turn = self.queue.front().is_none_or(|first| *first == ring);
        self.passed_over |= free && !turn;
        if free && turn {
            self.queue.pop_front();
            self.passed_over = false;
            return true;
        }
        self.backlogged = true;
        if !self.queue.contains(&ring) {
            self.queue.push_back(ring);
        }
        false
    }

    /// Takes the wire for `bytes` of payload.
    pub fn occupy(&mut self, now: u64, bytes: usize, limits: &LinkLimits) {
        if let Some(rate) = limits.rate_mbps {
            let start = self.next_free.max(now.saturating_sub(CATCH_UP_NS));
            self.next_free = start + bytes as u64 * 8000 / rate.max(1);
        }
        self.counters.frames += 1;
        self.counters.bytes += bytes as u64;
    }

    /// An idle wire saves nothing up: what is sent later starts then.
    pub fn end_poll(&mut self, now: u64) {
        if std::mem::take(&mut self.passed_over) {
            // The first in the queue did not come (stopped, or without buffers at the far
            // end): it loses its turn.
            self.queue.pop_front();
        }
        if !std::mem::take(&mut self.backlogged) {
            self.next_free = self.next_free.max(now);
        }
    }

    /// Frames under way with this HopID.
    pub fn flow_len(&self, hop: u16) -> usize {
        self.flows.iter().find(|f| f.hop == hop).map_or(0, |f| f.frames.len())
    }

    /// An empty buffer for a frame.
    pub fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut b = self.pool.pop().unwrap_or_default();
        b.resize(len, 0);
        b
    }

    /// Puts a frame under way, behind those of its HopID.
    pub fn push(&mut self, hop: u16, mut frame: InFlight) {
        self.in_flight += 1;
        match self.flows.iter_mut().find(|f| f.hop == hop) {
            Some(flow) => {
                if let Some(last) = flow.frames.back() {
                    frame.deliver_at = frame.deliver_at.max(last.deliver_at);
                }
                flow.frames.push_back(frame);
            }
            None => self.flows.push(Flow { hop, frames: VecDeque::from([frame]) }),
        }
    }

    /// The first frame of a flow, removed.
    pub fn pop(&mut self, flow: usize) -> Option<InFlight> {
        let frame = self.flows[flow].frames.pop_front()?;
        self.in_flight -= 1;
        Some(frame)
    }

    /// Keeps a delivered frame's buffer for another one.
    pub fn recycle(&mut self, frame: InFlight) {
        if self.pool.len() < 64 {
            self.pool.push(frame.bytes);
        }
    }

    /// Loses everything under way.
    pub fn cut(&mut self) {
        self.counters.link_down += self.in_flight as u64;
        self.in_flight = 0;
        self.flows.clear();
        self.paused_until = 0;
    }

    /// When this direction next has something to do by itself, seen at `now`.
    pub fn next_deadline(&self, limits: &LinkLimits) -> Option<u64> {
        let flows = self.flows.iter().filter_map(|f| f.frames.front()).map(|f| f.deliver_at);
        let wire = if limits.rate_mbps.is_some() { self.next_free } else { 0 };
        let waiting = self.backlogged.then_some(wire.max(self.paused_until));
        flows.chain(waiting).min()
    }
}

/// A cable between two ports.
pub(crate) struct Cable {
    pub name: String,
    pub ends: [Plug; 2],
    pub plugged: bool,
    pub state: LinkState,
    pub limits: LinkLimits,
    /// `lanes[0]` carries frames from `ends[0]` to `ends[1]`.
    pub lanes: [Lane; 2],
}

/// Speed and width codes that two profiles agree on: the fastest common generation, and two
/// lanes from gen4 on (which has no single-lane links).
pub(crate) fn negotiate(a: &Profile, b: &Profile) -> (u32, u32) {
    let dual = a.widths & b.widths & 2 != 0;
    let mut common = a.speeds & b.speeds;
    if !dual {
        common &= !2;
    }
    let speed = u32::from(common & common.wrapping_neg());
    (speed, if speed == 2 { 2 } else { 1 })
}

/// Rate in Mb/s of a link with these codes.
pub(crate) fn natural_rate(speed: u32, width: u32) -> u64 {
    let lane = match speed {
        2 => 40_000,
        4 => 20_000,
        _ => 10_000,
    };
    if width == 1 {
        lane
    } else {
        2 * lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlike_profiles_agree() {
        let (amd, tb4, tb5) = (Profile::amd(), Profile::tb4(), Profile::tb5());
        assert_eq!(negotiate(&amd, &tb5), (4, 1));
        assert_eq!(negotiate(&tb4, &amd), (4, 1));
        assert_eq!(negotiate(&tb5, &tb5), (2, 2));
        assert_eq!(natural_rate(2, 2), 80_000);
        assert_eq!(natural_rate(4, 1), 20_000);
    }

    #[test]
    fn rate_holds_over_uneven_polls() {
        let limits = LinkLimits { rate_mbps: Some(400), latency_ns: 0 };
        let (mut lane, mut now, mut sent) = (Lane::default(), 0u64, 0u64);
        let mut gap = 1u64;
        while now < 1_000_000_000 {
            while lane.ready(1, now, &limits) {
                lane.occupy(now, 4096, &limits);
                sent += 4096;
            }
            lane.end_poll(now);
            gap = gap * 7 % 1_000_003;
            now += gap;
        }
        let rate = sent as f64 * 8.0 / 1e6;
        assert!((396.0..404.0).contains(&rate), "{rate} Mb/s instead of 400");
    }
}
