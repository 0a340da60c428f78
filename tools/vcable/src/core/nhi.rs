// SPDX-License-Identifier: GPL-2.0
//! The host interface: the registers of BAR0, the rings behind them, the interrupter.

use std::sync::Arc;

use super::irq::Interrupter;
use super::regs::{Hit, Kind, RegisterFile, CAPS, DMA_MISC, DMA_MISC_NO_AUTO_CLEAR, MAP};
use super::ring::{Ring, OPT_E2E, OPT_ENABLE, OPT_RAW};
use super::{IndexPages, Interrupts, Profile};

/// What a register write asks of the rest of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// The set of running rings changed.
    Rings,
    /// Host router reset.
    RouterReset,
    /// No such register.
    Stray,
}

/// One host interface.
pub(crate) struct Nhi {
    pub paths: u16,
    regs: RegisterFile,
    pub tx: Vec<Ring>,
    pub rx: Vec<Ring>,
    pub irq: Interrupter,
    index: Arc<dyn IndexPages>,
    caps: u32,
}

impl Nhi {
    /// An interface at reset; the index pages are zeroed too.
    pub fn new(profile: &Profile, index: Arc<dyn IndexPages>) -> Self {
        let version: u32 = if profile.usb4_v2 { 0x40 } else { 0x20 };
        let rings = || (0..profile.paths).map(|_| Ring::default()).collect();
        let mut nhi = Nhi {
            paths: profile.paths,
            regs: RegisterFile::new(profile.paths),
            tx: rings(),
            rx: rings(),
            irq: Interrupter::new(),
            index,
            caps: version << 16 | u32::from(profile.paths),
        };
        nhi.reset();
        nhi
    }

    /// Every register and ring to its reset state, the index pages to zero.
    pub fn reset(&mut self) {
        self.regs.reset();
        self.regs.set_row(CAPS, self.caps);
        self.tx.iter_mut().chain(&mut self.rx).for_each(Ring::stop);
        self.irq = Interrupter::new();
        self.index.clear();
    }

    /// Ends or shows a host router reset in its register.
    pub fn show_reset(&mut self, active: bool) {
        self.regs.set_row(MAP.len() - 1, u32::from(active));
    }

    /// Whether the profile has the host router reset register (USB4 v2).
    fn has_router_reset(&self) -> bool {
        self.caps >> 16 >= 0x40
    }

    /// Interrupt bit of an RX ring.
    pub fn rx_bit(&self, hop: u16) -> u32 {
        u32::from(self.paths + hop)
    }

    /// Status bit of an RX ring's overflow.
    pub fn overflow_bit(&self, hop: u16) -> u32 {
        u32::from(2 * self.paths + hop)
    }

    /// Software's index of a TX ring (its producer).
    pub fn tx_index(&self, hop: u16) -> u16 {
        (self.index.load(16 * u32::from(hop) + 8) >> 16) as u16
    }

    /// Software's index of an RX ring (descriptors up to it are posted).
    pub fn rx_index(&self, hop: u16) -> u16 {
        self.index.load(0x8000 + 16 * u32::from(hop) + 8) as u16
    }

    /// The name of the register at an offset.
    pub fn name(&self, offset: u32) -> Option<&'static str> {
        self.regs.find(offset).map(|hit| MAP[hit.row].name)
    }

    /// Reads a dword; `None` where there is no register.
    pub fn read(&mut self, offset: u32) -> Option<u32> {
        let hit = self.regs.find(offset)?;
        let hop = hit.index as usize;
        Some(match MAP[hit.row].kind {
            Kind::TxIndex if hit.dword == 2 => {
                self.index.load(offset) & 0xffff_0000 | u32::from(self.tx[hop].pos)
            }
            Kind::RxIndex if hit.dword == 2 => {
                self.index.load(offset) & 0xffff | u32::from(self.rx[hop].pos) << 16
            }
            Kind::TxIndex | Kind::RxIndex => self.index.load(offset),
            Kind::Status => self.read_status(hit.index),
            Kind::Enable => self.irq.enable_word(hit.index),
            _ => self.regs.get(hit),
        })
    }

    fn read_status(&mut self, word: u32) -> u32 {
        let value = self.irq.status_word(word);
        if self.regs.get_row(DMA_MISC) & DMA_MISC_NO_AUTO_CLEAR == 0 {
            self.irq.clear_status(word, value);
        }
        value
    }

    /// Status bits of an enable word that a write of `value` at `offset` would unmask.
    pub fn unmasks(&self, offset: u32, value: u32) -> u32 {
        match self.regs.find(offset) {
            Some(hit) if MAP[hit.row].kind == Kind::Enable => {
                self.irq.unmasked_by(hit.index, value)
            }
            _ => 0,
        }
    }

    /// Writes a dword. `silent` are enable bits that must not fire on unmask (a fault).
    pub fn write(
        &mut self,
        offset: u32,
        value: u32,
        silent: u32,
        now: u64,
        out: &dyn Interrupts,
    ) -> Effect {
        let Some(hit) = self.regs.find(offset) else { return Effect::Stray };
        match MAP[hit.row].kind {
            Kind::TxIndex | Kind::RxIndex => self.index.store(offset, value),
            Kind::StatusClear => self.irq.clear_status(hit.index, value & MAP[hit.row].w1c),
            Kind::Enable => self.irq.write_enable(hit.index, value, silent, now, out),
            Kind::EnableClear => self.irq.clear_enable(hit.index, value & MAP[hit.row].w1c),
            Kind::Vector => {
                let v = self.regs.write(hit, value);
                self.irq.set_vectors(hit.index, v);
            }
            Kind::Throttle => {
                let v = self.regs.write(hit, value);
                self.irq.set_throttle(hit.index, v);
            }
            Kind::TxOptions | Kind::RxOptions => return self.write_options(hit, value),
            Kind::Reset if self.has_router_reset() => {
                if self.regs.write(hit, value) & 1 != 0 {
                    return Effect::RouterReset;
                }
            }
            Kind::Reset | Kind::Status => {}
            Kind::Plain => {
                self.regs.write(hit, value);
            }
        }
        Effect::None
    }

    fn write_options(&mut self, hit: Hit, value: u32) -> Effect {
        let hop = hit.index as usize;
        let rx = MAP[hit.row].kind == Kind::RxOptions;
        let value = self.regs.write(hit, value);
        let options = self.regs.get(Hit { dword: 0, ..hit });
        let masks = self.regs.get(Hit { dword: 1, ..hit });
        let base_at = if rx { 0x8000 } else { 0 } + 16 * hit.index;
        let index = &self.index;
        let ring = if rx { &mut self.rx[hop] } else { &mut self.tx[hop] };
        let was = ring.enabled;
        if hit.dword == 0 && value & OPT_ENABLE == 0 {
            ring.stop();
        } else if hit.dword == 0 && !was {
            // Base and size may lie in pages that the guest writes without a trap: this
            // trapped write is the moment at which they are known to be complete.
            let base = u64::from(index.load(base_at)) | u64::from(index.load(base_at + 4)) << 32;
            ring.start(base, index.load(base_at + 12));
        }
        if ring.enabled {
            ring.raw = options & OPT_RAW != 0;
            ring.e2e = options & OPT_E2E != 0;
            ring.sof_mask = (masks >> 16) as u16;
            ring.eof_mask = masks as u16;
        }
        if was == ring.enabled {
            Effect::None
        } else {
            Effect::Rings
        }
    }
}
