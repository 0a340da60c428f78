// SPDX-License-Identifier: GPL-2.0
//! A table of objects by 32-bit key, for the data path: O(1), no lock.
//!
//! The low bits of a key name a slot, the rest proves that the object is the
//! one meant. Slots are never freed, so a reader may count itself in first and
//! look afterwards; removal clears the key, then waits for the readers that are
//! inside, which is a copy of one frame at most.

use core::ops::Deref;
use core::ptr::null_mut;
use kernel::alloc::{KBox, KVVec};
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::barrier::smp_mb;
use kernel::time::{delay::fsleep, Delta};

struct Slot<T> {
    /// 0: nothing here.
    key: Atomic<u32>,
    readers: Atomic<i32>,
    object: Atomic<*mut T>,
}

/// See the module.
///
/// # Invariants
///
/// A slot with a key other than 0 has an `object` made by `KBox::into_raw`,
/// which is taken back only after the key was cleared and no reader was left.
pub(crate) struct SlotTable<T> {
    slots: KVVec<Slot<T>>,
}

// SAFETY: Objects are shared by reference only; the table's words are atomic.
unsafe impl<T: Send + Sync> Send for SlotTable<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: Send + Sync> Sync for SlotTable<T> {}

impl<T> SlotTable<T> {
    /// A table of `count` slots, a power of two.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let slot = Slot {
                key: Atomic::new(0),
                readers: Atomic::new(0),
                object: Atomic::new(null_mut()),
            };
            slots.push(slot, GFP_KERNEL)?;
        }
        Ok(Self { slots })
    }

    #[inline]
    fn slot(&self, key: u32) -> Option<&Slot<T>> {
        self.slots
            .get(key as usize & self.slots.len().wrapping_sub(1))
    }

    /// Whether the slot that `key` names has no object. Callers that insert hold
    /// a lock of their own against each other.
    pub(crate) fn is_free(&self, key: u32) -> bool {
        self.slot(key)
            .is_some_and(|slot| slot.object.load(Relaxed).is_null())
    }

    /// Puts an object under `key`, whose slot is free and which is not 0.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is not free.
    pub(crate) fn insert(&self, key: u32, object: KBox<T>) -> Result {
        let slot = self.slot(key).ok_or(EINVAL)?;
        let object = KBox::into_raw(object);
        if key == 0 || slot.object.cmpxchg(null_mut(), object, Full).is_err() {
            // SAFETY: Just taken apart, and nobody else has seen it.
            drop(unsafe { KBox::from_raw(object) });
            return Err(EBUSY);
        }
        // Release: whoever sees the key sees the object.
        slot.key.store(key, Release);
        Ok(())
    }

    /// The object under `key`.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<Entry<'_, T>> {
        let slot = self.slot(key)?;
        // Full: we are counted before we look; pairs with `remove`.
        slot.readers.fetch_add(1, Full);
        let entry = Entry { slot };
        (key != 0 && slot.key.load(Acquire) == key).then_some(entry)
    }

    /// The object in the slot `index`, whatever its key.
    pub(crate) fn at(&self, index: u32) -> Option<Entry<'_, T>> {
        self.get(self.slot(index)?.key.load(Relaxed))
    }

    /// Changes the object under `key`, which nobody finds meanwhile, after the
    /// readers at hand have left. False if it is not there. May sleep. Callers see
    /// to it that it is not removed at the same time.
    pub(crate) fn change(&self, key: u32, change: impl FnOnce(&mut T)) -> bool {
        let Some(slot) = self.slot(key) else {
            return false;
        };
        if key == 0 || slot.key.cmpxchg(key, 0, Full).is_err() {
            return false;
        }
        self.wait_readers(slot);
        // SAFETY: A `KBox` by the invariants, and still there: with an object the
        // slot is not free. No reader is left, none that comes now finds the key,
        // and only who cleared the key goes on to use the object.
        change(unsafe { &mut *slot.object.load(Relaxed) });
        // Release: whoever sees the key sees the change.
        slot.key.store(key, Release);
        true
    }

    fn wait_readers(&self, slot: &Slot<T>) {
        smp_mb(kernel::sync::barrier::Full);
        while slot.readers.load(Acquire) != 0 {
            fsleep(Delta::from_micros(20));
        }
    }

    /// Takes the object under `key` out, after the readers at hand have left.
    /// May sleep.
    pub(crate) fn remove(&self, key: u32) -> Option<KBox<T>> {
        let slot = self.slot(key)?;
        if key == 0 || slot.key.cmpxchg(key, 0, Full).is_err() {
            return None;
        }
        self.wait_readers(slot);
        let object = slot.object.xchg(null_mut(), Full);
        // SAFETY: By the invariants a `KBox`; no reader is left, and none that
        // comes now finds the key.
        Some(unsafe { KBox::from_raw(object) })
    }
}

impl<T> Drop for SlotTable<T> {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            let object = slot.object.load(Relaxed);
            if !object.is_null() {
                // SAFETY: By the invariants a `KBox`; the table is ours alone.
                drop(unsafe { KBox::from_raw(object) });
            }
        }
    }
}

/// An object of the table, which stays there while this lives. Short-lived:
/// removal waits for it.
pub(crate) struct Entry<'a, T> {
    slot: &'a Slot<T>,
}

impl<T> Deref for Entry<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: An entry is handed out only after its key was seen while we were
        // counted as a reader, so the object is there and stays until we leave.
        unsafe { &*self.slot.object.load(Relaxed) }
    }
}

impl<T> Drop for Entry<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.slot.readers.fetch_sub(1, Release);
    }
}
