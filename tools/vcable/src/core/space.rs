// SPDX-License-Identifier: GPL-2.0
//! A config space: dwords with a reset value and a mask of what a connection manager writes.

/// A dword of a config space, as data. Dwords without a row are 0 and read-only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dword {
    /// Name in the USB4 specification.
    pub name: &'static str,
    pub offset: usize,
    pub reset: u32,
    pub writable: u32,
}

/// Shorthand for a table row.
pub(crate) const fn dword(name: &'static str, offset: usize, reset: u32, writable: u32) -> Dword {
    Dword { name, offset, reset, writable }
}

/// The stored dwords of a config space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    values: Vec<u32>,
    writable: Vec<u32>,
    reset: Vec<u32>,
}

impl Space {
    /// A space of `len` dwords from its tables; a table is moved by the offset beside it.
    pub fn new(len: usize, tables: &[(usize, &[Dword])]) -> Self {
        let mut s = Space { values: vec![0; len], writable: vec![0; len], reset: vec![0; len] };
        for (base, table) in tables {
            for d in *table {
                assert!(base + d.offset < len, "{} lies outside its space", d.name);
                s.reset[base + d.offset] = d.reset;
                s.writable[base + d.offset] = d.writable;
            }
        }
        s.values.clone_from(&s.reset);
        s
    }

    /// Length in dwords.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Sets a reset value that a table cannot know, and the value itself.
    pub fn preset(&mut self, offset: usize, value: u32) {
        self.reset[offset] = value;
        self.values[offset] = value;
    }

    /// Back to the reset values.
    pub fn reset(&mut self) {
        self.values.clone_from(&self.reset);
    }

    /// A dword of the space; the offset must be inside it.
    pub fn get(&self, offset: usize) -> u32 {
        self.values[offset]
    }

    /// Changes the bits of `mask`, whatever software may write.
    pub fn set_bits(&mut self, offset: usize, mask: u32, value: u32) {
        self.values[offset] = self.values[offset] & !mask | value & mask;
    }

    /// A range, or `None` when it is not all inside.
    pub fn read(&self, offset: usize, len: usize) -> Option<&[u32]> {
        self.values.get(offset..offset.checked_add(len)?)
    }

    /// Writes a dword's writable bits; returns the old value.
    pub fn write(&mut self, offset: usize, value: u32) -> u32 {
        let old = self.values[offset];
        let mask = self.writable[offset];
        self.values[offset] = old & !mask | value & mask;
        old
    }
}
