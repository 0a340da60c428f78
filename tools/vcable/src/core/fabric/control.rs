// SPDX-License-Identifier: GPL-2.0
//! The control channel: ring 0 of every host, config requests, XDomain packets.

use std::sync::Arc;

use super::super::faults::End;
use super::super::link::LinkState;
use super::super::packet::{self, error, pdf, Address, Packet, REPLY};
use super::super::ring::{Descriptor, FLAG_COMPLETED, FLAG_INTERRUPT};
use super::super::tables::{NHI_ADAPTER, PORTS};
use super::{Fabric, FaultKind, HostId, Site};

impl Fabric {
    /// Takes packets from every TX ring 0 and fills every RX ring 0; returns how many moved.
    pub(super) fn move_control(&mut self, now: u64) -> u64 {
        let mut work = 0;
        for host in 0..self.hosts.len() {
            while let Some((pdf, frame)) = self.take_control(host, now) {
                self.handle_frame(HostId(host), pdf, &frame, now);
                work += 1;
            }
        }
        for host in 0..self.hosts.len() {
            while self.give_control(host, now) {
                work += 1;
            }
        }
        work
    }

    /// The next frame of TX ring 0, completed, with its type.
    fn take_control(&mut self, host: usize, now: u64) -> Option<(u8, Vec<u8>)> {
        let h = &mut self.hosts[host];
        let index = h.nhi.tx_index(0);
        let ring = &mut h.nhi.tx[0];
        if ring.outstanding(index) == 0 {
            return None;
        }
        let memory = Arc::clone(&h.attachment.memory);
        let Ok(d) = ring.read(&*memory) else {
            ring.fault();
            return None;
        };
        let mut frame = vec![0; d.len().min(packet::MAX_FRAME)];
        let read = memory.read(d.phys, &mut frame);
        if read.is_err() || ring.complete(&*memory, d.control | FLAG_COMPLETED).is_err() {
            ring.fault();
            return None;
        }
        ring.counters.frames += 1;
        ring.counters.bytes += frame.len() as u64;
        if d.control & FLAG_INTERRUPT != 0 {
            ring.counters.completions += 1;
            let out = Arc::clone(&h.attachment.interrupts);
            h.nhi.irq.set_status(0, now, &*out);
        }
        h.exchange.sent(d.eof(), now);
        h.counters.ctl_from_guest += 1;
        Some((d.eof(), frame))
    }

    /// Delivers the next waiting packet into RX ring 0; false when there is none or no buffer.
    fn give_control(&mut self, host: usize, now: u64) -> bool {
        let h = &mut self.hosts[host];
        let Some(next) = h.ready_packet(now) else { return false };
        let index = h.nhi.rx_index(0);
        let bit = h.nhi.rx_bit(0);
        let ring = &mut h.nhi.rx[0];
        if ring.outstanding(index) == 0 {
            return false;
        }
        let memory = Arc::clone(&h.attachment.memory);
        let Ok(d) = ring.read(&*memory) else {
            ring.fault();
            return false;
        };
        let Some(arrival) = h.inbox.remove(next) else { return false };
        let frame = arrival.packet.frame();
        let keep = d.control & FLAG_INTERRUPT;
        let control = completion(frame.len(), 0, arrival.packet.pdf, keep);
        let written = memory.write(d.phys, &frame);
        if written.is_err() || ring.complete(&*memory, control).is_err() {
            ring.fault();
            return false;
        }
        ring.counters.frames += 1;
        ring.counters.bytes += frame.len() as u64;
        if keep != 0 {
            ring.counters.completions += 1;
            let out = Arc::clone(&h.attachment.interrupts);
            h.nhi.irq.set_status(bit, now, &*out);
        }
        h.exchange.received(arrival.packet.pdf, now);
        h.counters.ctl_to_guest += 1;
        true
    }

    /// Queues a packet for a guest that arrives at `at_ns`, unless a fault takes it.
    pub(super) fn post_control(&mut self, host: HostId, packet: Packet, at_ns: u64) {
        if self.faults.hit(FaultKind::ControlLoss, Site::rx(host, 0)).is_none() {
            self.hosts[host.0].post(packet, at_ns);
        }
    }

    fn handle_frame(&mut self, host: HostId, kind: u8, frame: &[u8], now: u64) {
        let Some(p) = Packet::parse(kind, frame) else {
            self.hosts[host.0].counters.ctl_malformed += 1;
            return;
        };
        match p.pdf {
            pdf::READ | pdf::WRITE => {
                let reply = self.config_reply(host, &p, now);
                if reply.pdf == pdf::ERROR {
                    self.hosts[host.0].counters.ctl_errors += 1;
                }
                self.post_control(host, reply, now);
            }
            pdf::ERROR => self.handle_acknowledgement(host, &p),
            // Acknowledges notifications other than plug events; this router sends none.
            pdf::NOTIFY_ACK => self.hosts[host.0].counters.event_acks_stray += 1,
            pdf::XDOMAIN_REQUEST | pdf::XDOMAIN_RESPONSE => self.forward(host, p, now),
            _ => self.hosts[host.0].counters.ctl_unknown += 1,
        }
    }

    /// The reply to a config read or write.
    fn config_reply(&mut self, host: HostId, p: &Packet, now: u64) -> Packet {
        let route = p.route();
        if route != 0 {
            return self.beyond(host, p, route);
        }
        if p.dwords.len() < 3 {
            return p.error_reply(error::INVALID_SPACE, 0);
        }
        let a = Address::decode(p.dwords[2]);
        let router = &mut self.hosts[host.0].router;
        let offset = usize::from(a.offset);
        let result = if a.length == 0 || a.length > packet::MAX_DWORDS {
            Err(error::INVALID_SPACE)
        } else if p.pdf == pdf::READ {
            router.read(a.space, a.port, offset, a.length, now)
        } else if p.dwords.len() != 3 + a.length {
            Err(error::INVALID_SPACE)
        } else {
            router.write(a.space, a.port, offset, &p.dwords[3..]).map(|effects| {
                self.apply(host, &effects, now);
                Vec::new()
            })
        };
        match result {
            Ok(data) => {
                // The reply names the upstream adapter, whichever one was asked about.
                let address = Address { port: NHI_ADAPTER, ..a }.encode();
                let mut dwords = vec![p.dwords[0] | REPLY, p.dwords[1], address];
                dwords.extend(data);
                Packet { pdf: p.pdf, dwords }
            }
            Err(code) => p.error_reply(code, a.port),
        }
    }

    /// Config requests never pass to another host: the error by which a connection manager
    /// knows a port that leads to one.
    fn beyond(&self, host: HostId, p: &Packet, route: u64) -> Packet {
        let h = &self.hosts[host.0];
        let code = match self.port_of_route(host, route) {
            None => error::NO_SUCH_PORT,
            Some(i) if !self.port_is_up(host, i) => error::NOT_CONNECTED,
            Some(i) if h.router.locked(PORTS[i]) => error::LOCKED,
            Some(_) => error::NO_SUCH_PORT,
        };
        p.error_reply(code, (route & 0x3f) as u8)
    }

    /// The port that a route of depth 1 leads to.
    fn port_of_route(&self, host: HostId, route: u64) -> Option<usize> {
        let i = PORTS.iter().position(|p| u64::from(*p) == route)?;
        self.hosts[host.0].ports[i].cable.map(|_| i)
    }

    fn port_is_up(&self, host: HostId, port: usize) -> bool {
        let cable = self.hosts[host.0].ports[port].cable;
        cable.is_some_and(|(c, _)| self.cables[c].state == LinkState::Up)
    }

    fn handle_acknowledgement(&mut self, host: HostId, p: &Packet) {
        let d = p.dwords.get(2).copied().unwrap_or(0);
        let port = PORTS.iter().position(|n| u32::from(*n) == d >> 8 & 0x3f);
        let unplug = match d >> 30 {
            2 => Some(false),
            3 => Some(true),
            _ => None,
        };
        let h = &mut self.hosts[host.0];
        let matched = match (d as u8, port, unplug) {
            (error::ACK_PLUG_EVENT, Some(i), Some(unplug)) => {
                h.ports[i].hotplug.acknowledge(unplug)
            }
            _ => false,
        };
        if matched {
            h.counters.event_acks += 1;
        } else {
            h.counters.event_acks_stray += 1;
        }
    }

    /// Hands an XDomain packet to the host at the other end of its route, which knows this
    /// one by the number of its own port.
    fn forward(&mut self, host: HostId, mut p: Packet, now: u64) {
        let port = self.port_of_route(host, p.route());
        let cable = port
            .filter(|i| self.port_is_up(host, *i))
            .and_then(|i| self.hosts[host.0].ports[i].cable);
        let Some((cable, end)) = cable else {
            self.hosts[host.0].counters.xdomain_dropped += 1;
            return;
        };
        self.hosts[host.0].counters.xdomain_sent += 1;
        let site = Site { tx: Some(End { host, hop: 0 }), rx: None };
        if self.faults.hit(FaultKind::ControlLoss, site).is_some() {
            return;
        }
        let c = &mut self.cables[cable];
        c.lanes[end].counters.control += 1;
        let (peer, at) = (c.ends[1 - end], now + c.limits.latency_ns);
        p.dwords[0] = REPLY;
        p.dwords[1] = u32::from(peer.adapter());
        self.post_control(peer.host, p, at);
    }
}

/// The completed control dword of an RX descriptor.
pub(super) fn completion(len: usize, sof: u8, eof: u8, flags: u32) -> u32 {
    (len as u32 & 0xfff)
        | u32::from(eof & 15) << 12
        | u32::from(sof & 15) << 16
        | FLAG_COMPLETED
        | flags
}

/// What every use of a received descriptor keeps of the posted one.
pub(super) fn posted_flags(d: Descriptor) -> u32 {
    d.control & FLAG_INTERRUPT
}
