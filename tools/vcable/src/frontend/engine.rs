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
use crate::core::{Fabric, PollResult};

/// Rounds of work that a thread does for its own access before it leaves the rest to the poller. A round
/// is bounded by the model.
const ROUNDS_INLINE: usize = 4;

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
        let (worked, result) = self.with(|fabric, now| {
            let mut result = PollResult::default();
            let mut worked = false;
            for _ in 0..ROUNDS_INLINE {
                result = fabric.poll(now);
                worked |= result.work != 0;
                if result.work == 0 {
                    break;
                }
            }
            (worked, result)
        });
        if worked {
            self.last_work.store(self.now(), Ordering::Relaxed);
        }
        if worked || result.next_deadline.is_some() {
            self.wake_poller();
        }
    }

    /// Ends the poller's sleep, if it sleeps.
    pub fn wake_poller(&self) {
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
            let (result, now) = self.with(|fabric, now| (fabric.poll(now), now));
            self.stats.polls.fetch_add(1, Ordering::Relaxed);
            if result.work != 0 {
                self.stats.busy_polls.fetch_add(1, Ordering::Relaxed);
                self.last_work.store(now, Ordering::Relaxed);
            }
            let idle_ns = now.saturating_sub(self.last_work.load(Ordering::Relaxed));
            match pace.next(result, idle_ns, now) {
                Pause::None if self.waiting.load(Ordering::Relaxed) == 0 => {}
                Pause::None | Pause::Yield => thread::yield_now(),
                Pause::Sleep(limit) => self.sleep(limit),
            }
        }
    }

    /// Sleeps until woken or, where there is one, the limit.
    fn sleep(&self, limit: Option<Duration>) {
        self.stats.sleeps.fetch_add(1, Ordering::Relaxed);
        self.stats.cpu_ns.store(sys::thread_time().as_nanos() as u64, Ordering::Relaxed);
        let mut woken = self.sleep.lock().unwrap();
        if !*woken {
            woken = match limit {
                Some(limit) => self.wake.wait_timeout(woken, limit).unwrap().0,
                None => self.wake.wait(woken).unwrap(),
            };
        }
        *woken = false;
    }
}
