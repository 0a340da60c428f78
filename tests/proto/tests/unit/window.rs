// SPDX-License-Identifier: GPL-2.0
//! The bitmap against a dumb oracle: an array of 256 booleans.
use proto_tests::proto::window::{low, view_from_bytes, view_to_bytes, Bits};
use proto_tests::sim::rng::Rng;

struct Dumb([bool; 256]);

impl Dumb {
    fn of(b: &Bits) -> Vec<bool> {
        (0..256).map(|p| b.get(p)).collect()
    }

    fn first_from(&self, base: u32) -> Option<u32> {
        (0..256).map(|i| base.wrapping_add(i)).find(|p| self.0[*p as usize % 256])
    }
}

#[test]
fn random_operations_agree_with_the_oracle() {
    for seed in 0..200 {
        let rng = &mut Rng::new(seed);
        let (mut bits, mut dumb) = (Bits::ZERO, Dumb([false; 256]));
        for _ in 0..200 {
            let psn = rng.word() as u32;
            match rng.below(5) {
                0 | 1 => {
                    bits.set(psn);
                    dumb.0[psn as usize % 256] = true;
                }
                2 => {
                    bits.clear(psn);
                    dumb.0[psn as usize % 256] = false;
                }
                3 => {
                    let n = rng.below(257) as u32;
                    bits = bits.without(&Bits::range(psn, n));
                    (0..n).for_each(|i| dumb.0[psn.wrapping_add(i) as usize % 256] = false);
                }
                _ => {
                    let n = rng.below(257) as u32;
                    bits = bits.and(&Bits::range(psn, n));
                    (n..256).for_each(|i| dumb.0[psn.wrapping_add(i) as usize % 256] = false);
                }
            }
            assert_eq!(Dumb::of(&bits), dumb.0.to_vec());
            assert_eq!(bits.count(), dumb.0.iter().filter(|b| **b).count() as u32);
            assert_eq!(bits.is_empty(), bits.count() == 0);
            let base = rng.word() as u32;
            assert_eq!(bits.first_from(base), dumb.first_from(base));
            let view = bits.view(base);
            for i in 0..256u32 {
                let seen = view[i as usize / 64] >> (i % 64) & 1 != 0;
                assert_eq!(seen, dumb.0[base.wrapping_add(i) as usize % 256]);
            }
            assert_eq!(Bits::from_view(base, &view), bits);
        }
    }
}

#[test]
fn low_at_its_boundaries() {
    for n in [0, 1, 63, 64, 65, 127, 128, 191, 192, 255, 256, 257, u32::MAX] {
        let ones: u32 = low(n).iter().map(|w| w.count_ones()).sum();
        assert_eq!(ones, n.min(256), "{n}");
        if n < 256 {
            assert_eq!(low(n)[n as usize / 64] >> (n % 64) & 1, 0);
        }
    }
}

#[test]
fn bytes_leave_off_trailing_zeroes() {
    for (bit, len) in [(0, 1), (7, 1), (8, 2), (63, 8), (64, 9), (254, 32), (255, 32)] {
        let mut b = Bits::ZERO;
        b.set(bit);
        let mut out = [0xee; 32];
        assert_eq!(view_to_bytes(&b.view(0), &mut out), len, "bit {bit}");
        assert_eq!(view_from_bytes(&out[..len]), b.view(0));
        assert_eq!(out[len - 1], 1 << (bit % 8));
    }
    let mut out = [0xee; 32];
    assert_eq!(view_to_bytes(&[0; 4], &mut out), 0);
    assert_eq!(view_from_bytes(&[]), [0; 4]);
    // What is beyond 32 bytes is not looked at.
    assert_eq!(view_from_bytes(&[0xff; 40]), [u64::MAX; 4]);
}
