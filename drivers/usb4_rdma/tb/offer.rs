// SPDX-License-Identifier: GPL-2.0

//! What this host offers in a handshake: ring pairs, each with a HopID to send on.
//! An offer becomes a lane when the peer has made its own.

use super::lane::{Hops, Lane, Parts, Port};
use super::link::Link;
use crate::ffi::params;
use crate::ffi::tb_frames::{Frame, FramePool};
use crate::ffi::tb_ring::{RxRing, TxRing};
use crate::ffi::tb_xdomain::{OutHop, Xdomain};
use crate::proto::credit::LaneTx;
use crate::proto::handshake::{LaneOffer, MAX_LANES};
use kernel::prelude::*;

/// See the module.
pub(super) struct Offer {
    size: u32,
    tx: TxRing,
    tx_pool: FramePool,
    tx_free: KVVec<Frame>,
    rx: Pin<KBox<RxRing<Lane>>>,
    rx_frames: KVVec<Frame>,
    out: OutHop,
}

impl Offer {
    fn new(xd: &Xdomain, size: u32) -> Result<Self> {
        let (tx, tx_pool, tx_free) = TxRing::new(xd, size)?;
        let (rx, rx_frames) = RxRing::new(xd, size, tx.hop(), params::irq_moderation_ns())?;
        Ok(Self {
            size,
            tx,
            tx_pool,
            tx_free,
            rx,
            rx_frames,
            out: xd.alloc_out_hop()?,
        })
    }

    /// As many ring pairs as the parameter and the host interface allow, leaving
    /// one for each network interface that has none yet.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when there is not even one, `ENOMEM`.
    pub(super) fn as_many_as_possible(xd: &Xdomain) -> Result<KVec<Self>> {
        let free = xd.free_ring_pairs().saturating_sub(xd.net_ring_reserve());
        let most = params::lanes().min(free).min(MAX_LANES as u32);
        let mut offers = KVec::with_capacity(MAX_LANES, GFP_KERNEL)?;
        for _ in 0..most {
            match Self::new(xd, params::ring_size()) {
                Ok(offer) => offers.push(offer, GFP_KERNEL)?,
                // The interrupt vectors may run out before the rings do.
                Err(_) if !offers.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if offers.is_empty() {
            return Err(ENOSPC);
        }
        Ok(offers)
    }

    /// What the peer must know of it.
    pub(super) fn announce(&self) -> LaneOffer {
        LaneOffer {
            tx_hopid: self.out.id(),
            rx_buffers: (self.size - 1) as u16,
        }
    }

    /// Makes the lane: rings first, then receive buffers, and the paths last, so
    /// that no frame finds an empty ring. What fails releases everything.
    ///
    /// # Errors
    ///
    /// `EBUSY` when the peer's HopID is in use here, `ENODEV` when the cable is gone,
    /// `ENOMEM`, or what the connection manager says.
    pub(super) fn open(self, xd: &Xdomain, link: &kernel::sync::Arc<Link>, number: u8, theirs: LaneOffer) -> Result {
        let inward = xd.alloc_in_hop(theirs.tx_hopid)?;
        let (tx_hop, rx_hop) = (self.tx.hop(), self.rx.hop());
        let lane = Lane::new(
            link,
            Parts {
                number,
                size: self.size,
                ring: Some(self.tx),
                pool: self.tx_pool,
                free: self.tx_free,
                port: Port::Ring(self.rx),
                credit: Some(LaneTx::new(u32::from(theirs.rx_buffers))),
            },
        )?;
        // From here on the link closes the lane, whatever happens.
        link.add_lane(lane.clone())?;
        Lane::start(&lane, self.rx_frames);
        let paths = xd.enable_paths(&self.out, tx_hop, &inward, rx_hop);
        let (paths, result) = match paths {
            Ok(paths) => (Some(paths), Ok(())),
            Err(error) => (None, Err(error)),
        };
        lane.keep(Hops {
            paths,
            _out: self.out,
            _inward: inward,
        });
        result
    }
}
