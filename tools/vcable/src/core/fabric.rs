// SPDX-License-Identifier: GPL-2.0
//! Hosts, cables, and the one object a front end drives.

mod control;
mod deliver;
mod frames;
mod links;

use std::fmt;
use std::sync::Arc;

use super::faults::{Faults, Site};
use super::host::Host;
use super::link::{natural_rate, negotiate, Cable, Lane, LinkState, Plug};
use super::nhi::Effect;
use super::rng::Rng;
use super::tables::PORTS;
use super::{
    pci, Counter, FaultId, FaultKind, FaultSpec, IndexPages, Interrupts, LocalPages, Memory,
    Profile,
};

/// Size of the register BAR in bytes.
pub const BAR0_SIZE: u32 = 256 * 1024;
/// MSI-X vectors of a host interface.
pub const MSIX_VECTORS: u16 = 16;
/// How long a host router reset takes.
const ROUTER_RESET_NS: u64 = 10_000_000;

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
    /// Frames, control packets and interrupts that were moved, and 1 if rings were started or
    /// stopped since the last poll; 0 means idle.
    pub work: u64,
    /// When the model next has something to do by itself, in ns; `None` when it only waits
    /// for guests. Guests' index writes in shared pages are seen at the next poll only.
    pub next_deadline: Option<u64>,
}

/// Which rings run, and so how soon a guest may have something for the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// No ring: only a register access can start something.
    Nothing,
    /// Control rings only.
    Control,
    /// At least one TX ring for data.
    Data,
}

/// All hosts and cables. One lock around it serves every thread of a front end.
pub struct Fabric {
    hosts: Vec<Host>,
    cables: Vec<Cable>,
    faults: Faults,
    uids: Rng,
    /// Running TX rings above 0, as (host, hop).
    senders: Vec<(usize, u16)>,
    /// Where the next poll begins among them.
    turn: usize,
    /// Rings were started or stopped since the last poll.
    rings_changed: bool,
}

impl Fabric {
    /// An empty fabric. `seed` feeds only what no [`FaultSpec`] seeds (unique ids).
    pub fn new(seed: u64) -> Self {
        Fabric {
            hosts: Vec::new(),
            cables: Vec::new(),
            faults: Faults::default(),
            uids: Rng::new(seed),
            senders: Vec::new(),
            turn: 0,
            rings_changed: false,
        }
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
        if self.host(name).is_some() {
            return Err(FabricError::InUse(format!("host {name}")));
        }
        // The number makes it unique, the random part unlike that of another fabric.
        let id = self.hosts.len();
        let uid = (self.uids.next() & !0xff) | (id as u64 + 1) & 0xff;
        self.hosts.push(Host::new(name, profile, attachment, uid));
        Ok(HostId(id))
    }

    /// Adds a cable, not plugged yet, between two ports. A port is named by the number of its
    /// lane 0 adapter, 1 or 3, as in the kernel's `usb4_port1`.
    ///
    /// # Errors
    /// [`FabricError`] when a name or port is taken or does not exist.
    pub fn add_cable(
        &mut self,
        name: &str,
        a: (HostId, u8),
        b: (HostId, u8),
        limits: LinkLimits,
    ) -> Result<CableId, FabricError> {
        if self.cable(name).is_some() {
            return Err(FabricError::InUse(format!("cable {name}")));
        }
        let ends = [self.free_port(a)?, self.free_port(b)?];
        if ends[0] == ends[1] {
            return Err(FabricError::InUse(format!("both ends of cable {name}")));
        }
        let id = self.cables.len();
        for (i, end) in ends.iter().enumerate() {
            self.hosts[end.host.0].ports[end.port].cable = Some((id, i));
        }
        self.cables.push(Cable {
            name: name.to_string(),
            ends,
            plugged: false,
            state: LinkState::Down,
            limits,
            lanes: [Lane::default(), Lane::default()],
        });
        Ok(CableId(id))
    }

    fn free_port(&self, (host, adapter): (HostId, u8)) -> Result<Plug, FabricError> {
        let h = self.hosts.get(host.0).ok_or(FabricError::NotFound("host".into()))?;
        let port = PORTS.iter().position(|p| *p == adapter).ok_or_else(|| {
            FabricError::NotFound(format!("port {adapter} of {} (there are 1 and 3)", h.name))
        })?;
        match h.ports[port].cable {
            Some(_) => Err(FabricError::InUse(format!("port {adapter} of {}", h.name))),
            None => Ok(Plug { host, port }),
        }
    }

    /// Finds a host by name.
    pub fn host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|h| h.name == name).map(HostId)
    }

    /// Finds a cable by name.
    pub fn cable(&self, name: &str) -> Option<CableId> {
        self.cables.iter().position(|c| c.name == name).map(CableId)
    }

    /// Plugs a cable; nothing happens when it is plugged already.
    pub fn plug(&mut self, cable: CableId, now: u64) {
        self.cables[cable.0].plugged = true;
        self.look_at_link(cable.0, now);
    }

    /// Pulls a cable: frames under way are lost, both hosts see an unplug.
    pub fn unplug(&mut self, cable: CableId, now: u64) {
        self.cables[cable.0].plugged = false;
        self.look_at_link(cable.0, now);
    }

    /// Whether the cable is plugged.
    pub fn is_plugged(&self, cable: CableId) -> bool {
        self.cables[cable.0].plugged
    }

    /// Whether the link is up (plugged, trained, neither end in a reset).
    pub fn is_up(&self, cable: CableId) -> bool {
        self.cables[cable.0].state == LinkState::Up
    }

    /// Changes a cable's limits for the frames that follow.
    pub fn set_limits(&mut self, cable: CableId, limits: LinkLimits) {
        self.cables[cable.0].limits = limits;
    }

    /// The rate in Mb/s that the two hosts' profiles negotiate, each way.
    pub fn profile_rate_mbps(&self, cable: CableId) -> u64 {
        let [a, b] = self.cables[cable.0].ends.map(|e| &self.hosts[e.host.0].profile);
        let (speed, width) = negotiate(a, b);
        natural_rate(speed, width)
    }

    /// PCI config space at reset (see [`pci::config_space`]).
    pub fn pci_config(&self, host: HostId) -> [u8; pci::CONFIG_SIZE] {
        pci::config_space(&self.hosts[host.0].profile)
    }

    /// The name of the register at a BAR0 offset, for logs; `None` where there is none.
    pub fn register_name(&self, host: HostId, offset: u32) -> Option<&'static str> {
        self.hosts[host.0].nhi.name(offset & !3)
    }

    /// A dword read of BAR0. `offset` is rounded down to a multiple of 4; 0 where nothing is.
    pub fn mmio_read(&mut self, host: HostId, offset: u32, now: u64) -> u32 {
        let h = &mut self.hosts[host.0];
        h.counters.mmio_reads += 1;
        h.nhi.read(offset & !3).unwrap_or_else(|| {
            h.stray(StrayAccess { at_ns: now, offset, written: None });
            0
        })
    }

    /// A dword write of BAR0. When it returns, a ring that it stopped makes no more DMA.
    pub fn mmio_write(&mut self, host: HostId, offset: u32, value: u32, now: u64) {
        let silent = self.edge_only(host, offset & !3, value);
        let h = &mut self.hosts[host.0];
        h.counters.mmio_writes += 1;
        let had_control = h.nhi.rx[0].enabled;
        let out = Arc::clone(&h.attachment.interrupts);
        match h.nhi.write(offset & !3, value, silent, now, &*out) {
            Effect::None => {}
            Effect::Rings => {
                match (had_control, h.nhi.rx[0].enabled) {
                    (true, false) => h.forget_driver(),
                    (false, true) => h.ports.iter_mut().for_each(|p| p.hotplug.started(now)),
                    _ => {}
                }
                self.list_senders();
            }
            Effect::RouterReset => self.router_reset(host, now),
            Effect::Stray => h.stray(StrayAccess { at_ns: now, offset, written: Some(value) }),
        }
        self.hosts[host.0].count_interrupts();
    }

    /// Which of the interrupts that a write unmasks must not fire (a fault).
    fn edge_only(&mut self, host: HostId, offset: u32, value: u32) -> u32 {
        if self.faults.none() {
            return 0;
        }
        let nhi = &self.hosts[host.0].nhi;
        let paths = nhi.paths;
        let mut silent = nhi.unmasks(offset, value);
        for bit in (0..32u16).filter(|b| silent >> b & 1 != 0).collect::<Vec<_>>() {
            // Profiles have one enable word (24 rings), so the bit is the interrupt's number.
            let site = Site::rx(host, bit.saturating_sub(paths));
            if bit < paths || self.faults.hit(FaultKind::EdgeOnly, site).is_none() {
                silent &= !(1 << bit);
            }
        }
        silent
    }

    /// A reset of the PCI function (vfio device reset, guest gone): every register and config
    /// space at its reset value, no DMA afterwards; peers see an unplug, then a plug.
    pub fn host_reset(&mut self, host: HostId, now: u64) {
        self.reset_everything(host, now);
        self.hosts[host.0].reset_until = None;
        self.look_at_links(host, now);
    }

    /// The host router reset of USB4 v2: as a function reset, and its bit reads 1 for a while.
    fn router_reset(&mut self, host: HostId, now: u64) {
        self.hosts[host.0].reset_until = Some(now + ROUTER_RESET_NS);
        self.reset_everything(host, now);
        self.hosts[host.0].nhi.show_reset(true);
    }

    fn reset_everything(&mut self, host: HostId, now: u64) {
        let h = &mut self.hosts[host.0];
        h.counters.resets += 1;
        h.nhi.reset();
        h.router.reset();
        h.forget_driver();
        self.list_senders();
        self.drop_links(host, now);
    }

    fn list_senders(&mut self) {
        self.rings_changed = true;
        self.senders.clear();
        for (i, h) in self.hosts.iter().enumerate() {
            let running = (1..h.nhi.paths).filter(|hop| h.nhi.tx[usize::from(*hop)].enabled);
            self.senders.extend(running.map(|hop| (i, hop)));
        }
    }

    /// Moves frames and control packets, applies limits and faults, raises interrupts: a
    /// bounded amount, fair between rings. Call again at once while `work` is not 0.
    pub fn poll(&mut self, now: u64) -> PollResult {
        // A front end learns by it that guests may have more to say from now on.
        let mut work = u64::from(std::mem::take(&mut self.rings_changed));
        work += self.advance_links(now);
        work += self.move_control(now);
        work += self.deliver_delayed(now);
        work += self.move_frames(now);
        for h in &mut self.hosts {
            let out = Arc::clone(&h.attachment.interrupts);
            h.nhi.irq.tick(now, &*out);
            work += h.count_interrupts();
        }
        let next_deadline = self.next_deadline(now);
        for lane in self.cables.iter_mut().flat_map(|c| &mut c.lanes) {
            lane.end_poll(now);
        }
        PollResult { work, next_deadline }
    }

    /// Which rings run.
    pub fn running(&self) -> Running {
        if !self.senders.is_empty() {
            Running::Data
        } else if self.hosts.iter().any(|h| h.nhi.tx[0].enabled) {
            Running::Control
        } else {
            Running::Nothing
        }
    }

    fn next_deadline(&self, now: u64) -> Option<u64> {
        let hosts = self.hosts.iter().flat_map(|h| {
            let stalls = h.nhi.rx.iter().map(|r| r.stalled_until).filter(|t| *t > now);
            let events = h.nhi.rx[0].enabled.then(|| h.event_deadline()).flatten();
            let fixed = [h.nhi.irq.next_deadline(), h.inbox_deadline(now), h.reset_until, events];
            stalls.chain(fixed.into_iter().flatten())
        });
        let cables = self.cables.iter().flat_map(|c| {
            let training = match c.state {
                LinkState::Training { until } => Some(until),
                _ => None,
            };
            let lanes = c.lanes.iter().filter_map(|l| l.next_deadline(&c.limits));
            training.into_iter().chain(lanes)
        });
        hosts.chain(cables).min()
    }

    /// Installs a fault.
    ///
    /// # Errors
    /// [`FabricError::Invalid`] for a rate of 0, [`FabricError::NotFound`] for an unknown host
    /// or a hop that it does not have.
    pub fn add_fault(&mut self, spec: FaultSpec) -> Result<FaultId, FabricError> {
        if spec.one_in == 0 {
            return Err(FabricError::Invalid("a fault happens one in at least 1".into()));
        }
        if let Some(host) = spec.host {
            let h = self.hosts.get(host.0).ok_or(FabricError::NotFound("host".into()))?;
            if spec.hop.is_some_and(|hop| hop >= h.profile.paths) {
                return Err(FabricError::NotFound(format!("that hop of host {}", h.name)));
            }
        }
        Ok(FaultId(self.faults.add(spec)))
    }

    /// Removes every fault; what they hold back is let go. Their counters stay.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
        for h in &mut self.hosts {
            h.nhi.rx.iter_mut().for_each(|r| r.stalled_until = 0);
            h.router.release_pending();
        }
        for lane in self.cables.iter_mut().flat_map(|c| &mut c.lanes) {
            lane.paused_until = 0;
            lane.flows.iter_mut().flat_map(|f| &mut f.frames).for_each(|f| f.deliver_at = 0);
        }
    }

    /// Every counter, in a stable order.
    pub fn counters(&self) -> Vec<Counter> {
        let mut out = Vec::new();
        for h in &self.hosts {
            let prefix = format!("host.{}", h.name);
            h.counters.append(&prefix, &mut out);
            for (kind, rings) in [("tx", &h.nhi.tx), ("rx", &h.nhi.rx)] {
                for (hop, ring) in rings.iter().enumerate() {
                    ring.counters.append(&format!("{prefix}.{kind}{hop}"), &mut out);
                }
            }
        }
        for c in &self.cables {
            for (lane, way) in c.lanes.iter().zip(["a_to_b", "b_to_a"]) {
                lane.counters.append(&format!("cable.{}.{way}", c.name), &mut out);
            }
        }
        self.faults.append(&mut out);
        out
    }

    /// The first accesses (at most 64) that hit no register of `host`; the number of all is
    /// the counter `host.NAME.stray`.
    pub fn stray_accesses(&self, host: HostId) -> &[StrayAccess] {
        &self.hosts[host.0].strays
    }
}
