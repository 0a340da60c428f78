// SPDX-License-Identifier: GPL-2.0
//! Objects that the RDMA core allocates for us, and what all its callbacks share.

use super::bindings as c;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::{Arc, SpinLock};

/// An object of the core's (`C` first, at offset 0) with a reference to ours.
/// The core hands it over zeroed, i.e. with no reference.
#[repr(C)]
pub(super) struct Object<C, S> {
    core: C,
    state: *const S,
}

impl<C, S> Object<C, S> {
    /// Hands our state to the core's object.
    ///
    /// # Safety
    ///
    /// `core` lies at the start of an `Object<C, S>` that has no state yet.
    pub(super) unsafe fn attach(core: *mut C, state: Arc<S>) {
        // SAFETY: By the contract the object is ours to write.
        unsafe { (*core.cast::<Self>()).state = Arc::into_raw(state) };
    }

    /// Takes our state back.
    ///
    /// # Safety
    ///
    /// As for [`Self::state`], and nothing will ask for the state any more.
    pub(super) unsafe fn detach(core: *mut C) -> Arc<S> {
        // SAFETY: `attach` stored the result of `into_raw` there.
        unsafe { Arc::from_raw((*core.cast::<Self>()).state) }
    }

    /// Our state.
    ///
    /// # Safety
    ///
    /// `core` lies at the start of an `Object<C, S>` with a state, which stays
    /// attached for `'a`.
    #[inline]
    pub(super) unsafe fn state<'a>(core: *mut C) -> Borrowed<'a, S> {
        // SAFETY: `attach` stored the result of `into_raw` there, and `'a` is the
        // caller's promise.
        unsafe { Borrowed::new((*core.cast::<Self>()).state) }
    }
}

/// A reference that C holds, lent for `'a`. Costs no counting.
pub(super) struct Borrowed<'a, S> {
    state: ManuallyDrop<Arc<S>>,
    lent: PhantomData<&'a S>,
}

impl<S> Borrowed<'_, S> {
    /// # Safety
    ///
    /// `raw` came from `Arc::into_raw` and is not taken back during the lifetime.
    #[inline]
    pub(super) unsafe fn new(raw: *const S) -> Self {
        // SAFETY: By the contract; the count is left alone, as it is never dropped.
        let state = ManuallyDrop::new(unsafe { Arc::from_raw(raw) });
        Self {
            state,
            lent: PhantomData,
        }
    }
}

impl<S> Deref for Borrowed<'_, S> {
    type Target = Arc<S>;

    #[inline]
    fn deref(&self) -> &Arc<S> {
        &self.state
    }
}

/// A C structure of zeroes.
///
/// # Safety
///
/// All-zero bytes are a valid `T`, as is true of C's structures in bindgen's form.
pub(super) const unsafe fn zeroed<T>() -> T {
    // SAFETY: The caller's promise.
    unsafe { core::mem::zeroed() }
}

/// What a callback returns to C.
#[inline]
pub(super) fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// `EOPNOTSUPP`, which programs tell apart from all other errors.
pub(crate) fn unsupported() -> Error {
    Error::from_errno(-(c::EOPNOTSUPP as i32))
}

/// Answers a program: copies `response` to it, cut to the room that it gave.
/// Does nothing for a kernel user.
///
/// # Safety
///
/// `udata` is NULL or the udata of the callback that is running. `T` is a
/// structure of the ABI header, without padding.
pub(super) unsafe fn respond<T>(udata: *mut c::ib_udata, response: &T) -> Result {
    if udata.is_null() {
        return Ok(());
    }
    // SAFETY: By the contract; the source is valid for its size.
    let ret = unsafe { c::_ib_respond_udata(udata, (response as *const T).cast(), size_of::<T>()) };
    kernel::error::to_result(ret)
}

/// The target of completions and events: an object of the core's that may go
/// away while somebody is about to notify it. The lock also keeps completions
/// of one completion queue from running concurrently, as the core demands.
///
/// Lock order: taken last, with no other lock held.
#[pin_data]
pub(crate) struct Target<C> {
    #[pin]
    core: SpinLock<Option<NonNull<C>>>,
}

// SAFETY: The pointer is used under the lock only, and these objects may be
// notified from any thread.
unsafe impl<C> Send for Target<C> {}
// SAFETY: As for `Send`.
unsafe impl<C> Sync for Target<C> {}

impl<C> Target<C> {
    /// # Safety
    ///
    /// `core` stays valid until [`Target::close`].
    pub(super) unsafe fn new(core: *mut C) -> impl PinInit<Self> {
        pin_init!(Self { core <- kernel::new_spinlock!(NonNull::new(core), "u4r_target") })
    }

    /// Nothing is notified any more once this has returned.
    pub(crate) fn close(&self) {
        *self.core.lock() = None;
    }

    pub(super) fn with(&self, notify: impl FnOnce(*mut C)) {
        let core = self.core.lock();
        if let Some(core) = *core {
            notify(core.as_ptr());
        }
    }
}

impl Target<c::ib_cq> {
    /// Tells the owner that there are completions.
    pub(crate) fn complete(&self) {
        // SAFETY: Valid until `close`, which waits for the lock.
        self.with(|cq| unsafe { c::u4r_cq_complete(cq) });
    }

    /// Reports that the queue overran.
    pub(crate) fn overrun(&self) {
        // SAFETY: Valid until `close`, which waits for the lock.
        self.with(|cq| unsafe { c::u4r_cq_event(cq, c::ib_event_type_IB_EVENT_CQ_ERR) });
    }
}

/// An asynchronous event of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum QpEvent {
    /// The queue pair failed by a fault of its own (corrupt entry, overrun).
    Fatal = c::ib_event_type_IB_EVENT_QP_FATAL as isize,
    /// The peer sent what it must not.
    RequestError = c::ib_event_type_IB_EVENT_QP_REQ_ERR as isize,
    /// The peer asked for memory that it may not touch.
    AccessError = c::ib_event_type_IB_EVENT_QP_ACCESS_ERR as isize,
    /// The queue pair is in error and takes no more from its shared receive queue.
    LastWqe = c::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED as isize,
    /// The first frame came before the queue pair was ready to send.
    Established = c::ib_event_type_IB_EVENT_COMM_EST as isize,
}

impl Target<c::ib_qp> {
    /// Reports an event.
    pub(crate) fn event(&self, event: QpEvent) {
        // SAFETY: Valid until `close`, which waits for the lock.
        self.with(|qp| unsafe { c::u4r_qp_event(qp, event as u32) });
    }
}

/// Compares the sizes of the core's types with those of the C compiler: a
/// mismatch would corrupt memory.
///
/// # Errors
///
/// `EINVAL` on a mismatch.
pub(super) fn check_layouts() -> Result {
    let mut sizes = c::u4r_ib_sizes::default();
    // SAFETY: It only fills the structure.
    unsafe { c::u4r_ib_sizes(&mut sizes) };
    let pairs = [
        ("ib_device", sizes.device, size_of::<c::ib_device>()),
        (
            "ib_device_ops",
            sizes.device_ops,
            size_of::<c::ib_device_ops>(),
        ),
        ("ib_ucontext", sizes.ucontext, size_of::<c::ib_ucontext>()),
        ("ib_pd", sizes.pd, size_of::<c::ib_pd>()),
        ("ib_cq", sizes.cq, size_of::<c::ib_cq>()),
        ("ib_qp", sizes.qp, size_of::<c::ib_qp>()),
        ("ib_srq", sizes.srq, size_of::<c::ib_srq>()),
        ("ib_mr", sizes.mr, size_of::<c::ib_mr>()),
        ("ib_mw", sizes.mw, size_of::<c::ib_mw>()),
        ("ib_wc", sizes.wc, size_of::<c::ib_wc>()),
        ("ib_send_wr", sizes.send_wr, size_of::<c::ib_send_wr>()),
        ("ib_qp_attr", sizes.qp_attr, size_of::<c::ib_qp_attr>()),
    ];
    for (name, theirs, ours) in pairs {
        if theirs != ours {
            pr_err!(
                "layout of {} differs: {} bytes in C, {} in Rust\n",
                name,
                theirs,
                ours
            );
            return Err(EINVAL);
        }
    }
    Ok(())
}
