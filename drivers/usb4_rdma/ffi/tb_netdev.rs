// SPDX-License-Identifier: GPL-2.0

//! The network interface that thunderbolt-net makes for the same cable. It is found
//! by its parent device: its name may be anything.

use super::bindings;
use super::tb_xdomain::Xdomain;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// A counted reference to a network interface.
pub(crate) struct Netdev(NonNull<bindings::net_device>);

// SAFETY: reference counted and usable from any thread.
unsafe impl Send for Netdev {}
// SAFETY: as above.
unsafe impl Sync for Netdev {}

impl Netdev {
    /// The registered interface of this cable, in whatever network namespace.
    pub(crate) fn of(xd: &Xdomain) -> Option<Self> {
        // SAFETY: the helper takes a reference under RCU.
        NonNull::new(unsafe { bindings::u4r_find_netdev(xd.as_ptr()) }).map(Self)
    }

    /// For the RDMA core; valid while `self` exists.
    pub(crate) fn as_ptr(&self) -> *mut bindings::net_device {
        self.0.as_ptr()
    }
}

impl PartialEq for Netdev {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Drop for Netdev {
    fn drop(&mut self) {
        // SAFETY: our reference.
        unsafe { bindings::u4r_netdev_put(self.as_ptr()) };
    }
}

/// Is told when interfaces of thunderbolt-net come, go, or change their state.
pub(crate) trait NetdevWatcher: Send + Sync + 'static {
    /// Something changed; rtnl is held, so do no more than queue a job.
    fn changed(&self);
}

/// What the notifier chain holds: the block comes first, so it leads to the watcher.
#[repr(C)]
struct Block<T> {
    block: Opaque<bindings::notifier_block>,
    watcher: Arc<T>,
}

/// Calls a watcher until it is dropped.
pub(crate) struct NetdevNotifier<T: NetdevWatcher>(Pin<KBox<Block<T>>>);

// SAFETY: the watcher is shared, the block belongs to the notifier chain.
unsafe impl<T: NetdevWatcher> Send for NetdevNotifier<T> {}
// SAFETY: as above.
unsafe impl<T: NetdevWatcher> Sync for NetdevNotifier<T> {}

impl<T: NetdevWatcher> NetdevNotifier<T> {
    /// Registers the watcher; it is called at once for interfaces that exist.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the notifier chain says.
    pub(crate) fn new(watcher: Arc<T>) -> Result<Self> {
        let block = KBox::pin(
            Block {
                block: Opaque::zeroed(),
                watcher,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: pinned, and unregistered before it is freed.
        let ret = unsafe {
            (*block.block.get()).notifier_call = Some(notified::<T>);
            bindings::u4r_netdev_watch(block.block.get())
        };
        kernel::error::to_result(ret)?;
        Ok(Self(block))
    }
}

impl<T: NetdevWatcher> Drop for NetdevNotifier<T> {
    fn drop(&mut self) {
        // SAFETY: registered in `new`; waits for running calls (rtnl).
        unsafe { bindings::u4r_netdev_unwatch(self.0.block.get()) };
    }
}

/// # Safety
///
/// Called by the notifier chain with the block of a `Block<T>`.
unsafe extern "C" fn notified<T: NetdevWatcher>(
    block: *mut bindings::notifier_block,
    event: c_ulong,
    info: *mut c_void,
) -> c_int {
    // SAFETY: the block is the first member; `info` is a netdevice notifier's.
    unsafe {
        if bindings::u4r_netdev_event_matters(event, info) {
            (*block.cast::<Block<T>>()).watcher.changed();
        }
    }
    bindings::NOTIFY_DONE as c_int
}
