// SPDX-License-Identifier: GPL-2.0
//! The receive queue of a queue pair: a ring of its own, or a shared one that it
//! takes its entries from.
//!
//! One entry is in use at a time, as messages are placed in order. Everything
//! here is under the queue pair's lock.
//!
//! Lock order: QP -> SRQ (srq.rs).

use super::recv_ring::{Received, RecvEntry, RecvRing};
use super::send_queue::walk;
use super::srq::Srq;
use crate::ffi::abi::{self, Sge};
use crate::proto::status::WcStatus;
use kernel::prelude::*;
use kernel::sync::barrier::{smp_mb, Full};
use kernel::sync::Arc;

/// Where entries come from.
pub(crate) enum Source {
    /// A ring of the queue pair.
    Own(RecvRing),
    /// A shared receive queue.
    Shared(Arc<Srq>),
}

/// See the module.
pub(crate) struct RecvQueue {
    source: Source,
    entry: RecvEntry,
    /// The entry is in use.
    taken: bool,
    cursor: u8,
    cursor_base: u32,
}

impl RecvQueue {
    /// A queue that takes entries of at most `max_sge` scatter entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(source: Source, max_sge: u32) -> Result<Self> {
        Ok(Self {
            source,
            entry: RecvEntry::new(max_sge)?,
            taken: false,
            cursor: 0,
            cursor_base: 0,
        })
    }

    /// Takes the next entry into use.
    pub(crate) fn take(&mut self) -> Received {
        let received = match &mut self.source {
            Source::Own(ring) => ring.take(&mut self.entry),
            Source::Shared(srq) => srq.take(&mut self.entry),
        };
        self.taken = !matches!(received, Received::Nothing);
        (self.cursor, self.cursor_base) = (0, 0);
        received
    }

    /// Calls `step` for parts of the scatter list; see `SendQueue::pieces`.
    #[inline]
    pub(crate) fn pieces(
        &mut self,
        offset: u32,
        len: usize,
        mut step: impl FnMut(&Sge, u32, usize, usize) -> Result<(), WcStatus>,
    ) -> Result<(), WcStatus> {
        if offset < self.cursor_base {
            (self.cursor, self.cursor_base) = (0, 0);
        }
        let count = self.entry.num_sge as usize;
        let sges = self.entry.sges.get(..count).unwrap_or(&[]);
        walk(
            sges,
            &mut self.cursor,
            &mut self.cursor_base,
            offset,
            len,
            &mut step,
        )
    }

    /// Ends the use of the entry; what the program called it.
    pub(crate) fn finish(&mut self) -> Option<u64> {
        core::mem::take(&mut self.taken).then_some(self.entry.wr_id)
    }

    /// From here on the program rings the doorbell after it posted. False for a
    /// shared queue, which others go on to use.
    pub(crate) fn set_flushing(&mut self, flushing: bool) -> bool {
        let Source::Own(ring) = &self.source else {
            return false;
        };
        ring.set_state(if flushing {
            abi::U4R_RQ_FLUSH
        } else {
            abi::U4R_RQ_OK
        });
        // The state before, the counter after: pairs with the program.
        smp_mb(Full);
        true
    }

    /// Slots of the ring, if it is the queue pair's own.
    pub(crate) fn entries(&self) -> u32 {
        match &self.source {
            Source::Own(ring) => ring.entries(),
            Source::Shared(_) => 0,
        }
    }

    /// Forgets all entries: the queue pair goes to RESET.
    pub(crate) fn reset(&mut self) {
        self.taken = false;
        if let Source::Own(ring) = &mut self.source {
            ring.reset();
        }
        self.set_flushing(false);
    }
}
