// SPDX-License-Identifier: GPL-2.0
//! Seeded pseudo-random numbers (SplitMix64: one word of state, every seed is good).

/// A generator; equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator whose sequence `seed` decides.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. (The bias of the modulo is below 2^-32 for
    /// every bound used here.)
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
