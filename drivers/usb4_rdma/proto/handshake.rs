// SPDX-License-Identifier: GPL-2.0
//! HELLO: what two hosts tell each other over XDomain before a frame flows (Documentation/wire.md, section 9).
//!
//! One layout for request and answer. Longer messages than this code knows are fine (a newer peer appends),
//! unknown capability bits are ignored, unknown versions fall back to the highest common one.

/// "u4rd", little-endian.
pub const MAGIC: u32 = 0x6472_3475;
/// Versions that this code speaks.
pub const VERSION_MIN: u8 = 1;
pub const VERSION_MAX: u8 = 1;
/// Bytes before the lanes, and of each lane.
pub const FIXED_BYTES: usize = 64;
pub const LANE_BYTES: usize = 8;
/// Lanes in one HELLO at most.
pub const MAX_LANES: usize = 8;
/// Longest message; a control packet has room for 220 bytes after the XDomain header.
pub const MAX_BYTES: usize = FIXED_BYTES + MAX_LANES * LANE_BYTES;
/// Bytes of the host's name.
pub const NAME_BYTES: usize = 32;

/// Capability bits: used when both announce them.
pub mod cap {
    /// CMP_SWAP and FETCH_ADD.
    pub const ATOMIC: u32 = 1 << 0;
    /// UD frames.
    pub const UD: u32 = 1 << 1;
    /// SEND with invalidate.
    pub const SEND_INV: u32 = 1 << 2;
}

/// What this code can do.
pub const CAPS: u32 = cap::ATOMIC | cap::SEND_INV;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// "This is me; tell me who you are."
    Hello = 1,
    /// The answer, same contents.
    Reply = 2,
    /// The sender's paths are enabled: frames may come.
    Ready = 3,
    /// The sender goes away.
    Bye = 4,
    /// No common version, or no lane; the sender goes on offering nothing.
    Refuse = 5,
}

/// One lane as its announcer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LaneOffer {
    /// HopID with which the announcer transmits (the receiver's input HopID).
    pub tx_hopid: u16,
    /// Receive buffers of the announcer's ring.
    pub rx_buffers: u16,
}

/// A HELLO of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub kind: Kind,
    pub version_min: u8,
    pub version_max: u8,
    pub caps: u32,
    /// Random, new for each session (module load, replug) of the announcer.
    pub nonce: u64,
    /// The nonce of the peer's HELLO that this answers; 0 if none was seen.
    pub peer_nonce: u64,
    /// ASCII, padded with zeroes.
    pub name: [u8; NAME_BYTES],
    pub lane_count: u8,
    pub lanes: [LaneOffer; MAX_LANES],
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHello {
    Short,
    Magic,
    Kind,
    /// min 0 or above max.
    Versions,
    /// More lanes than the message or this code holds, or none in HELLO or REPLY.
    Lanes,
    /// A HopID outside 8..=2047.
    HopId,
    /// Fewer than 16 buffers.
    Buffers,
    /// Nonce 0.
    Nonce,
    /// Bytes that are not printable ASCII, or something after the first zero.
    Name,
}

/// What both can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub version: u8,
    pub caps: u32,
    /// Lanes to open: the first so many of both offers.
    pub lanes: u8,
}

/// No version is known to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoCommonVersion;

impl Hello {
    /// A message of this code with no lanes yet. `name` is cut to 32 bytes and made printable.
    pub fn new(kind: Kind, nonce: u64, peer_nonce: u64, name: &[u8]) -> Hello {
        let mut padded = [0u8; NAME_BYTES];
        for (to, from) in padded.iter_mut().zip(name) {
            *to = if from.is_ascii_graphic() { *from } else { b'_' };
        }
        Hello {
            kind,
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            caps: CAPS,
            nonce,
            peer_nonce,
            name: padded,
            lane_count: 0,
            lanes: [LaneOffer::default(); MAX_LANES],
        }
    }

    /// Adds a lane; false if there is no room.
    pub fn push_lane(&mut self, lane: LaneOffer) -> bool {
        match self.lanes.get_mut(self.lane_count as usize) {
            Some(l) => {
                *l = lane;
                self.lane_count += 1;
                true
            }
            None => false,
        }
    }

    /// The lanes offered.
    pub fn lanes(&self) -> &[LaneOffer] {
        self.lanes.get(..self.lane_count as usize).unwrap_or(&[])
    }

    /// The name without its padding.
    pub fn name(&self) -> &[u8] {
        let end = self.name.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        self.name.get(..end).unwrap_or(&[])
    }

    /// Writes the message; gives its length, a multiple of four.
    pub fn encode(&self, out: &mut [u8; MAX_BYTES]) -> usize {
        *out = [0; MAX_BYTES];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4] = self.kind as u8;
        out[5] = self.version_min;
        out[6] = self.version_max;
        out[7] = self.lanes().len() as u8;
        out[8..12].copy_from_slice(&self.caps.to_le_bytes());
        out[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        out[24..32].copy_from_slice(&self.peer_nonce.to_le_bytes());
        out[32..64].copy_from_slice(&self.name);
        for (chunk, l) in out[FIXED_BYTES..].chunks_exact_mut(LANE_BYTES).zip(self.lanes()) {
            chunk[0..2].copy_from_slice(&l.tx_hopid.to_le_bytes());
            chunk[2..4].copy_from_slice(&l.rx_buffers.to_le_bytes());
        }
        FIXED_BYTES + self.lanes().len() * LANE_BYTES
    }

    /// Checks and reads a message.
    ///
    /// # Errors
    /// The first rule broken; the message is to be dropped and counted.
    pub fn parse(b: &[u8]) -> Result<Hello, BadHello> {
        let fixed = b.first_chunk::<FIXED_BYTES>().ok_or(BadHello::Short)?;
        if fixed[0..4] != MAGIC.to_le_bytes() {
            return Err(BadHello::Magic);
        }
        let kind = match fixed[4] {
            1 => Kind::Hello,
            2 => Kind::Reply,
            3 => Kind::Ready,
            4 => Kind::Bye,
            5 => Kind::Refuse,
            _ => return Err(BadHello::Kind),
        };
        if fixed[5] == 0 || fixed[5] > fixed[6] {
            return Err(BadHello::Versions);
        }
        let u64_at = |at: usize| {
            let mut v = [0u8; 8];
            v.copy_from_slice(&fixed[at..at + 8]);
            u64::from_le_bytes(v)
        };
        let mut name = [0u8; NAME_BYTES];
        name.copy_from_slice(&fixed[32..64]);
        let mut h = Hello {
            kind,
            version_min: fixed[5],
            version_max: fixed[6],
            caps: u64_at(8) as u32,
            nonce: u64_at(16),
            peer_nonce: u64_at(24),
            name,
            lane_count: 0,
            lanes: [LaneOffer::default(); MAX_LANES],
        };
        if h.nonce == 0 {
            return Err(BadHello::Nonce);
        }
        let used = h.name();
        if !used.iter().all(|c| c.is_ascii_graphic())
            || h.name.iter().skip(used.len()).any(|c| *c != 0)
        {
            return Err(BadHello::Name);
        }
        h.parse_lanes(fixed[7], b.get(FIXED_BYTES..).unwrap_or(&[]))?;
        Ok(h)
    }

    fn parse_lanes(&mut self, count: u8, b: &[u8]) -> Result<(), BadHello> {
        let needs = matches!(self.kind, Kind::Hello | Kind::Reply);
        if (needs && count == 0) || b.len() / LANE_BYTES < count as usize {
            return Err(BadHello::Lanes);
        }
        for c in b.chunks_exact(LANE_BYTES).take(count as usize) {
            let lane = LaneOffer {
                tx_hopid: u16::from_le_bytes([c[0], c[1]]),
                rx_buffers: u16::from_le_bytes([c[2], c[3]]),
            };
            if !(8..=2047).contains(&lane.tx_hopid) {
                return Err(BadHello::HopId);
            }
            if lane.rx_buffers < 16 {
                return Err(BadHello::Buffers);
            }
            if !self.push_lane(lane) {
                return Err(BadHello::Lanes);
            }
        }
        Ok(())
    }
}

/// The highest common version, the common capabilities, the lanes that both offer.
///
/// # Errors
/// No version is known to both.
pub fn negotiate(ours: &Hello, theirs: &Hello) -> Result<Agreed, NoCommonVersion> {
    let version = ours.version_max.min(theirs.version_max);
    if version < ours.version_min.max(theirs.version_min) {
        return Err(NoCommonVersion);
    }
    Ok(Agreed {
        version,
        caps: ours.caps & theirs.caps,
        lanes: ours.lane_count.min(theirs.lane_count),
    })
}
