// SPDX-License-Identifier: GPL-2.0
//! CRC-32C (Castagnoli, reflected, initial and final value ~0; RFC 3720 appendix B.4), eight bytes a step.
//!
//! Table-driven ("slicing by 8") so that the core needs no instruction set and no kernel function; a header
//! costs eight steps.

const POLY: u32 = 0x82f6_3b78;

const fn tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 { (c >> 1) ^ POLY } else { c >> 1 };
            bit += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let c = t[k - 1][i];
            t[k][i] = (c >> 8) ^ t[0][(c & 0xff) as usize];
            i += 1;
        }
        k += 1;
    }
    t
}

static TABLES: [[u32; 256]; 8] = tables();

const fn byte(v: u64, n: u32) -> usize {
    ((v >> (8 * n)) & 0xff) as usize
}

/// Eight bytes, as a little-endian word.
#[inline]
fn step(crc: u32, word: u64) -> u32 {
    let v = word ^ crc as u64;
    TABLES[7][byte(v, 0)]
        ^ TABLES[6][byte(v, 1)]
        ^ TABLES[5][byte(v, 2)]
        ^ TABLES[4][byte(v, 3)]
        ^ TABLES[3][byte(v, 4)]
        ^ TABLES[2][byte(v, 5)]
        ^ TABLES[1][byte(v, 6)]
        ^ TABLES[0][byte(v, 7)]
}

/// CRC-32C of whole words, as they lie in memory on a little-endian machine.
#[inline]
pub fn crc32c_words(words: &[u64]) -> u32 {
    !words.iter().fold(!0, |crc, w| step(crc, *w))
}

/// CRC-32C of `data`.
pub fn crc32c(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    let mut chunks = data.chunks_exact(8);
    for c in &mut chunks {
        let word = u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]);
        crc = step(crc, word);
    }
    for &b in chunks.remainder() {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ b as u32) & 0xff) as usize];
    }
    !crc
}
