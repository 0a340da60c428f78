// SPDX-License-Identifier: GPL-2.0
//! The front end: hosts as vfio-user devices, each served to one QEMU; see
//! Documentation/vcable-transport.md.
//!
//! `unsafe` is in [`mapping`] (shared memory), in one line of [`memory`] (a copy between two guests) and
//! in [`sys`].

mod command;
mod config;
mod connection;
mod control;
mod device;
mod engine;
mod irq;
mod log;
mod mapping;
mod memory;
pub mod options;
mod pace;
mod sys;
mod window;
mod wire;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use self::config::ConfigSpace;
use self::control::Control;
use self::device::Device;
use self::engine::Engine;
use self::irq::Vectors;
pub use self::log::Log;
use self::memory::GuestMemory;
use self::options::{HostOptions, Mode, Options};
use self::window::Window;
use crate::core::{Attachment, Fabric, HostId, IndexPages, LinkLimits, LocalPages};

/// Where a host's client will put what the model needs from it.
struct Host {
    id: HostId,
    memory: Arc<GuestMemory>,
    vectors: Arc<Vectors>,
    window: Option<Arc<Window>>,
}

/// Serves the hosts until SIGTERM, SIGINT or the control command `shutdown`; never returns but with what
/// went wrong at the start.
pub fn run(options: &Options, log: Arc<Log>) -> io::Result<std::convert::Infallible> {
    let signals = sys::block_signals()?;
    let mut fabric = Fabric::new(options.seed);
    let hosts = options
        .hosts
        .iter()
        .map(|host| add_host(&mut fabric, host))
        .collect::<io::Result<Vec<_>>>()?;
    add_cables(&mut fabric, options)?;
    let configs: Vec<_> = hosts.iter().map(|host| fabric.pci_config(host.id)).collect();
    let engine = Engine::new(fabric, hosts.iter().any(|host| host.window.is_some()));

    let mut sockets = Vec::new();
    for ((given, host), config) in options.hosts.iter().zip(hosts).zip(configs) {
        let listener =
            connection::listen(&given.socket).map_err(|error| at(&given.socket, error))?;
        sockets.push(given.socket.clone());
        let device = Device {
            name: given.name.clone(),
            host: host.id,
            engine: Arc::clone(&engine),
            memory: host.memory,
            vectors: host.vectors,
            window: host.window,
            config: ConfigSpace::new(config),
            log: Arc::clone(&log),
            strays_logged: 0,
        };
        connection::start(listener, device);
    }
    let listener =
        connection::listen(&options.control).map_err(|error| at(&options.control, error))?;
    sockets.push(options.control.clone());
    let exit = leave(sockets, Arc::clone(&log));
    let stop = exit.clone();
    let shutdown = Box::new(move || stop("shutdown command"));
    let control =
        Control { engine: Arc::clone(&engine), log, shutdown, clients: AtomicUsize::new(0) };
    control::start(listener, Arc::new(control));
    engine.start_poller();
    loop {
        let signal = sys::wait_for_signal(&signals)?;
        exit(signal.as_str());
    }
}

/// Makes a host of the model, with nothing behind it yet.
fn add_host(fabric: &mut Fabric, given: &HostOptions) -> io::Result<Host> {
    let memory = Arc::new(GuestMemory::default());
    let vectors = Arc::new(Vectors::default());
    let window = match given.mode {
        Mode::Sparse => Some(Arc::new(Window::new()?)),
        Mode::Sync => None,
    };
    let index: Arc<dyn IndexPages> = match &window {
        Some(window) => Arc::clone(window) as _,
        None => Arc::new(LocalPages::new()),
    };
    let attachment = Attachment {
        memory: Arc::clone(&memory) as _,
        interrupts: Arc::clone(&vectors) as _,
        index,
    };
    let id = fabric
        .add_host(&given.name, given.profile.clone(), attachment)
        .map_err(io::Error::other)?;
    Ok(Host { id, memory, vectors, window })
}

fn add_cables(fabric: &mut Fabric, options: &Options) -> io::Result<()> {
    let find = |fabric: &Fabric, name: &str| {
        fabric.host(name).ok_or_else(|| io::Error::other(format!("no host {name:?}")))
    };
    for cable in &options.cables {
        let [(a, a_port), (b, b_port)] = &cable.ends;
        let ends = ((find(fabric, a)?, *a_port), (find(fabric, b)?, *b_port));
        let added = fabric.add_cable(&cable.name, ends.0, ends.1, LinkLimits::default());
        let id = added.map_err(io::Error::other)?;
        fabric.set_limits(id, cable.limits(fabric.profile_rate_mbps(id)));
        if cable.plugged {
            fabric.plug(id, 0);
        }
    }
    Ok(())
}

/// What ends the process: the sockets go, so that nobody waits on them.
fn leave(sockets: Vec<PathBuf>, log: Arc<Log>) -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(move |why| {
        log.line("vcable", &format!("ends: {why}"));
        for socket in &sockets {
            let _ = std::fs::remove_file(socket);
        }
        std::process::exit(0);
    })
}

fn at(path: &std::path::Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
