// SPDX-License-Identifier: GPL-2.0
//! Control packets: 256-byte frames of big-endian dwords with a CRC-32C trailer.
//!
//! Layouts are those of the kernel's `tb_msgs.h`; only their facts are used here.

use super::crc::crc32c;

/// Largest frame of the control channel in bytes, CRC included.
pub(crate) const MAX_FRAME: usize = 256;
/// Most dwords that one read or write carries.
pub(crate) const MAX_DWORDS: usize = 60;
/// Bit 31 of the first dword marks replies and packets that come from below.
pub(crate) const REPLY: u32 = 1 << 31;

/// Packet types (the frame's eof field).
pub(crate) mod pdf {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const ERROR: u8 = 3;
    pub const NOTIFY_ACK: u8 = 4;
    pub const EVENT: u8 = 5;
    pub const XDOMAIN_REQUEST: u8 = 6;
    pub const XDOMAIN_RESPONSE: u8 = 7;
}

/// Error codes of PDF 3.
pub(crate) mod error {
    pub const NOT_CONNECTED: u8 = 0;
    pub const INVALID_SPACE: u8 = 2;
    pub const NO_SUCH_PORT: u8 = 4;
    pub const ACK_PLUG_EVENT: u8 = 7;
    pub const LOCKED: u8 = 15;
}

/// A packet whose CRC was right: its type and its dwords without the CRC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub pdf: u8,
    pub dwords: Vec<u32>,
}

impl Packet {
    /// Checks a frame's length and CRC. `None` for anything malformed.
    pub fn parse(pdf: u8, frame: &[u8]) -> Option<Packet> {
        if frame.len() < 12 || frame.len() > MAX_FRAME || frame.len() % 4 != 0 {
            return None;
        }
        let (body, crc) = frame.split_at(frame.len() - 4);
        if crc32c(body).to_be_bytes() != crc {
            return None;
        }
        let dwords = body.chunks_exact(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]));
        Some(Packet { pdf, dwords: dwords.collect() })
    }

    /// The frame's bytes, CRC included.
    pub fn frame(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.dwords.iter().flat_map(|d| d.to_be_bytes()).collect();
        bytes.extend_from_slice(&crc32c(&bytes).to_be_bytes());
        bytes
    }

    /// The route string, without the reply mark and the reserved bits.
    pub fn route(&self) -> u64 {
        u64::from(self.dwords[0] & 0x003f_ffff) << 32 | u64::from(self.dwords[1])
    }

    /// An error about `port`, as the reply to a packet with this one's route.
    pub fn error_reply(&self, code: u8, port: u8) -> Packet {
        let head = [self.dwords[0] | REPLY, self.dwords[1]];
        Packet {
            pdf: pdf::ERROR,
            dwords: vec![head[0], head[1], u32::from(code) | u32::from(port) << 8],
        }
    }
}

/// A plug or unplug event of a lane 0 adapter of the host router.
pub(crate) fn plug_event(port: u8, unplug: bool) -> Packet {
    Packet { pdf: pdf::EVENT, dwords: vec![REPLY, 0, u32::from(port) | u32::from(unplug) << 31] }
}

/// The address dword of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub offset: u16,
    pub length: usize,
    pub port: u8,
    pub space: u8,
    pub seq: u8,
}

impl Address {
    /// A dword's fields; the three reserved bits are ignored.
    pub fn decode(d: u32) -> Address {
        Address {
            offset: (d & 0x1fff) as u16,
            length: (d >> 13 & 0x3f) as usize,
            port: (d >> 19 & 0x3f) as u8,
            space: (d >> 25 & 3) as u8,
            seq: (d >> 27 & 3) as u8,
        }
    }

    /// The dword with these fields; the three reserved bits are 0.
    pub fn encode(self) -> u32 {
        u32::from(self.offset)
            | (self.length as u32) << 13
            | u32::from(self.port) << 19
            | u32::from(self.space) << 25
            | u32::from(self.seq) << 27
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_round_trip() {
        for d in [0u32, 0x1fff, 0x3f << 13, 0x3f << 19, 3 << 25, 3 << 27, 0x1234_5678] {
            assert_eq!(Address::decode(d).encode(), d & 0x1fff_ffff);
        }
    }

    #[test]
    fn frame_round_trip_and_bad_crc() {
        let p = plug_event(3, true);
        let mut f = p.frame();
        assert_eq!(f.len(), 16);
        assert_eq!(Packet::parse(pdf::EVENT, &f), Some(p));
        f[5] ^= 1;
        assert_eq!(Packet::parse(pdf::EVENT, &f), None);
        assert_eq!(Packet::parse(pdf::EVENT, &f[..8]), None);
    }
}
