// SPDX-License-Identifier: GPL-2.0
//! One queue pair: state, two streams each way, and what the driver calls.
//!
//! The driver holds the queue pair's lock around every call. Its duties:
//! - `notify_sq` + `poll_tx` until None after a doorbell; `poll_tx` again after each RX batch that touched
//!   the queue pair, after `on_timer`, and when the lane has room again;
//! - `on_timer` when `next_deadline` has passed.
//!
//! Memory: all-zero bytes are a valid `Qp` in RESET for any `B` whose `Option<B>` is `None` when zero
//! (see [`FrameBuf`]), so allocate it zeroed instead of moving one through the stack, then call `setup`.

use super::counters::QpCounters;
use super::env::{Env, FrameBuf};
use super::qp_state::{check, ModifyError, QpAttrs, QpKind, QpState};
use super::requester::Requester;
use super::responder::{Phase, Responder};
use super::ride::Ride;
use super::rtt::Rtt;
use super::status::{QpEvent, WcStatus};
use super::timers::{fail_after_ns, RSP_SILENT_PROBES};

/// What the caller has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A ring entry but no credit: ACK, NAK and probe frames only.
    Control,
    /// Anything.
    Data,
}

/// What a queue pair would send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wants {
    /// An ACK, NAK or probe that does not wait for data to ride on.
    pub control: bool,
    /// DATA, as far as can be known without looking into the send queue.
    pub data: bool,
}

/// What the driver may tune.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// How long an acknowledgement may wait for a DATA frame to ride on, where waiting has proved worth it
    /// (ride.rs); 0: never longer than the end of the batch.
    pub ack_delay_ns: u64,
    /// Early frames that this queue pair may hold (`credit::max_held_by_qp`), at most 255.
    pub max_held: u16,
}

/// A window is never smaller, however small the rings.
const WINDOW_MIN: u16 = 16;

/// One queue pair.
pub struct Qp<B> {
    pub(super) state: QpState,
    pub(super) kind: QpKind,
    pub(super) qpn: u32,
    pub(super) dest_qpn: u32,
    pub(super) tuning: Tuning,
    pub(super) min_rnr_timer: u8,
    pub(super) rnr_retry: u8,
    timeout: u8,
    retry_cnt: u8,
    /// A frame has come since RTR.
    pub(super) established: bool,
    /// Which stream sends next when both have data: true for RSP.
    pub(super) rsp_turn: bool,
    pub(super) ride: Ride,
    pub(super) rtt: Rtt,
    pub(super) req: Requester<B>,
    pub(super) rsp: Responder<B>,
    pub(super) counters: QpCounters,
}

impl<B: FrameBuf> Qp<B> {
    /// A queue pair in RESET. Large (16 KiB): in the kernel allocate zeroed memory instead.
    pub const fn new() -> Self {
        Qp {
            state: QpState::Reset,
            kind: QpKind::Rc,
            qpn: 0,
            dest_qpn: 0,
            tuning: Tuning { ack_delay_ns: 0, max_held: 0 },
            min_rnr_timer: 0,
            rnr_retry: 0,
            timeout: 0,
            retry_cnt: 0,
            established: false,
            rsp_turn: false,
            ride: Ride::ZERO,
            rtt: Rtt::ZERO,
            req: Requester::ZERO,
            rsp: Responder::ZERO,
            counters: QpCounters::ZERO,
        }
    }

    /// Once after creation: number (24 bits), transport, tuning.
    pub fn setup(&mut self, qpn: u32, kind: QpKind, tuning: Tuning) {
        self.qpn = qpn;
        self.kind = kind;
        self.tuning = tuning;
    }

    /// New tuning, from now on.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
        self.bound_windows();
    }

    /// What lies behind a lost frame must fit where the peer keeps early frames, else most of it is sent again. The
    /// peer's rings are taken to be like ours; a mistake costs time only.
    fn bound_windows(&mut self) {
        let frames = self.tuning.max_held.saturating_add(1).max(WINDOW_MIN);
        self.req.tx.set_window(frames);
        self.rsp.answers.tx.set_window(frames);
    }

    /// Back to RESET: forgets requests in flight and the current receive entry without completing them, drops
    /// every held frame. Number, transport, tuning and counters stay.
    pub fn reset(&mut self) {
        self.req.reset();
        self.rsp.start(0);
        self.rtt = Rtt::ZERO;
        self.ride = Ride::ZERO;
        self.established = false;
        self.state = QpState::Reset;
    }

    /// Changes state and attributes. ERR flushes; RESET forgets.
    ///
    /// # Errors
    /// See [`ModifyError`]; nothing has changed then.
    pub fn modify<E: Env>(&mut self, attrs: &QpAttrs, now: u64, env: &mut E) -> Result<(), ModifyError> {
        check(self.kind, self.state, attrs)?;
        match attrs.state {
            QpState::Reset => self.reset(),
            QpState::Err => self.flush(env),
            QpState::Init => self.state = QpState::Init,
            QpState::Rtr => {
                self.dest_qpn = attrs.dest_qpn.unwrap_or(0);
                self.rsp.start(attrs.rq_psn.unwrap_or(0));
                self.rsp.max_rd = attrs.max_dest_rd_atomic.unwrap_or(0);
                self.rsp.answers.quiet_since = now;
                self.state = QpState::Rtr;
            }
            QpState::Rts => {
                if self.state == QpState::Rtr {
                    self.req.start(attrs.sq_psn.unwrap_or(0));
                    self.req.max_rd = attrs.max_rd_atomic.unwrap_or(0);
                    self.req.sq_ready = true;
                    self.timeout = attrs.timeout.unwrap_or(0);
                    self.retry_cnt = attrs.retry_cnt.unwrap_or(0);
                    self.rnr_retry = attrs.rnr_retry.unwrap_or(0);
                }
                self.state = QpState::Rts;
            }
        }
        self.bound_windows();
        self.min_rnr_timer = attrs.min_rnr_timer.unwrap_or(self.min_rnr_timer);
        Ok(())
    }

    /// Numbers the frames of both streams from these PSNs on: `own` requests, `theirs`. Only right after RTR or RTS,
    /// at both ends. Tests begin near the wrap of 32 bits, which the 24 bits of verbs cannot say.
    pub fn begin_at(&mut self, own: u32, theirs: u32) {
        self.rsp.start(theirs);
        self.req.start(own);
        self.bound_windows();
    }

    /// Present state; the core itself goes to ERR when a request fails.
    pub const fn state(&self) -> QpState {
        self.state
    }

    /// Number of the queue pair.
    pub const fn qpn(&self) -> u32 {
        self.qpn
    }

    /// The send queue got entries (doorbell).
    pub fn notify_sq(&mut self) {
        self.req.sq_ready = true;
    }

    /// Does what is due at `now`: marks probes, ends RNR waits, fails requests. Then `poll_tx`.
    pub fn on_timer<E: Env>(&mut self, now: u64, env: &mut E) {
        if !self.is_active() {
            return;
        }
        let req = &mut self.req;
        if req.rnr_until != 0 {
            if req.rnr_until <= now {
                req.rnr_until = 0;
                req.news(now, false);
                req.progress_at = now;
            }
        } else if req.waits_for_peer() {
            let limit = fail_after_ns(self.timeout, self.retry_cnt);
            if limit.is_some_and(|l| now >= req.progress_at.saturating_add(l)) {
                self.counters.retry_exceeded += 1;
                req.fail_oldest(WcStatus::RetryExcErr);
                self.settle(env);
                return;
            }
            if now >= req.quiet_since.saturating_add(self.rtt.probe_after(req.backoff)) {
                req.probe_due = true;
            }
        }
        if self.rsp_probe_at().is_some_and(|at| at <= now) {
            if self.rsp.answers.backoff == RSP_SILENT_PROBES {
                self.rsp.answers.backoff += 1;
                self.counters.rsp_silenced += 1;
            } else {
                self.rsp.answers.probe_due = true;
            }
        }
    }

    /// When `on_timer` or, for a delayed acknowledgement, `poll_tx` is due next; None: no timer runs. What is
    /// due already and waits only for the lane (`wants_tx`) is not in it.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.is_active() {
            return None;
        }
        let req = &self.req;
        let waits = req.rnr_until == 0 && req.waits_for_peer();
        let due = [
            (req.rnr_until != 0).then_some(req.rnr_until),
            (waits && !req.probe_due)
                .then(|| req.quiet_since.saturating_add(self.rtt.probe_after(req.backoff))),
            fail_after_ns(self.timeout, self.retry_cnt)
                .filter(|_| waits)
                .map(|l| req.progress_at.saturating_add(l)),
            self.rsp_probe_at(),
            req.rx.due_at(),
            self.rsp.rx.due_at(),
        ];
        due.into_iter().flatten().min()
    }

    /// Goes to ERR if not there (from RESET nothing happens) and completes with WR_FLUSH_ERR all that is
    /// outstanding or posted. Call again for entries that are posted in ERR.
    pub fn flush<E: Env>(&mut self, env: &mut E) {
        if self.state != QpState::Reset {
            self.state = QpState::Err;
            self.req.flush(env);
            self.req.rx.drop_held();
            self.req.rx.forgive();
            self.rsp.flush(env);
        }
    }

    /// Event counters; they survive a reset.
    pub const fn counters(&self) -> &QpCounters {
        &self.counters
    }

    /// Nothing is in flight, owed or held: what a queue pair without work must come to.
    pub fn is_idle(&self) -> bool {
        let sent = self.req.tx.outstanding() != 0 || self.rsp.answers.tx.outstanding() != 0;
        self.req.inflight.is_empty()
            && !(self.is_active() && sent)
            && self.rsp.answers.count() == 0
            && self.req.rx.held_count() == 0
            && self.rsp.rx.held_count() == 0
            && self.next_deadline().is_none()
    }

    /// RTR or RTS.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts)
    }

    /// Completes what has become complete, and goes to ERR if a request failed or a refusal can be said.
    pub(super) fn settle<E: Env>(&mut self, env: &mut E) {
        if !self.is_active() {
            return;
        }
        if self.req.complete(env) {
            self.flush(env);
        } else if self.rsp.may_say_refusal() {
            self.rsp.phase = Phase::Refused;
            self.rsp.nak_due = true;
            self.go_err(self.rsp.refusal().event, env);
        }
    }

    /// ERR because of what the peer asked for; an event tells the program what no completion does.
    pub(super) fn go_err<E: Env>(&mut self, event: Option<QpEvent>, env: &mut E) {
        self.state = QpState::Err;
        if let Some(event) = event {
            env.event(event);
        }
        self.flush(env);
    }

    /// When the next probe for stream RSP is due.
    fn rsp_probe_at(&self) -> Option<u64> {
        let r = &self.rsp.answers;
        let waits = r.tx.in_flight() && !r.probe_due && r.backoff <= RSP_SILENT_PROBES;
        waits.then(|| r.quiet_since.saturating_add(self.rtt.probe_after(r.backoff)))
    }
}

impl<B: FrameBuf> Default for Qp<B> {
    fn default() -> Self {
        Self::new()
    }
}
