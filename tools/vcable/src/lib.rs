// SPDX-License-Identifier: GPL-2.0
//! Emulated USB4 host routers and the cables between them.
//!
//! [`core`] is the model: registers, config spaces, control channel, paths, rings, link and
//! faults, with time as an argument and without I/O, threads or unsafe code. A front end
//! gives it a guest's memory, interrupts and register accesses.
//!
//! [`frontend`] is that: vfio-user devices for QEMU, and the control socket.

pub mod core;
pub mod frontend;
