// SPDX-License-Identifier: GPL-2.0
//! Queue pairs: creation, attributes, and posting by kernel users.

use super::bindings as c;
use super::ib_context::{Mapping, PdObject};
use super::ib_cq::CqObject;
use super::ib_object::{errno, respond, unsupported, zeroed, Object, Target};
use super::ib_srq::SrqObject;
use super::ring::Ring;
use crate::verbs::{Caps, Kind, Qp, QpAttr, QpInit, QpState, RecvPost, SendPost, Sge};
use core::ptr::null;
use kernel::prelude::*;
use kernel::sync::Arc;

/// The core's object of a queue pair.
pub(super) type QpObject = Object<c::ib_qp, Qp>;

/// The attributes that every version of verbs knows: IB_QP_STATE to IB_QP_DEST_QPN.
const STANDARD_BITS: u32 = (c::ib_qp_attr_mask_IB_QP_DEST_QPN << 1) - 1;

/// The address that a program gave with modify_qp and wants back from query_qp.
pub(crate) struct Address(c::rdma_ah_attr);

// SAFETY: Plain data: the reference to the GID entry is cut out.
unsafe impl Send for Address {}

impl Address {
    fn copy(from: &c::rdma_ah_attr) -> Self {
        // SAFETY: Plain data, copied bit by bit.
        let mut attr = unsafe { core::ptr::read(from) };
        // Ours would not be counted.
        attr.grh.sgid_attr = null();
        Self(attr)
    }
}

fn kind_of(qp_type: c::ib_qp_type) -> Result<Kind> {
    match qp_type {
        c::ib_qp_type_IB_QPT_RC => Ok(Kind::Rc),
        c::ib_qp_type_IB_QPT_UC => Ok(Kind::Uc),
        _ => Err(unsupported()),
    }
}

fn caps_of(cap: &c::ib_qp_cap) -> Caps {
    Caps {
        send_wr: cap.max_send_wr,
        recv_wr: cap.max_recv_wr,
        send_sge: cap.max_send_sge,
        recv_sge: cap.max_recv_sge,
        inline: cap.max_inline_data,
    }
}

fn caps_into(caps: &Caps, cap: &mut c::ib_qp_cap) {
    cap.max_send_wr = caps.send_wr;
    cap.max_recv_wr = caps.recv_wr;
    cap.max_send_sge = caps.send_sge;
    cap.max_recv_sge = caps.recv_sge;
    cap.max_inline_data = caps.inline;
}

pub(super) unsafe extern "C" fn create_qp(
    qp: *mut c::ib_qp,
    attr: *mut c::ib_qp_init_attr,
    udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core hands over valid pointers; `udata` may be NULL.
    errno(unsafe { create(qp, &mut *attr, udata) })
}

/// # Safety
///
/// As for the callback.
unsafe fn create(
    qp: *mut c::ib_qp,
    attr: &mut c::ib_qp_init_attr,
    udata: *mut c::ib_udata,
) -> Result {
    let kind = kind_of(attr.qp_type)?;
    if attr.create_flags != 0 || !attr.rwq_ind_tbl.is_null() {
        return Err(unsupported());
    }
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: The core keeps domain and completion queues alive as long as the
    // queue pair.
    let (pd, send_cq, recv_cq) = unsafe {
        (
            PdObject::state((*qp).pd),
            CqObject::state(attr.send_cq),
            CqObject::state(attr.recv_cq),
        )
    };
    let srq = if attr.srq.is_null() {
        None
    } else {
        // SAFETY: As above; all shared receive queues of this device are ours.
        let srq = unsafe { SrqObject::state(attr.srq) };
        Some(Arc::clone(&srq))
    };
    // SAFETY: The udata of this callback, or NULL.
    let context = unsafe { c::u4r_udata_context(udata) };
    let mut init = QpInit {
        kind,
        pd: Arc::clone(&pd),
        send_cq: Arc::clone(&send_cq),
        recv_cq: Arc::clone(&recv_cq),
        srq,
        caps: caps_of(&attr.cap),
        signal_all: attr.sq_sig_type == c::ib_sig_type_IB_SIGNAL_ALL_WR,
        kernel: context.is_null(),
        owner: qp as usize,
    };
    let rings = init.rings()?;
    let recv = rings.recv.as_deref();
    let mut response = c::u4r_create_qp_resp {
        sq_key: 0,
        rq_key: 0,
        sq_bytes: rings.send.bytes() as u32,
        rq_bytes: recv.map_or(0, |ring| ring.bytes() as u32),
        sq_entries: rings.send.entries(),
        rq_entries: recv.map_or(0, Ring::entries),
        sq_stride: rings.send.stride(),
        rq_stride: recv.map_or(0, Ring::stride),
        max_inline: init.caps.inline,
        qpn: 0,
    };
    let mut mappings = None;
    if !context.is_null() {
        // SAFETY: The context outlives the objects made in it.
        let map = |ring| unsafe { Mapping::new(context, ring) };
        let (send, sq_key) = map(&rings.send)?;
        response.sq_key = sq_key;
        let mut recv = None;
        if let Some(ring) = &rings.recv {
            let (mapping, rq_key) = map(ring)?;
            (recv, response.rq_key) = (Some(mapping), rq_key);
        }
        mappings = Some((send, recv));
    }
    // SAFETY: `destroy_qp` closes the target before the object goes away.
    let target = unsafe { Target::new(qp) };
    let state = Qp::new(init, rings, mappings, target)?;
    response.qpn = state.number();
    // SAFETY: The udata of this callback.
    if let Err(error) = unsafe { respond(udata, &response) } {
        state.destroy();
        return Err(error);
    }
    caps_into(state.caps(), &mut attr.cap);
    // SAFETY: Our object, fresh from the core.
    unsafe {
        (*qp).qp_num = state.number();
        QpObject::attach(qp, state);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn destroy_qp(qp: *mut c::ib_qp, _udata: *mut c::ib_udata) -> c_int {
    // SAFETY: The core calls this once, when nothing uses it any more.
    let state: Arc<Qp> = unsafe { QpObject::detach(qp) };
    state.target().close();
    state.destroy();
    0
}

fn state_of(state: c::ib_qp_state) -> Result<QpState> {
    match state {
        c::ib_qp_state_IB_QPS_RESET => Ok(QpState::Reset),
        c::ib_qp_state_IB_QPS_INIT => Ok(QpState::Init),
        c::ib_qp_state_IB_QPS_RTR => Ok(QpState::Rtr),
        c::ib_qp_state_IB_QPS_RTS => Ok(QpState::Rts),
        c::ib_qp_state_IB_QPS_ERR => Ok(QpState::Err),
        _ => Err(unsupported()),
    }
}

fn state_into(state: QpState) -> c::ib_qp_state {
    match state {
        QpState::Reset => c::ib_qp_state_IB_QPS_RESET,
        QpState::Init => c::ib_qp_state_IB_QPS_INIT,
        QpState::Rtr => c::ib_qp_state_IB_QPS_RTR,
        QpState::Rts => c::ib_qp_state_IB_QPS_RTS,
        QpState::Err => c::ib_qp_state_IB_QPS_ERR,
    }
}

pub(super) unsafe extern "C" fn modify_qp(
    qp: *mut c::ib_qp,
    attr: *mut c::ib_qp_attr,
    mask: c_int,
    _udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core hands over valid pointers.
    errno(unsafe { modify(qp, &*attr, mask as u32) })
}

/// # Safety
///
/// As for the callback.
unsafe fn modify(qp: *mut c::ib_qp, attr: &c::ib_qp_attr, mask: u32) -> Result {
    if mask & !STANDARD_BITS != 0 || mask & c::ib_qp_attr_mask_IB_QP_ALT_PATH != 0 {
        return Err(unsupported());
    }
    // SAFETY: The core keeps the queue pair alive during the call.
    let state = unsafe { QpObject::state(qp) };
    let has = |bit: u32| mask & bit != 0;
    let mut change = QpAttr::default();
    let next = if has(c::ib_qp_attr_mask_IB_QP_STATE) {
        Some(state_of(attr.qp_state)?)
    } else {
        None
    };
    if has(c::ib_qp_attr_mask_IB_QP_AV) {
        // SAFETY: The core made sure that there is a GRH (RoCE has no other way).
        change.local = Some(unsafe { c::u4r_gid_is_local((*qp).device, &attr.ah_attr.grh.dgid) });
        change.address = Some(Address::copy(&attr.ah_attr));
    }
    change.access =
        has(c::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS).then_some(attr.qp_access_flags as u32);
    change.path_mtu = has(c::ib_qp_attr_mask_IB_QP_PATH_MTU).then_some(attr.path_mtu);
    change.timeout = has(c::ib_qp_attr_mask_IB_QP_TIMEOUT).then_some(attr.timeout);
    change.retry_cnt = has(c::ib_qp_attr_mask_IB_QP_RETRY_CNT).then_some(attr.retry_cnt);
    change.rnr_retry = has(c::ib_qp_attr_mask_IB_QP_RNR_RETRY).then_some(attr.rnr_retry);
    change.min_rnr_timer =
        has(c::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER).then_some(attr.min_rnr_timer);
    change.rq_psn = has(c::ib_qp_attr_mask_IB_QP_RQ_PSN).then_some(attr.rq_psn);
    change.sq_psn = has(c::ib_qp_attr_mask_IB_QP_SQ_PSN).then_some(attr.sq_psn);
    change.dest_qpn = has(c::ib_qp_attr_mask_IB_QP_DEST_QPN).then_some(attr.dest_qp_num);
    change.rd_atomic = has(c::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic);
    change.dest_rd_atomic =
        has(c::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic);
    change.port = has(c::ib_qp_attr_mask_IB_QP_PORT).then_some(attr.port_num);
    let assumed = if has(c::ib_qp_attr_mask_IB_QP_CUR_STATE) {
        Some(state_of(attr.cur_qp_state)?)
    } else {
        None
    };
    // SAFETY: As above.
    let qp_type = unsafe { (*qp).qp_type };
    // SAFETY: The function looks things up in a table.
    let allowed = |from, to| unsafe {
        c::ib_modify_qp_is_ok(state_into(from), state_into(to), qp_type, mask)
    };
    state.modify(assumed, next, change, allowed)
}

pub(super) unsafe extern "C" fn query_qp(
    qp: *mut c::ib_qp,
    attr: *mut c::ib_qp_attr,
    _mask: c_int,
    init: *mut c::ib_qp_init_attr,
) -> c_int {
    // SAFETY: The core keeps the queue pair alive during the call.
    let state = unsafe { QpObject::state(qp) };
    // SAFETY: The core hands over valid structures; it does not zero them.
    let (attr, init) = unsafe { (&mut *attr, &mut *init) };
    // SAFETY: C structures.
    unsafe {
        *attr = zeroed();
        *init = zeroed();
    }
    caps_into(state.caps(), &mut attr.cap);
    caps_into(state.caps(), &mut init.cap);
    init.sq_sig_type = if state.signal_all() {
        c::ib_sig_type_IB_SIGNAL_ALL_WR
    } else {
        c::ib_sig_type_IB_SIGNAL_REQ_WR
    };
    // SAFETY: As above.
    unsafe {
        init.qp_context = (*qp).qp_context;
        init.send_cq = (*qp).send_cq;
        init.recv_cq = (*qp).recv_cq;
        init.srq = (*qp).srq;
        init.qp_type = (*qp).qp_type;
    }
    state.query(|now, known| {
        attr.qp_state = state_into(now);
        attr.cur_qp_state = attr.qp_state;
        attr.path_mig_state = c::ib_mig_state_IB_MIG_MIGRATED;
        attr.path_mtu = known.path_mtu.unwrap_or(c::ib_mtu_IB_MTU_4096);
        attr.rq_psn = known.rq_psn.unwrap_or(0);
        attr.sq_psn = known.sq_psn.unwrap_or(0);
        attr.dest_qp_num = known.dest_qpn.unwrap_or(0);
        attr.qp_access_flags = known.access.unwrap_or(0) as c_int;
        attr.max_rd_atomic = known.rd_atomic.unwrap_or(0);
        attr.max_dest_rd_atomic = known.dest_rd_atomic.unwrap_or(0);
        attr.min_rnr_timer = known.min_rnr_timer.unwrap_or(0);
        attr.port_num = known.port.unwrap_or(0);
        attr.timeout = known.timeout.unwrap_or(0);
        attr.retry_cnt = known.retry_cnt.unwrap_or(0);
        attr.rnr_retry = known.rnr_retry.unwrap_or(0);
        if let Some(address) = &known.address {
            attr.ah_attr = Address::copy(&address.0).0;
        }
    });
    0
}

/// The scatter list of a work request of a kernel user.
///
/// # Safety
///
/// `list` is valid for `count` entries, if `count` is positive.
pub(super) unsafe fn sge_list<'a>(list: *const c::ib_sge, count: c_int) -> &'a [Sge] {
    match usize::try_from(count) {
        // SAFETY: By the contract; `Sge` has the layout of ib_sge.
        Ok(count) if count > 0 => unsafe { core::slice::from_raw_parts(list.cast(), count) },
        _ => &[],
    }
}

const _: () = assert!(size_of::<Sge>() == size_of::<c::ib_sge>());
const _: () = assert!(core::mem::offset_of!(c::ib_sge, addr) == core::mem::offset_of!(Sge, addr));
const _: () =
    assert!(core::mem::offset_of!(c::ib_sge, length) == core::mem::offset_of!(Sge, length));
const _: () = assert!(core::mem::offset_of!(c::ib_sge, lkey) == core::mem::offset_of!(Sge, lkey));

/// # Safety
///
/// `wr` is a work request of a kernel user, of the type that its opcode says.
unsafe fn send_post<'a>(wr: *const c::ib_send_wr) -> Result<SendPost<'a>> {
    // SAFETY: By the contract.
    let common = unsafe { &*wr };
    let mut post = SendPost {
        // SAFETY: Both members of the union are 64 plain bits.
        wr_id: unsafe { *common.__bindgen_anon_1.wr_id.as_ref() },
        // SAFETY: By the contract.
        sges: unsafe { sge_list(common.sg_list, common.num_sge) },
        // SAFETY: Both members of the union are 32 plain bits.
        imm: unsafe { *common.ex.imm_data.as_ref() },
        ..SendPost::default()
    };
    let flag = |theirs, ours: u32| {
        if common.send_flags & theirs != 0 {
            ours as u8
        } else {
            0
        }
    };
    post.flags = flag(c::ib_send_flags_IB_SEND_SIGNALED, c::U4R_SF_SIGNALED)
        | flag(c::ib_send_flags_IB_SEND_SOLICITED, c::U4R_SF_SOLICITED)
        | flag(c::ib_send_flags_IB_SEND_FENCE, c::U4R_SF_FENCE);
    if common.send_flags & c::ib_send_flags_IB_SEND_INLINE != 0 {
        return Err(unsupported());
    }
    post.opcode = match common.opcode {
        c::ib_wr_opcode_IB_WR_SEND => c::U4R_OP_SEND,
        c::ib_wr_opcode_IB_WR_SEND_WITH_IMM => c::U4R_OP_SEND_IMM,
        c::ib_wr_opcode_IB_WR_SEND_WITH_INV => c::U4R_OP_SEND_INV,
        c::ib_wr_opcode_IB_WR_RDMA_WRITE => c::U4R_OP_WRITE,
        c::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => c::U4R_OP_WRITE_IMM,
        c::ib_wr_opcode_IB_WR_RDMA_READ => c::U4R_OP_READ,
        c::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => c::U4R_OP_CMP_SWAP,
        c::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => c::U4R_OP_FETCH_ADD,
        _ => return Err(unsupported()),
    } as u8;
    match u32::from(post.opcode) {
        c::U4R_OP_WRITE | c::U4R_OP_WRITE_IMM | c::U4R_OP_READ => {
            // SAFETY: These opcodes stand in an ib_rdma_wr, which starts with it.
            let rdma = unsafe { &*wr.cast::<c::ib_rdma_wr>() };
            (post.remote_addr, post.rkey) = (rdma.remote_addr, rdma.rkey);
        }
        c::U4R_OP_CMP_SWAP | c::U4R_OP_FETCH_ADD => {
            // SAFETY: These opcodes stand in an ib_atomic_wr, which starts with it.
            let atomic = unsafe { &*wr.cast::<c::ib_atomic_wr>() };
            (post.remote_addr, post.rkey) = (atomic.remote_addr, atomic.rkey);
            (post.compare_add, post.swap) = (atomic.compare_add, atomic.swap);
        }
        _ => {}
    }
    Ok(post)
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut c::ib_qp,
    wr: *const c::ib_send_wr,
    bad: *mut *const c::ib_send_wr,
) -> c_int {
    // SAFETY: The caller keeps the queue pair alive.
    let state = unsafe { QpObject::state(qp) };
    if wr.is_null() && !state.is_kernel() {
        // A program's doorbell: its entries stand in the shared ring.
        return errno(state.doorbell());
    }
    let mut next = wr;
    let mut result = Ok(());
    while !next.is_null() {
        // SAFETY: The caller's chain of work requests.
        result = unsafe { send_post(next) }.and_then(|post| state.post_send(&post));
        if result.is_err() {
            // SAFETY: The caller gave room for the first one that failed.
            unsafe { *bad = next };
            break;
        }
        // SAFETY: As above.
        next = unsafe { (*next).next };
    }
    state.kick();
    errno(result)
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut c::ib_qp,
    wr: *const c::ib_recv_wr,
    bad: *mut *const c::ib_recv_wr,
) -> c_int {
    // SAFETY: The caller keeps the queue pair alive.
    let state = unsafe { QpObject::state(qp) };
    let mut next = wr;
    let mut result = Ok(());
    while !next.is_null() {
        // SAFETY: The caller's chain of work requests.
        let request = unsafe { &*next };
        let post = RecvPost {
            // SAFETY: Both members of the union are 64 plain bits.
            wr_id: unsafe { *request.__bindgen_anon_1.wr_id.as_ref() },
            // SAFETY: As above.
            sges: unsafe { sge_list(request.sg_list, request.num_sge) },
        };
        result = state.post_recv(&post);
        if result.is_err() {
            // SAFETY: The caller gave room for the first one that failed.
            unsafe { *bad = next };
            break;
        }
        next = request.next;
    }
    state.kick();
    errno(result)
}
