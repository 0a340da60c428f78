// SPDX-License-Identifier: GPL-2.0
//! The registers of BAR0, as data.
//!
//! Offsets and meanings are those that the kernel's `nhi_regs.h` and `nhi.c` use.

/// What an access to a register does besides storing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Plain,
    /// Ring base, index and size, in the pages that a guest may have mapped.
    TxIndex,
    RxIndex,
    /// Two dwords a ring: options (start and stop) and sof/eof masks.
    TxOptions,
    RxOptions,
    /// Interrupt status, and the way to clear it.
    Status,
    StatusClear,
    /// Interrupt enable, and the way to clear it.
    Enable,
    EnableClear,
    /// Vector numbers and intervals.
    Vector,
    Throttle,
    /// Host router reset.
    Reset,
}

/// A row of the register map: `count` registers (or groups) of `dwords`, `stride` bytes apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub name: &'static str,
    pub offset: u32,
    pub stride: u32,
    pub dwords: u32,
    /// How many, for a router with `paths` rings each way.
    pub count: fn(paths: u32) -> u32,
    pub reset: u32,
    /// Bits that a write changes; the others keep their value.
    pub writable: u32,
    /// Bits that are cleared where a write has a 1.
    pub w1c: u32,
    pub kind: Kind,
}

const fn row(name: &'static str, offset: u32, kind: Kind) -> Row {
    Row { name, offset, stride: 4, dwords: 1, count: one, reset: 0, writable: !0, w1c: 0, kind }
}

fn one(_paths: u32) -> u32 {
    1
}

fn per_ring(paths: u32) -> u32 {
    paths
}

fn status_words(paths: u32) -> u32 {
    (3 * paths).div_ceil(32)
}

fn enable_words(paths: u32) -> u32 {
    (2 * paths).div_ceil(32)
}

fn vector_words(paths: u32) -> u32 {
    (2 * paths).div_ceil(8)
}

fn vectors(_paths: u32) -> u32 {
    16
}

/// Row numbers of the registers that code names.
pub(crate) const CAPS: usize = 10;
pub(crate) const DMA_MISC: usize = 11;

/// DMA_MISC: reading the status does not clear it.
pub(crate) const DMA_MISC_NO_AUTO_CLEAR: u32 = 1 << 17;

/// The register map, the most used rows first.
pub(crate) const MAP: [Row; 13] = [
    Row { stride: 16, dwords: 4, count: per_ring, ..row("tx_index", 0x00000, Kind::TxIndex) },
    Row { stride: 16, dwords: 4, count: per_ring, ..row("rx_index", 0x08000, Kind::RxIndex) },
    Row { count: status_words, w1c: !0, ..row("int_status_clear", 0x37808, Kind::StatusClear) },
    Row { count: enable_words, ..row("int_enable", 0x38200, Kind::Enable) },
    Row { count: enable_words, w1c: !0, ..row("int_enable_clear", 0x38208, Kind::EnableClear) },
    Row { count: status_words, writable: 0, ..row("int_status", 0x37800, Kind::Status) },
    Row { stride: 32, dwords: 2, count: per_ring, ..row("tx_options", 0x19800, Kind::TxOptions) },
    Row { stride: 32, dwords: 2, count: per_ring, ..row("rx_options", 0x29800, Kind::RxOptions) },
    Row { count: vectors, writable: 0xffff, ..row("int_throttle", 0x38c00, Kind::Throttle) },
    Row { count: vector_words, ..row("int_vector", 0x38c40, Kind::Vector) },
    Row { writable: 0, ..row("caps", 0x39640, Kind::Plain) },
    row("dma_misc", 0x39864, Kind::Plain),
    Row { writable: 1, ..row("reset", 0x39898, Kind::Reset) },
];

/// Where an offset leads: a row, which of its registers, and which dword of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub row: usize,
    pub index: u32,
    pub dword: u32,
}

/// The stored values of the register map of one host interface.
pub(crate) struct RegisterFile {
    paths: u32,
    values: Vec<Vec<u32>>,
}

impl RegisterFile {
    /// All registers at reset, for `paths` rings each way.
    pub fn new(paths: u16) -> Self {
        let paths = u32::from(paths);
        let values = MAP.iter().map(|r| vec![r.reset; ((r.count)(paths) * r.dwords) as usize]);
        RegisterFile { paths, values: values.collect() }
    }

    /// Puts every register back to its reset value.
    pub fn reset(&mut self) {
        for (row, values) in MAP.iter().zip(&mut self.values) {
            values.fill(row.reset);
        }
    }

    /// Finds the register at a BAR0 offset (a multiple of 4).
    pub fn find(&self, offset: u32) -> Option<Hit> {
        MAP.iter().enumerate().find_map(|(row, r)| {
            let rel = offset.checked_sub(r.offset)?;
            let hit = Hit { row, index: rel / r.stride, dword: rel % r.stride / 4 };
            (hit.index < (r.count)(self.paths) && hit.dword < r.dwords).then_some(hit)
        })
    }

    fn slot(hit: Hit) -> usize {
        (hit.index * MAP[hit.row].dwords + hit.dword) as usize
    }

    /// The stored value.
    pub fn get(&self, hit: Hit) -> u32 {
        self.values[hit.row][Self::slot(hit)]
    }

    /// A single register by row number.
    pub fn get_row(&self, row: usize) -> u32 {
        self.values[row][0]
    }

    /// Sets a single register by row number.
    pub fn set_row(&mut self, row: usize, value: u32) {
        self.values[row][0] = value;
    }

    /// Stores the writable bits of a software write and returns the new value.
    pub fn write(&mut self, hit: Hit, value: u32) -> u32 {
        let mask = MAP[hit.row].writable;
        let v = &mut self.values[hit.row][Self::slot(hit)];
        *v = *v & !mask | value & mask;
        *v
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_do_not_overlap() {
        for paths in [3u32, 12] {
            let mut taken = std::collections::HashMap::new();
            for r in &MAP {
                for i in 0..(r.count)(paths) {
                    for d in 0..r.dwords {
                        let at = r.offset + i * r.stride + 4 * d;
                        let old = taken.insert(at, r.name);
                        assert_eq!(old, None, "{at:#x} in {} too", r.name);
                    }
                }
            }
        }
    }

    #[test]
    fn named_rows_and_lookup() {
        let f = RegisterFile::new(12);
        assert_eq!(MAP[CAPS].name, "caps");
        assert_eq!(MAP[DMA_MISC].name, "dma_misc");
        assert_eq!(f.find(0x29800 + 32 * 3 + 4), Some(Hit { row: 7, index: 3, dword: 1 }));
        assert_eq!(f.find(0x29800 + 32 * 12), None);
        assert_eq!(f.find(0x29800 + 8), None);
        assert_eq!(f.find(0x39900), None);
    }
}
