// SPDX-License-Identifier: GPL-2.0
//! The interrupter: status and enable bits, vectors, throttling.
//!
//! Bit numbers: TX ring h is h, RX ring h is h + paths, RX overflow is h + 2 * paths.

use super::Interrupts;

/// Units of the throttle registers in ns.
const THROTTLE_UNIT_NS: u64 = 256;
const VECTORS: usize = 16;

/// State of one host's interrupter.
pub(crate) struct Interrupter {
    status: u64,
    enable: u64,
    vector: [u8; 64],
    throttle: [u32; VECTORS],
    /// When each vector fired last.
    last: [Option<u64>; VECTORS],
    /// Vectors held back by the throttle.
    held: u16,
    /// Messages raised since the last [`Interrupter::take_raised`].
    raised: u64,
}

impl Interrupter {
    /// Nothing set, nothing enabled, every ring on vector 0.
    pub fn new() -> Self {
        Interrupter {
            status: 0,
            enable: 0,
            vector: [0; 64],
            throttle: [0; VECTORS],
            last: [None; VECTORS],
            held: 0,
            raised: 0,
        }
    }

    /// Status bits `32 * i` and up.
    pub fn status_word(&self, i: u32) -> u32 {
        (self.status >> (32 * i)) as u32
    }

    /// Enable bits `32 * i` and up.
    pub fn enable_word(&self, i: u32) -> u32 {
        (self.enable >> (32 * i)) as u32
    }

    /// Sets a status bit; the message goes out when `status & enable` rises.
    pub fn set_status(&mut self, bit: u32, now: u64, out: &dyn Interrupts) {
        let old = self.status & self.enable;
        self.status |= 1 << bit;
        self.rise(old, now, out);
    }

    /// Clears the status bits of a word that are 1 in `bits`.
    pub fn clear_status(&mut self, word: u32, bits: u32) {
        self.status &= !(u64::from(bits) << (32 * word));
    }

    /// Bits of a word that are set in status and would newly be enabled by writing `value`.
    pub fn unmasked_by(&self, word: u32, value: u32) -> u32 {
        self.status_word(word) & value & !self.enable_word(word)
    }

    /// Writes an enable word. Bits in `silent` do not fire although their status is set.
    pub fn write_enable(
        &mut self,
        word: u32,
        value: u32,
        silent: u32,
        now: u64,
        out: &dyn Interrupts,
    ) {
        let old = self.status & self.enable | u64::from(silent) << (32 * word);
        self.enable &= !(0xffff_ffff << (32 * word));
        self.enable |= u64::from(value) << (32 * word);
        self.rise(old, now, out);
    }

    /// Clears the enable bits of a word that are 1 in `bits`.
    pub fn clear_enable(&mut self, word: u32, bits: u32) {
        self.enable &= !(u64::from(bits) << (32 * word));
    }

    /// Eight 4-bit vector numbers from bit `8 * word` on.
    pub fn set_vectors(&mut self, word: u32, value: u32) {
        for k in 0..8u32 {
            if let Some(v) = self.vector.get_mut((8 * word + k) as usize) {
                *v = (value >> (4 * k) & 0xf) as u8;
            }
        }
    }

    /// Sets the shortest interval between two messages of a vector, in units of 256 ns.
    pub fn set_throttle(&mut self, vector: u32, units: u32) {
        self.throttle[vector as usize] = units;
    }

    /// When a vector may fire next.
    fn next_ok(&self, vector: usize) -> u64 {
        self.last[vector].map_or(0, |t| t + u64::from(self.throttle[vector]) * THROTTLE_UNIT_NS)
    }

    fn rise(&mut self, old: u64, now: u64, out: &dyn Interrupts) {
        let mut risen = self.status & self.enable & !old;
        while risen != 0 {
            let bit = risen.trailing_zeros() as usize;
            risen &= risen - 1;
            self.fire(usize::from(self.vector[bit]), now, out);
        }
    }

    fn fire(&mut self, vector: usize, now: u64, out: &dyn Interrupts) {
        if now < self.next_ok(vector) {
            self.held |= 1 << vector;
            return;
        }
        self.last[vector] = Some(now);
        self.raised += 1;
        out.raise(vector as u16);
    }

    /// Lets held vectors go whose interval has passed; returns how many fired.
    pub fn tick(&mut self, now: u64, out: &dyn Interrupts) -> u64 {
        let mut fired = 0;
        if self.held == 0 {
            return 0;
        }
        for v in 0..VECTORS {
            if self.held >> v & 1 == 0 || now < self.next_ok(v) {
                continue;
            }
            self.held &= !(1 << v);
            let line = self.status & self.enable;
            // What the guest has cleared or masked meanwhile needs no message any more.
            if (0..64).any(|b| line >> b & 1 != 0 && usize::from(self.vector[b]) == v) {
                self.fire(v, now, out);
                fired += 1;
            }
        }
        fired
    }

    /// When the next held vector may fire.
    pub fn next_deadline(&self) -> Option<u64> {
        (0..VECTORS).filter(|v| self.held >> v & 1 != 0).map(|v| self.next_ok(v)).min()
    }

    /// Messages raised since the last call.
    pub fn take_raised(&mut self) -> u64 {
        std::mem::take(&mut self.raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Log(Mutex<Vec<u16>>);

    impl Interrupts for Log {
        fn raise(&self, vector: u16) {
            self.0.lock().expect("not poisoned").push(vector);
        }
    }

    impl Log {
        fn take(&self) -> Vec<u16> {
            std::mem::take(&mut self.0.lock().expect("not poisoned"))
        }
    }

    #[test]
    fn fires_on_rise_and_on_unmask_only() {
        let (log, mut i) = (Log::default(), Interrupter::new());
        i.set_vectors(0, 0x5 << 4);
        i.set_status(1, 0, &log);
        assert!(log.take().is_empty());
        i.write_enable(0, 2, 0, 0, &log);
        assert_eq!(log.take(), [5]);
        i.set_status(1, 0, &log);
        assert!(log.take().is_empty(), "already up");
        i.clear_status(0, 2);
        i.set_status(1, 0, &log);
        assert_eq!(log.take(), [5]);
        i.clear_enable(0, 2);
        i.write_enable(0, 2, 2, 0, &log);
        assert!(log.take().is_empty(), "edge only");
    }

    #[test]
    fn throttle_holds_then_fires_once() {
        let (log, mut i) = (Log::default(), Interrupter::new());
        i.set_throttle(0, 10);
        i.write_enable(0, 1, 0, 0, &log);
        for t in [100, 200, 300] {
            i.set_status(0, t, &log);
            i.clear_status(0, 1);
        }
        assert_eq!(log.take(), [0]);
        assert_eq!(i.next_deadline(), Some(100 + 2560));
        assert_eq!(i.tick(2659, &log), 0);
        assert_eq!(i.tick(2660, &log), 0, "cleared meanwhile");
        i.set_status(0, 2670, &log);
        assert_eq!(log.take(), [0]);
    }
}
