// SPDX-License-Identifier: GPL-2.0

//! Who waits for room on a lane: queue pairs by number, served round robin.

use kernel::prelude::*;

/// A first-in-first-out queue of fixed size.
pub(super) struct Waiters {
    numbers: KVVec<u32>,
    first: usize,
    count: usize,
}

impl Waiters {
    /// Room for `capacity` queue pairs; each waits at most once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(capacity: usize) -> Result<Self> {
        Ok(Self {
            numbers: KVVec::from_elem(0, capacity, GFP_KERNEL)?,
            first: 0,
            count: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts one at the end; false if there is no place, which cannot be while each
    /// waits at most once.
    pub(super) fn push(&mut self, qpn: u32) -> bool {
        let capacity = self.numbers.len();
        if self.count >= capacity {
            return false;
        }
        let at = (self.first + self.count) % capacity;
        if let Some(place) = self.numbers.get_mut(at) {
            *place = qpn;
            self.count += 1;
        }
        true
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let qpn = self.numbers.get(self.first).copied();
        self.first = (self.first + 1) % self.numbers.len().max(1);
        self.count -= 1;
        qpn
    }
}
