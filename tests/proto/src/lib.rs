// SPDX-License-Identifier: GPL-2.0
//! The protocol core of the driver outside the kernel, with its tests and its simulation.

#[path = "../../../drivers/usb4_rdma/proto/mod.rs"]
pub mod proto;
pub mod null;
pub mod sim;
