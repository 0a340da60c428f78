// SPDX-License-Identifier: GPL-2.0
//! Plug events of one port: what the connection manager has been told, and what it is to be
//! told next.

/// How long after hot plug events were allowed the first one goes out. A driver that resets
/// its ports while it starts does so within this time, and is spared an event for a link
/// that it is about to drop.
pub(crate) const SETTLE_NS: u64 = 100_000_000;
/// The same from the start of the control ring, for a driver that goes on where it or another
/// left the router, with events still allowed.
pub(crate) const RESTART_NS: u64 = 500_000_000;

/// An event under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InFlight {
    unplug: bool,
    /// When it is sent again.
    resend_at: u64,
}

/// State of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotPlug {
    /// The link is up.
    up: bool,
    /// The connection manager knows of the connection.
    told: bool,
    /// The link went down since it was told.
    dropped: bool,
    /// No plug event before this time.
    quiet_until: u64,
    in_flight: Option<InFlight>,
}

impl HotPlug {
    /// The link came up or went down.
    pub fn link(&mut self, up: bool) {
        self.dropped |= self.up && !up;
        self.up = up;
    }

    /// Hot plug events were allowed at `now`.
    pub fn allowed(&mut self, now: u64) {
        self.quiet_until = now + SETTLE_NS;
    }

    /// The control ring was started at `now`.
    pub fn started(&mut self, now: u64) {
        self.quiet_until = now + RESTART_NS;
    }

    /// The connection manager went away: tell the next one from the beginning.
    pub fn forget(&mut self) {
        *self = HotPlug { up: self.up, quiet_until: self.quiet_until, ..HotPlug::default() };
    }

    fn wanted(&self) -> Option<bool> {
        if self.told && (self.dropped || !self.up) {
            Some(true)
        } else if !self.told && self.up {
            Some(false)
        } else {
            None
        }
    }

    /// The event to send at `now`, if any: `(unplug, first time)`. It is repeated every
    /// `timeout_ns` until acknowledged.
    pub fn poll(&mut self, now: u64, timeout_ns: u64) -> Option<(bool, bool)> {
        if let Some(f) = &mut self.in_flight {
            if now < f.resend_at {
                return None;
            }
            f.resend_at = now + timeout_ns;
            return Some((f.unplug, false));
        }
        let unplug = self.wanted()?;
        if !unplug && now < self.quiet_until {
            return None;
        }
        if !unplug {
            // What happens from here on happens after this event.
            self.dropped = false;
        }
        self.in_flight = Some(InFlight { unplug, resend_at: now + timeout_ns });
        Some((unplug, true))
    }

    /// Takes an acknowledgement; false when it matches nothing under way.
    pub fn acknowledge(&mut self, unplug: bool) -> bool {
        if self.in_flight.map(|f| f.unplug) != Some(unplug) {
            return false;
        }
        self.in_flight = None;
        self.told = !unplug;
        if unplug {
            self.dropped = false;
        }
        true
    }

    /// When [`HotPlug::poll`] next has something to say by itself.
    pub fn next_deadline(&self) -> Option<u64> {
        match (self.in_flight, self.wanted()) {
            (Some(f), _) => Some(f.resend_at),
            (None, Some(false)) => Some(self.quiet_until),
            (None, Some(true)) => Some(0),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flap_while_a_plug_is_under_way() {
        let mut p = HotPlug::default();
        p.link(true);
        assert_eq!(p.poll(0, 10), Some((false, true)));
        p.link(false);
        p.link(true);
        assert_eq!(p.poll(5, 10), None);
        assert_eq!(p.poll(10, 10), Some((false, false)));
        assert!(!p.acknowledge(true));
        assert!(p.acknowledge(false));
        assert_eq!(p.poll(11, 10), Some((true, true)));
        assert!(p.acknowledge(true));
        assert_eq!(p.poll(12, 10), Some((false, true)));
        assert!(p.acknowledge(false));
        assert_eq!(p.poll(13, 10), None);
        assert_eq!(p.next_deadline(), None);
    }

    #[test]
    fn settles_before_the_first_plug() {
        let mut p = HotPlug::default();
        p.link(true);
        p.allowed(5);
        assert_eq!(p.poll(6, 10), None);
        assert_eq!(p.next_deadline(), Some(5 + SETTLE_NS));
        p.link(false);
        assert_eq!(p.next_deadline(), None, "it was never told");
    }
}
