// SPDX-License-Identifier: GPL-2.0

//! Everything that talks to C, and all of the module's `unsafe`.

pub(crate) mod bindings;
pub(crate) mod clock;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod params;
pub(crate) mod tb_frames;
pub(crate) mod tb_netdev;
pub(crate) mod tb_ring;
pub(crate) mod tb_rxbuf;
pub(crate) mod tb_service;
pub(crate) mod tb_xdomain;

use kernel::prelude::*;

/// Compares the sizes of the thunderbolt types that bindgen computed with those of
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
    Ok(())
}
