// SPDX-License-Identifier: GPL-2.0
//! User contexts, protection domains, and mapping rings into a program.

use super::bindings as c;
use super::ib_device::device_of;
use super::ib_object::{errno, respond, zeroed, Object};
use super::ring::Ring;
use crate::verbs::Pd;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The core's object of a protection domain.
pub(super) type PdObject = Object<c::ib_pd, Pd>;

/// What the core keeps for a mapping; it holds the ring, because a mapping may
/// just be made while the ring's owner goes away.
#[repr(C)]
struct MapEntry {
    core: c::rdma_user_mmap_entry,
    ring: ManuallyDrop<Arc<Ring>>,
}

/// A ring that a program may map, until this is dropped. Mappings made before
/// keep their pages.
pub(crate) struct Mapping(NonNull<c::rdma_user_mmap_entry>);

// SAFETY: The core's functions on entries may be called from any thread.
unsafe impl Send for Mapping {}
// SAFETY: As for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Offers `ring` to the program of `context`. Returns it with the key, i.e.
    /// the offset for mmap().
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `context` is a user context that outlives the mapping.
    pub(super) unsafe fn new(
        context: *mut c::ib_ucontext,
        ring: &Arc<Ring>,
    ) -> Result<(Self, u64)> {
        let entry = KBox::new(
            MapEntry {
                // SAFETY: A C structure.
                core: unsafe { zeroed() },
                ring: ManuallyDrop::new(ring.clone()),
            },
            GFP_KERNEL,
        )?;
        let entry = KBox::into_raw(entry);
        let core = entry.cast::<c::rdma_user_mmap_entry>();
        // SAFETY: `core` is zeroed and lies in a box that `mmap_free` frees.
        let ret = unsafe { c::rdma_user_mmap_entry_insert(context, core, ring.bytes()) };
        if ret != 0 {
            // SAFETY: The core did not take it.
            unsafe { free_entry(core) };
            return Err(Error::from_errno(ret));
        }
        // SAFETY: Filled in by the insertion.
        let key = unsafe { (*core).start_pgoff as u64 } << kernel::page::PAGE_SHIFT;
        let core = NonNull::new(core).ok_or(ENOMEM)?;
        Ok((Self(core), key))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: Inserted by `new`, removed once, here.
        unsafe { c::rdma_user_mmap_entry_remove(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// `core` lies in a `MapEntry` made by `Mapping::new` that nobody uses any more.
unsafe fn free_entry(core: *mut c::rdma_user_mmap_entry) {
    // SAFETY: By the contract; the core's part lies at offset 0 of the box.
    let mut entry = unsafe { KBox::from_raw(core.cast::<MapEntry>()) };
    // SAFETY: Dropped once, here.
    unsafe { ManuallyDrop::drop(&mut entry.ring) };
}

pub(super) unsafe extern "C" fn mmap_free(entry: *mut c::rdma_user_mmap_entry) {
    // SAFETY: The core calls this once, when the last reference is gone.
    unsafe { free_entry(entry) };
}

pub(super) unsafe extern "C" fn mmap(
    context: *mut c::ib_ucontext,
    vma: *mut c::vm_area_struct,
) -> c_int {
    // SAFETY: The core hands over a live context and the area being mapped.
    let entry = unsafe { c::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: Entries are only made by `Mapping::new`; we hold a reference.
    let ring = unsafe { (*entry.cast::<MapEntry>()).ring.as_ptr() };
    // SAFETY: The ring lives as long as the entry; the core checked the length.
    let ret = unsafe { c::u4r_ring_map(vma, ring) };
    // SAFETY: Got above.
    unsafe { c::rdma_user_mmap_entry_put(entry) };
    ret
}

pub(super) unsafe extern "C" fn alloc_ucontext(
    _context: *mut c::ib_ucontext,
    udata: *mut c::ib_udata,
) -> c_int {
    let response = c::u4r_alloc_ucontext_resp {
        abi_version: c::U4R_ABI_VERSION,
        max_inline: c::U4R_MAX_INLINE,
        max_sge: c::U4R_MAX_SGE,
        reserved: 0,
    };
    // SAFETY: The udata of this callback.
    errno(unsafe { respond(udata, &response) })
}

pub(super) unsafe extern "C" fn dealloc_ucontext(_context: *mut c::ib_ucontext) {
    // The core has destroyed everything of the context before.
}

pub(super) unsafe extern "C" fn disassociate_ucontext(_context: *mut c::ib_ucontext) {
    // Rings are ordinary memory: mappings stay as they are, with the flushed
    // completions in them. Its presence is what lets the core take the device
    // away from a program that runs.
}

pub(super) unsafe extern "C" fn alloc_pd(pd: *mut c::ib_pd, udata: *mut c::ib_udata) -> c_int {
    let make = || -> Result {
        // SAFETY: The core filled in the device, which is registered.
        let device = unsafe { device_of((*pd).device) };
        let state = Pd::new(&device)?;
        let response = c::u4r_alloc_pd_resp {
            pdn: state.pdn(),
            reserved: 0,
        };
        // SAFETY: The udata of this callback.
        unsafe { respond(udata, &response) }?;
        // SAFETY: Our object, fresh from the core.
        unsafe { PdObject::attach(pd, state) };
        Ok(())
    };
    errno(make())
}

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut c::ib_pd, _udata: *mut c::ib_udata) -> c_int {
    // SAFETY: The core calls this once, when nothing uses the domain any more.
    drop(unsafe { PdObject::detach(pd) });
    0
}
