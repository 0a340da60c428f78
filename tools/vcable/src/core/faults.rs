// SPDX-License-Identifier: GPL-2.0
//! The installed faults: when one applies, and whether it happens this time.

use super::rng::Rng;
use super::{Counter, Direction, FaultKind, FaultSpec, HostId};

/// A ring, as one end of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub host: HostId,
    pub hop: u16,
}

/// Where an opportunity for a fault arises: the sending and the receiving ring, as far as
/// there are such.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    pub tx: Option<End>,
    pub rx: Option<End>,
}

impl Site {
    /// The site of an opportunity that has only a receiving ring.
    pub fn rx(host: HostId, hop: u16) -> Site {
        Site { tx: None, rx: Some(End { host, hop }) }
    }
}

/// Which faults happen to one frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameFaults {
    pub drop: bool,
    pub crc: bool,
    pub corrupt: bool,
    pub overrun: bool,
    pub duplicate: bool,
    /// Extra delay in ns.
    pub delay: Option<u64>,
}

struct Installed {
    spec: FaultSpec,
    rng: Rng,
    opportunities: u64,
    fired: u64,
    active: bool,
}

/// All faults ever installed; cleared ones stay for their counters.
#[derive(Default)]
pub(crate) struct Faults {
    list: Vec<Installed>,
    active: usize,
}

impl Faults {
    /// Installs a fault and returns its number.
    pub fn add(&mut self, spec: FaultSpec) -> usize {
        let rng = Rng::new(spec.seed);
        self.list.push(Installed { spec, rng, opportunities: 0, fired: 0, active: true });
        self.active += 1;
        self.list.len() - 1
    }

    /// Puts every fault out of action.
    pub fn clear(&mut self) {
        self.list.iter_mut().for_each(|f| f.active = false);
        self.active = 0;
    }

    /// Whether no fault is installed (the fast way through).
    pub fn none(&self) -> bool {
        self.active == 0
    }

    /// Offers an opportunity; the duration of the fault when one of this kind happens.
    pub fn hit(&mut self, kind: FaultKind, site: Site) -> Option<u64> {
        if self.active == 0 {
            return None;
        }
        let mut duration = None;
        for f in self.list.iter_mut().filter(|f| f.active && f.spec.kind == kind) {
            if !f.spec.covers(site) || f.spec.count.is_some_and(|c| f.fired >= c) {
                continue;
            }
            f.opportunities += 1;
            if f.rng.below(f.spec.one_in) == 0 {
                f.fired += 1;
                duration = Some(f.spec.duration_ns);
            }
        }
        duration
    }

    /// Draws the faults of one frame.
    pub fn judge(&mut self, site: Site) -> FrameFaults {
        if self.none() {
            return FrameFaults::default();
        }
        FrameFaults {
            drop: self.hit(FaultKind::Drop, site).is_some(),
            crc: self.hit(FaultKind::Crc, site).is_some(),
            corrupt: self.hit(FaultKind::Corrupt, site).is_some(),
            overrun: self.hit(FaultKind::Overrun, site).is_some(),
            duplicate: self.hit(FaultKind::Duplicate, site).is_some(),
            delay: self.hit(FaultKind::Delay, site),
        }
    }

    /// A seeded bit position below `bound`, from the first active fault of a kind.
    pub fn pick(&mut self, kind: FaultKind, bound: u64) -> u64 {
        let f = self.list.iter_mut().find(|f| f.active && f.spec.kind == kind);
        f.map_or(0, |f| f.rng.below(bound))
    }

    /// Appends two counters a fault.
    pub fn append(&self, out: &mut Vec<Counter>) {
        for (i, f) in self.list.iter().enumerate() {
            let prefix = format!("fault.{i}.{}", f.spec.kind.name());
            for (name, value) in [("opportunities", f.opportunities), ("fired", f.fired)] {
                out.push(Counter { name: format!("{prefix}.{name}"), value });
            }
        }
    }
}

impl FaultSpec {
    /// Whether the scope covers a site.
    fn covers(&self, site: Site) -> bool {
        if self.host.is_none() && self.hop.is_none() && self.direction.is_none() {
            return true;
        }
        let end = match self.direction {
            Some(Direction::Tx) => site.tx,
            Some(Direction::Rx) => site.rx,
            None => site.rx.or(site.tx),
        };
        end.is_some_and(|e| {
            self.host.is_none_or(|h| h == e.host) && self.hop.is_none_or(|h| h == e.hop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_count_and_repeatability() {
        let run = |seed| {
            let mut f = Faults::default();
            f.add(FaultSpec { count: Some(50), ..FaultSpec::new(FaultKind::Drop, seed, 10) });
            (0..10_000)
                .filter(|_| f.hit(FaultKind::Drop, Site::default()).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert_eq!(run(1).len(), 50);
        assert!(run(1)[49] > 250, "about one in ten");
    }

    #[test]
    fn scope() {
        let (a, b) = (HostId(0), HostId(1));
        let site = Site { tx: Some(End { host: a, hop: 1 }), rx: Some(End { host: b, hop: 2 }) };
        let spec = |host, hop, direction| FaultSpec {
            host,
            hop,
            direction,
            ..FaultSpec::new(FaultKind::Drop, 0, 1)
        };
        assert!(spec(None, None, None).covers(site));
        assert!(spec(Some(b), Some(2), None).covers(site));
        assert!(!spec(Some(a), None, None).covers(site));
        assert!(spec(Some(a), Some(1), Some(Direction::Tx)).covers(site));
        assert!(!spec(Some(b), None, Some(Direction::Tx)).covers(site));
        assert!(!spec(Some(b), None, Some(Direction::Tx)).covers(Site::rx(b, 1)));
    }
}
