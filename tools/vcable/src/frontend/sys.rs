// SPDX-License-Identifier: GPL-2.0
//! The few services of the operating system that the standard library lacks.

use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{recv, recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};

use super::wire::{HEADER_BYTES, MAX_FDS};

/// How long [`look_for_message`] looks.
const LOOK_PATIENCE: Duration = Duration::from_micros(40);
/// A yield that took longer gave the processor to somebody.
const QUICK_YIELD: Duration = Duration::from_micros(10);

/// An anonymous file of `len` zero bytes that another process can map.
pub fn shared_file(name: &str, len: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
    nix::unistd::ftruncate(&file, len as i64)?;
    Ok(file)
}

/// Reads one message header and the file descriptors that came with it; `None` at the end of the
/// stream. The header's sender attaches the descriptors to its first byte.
pub fn receive_header(
    stream: &mut UnixStream,
) -> io::Result<Option<([u8; HEADER_BYTES], Vec<OwnedFd>)>> {
    let mut header = [0; HEADER_BYTES];
    let mut files = Vec::new();
    let mut space = cmsg_space!([i32; MAX_FDS]);
    let received = {
        let mut parts = [IoSliceMut::new(&mut header)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        // No signal handler runs in this process, so this is never interrupted.
        let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                // SAFETY: the kernel has just made these descriptors for us; nobody else owns them.
                files.extend(
                    numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }),
                );
            }
        }
        message.bytes
    };
    if received == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[received..])?;
    Ok(Some((header, files)))
}

/// Looks for the next message before the caller blocks for it: accesses come in bursts, and a thread that
/// still runs answers without being woken. Others may run between two looks; ends early when somebody does.
pub fn look_for_message(stream: &UnixStream) {
    let start = Instant::now();
    let mut last = start;
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    while recv(stream.as_raw_fd(), &mut [0], flags) == Err(nix::errno::Errno::EAGAIN) {
        std::thread::yield_now();
        let now = Instant::now();
        if now - start > LOOK_PATIENCE || now - last > QUICK_YIELD {
            return;
        }
        last = now;
    }
}

/// Writes a whole message, with one file descriptor attached where there is one.
pub fn send(stream: &mut UnixStream, message: &[u8], file: Option<&OwnedFd>) -> io::Result<()> {
    let Some(file) = file else {
        return stream.write_all(message);
    };
    let numbers = [file.as_raw_fd()];
    let parts = [io::IoSlice::new(message)];
    let control = [ControlMessage::ScmRights(&numbers)];
    let sent = sendmsg::<()>(stream.as_raw_fd(), &parts, &control, MsgFlags::empty(), None)?;
    stream.write_all(&message[sent..])
}

/// Calls again while a signal interrupts the call.
fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(nix::errno::Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Lets this thread's sleeps end when they should, rather than up to 50 us later, and asks to be
/// preferred to the guests' processors when it wakes; the second is refused without privilege.
pub fn prefer_this_thread() {
    let _ = nix::sys::prctl::set_timerslack(1);
    // SAFETY: takes a plain number; on Linux it is the calling thread's niceness that changes.
    let _ = unsafe { nix::libc::nice(-10) };
}

/// Processor time that this thread has used.
pub fn thread_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Blocks SIGTERM and SIGINT for this thread and those it starts, so that [`wait_for_signal`] gets them.
pub fn block_signals() -> io::Result<SigSet> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block()?;
    Ok(signals)
}

/// Waits for one of the blocked signals.
pub fn wait_for_signal(signals: &SigSet) -> io::Result<Signal> {
    Ok(retry(|| signals.wait())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_with_their_header() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let file = shared_file("test", 4096).unwrap();
        send(&mut near, &[1; HEADER_BYTES], None).unwrap();
        send(&mut near, &[2; HEADER_BYTES + 3], Some(&file)).unwrap();
        let (header, files) = receive_header(&mut far).unwrap().unwrap();
        assert_eq!((header, files.len()), ([1; HEADER_BYTES], 0));
        let (header, files) = receive_header(&mut far).unwrap().unwrap();
        assert_eq!((header, files.len()), ([2; HEADER_BYTES], 1));
        let mut rest = [0; 3];
        far.read_exact(&mut rest).unwrap();
        drop(near);
        assert!(receive_header(&mut far).unwrap().is_none());
    }

    #[test]
    fn a_header_may_arrive_in_pieces() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        near.write_all(&[3; 5]).unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            near.write_all(&[3; HEADER_BYTES - 5]).unwrap();
            near
        });
        let (header, _) = receive_header(&mut far).unwrap().unwrap();
        assert_eq!(header, [3; HEADER_BYTES]);
        writer.join().unwrap();
    }
}
