// SPDX-License-Identifier: GPL-2.0
//! The two pages of BAR0 that hold the rings' indices, as memory that the guest maps.
//!
//! The guest's stores to them are plain memory writes that nobody sees: the model looks when it polls.

use std::io;
use std::os::fd::OwnedFd;

use super::mapping::Mapping;
use super::sys::shared_file;
use crate::core::{IndexPages, BAR0_SIZE};

const PAGE_BYTES: usize = 0x1000;
/// Where the TX and the RX page lie in BAR0.
const PAGES: [usize; 2] = [0x0000, 0x8000];

/// The areas `(offset, size)` of BAR0 that the client may map.
pub const AREAS: [(u64, u64); 2] =
    [(PAGES[0] as u64, PAGE_BYTES as u64), (PAGES[1] as u64, PAGE_BYTES as u64)];

/// A file as large as BAR0 of which only the two pages are ever used.
#[derive(Debug)]
pub struct Window {
    file: OwnedFd,
    mapping: Mapping,
}

impl Window {
    /// A window with both pages zero.
    pub fn new() -> io::Result<Window> {
        let file = shared_file("vcable-index", u64::from(BAR0_SIZE))?;
        let mapping = Mapping::new(&file, 0, PAGES[1] + PAGE_BYTES)?;
        Ok(Window { file, mapping })
    }

    /// The file to be mapped by the client, at the offsets of BAR0.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }
}

impl IndexPages for Window {
    fn load(&self, offset: u32) -> u32 {
        self.mapping.load_acquire(offset as usize).unwrap_or(0)
    }

    fn store(&self, offset: u32, value: u32) {
        let _ = self.mapping.store_release(offset as usize, value);
    }

    fn clear(&self) {
        for page in PAGES {
            let _ = self.mapping.clear(page, PAGE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_sees_the_pages() {
        let window = Window::new().unwrap();
        let guest = Mapping::new(window.file(), AREAS[1].0, AREAS[1].1 as usize).unwrap();
        window.store(0x8018, 5 << 16);
        assert_eq!(guest.load_acquire(0x18), Some(5 << 16));
        guest.store_release(0x18, 7).unwrap();
        assert_eq!(window.load(0x8018), 7);
        window.clear();
        assert_eq!(guest.load_acquire(0x18), Some(0));
        assert_eq!(window.load(BAR0_SIZE), 0);
    }
}
