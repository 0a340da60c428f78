// SPDX-License-Identifier: GPL-2.0
//! The log: one line an event, with the seconds since the start. Nothing on the data path logs.
//!
//! Lock order: `out` is a leaf.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// Where lines go. Any thread may write; a line is written whole.
pub struct Log {
    out: Mutex<Box<dyn Write + Send>>,
    start: Instant,
}

impl Log {
    /// A log appended to the file at `path`, or written to standard error.
    pub fn open(path: Option<&Path>) -> io::Result<Log> {
        let out: Box<dyn Write + Send> = match path {
            Some(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
            None => Box::new(io::stderr()),
        };
        Ok(Log { out: Mutex::new(out), start: Instant::now() })
    }

    /// Writes a line about `subject`. A log that cannot be written stops nothing.
    pub fn line(&self, subject: &str, text: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        let line = format!("{seconds:11.6} {subject}: {text}\n");
        if let Ok(mut out) = self.out.lock() {
            let _ = out.write_all(line.as_bytes());
            let _ = out.flush();
        }
    }
}
