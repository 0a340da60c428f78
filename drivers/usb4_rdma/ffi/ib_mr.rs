// SPDX-License-Identifier: GPL-2.0
//! Memory regions.

use super::bindings as c;
use super::dmabuf::DmaBuf;
use super::ib_context::PdObject;
use super::ib_object::{errno, unsupported, zeroed};
use super::umem::{Backing, UserMem};
use crate::verbs::{Access, Mr, Pd};
use kernel::prelude::*;

/// The core wants us to allocate this one ourselves.
#[repr(C)]
struct MrObject {
    core: c::ib_mr,
    key: u32,
    /// The program's memory and the flags it was registered with.
    user: User,
}

/// What a program named when it registered, or registered anew.
#[derive(Clone, Copy, Default)]
struct User {
    start: u64,
    length: u64,
    virt_addr: u64,
    access: u32,
}

impl User {
    /// # Safety
    ///
    /// `device` is a registered ib_device.
    unsafe fn pin(&self, device: *mut c::ib_device) -> Result<UserMem> {
        // SAFETY: By the contract.
        unsafe { UserMem::pin(device, self.start, self.length, self.access) }
    }

    /// Whether the pages are pinned for writing.
    fn is_writable(&self) -> bool {
        const WRITES: u32 = c::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | c::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | c::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
            | c::ib_access_flags_IB_ACCESS_MW_BIND;
        self.access & WRITES != 0
    }
}

/// Makes the region known under a new key and wraps it for the core.
fn publish(pd: &Pd, mr: Mr, user: User) -> Result<*mut c::ib_mr> {
    // SAFETY: A C structure.
    let core = unsafe { zeroed() };
    let object = KBox::new(MrObject { core, key: 0, user }, GFP_KERNEL)?;
    let key = pd.device().add_mr(mr)?;
    let object = KBox::into_raw(object);
    // SAFETY: Ours alone until it is returned.
    unsafe {
        (*object).key = key;
        (*object).core.lkey = key;
        (*object).core.rkey = key;
    }
    Ok(object.cast())
}

fn pointer(result: Result<*mut c::ib_mr>) -> *mut c::ib_mr {
    // An error pointer, as the core expects.
    result.unwrap_or_else(|error| error.to_errno() as isize as *mut c::ib_mr)
}

pub(super) unsafe extern "C" fn reg_user_mr(
    pd: *mut c::ib_pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    access: c_int,
    dmah: *mut c::ib_dmah,
    _udata: *mut c::ib_udata,
) -> *mut c::ib_mr {
    if !dmah.is_null() {
        return pointer(Err(unsupported()));
    }
    // SAFETY: The core keeps the domain alive during the call.
    let state = unsafe { PdObject::state(pd) };
    let register = || -> Result<*mut c::ib_mr> {
        let rights = Access::from_verbs(access as u32)?;
        let user = User {
            start,
            length,
            virt_addr,
            access: access as u32,
        };
        // SAFETY: The domain's device is registered.
        let memory = unsafe { user.pin((*pd).device) }?;
        let mr = Mr::new(&state, Backing::User(memory), virt_addr, length, rights);
        publish(&state, mr, user)
    };
    pointer(register())
}

/// Registers a part of a DMA buffer.
pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
    pd: *mut c::ib_pd,
    offset: u64,
    length: u64,
    virt_addr: u64,
    fd: c_int,
    access: c_int,
    dmah: *mut c::ib_dmah,
    _attrs: *mut c::uverbs_attr_bundle,
) -> *mut c::ib_mr {
    if !dmah.is_null() {
        return pointer(Err(unsupported()));
    }
    // SAFETY: The core keeps the domain alive during the call.
    let state = unsafe { PdObject::state(pd) };
    let register = || -> Result<*mut c::ib_mr> {
        let rights = Access::from_verbs(access as u32)?;
        // SAFETY: The domain's device is registered.
        let memory = unsafe { DmaBuf::map((*pd).device, fd, offset, length) }?;
        let mr = Mr::new(&state, Backing::DmaBuf(memory), virt_addr, length, rights);
        // There is no memory of the program to pin anew: start 0.
        let user = User {
            start: 0,
            length,
            virt_addr,
            access: access as u32,
        };
        publish(&state, mr, user)
    };
    pointer(register())
}

/// Gives a region another domain, other rights or other memory; its keys stay.
pub(super) unsafe extern "C" fn rereg_user_mr(
    mr: *mut c::ib_mr,
    flags: c_int,
    start: u64,
    length: u64,
    virt_addr: u64,
    access: c_int,
    pd: *mut c::ib_pd,
    _udata: *mut c::ib_udata,
) -> *mut c::ib_mr {
    let has = |flag: u32| flags as u32 & flag != 0;
    // SAFETY: Made by `publish`; the core calls nothing else on it meanwhile.
    let object = unsafe { &mut *mr.cast::<MrObject>() };
    let mut change = || -> Result<*mut c::ib_mr> {
        let mut user = object.user;
        let mut rights = None;
        if has(c::ib_mr_rereg_flags_IB_MR_REREG_ACCESS) {
            rights = Some(Access::from_verbs(access as u32)?);
            user.access = access as u32;
        }
        if has(c::ib_mr_rereg_flags_IB_MR_REREG_TRANS) {
            (user.start, user.length, user.virt_addr) = (start, length, virt_addr);
        }
        // Pages that were pinned for reading only must not be written to.
        let raised = user.is_writable() && !object.user.is_writable();
        let pin = has(c::ib_mr_rereg_flags_IB_MR_REREG_TRANS) || (raised && user.start != 0);
        let memory = if pin {
            // SAFETY: The domain's device is registered.
            let memory = unsafe { user.pin((*pd).device) }?;
            Some((Backing::User(memory), user.virt_addr, user.length))
        } else {
            None
        };
        // SAFETY: The core keeps the new domain (the present one, without a change)
        // alive during the call.
        let state = unsafe { PdObject::state(pd) };
        let pd = has(c::ib_mr_rereg_flags_IB_MR_REREG_PD).then_some(&**state);
        state
            .device()
            .change_mr(object.key, |mr| mr.change(pd, rights, memory))?;
        object.user = user;
        // NULL: the same object goes on.
        Ok(core::ptr::null_mut())
    };
    pointer(change())
}

pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut c::ib_pd, access: c_int) -> *mut c::ib_mr {
    // SAFETY: The core keeps the domain alive during the call.
    let state = unsafe { PdObject::state(pd) };
    let register = || -> Result<*mut c::ib_mr> {
        let rights = Access::from_verbs(access as u32)?;
        let mr = Mr::new(&state, Backing::Kernel, 0, u64::MAX, rights);
        publish(&state, mr, User::default())
    };
    pointer(register())
}

pub(super) unsafe extern "C" fn dereg_mr(mr: *mut c::ib_mr, _udata: *mut c::ib_udata) -> c_int {
    // SAFETY: Made by `publish`; the core calls this once.
    let object = unsafe { KBox::from_raw(mr.cast::<MrObject>()) };
    // SAFETY: The core keeps the region's domain alive until this has returned.
    let pd = unsafe { PdObject::state((*mr).pd) };
    pd.device().remove_mr(object.key);
    drop(object);
    errno(Ok(()))
}
