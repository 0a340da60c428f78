// SPDX-License-Identifier: GPL-2.0

//! RDMA over a Thunderbolt or USB4 cable between two hosts.
//!
//! `tb` finds the other host and moves frames, `proto` is the protocol and knows
//! nothing of the kernel, `verbs` is the RDMA device, and `ffi` holds every
//! binding and all `unsafe`. See Documentation/architecture.md.

use kernel::prelude::*;

mod ffi;
// A library that the tests include as well: its items are plain `pub`.
#[allow(unreachable_pub)]
mod proto;
mod tb;
mod verbs;

module! {
    type: Usb4Rdma,
    name: "usb4_rdma",
    authors: ["usb4_rdma contributors"],
    description: "RDMA over Thunderbolt and USB4 host-to-host links",
    license: "GPL",
}

/// What exists while the module is loaded. Fields are dropped in order.
struct Usb4Rdma {
    _tb: tb::Driver,
}

impl kernel::Module for Usb4Rdma {
    fn init(module: &'static ThisModule) -> Result<Self> {
        ffi::check_layouts()?;
        Ok(Self {
            _tb: tb::Driver::new(module)?,
        })
    }
}
