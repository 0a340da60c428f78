// SPDX-License-Identifier: GPL-2.0
//! Counters of protocol events. Plain `u64`s under the lock of what they count; names for debugfs beside them.

use super::tx_stream::Next;
use super::wire::BadFrame;

macro_rules! counters {
    ($(#[$m:meta])* $name:ident { $($(#[$fm:meta])* $field:ident,)* }) => {
        $(#[$m])*
        /// Numbers of events since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$fm])* pub $field: u64,)* }

        impl $name {
            /// Names, in the order of [`Self::values`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
            /// Everything zero.
            pub const ZERO: Self = Self { $($field: 0),* };
            /// Calls `f` with each name and value.
            pub fn each(&self, mut f: impl FnMut(&'static str, u64)) {
                $(f(stringify!($field), self.$field);)*
            }
            /// Adds `other` to this, for totals of many queue pairs.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }
    };
}

counters! {
    /// Events of one queue pair.
    QpCounters {
        /// DATA frames sent for the first time.
        tx_data,
        /// Payload bytes in them.
        tx_bytes,
        /// DATA frames sent again because they were proven lost.
        tx_retransmit,
        /// DATA frames sent again after an RNR wait.
        tx_rnr_resend,
        /// ACK frames sent (acknowledgements that rode on DATA are not counted).
        tx_ack,
        /// RNR NAKs sent.
        tx_rnr,
        /// Refusals sent, each repetition counted.
        tx_nak,
        /// Probes sent.
        tx_probe,
        /// DATA frames placed.
        rx_data,
        /// Payload bytes in them.
        rx_bytes,
        /// ACK frames received.
        rx_ack,
        /// RNR NAKs obeyed.
        rx_rnr,
        /// Refusals received.
        rx_nak,
        /// Probes received.
        rx_probe,
        /// Early frames held.
        rx_held,
        /// Early frames dropped because of the bounds on holding.
        rx_hold_dropped,
        /// Frames received again.
        rx_duplicate,
        /// Frames dropped because a receive entry was missing before them.
        rx_rnr_dropped,
        /// Frames dropped because their stream was refused.
        rx_refused_dropped,
        /// Frames whose PSN lies outside the window.
        rx_out_of_window,
        /// Frames whose sender is not the connected queue pair.
        rx_wrong_sender,
        /// Frames for a queue pair in RESET, INIT or ERR.
        rx_not_ready,
        /// Frames that contradict their stream or their kind of queue pair.
        rx_violation,
        /// Acknowledgements of frames that were never sent, old RNR NAKs, refusals of nothing.
        rx_bad_ack,
        /// UC: messages cut short by a gap.
        uc_gaps,
        /// UC: messages dropped for want of a receive entry, of room in it, or of access.
        uc_dropped,
        /// Requests that failed after the time-out.
        retry_exceeded,
        /// Requests that failed after the RNR retries.
        rnr_exceeded,
        /// Responses of which the sender stopped probing because the peer is silent.
        rsp_silenced,
    }
}

impl QpCounters {
    /// Counts a DATA frame by why it was sent.
    pub fn count_sent(&mut self, why: Next, payload: u16) {
        match why {
            Next::Lost(_) => self.tx_retransmit += 1,
            Next::Again(_) => self.tx_rnr_resend += 1,
            Next::New(_) | Next::Blocked => {
                self.tx_data += 1;
                self.tx_bytes += u64::from(payload);
            }
        }
    }
}

counters! {
    /// Events of one lane.
    LaneCounters {
        tx_frames,
        rx_frames,
        /// LANE UPDATE frames.
        tx_update,
        rx_update,
        /// LANE PROBE frames.
        tx_probe,
        rx_probe,
        /// Numbers missing in the lane_seq of what arrived.
        rx_lost,
        /// Frames with a lane_seq that was seen or passed before.
        rx_old,
        /// lane_limits that grant more than any ring can hold.
        rx_bad_limit,
        /// Frames flagged by the NHI.
        rx_flagged,
        /// Frames for a QPN that is not there.
        rx_unknown_qpn,
        /// Frames that came before there was a device for them.
        rx_unclaimed,
        /// Batches that the supplemental poll found before an interrupt told of them.
        rx_polled,
        /// Times a sender found no transmit buffer.
        tx_no_buffer,
        /// Times a sender found no credit.
        tx_no_credit,
    }
}

/// Frames dropped by the parser, by [`BadFrame`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadFrames(pub [u64; BadFrame::COUNT]);

impl BadFrames {
    /// Counts one.
    pub fn count(&mut self, bad: BadFrame) {
        let c = &mut self.0[bad as usize % BadFrame::COUNT];
        *c = c.wrapping_add(1);
    }

    /// Adds `other` to this.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }

    /// Sum of all kinds.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |a, b| a.wrapping_add(*b))
    }
}
