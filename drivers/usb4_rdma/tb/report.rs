// SPDX-License-Identifier: GPL-2.0

//! What a cable has done, as text: debugfs, usb4_rdma/NAME, where NAME is the other
//! host's in /sys/bus/thunderbolt/devices. What is zero is left out.
//!
//! Lock order: each lane's `tx` and `rx` are taken alone.

use super::lane::Lane;
use super::link::Link;
use super::peer::Peer;
use crate::proto::counters::{BadFrames, LaneCounters};
use crate::proto::wire::BadFrame;
use kernel::debugfs::{Dir, File, Writer};
use kernel::fmt::{Formatter, Result as FmtResult};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// The text of one cable.
pub(super) struct Report(Arc<Peer>);

/// A file with it; it is there as long as this exists.
pub(super) type ReportFile = Pin<KBox<File<Report>>>;

impl Report {
    /// Makes the file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn publish(dir: &Dir, peer: &Arc<Peer>) -> Result<ReportFile> {
        let report = Self(peer.clone());
        KBox::pin_init(dir.read_only_file(peer.xd.device_name(), report), GFP_KERNEL)
    }
}

impl Writer for Report {
    fn write(&self, f: &mut Formatter<'_>) -> FmtResult {
        writeln!(f, "garbage {}", self.0.garbage.load(Relaxed))?;
        let Some(link) = self.0.link() else {
            return writeln!(f, "link none");
        };
        writeln!(f, "link {}", if link.is_up() { "up" } else { "opening" })?;
        let mut result = Ok(());
        link.each_lane(|lane| {
            if result.is_ok() {
                result = write_lane(f, lane);
            }
        });
        result
    }
}

impl Lane {
    /// What both directions have counted.
    fn counters(&self) -> (LaneCounters, BadFrames) {
        let mut all = self.tx.lock().counters;
        let rx = self.rx.lock();
        all.add(&rx.counters);
        (all, rx.bad)
    }
}

impl Link {
    /// The counters of all lanes, loopback included, summed.
    pub(crate) fn counters(&self) -> (LaneCounters, BadFrames) {
        let (mut all, mut bad) = (LaneCounters::ZERO, BadFrames::default());
        self.each_lane(|lane| {
            let (counters, dropped) = lane.counters();
            all.add(&counters);
            bad.add(&dropped);
        });
        (all, bad)
    }
}

fn write_lane(f: &mut Formatter<'_>, lane: &Lane) -> FmtResult {
    // Copied under the locks, printed without them.
    let (all, bad) = lane.counters();
    let credit = {
        let tx = lane.tx.lock();
        tx.credit.as_ref().map_or(0, |credit| credit.credit())
    };
    let (held, posted) = {
        let rx = lane.rx.lock();
        (rx.held, rx.credit.posted())
    };
    let number = lane.number();
    let mut result = Ok(());
    let mut line = |name: &str, value: u64| {
        if result.is_ok() && value != 0 {
            result = writeln!(f, "lane{number} {name} {value}");
        }
    };
    all.each(&mut line);
    line("tx_credit", u64::from(credit));
    line("rx_held", u64::from(held));
    line("rx_posted", u64::from(posted));
    line("rx_bad", bad.total());
    result?;
    for (name, count) in BadFrame::NAMES.iter().zip(bad.0) {
        if count != 0 {
            writeln!(f, "lane{number} rx_bad_{name} {count}")?;
        }
    }
    Ok(())
}
