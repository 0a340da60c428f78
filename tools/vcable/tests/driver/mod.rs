// SPDX-License-Identifier: GPL-2.0
//! A small model of the kernel's Thunderbolt driver, for tests of the device's side: rings,
//! descriptors, interrupts, config requests, plug events, XDomain packets, paths. Time is
//! virtual; nothing here sleeps or starts threads.
//!
//! Each test binary uses its own part of it.
#![allow(dead_code, unused_imports)]

pub mod bench;
pub mod control;
pub mod memory;
pub mod ring;

pub use bench::Bench;
pub use ring::{Frame, Received};

/// Prints and returns the seed of a randomised test: VCABLE_SEED, or the one given.
pub fn seed(default: u64) -> u64 {
    let seed = std::env::var("VCABLE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    println!("seed {seed} (set VCABLE_SEED to repeat another run)");
    seed
}

/// A pseudo-random generator of the tests' own (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut v = Vec::with_capacity(len + 8);
        while v.len() < len {
            v.extend_from_slice(&self.next().to_le_bytes());
        }
        v.truncate(len);
        v
    }
}
