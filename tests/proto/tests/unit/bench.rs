// SPDX-License-Identifier: GPL-2.0
//! Two queue pairs and a wire in the test's own hands.
use proto_tests::proto::env::{SendOp, SendWr};
use proto_tests::proto::qp::{Qp, Room, Tuning};
use proto_tests::proto::qp_state::{QpAttrs, QpKind, QpState};
use proto_tests::proto::wire::{finish, Header};
use proto_tests::proto::FRAME_BYTES;
use proto_tests::sim::env::{Executed, SimEnv};
use proto_tests::sim::lane::{LaneEnd, SimBuf};
use proto_tests::sim::plan::{Fault, Msg, Plan, GOOD_KEY};
use std::rc::Rc;

/// A frame on the wire.
pub type Frame = Vec<u8>;

pub struct End {
    pub qp: Box<Qp<SimBuf>>,
    pub env: SimEnv,
    lane: LaneEnd,
}

pub struct Bench {
    pub ends: [End; 2],
    pub now: u64,
}

/// How a bench is set up.
#[derive(Clone, Copy)]
pub struct Setup {
    pub kind: QpKind,
    pub timeout: u8,
    pub rnr_retry: u8,
    pub max_rd: u8,
    pub ack_delay_ns: u64,
    pub max_held: u16,
    /// End 1 stays in RTR.
    pub server: bool,
}

pub const RC: Setup = Setup {
    kind: QpKind::Rc,
    timeout: 14,
    rnr_retry: 7,
    max_rd: 16,
    ack_delay_ns: 0,
    max_held: 128,
    server: false,
};
pub const PSN: [u32; 2] = [0xff_fff0, 77];

/// A message of `len` bytes.
pub fn msg(op: SendOp, len: u32) -> Msg {
    let wr = SendWr { op, len, rkey: GOOD_KEY, ..SendWr::default() };
    Msg { wr, expect: 0, fault: Fault::None }
}

pub fn with(mut m: Msg, flags: u8) -> Msg {
    m.wr.flags |= flags;
    m
}

pub fn spoilt(mut m: Msg, fault: Fault) -> Msg {
    m.fault = fault;
    m
}

fn plan(side: u64, mut msgs: Vec<Msg>) -> (Rc<Plan>, Rc<Executed>) {
    let tag = 0x100 | side;
    for (i, m) in msgs.iter_mut().enumerate() {
        m.wr.imm = i as u32;
        if !m.is_atomic() {
            m.wr.va = tag << 48 | (i as u64) << 32;
        } else if m.wr.va == 0 {
            m.wr.va = tag << 48 | 0xffff << 32;
        }
    }
    (Rc::new(Plan { msgs, tag }), Rc::new(Executed::default()))
}

impl Bench {
    /// Connected, with everything posted at both ends.
    pub fn new(s: Setup, a: Vec<Msg>, b: Vec<Msg>) -> Bench {
        let plans = [plan(0, a), plan(1, b)];
        let ends = [0, 1].map(|i| {
            let mut qp = Box::new(Qp::<SimBuf>::new());
            qp.setup(i as u32 + 1, s.kind, Tuning { ack_delay_ns: s.ack_delay_ns, max_held: s.max_held });
            let mut env = SimEnv::new(s.kind, plans[i].clone(), plans[1 - i].clone(), 0);
            env.posted = env.mine.msgs.len();
            env.recv_posted = env.recvs_wanted();
            End { qp, env, lane: LaneEnd::new(1024) }
        });
        let mut bench = Bench { ends, now: 1_000_000 };
        bench.connect(s);
        bench
    }

    fn connect(&mut self, s: Setup) {
        let rc = |v: u8| Some(v).filter(|_| s.kind == QpKind::Rc);
        for i in 0..2 {
            let rtr = QpAttrs {
                state: QpState::Rtr,
                dest_qpn: Some(2 - i as u32),
                rq_psn: Some(PSN[1 - i]),
                max_dest_rd_atomic: rc(s.max_rd),
                min_rnr_timer: rc(12),
                ..QpAttrs::default()
            };
            let rts = QpAttrs {
                state: QpState::Rts,
                sq_psn: Some(PSN[i]),
                max_rd_atomic: rc(s.max_rd),
                timeout: rc(s.timeout),
                retry_cnt: rc(7),
                rnr_retry: rc(s.rnr_retry),
                ..QpAttrs::default()
            };
            self.modify(i, QpAttrs { state: QpState::Init, ..QpAttrs::default() });
            self.modify(i, rtr);
            if !(s.server && i == 1) {
                self.modify(i, rts);
            }
        }
    }

    /// Connects end 0 to itself.
    pub fn loop_back(&mut self) {
        let env = &self.ends[0].env;
        let plan = (env.mine.clone(), env.mine_done.clone());
        let mut env = SimEnv::new(QpKind::Rc, plan.clone(), plan, 0);
        env.posted = env.mine.msgs.len();
        env.recv_posted = env.recvs_wanted();
        self.ends[0].env = env;
        self.modify(0, QpAttrs::default());
        self.modify(0, QpAttrs { state: QpState::Init, ..QpAttrs::default() });
        let rtr = QpAttrs {
            state: QpState::Rtr,
            dest_qpn: Some(1),
            rq_psn: Some(PSN[0]),
            max_dest_rd_atomic: Some(1),
            min_rnr_timer: Some(12),
            ..QpAttrs::default()
        };
        let rts = QpAttrs {
            state: QpState::Rts,
            sq_psn: Some(PSN[0]),
            max_rd_atomic: Some(1),
            timeout: Some(14),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            ..QpAttrs::default()
        };
        self.modify(0, rtr);
        self.modify(0, rts);
    }

    /// Once more from RESET.
    pub fn reconnect(&mut self, s: Setup) {
        self.connect(s);
    }

    pub fn modify(&mut self, i: usize, attrs: QpAttrs) {
        let now = self.now;
        let e = &mut self.ends[i];
        e.qp.modify(&attrs, now, &mut e.env).expect("modify");
    }

    pub fn to_err(&mut self, i: usize) {
        self.modify(i, QpAttrs { state: QpState::Err, ..QpAttrs::default() });
    }

    /// One frame of end `i`.
    pub fn poll(&mut self, i: usize, room: Room) -> Option<Frame> {
        let mut out = vec![0; FRAME_BYTES];
        let e = &mut self.ends[i];
        let wants = e.qp.wants_tx(self.now);
        let len = e.qp.poll_tx(self.now, &mut e.env, room, &mut out);
        if room == Room::Data && len.is_some() {
            assert!(wants.control || wants.data, "a frame that nobody wanted");
        }
        out.truncate(len?);
        assert!(finish(&mut out, 0, 0));
        Some(out)
    }

    /// All that end `i` sends now.
    pub fn send(&mut self, i: usize) -> Vec<Frame> {
        std::iter::from_fn(|| self.poll(i, Room::Data)).collect()
    }

    pub fn deliver(&mut self, i: usize, f: &Frame) {
        let h = Header::parse(f).expect("a good frame");
        self.deliver_as(i, h, &f[64..]);
    }

    /// Delivers a header of the test's own making.
    pub fn deliver_as(&mut self, i: usize, h: Header, payload: &[u8]) {
        let e = &mut self.ends[i];
        let mut c = e.lane.counters;
        e.lane.buffers.borrow_mut().rx.on_frame(&h, &mut c);
        let buf = SimBuf::new(h, payload.to_vec(), &e.lane.buffers);
        e.qp.on_frame(buf, self.now, &mut e.env);
    }

    /// Sends and delivers both ways until nothing moves; 10 us a round. Gives the number of frames.
    pub fn exchange(&mut self) -> usize {
        self.exchange_if(|_, _| true)
    }

    /// As `exchange`, with a wire that asks for each frame (sender, header).
    pub fn exchange_if(&mut self, mut passes: impl FnMut(usize, &Header) -> bool) -> usize {
        let mut total = 0;
        loop {
            let mut moved = 0;
            for i in 0..2 {
                let frames = self.send(i);
                self.now += 10_000;
                moved += frames.len();
                for f in frames {
                    if passes(i, &Header::parse(&f).expect("good")) {
                        self.deliver(1 - i, &f);
                    }
                }
            }
            if moved == 0 {
                return total;
            }
            total += moved;
        }
    }

    /// Moves the time to the next deadline of either end and runs its timer. False: there is none.
    pub fn wait(&mut self) -> bool {
        let next = self.ends.iter().filter_map(|e| e.qp.next_deadline()).min();
        let Some(at) = next else { return false };
        self.now = self.now.max(at);
        for e in &mut self.ends {
            if e.qp.next_deadline().is_some_and(|d| d <= self.now) {
                e.qp.on_timer(self.now, &mut e.env);
            }
        }
        true
    }

    /// Exchanges and waits until nothing is left; at most `rounds` waits.
    pub fn finish(&mut self, rounds: usize, mut passes: impl FnMut(usize, &Header) -> bool) {
        for _ in 0..rounds {
            self.exchange_if(&mut passes);
            if !self.wait() {
                self.exchange_if(&mut passes);
                return;
            }
        }
        panic!("not over: {:?} {:?}", self.ends[0].qp.counters(), self.ends[1].qp.counters());
    }

    /// Everything succeeded, and both ends rest.
    pub fn assert_all_good(&self) {
        for e in &self.ends {
            assert!(e.env.sends_done());
            assert!(e.env.sent.iter().all(|s| *s as u8 == 0), "{:?}", e.env.sent);
            assert_eq!(e.env.sent.len(), e.env.mine.msgs.len());
            assert_eq!(e.env.recv_ok, e.env.recvs_wanted());
            assert!(e.qp.is_idle());
            assert!(!e.qp.wants_tx(self.now).control);
        }
    }
}
