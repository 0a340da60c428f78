// SPDX-License-Identifier: GPL-2.0

//! The receive side of a lane. The ring's own worker calls this, one frame at a
//! time, in process context and without locks.
//!
//! Lock order: as in lane.rs; `tx` and `rx` are taken one after the other here.

use super::lane::{Lane, Port, RxBuf};
use crate::ffi::tb_frames::{Frame, FramePool};
use crate::ffi::tb_ring::{FrameSink, FLAG_CRC_ERROR, FLAG_OVERRUN};
use crate::ffi::tb_rxbuf::{Entries, Owner};
use crate::proto::wire::{Header, Kind};
use kernel::sync::Arc;

impl FrameSink for Lane {
    fn frame(this: &Arc<Self>, frame: Frame, len: usize, flags: u32) {
        if flags & (FLAG_CRC_ERROR | FLAG_OVERRUN) != 0 {
            let mut rx = this.rx.lock();
            rx.counters.rx_flagged += 1;
            rx.credit.taken();
            drop(rx);
            return this.give_back(frame, false);
        }
        let parsed = Header::parse(this.pool().bytes(&frame, len));
        let header = match parsed {
            Ok(header) => header,
            Err(bad) => {
                let mut rx = this.rx.lock();
                rx.bad.count(bad);
                rx.credit.taken();
                drop(rx);
                return this.give_back(frame, false);
            }
        };
        let update_due = this.account(&header);
        if header.kind == Kind::Lane {
            this.give_back(frame, false);
        } else {
            Self::hand_up(this, frame, header);
        }
        // Not only at the end of the batch, which may be a whole ring: the sender
        // would stand still meanwhile.
        if update_due {
            this.update_if_due();
        }
    }

    fn batch_end(this: &Arc<Self>) {
        if let Some(device) = this.link().device() {
            device.batch_end(this);
        }
        Self::run_waiters(this);
        this.update_if_due();
        this.link().received();
    }
}

impl Lane {
    /// Credits, both ways. Whether the peer is to be told of free buffers.
    fn account(&self, header: &Header) -> bool {
        let (update_due, news) = {
            let mut rx = self.rx.lock();
            let rx = &mut *rx;
            rx.credit.on_frame(header, &mut rx.counters);
            let news = rx.peer_limit != Some(header.lane_limit);
            rx.peer_limit = Some(header.lane_limit);
            (rx.credit.update_due(), news)
        };
        // Under one-way traffic the other direction's limit stands still.
        if news {
            let mut tx = self.tx.lock();
            let tx = &mut *tx;
            if let Some(credit) = &mut tx.credit {
                credit.on_frame(header, &mut tx.counters);
            }
        }
        update_due
    }

    /// Gives a frame to the device, if there is one yet.
    pub(super) fn hand_up(this: &Arc<Self>, frame: Frame, header: Header) {
        let Some(device) = this.link().device() else {
            this.rx.lock().counters.rx_unclaimed += 1;
            return this.give_back(frame, false);
        };
        if let Some(buf) = RxBuf::new(this, frame, header) {
            if !device.deliver(this, buf) {
                this.rx.lock().counters.rx_unknown_qpn += 1;
            }
        }
    }
}

impl Owner for Lane {
    fn entries(&self) -> &Entries<Self> {
        &self.entries
    }

    fn pool(&self) -> &FramePool {
        match &self.port {
            Port::Ring(ring) => ring.pool(),
            Port::Loop(_) => &self.pool,
        }
    }

    fn may_hold(&self) -> bool {
        let mut rx = self.rx.lock();
        if rx.held >= self.max_held() {
            return false;
        }
        rx.held += 1;
        true
    }

    fn give_back(&self, frame: Frame, held: bool) {
        match &self.port {
            Port::Ring(ring) => {
                // In the ring first: the credit for it may be used at once.
                ring.post(frame);
                let mut rx = self.rx.lock();
                rx.credit.reposted();
                rx.held = rx.held.saturating_sub(u32::from(held));
            }
            Port::Loop(_) => {
                self.rx.lock().held -= u32::from(held);
                self.tx.lock().put(frame);
            }
        }
    }
}
