// SPDX-License-Identifier: GPL-2.0

//! The lane between queue pairs of the same device: a queue in memory and a job
//! that empties it. It has the interface of any lane, so queue pairs do not know.
//!
//! Lock order: `queue` is taken alone.

use super::lane::{Lane, Parts, Port};
use super::link::Link;
use super::queues::Queues;
use crate::ffi::job::{Job, Runs};
use crate::ffi::tb_frames::{Frame, FramePool};
use crate::ffi::tb_ring::FrameSink;
use crate::proto::wire::Header;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SetOnce, SpinLock};

/// The number of the loopback lane.
const NUMBER: u8 = 255;
/// Frames that may be on the way.
const SIZE: u32 = 256;

/// Frames on the way, oldest first; there is a place for every buffer.
struct Queue {
    places: KVVec<Option<(Frame, usize)>>,
    first: usize,
    count: usize,
}

/// See the module.
pub(super) struct Loopback {
    queue: Pin<KBox<SpinLock<Queue>>>,
    job: SetOnce<Job<Lane>>,
}

impl Loopback {
    /// The loopback lane of a link.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn open(link: &Arc<Link>, queues: &Queues) -> Result<Arc<Lane>> {
        let (pool, free) = FramePool::in_memory(SIZE as usize - 1)?;
        let mut places = KVVec::with_capacity(SIZE as usize, GFP_KERNEL)?;
        for _ in 0..SIZE {
            places.push(None, GFP_KERNEL)?;
        }
        let queue = Queue {
            places,
            first: 0,
            count: 0,
        };
        let way = Self {
            queue: KBox::pin_init(new_spinlock!(queue, "usb4_rdma loopback"), GFP_KERNEL)?,
            job: SetOnce::new(),
        };
        let lane = Lane::new(
            link,
            Parts {
                number: NUMBER,
                size: SIZE,
                ring: None,
                pool,
                free,
                port: Port::Loop(way),
                credit: None,
            },
        )?;
        let job = Job::new::<0>(&queues.urgent, lane.clone())?;
        if let Port::Loop(way) = &lane.port {
            way.job.populate(job);
        }
        Ok(lane)
    }

    /// Sends a finished frame on its way.
    pub(super) fn push(&self, frame: Frame, len: usize) {
        {
            let mut queue = self.queue.lock();
            let queue = &mut *queue;
            let at = (queue.first + queue.count) % queue.places.len();
            if let Some(place) = queue.places.get_mut(at) {
                *place = Some((frame, len));
                queue.count += 1;
            }
        }
        if let Some(job) = self.job.as_ref() {
            job.queue();
        }
    }

    fn pop(&self) -> Option<(Frame, usize)> {
        let mut queue = self.queue.lock();
        let queue = &mut *queue;
        if queue.count == 0 {
            return None;
        }
        let frame = queue.places.get_mut(queue.first)?.take();
        queue.first = (queue.first + 1) % queue.places.len();
        queue.count -= 1;
        frame
    }

    /// Ends the job, once it has run to its end.
    pub(super) fn stop(&self) {
        if let Some(job) = self.job.as_ref() {
            job.stop();
        }
    }

    /// Waits for what is under way.
    pub(super) fn quiesce(&self) {
        if let Some(job) = self.job.as_ref() {
            job.flush();
        }
    }
}

impl Runs for Lane {
    fn run(this: &Arc<Self>) {
        let Port::Loop(way) = &this.port else {
            return;
        };
        // What is sent meanwhile queues the job again: no endless run.
        for _ in 0..SIZE {
            let Some((frame, len)) = way.pop() else {
                break;
            };
            match Header::parse(this.pool.bytes(&frame, len)) {
                Ok(header) => {
                    this.rx.lock().counters.rx_frames += 1;
                    Self::hand_up(this, frame, header);
                }
                Err(bad) => {
                    this.rx.lock().bad.count(bad);
                    this.tx.lock().put(frame);
                }
            }
        }
        Self::batch_end(this);
    }
}
