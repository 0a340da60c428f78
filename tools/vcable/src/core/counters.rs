// SPDX-License-Identifier: GPL-2.0
//! Named counters, as a front end shows them.

/// One counter of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Dotted name, for example `host.a.rx1.frames` or `cable.c0.a_to_b.bytes`.
    pub name: String,
    /// Value since the fabric was made.
    pub value: u64,
}

/// Declares a struct of counters that can list itself under its fields' names.
macro_rules! counter_set {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name {
            $($(#[$inner])* pub $field: u64,)*
        }

        impl $name {
            /// Appends every counter as `prefix.field`.
            pub fn append(&self, prefix: &str, out: &mut Vec<Counter>) {
                $(out.push(Counter {
                    name: format!("{prefix}.{}", stringify!($field)),
                    value: self.$field,
                });)*
            }
        }
    };
}

counter_set! {
    /// What one ring did; a TX ring leaves the RX-only ones at 0 and the other way round.
    RingCounters {
        /// Frames sent or received.
        frames,
        /// Payload bytes of them.
        bytes,
        /// Times that the ring was started.
        starts,
        /// TX frames completed but lost because no enabled path leads to a running ring.
        no_path,
        /// TX: times that the receiver's lack of buffers held the ring up.
        backpressure,
        /// RX frames dropped because no buffer was posted.
        no_buffer,
        /// RX frames dropped because their sof or eof is outside the ring's masks.
        masked,
        /// RX frames cut to the ring's frame size, completed with the overrun flag.
        overruns,
        /// Descriptors or buffers that the guest has not mapped.
        dma_faults,
        /// Polls that found an index outside the ring.
        bad_index,
        /// Completions that asked for an interrupt.
        completions,
    }
}

counter_set! {
    /// What one host did.
    HostCounters {
        /// Register reads that trapped.
        mmio_reads,
        /// Register writes that trapped.
        mmio_writes,
        /// Accesses that hit no register.
        stray,
        /// Interrupt messages raised.
        interrupts,
        /// Function or host router resets.
        resets,
        /// Control packets from the guest.
        ctl_from_guest,
        /// Control packets into the guest's ring 0.
        ctl_to_guest,
        /// Control packets from the guest with a wrong CRC or length.
        ctl_malformed,
        /// Control packets of a type that the router does not know.
        ctl_unknown,
        /// Error replies.
        ctl_errors,
        /// Control packets lost because the queue to the guest was full or its ring stopped.
        ctl_dropped,
        /// XDomain packets handed to a peer.
        xdomain_sent,
        /// XDomain packets dropped because no link is up on their route.
        xdomain_dropped,
        /// Plug and unplug events, without repetitions.
        events,
        /// Repetitions of events that were not acknowledged in time.
        event_resends,
        /// Acknowledgements that matched an event under way.
        event_acks,
        /// Other acknowledgements.
        event_acks_stray,
    }
}

counter_set! {
    /// What one direction of a cable carried.
    DirectionCounters {
        /// Frames put on the wire.
        frames,
        /// Payload bytes of them.
        bytes,
        /// Frames lost because nothing took them at the far end.
        dead_end,
        /// Frames lost with the link.
        link_down,
        /// XDomain packets.
        control,
    }
}
