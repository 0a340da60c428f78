// SPDX-License-Identifier: GPL-2.0
//! A ring of receive entries, a queue pair's own or a shared one: entries are
//! copied and checked on the way in.
//!
//! Everything here is under the lock of whom the ring belongs to.

use super::limits;
use crate::ffi::abi::{self, Sge};
use crate::ffi::ring::{KernelWord, Ring, UserWord};
use crate::proto::status::WcStatus;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a look at the ring finds.
pub(crate) enum Received {
    /// No entry is there.
    Nothing,
    /// An entry with room for so many bytes is in use now.
    Entry(u32),
    /// The next entry is in use now, but makes no sense.
    Bad(WcStatus),
}

/// A copy of an entry.
pub(crate) struct RecvEntry {
    /// What the program called it.
    pub(super) wr_id: u64,
    pub(super) num_sge: u32,
    pub(super) sges: KVVec<Sge>,
}

impl RecvEntry {
    /// Room for an entry of `max_sge` scatter entries.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(max_sge: u32) -> Result<Self> {
        Ok(Self {
            wr_id: 0,
            num_sge: 0,
            sges: KVVec::from_elem(Sge::default(), max_sge as usize, GFP_KERNEL)?,
        })
    }
}

/// See the module.
pub(crate) struct RecvRing {
    ring: Arc<Ring>,
    max_sge: u32,
    next: u32,
    /// The program's counter made no sense: nothing more is taken.
    corrupt: bool,
}

impl RecvRing {
    /// Nothing taken yet from `ring`, whose entries have `max_sge` scatter entries.
    pub(super) fn new(ring: Arc<Ring>, max_sge: u32) -> Self {
        Self {
            ring,
            max_sge,
            next: 0,
            corrupt: false,
        }
    }

    /// Entries that are there to be taken; more than the ring has if the program
    /// spoiled its counter.
    #[inline]
    pub(super) fn waiting(&self) -> u32 {
        self.ring.user(UserWord::Prod).wrapping_sub(self.next)
    }

    /// Slots of the ring.
    pub(super) fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Whether the program's counter made no sense.
    pub(super) fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    /// Tells the program how it must go on; see the ABI's RQ state.
    pub(super) fn set_state(&self, state: u32) {
        self.ring.set_kernel(KernelWord::State, state);
    }

    /// Copies the next entry into `entry`.
    pub(super) fn take(&mut self, entry: &mut RecvEntry) -> Received {
        let waiting = self.waiting();
        if waiting == 0 || self.corrupt {
            return Received::Nothing;
        }
        self.corrupt = waiting > self.ring.entries();
        let index = self.next;
        let [wr_id, kind] = self.ring.read::<2>(index, 0);
        let num_sge = kind as u32;
        let mut total = 0u64;
        let known = num_sge <= self.max_sge;
        entry.wr_id = wr_id;
        entry.num_sge = if known { num_sge } else { 0 };
        for (i, place) in entry.sges.iter_mut().enumerate() {
            if i >= entry.num_sge as usize {
                break;
            }
            let word = (abi::RQE_BYTES / 8) as usize + 2 * i;
            let [addr, rest] = self.ring.read::<2>(index, word);
            *place = Sge {
                addr,
                length: rest as u32,
                lkey: (rest >> 32) as u32,
            };
            total += u64::from(place.length);
        }
        self.next = index.wrapping_add(1);
        // It is copied, so the program may have its place back.
        self.ring.set_kernel(KernelWord::Cons, self.next);
        if !known || self.corrupt {
            return Received::Bad(WcStatus::LocQpOpErr);
        }
        // More room than any message needs: the sum may exceed 32 bits.
        Received::Entry(core::cmp::min(total, u64::from(limits::MAX_MSG_BYTES)) as u32)
    }

    /// Goes over to another ring of the same kind, with the entries that wait. The
    /// program does not post meanwhile. Gives the old ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they have no room there, or the program has spoiled its counter;
    /// nothing has changed then.
    pub(super) fn change_ring(&mut self, ring: Arc<Ring>) -> Result<Arc<Ring>> {
        let waiting = self.waiting();
        if waiting > self.ring.entries() || waiting > ring.entries() {
            return Err(EINVAL);
        }
        for i in 0..waiting {
            let index = self.next.wrapping_add(i);
            for pair in 0..self.ring.stride() as usize / 16 {
                let words = self.ring.read::<2>(index, 2 * pair);
                ring.write(index, 2 * pair, &words);
            }
        }
        ring.set_user(UserWord::Prod, self.next.wrapping_add(waiting));
        ring.set_kernel(KernelWord::Cons, self.next);
        Ok(core::mem::replace(&mut self.ring, ring))
    }

    /// Forgets all entries.
    pub(super) fn reset(&mut self) {
        self.next = self.ring.user(UserWord::Prod);
        self.corrupt = false;
        self.ring.set_kernel(KernelWord::Cons, self.next);
    }
}
