// SPDX-License-Identifier: GPL-2.0
//! Hosts with the driver model, on one fabric with one virtual clock.

use std::collections::HashMap;
use std::sync::Arc;

use vcable::core::{Attachment, CableId, Fabric, HostId, LinkLimits, Profile};

use super::memory::{GuestMemory, Lines};
use super::ring::{Frame, Received, Ring, Setup};

pub const MS: u64 = 1_000_000;
const MEMORY: usize = 8 << 20;

/// One guest: its memory and what its driver knows.
pub struct Guest {
    pub id: HostId,
    pub memory: Arc<GuestMemory>,
    pub lines: Arc<Lines>,
    pub paths: u16,
    pub rings: HashMap<(bool, u16), Ring>,
    next_free: u64,
    pub next_vector: u16,
    /// Plug events as (port, unplug), in order of arrival, without repetitions.
    pub events: Vec<(u8, bool)>,
    pub acknowledge: bool,
    /// Control packets that no request waited for.
    pub control: Vec<Received>,
    /// The host's UUID stand-in for XDomain answers.
    pub uuid: [u32; 4],
    pub answer_xdomain: bool,
    pub seq: u8,
}

/// Everything together.
pub struct Bench {
    pub fabric: Fabric,
    pub now: u64,
    pub guests: Vec<Guest>,
    pub cable: CableId,
}

impl Bench {
    /// Two hosts with a cable between their first ports, not plugged.
    pub fn new(a: Profile, b: Profile) -> Bench {
        let mut fabric = Fabric::new(1);
        let mut guests = Vec::new();
        for (name, profile) in [("a", a), ("b", b)] {
            guests.push(Guest::new(&mut fabric, name, profile));
        }
        let ends = [(guests[0].id, 1), (guests[1].id, 1)];
        let cable = fabric.add_cable("c0", ends[0], ends[1], LinkLimits::default()).unwrap();
        Bench { fabric, now: 0, guests, cable }
    }

    /// Adds a host that is not started.
    pub fn add_guest(&mut self, name: &str, profile: Profile) {
        let guest = Guest::new(&mut self.fabric, name, profile);
        self.guests.push(guest);
    }

    /// Two started hosts with the cable plugged and both plug events acknowledged.
    pub fn connected(a: Profile, b: Profile) -> Bench {
        let mut bench = Bench::new(a, b);
        bench.start(0);
        bench.start(1);
        bench.fabric.plug(bench.cable, bench.now);
        bench.run(200 * MS);
        for g in &mut bench.guests {
            assert_eq!(g.events, [(1, false)], "one plug event each");
            g.events.clear();
        }
        bench
    }

    /// Polls the fabric and handles interrupts until `ns` later.
    pub fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            let busy = self.step();
            if busy {
                continue;
            }
            let next = self.fabric.poll(self.now).next_deadline.unwrap_or(end);
            if self.now >= end {
                return;
            }
            // At least a step forward: a deadline may be one that waits for the guest.
            self.now = next.max(self.now + 1000).min(end);
        }
    }

    /// One poll at the present time and the interrupts that it brought; false when idle.
    pub fn step(&mut self) -> bool {
        let work = self.fabric.poll(self.now).work;
        let mut handled = false;
        for g in 0..self.guests.len() {
            for vector in self.guests[g].lines.take() {
                self.handle_interrupt(g, vector);
                handled = true;
            }
        }
        work > 0 || handled
    }

    /// ring_msix: clears the status bit, then does the ring's work.
    fn handle_interrupt(&mut self, g: usize, vector: u16) {
        let guest = &mut self.guests[g];
        let paths = guest.paths;
        let Some(ring) = guest.rings.values_mut().find(|r| r.running && r.vector == vector) else {
            return;
        };
        ring.interrupts += 1;
        let (bit, key) = (ring.bit(paths), (ring.setup.tx, ring.setup.hop));
        self.fabric.mmio_write(guest.id, 0x37808, 1 << bit, self.now);
        match key {
            (false, 0) => self.drain_control(g),
            (true, _) => while ring.poll(&guest.memory).is_some() {},
            // The tests take received frames themselves.
            (false, _) => {}
        }
    }

    /// Adds and starts a ring with a vector of its own.
    pub fn add_ring(&mut self, g: usize, setup: Setup) {
        let guest = &mut self.guests[g];
        let mut ring = Ring::new(setup, guest.next_free);
        guest.next_free = ring.end();
        assert!(ring.end() <= MEMORY as u64, "the tests' memory is full");
        if setup.interrupts {
            ring.vector = guest.next_vector;
            guest.next_vector += 1;
        }
        ring.start(&mut self.fabric, guest.id, guest.paths, self.now);
        if !setup.tx {
            ring.refill(&mut self.fabric, guest.id, &guest.memory, self.now);
        }
        guest.rings.insert((setup.tx, setup.hop), ring);
    }

    /// Stops and forgets a ring; its memory counts as freed from then on.
    pub fn remove_ring(&mut self, g: usize, tx: bool, hop: u16) {
        let guest = &mut self.guests[g];
        let mut ring = guest.rings.remove(&(tx, hop)).expect("ring exists");
        ring.stop(&mut self.fabric, guest.id, guest.paths, self.now);
        guest.memory.free(ring.base..ring.end());
    }

    /// Enqueues a frame; false when the ring is full.
    pub fn send(&mut self, g: usize, hop: u16, frame: &Frame) -> bool {
        let guest = &mut self.guests[g];
        let ring = guest.rings.get_mut(&(true, hop)).expect("TX ring");
        while ring.poll(&guest.memory).is_some() {}
        ring.send(&mut self.fabric, guest.id, &guest.memory, frame, self.now)
    }

    /// Takes received frames and posts their buffers again.
    pub fn receive(&mut self, g: usize, hop: u16) -> Vec<Received> {
        let guest = &mut self.guests[g];
        let ring = guest.rings.get_mut(&(false, hop)).expect("RX ring");
        let mut out = Vec::new();
        while let Some(r) = ring.poll(&guest.memory) {
            out.push(r);
            ring.post_one(&mut self.fabric, guest.id, &guest.memory, self.now);
        }
        out
    }

    pub fn ring(&mut self, g: usize, tx: bool, hop: u16) -> &mut Ring {
        self.guests[g].rings.get_mut(&(tx, hop)).expect("ring exists")
    }

    /// A counter of the fabric.
    pub fn counter(&self, name: &str) -> u64 {
        let all = self.fabric.counters();
        let found = all.iter().find(|c| c.name == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).value
    }
}

impl Guest {
    fn new(fabric: &mut Fabric, name: &str, profile: Profile) -> Guest {
        let (memory, lines) = (Arc::new(GuestMemory::new(MEMORY)), Arc::new(Lines::default()));
        let attachment = Attachment::trapped(memory.clone(), lines.clone());
        let id = fabric.add_host(name, profile, attachment).expect("a new name");
        Guest {
            id,
            memory,
            lines,
            paths: 0,
            rings: HashMap::new(),
            next_free: 0x1000,
            next_vector: 0,
            events: Vec::new(),
            acknowledge: true,
            control: Vec::new(),
            uuid: [0x1111_0000 + id.0 as u32, 2, 3, 4],
            answer_xdomain: true,
            seq: 0,
        }
    }

    /// As after a boot: nothing known, memory kept (what was freed stays watched).
    pub fn forget(&mut self) {
        self.rings.clear();
        self.next_vector = 0;
        self.events.clear();
        self.control.clear();
    }
}
