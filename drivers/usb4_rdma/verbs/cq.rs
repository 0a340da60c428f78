// SPDX-License-Identifier: GPL-2.0
//! Completion queues.
//!
//! Lock order: QP -> CQ (`state`, interrupts off) and nothing under it. The
//! notification target has a lock of its own, taken with no other lock held.

use super::{limits, Device};
use crate::ffi::abi;
use crate::ffi::bindings as c;
use crate::ffi::ib_context::Mapping;
use crate::ffi::ib_object::Target;
use crate::ffi::lock::{new_irqlock, IrqLock};
use crate::ffi::ring::{KernelWord, Ring, UserWord};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::barrier::{smp_mb, Full};
use kernel::sync::{Arc, Mutex};

/// What completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Opcode {
    Send = abi::U4R_WC_SEND as u8,
    Write = abi::U4R_WC_WRITE as u8,
    Read = abi::U4R_WC_READ as u8,
    CompareSwap = abi::U4R_WC_CMP_SWAP as u8,
    FetchAdd = abi::U4R_WC_FETCH_ADD as u8,
    BindMw = abi::U4R_WC_BIND_MW as u8,
    LocalInv = abi::U4R_WC_LOCAL_INV as u8,
    AtomicWrite = abi::U4R_WC_ATOMIC_WRITE as u8,
    Recv = abi::U4R_WC_RECV as u8,
    RecvWriteImm = abi::U4R_WC_RECV_WRITE_IMM as u8,
}

impl Opcode {
    fn from_raw(raw: u8) -> Self {
        match u32::from(raw) {
            abi::U4R_WC_WRITE => Self::Write,
            abi::U4R_WC_READ => Self::Read,
            abi::U4R_WC_CMP_SWAP => Self::CompareSwap,
            abi::U4R_WC_FETCH_ADD => Self::FetchAdd,
            abi::U4R_WC_BIND_MW => Self::BindMw,
            abi::U4R_WC_LOCAL_INV => Self::LocalInv,
            abi::U4R_WC_ATOMIC_WRITE => Self::AtomicWrite,
            abi::U4R_WC_RECV => Self::Recv,
            abi::U4R_WC_RECV_WRITE_IMM => Self::RecvWriteImm,
            _ => Self::Send,
        }
    }
}

/// One completion.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    /// What the program gave with the work request.
    pub(crate) wr_id: u64,
    /// The queue pair's number.
    pub(crate) qpn: u32,
    /// Bytes received or read.
    pub(crate) byte_len: u32,
    /// Immediate data in its own byte order, or the invalidated key.
    pub(crate) imm: u32,
    /// The peer's queue pair.
    pub(crate) src_qpn: u32,
    /// What completed.
    pub(crate) opcode: Opcode,
    /// A number of enum ibv_wc_status.
    pub(crate) status: u8,
    /// `U4R_WCF_*`.
    pub(crate) flags: u16,
    /// A kernel user's ib_qp; 0 in a program's queue.
    pub(crate) owner: usize,
}

/// Nothing to notify of.
const DUE_NONE: u32 = 0;
/// Completions that wake who waits for any.
const DUE_ANY: u32 = 1;
/// Completions that wake also who waits for solicited ones.
const DUE_SOLICITED: u32 = 2;

struct State {
    ring: Arc<Ring>,
    prod: u32,
    /// Entries that a kernel user has polled.
    cons: u32,
    /// The arm word that was last notified of.
    notified: u32,
    overrun: Overrun,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Overrun {
    No,
    ToReport,
    Reported,
}

/// A completion queue.
#[pin_data(PinnedDrop)]
pub(crate) struct Cq {
    device: Arc<Device>,
    number: u32,
    kernel: bool,
    /// The ring as the program may map it.
    #[pin]
    mapping: Mutex<Option<Mapping>>,
    due: Atomic<u32>,
    #[pin]
    state: IrqLock<State>,
    #[pin]
    target: Target<c::ib_cq>,
}

impl Cq {
    /// A ring for at least `entries` completions.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none or more than the limit, `ENOMEM`.
    pub(crate) fn ring(entries: u32) -> Result<Arc<Ring>> {
        if entries == 0 || entries > limits::MAX_CQE {
            return Err(EINVAL);
        }
        let ring = Ring::new(entries.next_power_of_two(), size_of::<c::u4r_cqe>() as u32)?;
        Ok(Arc::new(ring, GFP_KERNEL)?)
    }

    /// # Errors
    ///
    /// `ENOMEM`, also beyond the device's limit.
    pub(crate) fn new(
        device: &Arc<Device>,
        ring: Arc<Ring>,
        mapping: Option<Mapping>,
        target: impl PinInit<Target<c::ib_cq>>,
    ) -> Result<Arc<Self>> {
        device.cqs.take(limits::MAX_CQ)?;
        let initial = State {
            ring,
            prod: 0,
            cons: 0,
            notified: 0,
            overrun: Overrun::No,
        };
        let made = Arc::pin_init(
            pin_init!(Self {
                device: device.clone(),
                number: device.next_cqn(),
                kernel: mapping.is_none(),
                mapping <- kernel::new_mutex!(mapping, "u4r_cq_mapping"),
                due: Atomic::new(DUE_NONE),
                state <- new_irqlock!(initial, "u4r_cq"),
                target <- target,
            }),
            GFP_KERNEL,
        );
        if made.is_err() {
            device.cqs.give_back();
        }
        made
    }

    /// Its number, for people.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Ends it: nobody is notified any more, the program cannot map it any more.
    pub(crate) fn destroy(&self) {
        self.target.close();
        let mapping = self.mapping.lock().take();
        drop(mapping);
    }

    /// Adds a completion; the owner is told by the next [`Cq::notify`]. False if
    /// there was no room: the completion is lost and the queue is done for.
    pub(crate) fn push(&self, done: &Completion, solicited: bool) -> bool {
        let mut state = self.state.lock();
        let cons = self.consumed(&state);
        // Also true for a consumer counter that makes no sense.
        if state.prod.wrapping_sub(cons) >= state.ring.entries() {
            if state.overrun == Overrun::No {
                state.overrun = Overrun::ToReport;
                state
                    .ring
                    .set_kernel(KernelWord::State, abi::U4R_CQ_OVERRUN);
            }
            self.due.store(DUE_SOLICITED, Relaxed);
            return false;
        }
        store(&state.ring, state.prod, done);
        state.prod = state.prod.wrapping_add(1);
        state.ring.set_kernel(KernelWord::Prod, state.prod);
        if solicited || done.status != 0 {
            self.due.store(DUE_SOLICITED, Relaxed);
        } else if self.due.load(Relaxed) == DUE_NONE {
            self.due.store(DUE_ANY, Relaxed);
        }
        true
    }

    /// How far the owner has come.
    fn consumed(&self, state: &State) -> u32 {
        if self.kernel {
            state.cons
        } else {
            state.ring.user(UserWord::Cons)
        }
    }

    /// Goes over to another ring, with the completions that have not been polled.
    /// The program does not poll or arm meanwhile, else it loses what it polls.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they have no room there, or the program has spoiled its counter;
    /// nothing has changed then.
    pub(crate) fn resize(&self, ring: Arc<Ring>, mapping: Mapping) -> Result {
        let mut state = self.state.lock();
        let cons = self.consumed(&state);
        let waiting = state.prod.wrapping_sub(cons);
        if waiting > state.ring.entries() || waiting > ring.entries() {
            return Err(EINVAL);
        }
        for i in 0..waiting {
            let index = cons.wrapping_add(i);
            let words: [u64; CQE_WORDS] = state.ring.read(index, 0);
            ring.write(index, 0, &words);
            ring.publish(index, CQE_VALID_WORD, valid_word(&ring, index));
        }
        ring.set_user(UserWord::Cons, cons);
        ring.set_user(UserWord::Arm, state.ring.user(UserWord::Arm));
        ring.set_kernel(KernelWord::Prod, state.prod);
        if state.overrun != Overrun::No {
            ring.set_kernel(KernelWord::State, abi::U4R_CQ_OVERRUN);
        }
        let old = core::mem::replace(&mut state.ring, ring);
        drop(state);
        // Freeing sleeps.
        drop(old);
        let old = self.mapping.lock().replace(mapping);
        drop(old);
        Ok(())
    }

    /// Tells the owner of what was pushed since the last call, if it asked for
    /// that. Call it without any lock.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.due.load(Relaxed) != DUE_NONE {
            self.notify_due();
        }
    }

    fn notify_due(&self) {
        let mut state = self.state.lock();
        let due = self.due.xchg(DUE_NONE, Relaxed);
        // Completions before, the arm word after: pairs with the program, which
        // arms first and then polls once more.
        smp_mb(Full);
        let arm = state.ring.user(UserWord::Arm);
        let wakes = match arm & abi::U4R_ARM_KIND_MASK {
            abi::U4R_ARM_ANY => due != DUE_NONE,
            abi::U4R_ARM_SOLICITED => due == DUE_SOLICITED,
            _ => false,
        };
        let fire = wakes && arm != state.notified;
        if fire {
            state.notified = arm;
        }
        let overrun = state.overrun == Overrun::ToReport;
        if overrun {
            state.overrun = Overrun::Reported;
        }
        drop(state);
        if overrun {
            self.target.overrun();
        }
        if fire {
            self.target.complete();
        }
    }

    /// Takes the oldest completion, for a kernel user.
    pub(crate) fn poll(&self) -> Option<Completion> {
        let mut state = self.state.lock();
        if state.cons == state.prod {
            return None;
        }
        let [wr_id, qp, imm, kind, owner] = state.ring.read::<5>(state.cons, 0);
        state.cons = state.cons.wrapping_add(1);
        Some(Completion {
            wr_id,
            qpn: qp as u32,
            byte_len: (qp >> 32) as u32,
            imm: imm as u32,
            src_qpn: (imm >> 32) as u32,
            opcode: Opcode::from_raw(kind as u8),
            status: (kind >> 8) as u8,
            flags: (kind >> 16) as u16,
            owner: owner as usize,
        })
    }

    /// Arms the queue for a kernel user. Whether there are completions already.
    pub(crate) fn arm(&self, solicited: bool) -> bool {
        let state = self.state.lock();
        let kind = if solicited {
            abi::U4R_ARM_SOLICITED
        } else {
            abi::U4R_ARM_ANY
        };
        let count = (state.ring.user(UserWord::Arm) >> abi::U4R_ARM_COUNT_SHIFT).wrapping_add(1);
        state
            .ring
            .set_user(UserWord::Arm, count << abi::U4R_ARM_COUNT_SHIFT | kind);
        state.cons != state.prod
    }
}

fn store(ring: &Ring, index: u32, done: &Completion) {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let kind =
        u32::from(done.opcode as u8) | u32::from(done.status) << 8 | u32::from(done.flags) << 16;
    let words = [
        done.wr_id,
        pair(done.qpn, done.byte_len),
        pair(done.imm, done.src_qpn),
        pair(kind, 0),
        done.owner as u64,
    ];
    ring.write(index, 0, &words);
    ring.publish(index, CQE_VALID_WORD, valid_word(ring, index));
}

/// The value of `valid` in the pass to which an index belongs.
fn valid_word(ring: &Ring, index: u32) -> u32 {
    1 + u32::from(index & ring.entries() != 0)
}

/// 64-bit words of an entry.
const CQE_WORDS: usize = size_of::<c::u4r_cqe>() / 8;
/// Index of `valid` among the 32-bit words of an entry.
const CQE_VALID_WORD: usize = core::mem::offset_of!(c::u4r_cqe, valid) / 4;

#[pinned_drop]
impl PinnedDrop for Cq {
    fn drop(self: Pin<&mut Self>) {
        self.device.cqs.give_back();
    }
}
