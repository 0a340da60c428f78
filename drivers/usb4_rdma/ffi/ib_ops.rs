// SPDX-License-Identifier: GPL-2.0
//! The table of callbacks. What is not in it answers EOPNOTSUPP.

use super::bindings as c;
use super::ib_context::{self, PdObject};
use super::ib_cq::{self, CqObject};
use super::ib_device;
use super::ib_mr;
use super::ib_mw;
use super::ib_object::{zeroed, Object};
use super::ib_qp::{self, QpObject};
use super::ib_srq::{self, SrqObject};
use super::ib_stats;

/// A table that is shared read-only.
pub(super) struct Ops(pub(super) c::ib_device_ops);

// SAFETY: The core copies the table; nobody writes to it.
unsafe impl Sync for Ops {}

extern "C" {
    // THIS_MODULE: its definition moved between kernel versions, its symbol not.
    #[link_name = "__this_module"]
    #[allow(improper_ctypes)]
    static THIS_MODULE: core::cell::UnsafeCell<c::module>;
}

pub(super) static OPS: Ops = Ops(table());

const fn table() -> c::ib_device_ops {
    // SAFETY: A C structure.
    let mut ops: c::ib_device_ops = unsafe { zeroed() };
    // SAFETY: Only the address is taken.
    ops.owner = unsafe { THIS_MODULE.get() };
    ops.driver_id = c::U4R_DRIVER_ID;
    ops.uverbs_abi_ver = c::U4R_ABI_VERSION;

    ops.query_device = Some(ib_device::query_device);
    ops.query_port = Some(ib_device::query_port);
    ops.query_port_speed = Some(ib_device::query_port_speed);
    ops.get_port_immutable = Some(ib_device::get_port_immutable);
    ops.get_link_layer = Some(ib_device::get_link_layer);
    ops.query_pkey = Some(ib_device::query_pkey);
    ops.dealloc_driver = Some(ib_device::dealloc_driver);
    ops.alloc_hw_device_stats = Some(ib_stats::alloc_hw_device_stats);
    ops.alloc_hw_port_stats = Some(ib_stats::alloc_hw_port_stats);
    ops.get_hw_stats = Some(ib_stats::get_hw_stats);

    ops.alloc_ucontext = Some(ib_context::alloc_ucontext);
    ops.dealloc_ucontext = Some(ib_context::dealloc_ucontext);
    ops.disassociate_ucontext = Some(ib_context::disassociate_ucontext);
    ops.mmap = Some(ib_context::mmap);
    ops.mmap_free = Some(ib_context::mmap_free);
    ops.alloc_pd = Some(ib_context::alloc_pd);
    ops.dealloc_pd = Some(ib_context::dealloc_pd);

    ops.reg_user_mr = Some(ib_mr::reg_user_mr);
    ops.reg_user_mr_dmabuf = Some(ib_mr::reg_user_mr_dmabuf);
    ops.rereg_user_mr = Some(ib_mr::rereg_user_mr);
    ops.get_dma_mr = Some(ib_mr::get_dma_mr);
    ops.dereg_mr = Some(ib_mr::dereg_mr);

    ops.alloc_mw = Some(ib_mw::alloc_mw);
    ops.dealloc_mw = Some(ib_mw::dealloc_mw);

    ops.create_cq = Some(ib_cq::create_cq);
    ops.destroy_cq = Some(ib_cq::destroy_cq);
    ops.resize_user_cq = Some(ib_cq::resize_cq);
    ops.poll_cq = Some(ib_cq::poll_cq);
    ops.req_notify_cq = Some(ib_cq::req_notify_cq);

    ops.create_srq = Some(ib_srq::create_srq);
    ops.modify_srq = Some(ib_srq::modify_srq);
    ops.query_srq = Some(ib_srq::query_srq);
    ops.destroy_srq = Some(ib_srq::destroy_srq);
    ops.post_srq_recv = Some(ib_srq::post_srq_recv);

    ops.create_qp = Some(ib_qp::create_qp);
    ops.modify_qp = Some(ib_qp::modify_qp);
    ops.query_qp = Some(ib_qp::query_qp);
    ops.destroy_qp = Some(ib_qp::destroy_qp);
    ops.post_send = Some(ib_qp::post_send);
    ops.post_recv = Some(ib_qp::post_recv);

    ops.size_ib_ucontext = size_of::<Object<c::ib_ucontext, ()>>();
    ops.size_ib_pd = size_of::<PdObject>();
    ops.size_ib_mw = size_of::<c::ib_mw>();
    ops.size_ib_cq = size_of::<CqObject>();
    ops.size_ib_srq = size_of::<SrqObject>();
    ops.size_ib_qp = size_of::<QpObject>();
    ops
}
