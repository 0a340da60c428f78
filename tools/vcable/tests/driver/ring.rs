// SPDX-License-Identifier: GPL-2.0
//! The driver's side of a descriptor ring, as nhi.c does it.

use vcable::core::{Fabric, HostId};

use super::memory::GuestMemory;

pub const COMPLETED: u32 = 1 << 21;
pub const CRC_ERROR: u32 = 1 << 20;
pub const OVERRUN: u32 = 1 << 22;
const POSTED: u32 = 1 << 22;
const INTERRUPT: u32 = 1 << 23;

pub const OPT_ENABLE: u32 = 1 << 31;
pub const OPT_RAW: u32 = 1 << 30;
pub const OPT_E2E: u32 = 1 << 28;

/// A frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub sof: u8,
    pub eof: u8,
    pub data: Vec<u8>,
}

impl Frame {
    /// With the marks that the tests' rings use.
    pub fn new(data: &[u8]) -> Frame {
        Frame { sof: 1, eof: 2, data: data.to_vec() }
    }
}

/// A received frame with the flags of its descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub frame: Frame,
    pub flags: u32,
}

/// How a ring is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub tx: bool,
    pub hop: u16,
    pub size: u16,
    pub raw: bool,
    pub e2e: bool,
    pub interrupts: bool,
    pub sof_mask: u16,
    pub eof_mask: u16,
}

impl Setup {
    /// A frame-mode ring of 16 entries with interrupts and the masks of [`Frame::new`].
    pub fn new(tx: bool, hop: u16) -> Setup {
        Setup {
            tx,
            hop,
            size: 16,
            raw: false,
            e2e: false,
            interrupts: true,
            sof_mask: 1 << 1,
            eof_mask: 1 << 2,
        }
    }
}

/// A ring and its buffers, one a descriptor, in the guest's memory.
pub struct Ring {
    pub setup: Setup,
    pub base: u64,
    buffers: u64,
    pub head: u16,
    pub tail: u16,
    pub running: bool,
    pub vector: u16,
    /// Interrupts handled.
    pub interrupts: u64,
}

impl Ring {
    /// Takes memory at `base`: the descriptors, then a 4 KiB buffer each.
    pub fn new(setup: Setup, base: u64) -> Ring {
        let buffers = (base + 16 * u64::from(setup.size)).next_multiple_of(4096);
        let vector = 0;
        Ring { setup, base, buffers, head: 0, tail: 0, running: false, vector, interrupts: 0 }
    }

    /// End of the memory it takes.
    pub fn end(&self) -> u64 {
        self.buffers + 4096 * u64::from(self.setup.size)
    }

    pub fn desc_offset(&self) -> u32 {
        let base = if self.setup.tx { 0 } else { 0x8000 };
        base + 16 * u32::from(self.setup.hop)
    }

    pub fn options_offset(&self) -> u32 {
        let base = if self.setup.tx { 0x19800 } else { 0x29800 };
        base + 32 * u32::from(self.setup.hop)
    }

    /// Interrupt number of the ring.
    pub fn bit(&self, paths: u16) -> u16 {
        self.setup.hop + if self.setup.tx { 0 } else { paths }
    }

    /// tb_ring_start.
    pub fn start(&mut self, f: &mut Fabric, host: HostId, paths: u16, now: u64) {
        let (d, o) = (self.desc_offset(), self.options_offset());
        let s = self.setup;
        let frame_size: u32 = if s.raw { 256 } else { 0 };
        let mut options = OPT_ENABLE | if s.raw { OPT_RAW } else { 0 };
        f.mmio_write(host, d, self.base as u32, now);
        f.mmio_write(host, d + 4, (self.base >> 32) as u32, now);
        let size = u32::from(s.size) | if s.tx { 0 } else { frame_size << 16 };
        f.mmio_write(host, d + 12, size, now);
        let masks = if s.tx { 0 } else { u32::from(s.sof_mask) << 16 | u32::from(s.eof_mask) };
        f.mmio_write(host, o + 4, masks, now);
        f.mmio_write(host, o, options, now);
        if s.e2e {
            options |= OPT_E2E;
            f.mmio_write(host, o, options, now);
        }
        if s.interrupts {
            self.set_interrupt(f, host, paths, true, now);
        }
        (self.head, self.tail, self.running) = (0, 0, true);
    }

    /// ring_interrupt_active.
    fn set_interrupt(&self, f: &mut Fabric, host: HostId, paths: u16, active: bool, now: u64) {
        let bit = u32::from(self.bit(paths));
        let misc = f.mmio_read(host, 0x39864, now);
        if misc & 1 << 17 == 0 {
            f.mmio_write(host, 0x39864, misc | 1 << 17, now);
        }
        let at = 0x38c40 + bit / 8 * 4;
        let mut ivr = f.mmio_read(host, at, now) & !(0xf << (bit % 8 * 4));
        if active {
            ivr |= u32::from(self.vector) << (bit % 8 * 4);
        }
        f.mmio_write(host, at, ivr, now);
        f.mmio_write(host, 0x38c00 + 4 * u32::from(self.vector), 0, now);
        let old = f.mmio_read(host, 0x38200, now);
        assert_eq!(old >> bit & 1 != 0, !active, "interrupt {bit} is already {active}");
        if active {
            f.mmio_write(host, 0x38200, old | 1 << bit, now);
        } else {
            f.mmio_write(host, 0x38208, 1 << bit, now);
        }
    }

    /// tb_ring_stop.
    pub fn stop(&mut self, f: &mut Fabric, host: HostId, paths: u16, now: u64) {
        if self.setup.interrupts {
            self.set_interrupt(f, host, paths, false, now);
        }
        f.mmio_write(host, self.options_offset(), 0, now);
        for dword in [0, 4, 8, 12] {
            f.mmio_write(host, self.desc_offset() + dword, 0, now);
        }
        (self.head, self.tail, self.running) = (0, 0, false);
    }

    fn buffer(&self, index: u16) -> u64 {
        self.buffers + 4096 * u64::from(index)
    }

    fn next(&self, index: u16) -> u16 {
        (index + 1) % self.setup.size
    }

    pub fn full(&self) -> bool {
        self.next(self.head) == self.tail
    }

    /// Descriptors that the hardware has.
    pub fn outstanding(&self) -> u16 {
        (self.head + self.setup.size - self.tail) % self.setup.size
    }

    fn post(&mut self, f: &mut Fabric, host: HostId, m: &GuestMemory, control: u32, now: u64) {
        let at = self.base + 16 * u64::from(self.head);
        m.poke(at, &self.buffer(self.head).to_le_bytes());
        let flags = POSTED | if self.setup.interrupts { INTERRUPT } else { 0 };
        m.poke(at + 8, &(control | flags).to_le_bytes());
        m.poke(at + 12, &0u32.to_le_bytes());
        self.head = self.next(self.head);
        let shift = if self.setup.tx { 16 } else { 0 };
        f.mmio_write(host, self.desc_offset() + 8, u32::from(self.head) << shift, now);
    }

    /// Enqueues a frame to send; false when the ring is full.
    pub fn send(
        &mut self,
        f: &mut Fabric,
        host: HostId,
        m: &GuestMemory,
        frame: &Frame,
        now: u64,
    ) -> bool {
        if self.full() {
            return false;
        }
        m.poke(self.buffer(self.head), &frame.data);
        let control = frame.data.len() as u32 & 0xfff
            | u32::from(frame.eof) << 12
            | u32::from(frame.sof) << 16;
        self.post(f, host, m, control, now);
        true
    }

    /// Posts receive buffers until the ring is full.
    pub fn refill(&mut self, f: &mut Fabric, host: HostId, m: &GuestMemory, now: u64) {
        while !self.full() {
            self.post(f, host, m, 0, now);
        }
    }

    /// Posts one receive buffer.
    pub fn post_one(&mut self, f: &mut Fabric, host: HostId, m: &GuestMemory, now: u64) {
        assert!(!self.full());
        self.post(f, host, m, 0, now);
    }

    /// Takes the next completed descriptor, as tb_ring_poll.
    pub fn poll(&mut self, m: &GuestMemory) -> Option<Received> {
        let control = m.peek_u32(self.base + 16 * u64::from(self.tail) + 8);
        if self.tail == self.head || control & COMPLETED == 0 {
            return None;
        }
        let len = match control as usize & 0xfff {
            0 => 4096,
            n => n,
        };
        let data = m.peek(self.buffer(self.tail), len);
        self.tail = self.next(self.tail);
        let (sof, eof) = ((control >> 16 & 15) as u8, (control >> 12 & 15) as u8);
        Some(Received { frame: Frame { sof, eof, data }, flags: control & 0xfff0_0000 })
    }
}
