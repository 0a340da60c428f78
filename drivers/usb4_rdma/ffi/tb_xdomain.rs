// SPDX-License-Identifier: GPL-2.0

//! The other host as the thunderbolt core sees it: an XDomain, its HopIDs, its
//! paths and its control messages. What is allocated is released by dropping it.

use super::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::{atomic_load, Relaxed};

/// A counted reference to an XDomain.
pub(crate) struct Xdomain(NonNull<bindings::tb_xdomain>);

// SAFETY: devices are reference counted and usable from any thread.
unsafe impl Send for Xdomain {}
// SAFETY: as above; the fields read here are constant or read with one load.
unsafe impl Sync for Xdomain {}

/// Longest text of [`Xdomain::peer_name`].
const NAME_SIZE: usize = 64;

impl Xdomain {
    /// The XDomain that a service belongs to.
    ///
    /// # Safety
    ///
    /// `service` is a live service device.
    pub(super) unsafe fn of_service(service: *mut bindings::tb_service) -> Result<Self> {
        // SAFETY: see above; the helper takes a reference.
        NonNull::new(unsafe { bindings::u4r_service_xdomain(service) })
            .map(Self)
            .ok_or(ENODEV)
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::tb_xdomain {
        self.0.as_ptr()
    }

    /// The host interface the cable is plugged into.
    pub(super) fn nhi(&self) -> NonNull<bindings::tb_nhi> {
        // SAFETY: an XDomain's domain always has a host interface, which lives
        // as long as the XDomain's services are bound.
        unsafe { NonNull::new_unchecked(bindings::u4r_xdomain_nhi(self.as_ptr())) }
    }

    /// The PCI function of the host interface, as the parent of other devices.
    pub(crate) fn nhi_device(&self) -> *mut bindings::device {
        // SAFETY: alive while the XDomain's services are bound.
        unsafe { (*self.nhi().as_ptr()).dev }
    }

    /// Ring pairs that the host interface could still give.
    pub(crate) fn free_ring_pairs(&self) -> u32 {
        // SAFETY: alive while the XDomain's services are bound.
        unsafe { bindings::u4r_nhi_free_pairs(self.nhi().as_ptr()) }
    }

    /// Ring pairs to leave for interfaces of thunderbolt-net that have none yet.
    pub(crate) fn net_ring_reserve(&self) -> u32 {
        // SAFETY: we hold a reference.
        unsafe { bindings::u4r_net_ring_reserve(self.as_ptr()) }
    }

    /// The other host's UUID as the thunderbolt core keeps it.
    pub(crate) fn remote_uuid(&self) -> [u8; 16] {
        // SAFETY: set before services appear, and constant.
        unsafe { (*(*self.as_ptr()).remote_uuid).b }
    }

    /// This host's UUID.
    pub(crate) fn local_uuid(&self) -> [u8; 16] {
        // SAFETY: as above.
        unsafe { (*(*self.as_ptr()).local_uuid).b }
    }

    /// The route string that leads to the other host.
    pub(crate) fn route(&self) -> u64 {
        // SAFETY: constant.
        unsafe { (*self.as_ptr()).route }
    }

    /// Link speed of one lane in Gb/s: 10, 20 or 40.
    pub(crate) fn link_speed(&self) -> u32 {
        // SAFETY: one aligned word that may change; we want its present value.
        unsafe { atomic_load(&raw mut (*self.as_ptr()).link_speed, Relaxed) }
    }

    /// Transmitting lanes of the link: 1, 2, or 3 of an asymmetric link.
    pub(crate) fn link_width(&self) -> u32 {
        // SAFETY: as above.
        match unsafe { atomic_load(&raw mut (*self.as_ptr()).link_width, Relaxed) } {
            bindings::tb_link_width_TB_LINK_WIDTH_DUAL => 2,
            bindings::tb_link_width_TB_LINK_WIDTH_ASYM_TX => 3,
            _ => 1,
        }
    }

    /// Has the cable been pulled?
    pub(crate) fn is_unplugged(&self) -> bool {
        // SAFETY: a bool that goes from false to true once.
        unsafe { (&raw const (*self.as_ptr()).is_unplugged).read_volatile() }
    }

    /// The other host's vendor and name.
    pub(crate) fn peer_name(&self) -> PeerName {
        let mut name = PeerName([0; NAME_SIZE]);
        // SAFETY: the buffer has the size given, and process context may sleep.
        unsafe {
            bindings::u4r_peer_name(self.as_ptr(), name.0.as_mut_ptr().cast(), NAME_SIZE)
        };
        name
    }

    /// The XDomain's name in sysfs, as in `0-1`.
    pub(crate) fn device_name(&self) -> &CStr {
        // SAFETY: a registered device's name does not change.
        unsafe { CStr::from_char_ptr(bindings::u4r_xdomain_dev_name(self.as_ptr())) }
    }

    /// Sends a control message of at most 252 bytes. It may be lost.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOTCONN` when the domain's control channel is down.
    pub(crate) fn send(&self, message: &[u32]) -> Result {
        // SAFETY: the core copies the message before it returns.
        kernel::error::to_result(unsafe {
            bindings::u4r_xdomain_send(
                self.as_ptr(),
                message.as_ptr().cast(),
                core::mem::size_of_val(message),
            )
        })
    }

    /// A HopID for frames to the other host.
    ///
    /// # Errors
    ///
    /// `ENOSPC`.
    pub(crate) fn alloc_out_hop(&self) -> Result<OutHop> {
        // SAFETY: we hold a reference.
        let id = unsafe { bindings::tb_xdomain_alloc_out_hopid(self.as_ptr(), -1) };
        if id < 0 {
            return Err(Error::from_errno(id));
        }
        Ok(OutHop {
            xd: self.clone(),
            id,
        })
    }

    /// The HopID that the other host sends on.
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is in use here, `EINVAL` when it cannot be.
    pub(crate) fn alloc_in_hop(&self, id: u16) -> Result<InHop> {
        let wanted = i32::from(id);
        // SAFETY: we hold a reference.
        let got = unsafe { bindings::tb_xdomain_alloc_in_hopid(self.as_ptr(), wanted) };
        if got < 0 {
            return Err(Error::from_errno(got));
        }
        let hop = InHop {
            xd: self.clone(),
            id: got,
        };
        if got == wanted {
            Ok(hop)
        } else {
            Err(EBUSY)
        }
    }

    /// Opens the way between two rings and two HopIDs. Takes the domain's lock.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the cable is gone, or what the connection manager says.
    pub(crate) fn enable_paths(
        &self,
        out: &OutHop,
        tx_ring: i32,
        inward: &InHop,
        rx_ring: i32,
    ) -> Result<Paths> {
        // SAFETY: we hold a reference.
        kernel::error::to_result(unsafe {
            bindings::u4r_enable_paths(self.as_ptr(), out.id, tx_ring, inward.id, rx_ring)
        })?;
        Ok(Paths {
            xd: self.clone(),
            ids: [out.id, tx_ring, inward.id, rx_ring],
        })
    }
}

impl Clone for Xdomain {
    fn clone(&self) -> Self {
        // SAFETY: we hold a reference.
        unsafe { bindings::get_device(&raw mut (*self.as_ptr()).dev) };
        Self(self.0)
    }
}

impl Drop for Xdomain {
    fn drop(&mut self) {
        // SAFETY: our reference.
        unsafe { bindings::put_device(&raw mut (*self.as_ptr()).dev) };
    }
}

/// A text of the other host's; whatever it says is only ever printed.
pub(crate) struct PeerName([u8; NAME_SIZE]);

impl kernel::fmt::Display for PeerName {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        use core::fmt::Write;
        for byte in self.0.iter().take_while(|byte| **byte != 0) {
            let printable = matches!(byte, b' '..=b'~');
            f.write_char(if printable { *byte as char } else { '?' })?;
        }
        Ok(())
    }
}

/// This host's name, padded with zeroes.
pub(crate) fn host_name() -> [u8; 32] {
    let mut name = [0u8; 32];
    // SAFETY: the buffer has the size given.
    unsafe { bindings::u4r_host_name(name.as_mut_ptr().cast(), name.len()) };
    name
}

/// A random number that is not zero.
pub(crate) fn random_nonce() -> u64 {
    // SAFETY: callable in any context.
    unsafe { bindings::get_random_u64() }.max(1)
}

/// A HopID of ours on the wire.
pub(crate) struct OutHop {
    xd: Xdomain,
    id: i32,
}

impl OutHop {
    /// The number, to tell the other host.
    pub(crate) fn id(&self) -> u16 {
        self.id as u16
    }
}

impl Drop for OutHop {
    fn drop(&mut self) {
        // SAFETY: allocated for this XDomain, released once.
        unsafe { bindings::tb_xdomain_release_out_hopid(self.xd.as_ptr(), self.id) };
    }
}

/// A HopID of the other host's.
pub(crate) struct InHop {
    xd: Xdomain,
    id: i32,
}

impl Drop for InHop {
    fn drop(&mut self) {
        // SAFETY: allocated for this XDomain, released once.
        unsafe { bindings::tb_xdomain_release_in_hopid(self.xd.as_ptr(), self.id) };
    }
}

/// Open paths; dropping closes them, and must come before the rings stop. When the
/// cable has been pulled the core has closed them already, and this does not wait.
pub(crate) struct Paths {
    xd: Xdomain,
    ids: [i32; 4],
}

impl Drop for Paths {
    fn drop(&mut self) {
        let [tx_path, tx_ring, rx_path, rx_ring] = self.ids;
        // SAFETY: we hold a reference. There is nothing to be done about a failure.
        unsafe {
            bindings::tb_xdomain_disable_paths(
                self.xd.as_ptr(),
                tx_path,
                tx_ring,
                rx_path,
                rx_ring,
            )
        };
    }
}
