// SPDX-License-Identifier: GPL-2.0
//! PCI config space as the client reads and writes it.
//!
//! QEMU emulates the MSI-X capability and the BARs towards the guest; what it passes on is kept here so
//! that it reads back what a PCI function would say.

use crate::core::pci::{CONFIG_SIZE, MSIX_BAR_SIZE};
use crate::core::BAR0_SIZE;

/// Writable bits by dword offset. What is not named is read-only; the ROM BAR at 0x30 must read 0.
const WRITABLE: [(usize, u32); 5] = [
    // Command: memory space, bus master, parity, SERR, INTx disable.
    (0x04, 0x0546),
    // Cache line size and latency timer.
    (0x0c, 0xffff),
    (0x10, !(BAR0_SIZE - 1)),
    (0x18, !(MSIX_BAR_SIZE - 1)),
    // Interrupt line.
    (0x3c, 0xff),
];

/// The config space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; CONFIG_SIZE],
    initial: [u8; CONFIG_SIZE],
}

impl ConfigSpace {
    /// A function fresh from reset, with these bytes.
    pub fn new(initial: [u8; CONFIG_SIZE]) -> Self {
        ConfigSpace { bytes: initial, initial }
    }

    /// Back to what it was at first.
    pub fn reset(&mut self) {
        self.bytes = self.initial;
    }

    /// Reads bytes; `None` where they are not all inside.
    pub fn read(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// Writes the writable bits of bytes; `None` where they are not all inside.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let target = self.bytes.get_mut(start..start.checked_add(data.len())?)?;
        for (place, (byte, new)) in target.iter_mut().zip(data).enumerate() {
            let mask = Self::writable(start + place);
            *byte = *byte & !mask | new & mask;
        }
        Some(())
    }

    fn writable(offset: usize) -> u8 {
        let dword = WRITABLE.iter().find(|(at, _)| *at == offset & !3);
        dword.map_or(0, |(_, mask)| mask.to_le_bytes()[offset & 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_bits_change() {
        let mut config = ConfigSpace::new([0; CONFIG_SIZE]);
        config.write(0x04, &[0xff; 4]).unwrap();
        assert_eq!(config.read(0x04, 4).unwrap(), [0x46, 0x05, 0, 0]);
        config.write(0x10, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(config.read(0x10, 4).unwrap(), (!(BAR0_SIZE - 1)).to_le_bytes());
        config.write(0x30, &u32::MAX.to_le_bytes()).unwrap();
        assert_eq!(config.read(0x30, 4).unwrap(), [0; 4], "there is no ROM");
        config.reset();
        assert_eq!(config.read(0, CONFIG_SIZE).unwrap(), [0; CONFIG_SIZE]);
    }

    #[test]
    fn accesses_stay_inside() {
        let mut config = ConfigSpace::new([0; CONFIG_SIZE]);
        assert!(config.read(CONFIG_SIZE as u64 - 1, 2).is_none());
        assert!(config.read(u64::MAX, 1).is_none());
        assert!(config.write(CONFIG_SIZE as u64, &[0]).is_none());
    }
}
