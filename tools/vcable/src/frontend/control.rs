// SPDX-License-Identifier: GPL-2.0
//! The control socket: a JSON object a line in, a JSON object a line out.
//!
//! Lock order: only the engine's lock is taken, and not while a line is read or written.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use serde_json::{json, Value};

use super::command;
use super::engine::Engine;
use super::log::Log;

/// Longest line accepted, in bytes: an injected frame of 4096 bytes in hexadecimal fits.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// Most clients at a time.
const MAX_CLIENTS: usize = 16;

/// What the control socket acts on.
pub struct Control {
    /// The model.
    pub engine: Arc<Engine>,
    /// The log.
    pub log: Arc<Log>,
    /// Ends the process in good order.
    pub shutdown: Box<dyn Fn() + Send + Sync>,
    /// Clients served now.
    pub clients: AtomicUsize,
}

/// Starts the thread that accepts clients, each of which gets a thread of its own.
pub fn start(listener: UnixListener, control: Arc<Control>) {
    let accept = move || loop {
        let Ok((stream, _)) = listener.accept() else {
            continue;
        };
        if control.clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
            control.clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let control = Arc::clone(&control);
        thread::spawn(move || {
            let _ = serve(stream, &control);
            control.clients.fetch_sub(1, Ordering::Relaxed);
        });
    };
    thread::Builder::new()
        .name("control".into())
        .spawn(accept)
        .expect("a thread for the control socket");
}

fn serve(stream: UnixStream, control: &Control) -> io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n") || (read as u64) < MAX_LINE_BYTES;
        let answer =
            if whole { answer(control, &line) } else { Err("the line is too long".to_string()) };
        let stop = matches!(&answer, Ok(value) if value["stopping"] == true);
        let mut text = reply(answer).to_string();
        text.push('\n');
        out.write_all(text.as_bytes())?;
        if stop {
            (control.shutdown)();
        }
        if !whole {
            return Ok(());
        }
    }
}

/// What is said to the client: what the command gave, and whether it was done.
fn reply(answer: Result<Value, String>) -> Value {
    match answer {
        Ok(mut value) => {
            value["ok"] = json!(true);
            value
        }
        Err(error) => json!({"ok": false, "error": error}),
    }
}

fn answer(control: &Control, line: &[u8]) -> Result<Value, String> {
    let request: Value =
        serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let result = command::run(&control.engine, &request);
    if request["cmd"] != "counters" {
        let outcome =
            result.as_ref().map_or_else(|error| format!("refused: {error}"), |_| "done".into());
        control.log.line("control", &format!("{request} {outcome}"));
    }
    // What the command changed may have given the model work or a deadline.
    control.engine.settle();
    result
}
