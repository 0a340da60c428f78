// SPDX-License-Identifier: GPL-2.0
//! Tests of the core's files, one module for each idea.

mod unit {
    pub mod bench;
    mod credit;
    mod crc_seq;
    mod handshake;
    mod qp_atomic_read;
    mod qp_basic;
    mod qp_loss;
    mod qp_refusal;
    mod qp_state;
    mod qp_uc;
    mod ride;
    mod rx_stream;
    mod timers_rtt;
    mod tx_stream;
    mod window;
    mod wire;
}
