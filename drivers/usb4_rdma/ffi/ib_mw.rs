// SPDX-License-Identifier: GPL-2.0
//! Memory windows. They are bound and invalidated by work requests.

use super::bindings as c;
use super::ib_context::PdObject;
use super::ib_object::errno;
use kernel::prelude::*;

pub(super) unsafe extern "C" fn alloc_mw(mw: *mut c::ib_mw, _udata: *mut c::ib_udata) -> c_int {
    // SAFETY: The core filled in domain and type, and keeps the domain alive as long
    // as the window.
    let (pd, kind) = unsafe { (PdObject::state((*mw).pd), (*mw).type_) };
    let type2 = kind == c::ib_mw_type_IB_MW_TYPE_2;
    errno(pd.device().add_window(&pd, type2).map(|rkey| {
        // SAFETY: Our object, fresh from the core.
        unsafe { (*mw).rkey = rkey };
    }))
}

pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut c::ib_mw) -> c_int {
    // SAFETY: The core calls this once and keeps the domain alive until then.
    unsafe { PdObject::state((*mw).pd).device().remove_window((*mw).rkey) };
    0
}
