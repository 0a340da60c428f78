// SPDX-License-Identifier: GPL-2.0
//! The verbs side: an RDMA device on a link.
//!
//! Order of reading: device.rs (tables, life), mr.rs, cq.rs, qp.rs (objects),
//! send_queue.rs, recv_ring.rs, recv_queue.rs and srq.rs (shared rings), env.rs (what the protocol core
//! sees), run.rs (what moves it), post.rs (kernel users), stats.rs.

mod cq;
mod device;
mod env;
mod errors;
pub(crate) mod limits;
mod mr;
mod post;
mod qp;
mod recv_queue;
mod recv_ring;
mod run;
mod send_queue;
mod srq;
mod stats;
mod window;

pub(crate) use crate::ffi::abi::Sge;
pub(crate) use crate::proto::qp_state::{QpKind as Kind, QpState};
pub(crate) use cq::{Completion, Cq, Opcode};
pub(crate) use device::Device;
pub(crate) use errors::ERROR_COUNTERS;
pub(crate) use mr::{Access, Mr, Pd};
pub(crate) use post::{RecvPost, SendPost};
pub(crate) use qp::{Caps, Qp, QpAttr, QpInit};
pub(crate) use srq::{Srq, SrqCaps};
pub(crate) use stats::COUNTERS;
