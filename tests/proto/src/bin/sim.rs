// SPDX-License-Identifier: GPL-2.0
//! Runs seeds of the simulation on every processor. From the environment: `SEEDS=n` (default 1000) from
//! `FIRST=n` (default random), or `SEED=n` alone with a trace when it fails (`TRACE=lines`, default 60);
//! `JOBS=n` threads. Exit code 1 and the seed when one fails.

use proto_tests::proto::counters::QpCounters;
use proto_tests::sim::{run, trace, Config, Report};
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Random first seeds are below this, so that they are short to type.
const RANDOM_SEEDS: u128 = 1_000_000_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|v| !v.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn random() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() / 1000);
    (since % RANDOM_SEEDS) as u64
}

/// What all threads share.
struct Batch {
    next: AtomicU64,
    end: u64,
    failed: AtomicBool,
    total: Mutex<(u64, u64, QpCounters)>,
}

impl Batch {
    /// Takes seeds until there are none, or one has failed.
    fn work(&self) {
        while !self.failed.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                return;
            }
            match catch_unwind(|| run(&Config::of_seed(seed))) {
                Ok(r) => self.add(&r),
                Err(_) => {
                    self.failed.store(true, Ordering::Relaxed);
                    trace::lines().iter().for_each(|l| println!("{l}"));
                    println!("sim: seed {seed} FAILED; again with a trace: make sim SEED={seed}");
                }
            }
        }
    }

    fn add(&self, r: &Report) {
        let mut t = self.total.lock().expect("no thread dies with it");
        t.0 += 1;
        t.1 += r.frames;
        t.2.add(&r.counters);
    }
}

fn main() {
    let one = number("SEED");
    let first = one.or_else(|| number("FIRST")).unwrap_or_else(random);
    let count = if one.is_some() { 1 } else { number("SEEDS").unwrap_or(1000) };
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let jobs = number("JOBS").unwrap_or(cpus).clamp(1, count.max(1));
    println!("sim: {count} seeds from {first}, {jobs} threads");
    if one.is_some() {
        println!("{:#?}", Config::of_seed(first));
    }
    let default = take_hook();
    set_hook(Box::new(move |info| {
        println!();
        default(info);
    }));
    let batch = Batch {
        next: AtomicU64::new(first),
        end: first + count,
        failed: AtomicBool::new(false),
        total: Mutex::default(),
    };
    let begun = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..jobs {
            s.spawn(|| {
                if one.is_some() {
                    trace::keep(number("TRACE").unwrap_or(60) as usize);
                }
                batch.work();
            });
        }
    });
    if batch.failed.into_inner() {
        std::process::exit(1);
    }
    let (done, frames, counters) = *batch.total.lock().expect("no thread died");
    counters.each(|name, value| println!("{name:24} {value}"));
    println!("sim: {done} seeds from {first} passed, {frames} frames, {:.0} s", begun.elapsed().as_secs_f64());
}
