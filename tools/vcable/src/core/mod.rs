// SPDX-License-Identifier: GPL-2.0
//! The model of host routers and cables. Pure: no I/O, no threads, no clock, no unsafe.
//!
//! Every function that may depend on time takes `now`, in nanoseconds since any fixed origin.

#![forbid(unsafe_code)]

mod counters;
mod crc;
mod exchange;
mod fabric;
mod fault;
mod faults;
mod host;
mod hotplug;
mod irq;
mod link;
mod memory;
mod nhi;
mod packet;
pub mod pci;
mod profile;
mod regs;
mod ring;
mod rng;
mod router;
mod space;
mod tables;

pub use counters::Counter;
pub use fabric::{
    Attachment, CableId, Fabric, FabricError, HostId, LinkLimits, PollResult, Running, StrayAccess,
    BAR0_SIZE, MSIX_VECTORS,
};
pub use fault::{Direction, FaultId, FaultKind, FaultSpec};
pub use memory::{DmaFault, IndexPages, Interrupts, LocalPages, Memory, RawSpan};
pub use profile::Profile;
