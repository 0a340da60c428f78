// SPDX-License-Identifier: GPL-2.0

//! HELLO messages in XDomain control packets (Documentation/handshake.md): route,
//! length and the UUIDs of protocol and hosts, as the thunderbolt core wants them,
//! then the message of proto/handshake.rs.

use crate::ffi::tb_service::Uuid;
use crate::ffi::tb_xdomain::Xdomain;
use crate::proto::handshake::{Hello, MAX_BYTES};
use kernel::prelude::*;

/// The protocol of our control messages: 943d11cf-7464-48c0-bab5-0be2689c1798.
pub(super) static PROTOCOL: Uuid = Uuid([
    0x94, 0x3d, 0x11, 0xcf, 0x74, 0x64, 0x48, 0xc0, 0xba, 0xb5, 0x0b, 0xe2, 0x68, 0x9c, 0x17, 0x98,
]);

/// The service's property directory: e5ad8b7f-b6b5-4186-af20-87cb5175f140.
pub(super) static DIRECTORY: Uuid = Uuid([
    0xe5, 0xad, 0x8b, 0x7f, 0xb6, 0xb5, 0x41, 0x86, 0xaf, 0x20, 0x87, 0xcb, 0x51, 0x75, 0xf1, 0x40,
]);

/// Words that the length field does not count: route and length.
const UNCOUNTED: usize = 3;
/// Words before the message: those, three UUIDs, type, number.
const HEADER: usize = UNCOUNTED + 3 * 4 + 2;
/// The one type of message.
const TYPE_HELLO: u32 = 1;
/// The receiving router sets this bit in the upper half of the route.
const ROUTE_RECEIVED: u64 = 1 << 63;

/// Sends one message.
///
/// # Errors
///
/// Those of [`Xdomain::send`].
pub(super) fn send(xd: &Xdomain, number: u32, hello: &Hello) -> Result {
    let mut body = [0u8; MAX_BYTES];
    let len = hello.encode(&mut body);
    let mut packet = [0u32; HEADER + MAX_BYTES / 4];
    let words = HEADER + len / 4;
    let route = xd.route();
    packet[0] = (route >> 32) as u32;
    packet[1] = route as u32;
    packet[2] = (words - UNCOUNTED) as u32;
    put_uuid(&mut packet, UNCOUNTED, &PROTOCOL.0);
    put_uuid(&mut packet, UNCOUNTED + 4, &xd.local_uuid());
    put_uuid(&mut packet, UNCOUNTED + 8, &xd.remote_uuid());
    packet[HEADER - 2] = TYPE_HELLO;
    packet[HEADER - 1] = number;
    for (n, to) in packet[HEADER..words].iter_mut().enumerate() {
        *to = u32::from_le_bytes(word_at(&body, n));
    }
    xd.send(packet.get(..words).ok_or(EINVAL)?)
}

fn put_uuid(packet: &mut [u32], at: usize, uuid: &[u8; 16]) {
    for (n, to) in packet.iter_mut().skip(at).take(4).enumerate() {
        *to = u32::from_ne_bytes(word_at(uuid, n));
    }
}

/// The bytes of word `n`; zeroes beyond the end.
fn word_at(bytes: &[u8], n: usize) -> [u8; 4] {
    let found = bytes.get(4 * n..4 * n + 4);
    found.and_then(|word| word.try_into().ok()).unwrap_or([0; 4])
}

/// A control packet of our protocol.
pub(super) struct Packet {
    route: u64,
    from: [u8; 16],
    to: [u8; 16],
    kind: u32,
    body: [u8; MAX_BYTES],
    len: usize,
}

impl Packet {
    /// Takes a packet apart; None if it is too short. What is longer than any message
    /// known here comes from a newer peer and is cut.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(4 * HEADER..)?;
        let word = |n: usize| u32::from_ne_bytes(word_at(bytes, n));
        let uuid = |n: usize| bytes.get(4 * n..4 * n + 16)?.try_into().ok();
        let mut packet = Self {
            route: (u64::from(word(0)) << 32 | u64::from(word(1))) & !ROUTE_RECEIVED,
            from: uuid(UNCOUNTED + 4)?,
            to: uuid(UNCOUNTED + 8)?,
            kind: word(HEADER - 2),
            body: [0; MAX_BYTES],
            len: (body.len() & !3).min(MAX_BYTES),
        };
        for n in 0..packet.len / 4 {
            let word = u32::from_ne_bytes(word_at(body, n)).to_le_bytes();
            if let Some(to) = packet.body.get_mut(4 * n..4 * n + 4) {
                to.copy_from_slice(&word);
            }
        }
        Some(packet)
    }

    /// Did it come over this cable, and is it meant for this host?
    pub(super) fn is_for(&self, xd: &Xdomain) -> bool {
        self.route == xd.route() && self.from == xd.remote_uuid() && self.to == xd.local_uuid()
    }

    /// The message in it, checked; None for garbage.
    pub(super) fn hello(&self) -> Option<Hello> {
        if self.kind != TYPE_HELLO {
            return None;
        }
        Hello::parse(self.body.get(..self.len)?).ok()
    }
}
