// SPDX-License-Identifier: GPL-2.0
//! The receive queue: entries of a ring, copied and checked on the way in.
//!
//! One entry is in use at a time, as messages are placed in order. Everything
//! here is under the queue pair's lock.

use super::limits;
use super::send_queue::walk;
use crate::ffi::abi::{self, Sge};
use crate::ffi::ring::{KernelWord, Ring, UserWord};
use crate::proto::status::WcStatus;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::barrier::{smp_mb, Full};
use kernel::sync::Arc;

/// See the module.
pub(crate) struct RecvQueue {
    ring: Arc<Ring>,
    max_sge: u32,
    next: u32,
    /// The program's counter made no sense: nothing more is taken.
    corrupt: bool,
    /// The entry in use, if any.
    wr_id: Option<u64>,
    num_sge: u32,
    sges: KVVec<Sge>,
    cursor: u8,
    cursor_base: u32,
}

/// What a look at the ring finds.
pub(crate) enum Received {
    /// No entry is there.
    Nothing,
    /// An entry with room for so many bytes is in use now.
    Entry(u32),
    /// The next entry is in use now, but makes no sense.
    Bad(WcStatus),
}

impl RecvQueue {
    /// A queue over `ring`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: Arc<Ring>, max_sge: u32) -> Result<Self> {
        Ok(Self {
            ring,
            max_sge,
            next: 0,
            corrupt: false,
            wr_id: None,
            num_sge: 0,
            sges: KVVec::from_elem(Sge::default(), max_sge as usize, GFP_KERNEL)?,
            cursor: 0,
            cursor_base: 0,
        })
    }

    /// Takes the next entry into use; the one in use, if there is one.
    pub(crate) fn take(&mut self) -> Received {
        let waiting = self.ring.user(UserWord::Prod).wrapping_sub(self.next);
        if waiting == 0 || self.corrupt {
            return Received::Nothing;
        }
        self.corrupt = waiting > self.ring.entries();
        let index = self.next;
        let [wr_id, kind] = self.ring.read::<2>(index, 0);
        let num_sge = kind as u32;
        let mut total = 0u64;
        let known = num_sge <= self.max_sge;
        self.num_sge = if known { num_sge } else { 0 };
        for i in 0..self.num_sge as usize {
            let word = (abi::RQE_BYTES / 8) as usize + 2 * i;
            let [addr, rest] = self.ring.read::<2>(index, word);
            let sge = Sge {
                addr,
                length: rest as u32,
                lkey: (rest >> 32) as u32,
            };
            total += u64::from(sge.length);
            if let Some(place) = self.sges.get_mut(i) {
                *place = sge;
            }
        }
        self.wr_id = Some(wr_id);
        (self.cursor, self.cursor_base) = (0, 0);
        self.next = index.wrapping_add(1);
        // It is copied, so the program may have its place back.
        self.ring.set_kernel(KernelWord::Cons, self.next);
        if !known || self.corrupt {
            return Received::Bad(WcStatus::LocQpOpErr);
        }
        // More room than any message needs: the sum may exceed 32 bits.
        Received::Entry(core::cmp::min(total, u64::from(limits::MAX_MSG_BYTES)) as u32)
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
        let sges = self.sges.get(..self.num_sge as usize).unwrap_or(&[]);
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
        self.wr_id.take()
    }

    /// From here on the program rings the doorbell after it posted.
    pub(crate) fn set_flushing(&mut self, flushing: bool) {
        let state = if flushing {
            abi::U4R_RQ_FLUSH
        } else {
            abi::U4R_RQ_OK
        };
        self.ring.set_kernel(KernelWord::State, state);
        // The state before, the counter after: pairs with the program.
        smp_mb(Full);
    }

    /// Slots of the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Forgets all entries: the queue pair goes to RESET.
    pub(crate) fn reset(&mut self) {
        self.next = self.ring.user(UserWord::Prod);
        self.corrupt = false;
        self.wr_id = None;
        self.ring.set_kernel(KernelWord::Cons, self.next);
        self.set_flushing(false);
    }
}
