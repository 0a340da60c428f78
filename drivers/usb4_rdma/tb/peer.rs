// SPDX-License-Identifier: GPL-2.0

//! The other host at the end of one cable, as long as it offers our service: greets
//! it until both know each other, opens the lanes, and keeps the RDMA device
//! registered while the link is usable. Documentation/handshake.md has the states.
//!
//! Lock order: `control` (may sleep), then whatever the link takes. `inbox` is
//! taken alone, and never held while anything is called.

use super::greeting;
use super::link::Link;
use super::offer::Offer;
use super::report::{Report, ReportFile};
use super::Shared;
use crate::ffi::clock::now_ns;
use crate::ffi::job::{Job, Runs};
use crate::ffi::tb_netdev::Netdev;
use crate::ffi::tb_service::ServiceDriver;
use crate::ffi::tb_xdomain::{host_name, random_nonce, Xdomain};
use crate::proto::handshake::{negotiate, Hello, Kind, LaneOffer};
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SetOnce, SpinLock};

/// First and longest pause between two HELLOs.
const PAUSE_MIN_NS: u64 = 50_000_000;
const PAUSE_MAX_NS: u64 = 5_000_000_000;
/// Messages that wait to be handled; more are dropped, and come again.
const INBOX: usize = 8;

/// See the module.
#[pin_data]
pub(crate) struct Peer {
    pub(super) xd: Xdomain,
    shared: Arc<Shared>,
    job: SetOnce<Job<Peer>>,
    #[pin]
    report: Mutex<Option<ReportFile>>,
    #[pin]
    inbox: SpinLock<Inbox>,
    #[pin]
    control: Mutex<Control>,
    /// Messages that were no HELLO.
    pub(super) garbage: Atomic<u64>,
}

struct Inbox {
    messages: [Option<Hello>; INBOX],
    count: usize,
}

/// What has been said already, so that it is said once.
#[derive(Default)]
struct Told {
    no_ring: bool,
    no_netdev: bool,
    refused: bool,
    failed: bool,
}

struct Control {
    /// The service is gone or the system sleeps.
    stopped: bool,
    /// This side of the session; new whenever lanes have to be made anew.
    nonce: u64,
    offers: KVec<Offer>,
    /// What HELLO tells of our lanes, offered or open.
    announced: KVec<LaneOffer>,
    /// The peer's latest HELLO.
    remote: Option<Hello>,
    /// The peer has answered to our nonce, and is ready to receive.
    known: bool,
    remote_ready: bool,
    link: Option<Arc<Link>>,
    pause_ns: u64,
    next_ns: u64,
    sent: u32,
    told: Told,
}

impl Peer {
    fn new(shared: &Arc<Shared>, xd: Xdomain) -> Result<Arc<Self>> {
        let shared = shared.clone();
        let inbox = Inbox {
            messages: [None; INBOX],
            count: 0,
        };
        let control = Control {
            stopped: false,
            nonce: random_nonce(),
            offers: KVec::new(),
            announced: KVec::new(),
            remote: None,
            known: false,
            remote_ready: false,
            link: None,
            pause_ns: PAUSE_MIN_NS,
            next_ns: 0,
            sent: 0,
            told: Told::default(),
        };
        let init = pin_init!(Self {
            xd,
            shared,
            job: SetOnce::new(),
            report <- new_mutex!(None, "usb4_rdma report"),
            inbox <- new_spinlock!(inbox, "usb4_rdma inbox"),
            control <- new_mutex!(control, "usb4_rdma peer"),
            garbage: Atomic::new(0),
        });
        let peer = Arc::pin_init(init, GFP_KERNEL)?;
        let job = Job::new::<0>(&peer.shared.queues.slow, peer.clone())?;
        peer.job.populate(job);
        Ok(peer)
    }

    /// Looks at the state anew, soon.
    pub(super) fn kick(&self) {
        if let Some(job) = self.job.as_ref() {
            job.queue();
        }
    }

    /// A message from the peer. Does not sleep.
    pub(super) fn message(&self, hello: Hello) {
        {
            let mut inbox = self.inbox.lock();
            let at = inbox.count;
            if let Some(place) = inbox.messages.get_mut(at) {
                *place = Some(hello);
                inbox.count += 1;
            }
        }
        self.kick();
    }

    fn take_messages(&self) -> [Option<Hello>; INBOX] {
        let mut inbox = self.inbox.lock();
        inbox.count = 0;
        core::mem::replace(&mut inbox.messages, [None; INBOX])
    }

    /// The present link, for the statistics.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.control.lock().link.clone()
    }

    fn send(&self, control: &mut Control, kind: Kind) {
        let theirs = control.remote.as_ref().map_or(0, |hello| hello.nonce);
        let mut hello = Hello::new(kind, control.nonce, theirs, name_of(&host_name()));
        for lane in &control.announced {
            hello.push_lane(*lane);
        }
        control.sent = control.sent.wrapping_add(1);
        if let Err(error) = greeting::send(&self.xd, control.sent, &hello) {
            pr_debug!("{}: {:?} not sent: {:?}\n", self.xd.device_name(), kind, error);
        }
    }

    /// Handles one message.
    fn receive(&self, control: &mut Control, hello: &Hello) {
        let known_nonce = control.remote.as_ref().map(|remote| remote.nonce);
        if hello.kind == Kind::Bye {
            if known_nonce == Some(hello.nonce) {
                self.start_over(control, "the other host says goodbye");
                control.remote = None;
            }
            return;
        }
        if hello.kind == Kind::Refuse {
            return self.refused(control, "the other host refuses");
        }
        if negotiate(&Hello::new(Kind::Hello, 1, 0, b""), hello).is_err() {
            self.send(control, Kind::Refuse);
            return self.refused(control, "no common version of the protocol");
        }
        if known_nonce != Some(hello.nonce) {
            if control.link.is_some() {
                self.start_over(control, "the other host starts over");
            }
            control.remote_ready = false;
            control.pause_ns = PAUSE_MIN_NS;
            control.next_ns = 0;
        }
        // READY may leave out the lanes.
        if hello.lane_count != 0 || known_nonce != Some(hello.nonce) {
            control.remote = Some(*hello);
        }
        control.known = hello.peer_nonce == control.nonce;
        control.remote_ready |= control.known && hello.kind == Kind::Ready;
        if hello.kind == Kind::Hello && !control.announced.is_empty() {
            let kind = if control.link.is_some() { Kind::Ready } else { Kind::Reply };
            self.send(control, kind);
        }
    }

    fn refused(&self, control: &mut Control, why: &str) {
        if !core::mem::replace(&mut control.told.refused, true) {
            pr_warn!("{}: no link: {}\n", self.xd.device_name(), why);
        }
        control.pause_ns = PAUSE_MAX_NS;
        control.next_ns = now_ns() + PAUSE_MAX_NS;
    }

    /// Ends the session and begins a new one.
    fn start_over(&self, control: &mut Control, why: &str) {
        if control.link.is_some() {
            pr_info!("{}: link down: {}\n", self.xd.device_name(), why);
        }
        control.tear_down();
    }

    /// Goes as far as it can towards a usable link.
    fn advance(&self, control: &mut Control) {
        let up = control.link.as_ref().is_some_and(|link| link.is_up());
        if !up {
            if !self.make_offers(control) {
                return;
            }
            if control.link.is_none() && control.known {
                self.connect(control);
            }
            self.finish(control);
        }
        match &control.link {
            Some(link) if link.is_up() => {
                let link = link.clone();
                self.keep_device(control, &link);
            }
            _ => self.greet(control),
        }
    }

    /// True if there is something to offer, or a link already.
    fn make_offers(&self, control: &mut Control) -> bool {
        if control.link.is_some() || !control.offers.is_empty() {
            return true;
        }
        match Offer::as_many_as_possible(&self.xd) {
            Ok(offers) => {
                for offer in &offers {
                    if control.announced.push(offer.announce(), GFP_KERNEL).is_err() {
                        break;
                    }
                }
                control.offers = offers;
                control.told.no_ring = false;
                true
            }
            Err(error) => {
                if !core::mem::replace(&mut control.told.no_ring, true) {
                    pr_warn!(
                        "{}: no ring pair to be had ({:?}), trying again now and then\n",
                        self.xd.device_name(),
                        error
                    );
                }
                self.again_in(control, PAUSE_MAX_NS);
                false
            }
        }
    }

    /// Both sides know each other's offer: makes the lanes.
    fn connect(&self, control: &mut Control) {
        let Some(remote) = control.remote else {
            return;
        };
        let offers = core::mem::replace(&mut control.offers, KVec::new());
        match self.open_lanes(&remote, offers) {
            Ok(link) => {
                control.link = Some(link);
                self.send(control, Kind::Ready);
            }
            Err(error) => {
                if !core::mem::replace(&mut control.told.failed, true) {
                    pr_warn!(
                        "{}: lanes did not open ({:?}), trying again\n",
                        self.xd.device_name(),
                        error
                    );
                }
                control.tear_down();
                control.pause_ns = (control.pause_ns * 2).min(PAUSE_MAX_NS);
                control.next_ns = now_ns() + control.pause_ns;
            }
        }
    }

    fn open_lanes(&self, remote: &Hello, offers: KVec<Offer>) -> Result<Arc<Link>> {
        let link = Link::new(&self.xd, &self.shared.queues)?;
        let pairs = offers.into_iter().zip(remote.lanes().iter());
        for (number, (offer, theirs)) in pairs.enumerate() {
            if let Err(error) = offer.open(&self.xd, &link, number as u8, *theirs) {
                link.close();
                return Err(error);
            }
        }
        Ok(link)
    }

    /// Both sides are ready: frames may flow.
    fn finish(&self, control: &mut Control) {
        let Some(link) = &control.link else {
            return;
        };
        if !control.remote_ready || link.is_up() {
            return;
        }
        link.set_up();
        control.told.failed = false;
        control.told.refused = false;
        let mut lanes = 0;
        link.each_lane(|lane| lanes += usize::from(!lane.is_loop()));
        let plural = if lanes == 1 { "" } else { "s" };
        pr_info!(
            "{}: link up to {}: {} lane{}, {} Gb/s x {}\n",
            self.xd.device_name(),
            link.peer_name(),
            lanes,
            plural,
            link.speed_gbps(),
            link.width()
        );
    }

    /// Registers or removes the RDMA device as the cable's interface comes and goes.
    fn keep_device(&self, control: &mut Control, link: &Arc<Link>) {
        let netdev = Netdev::of(&self.xd);
        let fits = netdev.as_ref().is_some_and(|netdev| link.has_device_on(netdev));
        if fits {
            return;
        }
        link.remove_device();
        let Some(netdev) = netdev else {
            if !core::mem::replace(&mut control.told.no_netdev, true) {
                pr_info!(
                    "{}: waiting for the cable's network interface (thunderbolt-net)\n",
                    self.xd.device_name()
                );
            }
            return;
        };
        control.told.no_netdev = false;
        if let Err(error) = Link::add_device(link, netdev) {
            pr_err!("{}: no RDMA device: {:?}\n", self.xd.device_name(), error);
        }
    }

    /// Sends a HELLO if it is time, and comes again.
    fn greet(&self, control: &mut Control) {
        let now = now_ns();
        if now >= control.next_ns {
            self.send(control, Kind::Hello);
            control.next_ns = now + control.pause_ns;
            control.pause_ns = (control.pause_ns * 2).min(PAUSE_MAX_NS);
        }
        let pause = control.next_ns - now;
        self.again_in(control, pause);
    }

    fn again_in(&self, control: &Control, pause_ns: u64) {
        if control.stopped {
            return;
        }
        if let Some(job) = self.job.as_ref() {
            job.at(now_ns() + pause_ns);
        }
    }

    /// Ends everything until [`ServiceDriver::resume`], or for good.
    fn stop(&self, why: &str) {
        let mut control = self.control.lock();
        let control = &mut *control;
        control.stopped = true;
        if !self.xd.is_unplugged() && !control.announced.is_empty() {
            self.send(control, Kind::Bye);
        }
        self.start_over(control, why);
        control.remote = None;
    }
}

/// A name without its padding.
fn name_of(padded: &[u8]) -> &[u8] {
    let end = padded.iter().position(|byte| *byte == 0);
    padded.get(..end.unwrap_or(padded.len())).unwrap_or(&[])
}

impl Control {
    /// Lets all of the session go. The next one has another nonce.
    fn tear_down(&mut self) {
        if let Some(link) = self.link.take() {
            link.remove_device();
            link.close();
        }
        self.offers = KVec::new();
        self.announced = KVec::new();
        self.nonce = random_nonce();
        self.known = false;
        self.remote_ready = false;
        self.next_ns = 0;
    }
}

impl Runs for Peer {
    fn run(this: &Arc<Self>) {
        let mut control = this.control.lock();
        let control = &mut *control;
        for hello in this.take_messages().iter().flatten() {
            if !control.stopped {
                this.receive(control, hello);
            }
        }
        if !control.stopped {
            this.advance(control);
        }
    }
}

impl ServiceDriver for Peer {
    type Shared = Shared;

    fn probe(shared: &Arc<Shared>, xd: Xdomain) -> Result<Arc<Self>> {
        pr_info!("{}: found {}\n", xd.device_name(), xd.peer_name());
        let peer = Self::new(shared, xd)?;
        // Without debugfs there is only less to see.
        *peer.report.lock() = Report::publish(&shared.reports, &peer).ok();
        if let Err(error) = shared.add(peer.clone()) {
            peer.remove();
            return Err(error);
        }
        peer.kick();
        Ok(peer)
    }

    /// The thunderbolt core does not hold the domain's lock here (7.3), so waiting
    /// for a run that is just enabling paths ends.
    fn remove(&self) {
        self.shared.forget(self);
        // Waits for readers, who want `control`.
        let report = self.report.lock().take();
        drop(report);
        let held = self.job.as_ref().and_then(Job::stop);
        let why = if self.xd.is_unplugged() {
            "cable unplugged"
        } else {
            "service withdrawn"
        };
        self.stop(why);
        drop(held);
    }

    fn suspend(&self) {
        self.stop("going to sleep");
    }

    fn resume(&self) {
        {
            let mut control = self.control.lock();
            control.stopped = false;
            control.pause_ns = PAUSE_MIN_NS;
        }
        self.kick();
    }
}
