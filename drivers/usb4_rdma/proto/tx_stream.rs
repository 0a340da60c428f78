// SPDX-License-Identifier: GPL-2.0
//! Sending half of a stream: which frames are out, which are acknowledged, which are proven lost.
//!
//! PSNs: `una <= nxt <= max`. [una, nxt) is out and not acknowledged as a whole, [nxt, max) was sent once and
//! waits to be sent again after an RNR wait, max is the next new one.
//!
//! Loss (the idea of RFC 8985, RACK): each transmission has a number, `tx_seq`. The peer tells the latest
//! one that it received. Transmissions are judged once each, in their order, when a later one is known to
//! have arrived: `judged` only moves forward, so the work for each frame is constant.

use super::rtt::Rtt;
use super::seq::{before, before16, within};
use super::window::{Bits, View};
use super::WINDOW;

/// A transmission is lost when one more than this many later has arrived. A queue pair's frames stay on one
/// lane, which keeps its order; the allowance covers the move to another lane.
pub const REORDER: u16 = 4;
/// Transmissions remembered in order; twice the window since each probe takes a number too.
const ORDER: usize = 2 * WINDOW;

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame proven lost.
    Lost(u32),
    /// A frame that waited for the end of an RNR wait.
    Again(u32),
    /// A new frame may be sent (if there is one).
    New(u32),
    /// The window is full.
    Blocked,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// Frames newly acknowledged, cumulatively.
    pub advanced: u32,
    /// Frames are newly held at the peer.
    pub held: bool,
    /// It answered a probe.
    pub answered: bool,
    /// It acknowledged what was never sent, and was ignored.
    pub bad: bool,
}

/// State of the half. All-zero is valid; `start` begins a stream.
pub struct TxStream {
    una: u32,
    nxt: u32,
    max: u32,
    /// Frames that may be unacknowledged, at most `WINDOW`.
    window: u16,
    /// Number of the next transmission.
    tx_seq: u16,
    /// Transmissions before this one have been judged.
    judged: u16,
    /// Latest transmission known to have arrived.
    arrived: u16,
    probe_seq: u16,
    /// A probe is out and unanswered.
    probe_open: bool,
    /// `max` was cut back: acknowledgements beyond it are legitimate.
    cut: bool,
    timed_seq: u16,
    /// When the transmission `timed_seq` went out; 0: none is timed.
    timed_at: u64,
    sacked: Bits,
    lost: Bits,
    /// Number of the last transmission of each PSN.
    seqs: [u16; WINDOW],
    /// Whose frame each PSN is (a slot number of the owner of this stream).
    owner: [u8; WINDOW],
    /// The low bits of the PSN of each transmission.
    order: [u8; ORDER],
}

const fn slot(psn: u32) -> usize {
    psn as usize % WINDOW
}

impl TxStream {
    /// Not started.
    pub const ZERO: TxStream = TxStream {
        una: 0,
        nxt: 0,
        max: 0,
        window: 0,
        tx_seq: 0,
        judged: 0,
        arrived: 0,
        probe_seq: 0,
        probe_open: false,
        cut: false,
        timed_seq: 0,
        timed_at: 0,
        sacked: Bits::ZERO,
        lost: Bits::ZERO,
        seqs: [0; WINDOW],
        owner: [0; WINDOW],
        order: [0; ORDER],
    };

    /// Begins at `psn`. The tables need no clearing: they are read only for what was sent.
    pub fn start(&mut self, psn: u32) {
        self.una = psn;
        self.nxt = psn;
        self.max = psn;
        self.window = WINDOW as u16;
        // 0 stands for "nothing received yet" in ack_tx_seq.
        self.tx_seq = 1;
        self.judged = 1;
        self.arrived = 0;
        self.probe_open = false;
        self.cut = false;
        self.timed_at = 0;
        self.sacked = Bits::ZERO;
        self.lost = Bits::ZERO;
    }

    /// Bounds the frames that may be unacknowledged; `start` makes it `WINDOW`.
    pub fn set_window(&mut self, frames: u16) {
        self.window = if (frames as usize) < WINDOW { frames } else { WINDOW as u16 };
    }

    /// Oldest frame not acknowledged.
    pub const fn una(&self) -> u32 {
        self.una
    }

    /// The next new PSN.
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Frames are out that no acknowledgement covers.
    pub const fn in_flight(&self) -> bool {
        self.una != self.nxt
    }

    /// Frames that were sent and are not acknowledged, those that wait after an RNR included.
    pub const fn outstanding(&self) -> u32 {
        self.max.wrapping_sub(self.una)
    }

    /// A frame waits to be sent again.
    pub fn must_resend(&self) -> bool {
        self.nxt != self.max || !self.lost.is_empty()
    }

    /// Room for a new frame.
    pub const fn has_room(&self) -> bool {
        self.outstanding() < self.window as u32
    }

    /// What to send next; lost frames first.
    pub fn next(&self) -> Next {
        if let Some(psn) = self.lost.first_from(self.una) {
            Next::Lost(psn)
        } else if self.nxt != self.max {
            Next::Again(self.nxt)
        } else if self.has_room() {
            Next::New(self.max)
        } else {
            Next::Blocked
        }
    }

    /// Whose frame `psn` is.
    pub const fn owner_of(&self, psn: u32) -> usize {
        self.owner[slot(psn)] as usize
    }

    /// Should the frame with `psn` ask for an acknowledgement, besides the last of a message? Each 32nd, and
    /// the one that fills the window; all that are sent again.
    pub const fn wants_ack(&self, psn: u32) -> bool {
        psn != self.max
            || psn % 32 == 31
            || psn.wrapping_sub(self.una) + 1 >= self.window as u32
    }

    /// `psn` goes out now, on behalf of `owner`; gives its tx_seq.
    pub fn sent(&mut self, psn: u32, owner: usize, asks: bool, now: u64) -> u16 {
        let seq = self.take_seq(slot(psn) as u8);
        self.seqs[slot(psn)] = seq;
        self.owner[slot(psn)] = owner as u8;
        self.lost.clear(psn);
        if psn == self.nxt {
            self.nxt = psn.wrapping_add(1);
        }
        if before(self.max, self.nxt) {
            self.max = self.nxt;
        }
        if asks && self.timed_at == 0 {
            self.timed_seq = seq;
            self.timed_at = now.max(1);
        }
        seq
    }

    /// A probe goes out now; gives its tx_seq. One that is repeated with nothing sent in between has the same
    /// number: its answer proves the same, and a silent peer does not use the numbers up.
    pub fn probe(&mut self) -> u16 {
        if !(self.probe_open && self.probe_seq.wrapping_add(1) == self.tx_seq) {
            // The slot of the oldest frame, whose own transmission has another number: judged as nothing.
            self.probe_seq = self.take_seq(slot(self.una) as u8);
            self.probe_open = true;
        }
        self.probe_seq
    }

    fn take_seq(&mut self, slot: u8) -> u16 {
        let seq = self.tx_seq;
        self.order[seq as usize % ORDER] = slot;
        self.tx_seq = seq.wrapping_add(1);
        // Overwritten before it was judged: a probe's answer judges all there is.
        if self.tx_seq.wrapping_sub(self.judged) as usize > ORDER {
            self.judged = self.tx_seq.wrapping_sub(ORDER as u16);
        }
        seq
    }

    /// Every PSN before `ack` is placed.
    pub fn advance(&mut self, ack: u32) -> Acked {
        let mut n = ack.wrapping_sub(self.una);
        if n > self.outstanding() {
            if before(ack, self.una) {
                return Acked::default();
            }
            if !self.cut {
                return Acked { bad: true, ..Acked::default() };
            }
            n = self.outstanding();
        }
        if n != 0 {
            if !self.sacked.is_empty() || !self.lost.is_empty() {
                let gone = Bits::range(self.una, n);
                self.sacked = self.sacked.without(&gone);
                self.lost = self.lost.without(&gone);
            }
            self.una = self.una.wrapping_add(n);
            if before(self.nxt, self.una) {
                self.nxt = self.una;
            }
        }
        Acked { advanced: n, ..Acked::default() }
    }

    /// An acknowledgement: `ack` as in `advance`, `arrived` the latest tx_seq received, `held` a view on
    /// `ack + 1` of what is held. `whole`: it came in a frame of its own, so that it may answer a probe.
    pub fn on_ack(&mut self, ack: u32, arrived: u16, held: &View, whole: bool, now: u64, rtt: &mut Rtt) -> Acked {
        let mut acked = self.advance(ack);
        if acked.bad || ack != self.una || !before16(arrived, self.tx_seq) || before16(arrived, self.arrived) {
            // Old, or of frames never sent: proves nothing.
            return acked;
        }
        self.arrived = arrived;
        if self.timed_at != 0 && !before16(arrived, self.timed_seq) {
            rtt.sample(now.saturating_sub(self.timed_at));
            self.timed_at = 0;
        }
        let bits = Bits::from_view(ack.wrapping_add(1), held);
        if *held != [0; 4] {
            acked.held = self.take_held(arrived, &bits);
        }
        if whole && !self.sacked.is_empty() {
            self.take_back(arrived, &bits);
        }
        if whole && self.probe_open && !before16(arrived, self.probe_seq) {
            self.probe_open = false;
            self.judge_all();
            acked.answered = true;
        }
        self.judge(arrived);
        acked
    }

    fn in_flight_bits(&self) -> Bits {
        Bits::range(self.una, self.nxt.wrapping_sub(self.una))
    }

    /// Marks what the peer holds. A bit counts only if the frame's last transmission can have been seen:
    /// else it may speak of a frame that the peer has dropped since (RNR).
    fn take_held(&mut self, arrived: u16, bits: &Bits) -> bool {
        let mut fresh = bits.and(&self.in_flight_bits()).without(&self.sacked);
        let mut any = false;
        while let Some(psn) = fresh.first_from(self.una) {
            fresh.clear(psn);
            if !before16(arrived, self.seqs[slot(psn)]) {
                self.sacked.set(psn);
                self.lost.clear(psn);
                any = true;
            }
        }
        any
    }

    /// What was held and is no longer was dropped: the peer had no receive entry, and its RNR NAK was lost.
    /// Nothing else would tell, for the frame is not among those that are judged.
    fn take_back(&mut self, arrived: u16, bits: &Bits) {
        let mut gone = self.sacked.without(bits);
        while let Some(psn) = gone.first_from(self.una) {
            gone.clear(psn);
            if !before16(arrived, self.seqs[slot(psn)]) {
                self.sacked.clear(psn);
                self.lost.set(psn);
            }
        }
    }

    /// Judges the transmissions that the arrival of `arrived` is evidence about.
    fn judge(&mut self, arrived: u16) {
        while before16(self.judged.wrapping_add(REORDER), arrived) {
            let s = self.order[self.judged as usize % ORDER];
            let psn = self.una.wrapping_add(u32::from(s.wrapping_sub(self.una as u8)));
            let current = self.seqs[slot(psn)] == self.judged;
            if current && within(psn, self.una, self.nxt) && !self.sacked.get(psn) {
                self.lost.set(psn);
            }
            self.judged = self.judged.wrapping_add(1);
        }
    }

    /// A probe was answered: what went out before it and is neither acknowledged nor held is lost. Rare, so it
    /// may look at the whole window.
    fn judge_all(&mut self) {
        let mut psn = self.una;
        while psn != self.nxt {
            if !self.sacked.get(psn) && before16(self.seqs[slot(psn)], self.probe_seq) {
                self.lost.set(psn);
            }
            psn = psn.wrapping_add(1);
        }
        if before16(self.judged, self.probe_seq) {
            self.judged = self.probe_seq;
        }
    }

    /// The peer refused transmission `seq` of `psn` for want of a receive entry and drops all from there on:
    /// send from `psn` on again. False: an old refusal.
    pub fn rewind(&mut self, psn: u32, seq: u16) -> bool {
        if !within(psn, self.una, self.nxt) || self.seqs[slot(psn)] != seq {
            return false;
        }
        self.nxt = psn;
        self.sacked = Bits::ZERO;
        self.lost = Bits::ZERO;
        self.judged = self.tx_seq;
        self.probe_open = false;
        self.timed_at = 0;
        true
    }

    /// Nothing from `psn` on is to be sent any more (a response that cannot be read).
    pub fn cut(&mut self, psn: u32) {
        let keep = if before(psn, self.una) { self.una } else { psn };
        if before(keep, self.max) {
            self.max = keep;
            if before(self.max, self.nxt) {
                self.nxt = self.max;
            }
            let live = Bits::range(self.una, self.max.wrapping_sub(self.una));
            self.lost = self.lost.and(&live);
            self.sacked = self.sacked.and(&live);
        }
        self.cut = true;
    }

    /// Forgets that `psn` is lost: it cannot be built any more.
    pub fn give_up(&mut self, psn: u32) {
        self.lost.clear(psn);
    }
}
