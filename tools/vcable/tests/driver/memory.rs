// SPDX-License-Identifier: GPL-2.0
//! A guest's memory and interrupt lines.

use std::ops::Range;
use std::sync::Mutex;

use vcable::core::{DmaFault, Interrupts, Memory};

/// Flat memory from I/O address 0, with a watch on ranges that the device must leave alone.
pub struct GuestMemory {
    bytes: Mutex<Vec<u8>>,
    freed: Mutex<Vec<Range<u64>>>,
    violations: Mutex<Vec<u64>>,
}

impl GuestMemory {
    pub fn new(len: usize) -> Self {
        GuestMemory {
            bytes: Mutex::new(vec![0; len]),
            freed: Mutex::default(),
            violations: Mutex::default(),
        }
    }

    /// Declares a range freed: any access of the device to it is a violation.
    pub fn free(&self, range: Range<u64>) {
        self.freed.lock().unwrap().push(range);
    }

    /// Addresses of accesses to freed ranges.
    pub fn violations(&self) -> Vec<u64> {
        self.violations.lock().unwrap().clone()
    }

    /// The driver's own view, which no watch sees.
    pub fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        self.bytes.lock().unwrap()[at as usize..at as usize + len].to_vec()
    }

    pub fn poke(&self, at: u64, data: &[u8]) {
        self.bytes.lock().unwrap()[at as usize..at as usize + data.len()].copy_from_slice(data);
    }

    pub fn peek_u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.peek(at, 4).try_into().unwrap())
    }

    fn check(&self, at: u64, len: usize) -> Result<Range<usize>, DmaFault> {
        let fault = DmaFault { iova: at, len };
        if self.freed.lock().unwrap().iter().any(|r| at < r.end && at + len as u64 > r.start) {
            self.violations.lock().unwrap().push(at);
        }
        let end = at.checked_add(len as u64).ok_or(fault)?;
        if end > self.bytes.lock().unwrap().len() as u64 {
            return Err(fault);
        }
        Ok(at as usize..end as usize)
    }
}

impl Memory for GuestMemory {
    fn read(&self, iova: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        let range = self.check(iova, buf.len())?;
        buf.copy_from_slice(&self.bytes.lock().unwrap()[range]);
        Ok(())
    }

    fn write(&self, iova: u64, buf: &[u8]) -> Result<(), DmaFault> {
        let range = self.check(iova, buf.len())?;
        self.bytes.lock().unwrap()[range].copy_from_slice(buf);
        Ok(())
    }

    fn load_u32(&self, iova: u64) -> Result<u32, DmaFault> {
        let mut b = [0; 4];
        self.read(iova, &mut b)?;
        Ok(u32::from_le_bytes(b))
    }

    fn store_u32(&self, iova: u64, value: u32) -> Result<(), DmaFault> {
        self.write(iova, &value.to_le_bytes())
    }
}

/// Interrupt messages in the order in which they came.
#[derive(Default)]
pub struct Lines(Mutex<Vec<u16>>);

impl Lines {
    pub fn take(&self) -> Vec<u16> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Interrupts for Lines {
    fn raise(&self, vector: u16) {
        self.0.lock().unwrap().push(vector);
    }
}
