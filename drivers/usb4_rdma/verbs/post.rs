// SPDX-License-Identifier: GPL-2.0
//! Posting by kernel users: in any context, so it only puts entries into the
//! rings, in the same format as programs do; a job does the rest.
//!
//! Lock order: `post` alone, with interrupts off.

use super::qp::Qp;
use crate::ffi::abi::{Sge, RQE_BYTES, SQE_BYTES};
use crate::ffi::ib_object::unsupported;
use crate::ffi::ring::{KernelWord, Ring, UserWord};
use kernel::prelude::*;

/// A send request; the members are those of `u4r_sqe`.
#[derive(Default)]
pub(crate) struct SendPost<'a> {
    pub(crate) wr_id: u64,
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
    pub(crate) imm: u32,
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) sges: &'a [Sge],
}

/// A receive request.
pub(crate) struct RecvPost<'a> {
    pub(crate) wr_id: u64,
    pub(crate) sges: &'a [Sge],
}

/// The place for one more entry.
fn place(ring: &Ring, prod: u32, sges: &[Sge], max: u32) -> Result {
    if sges.len() > max as usize {
        return Err(EINVAL);
    }
    let used = prod.wrapping_sub(ring.kernel(KernelWord::Cons));
    if used < ring.entries() {
        Ok(())
    } else {
        Err(ENOMEM)
    }
}

fn write_sges(ring: &Ring, index: u32, first: usize, sges: &[Sge]) {
    for (i, sge) in sges.iter().enumerate() {
        let rest = u64::from(sge.length) | u64::from(sge.lkey) << 32;
        ring.write(index, first + 2 * i, &[sge.addr, rest]);
    }
}

/// Puts a receive request into the ring, as number `index`. The next number.
///
/// # Errors
///
/// `ENOMEM` if the ring is full, `EINVAL` for more than `max` scatter entries.
pub(super) fn put_recv(ring: &Ring, index: u32, request: &RecvPost<'_>, max: u32) -> Result<u32> {
    place(ring, index, request.sges, max)?;
    ring.write(index, 0, &[request.wr_id, request.sges.len() as u64]);
    write_sges(ring, index, (RQE_BYTES / 8) as usize, request.sges);
    let next = index.wrapping_add(1);
    ring.set_user(UserWord::Prod, next);
    Ok(next)
}

impl Qp {
    /// Puts a send request of a kernel user into the ring.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the queue is full, `EINVAL` for too long a scatter list,
    /// `EOPNOTSUPP` for a program's queue pair, whose entries come by its ring.
    pub(crate) fn post_send(&self, request: &SendPost<'_>) -> Result {
        if !self.is_kernel() {
            return Err(unsupported());
        }
        let ring = &self.rings.send;
        let mut post = self.post.lock();
        let index = post.send_prod;
        place(ring, index, request.sges, self.caps.send_sge)?;
        let count = request.sges.len() as u64;
        let words = [
            request.wr_id,
            request.remote_addr,
            request.compare_add,
            request.swap,
            u64::from(request.rkey) | u64::from(request.imm) << 32,
            0,
            0,
            u64::from(request.opcode) | u64::from(request.flags) << 8 | count << 16,
        ];
        ring.write(index, 0, &words);
        write_sges(ring, index, (SQE_BYTES / 8) as usize, request.sges);
        post.send_prod = index.wrapping_add(1);
        ring.set_user(UserWord::Prod, post.send_prod);
        Ok(())
    }

    /// Puts a receive request of a kernel user into the ring.
    ///
    /// # Errors
    ///
    /// As for [`Qp::post_send`].
    pub(crate) fn post_recv(&self, request: &RecvPost<'_>) -> Result {
        if !self.is_kernel() {
            return Err(unsupported());
        }
        // With a shared receive queue there is no ring to post to.
        let ring = self.rings.recv.as_ref().ok_or(EINVAL)?;
        let mut post = self.post.lock();
        post.recv_prod = put_recv(ring, post.recv_prod, request, self.caps.recv_sge)?;
        Ok(())
    }

    /// Has the job look at what was posted.
    pub(crate) fn kick(&self) {
        if let Some(job) = self.job.as_ref() {
            job.queue();
        }
    }
}
