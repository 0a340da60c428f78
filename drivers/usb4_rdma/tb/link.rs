// SPDX-License-Identifier: GPL-2.0

//! One connection to one peer: its lanes, its ticker, and the RDMA device on it. A
//! new handshake makes a new link.
//!
//! Lock order: `lanes`, `device` and `netdev` are each taken alone.

use super::lane::Lane;
use super::loopback::Loopback;
use super::lane::Port;
use super::queues::Queues;
use crate::ffi::clock::now_ns;
use crate::ffi::job::{Job, Runs};
use crate::ffi::params;
use crate::ffi::tb_netdev::Netdev;
use crate::ffi::tb_xdomain::{PeerName, Xdomain};
use crate::verbs;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, Arc, SetOnce, SpinLock};

/// After the last received frame the poll goes on for so many of its periods: a
/// frame without an interrupt is most likely one of a burst.
const LINGER_PERIODS: u64 = 8;

/// Shortest pause between two runs of the ticker.
const MIN_PAUSE_NS: u64 = 50_000;

/// The job numbers of a link's object.
const TICK: usize = 1;

/// See the module.
#[pin_data]
pub(crate) struct Link {
    xd: Xdomain,
    name: PeerName,
    speed: u32,
    width: u32,
    up: Atomic<bool>,
    #[pin]
    lanes: SpinLock<Lanes>,
    #[pin]
    device: SpinLock<Option<Arc<verbs::Device>>>,
    #[pin]
    netdev: SpinLock<Option<Netdev>>,
    ticker: SetOnce<Job<Link>>,
    /// The ticker is armed.
    ticking: Atomic<bool>,
    /// Until when to poll because frames came.
    poll_until: Atomic<u64>,
}

struct Lanes {
    rings: KVec<Arc<Lane>>,
    loopback: Option<Arc<Lane>>,
    next: usize,
}

impl Link {
    /// A link without lanes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(xd: &Xdomain, queues: &Queues) -> Result<Arc<Self>> {
        let lanes = Lanes {
            rings: KVec::new(),
            loopback: None,
            next: 0,
        };
        let xd = xd.clone();
        let init = pin_init!(Self {
            name: xd.peer_name(),
            speed: xd.link_speed(),
            width: xd.link_width(),
            xd,
            up: Atomic::new(false),
            lanes <- new_spinlock!(lanes, "usb4_rdma link lanes"),
            device <- new_spinlock!(None, "usb4_rdma link device"),
            netdev <- new_spinlock!(None, "usb4_rdma link netdev"),
            ticker: SetOnce::new(),
            ticking: Atomic::new(false),
            poll_until: Atomic::new(0),
        });
        let link = Arc::pin_init(init, GFP_KERNEL)?;
        let ticker = Job::new::<TICK>(&queues.urgent, link.clone())?;
        link.ticker.populate(ticker);
        match Loopback::open(&link, queues) {
            Ok(lane) => link.lanes.lock().loopback = Some(lane),
            Err(error) => {
                link.close();
                return Err(error);
            }
        }
        Ok(link)
    }

    /// Adds the next lane.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add_lane(&self, lane: Arc<Lane>) -> Result {
        // Grown outside the lock: allocation may sleep.
        let mut rings = KVec::with_capacity(lane.number() as usize + 1, GFP_KERNEL)?;
        let mut lanes = self.lanes.lock();
        for old in lanes.rings.iter() {
            let _ = rings.push_within_capacity(old.clone());
        }
        let _ = rings.push_within_capacity(lane);
        core::mem::swap(&mut lanes.rings, &mut rings);
        drop(lanes);
        Ok(())
    }

    /// The lane for a new queue pair: each gets one of its own while there are
    /// enough, then they share. `None` only when the link is closed.
    pub(crate) fn lane_for_qp(&self, _qpn: u32) -> Option<Arc<Lane>> {
        let mut lanes = self.lanes.lock();
        let count = lanes.rings.len();
        if count == 0 {
            return None;
        }
        let at = lanes.next % count;
        lanes.next = at + 1;
        lanes.rings.get(at).cloned()
    }

    /// The lane that leads back to this device. `None` only when the link is closed.
    pub(crate) fn loop_lane(&self) -> Option<Arc<Lane>> {
        self.lanes.lock().loopback.clone()
    }

    /// Speed of one of the cable's lanes in Gb/s: 10, 20 or 40.
    pub(crate) fn speed_gbps(&self) -> u32 {
        self.speed
    }

    /// Lanes of the cable in our direction: 1, 2 or 3.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// The PCI function that is the RDMA device's parent.
    pub(crate) fn nhi_device(&self) -> *mut crate::ffi::bindings::device {
        self.xd.nhi_device()
    }

    /// The network interface of the same cable; null while there is none. It stays
    /// valid while an RDMA device is registered on the link.
    pub(crate) fn netdev(&self) -> *mut crate::ffi::bindings::net_device {
        self.netdev
            .lock()
            .as_ref()
            .map_or(core::ptr::null_mut(), Netdev::as_ptr)
    }

    /// The other host, for people.
    pub(crate) fn peer_name(&self) -> &PeerName {
        &self.name
    }

    /// Do frames flow?
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Relaxed)
    }

    pub(super) fn set_up(&self) {
        self.up.store(true, Relaxed);
    }

    /// The RDMA device, if it is there.
    pub(super) fn device(&self) -> Option<Arc<verbs::Device>> {
        self.device.lock().clone()
    }

    /// Makes the RDMA device with this network interface.
    ///
    /// # Errors
    ///
    /// What registration says; the link goes on without a device.
    pub(super) fn add_device(this: &Arc<Self>, netdev: Netdev) -> Result {
        *this.netdev.lock() = Some(netdev);
        match verbs::Device::register(this) {
            Ok(device) => {
                *this.device.lock() = Some(device);
                Ok(())
            }
            Err(error) => {
                let netdev = this.netdev.lock().take();
                drop(netdev);
                Err(error)
            }
        }
    }

    /// Is there an RDMA device on this interface?
    pub(super) fn has_device_on(&self, netdev: &Netdev) -> bool {
        self.netdev.lock().as_ref() == Some(netdev)
    }

    /// Removes the RDMA device, if there is one: its queue pairs fail first.
    pub(super) fn remove_device(&self) {
        let device = self.device.lock().clone();
        if let Some(device) = device {
            device.unregister();
            let slot = self.device.lock().take();
            self.quiesce();
            drop((slot, device));
        }
        let netdev = self.netdev.lock().take();
        drop(netdev);
    }

    /// Waits for all who may still use the device that was just taken away.
    fn quiesce(&self) {
        self.each_lane(|lane| match &lane.port {
            Port::Ring(ring) => ring.quiesce(),
            Port::Loop(way) => way.quiesce(),
        });
        if let Some(ticker) = self.ticker.as_ref() {
            ticker.flush();
        }
    }

    /// Closes everything; sleeps. The device must have been removed.
    pub(super) fn close(&self) {
        self.up.store(false, Relaxed);
        self.each_lane(|lane| lane.shut());
        if let Some(ticker) = self.ticker.as_ref() {
            ticker.stop();
        }
        self.each_lane(|lane| lane.close());
        let mut lanes = self.lanes.lock();
        let rings = core::mem::replace(&mut lanes.rings, KVec::new());
        let loopback = lanes.loopback.take();
        drop(lanes);
        drop((rings, loopback));
    }

    /// Calls `f` with each lane, loopback last, without a lock.
    pub(super) fn each_lane(&self, mut f: impl FnMut(&Arc<Lane>)) {
        let mut n = 0;
        loop {
            let lane = self.lanes.lock().rings.get(n).cloned();
            let Some(lane) = lane else {
                break;
            };
            f(&lane);
            n += 1;
        }
        if let Some(lane) = self.loop_lane() {
            f(&lane);
        }
    }

    /// Runs the ticker at `deadline_ns` at the latest.
    pub(crate) fn wake_ticker(&self, deadline_ns: u64) {
        if let Some(ticker) = self.ticker.as_ref() {
            ticker.at(deadline_ns);
        }
    }

    /// Something is under way: poll for its end. Cheap when that is known.
    #[inline]
    pub(super) fn touch(&self) {
        if !self.ticking.load(Relaxed) {
            self.ticking.store(true, Relaxed);
            self.wake_ticker(now_ns() + poll_ns());
        }
    }

    /// Runs the ticker at once.
    pub(super) fn run_now(&self) {
        if let Some(ticker) = self.ticker.as_ref() {
            ticker.queue();
        }
    }

    /// A batch of frames was received.
    pub(super) fn received(&self) {
        self.poll_until
            .store(now_ns() + LINGER_PERIODS * poll_ns(), Relaxed);
        self.touch();
    }
}

/// The supplemental poll's period.
fn poll_ns() -> u64 {
    u64::from(params::poll_us()) * 1000
}

impl Runs<TICK> for Link {
    /// Runs while something is outstanding; an idle link has no timer.
    fn run(this: &Arc<Self>) {
        let now = now_ns();
        let period = poll_ns();
        this.ticking.store(false, Relaxed);
        let mut next = u64::MAX;
        let mut busy = now < this.poll_until.load(Relaxed);
        this.each_lane(|lane| {
            next = next.min(Lane::tick(lane, now).unwrap_or(u64::MAX));
            busy |= lane.is_busy();
        });
        if let Some(device) = this.device() {
            next = next.min(device.tick(now).unwrap_or(u64::MAX));
        }
        if busy {
            this.ticking.store(true, Relaxed);
            next = next.min(now + period);
        }
        if next != u64::MAX {
            // A deadline that has passed is handled on the next run, not in a loop.
            this.wake_ticker(next.max(now + MIN_PAUSE_NS));
        }
    }
}
