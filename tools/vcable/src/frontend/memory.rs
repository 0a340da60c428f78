// SPDX-License-Identifier: GPL-2.0
//! One guest's memory, as the bus addresses of its DMA map to mappings of its files.
//!
//! Lock order: the engine's lock, then `areas`. Two guests' `areas` are never held at once.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::RwLock;

use super::mapping::Mapping;
use crate::core::{DmaFault, Memory, RawSpan};

/// Most areas of one guest. QEMU maps a dozen for a PC.
const MAX_AREAS: usize = 1024;

/// An area of bus addresses.
#[derive(Debug)]
struct Area {
    start: u64,
    len: u64,
    /// `None`: the area exists, but its memory cannot be reached (BIOS, ROMs: no file comes with them).
    mapping: Option<Mapping>,
}

impl Area {
    fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// The memory of one guest, as its device reaches it: nothing before the client maps it.
///
/// Whoever removes an area must hold the engine's lock ([`super::engine::Engine`]), which the model
/// holds whenever it uses this memory: so no span that [`Memory::raw`] gave out outlives its mapping.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// Sorted by address, never overlapping.
    areas: RwLock<Vec<Area>>,
}

impl GuestMemory {
    /// Adds `len` bytes at bus address `start`, found in `file` from `offset`; without a file the area
    /// is only noted. Refused with `InvalidInput`: an empty or wrapping range, an overlap, a file that
    /// is shorter; with `StorageFull`: too many areas.
    pub fn map(&self, start: u64, len: u64, file: Option<OwnedFd>, offset: u64) -> io::Result<()> {
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let end = start.checked_add(len).filter(|_| len != 0).ok_or_else(refused)?;
        let mut areas = self.areas.write().unwrap();
        let place = areas.partition_point(|area| area.start < start);
        let overlaps_before = place > 0 && areas[place - 1].end() > start;
        let overlaps_after = areas.get(place).is_some_and(|area| area.start < end);
        if overlaps_before || overlaps_after {
            return Err(refused());
        }
        if areas.len() >= MAX_AREAS {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = usize::try_from(len).map_err(|_| refused())?;
        let mapping = file.map(|file| Mapping::new(file, offset, bytes)).transpose()?;
        areas.insert(place, Area { start, len, mapping });
        Ok(())
    }

    /// Removes the areas that lie wholly inside the range. The caller holds the engine's lock.
    pub fn unmap(&self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        self.areas.write().unwrap().retain(|area| area.start < start || area.end() > end);
    }

    /// Removes all areas. The caller holds the engine's lock.
    pub fn unmap_all(&self) {
        self.areas.write().unwrap().clear();
    }

    /// Calls `access` with the mapping that holds all of `len` bytes at `iova`, and the offset in it.
    fn locate<T>(
        &self,
        iova: u64,
        len: usize,
        access: impl FnOnce(&Mapping, usize) -> Option<T>,
    ) -> Option<T> {
        let areas = self.areas.read().unwrap();
        let after = areas.partition_point(|area| area.start <= iova);
        let area = areas.get(after.checked_sub(1)?)?;
        let end = iova.checked_add(len as u64)?;
        let mapping = area.mapping.as_ref().filter(|_| end <= area.end())?;
        access(mapping, (iova - area.start) as usize)
    }
}

impl Memory for GuestMemory {
    fn read(&self, iova: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        let len = buf.len();
        self.locate(iova, len, |mapping, offset| mapping.read(offset, buf))
            .ok_or(DmaFault { iova, len })
    }

    fn write(&self, iova: u64, buf: &[u8]) -> Result<(), DmaFault> {
        let len = buf.len();
        self.locate(iova, len, |mapping, offset| mapping.write(offset, buf))
            .ok_or(DmaFault { iova, len })
    }

    fn load_u32(&self, iova: u64) -> Result<u32, DmaFault> {
        self.locate(iova, 4, |mapping, offset| mapping.load_acquire(offset))
            .ok_or(DmaFault { iova, len: 4 })
    }

    fn store_u32(&self, iova: u64, value: u32) -> Result<(), DmaFault> {
        let stored = self.locate(iova, 4, |mapping, offset| mapping.store_release(offset, value));
        stored.ok_or(DmaFault { iova, len: 4 })
    }

    fn raw(&self, iova: u64, len: usize) -> Option<RawSpan> {
        self.locate(iova, len, |mapping, offset| mapping.span(offset, len))
    }

    fn copy_from(
        &self,
        dst_iova: u64,
        src: &dyn Memory,
        src_iova: u64,
        len: usize,
    ) -> Result<(), DmaFault> {
        let Some(span) = src.raw(src_iova, len) else {
            return Err(DmaFault { iova: src_iova, len });
        };
        let copied = self.locate(dst_iova, len, |mapping, offset| {
            // SAFETY: the model calls this with the engine's lock held, and an area is removed only
            // with that lock held, so the source stays mapped.
            unsafe { mapping.copy_in(offset, span) }
        });
        copied.ok_or(DmaFault { iova: dst_iova, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::sys::shared_file;

    fn file() -> Option<OwnedFd> {
        Some(shared_file("test", 0x4000).unwrap())
    }

    fn guest() -> GuestMemory {
        let memory = GuestMemory::default();
        memory.map(0x1000, 0x4000, file(), 0).unwrap();
        memory.map(0x8000, 0x1000, None, 0).unwrap();
        memory
    }

    #[test]
    fn translation_stays_inside_one_area() {
        let memory = guest();
        assert_eq!(memory.write(0xfff, &[0; 1]), Err(DmaFault { iova: 0xfff, len: 1 }));
        assert!(memory.write(0x1000, &[0; 0x4000]).is_ok());
        assert!(memory.write(0x1001, &[0; 0x4000]).is_err());
        assert!(memory.write(0x8000, &[0; 1]).is_err(), "an area without a file is unreachable");
        assert!(memory.read(u64::MAX, &mut [0; 2]).is_err());
    }

    #[test]
    fn bad_maps_are_refused() {
        let memory = guest();
        assert!(memory.map(0x4fff, 2, None, 0).is_err());
        assert!(memory.map(0x0, 0x1001, None, 0).is_err());
        assert!(memory.map(0x0, 0, None, 0).is_err());
        assert!(memory.map(u64::MAX, 2, None, 0).is_err());
        assert!(memory.map(0x10000, 0x5000, file(), 0).is_err(), "past the end of the file");
        memory.map(0x5000, 0x1000, None, 0).unwrap();
    }

    #[test]
    fn unmapped_memory_is_out_of_reach() {
        let memory = guest();
        memory.unmap(0x1000, 0x3fff);
        assert!(memory.read(0x1000, &mut [0; 4]).is_ok());
        memory.unmap(0x0, 0x6000);
        assert!(memory.read(0x1000, &mut [0; 4]).is_err());
        memory.map(0x1000, 0x1000, file(), 0x3000).unwrap();
        assert!(memory.read(0x1000, &mut [0; 4]).is_ok());
        memory.unmap_all();
        assert!(memory.read(0x1000, &mut [0; 4]).is_err());
    }

    #[test]
    fn copies_between_guests() {
        let (one, two) = (guest(), guest());
        one.write(0x1234, b"frame").unwrap();
        two.copy_from(0x4ffb, &one, 0x1234, 5).unwrap();
        let mut seen = [0; 5];
        two.read(0x4ffb, &mut seen).unwrap();
        assert_eq!(&seen, b"frame");
        assert_eq!(two.copy_from(0x4ffc, &one, 0x1234, 5), Err(DmaFault { iova: 0x4ffc, len: 5 }));
        assert_eq!(two.copy_from(0x4ffb, &one, 0x9000, 5), Err(DmaFault { iova: 0x9000, len: 5 }));
        two.store_u32(0x1ff8, 0xdead_beef).unwrap();
        assert_eq!(two.load_u32(0x1ff8), Ok(0xdead_beef));
        assert!(two.load_u32(0x1ff9).is_err());
    }
}
