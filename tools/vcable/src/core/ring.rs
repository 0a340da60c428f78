// SPDX-License-Identifier: GPL-2.0
//! Descriptor rings: where the hardware stands in one, and the descriptor format.
//!
//! A descriptor is 16 bytes: the buffer's address, then one dword of
//! `length[11:0] eof[15:12] sof[19:16] flags[31:20]`, then a dword of no use here.

use super::counters::RingCounters;
use super::{DmaFault, Memory};

/// Flags of a descriptor, in place in its third dword.
pub(crate) const FLAG_CRC_ERROR: u32 = 1 << 20;
pub(crate) const FLAG_COMPLETED: u32 = 1 << 21;
/// On an RX completion; on submission the same bit says "posted".
pub(crate) const FLAG_OVERRUN: u32 = 1 << 22;
pub(crate) const FLAG_INTERRUPT: u32 = 1 << 23;

/// Bits of the options register.
pub(crate) const OPT_ENABLE: u32 = 1 << 31;
pub(crate) const OPT_RAW: u32 = 1 << 30;
pub(crate) const OPT_E2E: u32 = 1 << 28;

/// Largest frame in bytes.
pub(crate) const MAX_FRAME: usize = 4096;

/// A descriptor as read from guest memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub phys: u64,
    pub control: u32,
}

impl Descriptor {
    /// Frame length in bytes; the 12-bit field holds 0 for 4096.
    pub fn len(self) -> usize {
        match (self.control & 0xfff) as usize {
            0 => MAX_FRAME,
            n => n,
        }
    }

    /// End-of-frame mark (the packet type, in raw mode).
    pub fn eof(self) -> u8 {
        (self.control >> 12 & 0xf) as u8
    }

    /// Start-of-frame mark.
    pub fn sof(self) -> u8 {
        (self.control >> 16 & 0xf) as u8
    }
}

/// The hardware's side of one ring.
#[derive(Default)]
pub(crate) struct Ring {
    pub enabled: bool,
    pub raw: bool,
    pub e2e: bool,
    pub base: u64,
    pub size: u16,
    /// Next descriptor to process.
    pub pos: u16,
    /// RX: largest frame in bytes.
    pub max_frame: usize,
    pub sof_mask: u16,
    pub eof_mask: u16,
    /// RX: takes nothing before this time (a fault).
    pub stalled_until: u64,
    /// The frame at hand has been judged for faults that only hold it up.
    pub judged: bool,
    /// TX: held up by the receiver at the last look.
    pub blocked: bool,
    pub counters: RingCounters,
}

impl Ring {
    /// Starts at index 0. `size_reg` is the ring's fourth register.
    pub fn start(&mut self, base: u64, size_reg: u32) {
        let counters = std::mem::take(&mut self.counters);
        let max = (size_reg >> 16) as usize;
        *self = Ring {
            enabled: true,
            base,
            size: size_reg as u16,
            max_frame: if max == 0 || max > MAX_FRAME { MAX_FRAME } else { max },
            counters,
            ..Ring::default()
        };
        self.counters.starts += 1;
    }

    /// Stops; no DMA to or from this ring follows.
    pub fn stop(&mut self) {
        let counters = std::mem::take(&mut self.counters);
        *self = Ring { counters, ..Ring::default() };
    }

    /// Descriptors between the hardware's place and the software's index.
    pub fn outstanding(&mut self, software: u16) -> u16 {
        if software == self.pos || !self.enabled {
            0
        } else if software >= self.size {
            self.counters.bad_index += 1;
            0
        } else if software > self.pos {
            software - self.pos
        } else {
            self.size - self.pos + software
        }
    }

    fn address(&self) -> u64 {
        self.base.wrapping_add(16 * u64::from(self.pos))
    }

    /// Reads the descriptor at the hardware's place.
    pub fn read(&self, memory: &dyn Memory) -> Result<Descriptor, DmaFault> {
        let mut b = [0u8; 16];
        memory.read(self.address(), &mut b)?;
        let (mut phys, mut control) = ([0u8; 8], [0u8; 4]);
        phys.copy_from_slice(&b[..8]);
        control.copy_from_slice(&b[8..12]);
        Ok(Descriptor { phys: u64::from_le_bytes(phys), control: u32::from_le_bytes(control) })
    }

    /// Completes the descriptor at the hardware's place and moves on.
    pub fn complete(&mut self, memory: &dyn Memory, control: u32) -> Result<(), DmaFault> {
        let at = self.address() + 8;
        self.pos = if self.pos + 1 >= self.size { 0 } else { self.pos + 1 };
        self.judged = false;
        memory.store_u32(at, control)
    }

    /// Gives up a ring whose descriptors cannot be reached, until it is started again.
    pub fn fault(&mut self) {
        self.counters.dma_faults += 1;
        self.enabled = false;
    }

    /// Whether a frame with these marks belongs in this RX ring.
    pub fn accepts(&self, sof: u8, eof: u8) -> bool {
        self.raw || (self.sof_mask >> (sof & 15) & 1 != 0 && self.eof_mask >> (eof & 15) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_wraps_and_refuses_wild_indices() {
        let mut r = Ring::default();
        r.start(0, 10);
        assert_eq!(r.outstanding(0), 0);
        assert_eq!(r.outstanding(9), 9);
        r.pos = 8;
        assert_eq!(r.outstanding(3), 5);
        assert_eq!(r.outstanding(10), 0);
        assert_eq!(r.counters.bad_index, 1);
        assert_eq!(r.max_frame, 4096);
        r.stop();
        assert_eq!(r.outstanding(3), 0);
    }

    #[test]
    fn lengths() {
        assert_eq!(Descriptor { phys: 0, control: 0xfff0_0000 }.len(), 4096);
        assert_eq!(Descriptor { phys: 0, control: 0x0025_6fff }.len(), 4095);
        assert_eq!(Descriptor { phys: 0, control: 0x0025_6001 }.eof(), 6);
        assert_eq!(Descriptor { phys: 0, control: 0x0025_6001 }.sof(), 5);
    }
}
