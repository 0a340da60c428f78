// SPDX-License-Identifier: GPL-2.0
//! A host's socket: one client at a time, one request after the other.

use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use nix::libc::EINVAL;

use super::device::{Device, Reply};
use super::sys;
use super::wire::{Header, Request, HEADER_BYTES};

/// Listens at `path`; a socket that a dead process left there is replaced.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    if path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Starts the thread that serves `device`'s clients, one after the other: a QEMU that was started again
/// finds the device as new.
pub fn start(listener: UnixListener, mut device: Device) {
    let named = thread::Builder::new().name(format!("host-{}", device.name));
    let serve_all = move || {
        sys::prefer_this_thread();
        for stream in listener.incoming().flatten() {
            serve_one(stream, &mut device);
        }
    };
    named.spawn(serve_all).expect("a thread for a host");
}

fn serve_one(stream: UnixStream, device: &mut Device) {
    device.log.line(&device.name, "client connected");
    let outcome = serve(stream, device);
    device.client_gone();
    let dropped = |error| format!("client dropped: {error}");
    let how = outcome.map_or_else(dropped, |()| "client left".into());
    device.log.line(&device.name, &how);
    device.engine.settle();
}

/// Serves a client until it leaves. An error means that the stream can no longer be followed.
fn serve(mut stream: UnixStream, device: &mut Device) -> io::Result<()> {
    let mut body = Vec::new();
    while let Some((bytes, files)) = sys::receive_header(&mut stream)? {
        let Some(header) = Header::parse(&bytes) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a header with an impossible size",
            ));
        };
        body.resize(header.size as usize - HEADER_BYTES, 0);
        stream.read_exact(&mut body)?;
        if header.is_reply {
            // Nothing was asked, so this answers nothing.
            continue;
        }
        let answer = Request::parse(header.command, &body)
            .ok_or(EINVAL)
            .and_then(|request| device.handle(request, files));
        let settle = answer.as_ref().is_ok_and(|reply| reply.settle);
        if let Err(errno) = answer {
            device
                .log
                .line(&device.name, &format!("command {} refused: errno {errno}", header.command));
        }
        if !header.no_reply {
            answer_client(&mut stream, &header, &answer)?;
        }
        if settle {
            device.engine.settle();
        }
        sys::look_for_message(&stream);
    }
    Ok(())
}

fn answer_client(
    stream: &mut UnixStream,
    header: &Header,
    answer: &Result<Reply, i32>,
) -> io::Result<()> {
    match answer {
        Ok(reply) => {
            let file = reply.file.as_ref().map(|window| window.file());
            sys::send(stream, &header.reply(&reply.body), file)
        }
        Err(errno) => sys::send(stream, &header.error(*errno), None),
    }
}
