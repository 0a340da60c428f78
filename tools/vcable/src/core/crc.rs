// SPDX-License-Identifier: GPL-2.0
//! CRC-32C (Castagnoli), the check of control packets.

/// One step per byte value, for the reflected polynomial.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut t = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 };
            bit += 1;
        }
        t[i] = c;
        i += 1;
    }
    t
}

/// CRC-32C of `bytes` with the usual all-ones start and final inversion.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |c, b| TABLE[usize::from(c as u8 ^ b)] ^ (c >> 8))
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn check_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0u8; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b""), 0);
    }
}
