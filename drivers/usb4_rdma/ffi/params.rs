// SPDX-License-Identifier: GPL-2.0

//! The module parameters, defined and checked in params.c. Each call reads the
//! present value, which root may change at any time.

use super::bindings;
use kernel::sync::atomic::{atomic_load, Relaxed};

macro_rules! parameter {
    ($(#[$doc:meta])* $name:ident, $c_name:ident) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name() -> u32 {
            // SAFETY: a C variable of the module's lifetime, written with WRITE_ONCE.
            unsafe { atomic_load(&raw mut bindings::$c_name, Relaxed) }
        }
    };
}

parameter!(
    /// Most lanes to open to a peer, 1..8.
    lanes, u4r_lanes
);
parameter!(
    /// Frames in each ring, a power of two, 64..4096.
    ring_size, u4r_ring_size
);
parameter!(
    /// Period of the supplemental poll in microseconds.
    poll_us, u4r_poll_us
);
parameter!(
    /// Least time between two interrupts of a lane in nanoseconds.
    irq_moderation_ns, u4r_irq_moderation_ns
);
parameter!(
    /// Longest delay of an unasked acknowledgement in microseconds.
    ack_delay_us, u4r_ack_delay_us
);
