// SPDX-License-Identifier: GPL-2.0
//! What a queue pair does with a received frame.

use super::env::{Env, FrameBuf};
use super::qp::Qp;
use super::qp_state::{QpKind, QpState};
use super::responder::{Phase, Placed, Refusal};
use super::rx_stream::Place;
use super::status::{Nak, QpEvent, WcStatus};
use super::timers::{rnr_wait_ns, RSP_SILENT_PROBES};
use super::window::{view_from_bytes, View};
use super::wire::{flag, syndrome, Header, Kind};

/// `rnr_retry` that means for ever.
const RNR_FOR_EVER: u8 = 7;
/// UC: a PSN this far ahead is no gap but an old frame or nonsense.
const UC_MAX_GAP: u32 = 1 << 16;

impl<B: FrameBuf> Qp<B> {
    /// Takes a DATA or ACK frame for this queue pair: places, holds or drops it. Acknowledgements are only
    /// marked; `poll_tx` at the end of the batch sends them.
    pub fn on_frame<E: Env>(&mut self, frame: B, now: u64, env: &mut E) {
        let h = *frame.header();
        if matches!(self.state, QpState::Reset | QpState::Init) {
            self.counters.rx_not_ready += 1;
            return;
        }
        if h.src_tag != self.dest_qpn as u16 {
            self.counters.rx_wrong_sender += 1;
            return;
        }
        if self.state == QpState::Err {
            self.frame_in_err(&h);
            return;
        }
        if self.state == QpState::Rtr && !self.established {
            self.established = true;
            env.event(QpEvent::CommEst);
        }
        match (h.kind, self.kind) {
            (Kind::Data, QpKind::Rc) => self.rc_data(h, frame, now, env),
            (Kind::Data, QpKind::Uc) => self.uc_data(&h, &frame, env),
            (Kind::Ack, QpKind::Rc) => self.rc_ack(&h, &frame, now, env),
            _ => self.counters.rx_violation += 1,
        }
        self.settle(env);
    }

    /// A refused stream answers whatever comes with its refusal, so that a lost one costs nothing.
    fn frame_in_err(&mut self, h: &Header) {
        let asks = h.kind == Kind::Data || h.opcode == syndrome::PROBE;
        if self.rsp.phase == Phase::Refused && asks && !h.has(flag::RSP) {
            self.counters.rx_refused_dropped += 1;
            self.rsp.nak_due = true;
        } else {
            self.counters.rx_not_ready += 1;
        }
    }

    fn rc_data<E: Env>(&mut self, h: Header, frame: B, now: u64, env: &mut E) {
        self.peer_lives(now);
        if h.has(flag::ACK_VALID) {
            self.take_ack(&h, &[0; 4], false, now);
        }
        let rsp = h.has(flag::RSP);
        if rsp && self.state != QpState::Rts {
            self.counters.rx_violation += 1;
            return;
        }
        let rx = if rsp { &mut self.req.rx } else { &mut self.rsp.rx };
        let place = rx.classify(h.psn);
        if place == Place::Outside {
            self.counters.rx_out_of_window += 1;
            return;
        }
        rx.saw(h.tx_seq);
        if !rsp && matches!(self.rsp.phase, Phase::Refusing | Phase::Refused) {
            self.counters.rx_refused_dropped += 1;
            return;
        }
        if h.has(flag::ACK_REQ) {
            let wait = self.ride.wait(self.tuning.ack_delay_ns);
            rx.owe(now.saturating_add(wait));
        }
        match place {
            Place::Next if rsp => self.place_responses(h, frame, now, env),
            Place::Next => self.place_requests(h, frame, now, env),
            Place::Early => self.early(h, frame, now),
            Place::Duplicate | Place::Outside => {
                self.counters.rx_duplicate += 1;
                rx.owe(now);
            }
        }
    }

    /// Holds an early frame, within the bounds.
    fn early(&mut self, h: Header, mut frame: B, now: u64) {
        let held = self.req.rx.held_count() + self.rsp.rx.held_count();
        let rsp = h.has(flag::RSP);
        if !rsp && self.rsp.phase == Phase::NotReady {
            self.counters.rx_rnr_dropped += 1;
            return;
        }
        let rx = if rsp { &mut self.req.rx } else { &mut self.rsp.rx };
        rx.owe(now);
        if held < self.tuning.max_held && frame.try_hold() {
            self.counters.rx_held += 1;
            rx.hold(h.psn, frame);
        } else {
            self.counters.rx_hold_dropped += 1;
        }
    }

    fn place_requests<E: Env>(&mut self, mut h: Header, mut frame: B, now: u64, env: &mut E) {
        loop {
            match self.rsp.place(&h, frame.payload(), QpKind::Rc, env) {
                Placed::Done => {
                    self.rsp.phase = Phase::Open;
                    self.rsp.rx.advance();
                    self.counters.rx_data += 1;
                    self.counters.rx_bytes += u64::from(h.payload_len);
                }
                Placed::NotReady => {
                    self.counters.rx_rnr_dropped += 1;
                    self.rsp.not_ready(h.tx_seq);
                    return;
                }
                Placed::Refused(nak, event) => {
                    if nak == Nak::RemInvReq && event.is_some() {
                        self.counters.rx_violation += 1;
                    }
                    self.rsp.refuse(Refusal { syndrome: nak as u8, psn: h.psn, msn: h.msn, event });
                    return;
                }
                Placed::Failed => {
                    let syndrome = Nak::RemOp as u8;
                    self.rsp.refuse(Refusal { syndrome, psn: h.psn, msn: h.msn, event: None });
                    return;
                }
            }
            match self.rsp.rx.take_next() {
                Some(f) => frame = f,
                None => break,
            }
            h = *frame.header();
        }
        self.rsp.rx.owe_by_count(now);
    }

    fn place_responses<E: Env>(&mut self, mut h: Header, mut frame: B, now: u64, env: &mut E) {
        loop {
            if !self.req.place(&h, frame.payload(), env) {
                self.counters.rx_violation += 1;
                return;
            }
            self.req.rx.advance();
            self.counters.rx_data += 1;
            self.counters.rx_bytes += u64::from(h.payload_len);
            match self.req.rx.take_next() {
                Some(f) => frame = f,
                None => break,
            }
            h = *frame.header();
        }
        self.req.news(now, true);
        self.req.rx.owe_by_count(now);
    }

    fn rc_ack<E: Env>(&mut self, h: &Header, frame: &B, now: u64, env: &mut E) {
        self.peer_lives(now);
        if h.opcode == syndrome::PROBE {
            self.probed(h, now);
            return;
        }
        self.counters.rx_ack += 1;
        if h.opcode == syndrome::OK {
            self.take_ack(h, &view_from_bytes(frame.payload()), true, now);
            return;
        }
        if h.has(flag::ACK_RSP) || self.state != QpState::Rts {
            self.counters.rx_violation += 1;
            return;
        }
        let acked = self.req.tx.advance(h.ack);
        if acked.advanced != 0 {
            self.req.news(now, true);
        }
        let good = match Nak::from_syndrome(h.opcode) {
            Some(nak) => {
                self.counters.rx_nak += 1;
                self.req.refused(h.msn, h.psn, nak.status(), env)
            }
            None => self.take_rnr(h, now),
        };
        if !good {
            self.counters.rx_bad_ack += 1;
        }
    }

    /// The peer has no receive entry for `psn`: wait, then send again from there. False: an old RNR NAK.
    fn take_rnr(&mut self, h: &Header, now: u64) -> bool {
        if !self.req.tx.rewind(h.psn, h.ack_tx_seq) {
            return false;
        }
        self.counters.rx_rnr += 1;
        let tries = self.req.rnr_tries;
        self.req.news(now, false);
        self.req.progress_at = now;
        if self.rnr_retry != RNR_FOR_EVER && tries >= self.rnr_retry {
            self.counters.rnr_exceeded += 1;
            self.req.rnr_spent = true;
            let slot = self.req.tx.owner_of(h.psn);
            self.req.fail(slot, WcStatus::RnrRetryExcErr);
        } else {
            self.req.rnr_tries = tries.saturating_add(1);
            self.req.rnr_until = now.saturating_add(rnr_wait_ns(h.imm)).max(1);
        }
        true
    }

    /// The peer asks where we stand.
    fn probed(&mut self, h: &Header, now: u64) {
        self.counters.rx_probe += 1;
        if h.has(flag::ACK_VALID) {
            self.take_ack(h, &[0; 4], false, now);
        }
        let rx = if h.has(flag::RSP) { &self.req.rx } else { &self.rsp.rx };
        if !rx.is_near(h.psn) {
            // Of an earlier life of these two queue pairs: its tx_seq would stand for transmissions to come.
            self.counters.rx_out_of_window += 1;
            return;
        }
        if h.has(flag::RSP) {
            if self.state == QpState::Rts {
                self.req.rx.saw(h.tx_seq);
                self.req.rx.owe(now);
            }
        } else if self.rsp.phase != Phase::Refusing {
            self.rsp.rx.saw(h.tx_seq);
            self.rsp.rx.owe(now);
        }
    }

    /// An acknowledgement, in a frame of its own (`whole`, with the bitmap) or riding on data.
    fn take_ack(&mut self, h: &Header, held: &View, whole: bool, now: u64) {
        let acked = if h.has(flag::ACK_RSP) {
            let tx = &mut self.rsp.answers.tx;
            let acked = tx.on_ack(h.ack, h.ack_tx_seq, held, whole, now, &mut self.rtt);
            if acked.advanced != 0 {
                self.rsp.answers.on_acked();
            }
            if acked.advanced != 0 || acked.held || acked.answered {
                self.rsp.answers.news(now);
            }
            acked
        } else if self.state == QpState::Rts {
            let tx = &mut self.req.tx;
            let acked = tx.on_ack(h.ack, h.ack_tx_seq, held, whole, now, &mut self.rtt);
            let moved = acked.advanced != 0 || acked.held;
            if moved || acked.answered {
                // A responder that answers while nothing but its response is missing is at work on it.
                self.req.news(now, moved || !self.req.tx.in_flight());
            }
            acked
        } else {
            return;
        };
        if acked.bad {
            self.counters.rx_bad_ack += 1;
        }
    }

    /// A responder that had stopped to ask for its acknowledgement asks again.
    fn peer_lives(&mut self, now: u64) {
        if self.rsp.answers.backoff > RSP_SILENT_PROBES {
            self.rsp.answers.backoff = 0;
            self.rsp.answers.quiet_since = now;
        }
    }

    fn uc_data<E: Env>(&mut self, h: &Header, frame: &B, env: &mut E) {
        let ahead = h.psn.wrapping_sub(self.rsp.rx.next());
        if ahead >= UC_MAX_GAP {
            self.counters.rx_out_of_window += 1;
            return;
        }
        if ahead != 0 && self.rsp.in_message() {
            self.counters.uc_gaps += 1;
            self.rsp.end_message();
        }
        self.rsp.rx.skip_to(h.psn.wrapping_add(1));
        if h.msg_off == 0 {
            if self.rsp.in_message() {
                self.counters.rx_violation += 1;
                self.rsp.end_message();
            }
        } else if !self.rsp.in_message() {
            // The rest of a message that was given up.
            return;
        }
        match self.rsp.place(h, frame.payload(), QpKind::Uc, env) {
            Placed::Done => {
                self.counters.rx_data += 1;
                self.counters.rx_bytes += u64::from(h.payload_len);
            }
            Placed::Failed => self.go_err(None, env),
            Placed::NotReady | Placed::Refused(..) => {
                self.counters.uc_dropped += 1;
                self.rsp.end_message();
            }
        }
    }
}
