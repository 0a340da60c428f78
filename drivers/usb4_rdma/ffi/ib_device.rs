// SPDX-License-Identifier: GPL-2.0
//! The ib_device: registration, and the callbacks that describe it.

use super::bindings as c;
use super::ib_object::Borrowed;
use super::ib_ops::OPS;
use crate::verbs::{limits, Device};
use core::ptr::{null_mut, NonNull};
use kernel::prelude::*;
use kernel::sync::Arc;

const PORT: u32 = 1;

/// The core's device with a reference to ours; the core frees it.
#[repr(C)]
pub(super) struct IbDevice {
    core: c::ib_device,
    state: *const Device,
}

/// What the device is made from. The link keeps both alive as long as the device
/// is registered.
pub(crate) struct Identity {
    /// Parent in the device tree: the NHI's PCI function.
    pub(crate) parent: *mut c::device,
    /// The interface whose addresses become the GIDs.
    pub(crate) netdev: *mut c::net_device,
}

/// A registered ib_device; dropping it unregisters it.
pub(crate) struct Registered(NonNull<c::ib_device>);

// SAFETY: The core's functions on devices may be called from any thread.
unsafe impl Send for Registered {}
// SAFETY: As for `Send`.
unsafe impl Sync for Registered {}

/// Our device behind the core's.
///
/// # Safety
///
/// `core` is the device of an object or callback that is alive for `'a`.
#[inline]
pub(super) unsafe fn device_of<'a>(core: *mut c::ib_device) -> Borrowed<'a, Device> {
    // SAFETY: `Registered::new` stored the reference; `dealloc_driver`, the last
    // callback, takes it back.
    unsafe { Borrowed::new((*core.cast::<IbDevice>()).state) }
}

/// EUI-64 of an Ethernet address, in the byte order of the wire.
fn guid_of(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_ne_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

impl Registered {
    /// Registers `device` as usb4_rdma*N*. Programs may open it from here on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the core answers.
    ///
    pub(crate) fn new(device: Arc<Device>, identity: &Identity) -> Result<Self> {
        // SAFETY: The size is that of a structure that starts with an ib_device.
        let core = unsafe { c::_ib_alloc_device(size_of::<IbDevice>(), &raw mut c::init_net) };
        let core = NonNull::new(core).ok_or(ENOMEM)?;
        let ib = core.as_ptr();
        // SAFETY: A fresh device, not yet registered: ours alone.
        unsafe {
            (*ib.cast::<IbDevice>()).state = Arc::into_raw(device);
            Self::fill(ib, identity);
        }
        // SAFETY: Both are valid; the core takes a reference to the interface.
        let mut ret = unsafe { c::ib_device_set_netdev(ib, identity.netdev, PORT) };
        if ret == 0 {
            // SAFETY: Filled in. No DMA device: addresses that kernel users hand
            // to us are addresses in the kernel.
            ret = unsafe { c::ib_register_device(ib, c"usb4_rdma%d".as_char_ptr(), null_mut()) };
        }
        if ret != 0 {
            // SAFETY: Not registered; this drops our reference by dealloc_driver.
            unsafe { c::ib_dealloc_device(ib) };
        }
        kernel::error::to_result(ret)?;
        Ok(Self(core))
    }

    /// # Safety
    ///
    /// `ib` is not registered yet; the pointers of `identity` are valid.
    unsafe fn fill(ib: *mut c::ib_device, identity: &Identity) {
        // SAFETY: By the contract.
        unsafe {
            let mac = c::u4r_netdev_mac(identity.netdev).cast::<[u8; 6]>().read();
            (*ib).node_guid = guid_of(mac);
            (*ib).node_type = c::RDMA_NODE_IB_CA as u8;
            (*ib).phys_port_cnt = PORT;
            (*ib).num_comp_vectors = 1;
            c::u4r_ib_set_parent(ib, identity.parent);
            let text = b"usb4_rdma: RDMA over Thunderbolt/USB4";
            for (to, from) in (*ib).node_desc.iter_mut().zip(text) {
                *to = *from as _;
            }
            c::u4r_ib_allow_post_send(ib);
            c::u4r_ib_fix_name(ib);
            c::ib_set_device_ops(ib, &OPS.0);
        }
    }

    /// The name, e.g. `usb4_rdma0`.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: Registered, so named; the name lives as long as the device.
        unsafe { CStr::from_char_ptr(c::u4r_ib_name(self.0.as_ptr())) }
    }

    /// Tells programs that the port came up or went down; they know when it returns.
    /// Sleeps.
    pub(crate) fn port_event(&self, up: bool) {
        let event = if up {
            c::ib_event_type_IB_EVENT_PORT_ACTIVE
        } else {
            c::ib_event_type_IB_EVENT_PORT_ERR
        };
        // SAFETY: Registered.
        unsafe { c::u4r_port_event(self.0.as_ptr(), event) };
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Takes the device away from programs that use it: their objects are
        // destroyed, then dealloc_driver drops our reference.
        // SAFETY: Registered, and unregistered once, here.
        unsafe { c::ib_unregister_device(self.0.as_ptr()) };
    }
}

pub(super) unsafe extern "C" fn dealloc_driver(core: *mut c::ib_device) {
    // SAFETY: Stored by `Registered::new`; this is the last callback.
    drop(unsafe { Arc::from_raw((*core.cast::<IbDevice>()).state) });
}

pub(super) unsafe extern "C" fn query_device(
    core: *mut c::ib_device,
    attr: *mut c::ib_device_attr,
    udata: *mut c::ib_udata,
) -> c_int {
    // SAFETY: The core hands over valid pointers; it zeroed the attributes.
    let attr = unsafe { &mut *attr };
    attr.fw_ver = 0;
    // SAFETY: As above.
    attr.sys_image_guid = unsafe { (*core).node_guid };
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = !(kernel::page::PAGE_SIZE as u64 - 1);
    attr.vendor_id = limits::VENDOR_ID;
    attr.vendor_part_id = c::U4R_ABI_VERSION;
    attr.hw_ver = 0;
    attr.max_qp = limits::MAX_QP;
    attr.max_qp_wr = limits::MAX_QP_WR;
    attr.device_cap_flags = c::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN as u64
        | c::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT as u64
        | c::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID as u64
        | c::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE as u64
        | c::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE as u64
        | c::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW as u64
        | c::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B as u64;
    attr.max_send_sge = limits::MAX_SGE;
    attr.max_recv_sge = limits::MAX_SGE;
    attr.max_sge_rd = limits::MAX_SGE;
    attr.max_srq = limits::MAX_SRQ;
    attr.max_srq_wr = limits::MAX_SRQ_WR;
    attr.max_srq_sge = limits::MAX_SGE;
    attr.max_cq = limits::MAX_CQ;
    attr.max_cqe = limits::MAX_CQE;
    attr.max_mr = limits::MAX_MR;
    attr.max_mw = limits::MAX_MW;
    attr.max_pd = limits::MAX_PD;
    attr.max_qp_rd_atom = limits::MAX_RD_ATOM;
    attr.max_qp_init_rd_atom = limits::MAX_RD_ATOM;
    attr.max_res_rd_atom = limits::MAX_RD_ATOM * limits::MAX_QP;
    attr.atomic_cap = c::ib_atomic_cap_IB_ATOMIC_HCA;
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = limits::LOCAL_CA_ACK_DELAY;
    if udata.is_null() {
        return 0;
    }
    // SAFETY: The udata of this callback; nothing is put into it.
    unsafe { c::_ib_respond_udata(udata, (&raw const *attr).cast(), 0) }
}

pub(super) unsafe extern "C" fn query_port(
    core: *mut c::ib_device,
    port: u32,
    attr: *mut c::ib_port_attr,
) -> c_int {
    if port != PORT {
        return EINVAL.to_errno();
    }
    // SAFETY: A callback of a device of ours.
    let device = unsafe { device_of(core) };
    // SAFETY: The core hands over a valid, zeroed structure.
    let attr = unsafe { &mut *attr };
    let up = device.is_up();
    attr.state = if up {
        c::ib_port_state_IB_PORT_ACTIVE
    } else {
        c::ib_port_state_IB_PORT_DOWN
    };
    attr.phys_state = if up {
        c::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8
    } else {
        c::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8
    };
    attr.max_mtu = c::ib_mtu_IB_MTU_4096;
    attr.active_mtu = c::ib_mtu_IB_MTU_4096;
    attr.phys_mtu = 4096;
    attr.gid_tbl_len = limits::GID_TABLE_LEN;
    attr.set_ip_gids(1);
    attr.max_msg_sz = limits::MAX_MSG_BYTES;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    let (speed, width) = speed_and_width(device.gbps());
    attr.active_speed = speed as u16;
    attr.active_width = width as u8;
    0
}

/// The speed and width of InfiniBand whose product is that of the cable.
fn speed_and_width(gbps: u32) -> (c::ib_port_speed, c::ib_port_width) {
    // Gigabits a second of a lane: SDR 2.5, DDR 5, QDR 10.
    match gbps {
        20 => (c::ib_port_speed_IB_SPEED_QDR, c::ib_port_width_IB_WIDTH_2X),
        30 => (c::ib_port_speed_IB_SPEED_SDR, c::ib_port_width_IB_WIDTH_12X),
        40 => (c::ib_port_speed_IB_SPEED_QDR, c::ib_port_width_IB_WIDTH_4X),
        60 => (c::ib_port_speed_IB_SPEED_DDR, c::ib_port_width_IB_WIDTH_12X),
        80 => (c::ib_port_speed_IB_SPEED_QDR, c::ib_port_width_IB_WIDTH_8X),
        120 => (c::ib_port_speed_IB_SPEED_QDR, c::ib_port_width_IB_WIDTH_12X),
        _ => (c::ib_port_speed_IB_SPEED_QDR, c::ib_port_width_IB_WIDTH_1X),
    }
}

/// In units of 100 Mb/s.
pub(super) unsafe extern "C" fn query_port_speed(
    core: *mut c::ib_device,
    port: u32,
    speed: *mut u64,
) -> c_int {
    if port != PORT {
        return EINVAL.to_errno();
    }
    // SAFETY: A callback of a device of ours, with a valid pointer.
    unsafe { *speed = u64::from(device_of(core).gbps()) * 10 };
    0
}

pub(super) unsafe extern "C" fn get_port_immutable(
    _core: *mut c::ib_device,
    port: u32,
    immutable: *mut c::ib_port_immutable,
) -> c_int {
    if port != PORT {
        return EINVAL.to_errno();
    }
    // SAFETY: The core hands over a valid structure.
    let immutable = unsafe { &mut *immutable };
    // No MAD and CM capability: there is no QP1 behind them.
    immutable.core_cap_flags = c::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP | c::RDMA_CORE_CAP_ETH_AH;
    immutable.gid_tbl_len = limits::GID_TABLE_LEN;
    immutable.pkey_tbl_len = 1;
    immutable.max_mad_size = 0;
    0
}

pub(super) unsafe extern "C" fn get_link_layer(
    _core: *mut c::ib_device,
    _port: u32,
) -> c::rdma_link_layer {
    c::rdma_link_layer_IB_LINK_LAYER_ETHERNET
}

pub(super) unsafe extern "C" fn query_pkey(
    _core: *mut c::ib_device,
    _port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    if index != 0 {
        return EINVAL.to_errno();
    }
    // SAFETY: The core hands over a valid pointer.
    unsafe { *pkey = limits::DEFAULT_PKEY };
    0
}
