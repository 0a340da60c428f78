// SPDX-License-Identifier: GPL-2.0
//! A moderate number of seeds of the simulation. `SEED=n cargo test --test simulation` replays one; the binary
//! `sim` runs many.
use proto_tests::sim::{run, Config, Mode};

const SEEDS: u64 = 40;

fn seeds(mode: Mode) {
    let replay = std::env::var("SEED").ok().filter(|s| !s.is_empty()).map(|s| s.parse().expect("SEED is a number"));
    let range = replay.map_or(0..SEEDS, |s: u64| s..s + 1);
    for seed in range {
        println!("seed {seed} {mode:?}");
        let r = run(&Config::new(seed, mode));
        assert!(r.frames > 0);
    }
}

#[test]
fn faultless() {
    seeds(Mode::Faultless);
}

#[test]
fn hostile() {
    seeds(Mode::Hostile);
}

#[test]
fn a_seed_replays_exactly() {
    let once = run(&Config::new(7, Mode::Hostile));
    let again = run(&Config::new(7, Mode::Hostile));
    assert_eq!((once.frames, once.virtual_ns, once.counters), (again.frames, again.virtual_ns, again.counters));
}
