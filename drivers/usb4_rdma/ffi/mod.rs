// SPDX-License-Identifier: GPL-2.0

//! Everything that talks to C, and all of the module's `unsafe`.

pub(crate) mod abi;
pub(crate) mod bindings;
pub(crate) mod clock;
mod copy;
mod dmabuf;
pub(crate) mod ib_context;
mod ib_cq;
pub(crate) mod ib_device;
mod ib_mr;
mod ib_mw;
pub(crate) mod ib_object;
mod ib_ops;
pub(crate) mod ib_qp;
mod ib_srq;
mod ib_stats;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod params;
pub(crate) mod proto_qp;
pub(crate) mod ring;
pub(crate) mod slot_table;
pub(crate) mod tb_frames;
pub(crate) mod tb_netdev;
pub(crate) mod tb_ring;
pub(crate) mod tb_rxbuf;
pub(crate) mod tb_service;
pub(crate) mod tb_xdomain;
pub(crate) mod umem;

use kernel::prelude::*;

/// Compares the sizes of the C types that bindgen computed with those of
/// the C compiler: a mismatch would corrupt memory, so the module refuses to load.
///
/// # Errors
///
/// `EINVAL` on a mismatch.
pub(crate) fn check_layouts() -> Result {
    // SAFETY: these functions only return constants.
    let pairs = unsafe {
        [
            (bindings::u4r_sizeof_tb_ring(), size_of::<bindings::tb_ring>()),
            (bindings::u4r_sizeof_tb_xdomain(), size_of::<bindings::tb_xdomain>()),
        ]
    };
    for (n, (c, rust)) in pairs.iter().enumerate() {
        if c != rust {
            pr_err!("layout {} differs: {} bytes in C, {} in Rust\n", n, c, rust);
            return Err(EINVAL);
        }
    }
    ib_object::check_layouts()
}

/// 32 random bits that nobody can predict.
pub(crate) fn random() -> u32 {
    // SAFETY: callable in any context.
    unsafe { bindings::u4r_random() }
}
