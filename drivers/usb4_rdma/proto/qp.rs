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
use super::qp_state::{ModifyError, QpAttrs, QpKind, QpState};

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
    /// How long an acknowledgement may wait for a DATA frame to ride on; 0: until the end of the batch.
    pub ack_delay_ns: u64,
    /// Early frames that this queue pair may hold (`credit::max_held_by_qp`), at most 255.
    pub max_held: u16,
}

/// One queue pair.
pub struct Qp<B> {
    state: QpState,
    kind: QpKind,
    qpn: u32,
    tuning: Tuning,
    counters: QpCounters,
    held: [Option<B>; 1],
}

impl<B: FrameBuf> Qp<B> {
    /// A queue pair in RESET. Large (16 KiB): in the kernel allocate zeroed memory instead.
    pub const fn new() -> Self {
        Qp {
            state: QpState::Reset,
            kind: QpKind::Rc,
            qpn: 0,
            tuning: Tuning { ack_delay_ns: 0, max_held: 0 },
            counters: QpCounters::ZERO,
            held: [None],
        }
    }

    /// Once after creation: number (24 bits), transport, tuning.
    pub fn setup(&mut self, qpn: u32, kind: QpKind, tuning: Tuning) {
        self.qpn = qpn;
        self.kind = kind;
        self.tuning = tuning;
    }

    /// Back to RESET: forgets requests in flight and the current receive entry without completing them, drops
    /// every held frame. Number, transport, tuning and counters stay.
    pub fn reset(&mut self) {
        self.held[0] = None;
        self.state = QpState::Reset;
    }

    /// Changes state and attributes. ERR flushes; RESET forgets.
    ///
    /// # Errors
    /// See [`ModifyError`]; nothing has changed then.
    pub fn modify<E: Env>(&mut self, attrs: &QpAttrs, _now: u64, env: &mut E) -> Result<(), ModifyError> {
        super::qp_state::check(self.kind, self.state, attrs)?;
        match attrs.state {
            QpState::Reset => self.reset(),
            QpState::Err => self.flush(env),
            s => self.state = s,
        }
        Ok(())
    }

    /// Present state; the core itself goes to ERR when a request fails.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// Takes a DATA or ACK frame for this queue pair: places, holds or drops it. Acknowledgements are only
    /// marked; `poll_tx` at the end of the batch sends them.
    pub fn on_frame<E: Env>(&mut self, frame: B, _now: u64, _env: &mut E) {
        drop(frame);
        self.counters.rx_not_ready += 1;
    }

    /// Builds the next frame into `out` (at least 4096 bytes) and gives its length; None: nothing to send
    /// now. `lane_seq`, `lane_limit` and the CRC are still missing: `wire::finish`.
    pub fn poll_tx<E: Env>(&mut self, _now: u64, _env: &mut E, _room: Room, _out: &mut [u8]) -> Option<usize> {
        None
    }

    /// What `poll_tx` would give now.
    pub fn wants_tx(&self, _now: u64) -> Wants {
        Wants::default()
    }

    /// The send queue got entries (doorbell).
    pub fn notify_sq(&mut self) {}

    /// Does what is due at `now`: marks probes, ends RNR waits, fails requests. Then `poll_tx`.
    pub fn on_timer<E: Env>(&mut self, _now: u64, _env: &mut E) {}

    /// When `on_timer` is due next; None: no timer runs.
    pub fn next_deadline(&self) -> Option<u64> {
        None
    }

    /// Goes to ERR if not there (from RESET nothing happens) and completes with WR_FLUSH_ERR all that is
    /// outstanding or posted. Call again for entries that are posted in ERR.
    pub fn flush<E: Env>(&mut self, env: &mut E) {
        if self.state != QpState::Reset {
            self.state = QpState::Err;
            env.flush_recv();
        }
    }

    /// Event counters; they survive a reset.
    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }
}

impl<B: FrameBuf> Default for Qp<B> {
    fn default() -> Self {
        Self::new()
    }
}
