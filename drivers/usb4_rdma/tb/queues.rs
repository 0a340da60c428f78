// SPDX-License-Identifier: GPL-2.0

//! The work queues of the thunderbolt side.

use crate::ffi::job::WorkQueue;
use kernel::prelude::*;

/// See the fields.
pub(super) struct Queues {
    /// For what moves frames: the ticker and loopback.
    pub(super) urgent: WorkQueue,
    /// For handshakes and teardown, which sleep for long.
    pub(super) slow: WorkQueue,
}

impl Queues {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            urgent: WorkQueue::new(true)?,
            slow: WorkQueue::new(false)?,
        })
    }
}
