// SPDX-License-Identifier: GPL-2.0

//! Work queues, and jobs: a method of an object that runs on a work queue, at
//! once or at a given time. What the kernel crate lacks: cancelling, and
//! re-arming for an earlier time.

use super::bindings;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// A work queue of our own; dropping it waits for everything queued on it.
pub(crate) struct WorkQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: work queues are usable from any thread.
unsafe impl Send for WorkQueue {}
// SAFETY: as above.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// `urgent`: for what moves frames; otherwise for what may sleep for long.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(urgent: bool) -> Result<Self> {
        // SAFETY: process context; the result is checked.
        NonNull::new(unsafe { bindings::u4r_wq_alloc(urgent) })
            .map(Self)
            .ok_or(ENOMEM)
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        // SAFETY: ours, and nobody can queue any more: every job holds a
        // reference to an object that its owner stopped before.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}

/// An object with jobs; `ID` tells several jobs of one object apart.
pub(crate) trait Runs<const ID: usize = 0>: Send + Sync + Sized + 'static {
    /// Runs in process context on the job's queue, never twice at once.
    fn run(this: &Arc<Self>);
}

struct Inner<T> {
    job: Opaque<bindings::u4r_job>,
    target: UnsafeCell<Option<Arc<T>>>,
    stopped: Atomic<bool>,
}

/// A job of `T`. It keeps its `T` alive until [`Job::stop`], which the owner must
/// therefore call; the work queue must outlive the job.
pub(crate) struct Job<T>(Pin<KBox<Inner<T>>>);

// SAFETY: the target is only shared, and the C part is made for concurrent use.
unsafe impl<T: Send + Sync> Send for Job<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Job<T> {}

impl<T> Job<T> {
    /// A job that calls `<T as Runs<ID>>::run` on `queue`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new<const ID: usize>(queue: &WorkQueue, target: Arc<T>) -> Result<Self>
    where
        T: Runs<ID>,
    {
        let inner = KBox::pin(
            Inner {
                job: Opaque::zeroed(),
                target: UnsafeCell::new(Some(target)),
                stopped: Atomic::new(false),
            },
            GFP_KERNEL,
        )?;
        let arg = (&raw const *inner).cast_mut().cast();
        // SAFETY: the job lies pinned in the box, which is freed only after
        // `u4r_job_stop`; `trampoline` gets the pointer to the box's content.
        unsafe {
            bindings::u4r_job_init(
                inner.job.get(),
                queue.0.as_ptr(),
                Some(trampoline::<T, ID>),
                arg,
            )
        };
        Ok(Self(inner))
    }

    /// Runs the job as soon as possible, once more if it is just running.
    #[inline]
    pub(crate) fn queue(&self) {
        // SAFETY: initialised; a stopped job ignores this.
        unsafe { bindings::u4r_job_queue(self.0.job.get()) };
    }

    /// Runs the job at `ns` on the clock of [`super::clock::now_ns`], or earlier
    /// if it is already due earlier.
    #[inline]
    pub(crate) fn at(&self, ns: u64) {
        // SAFETY: initialised; a stopped job ignores this.
        unsafe { bindings::u4r_job_at(self.0.job.get(), ns) };
    }

    /// Waits until a run that is queued or under way has ended. Not from the job.
    #[allow(dead_code)]
    pub(crate) fn flush(&self) {
        // SAFETY: initialised, process context.
        unsafe { bindings::u4r_job_flush(self.0.job.get()) };
    }

    /// Ends the job for good: when the first call returns it neither runs nor will
    /// run again. Returns the reference it held. Never from the job itself.
    pub(crate) fn stop(&self) -> Option<Arc<T>> {
        if self.0.stopped.xchg(true, Full) {
            return None;
        }
        // SAFETY: initialised, process context.
        unsafe { bindings::u4r_job_stop(self.0.job.get()) };
        // SAFETY: `stopped` admits one caller, and the job no longer reads it.
        unsafe { (*self.0.target.get()).take() }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// # Safety
///
/// `arg` points at the `Inner<T>` of a job that is not yet stopped.
unsafe extern "C" fn trampoline<T: Runs<ID>, const ID: usize>(arg: *mut c_void) {
    // SAFETY: see above; `stop` takes the target only after this has ended.
    let target = unsafe { &*(*arg.cast::<Inner<T>>()).target.get() };
    if let Some(target) = target {
        T::run(target);
    }
}
