// SPDX-License-Identifier: GPL-2.0
//! Does it pay to keep an acknowledgement back until data can carry it?
//!
//! It does when two programs answer each other (half the frames of a ping-pong), and it is harm when one of
//! them waits for its completion before it goes on. Nobody says which; so each queue pair looks: data that
//! leaves shortly after an acknowledgement went alone could have carried it.

/// Waits are on from this score on.
const ON: u8 = 4;
const MAX: u8 = 8;

/// What a queue pair has seen. All-zero is the beginning: no waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ride {
    score: u8,
    /// When an acknowledgement last went alone and no data since; 0: not.
    alone_at: u64,
}

impl Ride {
    /// Nothing seen.
    pub const ZERO: Ride = Ride { score: 0, alone_at: 0 };

    /// How long an acknowledgement that was asked for may wait, if at most `max`.
    pub const fn wait(&self, max: u64) -> u64 {
        if self.score >= ON {
            max
        } else {
            0
        }
    }

    /// An acknowledgement goes alone at `now`. While waiting is on, it has waited in vain.
    pub fn alone(&mut self, now: u64) {
        if self.score >= ON {
            self.score -= ON;
        } else if self.alone_at != 0 {
            self.score = self.score.saturating_sub(1);
        }
        self.alone_at = now.max(1);
    }

    /// Data goes at `now`; a wait of `max` would have been long enough or not.
    pub fn data(&mut self, now: u64, max: u64) {
        if self.score >= ON {
            self.score = (self.score + 1).min(MAX);
        } else if self.alone_at != 0 && now.saturating_sub(self.alone_at) <= max {
            self.score += 1;
        }
        self.alone_at = 0;
    }
}
