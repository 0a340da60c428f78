// SPDX-License-Identifier: GPL-2.0
//! The counters of device and port, as the core asks for them.

use super::bindings as c;
use super::ib_device::device_of;
use crate::verbs::{COUNTERS, ERROR_COUNTERS};
use kernel::prelude::*;

/// Descriptions of counters, in the order of their names.
struct Descriptions<const N: usize>([c::rdma_stat_desc; N]);

// SAFETY: Pointers to constant strings.
unsafe impl<const N: usize> Sync for Descriptions<N> {}

impl<const N: usize> Descriptions<N> {
    const fn of(names: &[&'static CStr; N]) -> Self {
        let mut descriptions = [c::rdma_stat_desc {
            name: core::ptr::null(),
            flags: 0,
            priv_: core::ptr::null(),
        }; N];
        let mut i = 0;
        while i < N {
            descriptions[i].name = names[i].as_ptr().cast();
            i += 1;
        }
        Self(descriptions)
    }

    fn alloc(&'static self) -> *mut c::rdma_hw_stats {
        // SAFETY: The descriptions are static and so many.
        unsafe {
            c::rdma_alloc_hw_stats_struct(
                self.0.as_ptr(),
                N as c_int,
                c::RDMA_HW_STATS_DEFAULT_LIFESPAN as _,
            )
        }
    }
}

static OF_PORT: Descriptions<{ COUNTERS.len() }> = Descriptions::of(&COUNTERS);
static OF_DEVICE: Descriptions<{ ERROR_COUNTERS.len() }> = Descriptions::of(&ERROR_COUNTERS);

pub(super) unsafe extern "C" fn alloc_hw_port_stats(
    _core: *mut c::ib_device,
    _port: u32,
) -> *mut c::rdma_hw_stats {
    OF_PORT.alloc()
}

pub(super) unsafe extern "C" fn alloc_hw_device_stats(
    _core: *mut c::ib_device,
) -> *mut c::rdma_hw_stats {
    OF_DEVICE.alloc()
}

/// `port` 0 is the device.
pub(super) unsafe extern "C" fn get_hw_stats(
    core: *mut c::ib_device,
    stats: *mut c::rdma_hw_stats,
    port: u32,
    _index: c_int,
) -> c_int {
    let count = if port == 0 {
        ERROR_COUNTERS.len()
    } else {
        COUNTERS.len()
    };
    // SAFETY: A callback of a device of ours.
    let device = unsafe { device_of(core) };
    // SAFETY: A structure that the functions above made for this port or for the
    // device, with room for all.
    let values = unsafe { (*stats).value.as_mut_slice(count) };
    if port == 0 {
        device.error_counters(values);
    } else {
        device.counters(values);
    }
    count as c_int
}
