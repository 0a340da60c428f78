// SPDX-License-Identifier: GPL-2.0
//! The host router: its config spaces, and what writes to them do.

use super::packet::error;
use super::space::Space;
use super::tables::*;
use super::Profile;

/// Config spaces of a read or write.
const SPACE_HOPS: u8 = 0;
const SPACE_ADAPTER: u8 = 1;
const SPACE_ROUTER: u8 = 2;

/// What a config write asks of the rest of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterEffect {
    /// A port's reset or lane bits changed: look at its link again.
    Link,
    /// Downstream port reset was asserted on this lane 0 adapter.
    PortReset(u8),
    /// Hot plug events of this lane 0 adapter were allowed.
    HotPlugAllowed(u8),
    /// A path of this adapter was disabled.
    PathDisabled { adapter: u8, hop: u16 },
}

/// One entry of a path config space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hop {
    dwords: [u32; 2],
    /// The pending bit reads as 1 before this time (a fault).
    pub pending_until: u64,
}

impl Hop {
    /// Whether frames follow this path.
    pub fn enabled(&self) -> bool {
        self.dwords[0] & HOP_ENABLE != 0
    }

    /// HopID behind the adapter it leads to: on the wire, or a ring.
    pub fn next_hop(&self) -> u16 {
        (self.dwords[0] & 0x7ff) as u16
    }

    /// The adapter by which frames leave.
    pub fn out_adapter(&self) -> u8 {
        (self.dwords[0] >> 11 & 0x3f) as u8
    }

    fn read(&self, dword: usize, now: u64) -> u32 {
        let pending = if dword == 1 && now < self.pending_until { HOP_PENDING } else { 0 };
        self.dwords[dword] | pending
    }
}

/// One adapter: its registers and paths. An absent one has neither.
#[derive(Default)]
struct Adapter {
    space: Space,
    hops: Vec<Hop>,
}

/// What a link shows in its lane adapters' registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneView {
    /// Adapter state: 0 disabled, 1 training, 2 CL0, 7 unplugged.
    pub state: u32,
    /// Current speed and width, in the register's coding.
    pub speed: u32,
    pub width: u32,
}

/// The router of one host.
pub(crate) struct Router {
    space: Space,
    adapters: Vec<Adapter>,
    max_hi: u32,
    control_credits: u32,
}

impl Router {
    /// A router at reset. `uid` is not 0 and unlike every other's.
    pub fn new(profile: &Profile, vendor: u16, uid: u64) -> Self {
        let mut space = Space::new(ROUTER_LEN, &[(0, &ROUTER), (0, &ROUTER_DATA), (TMU_CAP, &TMU)]);
        let version: u32 = if profile.usb4_v2 { 0x40 } else { 0x20 };
        space.preset(0, u32::from(vendor) | u32::from(profile.pci_device) << 16);
        let adapters = u32::from(NHI_ADAPTER);
        space.preset(ROUTER_CS_1, TMU_CAP as u32 | adapters << 8 | adapters << 14 | 1 << 24);
        space.preset(ROUTER_CS_4, version << 24);
        space.preset(ROUTER_CS_7, uid as u32);
        space.preset(ROUTER_CS_7 + 1, (uid >> 32) as u32);
        let adapters = (0..=NHI_ADAPTER).map(|n| adapter(profile, n)).collect();
        let mut r = Router {
            space,
            adapters,
            max_hi: u32::from(profile.dma_credits),
            control_credits: u32::from(profile.lane_credits.1),
        };
        r.reset();
        r
    }

    /// Every register to its reset value, every path disabled.
    pub fn reset(&mut self) {
        self.space.reset();
        for a in &mut self.adapters {
            a.space.reset();
            a.hops.fill(Hop::default());
        }
        for port in PORTS {
            // Control packets use path 0, whose credits a connection manager reads.
            self.adapters[usize::from(port)].hops[0].dwords[0] = self.control_credits << 17;
        }
    }

    /// Whether a connection manager has enumerated the router.
    pub fn enumerated(&self) -> bool {
        self.space.get(ROUTER_CS_3) & CS_3_VALID != 0
    }

    /// The notification timeout in ms.
    pub fn notification_timeout_ms(&self) -> u64 {
        u64::from(self.space.get(ROUTER_CS_4) & 0xff)
    }

    fn adapter_reg(&self, adapter: u8, offset: usize) -> u32 {
        self.adapters
            .get(usize::from(adapter))
            .map_or(0, |a| a.space.read(offset, 1).map_or(0, |d| d[0]))
    }

    /// Whether plug events of a port are allowed (DHP is 0).
    pub fn hot_plug_allowed(&self, port: u8) -> bool {
        self.adapter_reg(port, ADP_CS_5) & ADP_CS_5_DHP == 0
    }

    /// Whether a port is locked against config requests to what is behind it.
    pub fn locked(&self, port: u8) -> bool {
        self.adapter_reg(port, ADP_CS_4) & ADP_CS_4_LCK != 0
    }

    /// Whether downstream port reset is asserted on a port.
    pub fn in_port_reset(&self, port: u8) -> bool {
        self.adapter_reg(port, PORT_CS_19) & PORT_CS_19_DPR != 0
    }

    /// Whether a lane adapter is disabled by its LD bit.
    pub fn lane_disabled(&self, adapter: u8) -> bool {
        self.adapter_reg(adapter, LANE_CS_1) & LANE_CS_1_LD != 0
    }

    /// Shows a link's state in a lane adapter; absent adapters stay so.
    pub fn show_lane(&mut self, adapter: u8, view: LaneView) {
        let a = &mut self.adapters[usize::from(adapter)];
        if a.space.len() > LANE_CS_1 {
            let value = view.state << 26 | view.width << 20 | view.speed << 16;
            a.space.set_bits(LANE_CS_1, LANE_CS_1_STATUS, value);
        }
    }

    /// Locks a port, as every new connection does.
    pub fn lock(&mut self, port: u8) {
        self.adapters[usize::from(port)].space.set_bits(ADP_CS_4, ADP_CS_4_LCK, ADP_CS_4_LCK);
    }

    /// Disables the paths of a port (a downstream port reset does that).
    pub fn clear_paths(&mut self, port: u8) {
        for hop in self.adapters[usize::from(port)].hops.iter_mut().skip(FIRST_PATH_HOP) {
            *hop = Hop::default();
        }
    }

    /// The enabled path that enters an adapter with this HopID.
    pub fn path(&self, adapter: u8, hop: u16) -> Option<Hop> {
        let hop = self.adapters.get(usize::from(adapter))?.hops.get(usize::from(hop))?;
        hop.enabled().then_some(*hop)
    }

    /// Keeps a path's pending bit set until `until`.
    pub fn hold_pending(&mut self, adapter: u8, hop: u16, until: u64) {
        if let Some(h) = self.adapters[usize::from(adapter)].hops.get_mut(usize::from(hop)) {
            h.pending_until = until;
        }
    }

    /// Lets every held pending bit go.
    pub fn release_pending(&mut self) {
        self.adapters.iter_mut().flat_map(|a| &mut a.hops).for_each(|h| h.pending_until = 0);
    }

    /// Reads config space. The error is the code of the reply.
    pub fn read(
        &self,
        space: u8,
        adapter: u8,
        offset: usize,
        len: usize,
        now: u64,
    ) -> Result<Vec<u32>, u8> {
        let found = match space {
            SPACE_ROUTER => self.space.read(offset, len).map(<[u32]>::to_vec),
            SPACE_ADAPTER => {
                let a = self.adapters.get(usize::from(adapter)).ok_or(error::INVALID_SPACE)?;
                a.space.read(offset, len).map(<[u32]>::to_vec)
            }
            SPACE_HOPS => {
                let a = self.adapters.get(usize::from(adapter)).ok_or(error::INVALID_SPACE)?;
                let dword = |i: usize| a.hops.get(i / 2).map(|h| h.read(i % 2, now));
                (offset..offset + len).map(dword).collect()
            }
            _ => None,
        };
        found.ok_or(error::INVALID_SPACE)
    }

    /// Writes config space. The error is the code of the reply; nothing is written then.
    pub fn write(
        &mut self,
        space: u8,
        adapter: u8,
        offset: usize,
        data: &[u32],
    ) -> Result<Vec<RouterEffect>, u8> {
        self.read(space, adapter, offset, data.len(), 0)?;
        let mut effects = Vec::new();
        for (i, value) in data.iter().enumerate() {
            let at = offset + i;
            match space {
                SPACE_ROUTER => self.write_router(at, *value),
                SPACE_ADAPTER => self.write_adapter(adapter, at, *value, &mut effects),
                _ => {
                    let hop = &mut self.adapters[usize::from(adapter)].hops[at / 2];
                    let was = hop.enabled();
                    hop.dwords[at % 2] = if at % 2 == 1 { *value & !HOP_PENDING } else { *value };
                    if was && !hop.enabled() {
                        effects.push(RouterEffect::PathDisabled { adapter, hop: (at / 2) as u16 });
                    }
                }
            }
        }
        Ok(effects)
    }

    fn write_router(&mut self, at: usize, value: u32) {
        self.space.write(at, value);
        match at {
            // Sleep ready follows sleep, router and configuration ready their requests.
            ROUTER_CS_5 => {
                let ready = value & 1 | 1 << 24 | (value >> 31) << 25;
                self.space.set_bits(ROUTER_CS_6, 1 | 3 << 24, ready);
            }
            ROUTER_CS_26 if value & CS_26_OV != 0 => self.run_operation(value & 0xffff),
            _ => {}
        }
    }

    /// Runs a router operation; it is over at once.
    fn run_operation(&mut self, opcode: u32) {
        let mut result = CS_26_ONS;
        if opcode == OP_BUFFER_ALLOC {
            self.space.set_bits(ROUTER_CS_25, !0, 1);
            self.space.set_bits(ROUTER_CS_9, !0, BA_MAX_HI | self.max_hi << 16);
            result = 0;
        }
        self.space.set_bits(ROUTER_CS_26, CS_26_OV | CS_26_ONS | CS_26_STATUS, result);
    }

    fn write_adapter(&mut self, n: u8, at: usize, value: u32, effects: &mut Vec<RouterEffect>) {
        let space = &mut self.adapters[usize::from(n)].space;
        let old = space.write(at, value);
        let now = space.get(at);
        let lane_0 = PORTS.contains(&n);
        match at {
            ADP_CS_5 if lane_0 && now & ADP_CS_5_DHP == 0 => {
                effects.push(RouterEffect::HotPlugAllowed(n));
            }
            LANE_CS_1 if n != NHI_ADAPTER => effects.push(RouterEffect::Link),
            // There is no retimer and no router on the sideband: nobody answers.
            PORT_CS_1 if lane_0 && now & PORT_CS_1_PND != 0 => {
                space.set_bits(PORT_CS_1, PORT_CS_1_PND | PORT_CS_1_NR, PORT_CS_1_NR);
            }
            PORT_CS_19 if lane_0 && (old ^ now) & PORT_CS_19_DPR != 0 => {
                if now & PORT_CS_19_DPR != 0 {
                    effects.push(RouterEffect::PortReset(n));
                }
                effects.push(RouterEffect::Link);
            }
            _ => {}
        }
    }
}

/// Adapter `n` of a router with `profile`, at reset.
fn adapter(profile: &Profile, n: u8) -> Adapter {
    let lane_0 = PORTS.contains(&n);
    let lane_1 = !lane_0 && n != 0 && n < NHI_ADAPTER;
    if n == 0 || lane_1 && profile.widths & 2 == 0 {
        return Adapter::default();
    }
    let credits = profile.lane_credits.0;
    let (len, kind, hop_max): (usize, u32, u16) = match (lane_0, lane_1) {
        (true, _) => (PORT_CAP + PORT_CAP_LEN, TYPE_LANE, profile.lane_max_hop),
        (_, true) => (PORT_CAP, TYPE_LANE, profile.lane_max_hop),
        _ => (ADP_BASE_LEN, TYPE_NHI, profile.paths - 1),
    };
    let mut tables: Vec<(usize, &[super::space::Dword])> = vec![(0, &ADAPTER)];
    if n != NHI_ADAPTER {
        tables.push((LANE_CAP, &LANE));
    }
    if lane_0 {
        tables.push((PORT_CAP, &PORT));
    }
    let mut space = Space::new(len, &tables);
    let hops = u32::from(hop_max);
    space.preset(ADP_CS_2, kind);
    space.preset(ADP_CS_3, u32::from(n) << 20);
    space.preset(ADP_CS_4, u32::from(credits) << 20);
    let dhp = if n == NHI_ADAPTER { 0 } else { ADP_CS_5_DHP };
    space.preset(ADP_CS_5, hops | hops << 11 | dhp);
    if n != NHI_ADAPTER {
        space.preset(1, LANE_CAP as u32);
        let next = if lane_0 { PORT_CAP as u32 } else { 0 };
        let can = u32::from(profile.speeds) << 16 | u32::from(profile.widths) << 20;
        space.preset(LANE_CS_0, next | 1 << 8 | can);
    }
    // Lane 1 adapters have no path config space.
    let count = if lane_1 { 0 } else { usize::from(hop_max) + 1 };
    Adapter { space, hops: vec![Hop::default(); count] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router() -> Router {
        Router::new(&Profile::tb5(), 0x1af5, 7)
    }

    #[test]
    fn capabilities_are_found() {
        let r = router();
        let cs1 = r.read(SPACE_ROUTER, 0, 1, 1, 0).expect("readable")[0];
        assert_eq!(
            r.read(SPACE_ROUTER, 0, (cs1 & 0xff) as usize, 1, 0).expect("cap")[0] >> 8 & 0xff,
            3
        );
        let cap = r.read(SPACE_ADAPTER, 1, 1, 1, 0).expect("readable")[0] as usize & 0xff;
        let lane = r.read(SPACE_ADAPTER, 1, cap, 1, 0).expect("lane cap")[0];
        assert_eq!(lane >> 8 & 0xff, 1);
        let port = r.read(SPACE_ADAPTER, 1, (lane & 0xff) as usize, 1, 0).expect("port cap")[0];
        assert_eq!((port >> 8 & 0xff, port & 0xff), (6, 0));
    }

    #[test]
    fn buffer_operation_and_unknown_one() {
        let mut r = router();
        r.write(SPACE_ROUTER, 0, ROUTER_CS_26, &[OP_BUFFER_ALLOC | CS_26_OV]).expect("written");
        assert_eq!(r.space.get(ROUTER_CS_26) & (CS_26_OV | CS_26_ONS), 0);
        assert_eq!(r.space.get(ROUTER_CS_9), 5 | 40 << 16);
        r.write(SPACE_ROUTER, 0, ROUTER_CS_26, &[0x24 | CS_26_OV]).expect("written");
        assert_eq!(r.space.get(ROUTER_CS_26) & (CS_26_OV | CS_26_ONS), CS_26_ONS);
    }

    #[test]
    fn outside_is_refused_whole() {
        let mut r = router();
        assert_eq!(r.read(SPACE_ROUTER, 0, ROUTER_LEN - 1, 2, 0), Err(error::INVALID_SPACE));
        assert_eq!(r.write(SPACE_HOPS, 2, 0, &[0, 0]), Err(error::INVALID_SPACE));
        assert_eq!(r.read(3, 1, 0, 1, 0), Err(error::INVALID_SPACE));
        let amd = Router::new(&Profile::amd(), 0x1af5, 7);
        assert_eq!(amd.read(SPACE_ADAPTER, 2, 0, 8, 0), Err(error::INVALID_SPACE));
    }

    #[test]
    fn path_disable_is_told_once() {
        let mut r = router();
        assert_eq!(r.write(SPACE_HOPS, 1, 16, &[HOP_ENABLE | 3, 0]), Ok(vec![]));
        assert_eq!(r.path(1, 8).map(|h| h.next_hop()), Some(3));
        let gone = RouterEffect::PathDisabled { adapter: 1, hop: 8 };
        assert_eq!(r.write(SPACE_HOPS, 1, 16, &[3, 0]), Ok(vec![gone]));
        assert_eq!(r.write(SPACE_HOPS, 1, 16, &[3, 0]), Ok(vec![]));
    }
}
