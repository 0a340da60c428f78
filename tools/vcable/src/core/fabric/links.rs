// SPDX-License-Identifier: GPL-2.0
//! Links: up and down, what both ends' registers show, plug events.

use super::super::host::Host;
use super::super::link::{negotiate, LinkState, TRAINING_NS};
use super::super::packet::plug_event;
use super::super::router::{LaneView, RouterEffect};
use super::super::tables::PORTS;
use super::{Fabric, FaultKind, HostId, Site};
use crate::core::faults::End;

/// Adapter states of LANE_ADP_CS_1.
const DISABLED: u32 = 0;
const TRAINING: u32 = 1;
const CL0: u32 = 2;
const UNPLUGGED: u32 = 7;
/// Shortest time between repetitions of an event, where the guest has set none.
const MIN_NOTIFY_MS: u64 = 10;

impl Host {
    /// When a port has an event to send or repeat.
    pub fn event_deadline(&self) -> Option<u64> {
        let ports = PORTS.iter().zip(&self.ports);
        ports
            .filter(|(n, _)| self.router.enumerated() && self.router.hot_plug_allowed(**n))
            .filter_map(|(_, p)| p.hotplug.next_deadline())
            .min()
    }
}

impl Fabric {
    /// Brings a cable's link down or lets it train, as plug and registers say.
    pub(super) fn look_at_link(&mut self, cable: usize, now: u64) {
        let c = &self.cables[cable];
        let ready = c.plugged
            && c.ends.iter().all(|e| {
                let h = &self.hosts[e.host.0];
                h.reset_until.is_none()
                    && !h.router.in_port_reset(e.adapter())
                    && !h.router.lane_disabled(e.adapter())
            });
        match (ready, c.state) {
            (false, _) => self.take_down(cable),
            (true, LinkState::Down) => {
                self.cables[cable].state = LinkState::Training { until: now + TRAINING_NS };
            }
            (true, LinkState::Up | LinkState::Training { .. }) => {}
        }
        self.show(cable);
    }

    /// The same for every cable of a host.
    pub(super) fn look_at_links(&mut self, host: HostId, now: u64) {
        for cable in self.cables_of(host) {
            self.look_at_link(cable, now);
        }
        self.show_free_ports(host);
    }

    /// Breaks every link of a host; they train again from the beginning.
    pub(super) fn drop_links(&mut self, host: HostId, now: u64) {
        for cable in self.cables_of(host) {
            self.take_down(cable);
            self.look_at_link(cable, now);
        }
        self.show_free_ports(host);
    }

    fn cables_of(&self, host: HostId) -> Vec<usize> {
        self.hosts[host.0].ports.iter().filter_map(|p| p.cable).map(|(c, _)| c).collect()
    }

    fn take_down(&mut self, cable: usize) {
        let c = &mut self.cables[cable];
        c.state = LinkState::Down;
        c.lanes.iter_mut().for_each(|l| l.cut());
        for e in c.ends {
            self.hosts[e.host.0].ports[e.port].hotplug.link(false);
        }
    }

    /// Shows a link's state in the lane adapters of both ends.
    fn show(&mut self, cable: usize) {
        let c = &self.cables[cable];
        let [a, b] = c.ends.map(|e| &self.hosts[e.host.0].profile);
        let dual_possible = a.widths & b.widths & 2 != 0;
        let (speed, width) = negotiate(a, b);
        let (plugged, link, ends) = (c.plugged, c.state, c.ends);
        for e in ends {
            let router = &mut self.hosts[e.host.0].router;
            for lane in [e.adapter(), e.adapter() + 1] {
                let first = lane == e.adapter();
                let state = match link {
                    _ if router.lane_disabled(lane) => DISABLED,
                    _ if !plugged || !first && !dual_possible => UNPLUGGED,
                    LinkState::Down => UNPLUGGED,
                    LinkState::Training { .. } => TRAINING,
                    LinkState::Up => CL0,
                };
                router.show_lane(lane, LaneView { state, speed, width });
            }
        }
    }

    /// Ports without a cable show themselves unplugged.
    pub(super) fn show_free_ports(&mut self, host: HostId) {
        let h = &mut self.hosts[host.0];
        for (port, adapter) in h.ports.iter().zip(PORTS) {
            if port.cable.is_none() {
                for lane in [adapter, adapter + 1] {
                    let off = h.router.lane_disabled(lane);
                    let state = if off { DISABLED } else { UNPLUGGED };
                    h.router.show_lane(lane, LaneView { state, speed: 0, width: 1 });
                }
            }
        }
    }

    /// Lets resets end and links finish training; sends plug events. Returns events sent.
    pub(super) fn advance_links(&mut self, now: u64) -> u64 {
        for host in 0..self.hosts.len() {
            if self.hosts[host].reset_until.is_some_and(|t| t <= now) {
                self.hosts[host].reset_until = None;
                self.hosts[host].nhi.show_reset(false);
                self.look_at_links(HostId(host), now);
            }
        }
        for cable in 0..self.cables.len() {
            if matches!(self.cables[cable].state, LinkState::Training { until } if until <= now) {
                self.bring_up(cable);
            }
        }
        (0..self.hosts.len()).map(|h| self.send_events(h, now)).sum()
    }

    fn bring_up(&mut self, cable: usize) {
        self.cables[cable].state = LinkState::Up;
        for e in self.cables[cable].ends {
            let h = &mut self.hosts[e.host.0];
            h.router.lock(e.adapter());
            h.ports[e.port].hotplug.link(true);
        }
        self.show(cable);
    }

    fn send_events(&mut self, host: usize, now: u64) -> u64 {
        let h = &mut self.hosts[host];
        if !h.router.enumerated() || !h.nhi.rx[0].enabled {
            return 0;
        }
        let timeout_ns = h.router.notification_timeout_ms().max(MIN_NOTIFY_MS) * 1_000_000;
        let mut sent = 0;
        for (i, adapter) in PORTS.into_iter().enumerate() {
            let h = &mut self.hosts[host];
            if !h.router.hot_plug_allowed(adapter) {
                continue;
            }
            let Some((unplug, first)) = h.ports[i].hotplug.poll(now, timeout_ns) else { continue };
            if first {
                h.counters.events += 1;
            } else {
                h.counters.event_resends += 1;
            }
            sent += 1;
            self.post_control(HostId(host), plug_event(adapter, unplug), now);
        }
        sent
    }

    /// Carries out what a config write asked for.
    pub(super) fn apply(&mut self, host: HostId, effects: &[RouterEffect], now: u64) {
        for effect in effects {
            match *effect {
                RouterEffect::Link => self.look_at_links(host, now),
                RouterEffect::PortReset(adapter) => {
                    self.hosts[host.0].router.clear_paths(adapter);
                }
                RouterEffect::HotPlugAllowed(adapter) => {
                    if let Some(i) = PORTS.iter().position(|p| *p == adapter) {
                        self.hosts[host.0].ports[i].hotplug.allowed(now);
                    }
                }
                RouterEffect::PathDisabled { adapter, hop } => {
                    let site = Site { tx: None, rx: Some(End { host, hop }) };
                    if let Some(ns) = self.faults.hit(FaultKind::PendingStuck, site) {
                        self.hosts[host.0].router.hold_pending(adapter, hop, now + ns);
                    }
                }
            }
        }
    }
}
