// SPDX-License-Identifier: GPL-2.0
//! The protocol core: Documentation/wire.md as code.
//!
//! It knows no kernel, no clock, no allocation and no lock. Time is an argument (nanoseconds of any
//! monotonic clock), the outer world is [`env::Env`], a received frame is [`env::FrameBuf`]. So the same
//! files run in the kernel module and in the simulation of `tests/proto`.
//!
//! Order of reading: [`wire`], [`env`], [`qp`], then [`tx_stream`] and [`rx_stream`] (one reliable one-way
//! stream each), [`requester`] and [`responder`] (what the streams carry), [`timers`].
#![forbid(unsafe_code)]
// A library: the driver does not use every accessor that the tests do.
#![allow(dead_code)]

pub mod answers;
pub mod counters;
pub mod crc;
pub mod credit;
pub mod env;
pub mod handshake;
pub mod inflight;
pub mod qp;
pub mod qp_rx;
pub mod qp_state;
pub mod qp_tx;
pub mod requester;
pub mod responder;
pub mod ride;
pub mod rtt;
pub mod rx_stream;
pub mod seq;
pub mod status;
pub mod timers;
pub mod tx_stream;
pub mod window;
pub mod wire;

/// Bytes of a whole frame, whatever the page size of either host.
pub const FRAME_BYTES: usize = 4096;
/// Bytes of the header that starts each frame.
pub const HEADER_BYTES: usize = 64;
/// Payload bytes of a full frame.
pub const PAYLOAD_BYTES: usize = FRAME_BYTES - HEADER_BYTES;
/// Frames of one stream that may be unacknowledged (a power of two; PSNs map to slots by their low bits).
pub const WINDOW: usize = 256;
/// Send requests of one queue pair that may be taken from its send queue and not yet completed.
/// `Env::next_send` gets slot numbers below this.
pub const MAX_INFLIGHT: usize = 128;
/// READs and atomics outstanding in each direction of a queue pair (verbs' max_qp_rd_atom).
pub const MAX_RD_ATOMIC: usize = 16;
/// Longest message, bytes (verbs' max_msg_sz).
pub const MAX_MSG_BYTES: u32 = 1 << 30;
