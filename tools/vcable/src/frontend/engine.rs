// SPDX-License-Identifier: GPL-2.0
//! The model under its one lock, and the thread that drives it.
//!
//! Lock order: `fabric`, then a guest's `areas` or `files`. `sleep` is a leaf: no other lock is taken
//! under it. A panic under `fabric` ends the process (see the panic hook of `main`), so a poisoned lock is
//! never seen.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::pace::{Pace, Pause};
use super::sys;
use crate::core::Fabric;

/// Rounds of work that a thread does for its own access before it leaves the rest to the poller. A round
/// is bounded by the model.
const ROUNDS_INLINE: usize = 4;

/// A poller that ends its rest by itself within this is not woken: waking costs as much.
const WAKE_WORTH_NS: u64 = 60_000;

/// What the poller has done, for the control socket.
#[derive(Debug, Default)]
pub struct PollerStats {
    /// Polls of the model.
    pub polls: AtomicU64,
    /// Polls that found work.
    pub busy_polls: AtomicU64,
    /// Sleeps.
    pub sleeps: AtomicU64,
    /// Processor time, in ns.
    pub cpu_ns: AtomicU64,
}

/// The fabric, shared by the connections, the control socket and the poller.
pub struct Engine {
    fabric: Mutex<Fabric>,
    /// Threads that want the fabric: the poller makes way for them, as the lock is not fair.
    waiting: AtomicUsize,
    /// Set when there is something new for the poller.
    sleep: Mutex<bool>,
    wake: Condvar,
    /// Until when the poller rests, in ns; 0 while it does not. Written under `fabric`.
    rests_until: AtomicU64,
    /// When the last work was seen, by whatever thread, in ns.
    last_work: AtomicU64,
    origin: Instant,
    /// Whether any host's rings are plain memory, so that only polling sees the guest's stores.
    shared_indices: bool,
    /// Figures of the poller.
    pub stats: PollerStats,
}

impl Engine {
    /// An engine for a fabric with all its hosts; `shared_indices` where one is in sparse mode.
    pub fn new(fabric: Fabric, shared_indices: bool) -> Arc<Engine> {
        Arc::new(Engine {
            fabric: Mutex::new(fabric),
            waiting: AtomicUsize::new(0),
            sleep: Mutex::new(false),
            wake: Condvar::new(),
            rests_until: AtomicU64::new(0),
            last_work: AtomicU64::new(0),
            origin: Instant::now(),
            shared_indices,
            stats: PollerStats::default(),
        })
    }

    /// Calls `act` with the fabric and the time in ns.
    pub fn with<T>(&self, act: impl FnOnce(&mut Fabric, u64) -> T) -> T {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut fabric = self.fabric.lock().unwrap();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let now = self.now();
        act(&mut fabric, now)
    }

    /// Does what an access has made possible, and tells the poller of what is left. To be called after the
    /// access was answered, so that the guest's processor does not wait for it.
    pub fn settle(&self) {
        let wake = self.with(|fabric, now| {
            let mut result = fabric.poll(now);
            let worked = result.work != 0;
            for _ in 1..ROUNDS_INLINE {
                if result.work == 0 {
                    break;
                }
                result = fabric.poll(now);
            }
            if worked {
                self.last_work.store(now, Ordering::Relaxed);
            }
            let soon = worked && (self.shared_indices || result.work != 0);
            let wanted = if soon { Some(now) } else { result.next_deadline };
            let rests_until = self.rests_until.load(Ordering::Relaxed);
            wanted.is_some_and(|wanted| wanted.saturating_add(WAKE_WORTH_NS) < rests_until)
        });
        if wake {
            self.wake_poller();
        }
    }

    /// Ends the poller's sleep, if it sleeps.
    fn wake_poller(&self) {
        let mut woken = self.sleep.lock().unwrap();
        if !*woken {
            *woken = true;
            self.wake.notify_one();
        }
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Starts the thread that polls for as long as the process lives.
    pub fn start_poller(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        let named = thread::Builder::new().name("poller".into());
        named.spawn(move || engine.poll_forever()).expect("a thread for the poller");
    }

    fn poll_forever(&self) {
        sys::prefer_this_thread();
        let mut pace = Pace::new(self.shared_indices);
        loop {
            match self.poll_once(&pace) {
                Pause::None if self.waiting.load(Ordering::Relaxed) == 0 => {}
                Pause::None | Pause::Yield => {
                    let before = self.now();
                    thread::yield_now();
                    let after = self.now();
                    pace.yielded(after - before, after);
                }
                Pause::Sleep(limit) => self.sleep(&mut pace, limit),
            }
        }
    }

    /// Polls once and says how long to rest. Until when is written down under the lock, so that whoever
    /// finds something earlier to do, under the same lock, knows whether to wake the poller.
    fn poll_once(&self, pace: &Pace) -> Pause {
        self.stats.polls.fetch_add(1, Ordering::Relaxed);
        self.with(|fabric, now| {
            let result = fabric.poll(now);
            if result.work != 0 {
                self.stats.busy_polls.fetch_add(1, Ordering::Relaxed);
                self.last_work.store(now, Ordering::Relaxed);
            }
            let idle_ns = now.saturating_sub(self.last_work.load(Ordering::Relaxed));
            let pause = pace.next(result, fabric.running(), idle_ns, now);
            let rests_until = match pause {
                Pause::None | Pause::Yield => 0,
                Pause::Sleep(None) => u64::MAX,
                Pause::Sleep(Some(limit)) => now.saturating_add(limit.as_nanos() as u64),
            };
            self.rests_until.store(rests_until, Ordering::Relaxed);
            pause
        })
    }

    /// Sleeps until woken or, where there is one, the limit.
    fn sleep(&self, pace: &mut Pace, limit: Option<Duration>) {
        let before = sys::thread_time();
        let mut woken = self.sleep.lock().unwrap();
        if !*woken {
            woken = match limit {
                Some(limit) => self.wake.wait_timeout(woken, limit).unwrap().0,
                None => self.wake.wait(woken).unwrap(),
            };
        }
        *woken = false;
        drop(woken);
        let after = sys::thread_time();
        pace.slept((after - before).as_nanos() as u64);
        self.stats.sleeps.fetch_add(1, Ordering::Relaxed);
        self.stats.cpu_ns.store(after.as_nanos() as u64, Ordering::Relaxed);
    }
}
