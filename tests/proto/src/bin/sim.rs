// SPDX-License-Identifier: GPL-2.0
//! Runs many seeds: `SEEDS=n` from `FIRST=n` (default 0), or one: `SEED=n`. Prints each seed before it runs, so
//! that a failure names it.

use proto_tests::proto::counters::QpCounters;
use proto_tests::sim::{run, Config, Mode};
use std::io::Write;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is no number: {v}")))
}

fn main() {
    let (first, count) = match number("SEED") {
        Some(s) => (s, 1),
        None => (number("FIRST").unwrap_or(0), number("SEEDS").unwrap_or(1000)),
    };
    let (mut frames, mut total) = (0, QpCounters::ZERO);
    for seed in first..first + count {
        for mode in [Mode::Faultless, Mode::Hostile] {
            let c = Config::new(seed, mode);
            if count == 1 {
                println!("{c:?}");
            }
            eprint!("\rseed {seed} {mode:?}   ");
            let r = run(&c);
            if count == 1 {
                println!("\n{r:?}");
            }
            frames += r.frames;
            total.add(&r.counters);
        }
    }
    eprintln!();
    total.each(|name, value| println!("{name:24} {value}"));
    println!("sim: {count} seeds from {first}, {frames} frames, OK");
    std::io::stdout().flush().expect("stdout");
}
