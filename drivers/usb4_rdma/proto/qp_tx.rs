// SPDX-License-Identifier: GPL-2.0
//! What a queue pair sends next.

use super::env::{Env, FrameBuf};
use super::qp::{Qp, Room, Wants};
use super::qp_state::{QpKind, QpState};
use super::responder::Phase;
use super::wire::{flag, op, syndrome, Header, Kind};
use super::{FRAME_BYTES, HEADER_BYTES, WINDOW};

/// Which stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Req,
    Rsp,
}

impl<B: FrameBuf> Qp<B> {
    /// Builds the next frame into `out` (at least 4096 bytes) and gives its length; None: nothing to send
    /// now. `lane_seq`, `lane_limit` and the CRC are still missing: `wire::finish`.
    pub fn poll_tx<E: Env>(&mut self, now: u64, env: &mut E, room: Room, out: &mut [u8]) -> Option<usize> {
        if out.len() < FRAME_BYTES {
            return None;
        }
        match self.state {
            QpState::Reset | QpState::Init => return None,
            QpState::Err => return self.poll_in_err(env, out),
            QpState::Rtr | QpState::Rts => {}
        }
        if let Some(len) = self.urgent(now, out) {
            return Some(len);
        }
        if room == Room::Data {
            if let Some(h) = self.data(now, env, out) {
                return Some(self.encode(h, now, out));
            }
            if self.state == QpState::Err {
                return self.poll_in_err(env, out);
            }
        }
        self.plain_ack(now, out)
    }

    /// What `poll_tx` would give now.
    pub fn wants_tx(&self, now: u64) -> Wants {
        match self.state {
            QpState::Reset | QpState::Init => Wants::default(),
            QpState::Err => Wants { control: self.rsp.nak_due, data: self.req.sq_ready },
            QpState::Rtr | QpState::Rts => Wants {
                control: self.rsp.nak_due
                    || self.req.probe_due
                    || self.rsp.answers.probe_due
                    || self.req.rx.is_due(now)
                    || self.rsp.rx.is_due(now),
                data: self.rsp.answers.has_work() || (self.state == QpState::Rts && self.req.has_work()),
            },
        }
    }

    fn poll_in_err<E: Env>(&mut self, env: &mut E, out: &mut [u8]) -> Option<usize> {
        if self.req.sq_ready {
            self.req.flush(env);
        }
        if self.rsp.nak_due {
            return Some(self.nak(out));
        }
        None
    }

    /// Control frames that go before data: nothing could carry them.
    fn urgent(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        if self.rsp.nak_due {
            return Some(self.nak(out));
        }
        if self.req.rx.is_due_alone(now) {
            return Some(self.ack(Channel::Rsp, out));
        }
        if self.rsp.rx.is_due_alone(now) {
            return Some(self.ack(Channel::Req, out));
        }
        if self.req.probe_due {
            self.req.probe_due = false;
            self.req.quiet_since = now;
            self.req.backoff = self.req.backoff.saturating_add(1);
            let seq = self.req.tx.probe();
            return Some(self.probe(0, self.req.tx.max(), seq, out));
        }
        if self.rsp.answers.probe_due {
            self.rsp.answers.probe_due = false;
            self.rsp.answers.quiet_since = now;
            self.rsp.answers.backoff = self.rsp.answers.backoff.saturating_add(1);
            let seq = self.rsp.answers.tx.probe();
            return Some(self.probe(flag::RSP, self.rsp.answers.tx.max(), seq, out));
        }
        None
    }

    /// An acknowledgement that found no data to ride on.
    fn plain_ack(&mut self, now: u64, out: &mut [u8]) -> Option<usize> {
        let of = if self.req.rx.is_due(now) {
            Channel::Rsp
        } else if self.rsp.rx.is_due(now) {
            Channel::Req
        } else {
            return None;
        };
        self.ride.alone(now);
        Some(self.ack(of, out))
    }

    /// The next DATA frame; both streams in turn, so that neither starves the other.
    fn data<E: Env>(&mut self, now: u64, env: &mut E, out: &mut [u8]) -> Option<Header> {
        for _ in 0..2 {
            let rsp = self.rsp_turn;
            self.rsp_turn = !rsp;
            let h = if rsp {
                self.rsp.build(now, env, out, &mut self.counters)
            } else if self.state == QpState::Rts {
                self.req.build(self.kind, now, env, out, &mut self.counters)
            } else {
                None
            };
            if self.kind == QpKind::Uc && h.is_some() {
                self.req.uc_sent();
            }
            // Local operations, UC, failures while building.
            self.settle(env);
            if h.is_some() || !self.is_active() {
                return h;
            }
        }
        None
    }

    /// Adds to a DATA frame what is the queue pair's, and writes it.
    fn encode(&mut self, mut h: Header, now: u64, out: &mut [u8]) -> usize {
        if self.kind == QpKind::Rc {
            self.ride.data(now, self.tuning.ack_delay_ns);
            self.ride(&mut h);
        }
        self.write(h, out)
    }

    fn write(&self, mut h: Header, out: &mut [u8]) -> usize {
        h.dst_qpn = self.dest_qpn;
        h.src_tag = self.qpn as u16;
        h.encode(out);
        HEADER_BYTES + h.payload_len as usize
    }

    /// An acknowledgement rides on each DATA frame. Requests that will be answered always carry that of the
    /// responses: it is what tells the responder that it may forget the answers before (wire.md, section 4).
    fn ride(&mut self, h: &mut Header) {
        let wants_answer = matches!(h.opcode, op::READ_REQ | op::CMP_SWAP | op::FETCH_ADD);
        let (ack, seq) = if wants_answer || self.req.rx.is_owed() {
            h.flags |= flag::ACK_RSP;
            self.req.rx.ride()
        } else if matches!(self.rsp.phase, Phase::Refusing | Phase::Refused) {
            // It would be taken for a sign that the refused frame was lost.
            return;
        } else {
            self.rsp.rx.ride()
        };
        h.flags |= flag::ACK_VALID;
        h.ack = ack;
        h.ack_tx_seq = seq;
    }

    fn ack(&mut self, of: Channel, out: &mut [u8]) -> usize {
        self.counters.tx_ack += 1;
        let mut bitmap = [0u8; WINDOW / 8];
        let (rx, flags) = match of {
            Channel::Req => (&mut self.rsp.rx, flag::ACK_VALID),
            Channel::Rsp => (&mut self.req.rx, flag::ACK_VALID | flag::ACK_RSP),
        };
        let (ack, ack_tx_seq, len) = rx.whole(&mut bitmap);
        if let (Some(to), Some(from)) = (out.get_mut(HEADER_BYTES..HEADER_BYTES + len), bitmap.get(..len)) {
            to.copy_from_slice(from);
        }
        let h = Header {
            kind: Kind::Ack,
            opcode: syndrome::OK,
            flags,
            payload_len: len as u16,
            ack,
            ack_tx_seq,
            ..Header::default()
        };
        self.write(h, out)
    }

    /// An RNR NAK or a refusal.
    fn nak(&mut self, out: &mut [u8]) -> usize {
        self.rsp.nak_due = false;
        let mut h = Header {
            kind: Kind::Ack,
            flags: flag::ACK_VALID,
            ack: self.rsp.rx.next(),
            ..Header::default()
        };
        if self.rsp.phase == Phase::Refused {
            self.counters.tx_nak += 1;
            let r = self.rsp.refusal();
            h.opcode = r.syndrome;
            h.psn = r.psn;
            h.msn = r.msn;
            h.ack_tx_seq = self.rsp.rx.latest();
        } else {
            self.counters.tx_rnr += 1;
            // It acknowledges, too.
            self.rsp.rx.forgive();
            h.opcode = syndrome::RNR;
            h.psn = self.rsp.rx.next();
            h.ack_tx_seq = self.rsp.rnr_seq;
            h.imm = u32::from(self.min_rnr_timer);
        }
        self.write(h, out)
    }

    fn probe(&mut self, about: u8, psn: u32, tx_seq: u16, out: &mut [u8]) -> usize {
        self.counters.tx_probe += 1;
        let h = Header {
            kind: Kind::Ack,
            opcode: syndrome::PROBE,
            flags: flag::ACK_REQ | about,
            psn,
            tx_seq,
            ..Header::default()
        };
        self.write(h, out)
    }
}
