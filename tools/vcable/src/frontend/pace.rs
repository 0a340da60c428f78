// SPDX-License-Identifier: GPL-2.0
//! How long the poller rests: the compromise between the guests' processors and the frames' latency.
//!
//! Pure. The figures behind the steps are in Documentation/vcable-transport.md.

use std::time::Duration;

use crate::core::PollResult;

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

/// One step of the ladder: while less than `until_ns` have passed since the last work, sleep `sleep_ns`.
struct Step {
    until_ns: u64,
    sleep_ns: u64,
}

/// The ladder for shared index pages: the longer nothing came, the longer the sleep.
const LADDER: [Step; 3] = [
    Step { until_ns: 300_000, sleep_ns: 20_000 },
    Step { until_ns: 3_000_000, sleep_ns: 60_000 },
    Step { until_ns: u64::MAX, sleep_ns: 180_000 },
];

/// While less than this has passed since the last work, yield rather than sleep.
const YIELD_NS: u64 = 15_000;

/// The policy of one poller.
#[derive(Debug)]
pub struct Pace {
    shared_indices: bool,
}

impl Pace {
    /// A policy; with `shared_indices` it must look for the guests' stores by itself.
    pub fn new(shared_indices: bool) -> Self {
        Pace { shared_indices }
    }

    /// What to do after a poll at `now_ns` with this result, `idle_ns` after the last work.
    pub fn next(&mut self, result: PollResult, idle_ns: u64, now_ns: u64) -> Pause {
        if result.work != 0 {
            return Pause::None;
        }
        let until_deadline = result.next_deadline.map(|deadline| deadline.saturating_sub(now_ns));
        if until_deadline == Some(0) {
            return Pause::None;
        }
        let poll_again = self.shared_indices.then(|| {
            if idle_ns < YIELD_NS {
                return 0;
            }
            LADDER.iter().find(|step| idle_ns < step.until_ns).map_or(0, |step| step.sleep_ns)
        });
        match poll_again.into_iter().chain(until_deadline).min() {
            Some(0) => Pause::Yield,
            limit => Pause::Sleep(limit.map(Duration::from_nanos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(next_deadline: Option<u64>) -> PollResult {
        PollResult { work: 0, next_deadline }
    }

    fn sleep(ns: u64) -> Pause {
        Pause::Sleep(Some(Duration::from_nanos(ns)))
    }

    #[test]
    fn work_is_followed_at_once() {
        let busy = PollResult { work: 1, next_deadline: None };
        assert_eq!(Pace::new(true).next(busy, 0, 0), Pause::None);
        assert_eq!(Pace::new(false).next(busy, 0, 0), Pause::None);
    }

    #[test]
    fn trapped_rings_need_no_polling() {
        let mut pace = Pace::new(false);
        assert_eq!(pace.next(idle(None), 0, 5), Pause::Sleep(None));
        assert_eq!(pace.next(idle(Some(905)), 0, 5), sleep(900));
        assert_eq!(pace.next(idle(Some(4)), 0, 5), Pause::None);
    }

    #[test]
    fn shared_rings_are_polled_ever_less() {
        let mut pace = Pace::new(true);
        assert_eq!(pace.next(idle(None), 0, 0), Pause::Yield);
        let sleeps = [YIELD_NS, LADDER[0].until_ns, LADDER[1].until_ns, u64::MAX - 1];
        let sleeps = sleeps.map(|idle_ns| pace.next(idle(None), idle_ns, 0));
        assert_eq!(sleeps, [sleep(20_000), sleep(60_000), sleep(180_000), sleep(180_000)]);
    }

    #[test]
    fn a_deadline_shortens_the_sleep() {
        let mut pace = Pace::new(true);
        assert_eq!(pace.next(idle(Some(1_000)), u64::MAX - 1, 0), sleep(1_000));
        assert_eq!(pace.next(idle(Some(1_000_000_000)), u64::MAX - 1, 0), sleep(180_000));
    }
}
