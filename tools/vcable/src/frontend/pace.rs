// SPDX-License-Identifier: GPL-2.0
//! How long the poller rests: the compromise between the guests' processors and the frames' latency.
//!
//! Pure; fed with what polls, yields and sleeps gave. Three ideas, with figures in
//! Documentation/vcable-transport.md:
//!
//! - A sleep is a share of the time since the last work, so what it adds is small against the gap
//!   that was there anyway, and the number of sleeps grows only with the logarithm of the gap.
//! - A timed sleep costs 2 us on bare metal and 30 us in a nested virtual machine. The cost is measured,
//!   and the longest sleep is the one at which it is [`IDLE_SHARE`] of a processor.
//! - Just after work, yielding is cheaper and quicker than any sleep, but only while nobody else
//!   wants the processor: a yield that took long says that somebody does.

use std::time::Duration;

use crate::core::{PollResult, Running};

/// What the poller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Poll again at once.
    None,
    /// Let others run first.
    Yield,
    /// Sleep until woken, or for at most this long.
    Sleep(Option<Duration>),
}

/// A poll with this much work is followed by another one at once; less than that is collected during a rest.
const BUSY_WORK: u64 = 8;
/// While less than this has passed since the last work, yield where that is quick.
const YIELD_NS: u64 = 150_000;
/// A yield that took longer gave the processor to somebody.
const QUICK_YIELD_NS: u64 = 4_000;
/// How long that is remembered.
const CONTENDED_NS: u64 = 1_000_000;
/// The shortest sleep, as a multiple of what a sleep costs, and its bounds.
const SHORTEST_COSTS: u64 = 2;
const SHORTEST_MIN_NS: u64 = 20_000;
const SHORTEST_MAX_NS: u64 = 60_000;
/// A sleep's share of the time since the last work.
const GAP_SHARE: u64 = 4;
/// One processor over what an idle poller may use of it, and the bounds of the longest sleep.
const IDLE_SHARE: u64 = 30;
const LONGEST_MIN_NS: u64 = 100_000;
const LONGEST_MAX_NS: u64 = 1_000_000;
/// The longest sleep while only control packets can come: their timeouts are 100 ms.
const LONGEST_CONTROL_NS: u64 = 4_000_000;

/// The policy of one poller.
#[derive(Debug)]
pub struct Pace {
    shared_indices: bool,
    sleep_cost_ns: u64,
    contended_until_ns: u64,
}

impl Pace {
    /// A policy; with `shared_indices` it must look for the guests' stores by itself.
    pub fn new(shared_indices: bool) -> Self {
        Pace {
            shared_indices,
            sleep_cost_ns: SHORTEST_MIN_NS / SHORTEST_COSTS,
            contended_until_ns: 0,
        }
    }

    /// What to do after a poll at `now_ns` with this result, `idle_ns` after the last work.
    pub fn next(&self, result: PollResult, running: Running, idle_ns: u64, now_ns: u64) -> Pause {
        if result.work >= BUSY_WORK {
            return Pause::None;
        }
        let until_deadline = result.next_deadline.map(|deadline| deadline.saturating_sub(now_ns));
        if until_deadline == Some(0) {
            return Pause::None;
        }
        if !self.shared_indices {
            // The accesses themselves bring the work; only time is left to wait for.
            return if result.work != 0 { Pause::None } else { sleep(until_deadline) };
        }
        let limit = match running {
            Running::Nothing => None,
            Running::Control => Some(self.rest_ns(idle_ns, LONGEST_CONTROL_NS)),
            Running::Data if idle_ns < YIELD_NS && now_ns >= self.contended_until_ns => {
                return Pause::Yield
            }
            Running::Data => Some(self.rest_ns(idle_ns, self.longest_ns())),
        };
        sleep(limit.into_iter().chain(until_deadline).min())
    }

    /// Notes a yield that ended at `now_ns` and took `took_ns`.
    pub fn yielded(&mut self, took_ns: u64, now_ns: u64) {
        if took_ns > QUICK_YIELD_NS {
            self.contended_until_ns = now_ns + CONTENDED_NS;
        }
    }

    /// Notes that a timed sleep used `cpu_ns` of processor time.
    pub fn slept(&mut self, cpu_ns: u64) {
        self.sleep_cost_ns = (self.sleep_cost_ns * 15 + cpu_ns.min(LONGEST_MAX_NS)) / 16;
    }

    fn rest_ns(&self, idle_ns: u64, longest_ns: u64) -> u64 {
        let shortest_ns =
            (self.sleep_cost_ns * SHORTEST_COSTS).clamp(SHORTEST_MIN_NS, SHORTEST_MAX_NS);
        (idle_ns / GAP_SHARE).clamp(shortest_ns, longest_ns)
    }

    fn longest_ns(&self) -> u64 {
        (self.sleep_cost_ns * IDLE_SHARE).clamp(LONGEST_MIN_NS, LONGEST_MAX_NS)
    }
}

fn sleep(limit_ns: Option<u64>) -> Pause {
    Pause::Sleep(limit_ns.map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: u64 = 1 << 60;

    fn idle(next_deadline: Option<u64>) -> PollResult {
        PollResult { work: 0, next_deadline }
    }

    #[test]
    fn much_work_is_followed_at_once() {
        let busy = PollResult { work: BUSY_WORK, next_deadline: None };
        assert_eq!(Pace::new(true).next(busy, Running::Data, 0, 0), Pause::None);
        assert_eq!(Pace::new(false).next(busy, Running::Data, 0, 0), Pause::None);
    }

    #[test]
    fn trapped_rings_need_no_polling() {
        let pace = Pace::new(false);
        let next = |deadline| pace.next(idle(deadline), Running::Data, 0, 5);
        assert_eq!(next(None), sleep(None));
        assert_eq!(next(Some(905)), sleep(Some(900)));
        assert_eq!(next(Some(4)), Pause::None);
    }

    #[test]
    fn without_rings_only_a_wake_ends_the_sleep() {
        let pace = Pace::new(true);
        assert_eq!(pace.next(idle(None), Running::Nothing, 0, 0), sleep(None));
        assert_eq!(pace.next(idle(Some(70)), Running::Nothing, 0, 0), sleep(Some(70)));
    }

    #[test]
    fn shared_rings_are_polled_ever_less() {
        let pace = Pace::new(true);
        let after = |idle_ns| pace.next(idle(None), Running::Data, idle_ns, 0);
        assert_eq!(after(YIELD_NS - 1), Pause::Yield);
        assert_eq!(after(400_000), sleep(Some(100_000)));
        assert_eq!(after(FOREVER), sleep(Some(pace.longest_ns())));
        let control = pace.next(idle(None), Running::Control, FOREVER, 0);
        assert_eq!(control, sleep(Some(LONGEST_CONTROL_NS)));
    }

    #[test]
    fn a_slow_yield_makes_it_sleep() {
        let mut pace = Pace::new(true);
        pace.yielded(QUICK_YIELD_NS, 100);
        assert_eq!(pace.next(idle(None), Running::Data, 0, 100), Pause::Yield);
        pace.yielded(QUICK_YIELD_NS + 1, 100);
        assert_eq!(pace.next(idle(None), Running::Data, 0, 100), sleep(Some(SHORTEST_MIN_NS)));
        assert_eq!(pace.next(idle(None), Running::Data, 0, 100 + CONTENDED_NS), Pause::Yield);
    }

    #[test]
    fn dear_sleeps_are_longer() {
        let mut pace = Pace::new(true);
        for _ in 0..200 {
            pace.slept(31_000);
        }
        assert!((25_000..=31_000).contains(&pace.sleep_cost_ns));
        assert!((750_000..=930_000).contains(&pace.longest_ns()));
        for _ in 0..200 {
            pace.slept(500);
        }
        assert_eq!(pace.longest_ns(), LONGEST_MIN_NS);
        assert_eq!(pace.rest_ns(0, LONGEST_MIN_NS), SHORTEST_MIN_NS);
    }

    #[test]
    fn a_deadline_shortens_the_sleep() {
        let pace = Pace::new(true);
        assert_eq!(pace.next(idle(Some(1_000)), Running::Data, FOREVER, 0), sleep(Some(1_000)));
        let far = pace.next(idle(Some(1 << 40)), Running::Data, FOREVER, 0);
        assert_eq!(far, sleep(Some(pace.longest_ns())));
    }
}
