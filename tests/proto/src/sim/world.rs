// SPDX-License-Identifier: GPL-2.0
//! The event loop and the checks at the end.

use super::config::{Config, Mode, POLL_NS};
use super::host::Host;
use super::lane::{LaneEnd, OnWire};
use super::pair::Pair;
use super::rng::Rng;
use super::trace;
use crate::proto::counters::QpCounters;
use crate::proto::credit::reserve_of;
use crate::proto::wire::{lane_op, Header, Kind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at some time.
pub enum Event {
    Arrive { host: usize, lane: usize, frame: OnWire },
    Batch { host: usize, lane: usize },
    TxDone { host: usize, lane: usize },
    Timer { host: usize, q: usize },
    LaneTimer { host: usize, lane: usize },
    Fed { host: usize, lane: usize, buffers: u32 },
    Begin { pair: usize, life: u32 },
    Post { pair: usize, side: usize, life: u32 },
    Check { pair: usize, life: u32 },
    /// A host loses its power and comes back at once.
    Restart { host: usize },
}

/// Events in the order of their time, then of their making.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    made: u64,
}

impl Queue {
    pub fn push(&mut self, at: u64, e: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(e);
        self.made += 1;
        self.heap.push(Reverse((at, self.made, slot)));
    }

    fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.events[slot].take().map(|e| (at, e))
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub frames: u64,
    pub counters: QpCounters,
    pub bad_frames: u64,
    pub overruns: u64,
    pub virtual_ns: u64,
    /// DATA frames lost on the way.
    pub lost: u64,
    /// When host 0's first queue pair had its last completion.
    pub sent_at: u64,
}

/// Runs one seed to its end. Panics when anything is not as it must be.
pub fn run(c: &Config) -> Report {
    let mut w = World::new(c);
    let end = w.until_done();
    w.until_quiet();
    w.at_rest();
    w.report(end)
}

struct World<'a> {
    c: &'a Config,
    rng: Rng,
    hosts: [Host; 2],
    pairs: Vec<Pair>,
    queue: Queue,
    now: u64,
}

impl<'a> World<'a> {
    fn new(c: &'a Config) -> World<'a> {
        let mut rng = Rng::new(c.seed ^ 0xabcd_ef01);
        let mut w = World {
            c,
            hosts: [Host::new(0, c), Host::new(1, c)],
            pairs: (0..c.pairs).map(|q| Pair::new(q, c, &mut rng)).collect(),
            rng,
            queue: Queue::default(),
            now: 1,
        };
        for (host, at) in &c.restarts {
            w.queue.push(*at, Event::Restart { host: *host });
        }
        for q in 0..c.pairs {
            w.pairs[q].begin(&mut w.hosts, w.now, c, &mut w.rng, &mut w.queue);
        }
        w
    }

    /// When everything must be over: what the adversary could delay, the programs' own pauses, the transfer
    /// itself, and for each receive entry its RNR waits.
    fn bound(&self) -> u64 {
        let frames: u64 = self.pairs.iter().map(|p| p.frames).sum();
        let recvs: u64 = self.pairs.iter().map(|p| p.recvs).sum();
        let round = 2 * self.c.latency + self.c.ack_delay + 64 * self.c.ns_per_frame + 3_000_000;
        let posts = self.c.messages as u64 * 2_000_000;
        let generations = self.c.generations as u64 * (4_000_000_000 + posts);
        let quiet = self.c.adversary_until.max(self.c.blackout.1);
        quiet + generations + recvs * (3_000_000 + round) + frames * 4 * (self.c.ns_per_frame + round / 8)
    }

    fn until_done(&mut self) -> u64 {
        let mut bound = self.bound();
        while let Some((at, e)) = self.queue.pop() {
            self.now = at;
            self.step(e);
            if self.pairs.iter().all(|p| p.done) {
                return self.now;
            }
            if self.now > bound {
                // Generations that began since add to what there is to do.
                bound = self.bound();
                assert!(self.now <= bound, "not over at {} ms: {}", self.now / 1_000_000, self.stuck());
            }
        }
        panic!("nothing happens any more: {}", self.stuck());
    }

    fn stuck(&self) -> String {
        let mut out = String::new();
        for p in self.pairs.iter().filter(|p| !p.done) {
            for h in &self.hosts {
                let s = &h.sides[p.q];
                out += &format!(
                    "\n  qp {} host {} gen {} {:?} sent {}/{}/{} recv {}/{}/{} deadline {:?} wants {:?} {:?}",
                    p.q, h.me, p.generation, s.qp.state(), s.env.sent.len(), s.env.posted, s.env.mine.msgs.len(),
                    s.env.recvs_done(), s.env.recv_posted, s.env.recvs_wanted(), s.qp.next_deadline(),
                    s.qp.wants_tx(self.now), s.qp.counters()
                );
            }
        }
        out
    }

    /// The rest of the events; there must be an end to them: no timer runs without something outstanding.
    fn until_quiet(&mut self) {
        let last = self.now + 10_000_000_000;
        while let Some((at, e)) = self.queue.pop() {
            self.now = at;
            assert!(at < last, "timers run for ever: {}", self.stuck());
            self.step(e);
        }
    }

    fn step(&mut self, e: Event) {
        let (now, c, rng, queue) = (self.now, self.c, &mut self.rng, &mut self.queue);
        match e {
            Event::Arrive { host, lane, frame } => {
                if lane < self.hosts[host].base {
                    return;
                }
                let overrun = self.hosts[host].lanes[lane].has_no_buffer();
                if overrun {
                    self.overrun(host, &frame.bytes);
                    return;
                }
                let l = &mut self.hosts[host].lanes[lane];
                l.arrived.push_back(frame);
                let strand = now < c.adversary_until && rng.ppm(c.strand);
                let at = if strand { (now / POLL_NS + 1) * POLL_NS } else { now + 1_000 };
                if l.batch_at == 0 || (!strand && at < l.batch_at && l.batch_at.checked_rem(POLL_NS) == Some(0)) {
                    l.batch_at = at;
                    queue.push(at, Event::Batch { host, lane });
                }
            }
            Event::Batch { host, lane } => self.hosts[host].batch(lane, now, c, rng, queue),
            Event::TxDone { host, lane } => {
                self.hosts[host].lanes[lane].tx_used -= 1;
                self.hosts[host].room(lane, now, c, rng, queue);
                self.hosts[host].lane_upkeep(now, c, rng, queue);
            }
            Event::Timer { host, q } => self.hosts[host].timer(q, now, c, rng, queue),
            Event::LaneTimer { host, lane } => {
                let l = &mut self.hosts[host].lanes[lane];
                if l.timer_at == now {
                    l.timer_at = 0;
                    self.hosts[host].lane_upkeep(now, c, rng, queue);
                }
            }
            Event::Fed { host, lane, buffers } => self.hosts[host].fed(lane, buffers, now, c, rng, queue),
            Event::Begin { pair, life } if life == self.pairs[pair].life => {
                self.pairs[pair].begin(&mut self.hosts, now, c, rng, queue);
            }
            Event::Post { pair, side, life } if life == self.pairs[pair].life => {
                self.pairs[pair].post(side, &mut self.hosts, now, c, rng, queue);
            }
            Event::Check { pair, life } if life == self.pairs[pair].life => {
                self.pairs[pair].check(&mut self.hosts, now, c, rng, queue);
            }
            Event::Begin { .. } | Event::Post { .. } | Event::Check { .. } => {}
            Event::Restart { host } => self.restart(host),
        }
    }

    /// A frame found no buffer. With an honest cable that may happen to a control frame only.
    fn overrun(&mut self, host: usize, bytes: &[u8]) {
        let c = self.c;
        let is_data = Header::parse(bytes).is_ok_and(|h| h.kind == Kind::Data);
        let honest = c.starve == 0 && c.duplicate == 0 && c.delay == 0;
        assert!(!(is_data && honest), "a DATA frame with credit found no buffer");
        self.hosts[1 - host].lost += u64::from(is_data);
    }

    /// Every connection ends, in an error where its program still lives; all lanes are new.
    fn restart(&mut self, host: usize) {
        trace::note(self.now, || format!("host {host} starts anew"));
        self.hosts.iter_mut().for_each(|h| h.new_lanes(self.c));
        for p in self.pairs.iter_mut().filter(|p| !p.done) {
            p.broken(host, &mut self.hosts, self.now, self.c, &mut self.rng, &mut self.queue);
        }
    }

    fn at_rest(&mut self) {
        for p in &self.pairs {
            p.at_rest(&self.hosts);
        }
        let [a, b] = &mut self.hosts;
        let base = a.base;
        for (x, y) in a.lanes[base..].iter_mut().zip(&mut b.lanes[base..]) {
            lane_at_rest(x, y, self.c);
            lane_at_rest(y, x, self.c);
        }
        self.only_the_lost_again();
        if self.c.mode == Mode::Faultless {
            let n = self.report(0).counters;
            assert_eq!((n.tx_retransmit, n.rx_duplicate, n.rx_held, n.uc_gaps), (0, 0, 0, 0), "{n:?}");
        }
    }

    /// Selective repeat: where each lane keeps its order, nothing is sent again that was not lost or thrown away.
    fn only_the_lost_again(&self) {
        let c = self.c;
        if c.spray || c.delay != 0 || c.duplicate != 0 || !c.restarts.is_empty() {
            return;
        }
        let n = self.report(0).counters;
        let lost: u64 = self.hosts.iter().map(|h| h.lost).sum();
        // A NAK throws away what is held behind it.
        let held = if n.tx_rnr + n.tx_nak != 0 { n.rx_held } else { 0 };
        let thrown = held + n.rx_hold_dropped + n.rx_rnr_dropped + n.rx_refused_dropped + n.rx_not_ready + n.rx_out_of_window;
        assert!(n.tx_retransmit <= lost + thrown, "{} sent again, {lost} lost, {n:?}", n.tx_retransmit);
    }

    fn report(&self, end: u64) -> Report {
        let sent_at = self.hosts[0].sides[0].sent_at;
        let mut r = Report { virtual_ns: end, sent_at, ..Report::default() };
        for h in &self.hosts {
            r.bad_frames += h.bad.total();
            r.lost += h.lost;
            h.sides.iter().for_each(|s| r.counters.add(s.qp.counters()));
            for l in &h.lanes {
                r.frames += l.counters.tx_frames;
                r.overruns += l.overruns;
            }
        }
        r
    }
}

/// `from` sends to `to`: no buffer is missing, nobody waits, and one probe gives back all credit.
fn lane_at_rest(from: &mut LaneEnd, to: &mut LaneEnd, c: &Config) {
    let all = c.ring - reserve_of(c.ring);
    assert_eq!(from.tx_used, 0);
    assert!(from.waiting.is_empty());
    if c.mode == Mode::Faultless {
        let credit = from.tx.credit();
        assert!(credit + c.ring / 4 >= all, "credit {credit} of {all} at rest");
    }
    let mut b = to.buffers.borrow_mut();
    assert_eq!((b.rx.posted(), b.held), (c.ring, 0), "buffers are missing");
    let mut h = Header { lane_seq: from.tx.take_seq(), ..Header::lane(lane_op::PROBE) };
    b.rx.on_frame(&h, &mut to.counters);
    b.rx.reposted();
    assert!(b.rx.update_due());
    h = Header { lane_limit: b.rx.limit_to_send(), ..Header::lane(lane_op::UPDATE) };
    from.tx.on_frame(&h, &mut from.counters);
    assert_eq!(from.tx.credit(), all, "credit was lost");
}
