// SPDX-License-Identifier: GPL-2.0
//! The receiving end of the path engine: frames out of their latency, into RX rings.

use super::super::faults::{End, FrameFaults};
use super::super::ring::{FLAG_CRC_ERROR, FLAG_INTERRUPT, FLAG_OVERRUN, MAX_FRAME};
use super::control::{completion, posted_flags};
use super::frames::BUDGET;
use super::{Fabric, FabricError, FaultKind, HostId, Memory, Site};

/// `Corrupt` hits a header: a bit among the first bytes.
const HEADER_BYTES: usize = 64;

/// A frame's payload: still in the sender's memory, or in a buffer.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Guest(&'a dyn Memory, u64),
    Bytes(&'a [u8]),
}

/// A frame for an RX ring.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub payload: Payload<'a>,
    pub len: usize,
    pub sof: u8,
    pub eof: u8,
}

impl Fabric {
    /// Buffers that an RX ring has to give at `now`; 0 while a fault stalls it.
    pub(super) fn room(&mut self, to: End, from: Option<End>, now: u64) -> usize {
        let nhi = &mut self.hosts[to.host.0].nhi;
        let index = nhi.rx_index(to.hop);
        let ring = &mut nhi.rx[usize::from(to.hop)];
        if now < ring.stalled_until {
            return 0;
        }
        if !self.faults.none() && !std::mem::replace(&mut ring.judged, true) {
            let site = Site { tx: from, rx: Some(to) };
            if let Some(ns) = self.faults.hit(FaultKind::Stall, site) {
                ring.stalled_until = now + ns;
                return 0;
            }
        }
        usize::from(ring.outstanding(index))
    }

    /// Delivers what has been under way long enough; returns frames delivered.
    pub(super) fn deliver_delayed(&mut self, now: u64) -> u64 {
        let mut moved = 0;
        for cable in 0..self.cables.len() {
            for end in 0..2 {
                let mut flow = 0;
                while flow < self.cables[cable].lanes[end].flows.len() && moved < BUDGET {
                    moved += self.deliver_flow(cable, end, flow, now, BUDGET - moved);
                    let lane = &mut self.cables[cable].lanes[end];
                    if lane.flows[flow].frames.is_empty() {
                        lane.flows.swap_remove(flow);
                    } else {
                        flow += 1;
                    }
                }
            }
        }
        moved
    }

    fn deliver_flow(&mut self, cable: usize, end: usize, flow: usize, now: u64, most: u64) -> u64 {
        let hop = self.cables[cable].lanes[end].flows[flow].hop;
        let to = self.receiver(cable, end, hop);
        let mut moved = 0;
        while moved < most {
            let front = self.cables[cable].lanes[end].flows[flow].frames.front();
            if front.is_none_or(|f| f.deliver_at > now) {
                break;
            }
            let stuck = to.is_some_and(|to| {
                let e2e = self.hosts[to.host.0].nhi.rx[usize::from(to.hop)].e2e;
                e2e && self.room(to, None, now) == 0
            });
            if stuck {
                break;
            }
            let Some(f) = self.cables[cable].lanes[end].pop(flow) else { break };
            moved += 1;
            if let Some(to) = to {
                let payload = Payload::Bytes(&f.bytes);
                let frame = Frame { payload, len: f.bytes.len(), sof: f.sof, eof: f.eof };
                self.deliver(None, to, &frame, f.faults, now);
            } else {
                self.cables[cable].lanes[end].counters.dead_end += 1;
            }
            self.cables[cable].lanes[end].recycle(f);
        }
        moved
    }

    /// Writes a frame into an RX ring, or drops it where the ring has no use or no buffer.
    pub(super) fn deliver(
        &mut self,
        from: Option<End>,
        to: End,
        frame: &Frame<'_>,
        v: FrameFaults,
        now: u64,
    ) {
        let copies = if v.duplicate { 2 } else { 1 };
        for _ in 0..copies {
            if self.room(to, from, now) == 0 {
                let h = &mut self.hosts[to.host.0];
                h.nhi.rx[usize::from(to.hop)].counters.no_buffer += 1;
                let bit = h.nhi.overflow_bit(to.hop);
                h.nhi.irq.set_status(bit, now, &*h.attachment.interrupts);
                return;
            }
            self.fill(from, to, frame, v, now);
        }
    }

    /// Writes a frame into the next buffer of an RX ring that has one.
    fn fill(&mut self, from: Option<End>, to: End, frame: &Frame<'_>, v: FrameFaults, now: u64) {
        let h = &mut self.hosts[to.host.0];
        let bit = h.nhi.rx_bit(to.hop);
        let ring = &mut h.nhi.rx[usize::from(to.hop)];
        if !ring.accepts(frame.sof, frame.eof) {
            ring.counters.masked += 1;
            return;
        }
        let memory = &*h.attachment.memory;
        let Ok(d) = ring.read(memory) else { return ring.fault() };
        let len = frame.len.min(ring.max_frame);
        let copied = match frame.payload {
            Payload::Guest(source, at) => memory.copy_from(d.phys, source, at, len),
            Payload::Bytes(bytes) => memory.write(d.phys, &bytes[..len]),
        };
        if copied.is_err() {
            // The descriptor stays as it is: what could not be written is not completed.
            ring.counters.dma_faults += 1;
            return;
        }
        let mut flags = posted_flags(d);
        if v.overrun || len < frame.len {
            ring.counters.overruns += 1;
            flags |= FLAG_OVERRUN;
        }
        if v.crc {
            flags |= FLAG_CRC_ERROR;
            flip(memory, d.phys, self.faults.pick(FaultKind::Crc, 8 * len as u64));
        }
        if v.corrupt {
            let bits = 8 * len.min(HEADER_BYTES) as u64;
            flip(memory, d.phys, self.faults.pick(FaultKind::Corrupt, bits));
        }
        if ring.complete(memory, completion(len, frame.sof, frame.eof, flags)).is_err() {
            return ring.fault();
        }
        ring.counters.frames += 1;
        ring.counters.bytes += len as u64;
        if flags & FLAG_INTERRUPT == 0 {
            return;
        }
        ring.counters.completions += 1;
        let site = Site { tx: from, rx: Some(to) };
        if self.faults.hit(FaultKind::StrandRx, site).is_none() {
            h.nhi.irq.set_status(bit, now, &*h.attachment.interrupts);
        }
    }

    /// Delivers a made-up frame into RX ring `hop` of `host`, as if a peer had sent it.
    ///
    /// # Errors
    /// [`FabricError`] when the ring does not run, has no buffer, or `bytes` is empty or over
    /// 4096 long.
    pub fn inject(
        &mut self,
        host: HostId,
        hop: u16,
        sof: u8,
        eof: u8,
        bytes: &[u8],
        now: u64,
    ) -> Result<(), FabricError> {
        if bytes.is_empty() || bytes.len() > MAX_FRAME || sof > 15 || eof > 15 {
            return Err(FabricError::Invalid("1 to 4096 bytes, sof and eof up to 15".into()));
        }
        let h = self.hosts.get(host.0).ok_or(FabricError::NotFound("host".into()))?;
        let ring = h.nhi.rx.get(usize::from(hop)).filter(|r| r.enabled && hop != 0);
        if ring.is_none() {
            return Err(FabricError::NotFound(format!("no RX ring {hop} runs at {}", h.name)));
        }
        let to = End { host, hop };
        if self.room(to, None, now) == 0 {
            return Err(FabricError::InUse(format!("RX ring {hop} has no buffer")));
        }
        let frame = Frame { payload: Payload::Bytes(bytes), len: bytes.len(), sof, eof };
        self.fill(None, to, &frame, FrameFaults::default(), now);
        self.hosts[host.0].count_interrupts();
        Ok(())
    }
}

/// Inverts one bit of guest memory; where that fails the frame simply stays right.
fn flip(memory: &dyn Memory, at: u64, bit: u64) {
    let mut byte = [0u8];
    if memory.read(at + bit / 8, &mut byte).is_ok() {
        byte[0] ^= 1 << (bit % 8);
        // The same byte was just written as part of the frame.
        let _ = memory.write(at + bit / 8, &byte);
    }
}
