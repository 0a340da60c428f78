// SPDX-License-Identifier: GPL-2.0
//! Shared receive queues.

use super::bindings as c;
use super::ib_context::{Mapping, PdObject};
use super::ib_object::{errno, respond, unsupported, Object, Target};
use super::ib_qp::sge_list;
use crate::verbs::{RecvPost, Srq, SrqCaps};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The core's object of a shared receive queue.
pub(super) type SrqObject = Object<c::ib_srq, Srq>;

impl Target<c::ib_srq> {
    /// Reports that fewer entries than the limit are left.
    pub(crate) fn limit_reached(&self) {
        self.srq_event(c::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED);
    }

    /// Reports that the program spoiled the queue.
    pub(crate) fn failed(&self) {
        self.srq_event(c::ib_event_type_IB_EVENT_SRQ_ERR);
    }

    fn srq_event(&self, event: c::ib_event_type) {
        // SAFETY: Valid until `close`, which waits for the lock.
        self.with(|srq| unsafe { c::u4r_srq_event(srq, event) });
    }
}

pub(super) unsafe extern "C" fn create_srq(
    srq: *mut c::ib_srq,
    attr: *mut c::ib_srq_init_attr,
    udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core hands over valid pointers; `udata` may be NULL.
    errno(unsafe { create(srq, &mut *attr, udata) })
}

/// # Safety
///
/// As for the callback.
unsafe fn create(
    srq: *mut c::ib_srq,
    attr: &mut c::ib_srq_init_attr,
    udata: *mut c::ib_udata,
) -> Result {
    if attr.srq_type != c::ib_srq_type_IB_SRQT_BASIC {
        return Err(unsupported());
    }
    let mut caps = SrqCaps {
        wr: attr.attr.max_wr,
        sge: attr.attr.max_sge,
        limit: attr.attr.srq_limit,
    };
    let ring = Srq::ring(&mut caps)?;
    let mut response = c::u4r_create_srq_resp {
        rq_key: 0,
        rq_bytes: ring.bytes() as u32,
        rq_entries: ring.entries(),
        rq_stride: ring.stride(),
        srqn: 0,
    };
    // SAFETY: The udata of this callback, or NULL.
    let context = unsafe { c::u4r_udata_context(udata) };
    let mut mapping = None;
    if !context.is_null() {
        // SAFETY: The context outlives the objects made in it.
        let (map, key) = unsafe { Mapping::new(context, &ring) }?;
        (mapping, response.rq_key) = (Some(map), key);
    }
    // SAFETY: The core keeps the domain alive as long as the queue.
    let pd = unsafe { PdObject::state((*srq).pd) };
    // SAFETY: `destroy_srq` closes the target before the object goes away.
    let target = unsafe { Target::new(srq) };
    let state = Srq::new(&pd, caps, ring, mapping, target)?;
    // SAFETY: The udata of this callback.
    if let Err(error) = unsafe { respond(udata, &response) } {
        state.destroy();
        return Err(error);
    }
    (attr.attr.max_wr, attr.attr.max_sge) = (caps.wr, caps.sge);
    // SAFETY: Our object, fresh from the core.
    unsafe { SrqObject::attach(srq, state) };
    Ok(())
}

pub(super) unsafe extern "C" fn modify_srq(
    srq: *mut c::ib_srq,
    attr: *mut c::ib_srq_attr,
    mask: c::ib_srq_attr_mask,
    udata: *mut c::ib_udata,
) -> c_int {
    let change = || -> Result {
        // SAFETY: The core keeps the queue alive during the call and hands over valid
        // attributes.
        let (state, attr) = unsafe { (SrqObject::state(srq), &*attr) };
        if mask & c::ib_srq_attr_mask_IB_SRQ_MAX_WR != 0 {
            // SAFETY: The udata of this callback, or NULL.
            unsafe { resize(&state, attr.max_wr, udata) }?;
        }
        if mask & c::ib_srq_attr_mask_IB_SRQ_LIMIT != 0 {
            state.set_limit(attr.srq_limit)?;
        }
        Ok(())
    };
    errno(change())
}

/// # Safety
///
/// `udata` is NULL or the udata of the callback that is running.
unsafe fn resize(state: &Srq, entries: u32, udata: *mut c::ib_udata) -> Result {
    // SAFETY: By the contract.
    let context = unsafe { c::u4r_udata_context(udata) };
    if context.is_null() {
        return Err(unsupported());
    }
    let mut request = c::u4r_modify_srq_req { response: 0 };
    let size = size_of_val(&request);
    // SAFETY: By the contract; there is room for so much.
    let ret = unsafe { c::u4r_udata_in(udata, (&raw mut request).cast(), size) };
    kernel::error::to_result(ret)?;
    let mut caps = SrqCaps {
        wr: entries,
        limit: 0,
        ..state.caps()
    };
    let ring = Srq::ring(&mut caps)?;
    let mut response = c::u4r_create_srq_resp {
        rq_key: 0,
        rq_bytes: ring.bytes() as u32,
        rq_entries: ring.entries(),
        rq_stride: ring.stride(),
        srqn: 0,
    };
    // SAFETY: The context outlives the objects made in it.
    let (mapping, key) = unsafe { Mapping::new(context, &ring) }?;
    response.rq_key = key;
    state.resize(ring, mapping)?;
    let size = size_of_val(&response);
    // SAFETY: The source is valid for its size and has no padding.
    let ret = unsafe { c::u4r_copy_to_user(request.response, (&raw const response).cast(), size) };
    kernel::error::to_result(ret)
}

pub(super) unsafe extern "C" fn query_srq(srq: *mut c::ib_srq, attr: *mut c::ib_srq_attr) -> c_int {
    // SAFETY: The core keeps the queue alive during the call.
    let caps = unsafe { SrqObject::state(srq) }.caps();
    // SAFETY: The core hands over a valid structure.
    let attr = unsafe { &mut *attr };
    attr.max_wr = caps.wr;
    attr.max_sge = caps.sge;
    attr.srq_limit = caps.limit;
    0
}

pub(super) unsafe extern "C" fn destroy_srq(
    srq: *mut c::ib_srq,
    _udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core calls this once, when no queue pair uses it any more.
    let state: Arc<Srq> = unsafe { SrqObject::detach(srq) };
    state.destroy();
    0
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut c::ib_srq,
    wr: *const c::ib_recv_wr,
    bad: *mut *const c::ib_recv_wr,
) -> c_int {
    // SAFETY: The caller keeps the queue alive.
    let state = unsafe { SrqObject::state(srq) };
    let mut next = wr;
    while !next.is_null() {
        // SAFETY: The caller's chain of work requests.
        let request = unsafe { &*next };
        let post = RecvPost {
            // SAFETY: Both members of the union are 64 plain bits.
            wr_id: unsafe { *request.__bindgen_anon_1.wr_id.as_ref() },
            // SAFETY: As above.
            sges: unsafe { sge_list(request.sg_list, request.num_sge) },
        };
        if let Err(error) = state.post_recv(&post) {
            // SAFETY: The caller gave room for the first one that failed.
            unsafe { *bad = next };
            return error.to_errno();
        }
        next = request.next;
    }
    0
}
