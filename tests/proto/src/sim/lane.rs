// SPDX-License-Identifier: GPL-2.0
//! One direction of a lane: TX ring, wire, RX ring with its buffers.

use crate::proto::counters::LaneCounters;
use crate::proto::credit::{max_held_by_lane, LaneRx, LaneTx};
use crate::proto::env::FrameBuf;
use crate::proto::wire::Header;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Buffers of a receiving ring, shared with the frames that lie in them.
pub struct Buffers {
    pub rx: LaneRx,
    pub held: u32,
    ring: u32,
}

/// A frame in a buffer.
pub struct SimBuf(Box<Inner>);

struct Inner {
    header: Header,
    payload: Vec<u8>,
    held: bool,
    home: Rc<RefCell<Buffers>>,
}

impl SimBuf {
    pub fn new(header: Header, payload: Vec<u8>, home: &Rc<RefCell<Buffers>>) -> SimBuf {
        SimBuf(Box::new(Inner { header, payload, held: false, home: home.clone() }))
    }
}

impl FrameBuf for SimBuf {
    fn header(&self) -> &Header {
        &self.0.header
    }

    fn payload(&self) -> &[u8] {
        &self.0.payload
    }

    fn try_hold(&mut self) -> bool {
        let mut b = self.0.home.borrow_mut();
        if b.held >= max_held_by_lane(b.ring) {
            return false;
        }
        b.held += 1;
        self.0.held = true;
        true
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut b = self.home.borrow_mut();
        if self.held {
            b.held -= 1;
        }
        b.rx.reposted();
    }
}

/// A frame on its way; `spoilt`: a bit was flipped, the CRC must find it.
#[derive(Clone)]
pub struct OnWire {
    pub bytes: Vec<u8>,
    pub spoilt: bool,
    /// The NHI reports its payload as damaged.
    pub flagged: bool,
}

/// One host's end of a lane: it sends here and receives here.
pub struct LaneEnd {
    pub tx: LaneTx,
    pub buffers: Rc<RefCell<Buffers>>,
    pub counters: LaneCounters,
    /// The highest limit that was said to the peer.
    pub granted: u32,
    /// Frames in the TX ring.
    pub tx_used: u32,
    /// When the wire is free again.
    pub busy_until: u64,
    /// Queue pairs that wait for room, in turn.
    pub waiting: VecDeque<usize>,
    /// Frames that lie in the RX ring.
    pub arrived: VecDeque<OnWire>,
    /// Frames that found no buffer.
    pub overruns: u64,
    /// When the next RX batch is due, 0: none.
    pub batch_at: u64,
    /// When the credit probe's timer fires, 0: none.
    pub timer_at: u64,
}

impl LaneEnd {
    pub fn new(ring: u32) -> LaneEnd {
        LaneEnd::begun(ring, 0)
    }

    /// With `first` frames sent and received before.
    pub fn begun(ring: u32, first: u32) -> LaneEnd {
        let mut rx = LaneRx::new(ring).begin_at(first);
        LaneEnd {
            tx: LaneTx::new(ring).begin_at(first),
            granted: rx.limit_to_send(),
            buffers: Rc::new(RefCell::new(Buffers { rx, held: 0, ring })),
            counters: LaneCounters::ZERO,
            tx_used: 0,
            busy_until: 0,
            waiting: VecDeque::new(),
            arrived: VecDeque::new(),
            overruns: 0,
            batch_at: 0,
            timer_at: 0,
        }
    }

    /// The NHI takes a frame from the wire. True: there is no buffer for it.
    pub fn has_no_buffer(&mut self) -> bool {
        let full = self.buffers.borrow().rx.posted() as usize <= self.arrived.len();
        self.overruns += u64::from(full);
        full
    }
}
