// SPDX-License-Identifier: GPL-2.0
//! One host: its interface, its router, and the control packets on their way to it.

use std::collections::VecDeque;

use super::counters::HostCounters;
use super::exchange::Exchange;
use super::fabric::Attachment;
use super::hotplug::HotPlug;
use super::nhi::Nhi;
use super::packet::Packet;
use super::router::Router;
use super::{pci, Profile, StrayAccess};

/// Control packets that wait for ring 0 at most; more are dropped and counted.
const CONTROL_QUEUE: usize = 256;
/// Stray accesses that are kept.
const STRAYS: usize = 64;

/// A control packet for the guest, and when it arrives.
pub(crate) struct Arrival {
    pub at_ns: u64,
    pub packet: Packet,
}

/// A USB4 port of a host.
#[derive(Default)]
pub(crate) struct Port {
    pub hotplug: HotPlug,
    /// Cable and which end of it.
    pub cable: Option<(usize, usize)>,
}

/// A host router with everything around it.
pub(crate) struct Host {
    pub name: String,
    pub profile: Profile,
    pub attachment: Attachment,
    pub nhi: Nhi,
    pub router: Router,
    /// Ports in the order of `tables::PORTS`.
    pub ports: [Port; 2],
    /// In the order of arrival.
    pub inbox: VecDeque<Arrival>,
    pub exchange: Exchange,
    /// A host router reset is under way until then.
    pub reset_until: Option<u64>,
    pub strays: Vec<StrayAccess>,
    pub counters: HostCounters,
}

impl Host {
    /// A host at reset, with no cable in its ports.
    pub fn new(name: &str, profile: Profile, attachment: Attachment, uid: u64) -> Self {
        Host {
            name: name.to_string(),
            nhi: Nhi::new(&profile, attachment.index.clone()),
            router: Router::new(&profile, pci::VENDOR, uid),
            profile,
            attachment,
            ports: Default::default(),
            inbox: VecDeque::new(),
            exchange: Exchange::default(),
            reset_until: None,
            strays: Vec::new(),
            counters: HostCounters::default(),
        }
    }

    /// Forgets what the driver was told, when its control ring or the router goes.
    pub fn forget_driver(&mut self) {
        self.counters.ctl_dropped += self.inbox.len() as u64;
        self.inbox.clear();
        self.exchange = Exchange::default();
        self.ports.iter_mut().for_each(|p| p.hotplug.forget());
    }

    /// Queues a control packet for ring 0.
    pub fn post(&mut self, packet: Packet, at_ns: u64) {
        if self.inbox.len() >= CONTROL_QUEUE || !self.nhi.rx[0].enabled {
            self.counters.ctl_dropped += 1;
        } else {
            let place = self.inbox.iter().rposition(|a| a.at_ns <= at_ns).map_or(0, |i| i + 1);
            self.inbox.insert(place, Arrival { at_ns, packet });
        }
    }

    /// The first waiting control packet that may be handed over at `now`.
    pub fn ready_packet(&self, now: u64) -> Option<usize> {
        self.inbox.iter().position(|a| self.exchange.ready_at(a.packet.pdf, a.at_ns) <= now)
    }

    /// When a waiting control packet that is not due yet becomes so.
    pub fn inbox_deadline(&self, now: u64) -> Option<u64> {
        let due = self.inbox.iter().map(|a| self.exchange.ready_at(a.packet.pdf, a.at_ns));
        due.filter(|t| *t > now).min()
    }

    /// Records an access that hit no register.
    pub fn stray(&mut self, access: StrayAccess) {
        self.counters.stray += 1;
        if self.strays.len() < STRAYS {
            self.strays.push(access);
        }
    }

    /// Adds up the interrupts raised since the last call and returns their number.
    pub fn count_interrupts(&mut self) -> u64 {
        let raised = self.nhi.irq.take_raised();
        self.counters.interrupts += raised;
        raised
    }
}
