// SPDX-License-Identifier: GPL-2.0
//! The program as its clients see it: a vfio-user client and a control client, both of this file, talk to
//! a process of its own.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};
use serde_json::{json, Value};

const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const DEVICE_INFO: u16 = 4;
const REGION_INFO: u16 = 5;
const SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const RESET: u16 = 13;

const PATIENCE: Duration = Duration::from_secs(20);
/// The register with the number of paths (bits 9:0) and the version (23:16).
const CAPS: u64 = 0x39640;

/// A process with two hosts (`a` synchronous, `b` sparse), in a directory of its own.
struct Cable {
    child: Child,
    dir: PathBuf,
}

impl Cable {
    fn start(test: &str) -> Cable {
        let dir = std::env::temp_dir().join(format!("vcable-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let host = |name: &str, profile: &str, mode: &str| {
            let socket = dir.join(name);
            format!("name={name},profile={profile},socket={},mode={mode}", socket.display())
        };
        let child = Command::new(env!("CARGO_BIN_EXE_vcable"))
            .arg("--control")
            .arg(dir.join("control"))
            .arg("--log")
            .arg(dir.join("log"))
            .args(["--host", &host("a", "tb4", "sync"), "--host", &host("b", "amd", "sparse")])
            .args(["--cable", "name=c0,a=a:1,b=b:1,plugged=false"])
            .spawn()
            .unwrap();
        let cable = Cable { child, dir };
        for name in ["a", "b", "control"] {
            cable.connect(name);
        }
        cable
    }

    fn connect(&self, name: &str) -> UnixStream {
        let end = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(self.dir.join(name)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => assert!(Instant::now() < end, "{name}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends one line to the control socket and returns the reply.
    fn control(&self, line: &str) -> Value {
        let mut stream = self.connect("control");
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        self.control(r#"{"cmd":"counters"}"#)["counters"][name].as_u64().unwrap()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A vfio-user client.
struct Client {
    stream: UnixStream,
    next_id: u16,
}

/// A reply's error number and body.
type Reply = Result<Vec<u8>, u32>;

impl Client {
    fn new(cable: &Cable, host: &str) -> Client {
        let mut client = Client { stream: cable.connect(host), next_id: 1 };
        let reply = client.ask(VERSION, b"\0\0\0\0{\"capabilities\":{}}\0").unwrap();
        assert_eq!(&reply[..4], [0; 4], "version 0.0");
        client
    }

    fn ask(&mut self, command: u16, body: &[u8]) -> Reply {
        self.ask_with(command, body, &[])
    }

    fn ask_with(&mut self, command: u16, body: &[u8], files: &[&OwnedFd]) -> Reply {
        self.next_id += 1;
        let mut message = Vec::new();
        message.extend_from_slice(&self.next_id.to_le_bytes());
        message.extend_from_slice(&command.to_le_bytes());
        message.extend_from_slice(&(16 + body.len() as u32).to_le_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        let numbers: Vec<i32> = files.iter().map(|file| file.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let control: &[_] = if files.is_empty() { &[] } else { &rights };
        let parts = [IoSlice::new(&message)];
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &parts, control, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(message.len()));
        self.reply(command)
    }

    fn reply(&mut self, command: u16) -> Reply {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).unwrap();
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), u32::from(self.next_id) | u32::from(command) << 16);
        let mut body = vec![0; word(4) as usize - 16];
        self.stream.read_exact(&mut body).unwrap();
        match word(8) {
            1 => Ok(body),
            0x21 => Err(word(12)),
            flags => panic!("flags {flags:#x}"),
        }
    }

    fn read(&mut self, region: u32, offset: u64, count: u32) -> Reply {
        let reply = self.ask(REGION_READ, &access(region, offset, count))?;
        Ok(reply[16..].to_vec())
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Reply {
        let mut body = access(region, offset, data.len() as u32);
        body.extend_from_slice(data);
        self.ask(REGION_WRITE, &body)
    }

    fn register(&mut self, offset: u64) -> u32 {
        u32::from_le_bytes(self.read(0, offset, 4).unwrap().try_into().unwrap())
    }
}

fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
    let mut body = offset.to_le_bytes().to_vec();
    body.extend_from_slice(&words(&[region, count]));
    body
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn map(address: u64, size: u64) -> Vec<u8> {
    let mut body = words(&[32, 3]);
    for value in [0, address, size] {
        body.extend_from_slice(&value.to_le_bytes());
    }
    body
}

fn memory(size: i64) -> OwnedFd {
    let file = nix::sys::memfd::memfd_create("test", nix::sys::memfd::MFdFlags::empty()).unwrap();
    nix::unistd::ftruncate(&file, size).unwrap();
    file
}

#[test]
fn device_and_regions() {
    let cable = Cable::start("regions");
    let mut client = Client::new(&cable, "a");
    assert_eq!(client.ask(DEVICE_INFO, &words(&[16, 0, 0, 0])).unwrap(), words(&[16, 3, 9, 5]));
    let info = client.ask(REGION_INFO, &words(&[32, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(info[..16], words(&[32, 3, 0, 0]), "no part of BAR0 is mapped in the sync mode");
    assert_eq!(info[16..24], 0x40000u64.to_le_bytes());
    assert_eq!(client.register(CAPS), 0x20 << 16 | 12);
    let class = client.read(7, 8, 4).unwrap();
    assert_eq!(class[1..], [0x40, 0x03, 0x0c]);
    assert_eq!(client.read(7, 0x30, 4).unwrap(), [0; 4]);
}

#[test]
fn sparse_pages_are_offered_with_room_for_them() {
    let cable = Cable::start("sparse");
    let mut client = Client::new(&cable, "b");
    let short = client.ask(REGION_INFO, &words(&[32, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(short[..8], words(&[80, 0xf]));
    let full = client.ask(REGION_INFO, &words(&[80, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!(full.len(), 80);
    assert_eq!(full[48..56], 0u64.to_le_bytes());
    assert_eq!(full[64..72], 0x8000u64.to_le_bytes());
    assert_eq!(
        client.register(CAPS),
        0x20 << 16 | 3,
        "and the descriptor sent with it harms nobody"
    );
}

#[test]
fn refusals_leave_the_stream_in_step() {
    let cable = Cable::start("refusals");
    let mut client = Client::new(&cable, "a");
    let refused = |reply: Reply| assert!(reply.is_err(), "{reply:?}");
    refused(client.ask(6, &[7; 40]));
    refused(client.ask(11, &[0; 5000]));
    refused(client.ask(999, &[]));
    refused(client.ask(REGION_READ, &[0; 7]));
    refused(client.read(0, CAPS + 1, 4));
    refused(client.read(0, 0x40000 - 4, 8));
    refused(client.read(0, u64::MAX - 3, 4));
    refused(client.read(3, 0, 4));
    refused(client.read(0, 0, u32::MAX));
    refused(client.write(0, 0x1, &[1]));
    refused(client.ask(DMA_MAP, &map(u64::MAX - 1, 0x1000)));
    refused(client.ask_with(DMA_MAP, &map(0, 0x2000), &[&memory(0x1000)]));
    refused(client.ask(SET_IRQS, &words(&[20, 0x24, 2, 16, 1])));
    refused(client.ask(SET_IRQS, &words(&[20, 0x24, 9, 0, 1])));
    assert_eq!(client.register(CAPS), 0x20 << 16 | 12);
}

#[test]
fn memory_comes_and_goes() {
    let cable = Cable::start("memory");
    let mut client = Client::new(&cable, "a");
    let file = memory(0x10000);
    client.ask_with(DMA_MAP, &map(0, 0x10000), &[&file]).unwrap();
    client.ask(DMA_MAP, &map(0xfffc_0000, 0x40000)).unwrap();
    client.ask_with(DMA_MAP, &map(0x8000, 0x1000), &[&file]).unwrap_err();
    let mut unmap = words(&[24, 0]);
    for value in [0u64, 0x10000] {
        unmap.extend_from_slice(&value.to_le_bytes());
    }
    assert_eq!(client.ask(DMA_UNMAP, &unmap).unwrap(), unmap);
    client.ask_with(DMA_MAP, &map(0x8000, 0x1000), &[&file]).unwrap();
    client.ask(RESET, &[]).unwrap();
    assert_eq!(client.register(CAPS), 0x20 << 16 | 12);
}

#[test]
fn a_client_that_leaves_takes_its_state_along() {
    let cable = Cable::start("leaves");
    for _ in 0..3 {
        let mut client = Client::new(&cable, "b");
        client.ask_with(DMA_MAP, &map(0, 0x10000), &[&memory(0x10000)]).unwrap();
        assert_eq!(client.register(0x38200), 0, "the interrupt enables are as after a reset");
        client.write(0, 0x38200, &words(&[0x9])).unwrap();
        assert_eq!(client.register(0x38200), 0x9);
    }
}

#[test]
fn a_client_that_talks_nonsense_is_dropped() {
    let cable = Cable::start("nonsense");
    let mut client = Client::new(&cable, "a");
    client.stream.write_all(&[0; 16]).unwrap();
    assert_eq!(client.stream.read(&mut [0; 16]).unwrap(), 0, "a message of no bytes has no end");
    let mut client = Client::new(&cable, "a");
    client.stream.write_all(&[0xff; 64]).unwrap();
    // Bytes that nobody read are a reset rather than an end of the stream.
    assert!(matches!(client.stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    assert_eq!(Client::new(&cable, "a").register(CAPS), 0x20 << 16 | 12);
}

#[test]
fn stray_accesses_are_counted_and_logged() {
    let cable = Cable::start("strays");
    let mut client = Client::new(&cable, "a");
    client.register(0x30000);
    client.write(0, 0x30004, &words(&[0xabcd])).unwrap();
    assert_eq!(cable.counter("host.a.stray"), 2);
    let log = std::fs::read_to_string(cable.dir.join("log")).unwrap();
    assert!(log.contains("read of 0x30000 hit no register"), "{log}");
    assert!(log.contains("write of 0x0000abcd to 0x30004 hit no register"), "{log}");
}

#[test]
fn control_socket() {
    let cable = Cable::start("control");
    assert_eq!(cable.control(r#"{"cmd":"plugged","cable":"c0"}"#)["plugged"], false);
    assert_eq!(cable.control(r#"{"cmd":"plug","cable":"c0"}"#), json!({"ok": true}));
    assert_eq!(cable.control(r#"{"cmd":"reset","host":"a"}"#)["ok"], true);
    assert_eq!(cable.control(r#"{"cmd":"plugged","cable":"c0"}"#)["plugged"], true);
    let fault = r#"{"cmd":"fault","kind":"drop","seed":3,"one_in":100,"host":"a","hop":1}"#;
    assert_eq!(cable.control(fault)["ok"], true);
    assert_eq!(cable.control(r#"{"cmd":"faults_clear"}"#)["ok"], true);
    for garbage in ["", "nonsense", "{\"cmd\":", "[[[[", &"x".repeat(200_000)] {
        let reply = cable.control(garbage);
        assert_eq!(reply["ok"], false);
        assert!(reply["error"].is_string());
    }
    assert_eq!(cable.control(r#"{"cmd":"link","cable":"c0","rate_mbps":400}"#)["ok"], true);
}

#[test]
fn both_ways_to_end_it_remove_the_sockets() {
    for by_signal in [false, true] {
        let mut cable = Cable::start(if by_signal { "signal" } else { "shutdown" });
        if by_signal {
            let pid = nix::unistd::Pid::from_raw(cable.child.id() as i32);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        } else {
            assert_eq!(cable.control(r#"{"cmd":"shutdown"}"#)["ok"], true);
        }
        assert!(cable.child.wait().unwrap().success());
        for name in ["a", "b", "control"] {
            assert!(!cable.dir.join(name).exists());
        }
    }
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    let out = Command::new(env!("CARGO_BIN_EXE_vcable")).args(["--host", "name=a"]).output();
    let out = out.unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("profile is missing"));
}
