// SPDX-License-Identifier: GPL-2.0

//! The thunderbolt side.

use kernel::prelude::*;

/// The service driver and all that hangs on it.
pub(crate) struct Driver;

impl Driver {
    pub(crate) fn new(_module: &'static ThisModule) -> Result<Self> {
        pr_info!("loaded\n");
        Ok(Self)
    }
}
