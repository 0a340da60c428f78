// SPDX-License-Identifier: GPL-2.0
//! The 64-byte header (Documentation/wire.md, section 2): parsed once, then carried as a typed value.
//!
//! A [`Header`] that came from [`Header::parse`] satisfies every rule that one frame alone can be checked
//! against; what depends on the stream is checked by the receiver of the stream.

use super::crc::crc32c_words;
use super::{FRAME_BYTES, HEADER_BYTES, MAX_MSG_BYTES, PAYLOAD_BYTES};

/// The version of the header that this code speaks.
pub const VERSION: u8 = 1;
/// Bytes of an ACK's bitmap at most.
pub const BITMAP_BYTES: usize = 32;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    Data = 1,
    #[default]
    Ack = 2,
    Lane = 3,
    Ud = 4,
}

/// Opcodes of DATA frames.
pub mod op {
    pub const SEND: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const READ_REQ: u8 = 3;
    pub const CMP_SWAP: u8 = 4;
    pub const FETCH_ADD: u8 = 5;
    pub const READ_RSP: u8 = 6;
    pub const ATOMIC_RSP: u8 = 7;
}

/// Syndromes of ACK frames (the opcode field).
pub mod syndrome {
    pub const OK: u8 = 0;
    pub const RNR: u8 = 1;
    pub const REM_ACCESS: u8 = 2;
    pub const REM_INV_REQ: u8 = 3;
    pub const REM_OP: u8 = 4;
    pub const PROBE: u8 = 5;
}

/// Opcodes of LANE frames.
pub mod lane_op {
    pub const UPDATE: u8 = 1;
    pub const PROBE: u8 = 2;
}

/// Flag bits (section 2.1).
pub mod flag {
    pub const LAST: u8 = 1 << 0;
    pub const ACK_REQ: u8 = 1 << 1;
    pub const SOLICITED: u8 = 1 << 2;
    pub const IMM: u8 = 1 << 3;
    pub const INVALIDATE: u8 = 1 << 4;
    pub const RSP: u8 = 1 << 5;
    pub const ACK_VALID: u8 = 1 << 6;
    pub const ACK_RSP: u8 = 1 << 7;
}

/// Offsets of the fields that are patched into an encoded frame.
const CRC_AT: usize = 8;
const LANE_SEQ_AT: usize = 16;
const LANE_LIMIT_AT: usize = 20;

/// The fields of the header, host order. `lane_seq`, `lane_limit` and the CRC are the lane's: [`finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    pub kind: Kind,
    pub opcode: u8,
    pub flags: u8,
    pub payload_len: u16,
    pub tx_seq: u16,
    pub dst_qpn: u32,
    pub lane_seq: u32,
    pub lane_limit: u32,
    pub psn: u32,
    pub ack: u32,
    pub ack_tx_seq: u16,
    /// Low 16 bits of the sender's QPN; 0 in LANE frames.
    pub src_tag: u16,
    pub imm: u32,
    pub msn: u32,
    pub msg_off: u32,
    pub msg_len: u32,
    pub rkey: u32,
    pub va: u64,
}

/// Why a frame was dropped by the parser; `as usize` indexes `counters::BadFrames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BadFrame {
    /// Shorter than a header.
    Short = 0,
    /// Longer than a frame.
    Long,
    Version,
    Crc,
    Kind,
    Opcode,
    /// `payload_len` is not what arrived.
    Length,
    /// Reserved bits set.
    Reserved,
    /// Fields that contradict each other (offsets, lengths, flags).
    Fields,
}

impl BadFrame {
    /// Number of kinds.
    pub const COUNT: usize = 9;
    /// Names for counters, in order.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "short", "long", "version", "crc", "kind", "opcode", "length", "reserved", "fields",
    ];
}

fn u16_at(b: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn put(b: &mut [u8; HEADER_BYTES], at: usize, v: &[u8]) {
    b[at..at + v.len()].copy_from_slice(v);
}

/// The CRC of an encoded header: computed with the field as 0.
fn header_crc(b: &[u8; HEADER_BYTES]) -> u32 {
    let mut words = [0u64; HEADER_BYTES / 8];
    for (w, c) in words.iter_mut().zip(b.chunks_exact(8)) {
        *w = u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]);
    }
    // The field is the lower half of its word.
    words[CRC_AT / 8] &= !0xffff_ffff;
    crc32c_words(&words)
}

/// The lane's last touch on a frame: puts in lane_seq, lane_limit and the CRC. `frame` is at least a header
/// long; a shorter one is left alone and false returned.
pub fn finish(frame: &mut [u8], lane_seq: u32, lane_limit: u32) -> bool {
    let Some(b) = frame.first_chunk_mut::<HEADER_BYTES>() else {
        return false;
    };
    put(b, LANE_SEQ_AT, &lane_seq.to_le_bytes());
    put(b, LANE_LIMIT_AT, &lane_limit.to_le_bytes());
    let crc = header_crc(b);
    put(b, CRC_AT, &crc.to_le_bytes());
    true
}

impl Header {
    /// Checks the first 64 bytes of `frame`, whose length is what arrived.
    ///
    /// # Errors
    /// The first rule broken; the frame is to be dropped and counted.
    pub fn parse(frame: &[u8]) -> Result<Header, BadFrame> {
        let b = frame.first_chunk::<HEADER_BYTES>().ok_or(BadFrame::Short)?;
        if frame.len() > FRAME_BYTES {
            return Err(BadFrame::Long);
        }
        if b[0] != VERSION {
            return Err(BadFrame::Version);
        }
        if header_crc(b) != u32_at(b, CRC_AT) {
            return Err(BadFrame::Crc);
        }
        let kind = match b[1] {
            1 => Kind::Data,
            2 => Kind::Ack,
            3 => Kind::Lane,
            4 => Kind::Ud,
            _ => return Err(BadFrame::Kind),
        };
        let h = Header {
            kind,
            opcode: b[2],
            flags: b[3],
            payload_len: u16_at(b, 4),
            tx_seq: u16_at(b, 6),
            dst_qpn: u32_at(b, 12),
            lane_seq: u32_at(b, LANE_SEQ_AT),
            lane_limit: u32_at(b, LANE_LIMIT_AT),
            psn: u32_at(b, 24),
            ack: u32_at(b, 28),
            ack_tx_seq: u16_at(b, 32),
            src_tag: u16_at(b, 34),
            imm: u32_at(b, 36),
            msn: u32_at(b, 40),
            msg_off: u32_at(b, 44),
            msg_len: u32_at(b, 48),
            rkey: u32_at(b, 52),
            va: u64::from(u32_at(b, 56)) | (u64::from(u32_at(b, 60)) << 32),
        };
        if h.payload_len as usize != frame.len() - HEADER_BYTES {
            return Err(BadFrame::Length);
        }
        if h.dst_qpn >> 24 != 0 {
            return Err(BadFrame::Reserved);
        }
        match kind {
            Kind::Data => h.check_data()?,
            Kind::Ack => h.check_ack()?,
            Kind::Lane => h.check_lane()?,
            Kind::Ud => {}
        }
        Ok(h)
    }

    /// Writes the header into the first 64 bytes of `out`, with no CRC yet (see [`finish`]). False if `out`
    /// is shorter.
    pub fn encode(&self, out: &mut [u8]) -> bool {
        let Some(b) = out.first_chunk_mut::<HEADER_BYTES>() else {
            return false;
        };
        b[0] = VERSION;
        b[1] = self.kind as u8;
        b[2] = self.opcode;
        b[3] = self.flags;
        put(b, 4, &self.payload_len.to_le_bytes());
        put(b, 6, &self.tx_seq.to_le_bytes());
        put(b, CRC_AT, &[0; 4]);
        put(b, 12, &self.dst_qpn.to_le_bytes());
        put(b, LANE_SEQ_AT, &self.lane_seq.to_le_bytes());
        put(b, LANE_LIMIT_AT, &self.lane_limit.to_le_bytes());
        put(b, 24, &self.psn.to_le_bytes());
        put(b, 28, &self.ack.to_le_bytes());
        put(b, 32, &self.ack_tx_seq.to_le_bytes());
        put(b, 34, &self.src_tag.to_le_bytes());
        put(b, 36, &self.imm.to_le_bytes());
        put(b, 40, &self.msn.to_le_bytes());
        put(b, 44, &self.msg_off.to_le_bytes());
        put(b, 48, &self.msg_len.to_le_bytes());
        put(b, 52, &self.rkey.to_le_bytes());
        put(b, 56, &self.va.to_le_bytes());
        true
    }

    /// A LANE frame: `opcode` is one of [`lane_op`]; the lane number space is that of the ring it goes over.
    pub const fn lane(opcode: u8) -> Header {
        Header {
            kind: Kind::Lane,
            opcode,
            flags: 0,
            payload_len: 0,
            tx_seq: 0,
            dst_qpn: 0,
            lane_seq: 0,
            lane_limit: 0,
            psn: 0,
            ack: 0,
            ack_tx_seq: 0,
            src_tag: 0,
            imm: 0,
            msn: 0,
            msg_off: 0,
            msg_len: 0,
            rkey: 0,
            va: 0,
        }
    }

    /// All bits of `mask` are set in the flags.
    pub const fn has(&self, mask: u8) -> bool {
        self.flags & mask == mask
    }

    /// Does a frame of this kind need credit of the lane (wire.md, section 5)?
    pub const fn needs_credit(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Ud)
    }

    fn check_data(&self) -> Result<(), BadFrame> {
        let fields = |ok: bool| if ok { Ok(()) } else { Err(BadFrame::Fields) };
        let allowed = match self.opcode {
            op::SEND => flag::SOLICITED | flag::IMM | flag::INVALIDATE,
            op::WRITE => flag::SOLICITED | flag::IMM,
            op::READ_REQ | op::CMP_SWAP | op::FETCH_ADD => 0,
            op::READ_RSP | op::ATOMIC_RSP => flag::RSP,
            _ => return Err(BadFrame::Opcode),
        };
        let always = flag::LAST | flag::ACK_REQ | flag::ACK_VALID | flag::ACK_RSP;
        fields(self.flags & !(allowed | always) == 0)?;
        fields(self.has(flag::RSP) == (allowed == flag::RSP))?;
        fields(!self.has(flag::IMM | flag::INVALIDATE))?;
        let of_last = flag::SOLICITED | flag::IMM | flag::INVALIDATE;
        fields(self.has(flag::LAST) || self.flags & of_last == 0)?;
        fields(self.msg_len <= MAX_MSG_BYTES)?;
        match self.opcode {
            op::READ_REQ => fields(self.is_single(0)),
            op::CMP_SWAP | op::FETCH_ADD => fields(self.is_single(16) && self.msg_len == 8),
            op::ATOMIC_RSP => fields(self.is_single(8) && self.msg_len == 8),
            _ => fields(self.is_fragment()),
        }
    }

    fn is_single(&self, payload: u16) -> bool {
        self.has(flag::LAST) && self.msg_off == 0 && self.payload_len == payload
    }

    /// Offsets are multiples of a full payload, all frames but the last are full, LAST says so.
    fn is_fragment(&self) -> bool {
        let full = PAYLOAD_BYTES as u32;
        let len = u32::from(self.payload_len);
        // Cannot overflow where msg_off <= msg_len <= 2^30.
        let fits = self.msg_off <= self.msg_len && self.msg_off + len <= self.msg_len;
        let last = self.has(flag::LAST);
        fits && self.msg_off.checked_rem(full) == Some(0)
            && last == (self.msg_off.wrapping_add(len) == self.msg_len)
            && (last || len == full)
            // Only the message of no bytes has a frame of none.
            && (len != 0 || self.msg_len == 0)
    }

    fn check_ack(&self) -> Result<(), BadFrame> {
        if self.opcode > syndrome::PROBE {
            return Err(BadFrame::Opcode);
        }
        let allowed = flag::ACK_REQ | flag::RSP | flag::ACK_VALID | flag::ACK_RSP;
        let probe = self.opcode == syndrome::PROBE;
        let ok = self.flags & !allowed == 0
            && self.payload_len as usize <= BITMAP_BYTES
            && (probe == self.has(flag::ACK_REQ))
            && (probe || self.has(flag::ACK_VALID))
            && (self.opcode != syndrome::RNR || self.imm < 32);
        if ok {
            Ok(())
        } else {
            Err(BadFrame::Fields)
        }
    }

    fn check_lane(&self) -> Result<(), BadFrame> {
        if self.opcode != lane_op::UPDATE && self.opcode != lane_op::PROBE {
            return Err(BadFrame::Opcode);
        }
        if self.flags != 0 || self.payload_len != 0 || self.dst_qpn != 0 {
            return Err(BadFrame::Fields);
        }
        Ok(())
    }
}
