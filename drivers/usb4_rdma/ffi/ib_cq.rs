// SPDX-License-Identifier: GPL-2.0
//! Completion queues.

use super::bindings as c;
use super::ib_context::Mapping;
use super::ib_device::device_of;
use super::ib_object::{errno, respond, unsupported, zeroed, Object, Target};
use crate::verbs::{Completion, Cq, Opcode};
use kernel::prelude::*;
use kernel::sync::Arc;

/// The core's object of a completion queue.
pub(super) type CqObject = Object<c::ib_cq, Cq>;

pub(super) unsafe extern "C" fn create_cq(
    cq: *mut c::ib_cq,
    attr: *const c::ib_cq_init_attr,
    attrs: *mut c::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: The core hands over valid pointers; `attrs` may be NULL.
    errno(unsafe { create(cq, &*attr, attrs) })
}

/// # Safety
///
/// As for the callback.
unsafe fn create(
    cq: *mut c::ib_cq,
    attr: &c::ib_cq_init_attr,
    attrs: *mut c::uverbs_attr_bundle,
) -> Result {
    if attr.flags != 0 {
        return Err(unsupported());
    }
    // SAFETY: The udata of this callback, or NULL.
    let udata = unsafe { c::u4r_bundle_udata(attrs) };
    // SAFETY: As above.
    let context = unsafe { c::u4r_udata_context(udata) };
    // SAFETY: The core filled in the device.
    let device = unsafe { device_of((*cq).device) };
    let ring = Cq::ring(attr.cqe)?;
    let mut response = c::u4r_create_cq_resp {
        ring_key: 0,
        ring_bytes: ring.bytes() as u32,
        entries: ring.entries(),
        cqn: 0,
        reserved: 0,
    };
    let mut mapping = None;
    if !context.is_null() {
        // SAFETY: The context outlives the objects made in it.
        let (map, key) = unsafe { Mapping::new(context, &ring) }?;
        mapping = Some(map);
        response.ring_key = key;
    }
    // SAFETY: `destroy_cq` closes the target before the object goes away.
    let target = unsafe { Target::new(cq) };
    let state = Cq::new(&device, ring, mapping, target)?;
    response.cqn = state.number();
    // SAFETY: The udata of this callback.
    unsafe { respond(udata, &response) }?;
    // SAFETY: Our object, fresh from the core.
    unsafe {
        (*cq).cqe = response.entries as c_int;
        CqObject::attach(cq, state);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn resize_cq(
    cq: *mut c::ib_cq,
    entries: c_uint,
    udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core hands over valid pointers, `udata` of a program.
    errno(unsafe { resize(cq, entries, udata) })
}

/// # Safety
///
/// As for the callback.
unsafe fn resize(cq: *mut c::ib_cq, entries: u32, udata: *mut c::ib_udata) -> Result {
    // SAFETY: The core keeps the queue alive during the call.
    let state = unsafe { CqObject::state(cq) };
    // SAFETY: The udata of this callback.
    let context = unsafe { c::u4r_udata_context(udata) };
    if context.is_null() {
        return Err(unsupported());
    }
    let ring = Cq::ring(entries)?;
    // SAFETY: The context outlives the objects made in it.
    let (mapping, ring_key) = unsafe { Mapping::new(context, &ring) }?;
    let response = c::u4r_resize_cq_resp {
        ring_key,
        ring_bytes: ring.bytes() as u32,
        entries: ring.entries(),
    };
    state.resize(ring, mapping)?;
    // SAFETY: Our object; the core serialises what changes it.
    unsafe { (*cq).cqe = response.entries as c_int };
    // SAFETY: The udata of this callback.
    unsafe { respond(udata, &response) }
}

pub(super) unsafe extern "C" fn destroy_cq(cq: *mut c::ib_cq, _udata: *mut c::ib_udata) -> c_int {
    // SAFETY: The core calls this once, when no queue pair uses it any more.
    let state: Arc<Cq> = unsafe { CqObject::detach(cq) };
    state.destroy();
    0
}

fn wc_opcode(opcode: Opcode) -> c::ib_wc_opcode {
    match opcode {
        Opcode::Send => c::ib_wc_opcode_IB_WC_SEND,
        Opcode::Write => c::ib_wc_opcode_IB_WC_RDMA_WRITE,
        Opcode::Read => c::ib_wc_opcode_IB_WC_RDMA_READ,
        Opcode::CompareSwap => c::ib_wc_opcode_IB_WC_COMP_SWAP,
        Opcode::FetchAdd => c::ib_wc_opcode_IB_WC_FETCH_ADD,
        Opcode::BindMw => c::ib_wc_opcode_IB_WC_BIND_MW,
        Opcode::AtomicWrite => c::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
        Opcode::LocalInv => c::ib_wc_opcode_IB_WC_LOCAL_INV,
        Opcode::Recv => c::ib_wc_opcode_IB_WC_RECV,
        Opcode::RecvWriteImm => c::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
    }
}

/// Fills in one completion of a kernel user.
fn fill(wc: &mut c::ib_wc, qp: *mut c::ib_qp, from: &Completion) {
    // SAFETY: A C structure.
    *wc = unsafe { zeroed() };
    // SAFETY: Members of these unions are plain numbers.
    unsafe { *wc.__bindgen_anon_1.wr_id.as_mut() = from.wr_id };
    wc.status = u32::from(from.status);
    wc.opcode = wc_opcode(from.opcode);
    wc.byte_len = from.byte_len;
    wc.qp = qp;
    wc.src_qp = from.src_qpn;
    wc.port_num = 1;
    if u32::from(from.flags) & c::U4R_WCF_IMM != 0 {
        wc.wc_flags |= c::ib_wc_flags_IB_WC_WITH_IMM as c_int;
        // SAFETY: As above.
        unsafe { *wc.ex.imm_data.as_mut() = from.imm };
    }
    if u32::from(from.flags) & c::U4R_WCF_INV != 0 {
        wc.wc_flags |= c::ib_wc_flags_IB_WC_WITH_INVALIDATE as c_int;
        // SAFETY: As above.
        unsafe { *wc.ex.invalidate_rkey.as_mut() = from.imm };
    }
}

pub(super) unsafe extern "C" fn poll_cq(
    cq: *mut c::ib_cq,
    count: c_int,
    wc: *mut c::ib_wc,
) -> c_int {
    // SAFETY: The caller keeps the queue alive.
    let state = unsafe { CqObject::state(cq) };
    let mut done = 0;
    while done < count {
        let Some(completion) = state.poll() else {
            break;
        };
        // SAFETY: The caller gave room for `count` entries. A kernel user polls a
        // queue empty before it destroys the queue pairs it polls for.
        unsafe {
            let qp = completion.owner as *mut c::ib_qp;
            fill(&mut *wc.add(done as usize), qp, &completion);
        }
        done += 1;
    }
    done
}

pub(super) unsafe extern "C" fn req_notify_cq(
    cq: *mut c::ib_cq,
    flags: c::ib_cq_notify_flags,
) -> c_int {
    // SAFETY: The caller keeps the queue alive.
    let state = unsafe { CqObject::state(cq) };
    let mask = c::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK;
    let solicited = flags & mask == c::ib_cq_notify_flags_IB_CQ_SOLICITED;
    let missed = state.arm(solicited);
    let report = flags & c::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
    c_int::from(missed && report)
}
