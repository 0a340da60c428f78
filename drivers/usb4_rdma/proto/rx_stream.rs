// SPDX-License-Identifier: GPL-2.0
//! Receiving half of a stream: what is placed, what is held early, what acknowledgement is owed.

use super::env::FrameBuf;
use super::seq::{before, before16};
use super::window::{view_to_bytes, Bits};
use super::WINDOW;

/// Frames placed before an acknowledgement is owed that nobody asked for.
const ACK_EVERY: u16 = 32;

/// Where a frame stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The next one.
    Next,
    /// Within the window, not the next.
    Early,
    /// Placed or held before.
    Duplicate,
    /// Beyond the window, or more than a window behind: no sender that is still at work sends that, so it is of
    /// an earlier life of the two queue pairs or nonsense, and its tx_seq proves nothing.
    Outside,
}

/// State of the half. All-zero is valid if `Option<B>` is None when zero; `start` begins a stream.
pub struct RxStream<B> {
    next: u32,
    /// Latest tx_seq received.
    latest: u16,
    /// What `latest` was when nothing was held: with it an acknowledgement needs no bitmap.
    settled: u16,
    held_count: u16,
    /// Frames placed since the last acknowledgement.
    placed: u16,
    /// An acknowledgement is owed at `ack_at`.
    owed: bool,
    ack_at: u64,
    bits: Bits,
    held: [Option<B>; WINDOW],
}

impl<B: FrameBuf> RxStream<B> {
    const NONE: Option<B> = None;
    /// Not started.
    pub const ZERO: Self = RxStream {
        next: 0,
        latest: 0,
        settled: 0,
        held_count: 0,
        placed: 0,
        owed: false,
        ack_at: 0,
        bits: Bits::ZERO,
        held: [Self::NONE; WINDOW],
    };

    /// Begins at `psn`, holding nothing.
    pub fn start(&mut self, psn: u32) {
        self.drop_held();
        self.next = psn;
        self.latest = 0;
        self.settled = 0;
        self.placed = 0;
        self.owed = false;
    }

    /// The next PSN to place.
    pub const fn next(&self) -> u32 {
        self.next
    }

    /// Frames held.
    pub const fn held_count(&self) -> u16 {
        self.held_count
    }

    /// Where `psn` stands.
    pub const fn classify(&self, psn: u32) -> Place {
        let ahead = psn.wrapping_sub(self.next);
        if ahead == 0 {
            Place::Next
        } else if !self.is_near(psn) {
            Place::Outside
        } else if before(psn, self.next) {
            Place::Duplicate
        } else if ahead >= WINDOW as u32 {
            Place::Outside
        } else if self.bits.get(psn) {
            Place::Duplicate
        } else {
            Place::Early
        }
    }

    /// Can `psn` be where the sender of this stream stands? At most a window from where this half stands.
    pub const fn is_near(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.next).wrapping_add(WINDOW as u32) <= 2 * WINDOW as u32
    }

    /// A frame or probe with this tx_seq arrived.
    pub fn saw(&mut self, tx_seq: u16) {
        if before16(self.latest, tx_seq) {
            self.latest = tx_seq;
        }
    }

    /// The frame `next` is placed.
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.placed = self.placed.saturating_add(1);
        if self.held_count == 0 {
            self.settled = self.latest;
        }
    }

    /// UC: what lies before `psn` does not come any more.
    pub fn skip_to(&mut self, psn: u32) {
        self.next = psn;
    }

    /// Keeps an early frame.
    pub fn hold(&mut self, psn: u32, frame: B) {
        self.bits.set(psn);
        if self.held[psn as usize % WINDOW].replace(frame).is_none() {
            self.held_count += 1;
        }
    }

    /// The held frame that is next by now.
    pub fn take_next(&mut self) -> Option<B> {
        if self.held_count == 0 || !self.bits.get(self.next) {
            return None;
        }
        self.bits.clear(self.next);
        self.held_count -= 1;
        self.held[self.next as usize % WINDOW].take()
    }

    /// Drops what is held.
    pub fn drop_held(&mut self) {
        while let Some(psn) = self.bits.first_from(self.next) {
            self.bits.clear(psn);
            self.held[psn as usize % WINDOW] = None;
        }
        self.held_count = 0;
    }

    /// An acknowledgement is owed at `at` (or earlier, if one was).
    pub fn owe(&mut self, at: u64) {
        if !self.owed || at < self.ack_at {
            self.owed = true;
            self.ack_at = at;
        }
    }

    /// Owes one if many frames came that did not ask.
    pub fn owe_by_count(&mut self, now: u64) {
        if self.placed >= ACK_EVERY {
            self.owe(now);
        }
    }

    /// An acknowledgement is owed, now or later.
    pub const fn is_owed(&self) -> bool {
        self.owed
    }

    /// An acknowledgement is due at `now`.
    pub const fn is_due(&self, now: u64) -> bool {
        self.owed && self.ack_at <= now
    }

    /// One is due that needs a frame of its own, because it has a bitmap.
    pub const fn is_due_alone(&self, now: u64) -> bool {
        self.is_due(now) && self.held_count != 0
    }

    /// When one is due; None: none is owed.
    pub const fn due_at(&self) -> Option<u64> {
        if self.owed {
            Some(self.ack_at)
        } else {
            None
        }
    }

    /// Forgets what is owed.
    pub fn forgive(&mut self) {
        self.owed = false;
        self.placed = 0;
    }

    /// `ack` and `ack_tx_seq` for a DATA frame, which has no bitmap. With frames held, the acknowledgement
    /// is as old as the last time when nothing was, and one with a bitmap stays owed.
    pub fn ride(&mut self) -> (u32, u16) {
        if self.held_count == 0 {
            self.forgive();
            (self.next, self.latest)
        } else {
            (self.next, self.settled)
        }
    }

    /// `ack`, `ack_tx_seq` and the bitmap (its length is given) for an ACK frame.
    pub fn whole(&mut self, bitmap: &mut [u8; WINDOW / 8]) -> (u32, u16, usize) {
        self.forgive();
        let len = if self.held_count == 0 {
            0
        } else {
            view_to_bytes(&self.bits.view(self.next.wrapping_add(1)), bitmap)
        };
        (self.next, self.latest, len)
    }

    /// Latest tx_seq received.
    pub const fn latest(&self) -> u16 {
        self.latest
    }
}
