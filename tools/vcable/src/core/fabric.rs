// SPDX-License-Identifier: GPL-2.0
//! Hosts, cables, and the one object a front end drives.

use std::fmt;
use std::sync::Arc;

use super::{
    pci, Counter, FaultId, FaultSpec, IndexPages, Interrupts, LocalPages, Memory, Profile,
};

/// Size of the register BAR in bytes.
pub const BAR0_SIZE: u32 = 256 * 1024;
/// MSI-X vectors of a host interface.
pub const MSIX_VECTORS: u16 = 16;

/// Identifies a host of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// Identifies a cable of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CableId(pub usize);

/// What a host's guest gives to the model.
#[derive(Clone)]
pub struct Attachment {
    /// DMA memory.
    pub memory: Arc<dyn Memory>,
    /// MSI-X.
    pub interrupts: Arc<dyn Interrupts>,
    /// Ring index pages: shared with the guest (sparse mode) or [`LocalPages`] (trapped).
    pub index: Arc<dyn IndexPages>,
}

impl Attachment {
    /// An attachment whose index registers are trapped like all others.
    pub fn trapped(memory: Arc<dyn Memory>, interrupts: Arc<dyn Interrupts>) -> Self {
        Attachment { memory, interrupts, index: Arc::new(LocalPages::new()) }
    }
}

/// Limits of a cable, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkLimits {
    /// Payload rate in Mb/s (10^6 bits); `None` is no limit.
    pub rate_mbps: Option<u64>,
    /// Added one-way latency in ns.
    pub latency_ns: u64,
}

/// Why the fabric refused a request of its front end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricError {
    /// No such host, cable, port or ring.
    NotFound(String),
    /// The port already has a cable, or the name is taken.
    InUse(String),
    /// A value outside its range.
    Invalid(String),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::NotFound(s) => write!(f, "not found: {s}"),
            FabricError::InUse(s) => write!(f, "in use: {s}"),
            FabricError::Invalid(s) => write!(f, "invalid: {s}"),
        }
    }
}

impl std::error::Error for FabricError {}

/// An access that hit no register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayAccess {
    /// When, in ns.
    pub at_ns: u64,
    /// BAR0 offset.
    pub offset: u32,
    /// The value written, `None` for a read.
    pub written: Option<u32>,
}

/// What [`Fabric::poll`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PollResult {
    /// Frames, control packets and interrupts that were moved; 0 means idle.
    pub work: u64,
    /// When the model next has something to do by itself, in ns; `None` when it only waits
    /// for guests. Guests' index writes in shared pages are seen at the next poll only.
    pub next_deadline: Option<u64>,
}

/// All hosts and cables. One lock around it serves every thread of a front end.
pub struct Fabric {
    hosts: Vec<(String, Profile, Attachment)>,
}

impl Fabric {
    /// An empty fabric. `seed` feeds only what no [`FaultSpec`] seeds (unique ids).
    pub fn new(_seed: u64) -> Self {
        Fabric { hosts: Vec::new() }
    }

    /// Adds a host.
    ///
    /// # Errors
    /// [`FabricError::InUse`] when the name is taken.
    pub fn add_host(
        &mut self,
        name: &str,
        profile: Profile,
        attachment: Attachment,
    ) -> Result<HostId, FabricError> {
        self.hosts.push((name.to_string(), profile, attachment));
        Ok(HostId(self.hosts.len() - 1))
    }

    /// Adds a cable, not plugged yet, between two ports. A port is named by the number of its
    /// lane 0 adapter, 1 or 3, as in the kernel's `usb4_port1`.
    ///
    /// # Errors
    /// [`FabricError`] when a name or port is taken or does not exist.
    pub fn add_cable(
        &mut self,
        _name: &str,
        _a: (HostId, u8),
        _b: (HostId, u8),
        _limits: LinkLimits,
    ) -> Result<CableId, FabricError> {
        Err(FabricError::NotFound(String::new()))
    }

    /// Finds a host by name.
    pub fn host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|h| h.0 == name).map(HostId)
    }

    /// Finds a cable by name.
    pub fn cable(&self, _name: &str) -> Option<CableId> {
        None
    }

    /// Plugs a cable; nothing happens when it is plugged already.
    pub fn plug(&mut self, _cable: CableId, _now: u64) {}

    /// Pulls a cable: frames under way are lost, both hosts see an unplug.
    pub fn unplug(&mut self, _cable: CableId, _now: u64) {}

    /// Whether the cable is plugged.
    pub fn is_plugged(&self, _cable: CableId) -> bool {
        false
    }

    /// Changes a cable's limits for the frames that follow.
    pub fn set_limits(&mut self, _cable: CableId, _limits: LinkLimits) {}

    /// PCI config space at reset (see [`pci::config_space`]).
    pub fn pci_config(&self, host: HostId) -> [u8; pci::CONFIG_SIZE] {
        pci::config_space(&self.hosts[host.0].1)
    }

    /// A dword read of BAR0. `offset` is rounded down to a multiple of 4; 0 where nothing is.
    pub fn mmio_read(&mut self, _host: HostId, _offset: u32, _now: u64) -> u32 {
        0
    }

    /// A dword write of BAR0. When it returns, a ring that it stopped makes no more DMA.
    pub fn mmio_write(&mut self, _host: HostId, _offset: u32, _value: u32, _now: u64) {}

    /// A reset of the PCI function (vfio device reset, guest gone): every register and config
    /// space at its reset value, no DMA afterwards; peers see an unplug, then a plug.
    pub fn host_reset(&mut self, _host: HostId, _now: u64) {}

    /// Moves frames and control packets, applies limits and faults, raises interrupts: a
    /// bounded amount, fair between rings. Call again at once while `work` is not 0.
    pub fn poll(&mut self, _now: u64) -> PollResult {
        PollResult::default()
    }

    /// Installs a fault.
    ///
    /// # Errors
    /// [`FabricError::Invalid`] for a rate of 0.
    pub fn add_fault(&mut self, _spec: FaultSpec) -> Result<FaultId, FabricError> {
        Err(FabricError::Invalid(String::new()))
    }

    /// Removes every fault; what they hold back is let go. Their counters stay.
    pub fn clear_faults(&mut self) {}

    /// Delivers a made-up frame into RX ring `hop` of `host`, as if a peer had sent it.
    ///
    /// # Errors
    /// [`FabricError`] when the ring does not run, has no buffer, or `bytes` is empty or over
    /// 4096 long.
    pub fn inject(
        &mut self,
        _host: HostId,
        _hop: u16,
        _sof: u8,
        _eof: u8,
        _bytes: &[u8],
        _now: u64,
    ) -> Result<(), FabricError> {
        Err(FabricError::NotFound(String::new()))
    }

    /// Every counter, in a stable order.
    pub fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// The first accesses (at most 64) that hit no register of `host`; the number of all is
    /// the counter `host.NAME.stray`.
    pub fn stray_accesses(&self, _host: HostId) -> &[StrayAccess] {
        &[]
    }
}
