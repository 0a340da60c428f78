// SPDX-License-Identifier: GPL-2.0

//! A spinlock that disables interrupts: for state that is touched in any context.

use super::bindings;
use kernel::prelude::*;
use kernel::sync::lock::{Backend, Guard, Lock};

/// `spin_lock_irqsave`. Made with [`new_irqlock!`].
pub(crate) type IrqLock<T> = Lock<T, IrqBackend>;
/// Holds an [`IrqLock`], with interrupts off.
#[allow(dead_code)]
pub(crate) type IrqGuard<'a, T> = Guard<'a, T, IrqBackend>;

/// Initialiser of an [`IrqLock`], with a lock class of its own.
macro_rules! new_irqlock {
    ($inner:expr, $name:literal) => {
        $crate::ffi::lock::IrqLock::new(
            $inner,
            ::kernel::optional_name!($name),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_irqlock;

pub(crate) struct IrqBackend;

// SAFETY: `spinlock_t` gives mutual exclusion, and the guard state is the
// interrupt flags of exactly this acquisition.
unsafe impl Backend for IrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(
        ptr: *mut Self::State,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: the caller promises valid pointers.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: the caller promises an initialised lock.
        unsafe { bindings::u4r_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, state: &Self::GuardState) {
        // SAFETY: the caller owns the lock, taken with these flags.
        unsafe { bindings::u4r_unlock_irqrestore(ptr, *state) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: the caller promises an initialised lock.
        unsafe { bindings::u4r_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    unsafe fn assert_is_held(_ptr: *mut Self::State) {}
}
