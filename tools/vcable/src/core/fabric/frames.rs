// SPDX-License-Identifier: GPL-2.0
//! The path engine: TX ring -> host interface's path -> cable -> lane's path -> RX ring.

use std::sync::Arc;

use super::super::faults::{End, FrameFaults};
use super::super::link::{InFlight, LinkState};
use super::super::ring::{Descriptor, FLAG_COMPLETED, FLAG_INTERRUPT};
use super::super::tables::{NHI_ADAPTER, PORTS};
use super::deliver::{Frame, Payload};
use super::{Fabric, FaultKind, HostId, Memory, Site};

/// Frames of one ring before the next one's turn.
const QUANTUM: u64 = 8;
/// Frames of one poll at most (about a quarter of a millisecond's copying).
pub(super) const BUDGET: u64 = 256;

/// Where a TX ring's frames go.
#[derive(Clone, Copy)]
enum Way {
    /// No enabled path, or no link.
    Nowhere { link_down: Option<(usize, usize)> },
    /// Onto a cable with this HopID; the far end may or may not take it.
    Wire { cable: usize, end: usize, hop: u16, to: Option<End> },
}

/// What became of a frame that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Moved,
    Waits,
}

impl Fabric {
    /// Gives every running TX ring its turns; returns frames moved.
    pub(super) fn move_frames(&mut self, now: u64) -> u64 {
        let n = self.senders.len();
        let mut moved = 0;
        self.turn = if n == 0 { 0 } else { (self.turn + 1) % n };
        while moved < BUDGET {
            let before = moved;
            for k in 0..n {
                let Some(&(host, hop)) = self.senders.get((self.turn + k) % n) else { break };
                moved += self.serve_ring(host, hop, now);
            }
            if moved == before {
                break;
            }
        }
        if moved >= BUDGET {
            // Frames that the budget left waiting keep their place on the wire.
            self.cables.iter_mut().flat_map(|c| &mut c.lanes).for_each(|l| l.backlogged = true);
        }
        moved
    }

    /// One turn of a TX ring.
    fn serve_ring(&mut self, host: usize, hop: u16, now: u64) -> u64 {
        let h = &mut self.hosts[host];
        let index = h.nhi.tx_index(hop);
        let waiting = u64::from(h.nhi.tx[usize::from(hop)].outstanding(index));
        if waiting == 0 {
            return 0;
        }
        let memory = Arc::clone(&h.attachment.memory);
        let way = self.way(host, hop);
        let mut moved = 0;
        while moved < waiting.min(QUANTUM) {
            match self.send_one(host, hop, way, &*memory, now) {
                Step::Moved => moved += 1,
                Step::Waits => break,
            }
        }
        moved
    }

    /// Follows the path of a TX ring.
    fn way(&self, host: usize, hop: u16) -> Way {
        let h = &self.hosts[host];
        let nowhere = Way::Nowhere { link_down: None };
        let Some(path) = h.router.path(NHI_ADAPTER, hop) else { return nowhere };
        let Some(port) = PORTS.iter().position(|p| *p == path.out_adapter()) else {
            return nowhere;
        };
        let Some((cable, end)) = h.ports[port].cable else { return nowhere };
        let c = &self.cables[cable];
        if c.state != LinkState::Up {
            return Way::Nowhere { link_down: Some((cable, end)) };
        }
        let to = self.receiver(cable, end, path.next_hop());
        Way::Wire { cable, end, hop: path.next_hop(), to }
    }

    /// The RX ring that frames with a HopID reach when sent from `end` of a cable.
    pub(super) fn receiver(&self, cable: usize, end: usize, hop: u16) -> Option<End> {
        let peer = self.cables[cable].ends[1 - end];
        let h = &self.hosts[peer.host.0];
        let path = h.router.path(peer.adapter(), hop)?;
        let ring = h.nhi.rx.get(usize::from(path.next_hop()))?;
        let leads_up = path.out_adapter() == NHI_ADAPTER && path.next_hop() != 0;
        (leads_up && ring.enabled).then_some(End { host: peer.host, hop: path.next_hop() })
    }

    /// Sends the frame at a TX ring's place, if it can go now.
    fn send_one(&mut self, host: usize, hop: u16, way: Way, memory: &dyn Memory, now: u64) -> Step {
        let from = End { host: HostId(host), hop };
        let (cable, end, wire_hop, to) = match way {
            Way::Wire { cable, end, hop, to } => (cable, end, hop, to),
            Way::Nowhere { link_down } => {
                if let Some((c, e)) = link_down {
                    self.cables[c].lanes[e].counters.link_down += 1;
                }
                self.hosts[host].nhi.tx[usize::from(hop)].counters.no_path += 1;
                return self.complete_tx(from, memory, now);
            }
        };
        let limits = self.cables[cable].limits;
        // First the receiver, then the wire: a ring without credits is not to take a turn there.
        let queued = self.cables[cable].lanes[end].flow_len(wire_hop);
        if to.is_some_and(|to| self.holds_back(from, to, queued, now)) {
            return Step::Waits;
        }
        if !self.wire_ready(cable, end, from, to, now) {
            return Step::Waits;
        }
        let Ok(d) = self.hosts[host].nhi.tx[usize::from(hop)].read(memory) else {
            self.hosts[host].nhi.tx[usize::from(hop)].fault();
            return Step::Waits;
        };
        self.cables[cable].lanes[end].occupy(now, d.len(), &limits);
        let verdict = self.faults.judge(Site { tx: Some(from), rx: to });
        if to.is_none() {
            self.cables[cable].lanes[end].counters.dead_end += 1;
            self.hosts[host].nhi.tx[usize::from(hop)].counters.no_path += 1;
        } else if let (Some(to), false) = (to, verdict.drop) {
            let frame = Frame {
                payload: Payload::Guest(memory, d.phys),
                len: d.len(),
                sof: d.sof(),
                eof: d.eof(),
            };
            if queued > 0 || limits.latency_ns > 0 || verdict.delay.is_some() {
                self.delay(cable, end, wire_hop, from, &frame, verdict, now);
            } else {
                self.deliver(Some(from), to, &frame, verdict, now);
            }
        }
        self.complete_tx_read(from, d, memory, now)
    }

    /// Whether the wire takes a frame at `now`: rate, pauses, room.
    fn wire_ready(
        &mut self,
        cable: usize,
        end: usize,
        from: End,
        to: Option<End>,
        now: u64,
    ) -> bool {
        let c = &mut self.cables[cable];
        if !c.lanes[end].ready(from.hop, now, &c.limits) {
            return false;
        }
        if self.faults.none() || std::mem::replace(&mut c.lanes[end].judged, true) {
            return true;
        }
        let site = Site { tx: Some(from), rx: to };
        let Some(ns) = self.faults.hit(FaultKind::PauseLink, site) else { return true };
        // A retrain stops both directions.
        c.lanes.iter_mut().for_each(|l| l.paused_until = l.paused_until.max(now + ns));
        c.lanes[end].backlogged = true;
        false
    }

    /// Whether a receiving ring with E2E flow control makes the sender wait: no buffer beyond
    /// the `queued` frames under way to it, or a stall.
    fn holds_back(&mut self, from: End, to: End, queued: usize, now: u64) -> bool {
        let free = self.room(to, Some(from), now);
        let e2e = self.hosts[to.host.0].nhi.rx[usize::from(to.hop)].e2e;
        let waits = e2e && free <= queued;
        let tx = &mut self.hosts[from.host.0].nhi.tx[usize::from(from.hop)];
        if waits && !tx.blocked {
            tx.counters.backpressure += 1;
        }
        tx.blocked = waits;
        waits
    }

    /// Completes the descriptor at a TX ring's place.
    fn complete_tx(&mut self, from: End, memory: &dyn Memory, now: u64) -> Step {
        let ring = &mut self.hosts[from.host.0].nhi.tx[usize::from(from.hop)];
        match ring.read(memory) {
            Ok(d) => self.complete_tx_read(from, d, memory, now),
            Err(_) => {
                ring.fault();
                Step::Waits
            }
        }
    }

    fn complete_tx_read(
        &mut self,
        from: End,
        d: Descriptor,
        memory: &dyn Memory,
        now: u64,
    ) -> Step {
        let h = &mut self.hosts[from.host.0];
        let ring = &mut h.nhi.tx[usize::from(from.hop)];
        if ring.complete(memory, d.control | FLAG_COMPLETED).is_err() {
            ring.fault();
            return Step::Waits;
        }
        ring.counters.frames += 1;
        ring.counters.bytes += d.len() as u64;
        if d.control & FLAG_INTERRUPT != 0 {
            ring.counters.completions += 1;
            let site = Site { tx: Some(from), rx: None };
            if self.faults.hit(FaultKind::LostTx, site).is_none() {
                h.nhi.irq.set_status(u32::from(from.hop), now, &*h.attachment.interrupts);
            }
        }
        Step::Moved
    }

    /// Puts a frame under way on the cable, with the cable's latency and a fault's delay.
    #[allow(clippy::too_many_arguments)]
    fn delay(
        &mut self,
        cable: usize,
        end: usize,
        hop: u16,
        from: End,
        frame: &Frame<'_>,
        verdict: FrameFaults,
        now: u64,
    ) {
        let c = &mut self.cables[cable];
        let lane = &mut c.lanes[end];
        let mut bytes = lane.buffer(frame.len);
        if let Payload::Guest(memory, at) = frame.payload {
            if memory.read(at, &mut bytes).is_err() {
                let tx = &mut self.hosts[from.host.0].nhi.tx[usize::from(from.hop)];
                tx.counters.dma_faults += 1;
                return;
            }
        }
        let deliver_at = now + c.limits.latency_ns + verdict.delay.unwrap_or(0);
        let faults = verdict;
        lane.push(hop, InFlight { deliver_at, bytes, sof: frame.sof, eof: frame.eof, faults });
    }
}
