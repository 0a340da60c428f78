// SPDX-License-Identifier: GPL-2.0
//! DMA buffers as memory of a region: mapped into the kernel, where the CPU copies.

use super::bindings as c;
use core::ptr::NonNull;
use kernel::prelude::*;

/// A part of a DMA buffer, mapped.
///
/// # Invariants
///
/// `address` points to `length` bytes that stay mapped as long as `handle` is held.
pub(crate) struct DmaBuf {
    handle: c::u4r_dmabuf,
    address: NonNull<u8>,
    length: u64,
}

// SAFETY: The memory may be reached from any thread; the handle is only used to let go.
unsafe impl Send for DmaBuf {}
// SAFETY: As for `Send`.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Maps `length` bytes from `offset` on of the buffer that is the file `fd`.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is no file, `EINVAL` if it is no DMA buffer or too short,
    /// `EOPNOTSUPP` if the CPU cannot reach it as memory, or what its exporter answers.
    ///
    /// # Safety
    ///
    /// `device` is a registered ib_device.
    pub(super) unsafe fn map(
        device: *mut c::ib_device,
        fd: c_int,
        offset: u64,
        length: u64,
    ) -> Result<Self> {
        let mut handle = c::u4r_dmabuf::default();
        // SAFETY: The device is registered by contract; the rest is checked there.
        let ret = unsafe { c::u4r_dmabuf_get(device, fd, offset, length, &mut handle) };
        kernel::error::to_result(ret)?;
        let address = NonNull::new(handle.address.cast()).ok_or(EINVAL)?;
        // INVARIANT: The helper mapped so much.
        Ok(Self {
            handle,
            address,
            length,
        })
    }

    /// The address of `len` bytes at `offset`; None if they are not inside.
    #[inline]
    pub(super) fn at(&self, offset: u64, len: usize) -> Option<usize> {
        let end = offset.checked_add(len as u64)?;
        (end <= self.length).then(|| self.address.as_ptr() as usize + offset as usize)
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: Got by `map`, let go once; no copy is under way, as copies borrow.
        unsafe { c::u4r_dmabuf_put(&mut self.handle) };
    }
}
