// SPDX-License-Identifier: GPL-2.0
//! Memory regions.

use super::bindings as c;
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
}

/// Makes the region known under a new key and wraps it for the core.
fn publish(pd: &Pd, mr: Mr) -> Result<*mut c::ib_mr> {
    // SAFETY: A C structure.
    let core = unsafe { zeroed() };
    let object = KBox::new(MrObject { core, key: 0 }, GFP_KERNEL)?;
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
        // SAFETY: The domain's device is registered.
        let memory = unsafe { UserMem::pin((*pd).device, start, length, access as u32) }?;
        publish(
            &state,
            Mr::new(&state, Backing::User(memory), virt_addr, length, rights),
        )
    };
    pointer(register())
}

pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut c::ib_pd, access: c_int) -> *mut c::ib_mr {
    // SAFETY: The core keeps the domain alive during the call.
    let state = unsafe { PdObject::state(pd) };
    let register = || -> Result<*mut c::ib_mr> {
        let rights = Access::from_verbs(access as u32)?;
        publish(
            &state,
            Mr::new(&state, Backing::Kernel, 0, u64::MAX, rights),
        )
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
