// SPDX-License-Identifier: GPL-2.0
//! What kind of host router a host has.

use std::str::FromStr;

/// A kind of host router: figures that real parts report (nothing else differs).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// PCI device id (the vendor is the same for all, and not Intel's).
    pub pci_device: u16,
    /// USB4 version 2 (host router reset instead of downstream port resets).
    pub usb4_v2: bool,
    /// Rings each way, ring 0 included.
    pub paths: u16,
    /// Highest HopID of a lane adapter.
    pub lane_max_hop: u16,
    /// Buffers of a lane adapter and how many of them carry control packets.
    pub lane_credits: (u16, u16),
    /// Buffers that the router reports for host-to-host paths (baMaxHI).
    pub dma_credits: u16,
    /// Link speeds offered, as in LANE_ADP_CS_0 19:16 (8 gen2, 4 gen3, 2 gen4).
    pub speeds: u8,
    /// Link widths offered, as in LANE_ADP_CS_0 25:20 (1 single, 2 dual).
    pub widths: u8,
    /// Default link rate in Mb/s each way.
    pub rate_mbps: u64,
}

impl Profile {
    /// AMD Strix Halo: USB4 v1, 3 paths, one gen3 lane.
    pub fn amd() -> Self {
        Profile {
            name: "amd",
            pci_device: 0x0a01,
            usb4_v2: false,
            paths: 3,
            lane_max_hop: 19,
            lane_credits: (128, 2),
            dma_credits: 32,
            speeds: 0xc,
            widths: 1,
            rate_mbps: 20_000,
        }
    }

    /// A Thunderbolt 4 class host: USB4 v1, 12 paths, gen3.
    pub fn tb4() -> Self {
        Profile {
            name: "tb4",
            pci_device: 0x0a04,
            paths: 12,
            lane_credits: (160, 2),
            dma_credits: 40,
            ..Self::amd()
        }
    }

    /// A Thunderbolt 5 class host: USB4 v2, 12 paths, gen4 80 Gb/s.
    pub fn tb5() -> Self {
        Profile {
            name: "tb5",
            pci_device: 0x0a05,
            usb4_v2: true,
            lane_max_hop: 31,
            speeds: 0xe,
            widths: 3,
            rate_mbps: 80_000,
            ..Self::tb4()
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "amd" => Ok(Self::amd()),
            "tb4" => Ok(Self::tb4()),
            "tb5" => Ok(Self::tb5()),
            _ => Err(format!("unknown profile {s:?} (amd, tb4, tb5)")),
        }
    }
}
