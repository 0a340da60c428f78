// SPDX-License-Identifier: GPL-2.0
//! The send queue: entries of a ring, copied and checked on the way in.
//!
//! The program may scribble over an entry at any time, so each is read once,
//! into a slot of ours, and only the slot is believed. Inline data stay in the
//! ring: they are payload, and payload is the program's to spoil.
//!
//! Everything here is under the queue pair's lock.

use super::limits;
use super::{Kind, Opcode};
use crate::ffi::abi::{self, Sge};
use crate::ffi::ring::{KernelWord, Ring, UserWord};
use crate::proto::status::WcStatus;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::barrier::{smp_mb, Full};
use kernel::sync::Arc;

/// An entry that was taken in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    /// Its index in the ring.
    index: u32,
    /// `U4R_OP_*`.
    pub(crate) opcode: u8,
    /// `U4R_SF_*`.
    pub(crate) flags: u8,
    num_sge: u8,
    /// Where the last copy ended: a scatter entry, and the offset of its first byte.
    cursor: u8,
    cursor_base: u32,
    /// Bytes of the message.
    pub(crate) length: u32,
    /// Immediate data, or the key to invalidate.
    pub(crate) imm: u32,
    /// Remote key.
    pub(crate) rkey: u32,
    /// The program's.
    pub(crate) wr_id: u64,
    /// Remote address.
    pub(crate) remote_addr: u64,
    /// Atomics: to compare with, or to add.
    pub(crate) compare_add: u64,
    /// Atomics: to swap in.
    pub(crate) swap: u64,
}

impl Entry {
    /// Whether the payload lies in the ring.
    pub(crate) fn is_inline(&self) -> bool {
        u32::from(self.flags) & abi::U4R_SF_INLINE != 0
    }

    /// What a completion calls it.
    pub(crate) fn completes_as(&self) -> Opcode {
        match u32::from(self.opcode) {
            abi::U4R_OP_WRITE | abi::U4R_OP_WRITE_IMM => Opcode::Write,
            abi::U4R_OP_READ => Opcode::Read,
            abi::U4R_OP_CMP_SWAP => Opcode::CompareSwap,
            abi::U4R_OP_FETCH_ADD => Opcode::FetchAdd,
            abi::U4R_OP_BIND_MW => Opcode::BindMw,
            abi::U4R_OP_LOCAL_INV => Opcode::LocalInv,
            abi::U4R_OP_ATOMIC_WRITE => Opcode::AtomicWrite,
            _ => Opcode::Send,
        }
    }
}

/// What a look at the ring finds.
pub(crate) enum Taken {
    /// Nothing to do; the program rings the doorbell for the next entry.
    Nothing,
    /// The next entry is in the slot.
    Entry,
    /// The next entry is in the slot, but cannot be done: it fails with this.
    Bad(WcStatus),
}

/// See the module.
pub(crate) struct SendQueue {
    ring: Arc<Ring>,
    kind: Kind,
    max_sge: u32,
    max_inline: u32,
    /// Next entry to take.
    next: u32,
    /// The program has been told that we are at work.
    busy: bool,
    /// The program's counter made no sense: nothing more is taken.
    corrupt: bool,
    /// Entries that may still be taken under this hold of the lock: a program that
    /// posts as fast as we flush must not keep us here.
    budget: u32,
    slots: KVVec<Entry>,
    /// `max_sge` for each slot.
    sges: KVVec<Sge>,
}

impl SendQueue {
    /// A queue over `ring` with `slots` entries under way at most.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        ring: Arc<Ring>,
        kind: Kind,
        max_sge: u32,
        max_inline: u32,
        slots: usize,
    ) -> Result<Self> {
        Ok(Self {
            ring,
            kind,
            max_sge,
            max_inline,
            next: 0,
            busy: false,
            corrupt: false,
            budget: 0,
            slots: KVVec::from_elem(Entry::default(), slots, GFP_KERNEL)?,
            sges: KVVec::from_elem(Sge::default(), slots * max_sge as usize, GFP_KERNEL)?,
        })
    }

    /// The entry in `slot`.
    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Option<&Entry> {
        self.slots.get(slot)
    }

    /// Entries produced but not yet taken; None if the counters make no sense.
    fn waiting(&self) -> Option<u32> {
        let waiting = self.ring.user(UserWord::Prod).wrapping_sub(self.next);
        (waiting <= self.ring.entries()).then_some(waiting)
    }

    /// Tells the program whether it must ring the doorbell.
    fn set_busy(&mut self, busy: bool) {
        if self.busy != busy {
            self.busy = busy;
            let state = if busy {
                abi::U4R_SQ_BUSY
            } else {
                abi::U4R_SQ_IDLE
            };
            self.ring.set_kernel(KernelWord::State, state);
        }
    }

    /// Takes the next entry into `slot`.
    pub(crate) fn take(&mut self, slot: usize) -> Taken {
        if self.corrupt {
            return Taken::Nothing;
        }
        if self.budget == 0 {
            self.set_busy(false);
            return Taken::Nothing;
        }
        self.budget -= 1;
        let mut waiting = self.waiting();
        if waiting == Some(0) {
            self.set_busy(false);
            // The state before, the counter after: pairs with the program, which
            // produces first and then looks at the state.
            smp_mb(Full);
            waiting = self.waiting();
            if waiting == Some(0) {
                return Taken::Nothing;
            }
        }
        self.set_busy(true);
        let index = self.next;
        self.next = index.wrapping_add(1);
        let loaded = self.load(slot, index);
        if waiting.is_none() {
            // What stands there is what a program that lost count wrote last.
            self.corrupt = true;
            return Taken::Bad(WcStatus::LocQpOpErr);
        }
        match loaded {
            Ok(()) => Taken::Entry,
            Err(status) => Taken::Bad(status),
        }
    }

    /// The lock was taken: a whole ring may be taken in.
    #[inline]
    pub(crate) fn refill(&mut self) {
        self.budget = self.ring.entries();
    }

    /// Copies entry `index` into `slot`, then checks the copy.
    fn load(&mut self, slot: usize, index: u32) -> Result<(), WcStatus> {
        let [wr_id, remote_addr, compare_add, swap, keys, inline, _ud, kind] =
            self.ring.read::<8>(index, 0);
        let mut entry = Entry {
            index,
            opcode: kind as u8,
            flags: (kind >> 8) as u8,
            num_sge: (kind >> 16) as u8,
            imm: (keys >> 32) as u32,
            rkey: keys as u32,
            wr_id,
            remote_addr,
            compare_add,
            swap,
            ..Entry::default()
        };
        let checked = self.check(&mut entry, slot, inline as u32);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = entry;
        }
        checked
    }

    fn check(&mut self, entry: &mut Entry, slot: usize, inline: u32) -> Result<(), WcStatus> {
        const BAD: Result<(), WcStatus> = Err(WcStatus::LocQpOpErr);
        const FLAGS: u32 =
            abi::U4R_SF_SIGNALED | abi::U4R_SF_SOLICITED | abi::U4R_SF_FENCE | abi::U4R_SF_INLINE;
        let opcode = u32::from(entry.opcode);
        let answered = matches!(
            opcode,
            abi::U4R_OP_READ | abi::U4R_OP_CMP_SWAP | abi::U4R_OP_FETCH_ADD
        );
        let known = (abi::U4R_OP_SEND..=abi::U4R_OP_ATOMIC_WRITE).contains(&opcode);
        if !known || u32::from(entry.flags) & !FLAGS != 0 {
            return BAD;
        }
        let whole = opcode == abi::U4R_OP_ATOMIC_WRITE;
        if whole && (self.kind == Kind::Uc || entry.remote_addr % 8 != 0) {
            return BAD;
        }
        if answered && (self.kind == Kind::Uc || entry.is_inline()) {
            return BAD;
        }
        if matches!(opcode, abi::U4R_OP_BIND_MW | abi::U4R_OP_LOCAL_INV) {
            // Nothing is sent.
            let empty = entry.num_sge == 0 && !entry.is_inline();
            entry.num_sge = 0;
            return if empty { Ok(()) } else { BAD };
        }
        if entry.is_inline() {
            if inline > self.max_inline {
                return BAD;
            }
            entry.length = inline;
            return if whole && inline != 8 {
                Err(WcStatus::LocLenErr)
            } else {
                Ok(())
            };
        }
        if u32::from(entry.num_sge) > self.max_sge {
            entry.num_sge = 0;
            return BAD;
        }
        entry.length = self.load_sges(entry, slot)?;
        let atomic = answered && opcode != abi::U4R_OP_READ;
        if (atomic && (entry.length != 8 || entry.num_sge != 1)) || (whole && entry.length != 8) {
            return Err(WcStatus::LocLenErr);
        }
        Ok(())
    }

    /// Copies the scatter list; the sum of its lengths.
    fn load_sges(&mut self, entry: &Entry, slot: usize) -> Result<u32, WcStatus> {
        let base = slot * self.max_sge as usize;
        let mut total = 0u64;
        for i in 0..usize::from(entry.num_sge) {
            let word = (abi::SQE_BYTES / 8) as usize + 2 * i;
            let [addr, rest] = self.ring.read::<2>(entry.index, word);
            let sge = Sge {
                addr,
                length: rest as u32,
                lkey: (rest >> 32) as u32,
            };
            total += u64::from(sge.length);
            if let Some(place) = self.sges.get_mut(base + i) {
                *place = sge;
            }
        }
        if total > u64::from(limits::MAX_MSG_BYTES) {
            return Err(WcStatus::LocLenErr);
        }
        Ok(total as u32)
    }

    /// Copies inline data out of the ring.
    pub(crate) fn inline_data(&self, entry: &Entry, offset: u32, out: &mut [u8]) -> bool {
        let start = (abi::SQE_BYTES + offset) as usize;
        offset as usize + out.len() <= entry.length as usize
            && self.ring.copy_out(entry.index, start, out)
    }

    /// Calls `step(sge, offset in it, start in the piece, count)` for the parts of
    /// the scatter list that `[offset, offset + len)` covers, until one fails.
    #[inline]
    pub(crate) fn pieces(
        &mut self,
        slot: usize,
        offset: u32,
        len: usize,
        mut step: impl FnMut(&Sge, u32, usize, usize) -> Result<(), WcStatus>,
    ) -> Result<(), WcStatus> {
        let Some(entry) = self.slots.get_mut(slot) else {
            return Err(WcStatus::LocQpOpErr);
        };
        let base = slot * self.max_sge as usize;
        let end = base + usize::from(entry.num_sge);
        let sges = self.sges.get(base..end).unwrap_or(&[]);
        if offset < entry.cursor_base {
            (entry.cursor, entry.cursor_base) = (0, 0);
        }
        walk(
            sges,
            &mut entry.cursor,
            &mut entry.cursor_base,
            offset,
            len,
            &mut step,
        )
    }

    /// Gives entries back to the program, in order, up to that in `slot`.
    pub(crate) fn release(&mut self, slot: usize) {
        if let Some(entry) = self.slots.get(slot) {
            self.ring
                .set_kernel(KernelWord::Cons, entry.index.wrapping_add(1));
        }
    }

    /// Forgets all entries: the queue pair goes to RESET.
    pub(crate) fn reset(&mut self) {
        self.next = self.ring.user(UserWord::Prod);
        self.ring.set_kernel(KernelWord::Cons, self.next);
        self.corrupt = false;
        self.set_busy(false);
    }
}

/// Walks a scatter list from the cursor on; see [`SendQueue::pieces`].
#[inline]
pub(crate) fn walk(
    sges: &[Sge],
    cursor: &mut u8,
    cursor_base: &mut u32,
    offset: u32,
    len: usize,
    step: &mut impl FnMut(&Sge, u32, usize, usize) -> Result<(), WcStatus>,
) -> Result<(), WcStatus> {
    let mut done = 0;
    let mut position = offset;
    while done < len {
        let Some(sge) = sges.get(usize::from(*cursor)) else {
            return Err(WcStatus::LocLenErr);
        };
        let within = position - *cursor_base;
        if within >= sge.length {
            *cursor += 1;
            *cursor_base += sge.length;
            continue;
        }
        let count = core::cmp::min((sge.length - within) as usize, len - done);
        step(sge, within, done, count)?;
        done += count;
        position += count as u32;
    }
    Ok(())
}
