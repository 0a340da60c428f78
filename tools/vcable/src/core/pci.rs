// SPDX-License-Identifier: GPL-2.0
//! The PCI function of a host interface: identity, BARs and MSI-X capability.

use super::Profile;

/// Bytes of config space; more is not needed (no PCIe capability).
pub const CONFIG_SIZE: usize = 256;
/// BAR that holds the MSI-X table and the pending bits.
pub const MSIX_BAR: u8 = 2;
/// Size of that BAR in bytes.
pub const MSIX_BAR_SIZE: u32 = 0x1000;
/// Offset of the pending bit array in it.
pub const MSIX_PBA_OFFSET: u32 = 0x800;
/// PCI vendor of every profile: an unassigned one, so that no quirk of a real part applies.
pub const VENDOR: u16 = 0x1af5;
/// Class code of a USB4 host interface.
pub const CLASS_USB4: u32 = 0x0c_0340;

/// Initial config space of a host with `profile`.
///
/// BAR bits are zero; sizing is the business of whoever traps config writes (QEMU does it
/// for a vfio device). Offset 0x30 (ROM) must stay 0 or QEMU invents a ROM BAR.
pub fn config_space(profile: &Profile) -> [u8; CONFIG_SIZE] {
    let mut c = [0u8; CONFIG_SIZE];
    c[0..2].copy_from_slice(&VENDOR.to_le_bytes());
    c[2..4].copy_from_slice(&profile.pci_device.to_le_bytes());
    // Status: capability list present.
    c[6..8].copy_from_slice(&0x0010u16.to_le_bytes());
    c[8] = 1;
    c[9..12].copy_from_slice(&CLASS_USB4.to_le_bytes()[..3]);
    c[0x2c..0x2e].copy_from_slice(&VENDOR.to_le_bytes());
    c[0x2e..0x30].copy_from_slice(&profile.pci_device.to_le_bytes());
    c[0x34] = 0x40;
    // Interrupt pin 0: no INTx, the device has messages only.
    c[0x40] = 0x11;
    c[0x42..0x44].copy_from_slice(&(super::MSIX_VECTORS - 1).to_le_bytes());
    c[0x44..0x48].copy_from_slice(&u32::from(MSIX_BAR).to_le_bytes());
    c[0x48..0x4c].copy_from_slice(&(MSIX_PBA_OFFSET | u32::from(MSIX_BAR)).to_le_bytes());
    c
}
