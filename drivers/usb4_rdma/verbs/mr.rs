// SPDX-License-Identifier: GPL-2.0
//! Memory regions and protection domains.
//!
//! A region is looked up anew for each frame that is copied from or to it, and
//! held for that copy only. So it may be deregistered at any time; what is still
//! queued then fails with a protection or access error.
//!
//! Lock order: `mr_alloc` is taken alone; looking a region up takes no lock.

use super::window::WINDOW_BIT;
use super::{limits, Device};
use crate::ffi::ib_object::unsupported;
use crate::ffi::slot_table::Entry;
use crate::ffi::umem::Backing;
use crate::ffi::{abi, random};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::Arc;

/// A protection domain.
pub(crate) struct Pd {
    device: Arc<Device>,
    number: u32,
}

impl Pd {
    /// # Errors
    ///
    /// `ENOMEM` beyond the device's limit.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Arc<Self>> {
        device.pds.take(limits::MAX_PD)?;
        let pd = Self {
            device: device.clone(),
            number: device.next_pdn(),
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// Its number, unique on the device.
    pub(crate) fn pdn(&self) -> u32 {
        self.number
    }

    /// The device it belongs to.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        self.device.pds.give_back();
    }
}

/// How many objects of a kind there are.
pub(crate) struct Count(Atomic<u32>);

impl Count {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts one more.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there are `limit` already.
    pub(super) fn take(&self, limit: u32) -> Result {
        if self.0.fetch_add(1, Relaxed) < limit {
            return Ok(());
        }
        self.give_back();
        Err(ENOMEM)
    }

    pub(super) fn give_back(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Rights to memory, as bits of the verbs access flags.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// Reading for the owner: always granted.
    pub(crate) const LOCAL_READ: Self = Self(0);
    /// Writing for the owner: receives and READ responses.
    pub(crate) const LOCAL_WRITE: Self = Self(1 << 0);
    /// Writing for the peer.
    pub(crate) const REMOTE_WRITE: Self = Self(1 << 1);
    /// Reading for the peer.
    pub(crate) const REMOTE_READ: Self = Self(1 << 2);
    /// Atomic operations for the peer.
    pub(crate) const REMOTE_ATOMIC: Self = Self(1 << 3);

    /// Binding memory windows.
    pub(crate) const MW_BIND: Self = Self(1 << 4);
    /// Binding memory windows that the peer writes through.
    pub(crate) const MW_BIND_WRITABLE: Self = Self(Self::MW_BIND.0 | Self::LOCAL_WRITE.0);

    /// From the flags of a registration.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for on-demand paging and flushing;
    /// `EINVAL` for remote rights to write without the local one.
    pub(crate) fn from_verbs(flags: u32) -> Result<Self> {
        // Zero based, huge pages, relaxed ordering and the optional range change
        // nothing here and are let through.
        if flags & abi::UNSUPPORTED_ACCESS != 0 {
            return Err(unsupported());
        }
        let this = Self(flags & 0x1f);
        if this.writes() && !this.allows(Self::LOCAL_WRITE) {
            return Err(EINVAL);
        }
        Ok(this)
    }

    /// The rights that a window grants; none if it asks for what no window has.
    pub(crate) fn of_window(flags: u32) -> Option<Self> {
        let this = Self(flags & 0xf);
        (this.0 == flags).then_some(this)
    }

    /// Whether the peer may change memory.
    pub(crate) fn writes(self) -> bool {
        self.0 & (Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) != 0
    }

    /// The rights that a queue pair grants to its peer.
    pub(crate) fn of_qp(flags: u32) -> Self {
        Self(flags & 0xf)
    }

    /// Whether all rights of `wanted` are among these.
    #[inline]
    pub(crate) fn allows(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// A memory region.
pub(crate) struct Mr {
    pdn: u32,
    rights: Access,
    start: u64,
    length: u64,
    backing: Backing,
}

impl Mr {
    /// A region of `length` bytes that begins at the virtual address `start`.
    pub(crate) fn new(pd: &Pd, backing: Backing, start: u64, length: u64, rights: Access) -> Self {
        Self {
            pdn: pd.number,
            rights,
            start,
            length,
            backing,
        }
    }

    /// Takes over what is given: another domain, rights, or memory with its first
    /// address and length.
    pub(crate) fn change(
        &mut self,
        pd: Option<&Pd>,
        rights: Option<Access>,
        memory: Option<(Backing, u64, u64)>,
    ) {
        self.pdn = pd.map_or(self.pdn, Pd::pdn);
        self.rights = rights.unwrap_or(self.rights);
        if let Some((backing, start, length)) = memory {
            (self.backing, self.start, self.length) = (backing, start, length);
        }
    }

    /// The offset of `va` in the backing, if the region belongs to `pdn`, grants
    /// `wanted`, and has `len` bytes there.
    #[inline]
    pub(crate) fn check(&self, pdn: u32, va: u64, len: u64, wanted: Access) -> Option<u64> {
        let offset = va.wrapping_sub(self.start);
        let inside = offset <= self.length && len <= self.length - offset;
        (inside && self.pdn == pdn && self.rights.allows(wanted)).then_some(offset)
    }

    /// The memory itself.
    #[inline]
    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }
}

impl Device {
    /// Gives `mr` an unpredictable key and makes it known.
    ///
    /// # Errors
    ///
    /// `ENOMEM` beyond the device's limit.
    pub(crate) fn add_mr(&self, mr: Mr) -> Result<u32> {
        let mr = KBox::new(mr, GFP_KERNEL)?;
        let used = &mut *self.mr_alloc.lock();
        if *used >= limits::MAX_MR {
            return Err(ENOMEM);
        }
        // Slot and check bits are both random: nothing to count up from.
        let mut key = random() & !WINDOW_BIT;
        while key == 0 || !self.mrs.is_free(key) {
            let slot = key.wrapping_add(1) % limits::MAX_MR;
            key = (key & !(limits::MAX_MR - 1)) | slot;
            if key == 0 {
                key = limits::MAX_MR;
            }
        }
        self.mrs.insert(key, mr)?;
        *used += 1;
        Ok(key)
    }

    /// Changes a region in place, once the copies under way have ended. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown key.
    pub(crate) fn change_mr(&self, key: u32, change: impl FnOnce(&mut Mr)) -> Result {
        self.mrs.change(key, change).then_some(()).ok_or(EINVAL)
    }

    /// Forgets a region, once the copies under way have ended. May sleep.
    pub(crate) fn remove_mr(&self, key: u32) {
        if let Some(mr) = self.mrs.remove(key) {
            *self.mr_alloc.lock() -= 1;
            drop(mr);
        }
    }

    /// The region of `key`. Hold it for one copy only.
    #[inline]
    pub(crate) fn mr(&self, key: u32) -> Option<Entry<'_, Mr>> {
        self.mrs.get(key)
    }
}
