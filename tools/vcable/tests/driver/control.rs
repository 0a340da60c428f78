// SPDX-License-Identifier: GPL-2.0
//! The driver's control channel: config requests, events, XDomain packets, start order.

use super::bench::{Bench, MS};
use super::ring::{Frame, Setup};

pub const READ: u8 = 1;
pub const WRITE: u8 = 2;
pub const ERROR: u8 = 3;
pub const EVENT: u8 = 5;
pub const XD_REQUEST: u8 = 6;
pub const XD_RESPONSE: u8 = 7;

/// Config spaces.
pub const HOPS: u8 = 0;
pub const ADAPTER: u8 = 1;
pub const ROUTER: u8 = 2;

pub const NHI: u8 = 5;

/// A second implementation of the CRC, bit by bit, so that the tests do not check the model
/// against itself.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for b in bytes {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// A packet's bytes on the wire.
pub fn encode(dwords: &[u32]) -> Vec<u8> {
    let mut b: Vec<u8> = dwords.iter().flat_map(|d| d.to_be_bytes()).collect();
    b.extend(crc32c(&b).to_be_bytes());
    b
}

/// A packet's dwords; checks the CRC.
pub fn decode(bytes: &[u8]) -> Vec<u32> {
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    assert_eq!(crc32c(body).to_be_bytes(), crc, "CRC of a received packet");
    body.chunks(4).map(|c| u32::from_be_bytes(c.try_into().unwrap())).collect()
}

fn address(space: u8, port: u8, offset: u32, len: usize, seq: u8) -> u32 {
    offset
        | (len as u32) << 13
        | u32::from(port) << 19
        | u32::from(space) << 25
        | u32::from(seq) << 27
}

impl Bench {
    /// Sends a packet on ring 0.
    pub fn send_control(&mut self, g: usize, pdf: u8, dwords: &[u32]) {
        let frame = Frame { sof: pdf, eof: pdf, data: encode(dwords) };
        assert!(self.send(g, 0, &frame), "TX ring 0 is full");
    }

    /// tb_ctl_rx_callback: events and XDomain requests at once, the rest for whoever waits.
    pub fn drain_control(&mut self, g: usize) {
        for r in self.receive(g, 0) {
            assert_eq!(r.frame.sof, 0, "raw mode has no sof");
            let d = decode(&r.frame.data);
            match r.frame.eof {
                EVENT => self.handle_event(g, &d),
                XD_REQUEST if self.guests[g].answer_xdomain => self.answer(g, &d),
                _ => self.guests[g].control.push(r),
            }
        }
    }

    fn handle_event(&mut self, g: usize, d: &[u32]) {
        assert_eq!(d[0], 1 << 31, "header of an event");
        let (port, unplug) = ((d[2] & 0x3f) as u8, d[2] >> 31 == 1);
        let guest = &mut self.guests[g];
        let fresh = guest.events.last() != Some(&(port, unplug));
        if fresh {
            guest.events.push((port, unplug));
        }
        if guest.acknowledge {
            let pg = if unplug { 3 } else { 2 };
            self.send_control(g, ERROR, &[0, 0, 7 | u32::from(port) << 8 | pg << 30]);
        }
    }

    /// Answers an XDomain request with the host's UUID and an echo of its payload.
    fn answer(&mut self, g: usize, d: &[u32]) {
        assert_eq!(d[0], 1 << 31, "bit 63 of the route marks what comes from the other domain");
        let mut reply = vec![0, d[1], d[2]];
        reply.extend(self.guests[g].uuid);
        reply.extend(&d[3..]);
        self.send_control(g, XD_RESPONSE, &reply);
    }

    /// Waits for a control packet that `wanted` takes.
    fn wait(
        &mut self,
        g: usize,
        limit: u64,
        wanted: impl Fn(u8, &[u32]) -> bool,
    ) -> Option<(u8, Vec<u32>)> {
        let end = self.now + limit;
        loop {
            while self.step() {}
            let control = &mut self.guests[g].control;
            let found = control.iter().position(|r| wanted(r.frame.eof, &decode(&r.frame.data)));
            if let Some(i) = found {
                let r = control.remove(i);
                return Some((r.frame.eof, decode(&r.frame.data)));
            }
            if self.now >= end {
                return None;
            }
            self.now += MS;
        }
    }

    fn config(
        &mut self,
        g: usize,
        pdf: u8,
        route: u64,
        a: (u8, u8, u32),
        data: &[u32],
        len: usize,
    ) -> Result<Vec<u32>, u8> {
        for seq in 0..4 {
            let addr = address(a.0, a.1, a.2, len, seq);
            let mut d = vec![(route >> 32) as u32, route as u32, addr];
            d.extend(data);
            self.send_control(g, pdf, &d);
            let reply = self.wait(g, 100 * MS, |eof, r| {
                eof == ERROR || eof == pdf && r[2] >> 27 == u32::from(seq)
            });
            let Some((eof, r)) = reply else { continue };
            assert_eq!((r[0], r[1]), (1 << 31 | d[0], d[1]), "route of a reply");
            if eof == ERROR {
                return Err(r[2] as u8);
            }
            assert_eq!(r[2], addr & !(0x3f << 19) | u32::from(NHI) << 19, "address of a reply");
            return Ok(r[3..].to_vec());
        }
        Err(0xff)
    }

    /// tb_cfg_read: the error is the reply's code, 255 for none in four tries.
    pub fn read(
        &mut self,
        g: usize,
        space: u8,
        port: u8,
        offset: u32,
        len: usize,
    ) -> Result<Vec<u32>, u8> {
        let data = self.config(g, READ, 0, (space, port, offset), &[], len)?;
        assert_eq!(data.len(), len);
        Ok(data)
    }

    /// tb_cfg_write.
    pub fn write(
        &mut self,
        g: usize,
        space: u8,
        port: u8,
        offset: u32,
        data: &[u32],
    ) -> Result<(), u8> {
        let rest = self.config(g, WRITE, 0, (space, port, offset), data, data.len())?;
        assert!(rest.is_empty());
        Ok(())
    }

    /// A read that goes down a route.
    pub fn read_route(&mut self, g: usize, route: u64) -> Result<Vec<u32>, u8> {
        self.config(g, READ, route, (ROUTER, 0, 0), &[], 1)
    }

    /// An XDomain request; the reply's dwords behind its header, or `None` after `limit`.
    pub fn xdomain(&mut self, g: usize, port: u8, payload: &[u32], limit: u64) -> Option<Vec<u32>> {
        let mut d = vec![0, u32::from(port), payload.len() as u32];
        d.extend(payload);
        self.send_control(g, XD_REQUEST, &d);
        let (_, r) = self.wait(g, limit, |eof, _| eof == XD_RESPONSE)?;
        assert_eq!((r[0], r[1]), (1 << 31, u32::from(port)), "route of a response");
        Some(r[3..].to_vec())
    }

    /// Finds a capability in an adapter's list.
    pub fn find_cap(&mut self, g: usize, port: u8, id: u32) -> Option<u32> {
        let mut at = self.read(g, ADAPTER, port, 1, 1).ok()?[0] & 0xff;
        while at != 0 {
            let header = self.read(g, ADAPTER, port, at, 1).ok()?[0];
            if header >> 8 & 0xff == id {
                return Some(at);
            }
            at = header & 0xff;
        }
        None
    }

    /// A router operation: `Err` when it is not supported, else metadata and 16 dwords.
    pub fn operation(&mut self, g: usize, opcode: u32) -> Result<(u32, Vec<u32>), ()> {
        self.write(g, ROUTER, 0, 25, &[0]).unwrap();
        self.write(g, ROUTER, 0, 26, &[opcode | 1 << 31]).unwrap();
        let status = self.read(g, ROUTER, 0, 26, 1).unwrap()[0];
        assert_eq!(status >> 31, 0, "the operation is over");
        if status >> 30 & 1 == 1 {
            return Err(());
        }
        Ok((self.read(g, ROUTER, 0, 25, 1).unwrap()[0], self.read(g, ROUTER, 0, 9, 16).unwrap()))
    }

    /// Probes and starts the driver, in the order of nhi_probe and tb_start.
    pub fn start(&mut self, g: usize) {
        let id = self.guests[g].id;
        let caps = self.fabric.mmio_read(id, 0x39640, self.now);
        self.guests[g].paths = caps as u16 & 0x3ff;
        let v2 = caps >> 16 & 0xff >= 0x40;
        if v2 {
            self.fabric.mmio_write(id, 0x39898, 1, self.now);
            self.run(100 * MS);
            assert_eq!(self.fabric.mmio_read(id, 0x39898, self.now) & 1, 0, "reset is over");
        }
        self.fabric.mmio_write(id, 0x38208, !0, self.now);
        self.fabric.mmio_write(id, 0x37808, !0, self.now);
        let all = 0xffff;
        for tx in [true, false] {
            let masks = Setup { sof_mask: all, eof_mask: all, ..Setup::new(tx, 0) };
            self.add_ring(g, Setup { size: 10, raw: true, ..masks });
        }
        self.enumerate(g, v2);
        for port in [1, 3] {
            if !v2 {
                self.port_reset(g, port);
            }
        }
    }

    fn enumerate(&mut self, g: usize, v2: bool) {
        assert_eq!(self.read(g, ROUTER, 0, 0, 1).unwrap().len(), 1);
        let cs = self.read(g, ROUTER, 0, 0, 5).unwrap();
        assert_eq!(cs[1] >> 8 & 0x3f, u32::from(NHI), "upstream adapter");
        assert_eq!(cs[4] >> 24, if v2 { 0x40 } else { 0x20 });
        let cap = self.read(g, ROUTER, 0, cs[1] & 0xff, 2).unwrap();
        assert_eq!(cap[0] >> 8 & 0xff, 3, "TMU capability");
        assert!(self.read(g, ROUTER, 0, (cs[1] & 0xff) + 25, 1).is_ok(), "26 dwords of it");
        let cmuv = if v2 { 0x20 } else { 0x10 };
        self.write(g, ROUTER, 0, 1, &[cs[1], 0, 1 << 31, cs[4] & !0xffff | cmuv << 8 | 0xff])
            .unwrap();
        let uid = self.read(g, ROUTER, 0, 7, 2).unwrap();
        assert_ne!((uid[0], uid[1]), (0, 0));
        assert_eq!(self.operation(g, 0x25), Err(()));
        let (count, data) = self.operation(g, 0x33).unwrap();
        assert_eq!((count, data[0] & 0xffff), (1, 5), "baMaxHI");
        assert_eq!(self.operation(g, 0x24), Err(()));
        for port in 1..=NHI {
            self.init_port(g, port);
        }
        for port in [1, 3] {
            let v = self.read(g, ADAPTER, port, 5, 1).unwrap()[0];
            self.write(g, ADAPTER, port, 5, &[v & !(1 << 31)]).unwrap();
        }
    }

    fn init_port(&mut self, g: usize, port: u8) {
        let Ok(cs) = self.read(g, ADAPTER, port, 0, 8) else { return };
        assert_eq!(cs[3] >> 20 & 0x3f, u32::from(port));
        if cs[2] & 0xff_ffff == 2 {
            assert_eq!(cs[5] & 0x7ff, u32::from(self.guests[g].paths) - 1);
            return;
        }
        assert_eq!(cs[2] & 0xff_ffff, 1);
        assert!(self.find_cap(g, port, 1).is_some(), "lane capability");
        if self.find_cap(g, port, 6).is_some() {
            let hop = self.read(g, HOPS, port, 0, 2).unwrap();
            assert_eq!(hop[0] >> 17 & 0x7f, 2, "control credits");
        }
    }

    /// usb4_port_reset, then the clean-up of the port's paths.
    pub fn port_reset(&mut self, g: usize, port: u8) {
        let at = self.find_cap(g, port, 6).expect("USB4 port capability") + 19;
        let v = self.read(g, ADAPTER, port, at, 1).unwrap()[0];
        self.write(g, ADAPTER, port, at, &[v | 1]).unwrap();
        self.run(10 * MS);
        let v = self.read(g, ADAPTER, port, at, 1).unwrap()[0];
        self.write(g, ADAPTER, port, at, &[v & !1]).unwrap();
        let max = self.read(g, ADAPTER, port, 5, 1).unwrap()[0] & 0x7ff;
        for hop in 8..=max {
            assert_eq!(self.read(g, HOPS, port, 2 * hop, 2).unwrap()[0] >> 31, 0);
        }
    }

    /// Lane adapter state of a port.
    pub fn lane_state(&mut self, g: usize, port: u8) -> u32 {
        let at = self.find_cap(g, port, 1).expect("lane capability") + 1;
        self.read(g, ADAPTER, port, at, 1).unwrap()[0] >> 26 & 0xf
    }

    /// tb_path_activate of one hop.
    pub fn set_hop(&mut self, g: usize, adapter: u8, hop: u16, next: u16, out: u8) {
        let at = 2 * u32::from(hop);
        let old = self.read(g, HOPS, adapter, at, 2).unwrap();
        let first = u32::from(next) | u32::from(out) << 11 | 14 << 17 | 1 << 31;
        self.write(g, HOPS, adapter, at, &[first, old[1] & !(1 << 28)]).unwrap();
    }

    /// __tb_path_deactivate_hop; false when pending does not go within 500 ms.
    pub fn clear_hop(&mut self, g: usize, adapter: u8, hop: u16) -> bool {
        let at = 2 * u32::from(hop);
        let old = self.read(g, HOPS, adapter, at, 2).unwrap();
        self.write(g, HOPS, adapter, at, &[old[0] & !(1 << 31), old[1]]).unwrap();
        let end = self.now + 500 * MS;
        while self.read(g, HOPS, adapter, at, 2).unwrap()[1] >> 28 & 1 == 1 {
            if self.now >= end {
                return false;
            }
            self.now += MS;
        }
        true
    }

    /// tb_xdomain_enable_paths on port 1 of both hosts, both ways, for one ring pair: ring
    /// `hop` at both ends and HopID `hop + 7` on the wire.
    pub fn enable_paths(&mut self, hop: u16) {
        for g in 0..2 {
            self.set_hop(g, 1, hop + 7, hop, NHI);
            self.set_hop(g, NHI, hop, hop + 7, 1);
        }
    }

    /// A ring pair at both hosts with its paths, RX rings with or without E2E.
    pub fn ring_pair(&mut self, hop: u16, size: u16, e2e: bool) {
        for g in 0..2 {
            self.add_ring(g, Setup { size, ..Setup::new(true, hop) });
            self.add_ring(g, Setup { size, e2e, ..Setup::new(false, hop) });
        }
        self.enable_paths(hop);
    }
}
