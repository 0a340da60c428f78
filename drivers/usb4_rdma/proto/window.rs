// SPDX-License-Identifier: GPL-2.0
//! One bit for each PSN of a window: 256 bits, a PSN's bit is its low eight bits. All operations are a few words.

use super::WINDOW;

const WORDS: usize = WINDOW / 64;

/// The set. A *view* is the same bits turned so that bit 0 stands for a given PSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits([u64; WORDS]);

/// 256 bits of which bit 0 stands for some base PSN.
pub type View = [u64; WORDS];

/// A view with the lowest `n` bits set (n above 256 counts as 256).
pub fn low(n: u32) -> View {
    let mut v = [0; WORDS];
    for (i, w) in v.iter_mut().enumerate() {
        let below = n.saturating_sub(64 * i as u32);
        *w = if below >= 64 { !0 } else { (1 << below) - 1 };
    }
    v
}

/// Bits `shift`.. of `v`, turned round at the end.
fn rotate(v: &View, shift: u32) -> View {
    let word = (shift / 64) as usize;
    let bit = shift % 64;
    let mut out = [0; WORDS];
    for (i, o) in out.iter_mut().enumerate() {
        let lo = v[(word + i) % WORDS];
        let hi = v[(word + i + 1) % WORDS];
        // Two shifts, since shifting by 64 is not defined.
        *o = (lo >> bit) | ((hi << 1) << (63 - bit));
    }
    out
}

impl Bits {
    /// No bit set.
    pub const ZERO: Bits = Bits([0; WORDS]);

    /// From a view on `base`.
    pub fn from_view(base: u32, v: &View) -> Bits {
        Bits(rotate(v, base.wrapping_neg() % WINDOW as u32))
    }

    /// The bits seen from `base`.
    pub fn view(&self, base: u32) -> View {
        rotate(&self.0, base % WINDOW as u32)
    }

    /// `n` PSNs from `base` on.
    pub fn range(base: u32, n: u32) -> Bits {
        Bits::from_view(base, &low(n))
    }

    /// Is the bit of `psn` set?
    pub const fn get(&self, psn: u32) -> bool {
        (self.0[psn as usize / 64 % WORDS] >> (psn % 64)) & 1 != 0
    }

    /// Sets the bit of `psn`.
    pub fn set(&mut self, psn: u32) {
        self.0[psn as usize / 64 % WORDS] |= 1 << (psn % 64);
    }

    /// Clears the bit of `psn`.
    pub fn clear(&mut self, psn: u32) {
        self.0[psn as usize / 64 % WORDS] &= !(1 << (psn % 64));
    }

    /// No bit is set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Bits set.
    pub fn count(&self) -> u32 {
        self.0.iter().fold(0, |n, w| n + w.count_ones())
    }

    /// The bits of both.
    pub fn and(&self, other: &Bits) -> Bits {
        let mut b = *self;
        for (w, o) in b.0.iter_mut().zip(&other.0) {
            *w &= o;
        }
        b
    }

    /// The bits of this that `other` has not.
    pub fn without(&self, other: &Bits) -> Bits {
        let mut b = *self;
        for (w, o) in b.0.iter_mut().zip(&other.0) {
            *w &= !o;
        }
        b
    }

    /// The first set PSN at or after `base`, within one window.
    pub fn first_from(&self, base: u32) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let v = self.view(base);
        let word = v.iter().position(|w| *w != 0)?;
        Some(base.wrapping_add(64 * word as u32 + v[word].trailing_zeros()))
    }
}

/// Writes a view as bytes, bit *i* in byte *i*/8; gives the length without trailing zero bytes.
pub fn view_to_bytes(v: &View, out: &mut [u8; WINDOW / 8]) -> usize {
    for (o, w) in out.chunks_exact_mut(8).zip(v) {
        o.copy_from_slice(&w.to_le_bytes());
    }
    out.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1)
}

/// Reads a view from at most 32 bytes; what is left off is zero.
pub fn view_from_bytes(b: &[u8]) -> View {
    let mut v = [0u64; WORDS];
    for (i, x) in b.iter().take(WINDOW / 8).enumerate() {
        v[i / 8] |= u64::from(*x) << (8 * (i % 8));
    }
    v
}
