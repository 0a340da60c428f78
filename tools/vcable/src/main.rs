// SPDX-License-Identifier: GPL-2.0
//! The command line of the cable emulator; see Documentation/vcable.md.

use std::process::ExitCode;
use std::sync::Arc;

use vcable::frontend::options::{Options, USAGE};
use vcable::frontend::{run, Log};

/// Exit status after a panic, as the standard library's.
const PANICKED: i32 = 101;

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("vcable: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let log = match Log::open(options.log.as_deref()) {
        Ok(log) => Arc::new(log),
        Err(error) => {
            eprintln!("vcable: log: {error}");
            return ExitCode::FAILURE;
        }
    };
    end_on_panic(Arc::clone(&log));
    let Err(error) = run(&options, Arc::clone(&log));
    log.line("vcable", &format!("failed: {error}"));
    eprintln!("vcable: {error}");
    ExitCode::FAILURE
}

/// A thread that panics takes the process with it: a cable without its poller would only look plugged.
fn end_on_panic(log: Arc<Log>) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        log.line("vcable", &format!("panicked: {info}"));
        std::process::exit(PANICKED);
    }));
}
