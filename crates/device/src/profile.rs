//! The capabilities, the initial state and the implementation choices of a device.
//!
//! [`Profile::vary`] draws other values, from a seed, for the properties in which conforming devices may differ.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use verbatim_wire::values::{CapabilityMask, LeasePeriod, ProtectBits};
use verbatim_wire::{
    Guid, Lid, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey, Mtu, PortState, RespTime, SubnetTimeout, VlCap,
};

use crate::choices::{Choices, Unassigned};

/// Bits of CapabilityMask that [`CapabilityMask`] does not name.
const LED_INFO: u32 = 1 << 9;
const SYSTEM_IMAGE_GUID: u32 = 1 << 11;
const EXTENDED_SPEEDS: u32 = 1 << 14;
const REINIT: u32 = 1 << 18;
const LINK_ROUND_TRIP_LATENCY: u32 = 1 << 24;
const MCAST_P_KEY_TRAP_SUPPRESSION: u32 = 1 << 29;
/// Further bits of CapabilityMask in the qib profile: IsOptionalIPDSupported, and three kinds of notices.
const QIB_NOTICES: u32 = 1 << 4 | 1 << 21 | 1 << 22 | 1 << 26;
/// CapabilityMask2: IsSetNodeDescriptionSupported.
const SET_NODE_DESCRIPTION: u16 = 1;

/// The capabilities and the initial state of a channel adapter (PortInfo, architecture 14.2.5.6; NodeInfo, 14.2.5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// NodeInfo:NumPorts; 0 counts as 1.
    pub num_ports: u8,
    /// NodeInfo:NodeGUID. The GUID of port n is this value plus n.
    pub node_guid: Guid,
    /// NodeInfo:SystemImageGUID.
    pub system_image_guid: Guid,
    /// NodeInfo:VendorID, 24 bits.
    pub vendor_id: u32,
    /// NodeInfo:DeviceID.
    pub device_id: u16,
    /// NodeInfo:Revision.
    pub revision: u32,
    /// NodeDescription, truncated after 64 bytes.
    pub node_description: String,
    /// NodeInfo:PartitionCap: number of entries of the P_KeyTable.
    pub partition_cap: u16,

    /// PortInfo:CapabilityMask.
    pub capability_mask: CapabilityMask,
    /// PortInfo:CapabilityMask2; visible only with IsCapabilityMask2Supported.
    pub capability_mask_2: u16,
    /// PortInfo:VLCap.
    pub vl_cap: VlCap,
    /// Whether the port has a VLArbitrationTable. The table is optional with one data VL.
    pub vl_arbitration: bool,
    /// PortInfo:VLArbitrationLowCap: number of entries of the low-priority table, at most 64.
    pub vl_arbitration_low_cap: u8,
    /// PortInfo:VLArbitrationHighCap: number of entries of the high-priority table, at most 64.
    pub vl_arbitration_high_cap: u8,
    /// Whether the performance agent supports PortRcvErrorDetails, which is optional.
    pub rcv_error_details: bool,
    /// PortInfo:RespTimeValue.
    pub resp_time_value: RespTime,
    /// PortInfo:MTUCap.
    pub mtu_cap: Mtu,
    /// PortInfo:GUIDCap: number of entries of the GUIDInfo table.
    pub guid_cap: u8,
    /// PortInfo:LinkWidthSupported.
    pub link_widths: LinkWidths,
    /// PortInfo:LinkSpeedSupported.
    pub link_speeds: LinkSpeeds,
    /// PortInfo:LinkSpeedExtSupported; visible only with IsExtendedSpeedsSupported.
    pub link_speeds_ext: LinkSpeedExt,

    /// Initial PortInfo:M_Key.
    pub m_key: MKey,
    /// Initial PortInfo:M_KeyProtectBits.
    pub protect_bits: ProtectBits,
    /// Initial PortInfo:M_KeyLeasePeriod.
    pub lease_period: LeasePeriod,
    /// Initial PortInfo:GidPrefix.
    pub gid_prefix: u64,
    /// Initial PortInfo:LID of port 1; port n adds (n - 1) * 2^LMC. 0: no LID is assigned.
    pub lid: Lid,
    /// Initial PortInfo:LMC.
    pub lmc: u8,
    /// Initial PortInfo:MasterSMLID; with 0 the device sends no traps.
    pub sm_lid: Lid,
    /// Initial PortInfo:MasterSMSL.
    pub sm_sl: u8,
    /// Initial PortInfo:PortState, Initialize to Active.
    pub port_state: PortState,
    /// Initial PortInfo:SubnetTimeOut.
    pub subnet_timeout: SubnetTimeout,
    /// Initial PortInfo:NeighborMTU.
    pub neighbor_mtu: Mtu,
    /// Initial PortInfo:OperationalVLs.
    pub operational_vls: VlCap,
    /// Initial PortInfo:VLHighLimit.
    pub vl_high_limit: u8,
    /// Initial PortInfo:LocalPhyErrors.
    pub local_phy_errors: u8,
    /// Initial PortInfo:OverrunErrors.
    pub overrun_errors: u8,
    /// Initial PortInfo:M_KeyViolations.
    pub m_key_violations: u16,
    /// Initial PortInfo:P_KeyViolations.
    pub p_key_violations: u16,
    /// Initial PortInfo:Q_KeyViolations.
    pub q_key_violations: u16,
    /// Seed of the initial contents of the tables. 0: the contents after power-on.
    pub tables_seed: u64,
    /// Whether the tables initially contain VLs that are not operational. Each SL then maps to the VL of the same
    /// number, as on some devices after power-on.
    pub foreign_vls: bool,

    /// Time from a request to its response. The response time of a conforming device is at most RespTimeValue.
    pub latency: Duration,
    /// Number of repetitions of a trap that no TrapRepress stops.
    pub trap_repeats: u8,
    /// Choices that the architecture leaves to the implementer.
    pub choices: Choices,
}

impl Profile {
    /// Returns a device with one port, VL0-1, few capabilities, no traps and arbitration tables of 8 entries.
    #[must_use]
    pub fn minimal() -> Self {
        Self {
            num_ports: 1,
            node_guid: Guid(0x0002_C900_0000_1000),
            system_image_guid: Guid(0x0002_C900_0000_1003),
            vendor_id: 0x00_02C9,
            device_id: 0x1003,
            revision: 1,
            node_description: "Verbatim reference device".into(),
            partition_cap: 32,
            capability_mask: CapabilityMask(CapabilityMask::SL_MAPPING | SYSTEM_IMAGE_GUID),
            capability_mask_2: 0,
            vl_cap: VlCap::VL0_1,
            vl_arbitration: true,
            vl_arbitration_low_cap: 8,
            vl_arbitration_high_cap: 8,
            rcv_error_details: false,
            resp_time_value: RespTime(16),
            mtu_cap: Mtu::B2048,
            guid_cap: 8,
            link_widths: LinkWidths(0x03),
            link_speeds: LinkSpeeds(0x07),
            link_speeds_ext: LinkSpeedExt(0),
            m_key: MKey(0),
            protect_bits: ProtectBits(0),
            lease_period: LeasePeriod(0),
            gid_prefix: 0xFE80_0000_0000_0000,
            lid: Lid(0),
            lmc: 0,
            sm_lid: Lid(0),
            sm_sl: 0,
            port_state: PortState::INITIALIZE,
            subnet_timeout: SubnetTimeout(18),
            neighbor_mtu: Mtu::B2048,
            operational_vls: VlCap::VL0_1,
            vl_high_limit: 0,
            local_phy_errors: 8,
            overrun_errors: 8,
            m_key_violations: 0,
            p_key_violations: 0,
            q_key_violations: 0,
            tables_seed: 0,
            foreign_vls: false,
            latency: Duration::from_micros(10),
            trap_repeats: 3,
            choices: Choices::default(),
        }
    }

    /// Returns a device with two ports, VL0-7, all features, traps and arbitration tables of 64 entries.
    #[must_use]
    pub fn full() -> Self {
        Self {
            num_ports: 2,
            partition_cap: 64,
            capability_mask: CapabilityMask(
                CapabilityMask::TRAP
                    | CapabilityMask::SL_MAPPING
                    | LED_INFO
                    | SYSTEM_IMAGE_GUID
                    | EXTENDED_SPEEDS
                    | CapabilityMask::MASK2
                    | REINIT
                    | LINK_ROUND_TRIP_LATENCY
                    | CapabilityMask::CLIENT_REREGISTRATION
                    | MCAST_P_KEY_TRAP_SUPPRESSION,
            ),
            capability_mask_2: SET_NODE_DESCRIPTION,
            vl_cap: VlCap::VL0_7,
            operational_vls: VlCap::VL0_7,
            vl_arbitration_low_cap: 64,
            vl_arbitration_high_cap: 64,
            rcv_error_details: true,
            mtu_cap: Mtu::B4096,
            neighbor_mtu: Mtu::B4096,
            guid_cap: 32,
            link_speeds_ext: LinkSpeedExt(0x07),
            lid: Lid(5),
            sm_lid: Lid(1),
            port_state: PortState::ACTIVE,
            ..Self::minimal()
        }
    }

    /// Returns a device with one data VL and without VLArbitrationTable and SLtoVLMappingTable.
    #[must_use]
    pub fn one_data_vl() -> Self {
        Self {
            capability_mask: CapabilityMask(SYSTEM_IMAGE_GUID),
            vl_cap: VlCap::VL0,
            operational_vls: VlCap::VL0,
            vl_arbitration: false,
            vl_arbitration_low_cap: 0,
            vl_arbitration_high_cap: 0,
            ..Self::minimal()
        }
    }

    /// Returns a model of ConnectX-6 VPI (OUI, DeviceID and widths from the output of `ibstat` and `ibv_devinfo`).
    #[must_use]
    pub fn connectx_6() -> Self {
        Self {
            device_id: 0x101B,
            revision: 0,
            node_description: "ConnectX-6, a model".into(),
            vl_cap: VlCap::VL0_3,
            operational_vls: VlCap::VL0_3,
            vl_arbitration_low_cap: 16,
            vl_arbitration_high_cap: 16,
            num_ports: 1,
            partition_cap: 128,
            link_widths: LinkWidths(0x13),
            ..Self::full()
        }
    }

    /// Returns a model of QLogic 7322, whose driver responds to SMPs (Linux, drivers/infiniband/hw/qib/qib_mad.c and
    /// qib_verbs.c).
    #[must_use]
    pub fn qib() -> Self {
        Self {
            node_guid: Guid(0x0011_7500_0070_0000),
            system_image_guid: Guid(0x0011_7500_0070_0000),
            vendor_id: 0x00_1175,
            device_id: 0x7322,
            revision: 0x0002_0000,
            node_description: "qib, a model".into(),
            partition_cap: 4,
            capability_mask: CapabilityMask(
                CapabilityMask::TRAP
                    | CapabilityMask::SL_MAPPING
                    | SYSTEM_IMAGE_GUID
                    | CapabilityMask::CLIENT_REREGISTRATION
                    | QIB_NOTICES,
            ),
            vl_cap: VlCap::VL0_7,
            operational_vls: VlCap::VL0_1,
            vl_arbitration_low_cap: 16,
            vl_arbitration_high_cap: 16,
            resp_time_value: RespTime(3),
            mtu_cap: Mtu::B4096,
            guid_cap: 5,
            choices: Choices {
                unassigned: Unassigned::RefusedInPart,
                ..Choices::default()
            },
            ..Self::minimal()
        }
    }

    /// Returns another device of the same kind. The seed determines identity, addresses, counters, thresholds, time
    /// values, tables, latency and most choices. The capabilities stay, except the maximum number of VLs and the length
    /// of the arbitration tables.
    #[must_use]
    pub fn vary(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        self.node_guid = Guid(0x0002_C900_0000_0000 | u64::from(rng.next_u32()) << 8);
        self.system_image_guid = Guid(self.node_guid.0 + below(rng, 2) * 3);
        self.device_id = self.device_id.wrapping_add(below(rng, 64) as u16);
        self.revision = below(rng, 256) as u32;
        self.resp_time_value = RespTime(8 + below(rng, 11) as u8);
        let longest = self.resp_time_value.duration().min(Duration::from_millis(10));
        self.latency = Duration::from_nanos(below(rng, longest.as_nanos() as u64 + 1));
        self.subnet_timeout = SubnetTimeout(8 + below(rng, 12) as u8);
        if below(rng, 2) == 0 {
            (self.lid, self.sm_lid, self.lmc) = (Lid(0), Lid(0), 0);
            self.port_state = PortState::INITIALIZE;
        } else {
            self.lmc = below(rng, 3) as u8;
            self.lid = Lid(((1 + below(rng, 0x2000)) << self.lmc) as u16);
            self.sm_lid = Lid(1 + below(rng, 0xBFFF) as u16);
            self.port_state = PortState(2 + below(rng, 3) as u8);
        }
        self.sm_sl = below(rng, 16) as u8;
        self.neighbor_mtu = Mtu(1 + below(rng, self.mtu_cap.0.max(1).into()) as u8);
        self.operational_vls = VlCap(1 + below(rng, self.vl_cap.0.max(1).into()) as u8);
        self.vl_high_limit = below(rng, 256) as u8;
        self.local_phy_errors = below(rng, 16) as u8;
        self.overrun_errors = below(rng, 16) as u8;
        self.m_key_violations = below(rng, 6) as u16;
        self.p_key_violations = below(rng, 6) as u16;
        self.q_key_violations = below(rng, 6) as u16;
        self.tables_seed = rng.next_u64();
        self.trap_repeats = below(rng, 5) as u8;
        self.choices = Choices::drawn(rng);
        // Newer properties are drawn last, so that the older properties of a seed stay the same.
        self.sizes(rng);
        self.addresses(rng);
        self.choices.counts_traffic = below(rng, 4) != 0;
        self.choices.replies_to_init_type = below(rng, 4) == 0;
        self.choices.measures_latency = below(rng, 4) == 0;
        // The shorter table still has an entry for each VL.
        let most = self.vl_arbitration_low_cap;
        if most >= 32 && below(rng, 4) == 0 {
            self.vl_arbitration_low_cap = most / 2;
        }
        self.choices.refuses_unknown_first = below(rng, 4) == 0;
        self.choices.knows_no_repress = below(rng, 2) == 0;
        self.choices.queues_traps = below(rng, 4) == 0;
        self.unmanaged(rng);
        self.foreign_vls = below(rng, 4) == 0;
        self.choices.corrects_foreign_vls = below(rng, 2) == 0;
        self.choices.vl15_room = if below(rng, 4) == 0 { 2 } else { 0 };
        self.choices.link_fields_wait = below(rng, 8) == 0;
        self.choices.no_ext_speeds_as_0 = below(rng, 4) == 0;
        self
    }

    /// Returns a device of any kind. The seed determines the capabilities too; [`Profile::vary`] draws the rest.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(!seed);
        let mut profile = Self::full();
        profile.num_ports = [1, 1, 2, 4][below(rng, 4) as usize];
        profile.partition_cap = [1, 2, 31, 32, 33, 64, 127, 128][below(rng, 8) as usize];
        profile.guid_cap = [1, 2, 7, 8, 9, 32, 128, 255][below(rng, 8) as usize];
        let optional = [
            CapabilityMask::TRAP,
            LED_INFO,
            SYSTEM_IMAGE_GUID,
            EXTENDED_SPEEDS,
            CapabilityMask::MASK2,
            REINIT,
            LINK_ROUND_TRIP_LATENCY,
            CapabilityMask::CLIENT_REREGISTRATION,
            MCAST_P_KEY_TRAP_SUPPRESSION,
        ];
        let has = optional.into_iter().filter(|_| below(rng, 2) == 1);
        profile.capability_mask = CapabilityMask(has.fold(0, |all, one| all | one));
        profile.capability_mask_2 = below(rng, 2) as u16;
        profile.vl_cap = VlCap(1 + below(rng, 5) as u8);
        // With one data VL, SLtoVLMappingTable and VLArbitrationTable are optional.
        let several = profile.vl_cap != VlCap::VL0;
        if several || below(rng, 2) == 1 {
            profile.capability_mask.0 |= CapabilityMask::SL_MAPPING;
        }
        profile.vl_arbitration = several || below(rng, 2) == 1;
        let mut entries = |least: u64| (least + below(rng, 65 - least)) as u8;
        (profile.vl_arbitration_low_cap, profile.vl_arbitration_high_cap) = if profile.vl_arbitration {
            // Each data VL needs an entry in a table. `sizes` may raise 8 data VLs to 15, so 8 data VLs need 15
            // entries.
            let least = match profile.vl_cap {
                VlCap::VL0_7 => 15,
                lanes => lanes.data_vls().unwrap_or(1).into(),
            };
            (entries(least), entries(1))
        } else {
            (0, 0)
        };
        profile.rcv_error_details = below(rng, 2) == 1;
        profile.mtu_cap = Mtu(1 + below(rng, 5) as u8);
        profile.link_widths = LinkWidths([0x01, 0x02, 0x03, 0x0B, 0x0F, 0x13][below(rng, 6) as usize]);
        profile.link_speeds = LinkSpeeds([1, 3, 5, 7][below(rng, 4) as usize]);
        profile.link_speeds_ext = LinkSpeedExt([1, 3, 7][below(rng, 3) as usize]);
        let mut profile = profile.vary(seed);
        if below(rng, 2) == 1 {
            // Uses most of the time that RespTimeValue allows.
            profile.latency = profile.resp_time_value.duration().mul_f64(0.9);
        }
        profile
    }

    /// May raise 8 data VLs to 15. May shorten the high-priority table to one entry, or to one entry more than half its
    /// length.
    fn sizes(&mut self, rng: &mut ChaCha8Rng) {
        if self.vl_cap == VlCap::VL0_7 && below(rng, 3) == 0 {
            self.vl_cap = VlCap::VL0_14;
            if below(rng, 2) == 0 {
                self.operational_vls = VlCap::VL0_14;
            }
        }
        let most = self.vl_arbitration_high_cap;
        if most > 1 {
            self.vl_arbitration_high_cap = [most, most, 1, most / 2 + 1][below(rng, 4) as usize];
        }
    }

    /// May remove the LID or MasterSMLID, as if a subnet manager had stopped before it finished. May set one of
    /// them to 1, as in most subnets.
    fn addresses(&mut self, rng: &mut ChaCha8Rng) {
        let which = below(rng, 8);
        if self.lid == Lid(0) {
            return;
        }
        match which {
            0 => (self.sm_lid, self.port_state) = (Lid(0), PortState::INITIALIZE),
            1 if below(rng, 2) == 0 => (self.lid, self.lmc, self.port_state) = (Lid(0), 0, PortState::INITIALIZE),
            2 | 3 => self.sm_lid = Lid(1),
            4 | 5 => (self.lid, self.lmc) = (Lid(1), 0),
            _ => {}
        }
    }

    /// Draws how a port without a LID reports its LID, and whether an earlier subnet manager left MasterSMLID 1.
    fn unmanaged(&mut self, rng: &mut ChaCha8Rng) {
        self.choices.shows_permissive_lid = below(rng, 3) == 0;
        if below(rng, 4) == 0 && self.lid == Lid(0) {
            self.sm_lid = Lid(1);
        }
    }

    /// Returns whether CapabilityMask includes IsSLMappingSupported.
    #[must_use]
    pub fn has_sl_mapping(&self) -> bool {
        self.capability_mask.has(CapabilityMask::SL_MAPPING)
    }

    /// Returns whether the port has a VLArbitrationTable.
    #[must_use]
    pub fn has_vl_arbitration(&self) -> bool {
        self.vl_arbitration
    }

    /// Returns whether NodeDescription is writable (CapabilityMask2:IsSetNodeDescriptionSupported).
    #[must_use]
    pub fn can_set_node_description(&self) -> bool {
        self.capability_mask.has(CapabilityMask::MASK2) && self.capability_mask_2 & SET_NODE_DESCRIPTION != 0
    }

    pub(crate) fn has_traps(&self) -> bool {
        self.capability_mask.has(CapabilityMask::TRAP)
    }

    pub(crate) fn measures_latency(&self) -> bool {
        self.capability_mask.has(LINK_ROUND_TRIP_LATENCY) && self.choices.measures_latency
    }

    pub(crate) fn has_led(&self) -> bool {
        self.capability_mask.has(LED_INFO)
    }

    pub(crate) fn has_reinit(&self) -> bool {
        self.capability_mask.has(REINIT)
    }

    pub(crate) fn has_extended_speeds(&self) -> bool {
        self.capability_mask.has(EXTENDED_SPEEDS)
    }

    pub(crate) fn has_trap_suppression(&self) -> bool {
        self.capability_mask.has(MCAST_P_KEY_TRAP_SUPPRESSION)
    }
}

/// Returns a random number below `bound`; a `bound` of 0 counts as 1.
pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    // The bias of the remainder is negligible here.
    rng.next_u64() % bound.max(1)
}
