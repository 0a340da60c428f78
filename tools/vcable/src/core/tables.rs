// SPDX-License-Identifier: GPL-2.0
//! Config space tables of a host router and its adapters (USB4 specification, chapter 8).

use super::space::{dword, Dword};

/// Adapters: two USB4 ports of two lanes, then the host interface.
pub(crate) const NHI_ADAPTER: u8 = 5;
/// Lane 0 adapters, by which ports are known.
pub(crate) const PORTS: [u8; 2] = [1, 3];

/// Router config space.
pub(crate) const ROUTER_CS_1: usize = 1;
pub(crate) const ROUTER_CS_3: usize = 3;
pub(crate) const ROUTER_CS_4: usize = 4;
pub(crate) const ROUTER_CS_5: usize = 5;
pub(crate) const ROUTER_CS_6: usize = 6;
pub(crate) const ROUTER_CS_7: usize = 7;
pub(crate) const ROUTER_CS_9: usize = 9;
pub(crate) const ROUTER_CS_25: usize = 25;
pub(crate) const ROUTER_CS_26: usize = 26;
/// Where the TMU capability lies, and the length of the whole space.
pub(crate) const TMU_CAP: usize = 27;
pub(crate) const ROUTER_LEN: usize = TMU_CAP + 26;

/// CS_3: the topology id is valid, the router is enumerated.
pub(crate) const CS_3_VALID: u32 = 1 << 31;
/// CS_26: operation valid, operation not supported.
pub(crate) const CS_26_OV: u32 = 1 << 31;
pub(crate) const CS_26_ONS: u32 = 1 << 30;
pub(crate) const CS_26_STATUS: u32 = 0x3f << 24;

/// Router operation: buffer allocation request, and its parameter index for host-to-host.
pub(crate) const OP_BUFFER_ALLOC: u32 = 0x33;
pub(crate) const BA_MAX_HI: u32 = 5;

/// Bits of ADP_CS_5 and ADP_CS_4.
pub(crate) const ADP_CS_2: usize = 2;
pub(crate) const ADP_CS_3: usize = 3;
pub(crate) const ADP_CS_4: usize = 4;
pub(crate) const ADP_CS_4_LCK: u32 = 1 << 31;
pub(crate) const ADP_CS_5: usize = 5;
pub(crate) const ADP_CS_5_DHP: u32 = 1 << 31;
pub(crate) const ADP_BASE_LEN: usize = 9;

/// Lane capability, right behind the basic registers.
pub(crate) const LANE_CAP: usize = ADP_BASE_LEN;
pub(crate) const LANE_CAP_LEN: usize = 3;
pub(crate) const LANE_CS_0: usize = LANE_CAP;
pub(crate) const LANE_CS_1: usize = LANE_CAP + 1;
pub(crate) const LANE_CS_1_LD: u32 = 1 << 14;
pub(crate) const LANE_CS_1_LB: u32 = 1 << 15;
/// Read-only part of LANE_ADP_CS_1: current speed, current width, adapter state.
pub(crate) const LANE_CS_1_STATUS: u32 = 0xf << 16 | 0x3f << 20 | 0xf << 26;

/// USB4 port capability of lane 0 adapters.
pub(crate) const PORT_CAP: usize = LANE_CAP + LANE_CAP_LEN;
pub(crate) const PORT_CAP_LEN: usize = 20;
pub(crate) const PORT_CS_1: usize = PORT_CAP + 1;
pub(crate) const PORT_CS_1_NR: u32 = 1 << 25;
pub(crate) const PORT_CS_1_PND: u32 = 1 << 31;
pub(crate) const PORT_CS_19: usize = PORT_CAP + 19;
pub(crate) const PORT_CS_19_DPR: u32 = 1;

/// Adapter types.
pub(crate) const TYPE_LANE: u32 = 1;
pub(crate) const TYPE_NHI: u32 = 2;

/// Path config space: enable in the first dword, pending in the second.
pub(crate) const HOP_ENABLE: u32 = 1 << 31;
pub(crate) const HOP_PENDING: u32 = 1 << 28;
/// HopIDs below this one are not for paths.
pub(crate) const FIRST_PATH_HOP: usize = 8;

/// ROUTER_CS_0 to 26; what the profile decides is filled in by the router.
pub(crate) const ROUTER: [Dword; 12] = [
    dword("ROUTER_CS_0", 0, 0, 0),
    dword("ROUTER_CS_1", ROUTER_CS_1, TMU_CAP as u32, 0),
    dword("ROUTER_CS_2", 2, 0, !0),
    dword("ROUTER_CS_3", ROUTER_CS_3, 0, !0),
    dword("ROUTER_CS_4", ROUTER_CS_4, 0, 0xffff),
    dword("ROUTER_CS_5", ROUTER_CS_5, 0, !0),
    dword("ROUTER_CS_6", ROUTER_CS_6, 0, 0),
    dword("ROUTER_CS_7", ROUTER_CS_7, 0, 0),
    dword("ROUTER_CS_8", 8, 0, 0),
    dword("ROUTER_CS_9", ROUTER_CS_9, 0, !0),
    dword("ROUTER_CS_25", ROUTER_CS_25, 0, !0),
    dword("ROUTER_CS_26", ROUTER_CS_26, 0, 0xffff | CS_26_OV),
];

/// The rest of the operation's data, CS_10 to CS_24.
pub(crate) const ROUTER_DATA: [Dword; 15] = {
    let mut rows = [dword("ROUTER_CS_10..24", 0, 0, !0); 15];
    let mut i = 0;
    while i < rows.len() {
        rows[i].offset = ROUTER_CS_9 + 1 + i;
        i += 1;
    }
    rows
};

/// TMU capability: id 3, unidirectional mode supported; counters that nobody reads stay 0.
pub(crate) const TMU: [Dword; 7] = [
    dword("TMU_RTR_CS_0", 0, 3 << 8 | 1 << 30, 0x7ff << 16 | 1 << 27),
    dword("TMU_RTR_CS_3", 3, 0, 0xffff_0000),
    dword("TMU_RTR_CS_15", 15, 0, 0x00ff_ffff),
    dword("TMU_RTR_CS_18", 18, 0, 0x00ff_0000),
    dword("TMU_RTR_CS_22", 22, 0, !0),
    dword("TMU_RTR_CS_24", 24, 0, !0),
    dword("TMU_RTR_CS_25", 25, 0, !0),
];

/// Basic registers of every adapter.
pub(crate) const ADAPTER: [Dword; 6] = [
    dword("ADP_CS_0", 0, 0, 0),
    dword("ADP_CS_1", 1, 0, 0),
    dword("ADP_CS_2", ADP_CS_2, 0, 0),
    dword("ADP_CS_3", ADP_CS_3, 0, 0),
    dword("ADP_CS_4", ADP_CS_4, 0, 0x3ff | ADP_CS_4_LCK),
    dword("ADP_CS_5", ADP_CS_5, ADP_CS_5_DHP, 0x7f << 22 | ADP_CS_5_DHP),
];

/// Lane capability (id 1).
pub(crate) const LANE: [Dword; 3] = [
    dword("LANE_ADP_CS_0", 0, 1 << 8, 0),
    dword("LANE_ADP_CS_1", 1, 0xc | 1 << 4, 0xff | 7 << 10 | LANE_CS_1_LD | LANE_CS_1_LB),
    dword("LANE_ADP_CS_2", 2, 0, 0),
];

/// USB4 port capability (id 6), the last one of a lane 0 adapter.
pub(crate) const PORT: [Dword; 5] = [
    dword("PORT_CS_0", 0, 6 << 8, 0),
    dword("PORT_CS_1", 1, 0, !0),
    dword("PORT_CS_2", 2, 0, !0),
    dword("PORT_CS_18", 18, 0, 0),
    dword("PORT_CS_19", 19, 0, PORT_CS_19_DPR | 3 << 3 | 7 << 16 | 1 << 24),
];
