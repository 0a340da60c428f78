// SPDX-License-Identifier: GPL-2.0
//! What a seed decides before a run begins: size, cable, adversary.

use super::rng::Rng;
use crate::proto::env::SendOp;

/// What the cable does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is lost, delayed or stopped: there must be no retransmission at all.
    Faultless,
    /// Anything.
    Hostile,
}

/// Rates in parts per million of the frames; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Config {
    pub seed: u64,
    pub mode: Mode,
    pub pairs: usize,
    pub generations: usize,
    pub messages: usize,
    /// One direction sends more frames than a tx_seq can count.
    pub long: bool,
    /// Not a random programme: host 0 posts so many messages of this kind and length at once.
    pub programme: Option<(SendOp, u32, usize)>,
    /// Of host 0's DATA frames, counted from 0, this one is lost.
    pub lose: Option<u64>,
    /// Frames sent on each lane before the run.
    pub first_seq: u32,
    pub lanes: usize,
    pub ring: u32,
    /// Frames that fit in a TX ring.
    pub tx_ring: u32,
    pub latency: u64,
    pub ns_per_frame: u64,
    pub ack_delay: u64,
    /// Each frame takes a random lane, so that a queue pair's frames overtake each other.
    pub spray: bool,
    /// The adversary works until then.
    pub adversary_until: u64,
    pub drop: u32,
    pub duplicate: u32,
    pub delay: u32,
    pub corrupt: u32,
    /// Frames whose payload the NHI reports as damaged.
    pub flag: u32,
    /// Frames that arrive without an interrupt and lie until the supplemental poll.
    pub strand: u32,
    /// Receive batches before which a host is stopped for a while.
    pub pause: u32,
    /// Batches at which buffers vanish for a while.
    pub starve: u32,
    /// Nothing at all gets through in this time.
    pub blackout: (u64, u64),
    /// Hosts that lose their power, and when.
    pub restarts: Vec<(usize, u64)>,
}

/// Period of the supplemental poll.
pub const POLL_NS: u64 = 1_000_000;
/// One seed in so many is a long one.
const LONG_EVERY: u64 = 2000;
/// One in so many has more messages than there are slots in flight.
const MANY_EVERY: u64 = 100;
/// Longest stop of a host.
pub const PAUSE_MAX_NS: u64 = 40_000_000;

impl Config {
    /// One run in ten is without an adversary.
    pub fn of_seed(seed: u64) -> Config {
        let mode = if seed % 10 == 0 { Mode::Faultless } else { Mode::Hostile };
        Config::new(seed, mode)
    }

    pub fn new(seed: u64, mode: Mode) -> Config {
        let rng = &mut Rng::new(seed);
        let mut c = Config {
            seed,
            mode,
            pairs: *rng.pick(&[1, 1, 2, 2, 3, 5]),
            generations: *rng.pick(&[1, 1, 2, 3]),
            messages: *rng.pick(&[1, 3, 3, 6, 6, 12, 12, 12, 12, 24, 24, 24, 40]),
            long: false,
            programme: None,
            lose: None,
            first_seq: if rng.percent(30) { 0u32.wrapping_sub(rng.below(2000) as u32) } else { 0 },
            lanes: rng.range(1, 4) as usize,
            ring: *rng.pick(&[16, 32, 64, 256, 1024]),
            tx_ring: *rng.pick(&[4, 16, 64, 256]),
            latency: *rng.pick(&[500, 5_000, 100_000]),
            ns_per_frame: *rng.pick(&[400, 1_600, 30_000]),
            ack_delay: *rng.pick(&[0, 0, 20_000, 200_000]),
            spray: false,
            adversary_until: 0,
            drop: 0,
            duplicate: 0,
            delay: 0,
            corrupt: 0,
            flag: 0,
            strand: 0,
            pause: 0,
            starve: 0,
            blackout: (0, 0),
            restarts: Vec::new(),
        };
        if mode == Mode::Hostile {
            c.adversary_until = rng.range(1, 300) * 1_000_000;
            c.spray = rng.percent(15);
            if rng.percent(30) {
                let from = rng.below(c.adversary_until);
                c.blackout = (from, from + rng.below(500_000_000));
            }
            if rng.percent(15) {
                let n = rng.range(1, 3);
                c.restarts = (0..n).map(|_| (rng.below(2) as usize, rng.below(c.adversary_until))).collect();
            }
            // Few of them are at work in one run, each weakly or strongly.
            let rates = [
                &mut c.drop,
                &mut c.duplicate,
                &mut c.delay,
                &mut c.corrupt,
                &mut c.flag,
                &mut c.strand,
                &mut c.pause,
                &mut c.starve,
            ];
            for rate in rates {
                if rng.percent(50) {
                    *rate = *rng.pick(&[100, 3_000, 20_000, 150_000]);
                }
            }
        }
        if seed % MANY_EVERY == 50 {
            (c.messages, c.pairs) = (300, 1);
        }
        if seed % LONG_EVERY == LONG_EVERY - 1 {
            c.make_long();
        }
        c
    }

    /// One queue pair on one lane with a full ring, and this programme.
    pub fn of_programme(op: SendOp, len: u32, count: usize) -> Config {
        let c = Config::new(0, Mode::Faultless);
        Config {
            mode: Mode::Hostile,
            pairs: 1,
            generations: 1,
            messages: count,
            programme: Some((op, len, count)),
            lanes: 1,
            // The driver's default.
            ring: 256,
            tx_ring: 256,
            latency: 5_000,
            ns_per_frame: 1_600,
            ack_delay: 0,
            first_seq: 0,
            adversary_until: 5_000_000_000,
            ..c
        }
    }

    /// The programme is drawn from the seed without restraint.
    pub fn is_random(&self) -> bool {
        !self.long && self.programme.is_none()
    }

    fn make_long(&mut self) {
        self.long = true;
        self.pairs = 1;
        self.generations = 1;
        self.messages = 36_000;
        self.restarts.clear();
        // The adversary shall still be there when the numbers wrap.
        self.adversary_until = 3_000_000_000;
        self.drop = self.drop.max(100);
        self.ns_per_frame = self.ns_per_frame.min(1_600);
    }
}
