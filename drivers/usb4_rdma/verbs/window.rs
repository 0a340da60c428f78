// SPDX-License-Identifier: GPL-2.0
//! Memory windows: keys of their own for a part of a region, given out and taken
//! back by work requests.
//!
//! A window's key has the top bit set, which a region's never has. Its low 8 bits
//! are the program's to choose at each binding, the rest names the window. A window
//! refers to its region by key, so a region may go at any time; then the window
//! leads nowhere.
//!
//! Lock order: QP -> window (`bound`) and nothing under it; `mw_alloc` alone.

use super::env::Io;
use super::mr::{Access, Mr, Pd};
use super::send_queue::Entry;
use super::{limits, Device};
use crate::ffi::{abi, random, slot_table};
use crate::proto::status::{Nak, WcStatus};
use kernel::prelude::*;
use kernel::sync::{Arc, SpinLock};

/// In the key of a window, not in that of a region.
pub(super) const WINDOW_BIT: u32 = 1 << 31;
/// The bits of a key that the program chooses.
const CHOSEN: u32 = 0xff;

/// What a window shows.
#[derive(Clone, Copy)]
struct Bound {
    rkey: u32,
    /// Type 2: through this queue pair only.
    qpn: u32,
    region: u32,
    start: u64,
    length: u64,
    rights: Access,
}

/// A memory window.
#[pin_data(PinnedDrop)]
pub(crate) struct Window {
    pd: Arc<Pd>,
    /// Bound to a queue pair and invalidated by keys; else by bind requests alone.
    type2: bool,
    #[pin]
    bound: SpinLock<Option<Bound>>,
}

impl Window {
    /// Whether a binding of this length may follow `old`.
    fn may_bind(&self, old: Option<&Bound>, length: u64) -> bool {
        !self.type2 || (old.is_none() && length != 0)
    }
}

#[pinned_drop]
impl PinnedDrop for Window {
    fn drop(self: Pin<&mut Self>) {
        self.pd.device().mws.give_back();
    }
}

impl Device {
    /// Makes a window that shows nothing; its key.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also beyond the device's limit.
    pub(crate) fn add_window(&self, pd: &Arc<Pd>, type2: bool) -> Result<u32> {
        self.mws.take(limits::MAX_MW)?;
        let made = Arc::pin_init(
            pin_init!(Window {
                pd: pd.clone(),
                type2,
                bound <- kernel::new_spinlock!(None, "u4r_window"),
            }),
            GFP_KERNEL,
        );
        let window = match made {
            Ok(window) => KBox::new(window, GFP_KERNEL)?,
            Err(error) => {
                self.mws.give_back();
                return Err(error);
            }
        };
        let _alloc = self.mw_alloc.lock();
        let mut name = (random() | WINDOW_BIT) >> 8;
        while !self.windows.is_free(name) {
            let slot = name.wrapping_add(1) % limits::MAX_MW;
            name = (name & !(limits::MAX_MW - 1)) | slot;
        }
        self.windows.insert(name, window)?;
        Ok(name << 8)
    }

    /// Forgets a window; what comes by its key is refused from now on. May sleep.
    pub(crate) fn remove_window(&self, rkey: u32) {
        drop(self.windows.remove(rkey >> 8));
    }

    fn window(&self, rkey: u32) -> Option<Arc<Window>> {
        if rkey & WINDOW_BIT == 0 {
            return None;
        }
        self.windows
            .get(rkey >> 8)
            .map(|window| Arc::clone(&window))
    }
}

impl Io {
    /// The region behind a window, with the offset of `va`, if the peer may do that.
    pub(super) fn through_window(
        &self,
        rkey: u32,
        va: u64,
        len: u32,
        wanted: Access,
    ) -> Option<(slot_table::Entry<'_, Mr>, u64)> {
        let device = self.pd.device();
        let (region, local) = {
            let window = device.windows.get(rkey >> 8)?;
            let bound = (*window.bound.lock())?;
            let offset = va.wrapping_sub(bound.start);
            let inside = offset <= bound.length && u64::from(len) <= bound.length - offset;
            let ours = window.pd.pdn() == self.pd.pdn()
                && (!window.type2 || bound.qpn == self.qpn)
                && bound.rkey == rkey;
            if !(inside && ours && bound.rights.allows(wanted)) {
                return None;
            }
            // The window grants the right; the region must only be writable at all.
            let local = if wanted == Access::REMOTE_READ {
                Access::LOCAL_READ
            } else {
                Access::LOCAL_WRITE
            };
            (bound.region, local)
        };
        let mr = device.mr(region)?;
        let offset = mr.check(self.pd.pdn(), va, u64::from(len), local)?;
        Some((mr, offset))
    }

    /// Does a bind or local invalidate request.
    pub(super) fn local(&self, entry: &Entry) -> Result<(), WcStatus> {
        if u32::from(entry.opcode) == abi::U4R_OP_BIND_MW {
            self.bind(entry).ok_or(WcStatus::MwBindErr)
        } else if self.close_window(entry.imm) {
            Ok(())
        } else {
            Err(WcStatus::MwBindErr)
        }
    }

    /// Binds a window; see the ABI for the members. None: it cannot be.
    fn bind(&self, entry: &Entry) -> Option<()> {
        let device = self.pd.device();
        let (rkey, start, length) = (entry.imm, entry.remote_addr, entry.compare_add);
        let (region, flags) = (entry.swap as u32, (entry.swap >> 32) as u32);
        let window = device.window(rkey)?;
        // The same window, by another name.
        if (rkey ^ entry.rkey) & !CHOSEN != 0 || window.pd.pdn() != self.pd.pdn() {
            return None;
        }
        let rights = Access::of_window(flags)?;
        if length != 0 {
            let mr = device.mr(region)?;
            let needed = if rights.writes() {
                Access::MW_BIND_WRITABLE
            } else {
                Access::MW_BIND
            };
            mr.check(self.pd.pdn(), start, length, needed)?;
        }
        let mut bound = window.bound.lock();
        if !window.may_bind(bound.as_ref(), length) {
            return None;
        }
        *bound = (length != 0).then_some(Bound {
            rkey,
            qpn: self.qpn,
            region,
            start,
            length,
            rights,
        });
        Some(())
    }

    /// Takes a window back by its key. False if the key is none of a type 2 window
    /// bound to this queue pair.
    fn close_window(&self, rkey: u32) -> bool {
        let Some(window) = self.pd.device().window(rkey) else {
            return false;
        };
        let mut bound = window.bound.lock();
        let ours = bound.is_some_and(|bound| bound.rkey == rkey && bound.qpn == self.qpn);
        if ours && window.type2 {
            *bound = None;
        }
        ours && window.type2
    }

    /// The peer takes a window back.
    pub(super) fn invalidate_window(&self, rkey: u32) -> Result<(), Nak> {
        if self.close_window(rkey) {
            Ok(())
        } else {
            Err(Nak::RemAccess)
        }
    }
}

// A window's name has 24 bits, of which the low ones are the place in the table.
const _: () = assert!(limits::MAX_MW.is_power_of_two() && limits::MAX_MW <= 1 << 16);
