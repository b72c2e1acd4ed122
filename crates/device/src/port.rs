//! The state of a port.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use verbatim_wire::values::Hex16;
use verbatim_wire::{Guid, Lid, MKey, PhysState, PortCounters, PortInfo, PortRcvErrorDetails, PortState};

use crate::m_key::Lock;
use crate::profile::{Profile, below};
use crate::traps::Traps;
use crate::vl_arbitration::Arbitration;

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) number: u8,
    /// PortInfo, except LocalPortNum and the fields in [`Lock`].
    pub(crate) info: PortInfo,
    /// A copy of PortInfo with written fields that take effect only when the link goes down; `None` if there are
    /// none.
    pub(crate) waits: Option<PortInfo>,
    pub(crate) lock: Lock,
    pub(crate) guids: Vec<Guid>,
    pub(crate) p_keys: Vec<u16>,
    pub(crate) sl_to_vl: [u8; 16],
    pub(crate) arbitration: Arbitration,
    pub(crate) led: bool,
    pub(crate) counters: PortCounters,
    pub(crate) details: PortRcvErrorDetails,
    pub(crate) traps: Traps,
}

impl Port {
    pub(crate) fn new(profile: &Profile, number: u8) -> Self {
        let guid = Guid(profile.node_guid.0.wrapping_add(number.into()));
        let mut port = Self {
            number,
            info: info(profile, number),
            waits: None,
            lock: Lock::new(profile),
            guids: vec![Guid(0); usize::from(profile.guid_cap.max(1))],
            p_keys: vec![0; usize::from(profile.partition_cap.max(1))],
            sl_to_vl: [0; 16],
            arbitration: Arbitration::new(profile),
            led: false,
            counters: PortCounters::default(),
            details: PortRcvErrorDetails::default(),
            traps: Traps::new(),
        };
        port.guids[0] = guid;
        port.p_keys[0] = 0xFFFF;
        if profile.tables_seed != 0 {
            port.fill_tables(profile);
        }
        if profile.foreign_vls {
            port.sl_to_vl = core::array::from_fn(|sl| sl as u8);
            port.arbitration.name_all_vls();
        }
        port
    }

    /// Returns NodeInfo:PortGUID.
    pub(crate) fn guid(&self) -> Guid {
        self.guids[0]
    }

    /// Returns the number of operational data VLs.
    pub(crate) fn operational(&self) -> u8 {
        self.info.operational_vls().data_vls().unwrap_or(1)
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.info.port_physical_state() == PhysState::DISABLED
    }

    /// Fills the tables with random entries, as an earlier subnet manager may have left them.
    fn fill_tables(&mut self, profile: &Profile) {
        let seed = profile.tables_seed ^ u64::from(self.number);
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let vls = u64::from(self.info.operational_vls().data_vls().unwrap_or(1));
        for guid in self.guids.iter_mut().skip(1) {
            *guid = Guid(if below(rng, 2) == 0 { 0 } else { rng.next_u64() });
        }
        for key in self.p_keys.iter_mut().skip(1) {
            *key = if below(rng, 2) == 0 { 0 } else { rng.next_u32() as u16 };
        }
        for vl in &mut self.sl_to_vl {
            *vl = below(rng, vls) as u8;
        }
        self.arbitration.fill(rng, vls);
        self.led = below(rng, 2) == 1;
        self.counters = self
            .counters
            .with_symbol_error_counter(below(rng, 9) as u16)
            .with_port_rcv_errors(below(rng, 9) as u16)
            .with_vl15_dropped(below(rng, 9) as u16);
        let (sent, received) = (rng.next_u32(), rng.next_u32());
        if profile.choices.counts_traffic {
            self.counters = self.counters.with_port_xmit_data(sent).with_port_rcv_data(received);
        }
    }
}

fn info(profile: &Profile, number: u8) -> PortInfo {
    let step = u32::from(number.saturating_sub(1)) << profile.lmc.min(7);
    let lid = match profile.lid {
        Lid(0) if profile.choices.shows_permissive_lid => Lid::PERMISSIVE,
        Lid(0) => Lid(0),
        Lid(first) => Lid((u32::from(first).wrapping_add(step) % 0xC000).max(1) as u16),
    };
    // The highest supported bit is the widest or fastest link.
    let widest = |set: u8| set.checked_ilog2().map_or(0, |bit| 1 << bit);
    let info = PortInfo::default()
        .with_m_key(MKey(0))
        .with_gid_prefix(verbatim_wire::values::Hex64(profile.gid_prefix))
        .with_lid(lid)
        .with_master_sm_lid(profile.sm_lid)
        .with_capability_mask(profile.capability_mask)
        .with_link_width_supported(profile.link_widths)
        .with_link_width_enabled(profile.link_widths)
        .with_link_width_active(verbatim_wire::LinkWidths(widest(profile.link_widths.0)))
        .with_link_speed_supported(profile.link_speeds)
        .with_link_speed_enabled(profile.link_speeds)
        .with_link_speed_active(verbatim_wire::LinkSpeeds(widest(profile.link_speeds.0)))
        .with_port_state(match profile.port_state {
            PortState::ARMED | PortState::ACTIVE => profile.port_state,
            _ => PortState::INITIALIZE,
        })
        .with_port_physical_state(PhysState::LINK_UP)
        .with_link_down_default_state(verbatim_wire::LinkDownDefault::POLLING)
        .with_lmc(profile.lmc)
        .with_neighbor_mtu(profile.neighbor_mtu)
        .with_mtu_cap(profile.mtu_cap)
        .with_master_sm_sl(profile.sm_sl)
        .with_vl_cap(profile.vl_cap)
        .with_operational_vls(profile.operational_vls)
        .with_vl_high_limit(profile.vl_high_limit)
        .with_vl_arbitration_low_cap(profile.vl_arbitration_low_cap.min(64))
        .with_vl_arbitration_high_cap(profile.vl_arbitration_high_cap.min(64))
        .with_p_key_violations(profile.p_key_violations)
        .with_q_key_violations(profile.q_key_violations)
        .with_guid_cap(profile.guid_cap.max(1))
        .with_subnet_timeout(profile.subnet_timeout)
        .with_resp_time_value(profile.resp_time_value)
        .with_local_phy_errors(profile.local_phy_errors)
        .with_overrun_errors(profile.overrun_errors)
        .with_max_credit_hint(Hex16(0));
    let info = if profile
        .capability_mask
        .has(verbatim_wire::values::CapabilityMask::MASK2)
    {
        info.with_capability_mask_2(Hex16(profile.capability_mask_2))
    } else {
        info
    };
    if !profile.has_extended_speeds() {
        return info;
    }
    info.with_link_speed_ext_supported(profile.link_speeds_ext)
        .with_link_speed_ext_enabled(profile.link_speeds_ext)
        .with_link_speed_ext_active(verbatim_wire::LinkSpeedExt(widest(profile.link_speeds_ext.0)))
}
