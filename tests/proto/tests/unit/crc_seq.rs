// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::crc::crc32c;
use proto_tests::proto::seq::{before, before16, within};

/// Bit by bit, as the definition says.
fn slow(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for b in data {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn crc_of_known_strings() {
    // RFC 3720, appendix B.4, and the check value of the catalogue.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    let up: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&up), 0x46dd_794e);
    assert_eq!(crc32c(&[]), 0);
}

#[test]
fn crc_of_each_length_agrees_with_the_definition() {
    let data: Vec<u8> = (0..100u32).map(|i| (i * 37 + 11) as u8).collect();
    for n in 0..data.len() {
        assert_eq!(crc32c(&data[..n]), slow(&data[..n]), "length {n}");
    }
}

#[test]
fn before_wraps() {
    for (a, b, yes) in [
        (0, 0, false),
        (0, 1, true),
        (1, 0, false),
        (u32::MAX, 0, true),
        (0, u32::MAX, false),
        (0, 0x7fff_ffff, true),
        (0x8000_0001, 0, true),
    ] {
        assert_eq!(before(a, b), yes, "{a} {b}");
    }
    for (a, b, yes) in [(0, 1, true), (65535, 0, true), (0, 65535, false), (0, 32767, true), (5, 5, false)] {
        assert_eq!(before16(a, b), yes, "{a} {b}");
    }
}

#[test]
fn within_is_half_open_and_wraps() {
    for (p, from, to, yes) in [
        (5, 5, 6, true),
        (6, 5, 6, false),
        (5, 5, 5, false),
        (4, 5, 6, false),
        (0, u32::MAX, 1, true),
        (1, u32::MAX, 1, false),
        (u32::MAX, u32::MAX, 1, true),
    ] {
        assert_eq!(within(p, from, to), yes, "{p} {from} {to}");
    }
}
