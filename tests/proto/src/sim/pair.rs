// SPDX-License-Identifier: GPL-2.0
//! Two connected queue pairs and the programs that use them: set up, post, check, again.

use super::config::{Config, Mode};
use super::env::{Executed, SimEnv};
use super::host::{Host, Side};
use super::lane::SimBuf;
use super::plan::{Fault, Plan};
use super::rng::Rng;
use super::watch::{Asked, Watch};
use super::world::{Event, Queue};
use crate::proto::credit::max_held_by_qp;
use crate::proto::qp::{Qp, Tuning};
use crate::proto::qp_state::{QpAttrs, QpKind, QpState};
use crate::proto::status::WcStatus;
use crate::proto::MAX_RD_ATOMIC;
use std::rc::Rc;

/// What ends a pair's life before its plan is done.
#[derive(Clone, Copy)]
enum Spoilt {
    /// The side and message that was spoilt, and how it must end.
    Message(usize, usize, WcStatus),
    /// The program of this side leaves after so many checks, and the other finds out by its time-out.
    Leaves(usize, u64),
}

/// State of one pair.
pub struct Pair {
    pub q: usize,
    kind: QpKind,
    pub generation: usize,
    spoilt: Option<Spoilt>,
    checks: u64,
    /// The side that stays in RTR.
    server: Option<usize>,
    max_rd: u8,
    /// Receive entries are posted late.
    late: bool,
    pub done: bool,
    /// Grows when a host restarts: events of the life before are void.
    pub life: u32,
    /// Where the streams begin in 32 bits, when not where verbs says.
    wrap: u32,
    /// Frames and receive entries of all generations, for the bound.
    pub frames: u64,
    pub recvs: u64,
    psn: [u32; 2],
}

impl Pair {
    pub fn new(q: usize, c: &Config, rng: &mut Rng) -> Pair {
        let kind = if rng.percent(70) || !c.is_random() { QpKind::Rc } else { QpKind::Uc };
        Pair {
            q,
            kind,
            generation: 0,
            spoilt: None,
            checks: 0,
            server: None,
            max_rd: *rng.pick(&[1, 4, MAX_RD_ATOMIC as u8]),
            late: false,
            done: false,
            life: 0,
            wrap: 0,
            frames: 0,
            recvs: 0,
            // Near the wrap of 24 bits now and then.
            psn: [0, 0].map(|_| rng.below(1 << 24) as u32 | if rng.percent(30) { 0xff_ff00 } else { 0 }),
        }
    }

    /// Begins a generation: plans, queue pairs into RTS, the first posts.
    pub fn begin(&mut self, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        self.generation += 1;
        self.wrap = if rng.percent(30) { 0xff00_0000 } else { 0 };
        self.server = if rng.percent(15) && c.is_random() { Some(rng.below(2) as usize) } else { None };
        self.late = rng.percent(40) && c.is_random() && (self.kind == QpKind::Rc);
        let mut plans = [0, 1].map(|side| {
            let most = if c.long && side == 1 { 20 } else { c.messages as u64 };
            let least = if c.long { most } else { 1 };
            let n = if self.server == Some(side) { 0 } else { rng.range(least, most) as usize };
            let tag = ((self.q as u64 + 1) << 8) | ((self.generation as u64) << 1) | side as u64;
            if let Some((op, len, count)) = c.programme {
                return Plan::of(op, len, if side == 0 { count } else { 0 }, tag);
            }
            let mut plan = Plan::new(rng, self.kind, n, tag);
            if c.long {
                plan.three_frames();
            }
            plan
        });
        self.spoilt = None;
        self.checks = 0;
        if self.kind == QpKind::Rc && rng.percent(25) && c.is_random() {
            let side = if self.server == Some(0) { 1 } else { 0 };
            self.spoilt = if rng.percent(20) {
                Some(Spoilt::Leaves(rng.below(2) as usize, rng.below(10)))
            } else {
                plans[side].spoil(rng).map(|(at, status)| Spoilt::Message(side, at, status))
            };
            // With finite patience only the one entry may be missing.
            self.late &= !plans[side].msgs.iter().any(|m| m.fault == Fault::NoRecv);
        }
        for p in &plans {
            self.recvs += p.msgs.iter().filter(|m| m.takes_recv()).count() as u64;
            self.frames += p.msgs.iter().map(|m| u64::from(m.wr.len) / 4032 + 2).sum::<u64>();
        }
        let plans = plans.map(|p| (Rc::new(p), Rc::new(Executed::default())));
        for side in 0..2 {
            let env = SimEnv::new(
                self.kind,
                plans[side].clone(),
                plans[1 - side].clone(),
                rng.below(5) as u32,
            );
            self.connect(side, env, hosts, now, c, rng);
            let early = if self.late { 0 } else { usize::MAX };
            self.post_recv(side, early, hosts);
            queue.push(now + rng.below(500_000), Event::Post { pair: self.q, side, life: self.life });
        }
        // The next generation: far from what stale frames of this one may carry.
        self.psn = self.psn.map(|p| (p + (1 << 22)) & 0xff_ffff);
        queue.push(now + 1_000_000, Event::Check { pair: self.q, life: self.life });
    }

    fn connect(&mut self, side: usize, env: SimEnv, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng) {
        let host = &mut hosts[side];
        let qpn = self.q as u32 + 1;
        if host.sides.len() == self.q {
            host.sides.push(Side::new(Box::new(Qp::<SimBuf>::new()), env, self.q % c.lanes));
        } else {
            host.sides[self.q].env = env;
        }
        let s = &mut host.sides[self.q];
        let max_held = max_held_by_qp(c.ring) as u16;
        s.qp.setup(qpn, self.kind, Tuning { ack_delay_ns: c.ack_delay, max_held });
        let rc = |v: u8| Some(v).filter(|_| self.kind == QpKind::Rc);
        let finite = self.spoilt.is_some();
        let asked = Asked {
            psn: [self.psn[side] | self.wrap, self.psn[1 - side] | self.wrap],
            max_rd: rng.range(1, self.max_rd.into()) as u8,
            // A spoilt pair must end by itself; the others must not end however hostile the cable is.
            timeout: match self.spoilt {
                Some(Spoilt::Leaves(..)) => rng.range(1, 15) as u8,
                Some(_) => 14,
                None => 0,
            },
            retry_cnt: if matches!(self.spoilt, Some(Spoilt::Leaves(..))) { rng.below(8) as u8 } else { 7 },
            rnr_retry: if finite && self.no_recv(&s.env, side) { *rng.pick(&[0, 1, 3, 6]) } else { 7 },
        };
        let init = QpAttrs { state: QpState::Init, ..QpAttrs::default() };
        let rtr = QpAttrs {
            state: QpState::Rtr,
            dest_qpn: Some(qpn),
            rq_psn: Some(self.psn[1 - side]),
            max_dest_rd_atomic: rc(self.max_rd),
            min_rnr_timer: rc(*rng.pick(&[1, 5, 12])),
            ..QpAttrs::default()
        };
        let rts = QpAttrs {
            state: QpState::Rts,
            sq_psn: Some(self.psn[side]),
            max_rd_atomic: rc(asked.max_rd),
            timeout: rc(asked.timeout),
            retry_cnt: rc(asked.retry_cnt),
            rnr_retry: rc(asked.rnr_retry),
            ..QpAttrs::default()
        };
        s.watch = Watch::new(self.kind, asked, now, s.qp.counters());
        s.qp.modify(&init, now, &mut s.env).expect("INIT");
        s.qp.modify(&rtr, now, &mut s.env).expect("RTR");
        if self.server != Some(side) {
            s.qp.modify(&rts, now, &mut s.env).expect("RTS");
        }
        s.qp.begin_at(asked.psn[0], asked.psn[1]);
    }

    /// The spoilt message is one that waits for a receive entry in vain.
    fn no_recv(&self, env: &SimEnv, side: usize) -> bool {
        match self.spoilt {
            Some(Spoilt::Message(s, at, _)) => s == side && env.mine.msgs[at].fault == Fault::NoRecv,
            _ => false,
        }
    }

    fn post_recv(&self, side: usize, n: usize, hosts: &mut [Host; 2]) {
        let env = &mut hosts[side].sides[self.q].env;
        env.recv_posted = env.recv_posted.saturating_add(n).min(env.recvs_wanted());
    }

    /// The programs of one side post some more.
    pub fn post(&mut self, side: usize, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        let patient = self.spoilt.is_some();
        self.post_recv(side, rng.range(1, 8) as usize, hosts);
        let s = &mut hosts[side].sides[self.q];
        let left = s.env.mine.msgs.len() - s.env.posted;
        let now_many = if c.programme.is_some() { left } else { rng.range(1, 40) as usize };
        s.env.posted += now_many.min(left);
        s.qp.notify_sq();
        hosts[side].run(self.q, now, c, rng, queue);
        let env = &hosts[side].sides[self.q].env;
        if env.posted < env.mine.msgs.len() || env.recv_posted < env.recvs_wanted() {
            // RNR retries are few in a spoilt pair: its programs are quicker.
            let pause = if patient { 20_000 } else { 2_000_000 };
            queue.push(now + rng.below(pause), Event::Post { pair: self.q, side, life: self.life });
        }
    }

    /// `host` lost its power: it knows nothing any more; at the other end all that is outstanding ends.
    pub fn broken(&mut self, host: usize, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        self.life += 1;
        hosts[host].forget(self.q);
        let s = &mut hosts[1 - host].sides[self.q];
        let idle = s.qp.state() == QpState::Reset;
        s.qp.flush(&mut s.env);
        if !idle {
            assert_eq!(s.qp.state(), QpState::Err);
            assert!(s.env.sends_done() && s.env.recvs_done() == s.env.recv_posted, "something is never returned");
            let good = s.env.sent.iter().take_while(|s| **s == WcStatus::Success).count();
            assert!(s.env.sent.iter().skip(good + 1).all(|s| *s == WcStatus::WrFlushErr));
        }
        s.qp.modify(&QpAttrs::default(), now, &mut s.env).expect("RESET");
        assert!(s.qp.is_idle());
        hosts[1 - host].run(self.q, now, c, rng, queue);
        queue.push(now + rng.below(5_000_000), Event::Begin { pair: self.q, life: self.life });
    }

    /// Looks whether the generation is over.
    pub fn check(&mut self, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) {
        self.checks += 1;
        if let Some(Spoilt::Leaves(side, after)) = self.spoilt {
            let s = &mut hosts[side].sides[self.q];
            if self.checks > after && s.qp.state() != QpState::Err {
                let err = QpAttrs { state: QpState::Err, ..QpAttrs::default() };
                s.qp.modify(&err, now, &mut s.env).expect("ERR");
            }
        }
        let over = if self.spoilt.is_some() {
            self.spoilt_over(hosts, now, c, rng, queue)
        } else {
            self.clean_over(hosts, c)
        };
        if !over {
            queue.push(now + 1_000_000, Event::Check { pair: self.q, life: self.life });
            return;
        }
        self.verify(hosts, c);
        if self.generation >= c.generations {
            self.done = true;
            return;
        }
        for h in hosts.iter_mut() {
            let s = &mut h.sides[self.q];
            if rng.percent(50) {
                let err = QpAttrs { state: QpState::Err, ..QpAttrs::default() };
                s.qp.modify(&err, now, &mut s.env).expect("ERR");
            }
            s.qp.modify(&QpAttrs::default(), now, &mut s.env).expect("RESET");
        }
        // What is still on the way may arrive in the next life, where it must do no harm.
        queue.push(now + rng.pick(&[1_000, 1_000_000, 60_000_000]), Event::Begin { pair: self.q, life: self.life });
    }

    fn clean_over(&self, hosts: &[Host; 2], c: &Config) -> bool {
        let may_lose = self.kind == QpKind::Uc && c.mode == Mode::Hostile;
        hosts.iter().all(|h| {
            let s = &h.sides[self.q];
            let env = &s.env;
            assert_ne!(s.qp.state(), QpState::Err, "a clean pair failed: {:?} {:?}", env.sent.last(), env.recv_bad);
            let all = env.posted == env.mine.msgs.len() && env.sends_done();
            all && (may_lose || env.recv_ok == env.recvs_wanted())
        })
    }

    /// One side fails by itself; the program of the other notices later.
    fn spoilt_over(&self, hosts: &mut [Host; 2], now: u64, c: &Config, rng: &mut Rng, queue: &mut Queue) -> bool {
        let failed = |h: &Host| h.sides[self.q].qp.state() == QpState::Err;
        let mut all = true;
        for i in 0..2 {
            if !failed(&hosts[i]) && failed(&hosts[1 - i]) {
                let s = &mut hosts[i].sides[self.q];
                // Those with something outstanding find out by their time-out, most of the time. The side whose
                // message was spoilt must be told by the protocol.
                let must_hear = matches!(self.spoilt, Some(Spoilt::Message(side, ..)) if side == i);
                if s.env.sends_done() || (!must_hear && rng.ppm(500)) {
                    let err = QpAttrs { state: QpState::Err, ..QpAttrs::default() };
                    s.qp.modify(&err, now, &mut s.env).expect("ERR");
                    hosts[i].run(self.q, now, c, rng, queue);
                }
            }
            let s = &mut hosts[i].sides[self.q];
            all &= s.qp.state() == QpState::Err && s.env.posted == s.env.mine.msgs.len();
        }
        if all {
            for h in hosts.iter_mut() {
                let s = &mut h.sides[self.q];
                s.qp.flush(&mut s.env);
            }
        }
        all
    }

    fn verify(&self, hosts: &[Host; 2], c: &Config) {
        for (side, h) in hosts.iter().enumerate() {
            let env = &h.sides[self.q].env;
            assert!(env.sends_done());
            match self.spoilt {
                None => {
                    assert!(env.sent.iter().all(|s| *s == WcStatus::Success));
                    assert!(env.recv_bad.is_empty());
                    if c.mode == Mode::Faultless {
                        assert_eq!(env.recv_ok, env.recvs_wanted(), "messages lost without a fault");
                    }
                }
                Some(spoilt) => {
                    assert_eq!(env.recvs_done(), env.recv_posted, "receive entries not returned");
                    let mine = match spoilt {
                        Spoilt::Message(s, at, status) if s == side => Some((at, status)),
                        _ => None,
                    };
                    self.verify_spoilt(env, mine);
                }
            }
        }
    }

    /// Successes, then one failure (or none), then flushes.
    fn verify_spoilt(&self, env: &SimEnv, mine: Option<(usize, WcStatus)>) {
        let good = env.sent.iter().take_while(|s| **s == WcStatus::Success).count();
        let rest = &env.sent[good..];
        if let Some((at, status)) = mine {
            assert_eq!((good, rest[0]), (at, status), "{:?}", env.mine.msgs[at]);
        } else if let Some(first) = rest.first() {
            assert!(matches!(first, WcStatus::WrFlushErr | WcStatus::RetryExcErr), "{first:?}");
        }
        assert!(rest.iter().skip(1).all(|s| *s == WcStatus::WrFlushErr), "{rest:?}");
    }

    /// After everything: nothing in flight, owed, held or timed.
    pub fn at_rest(&self, hosts: &[Host; 2]) {
        for h in hosts.iter() {
            let qp = &h.sides[self.q].qp;
            assert!(qp.is_idle(), "queue pair {} is not at rest", self.q);
            let violations = qp.counters().rx_violation;
            assert!(self.kind == QpKind::Rc || violations == 0, "an honest peer is said to violate the protocol");
        }
    }
}
