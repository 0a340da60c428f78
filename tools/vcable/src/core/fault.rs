// SPDX-License-Identifier: GPL-2.0
//! Kinds of faults that the fabric can be asked for, and where they apply.

use std::str::FromStr;

use super::HostId;

/// Which way a fault's ring faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Frames that the scoped host sends (its TX rings).
    Tx,
    /// Frames that the scoped host receives (its RX rings).
    Rx,
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "tx" => Ok(Direction::Tx),
            "rx" => Ok(Direction::Rx),
            _ => Err(format!("unknown direction {s:?} (tx, rx)")),
        }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A received frame is written and completed, and its interrupt does not come.
    StrandRx,
    /// A TX completion's interrupt does not come.
    LostTx,
    /// A frame vanishes on the wire.
    Drop,
    /// A frame arrives with the CRC error flag, one payload bit wrong.
    Crc,
    /// One bit of the first 64 bytes is wrong, and nothing says so.
    Corrupt,
    /// A frame arrives with the buffer overrun flag.
    Overrun,
    /// A frame and all behind it in its ring come later, so that other rings overtake it.
    Delay,
    /// A receiving ring takes nothing for a while (a slow consumer).
    Stall,
    /// The link carries nothing for a while (a retrain).
    PauseLink,
    /// The pending bit of a disabled hop stays set.
    PendingStuck,
    /// A control packet vanishes.
    ControlLoss,
    /// A frame arrives twice.
    Duplicate,
    /// An interrupt whose status was set while it was masked does not fire on unmask.
    EdgeOnly,
}

impl FaultKind {
    /// All kinds, with the names used on the control socket and in counters.
    pub const ALL: [(FaultKind, &'static str); 13] = [
        (FaultKind::StrandRx, "strand-rx"),
        (FaultKind::LostTx, "lost-tx"),
        (FaultKind::Drop, "drop"),
        (FaultKind::Crc, "crc"),
        (FaultKind::Corrupt, "corrupt"),
        (FaultKind::Overrun, "overrun"),
        (FaultKind::Delay, "delay"),
        (FaultKind::Stall, "stall"),
        (FaultKind::PauseLink, "pause-link"),
        (FaultKind::PendingStuck, "pending-stuck"),
        (FaultKind::ControlLoss, "control-loss"),
        (FaultKind::Duplicate, "duplicate"),
        (FaultKind::EdgeOnly, "edge-only"),
    ];

    /// The name of this kind.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(k, _)| *k == self).map_or("?", |(_, n)| n)
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .find(|(_, n)| *n == s)
            .map(|(k, _)| *k)
            .ok_or_else(|| format!("unknown fault kind {s:?}"))
    }
}

/// Identifies an installed fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(pub usize);

/// A fault to install: a kind, how often, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// What happens.
    pub kind: FaultKind,
    /// Seed of the random choice; the same seed gives the same choices.
    pub seed: u64,
    /// It happens to one opportunity in this many on average; 1 is every one, 0 is refused.
    pub one_in: u64,
    /// Only at this host (the receiving one, unless `direction` is `Tx`).
    pub host: Option<HostId>,
    /// Only on this ring (its hop number at the scoped host).
    pub hop: Option<u16>,
    /// Which of the host's rings `host` and `hop` mean; `None` is `Rx` for frame faults.
    pub direction: Option<Direction>,
    /// At most this many times.
    pub count: Option<u64>,
    /// Duration in ns, for `Delay`, `Stall`, `PauseLink` and `PendingStuck`.
    pub duration_ns: u64,
}

impl FaultSpec {
    /// A fault of `kind` everywhere, one in `one_in`. Where a duration applies it is 1 ms for
    /// a delay, 10 ms for a stall or a retrain, and 1 s for a pending bit (drivers wait half
    /// a second for it).
    pub fn new(kind: FaultKind, seed: u64, one_in: u64) -> Self {
        let ms = match kind {
            FaultKind::Stall | FaultKind::PauseLink => 10,
            FaultKind::PendingStuck => 1000,
            _ => 1,
        };
        FaultSpec {
            kind,
            seed,
            one_in,
            host: None,
            hop: None,
            direction: None,
            count: None,
            duration_ns: ms * 1_000_000,
        }
    }
}
