// SPDX-License-Identifier: GPL-2.0
//! When an XDomain response or a config error may be handed to a guest.
//!
//! The kernel keeps the *response* that it sends in the same queue as the requests that wait
//! for one, until a worker takes it off. A packet that completes requests and arrives meanwhile
//! completes that entry too, and its reference is dropped twice (ctl.c and xdomain.c of Linux
//! 7.3: "refcount_t: underflow"). On hardware the gap is microseconds; a guest without its
//! processor makes it milliseconds. So what could complete it waits while the guest owes an
//! answer, and a little longer. A real peer may take that long as well.

use super::packet::pdf;

/// How long an answer is waited for.
const ANSWER_NS: u64 = 200_000_000;
/// How long after an answer its queue entry may live.
const SETTLE_NS: u64 = 20_000_000;
/// A config request is given up after 100 ms: an error for it waits less.
const ERROR_NS: u64 = 50_000_000;
/// An XDomain request is given up after 1 s.
const RESPONSE_NS: u64 = 300_000_000;

/// The XDomain packets of one guest, as far as they matter for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exchange {
    /// Requests handed over and not answered.
    owed: u32,
    /// No completing packet before this time.
    quiet_until: u64,
}

impl Exchange {
    /// A packet of this type was handed to the guest.
    pub fn received(&mut self, kind: u8, now: u64) {
        if kind == pdf::XDOMAIN_REQUEST {
            self.owed += 1;
            self.quiet_until = self.quiet_until.max(now + ANSWER_NS);
        }
    }

    /// The guest sent a packet of this type.
    pub fn sent(&mut self, kind: u8, now: u64) {
        if kind == pdf::XDOMAIN_RESPONSE {
            self.owed = self.owed.saturating_sub(1);
            if self.owed == 0 {
                self.quiet_until = now + SETTLE_NS;
            }
        }
    }

    /// When a packet of this type that arrived at `at` may be handed over.
    pub fn ready_at(&self, kind: u8, at: u64) -> u64 {
        match kind {
            pdf::ERROR => self.quiet_until.clamp(at, at + ERROR_NS),
            pdf::XDOMAIN_RESPONSE => self.quiet_until.clamp(at, at + RESPONSE_NS),
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_answer_and_not_for_ever() {
        let mut e = Exchange::default();
        assert_eq!(e.ready_at(pdf::XDOMAIN_RESPONSE, 5), 5);
        e.received(pdf::XDOMAIN_REQUEST, 10);
        assert_eq!(e.ready_at(pdf::XDOMAIN_RESPONSE, 12), 10 + ANSWER_NS);
        assert_eq!(e.ready_at(pdf::ERROR, 12), 12 + ERROR_NS);
        assert_eq!(e.ready_at(pdf::READ, 12), 12);
        assert_eq!(e.ready_at(pdf::XDOMAIN_REQUEST, 12), 12);
        e.sent(pdf::XDOMAIN_RESPONSE, 1000);
        assert_eq!(e.ready_at(pdf::XDOMAIN_RESPONSE, 12), 1000 + SETTLE_NS);
        assert_eq!(e.ready_at(pdf::XDOMAIN_RESPONSE, 2000 + SETTLE_NS), 2000 + SETTLE_NS);
    }
}
