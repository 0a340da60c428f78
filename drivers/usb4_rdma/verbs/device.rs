// SPDX-License-Identifier: GPL-2.0
//! The RDMA device of a link: its tables, its timers, and its life.
//!
//! Lock order: a batch (may sleep) -> QP -> SRQ -> CQ -> lane TX -> lane RX pool; QP ->
//! `timers`; `mr_alloc`, `mw_alloc`, `qpns`, `retired` and `registered` are taken alone or
//! under a queue pair's lock, with nothing under them.

use super::errors::Errors;
use super::limits;
use super::mr::{Count, Mr};
use super::qp::Qp;
use super::run::Batch;
use super::window::Window;
use crate::ffi::ib_device::{Identity, Registered};
use crate::ffi::job::WorkQueue;
use crate::ffi::random;
use crate::ffi::slot_table::SlotTable;
use crate::proto::counters::QpCounters;
use crate::tb::{self, Lane, Link, RxBuf};
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, Mutex, SpinLock};

/// Batches that may be under way: one for each lane, the last one for loopback.
const BATCHES: usize = 17;
/// Queue pairs that one look at the timers runs at most before it looks again.
const TICK_CHUNK: usize = 16;

/// Numbers for queue pairs: a number comes again only after all others.
struct Qpns {
    next: u32,
    used: u32,
}

/// A queue pair that waits for a deadline.
struct Timed {
    qp: Arc<Qp>,
    deadline_ns: u64,
}

/// Who empties a lane.
#[pin_data]
struct Drainer {
    #[pin]
    batch: Mutex<Batch>,
}

/// See the module.
#[pin_data]
pub(crate) struct Device {
    link: Arc<Link>,
    queue: WorkQueue,
    up: Atomic<bool>,
    pub(super) pds: Count,
    pub(super) cqs: Count,
    pub(super) srqs: Count,
    pub(super) mws: Count,
    pub(super) errors: Errors,
    next_pdn: Atomic<u32>,
    next_cqn: Atomic<u32>,
    pub(super) mrs: SlotTable<Mr>,
    pub(super) windows: SlotTable<Arc<Window>>,
    qps: SlotTable<Arc<Qp>>,
    drainers: Pin<KBox<[Drainer]>>,
    /// How many regions there are.
    #[pin]
    pub(super) mr_alloc: SpinLock<u32>,
    /// Held while a window gets its name.
    #[pin]
    pub(super) mw_alloc: SpinLock<()>,
    #[pin]
    qpns: SpinLock<Qpns>,
    #[pin]
    timers: SpinLock<KVVec<Timed>>,
    /// Counters of queue pairs that are gone.
    #[pin]
    pub(super) retired: SpinLock<QpCounters>,
    #[pin]
    registered: SpinLock<Option<Registered>>,
}

impl Device {
    /// Makes the device of a link that is up and has a network interface, and
    /// registers it with the RDMA core.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an interface, `ENOMEM`, or what the core answers.
    pub(crate) fn register(link: &Arc<Link>) -> Result<Arc<Self>> {
        let netdev = link.netdev();
        if netdev.is_null() {
            return Err(ENODEV);
        }
        let drainers = KBox::pin_slice(
            |_| pin_init!(Drainer { batch <- kernel::new_mutex!(Batch::new(), "u4r_batch") }? Error),
            BATCHES,
            GFP_KERNEL,
        )?;
        let qpns = Qpns {
            next: random() % limits::QPN_END,
            used: 0,
        };
        let timers = KVVec::with_capacity(limits::MAX_QP as usize, GFP_KERNEL)?;
        let init = pin_init!(Self {
            link: link.clone(),
            queue: WorkQueue::new(true)?,
            up: Atomic::new(true),
            pds: Count::new(),
            cqs: Count::new(),
            srqs: Count::new(),
            mws: Count::new(),
            errors: Errors::new(),
            next_pdn: Atomic::new(1),
            next_cqn: Atomic::new(1),
            mrs: SlotTable::new(limits::MAX_MR as usize)?,
            windows: SlotTable::new(limits::MAX_MW as usize)?,
            qps: SlotTable::new(limits::MAX_QP as usize)?,
            drainers,
            mr_alloc <- kernel::new_spinlock!(0, "u4r_mr_alloc"),
            mw_alloc <- kernel::new_spinlock!((), "u4r_mw_alloc"),
            qpns <- kernel::new_spinlock!(qpns, "u4r_qpns"),
            timers <- kernel::new_spinlock!(timers, "u4r_timers"),
            retired <- kernel::new_spinlock!(QpCounters::ZERO, "u4r_retired"),
            registered <- kernel::new_spinlock!(None, "u4r_registered"),
        }? Error);
        let device = Arc::pin_init(init, GFP_KERNEL)?;
        let identity = Identity {
            parent: link.nhi_device(),
            netdev,
        };
        let registered = Registered::new(device.clone(), &identity)?;
        pr_info!(
            "{}: RDMA device for the cable to {}\n",
            registered.name(),
            link.peer_name()
        );
        *device.registered.lock() = Some(registered);
        Ok(device)
    }

    /// Takes the device away: queue pairs fail, programs are told, then the core
    /// destroys what they still have. Sleeps.
    pub(crate) fn unregister(&self) {
        self.up.store(false, Relaxed);
        let registered = self.registered.lock().take();
        self.each_qp(|qp| qp.on_link_down());
        if let Some(registered) = registered {
            registered.port_event(false);
            drop(registered);
        }
    }

    /// Whether frames can cross the cable.
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Relaxed) && self.link.is_up()
    }

    /// The cable that it is on.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Gigabits a second in each direction.
    pub(crate) fn gbps(&self) -> u32 {
        self.link.speed_gbps() * self.link.width()
    }

    /// Takes a DATA or ACK frame. False if its queue pair does not exist.
    #[inline]
    pub(crate) fn deliver(&self, lane: &Lane, frame: RxBuf) -> bool {
        self.batch(lane)
            .is_some_and(|batch| batch.lock().deliver(self, frame))
    }

    /// The end of a batch of frames of `lane`.
    pub(crate) fn batch_end(&self, lane: &Lane) {
        if let Some(batch) = self.batch(lane) {
            batch.lock().end();
        }
    }

    fn batch(&self, lane: &Lane) -> Option<&Mutex<Batch>> {
        let drainer = self
            .drainers
            .get(usize::from(lane.number()).min(BATCHES - 1))?;
        Some(&drainer.batch)
    }

    /// There is room for what the queue pair waits to send.
    pub(crate) fn lane_has_room(&self, qpn: u32, kind: tb::Kind) {
        if let Some(qp) = self.qp(qpn) {
            qp.on_room(kind);
        }
    }

    /// Runs what is due at `now`. The next deadline.
    pub(crate) fn tick(&self, now: u64) -> Option<u64> {
        loop {
            let mut due = [const { None }; TICK_CHUNK];
            let mut count = 0;
            let mut next = u64::MAX;
            {
                let mut timers = self.timers.lock();
                let mut i = 0;
                while let Some(timed) = timers.get(i) {
                    if timed.deadline_ns > now || count == TICK_CHUNK {
                        next = next.min(timed.deadline_ns);
                        i += 1;
                        continue;
                    }
                    due[count] = Self::take_timed(&mut timers, i).map(|timed| timed.qp);
                    count += 1;
                }
            }
            for qp in due.into_iter().flatten() {
                qp.on_tick();
            }
            // Those run just now have armed the ticker themselves.
            if count < TICK_CHUNK {
                return (next != u64::MAX).then_some(next);
            }
        }
    }

    fn take_timed(timers: &mut KVVec<Timed>, i: usize) -> Option<Timed> {
        let last = timers.len().checked_sub(1)?;
        timers.as_mut_slice().swap(i, last);
        timers.pop()
    }

    /// Has the ticker look at `qp` at `deadline_ns`; `known`: it has a place among
    /// the timers already. Under the queue pair's lock.
    pub(super) fn arm(&self, qp: &Arc<Qp>, deadline_ns: u64, known: bool) {
        {
            let mut timers = self.timers.lock();
            let place = if known {
                timers.iter_mut().find(|timed| Arc::ptr_eq(&timed.qp, qp))
            } else {
                None
            };
            match place {
                Some(timed) => timed.deadline_ns = deadline_ns,
                // There is a place for every queue pair: nothing is allocated.
                None => {
                    let _ = timers.push_within_capacity(Timed {
                        qp: qp.clone(),
                        deadline_ns,
                    });
                }
            }
        }
        self.link.wake_ticker(deadline_ns);
    }

    /// The lane for a queue pair; `local`: its peer is on this device.
    pub(super) fn choose_lane(&self, qpn: u32, local: bool) -> Option<Arc<Lane>> {
        if local {
            self.link.loop_lane()
        } else {
            self.link.lane_for_qp(qpn)
        }
    }

    /// The queue pair of a number.
    #[inline]
    pub(super) fn qp(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qps.get(qpn).map(|qp| Arc::clone(&qp))
    }

    /// Calls `f` with each queue pair.
    pub(super) fn each_qp(&self, mut f: impl FnMut(&Arc<Qp>)) {
        for slot in 0..limits::MAX_QP {
            let qp = self.qps.at(slot).map(|qp| Arc::clone(&qp));
            if let Some(qp) = qp {
                f(&qp);
            }
        }
    }

    /// Reserves a number for a queue pair.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if all are taken.
    pub(super) fn reserve_qpn(self: &Arc<Self>) -> Result<ReservedQpn> {
        let mut qpns = self.qpns.lock();
        if qpns.used >= limits::MAX_QP {
            return Err(ENOMEM);
        }
        qpns.used += 1;
        let mut number = qpns.next;
        // The low bits run through the table, the high ones count the rounds.
        while number < limits::QPN_FIRST || !self.qps.is_free(number) {
            number = (number + 1) % limits::QPN_END;
        }
        qpns.next = (number + 1) % limits::QPN_END;
        Ok(ReservedQpn {
            device: self.clone(),
            number,
            published: false,
        })
    }

    /// Forgets a queue pair: no frame, timer or room reaches it any more. Sleeps.
    pub(super) fn forget_qp(&self, qp: &Arc<Qp>) {
        if let Some(entry) = self.qps.remove(qp.number) {
            self.qpns.lock().used -= 1;
            drop(entry);
        }
        let timed = {
            let mut timers = self.timers.lock();
            let place = timers.iter().position(|timed| Arc::ptr_eq(&timed.qp, qp));
            place.and_then(|i| Self::take_timed(&mut timers, i))
        };
        drop(timed);
    }

    pub(super) fn next_pdn(&self) -> u32 {
        self.next_pdn.fetch_add(1, Relaxed)
    }

    pub(super) fn next_cqn(&self) -> u32 {
        self.next_cqn.fetch_add(1, Relaxed)
    }

    /// Runs the queue pairs of kernel users.
    pub(super) fn work_queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Early frames that one queue pair may hold.
    pub(super) fn max_held(&self) -> u16 {
        let held = self
            .link
            .lane_for_qp(0)
            .map_or(0, |lane| lane.max_held_by_qp());
        held.min(255) as u16
    }
}

/// A number that no other queue pair gets; given back if it is not used.
pub(super) struct ReservedQpn {
    device: Arc<Device>,
    number: u32,
    published: bool,
}

impl ReservedQpn {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Makes the queue pair known under its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn publish(mut self, qp: &Arc<Qp>) -> Result {
        let entry = KBox::new(qp.clone(), GFP_KERNEL)?;
        self.device.qps.insert(self.number, entry)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for ReservedQpn {
    fn drop(&mut self) {
        if !self.published {
            self.device.qpns.lock().used -= 1;
        }
    }
}

// The low bits of a number are the place in the table.
const _: () = assert!(limits::MAX_QP.is_power_of_two() && limits::MAX_QP < limits::QPN_END);
