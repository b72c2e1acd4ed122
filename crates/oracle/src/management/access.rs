//! Effect of requests on each attribute: the target of a request, the effect of a Set on each field, and the status
//! of the response.
//!
//! The rules apply to channel adapters and routers (architecture 14.2.5). Where no public source settles a detail,
//! the rules accept every behavior: the detail is "left open".

use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{AttributeId, Layout, Mad, Method, NodeInfo, PortInfo, Status, VlCap};

use super::image::{Element, moves};
use super::known::{Known, Sure};

/// Bits of CapabilityMask: LedInfo, extended speeds, InitType, suppression of traps for multicast P_Keys.
const LED_INFO: u32 = 1 << 9;
pub(super) const EXTENDED_SPEEDS: u32 = 1 << 14;
const REINIT: u32 = 1 << 18;
const TRAP_SUPPRESSION: u32 = 1 << 29;
/// Bit of CapabilityMask2: NodeDescription can be Set.
const SET_NODE_DESCRIPTION: u16 = 1;
/// Bit of PortInfo's AttributeModifier: the requester knows extended speeds.
pub(super) const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;

/// Latest attributes of a port, and facts about its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) port: PortInfo,
    pub(super) node: NodeInfo,
    /// Number of operational data VLs, if certain.
    pub(super) vls: Option<u8>,
    /// Whether only the tester and the port are on the link.
    pub(super) simulated: bool,
}

/// Target of a request: the attribute, and the relevant part of the AttributeModifier.
pub(super) type Place = (AttributeId, u32);

/// Value of a field after a Set that the port obeys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Becomes {
    /// The old value.
    Stays,
    /// This value.
    Is(u64),
    /// The old value or this value.
    MayBe(u64),
    /// Any value.
    Anything,
}

/// Whether a Set may carry a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Legal {
    Yes,
    /// The architecture leaves the answer open, or the port's state is unknown.
    Open,
    No,
}

impl Facts {
    fn has(&self, capability: u32) -> bool {
        self.port.capability_mask().has(capability)
    }

    pub(super) fn sets_description(&self) -> bool {
        self.has(CapabilityMask::MASK2) && self.port.capability_mask_2().0 & SET_NODE_DESCRIPTION != 0
    }

    /// Returns whether a block of `entries` entries lies in a table of `length` entries.
    fn is_block(block: u32, entries: u32, length: u32) -> bool {
        block.checked_mul(entries).is_some_and(|first| first < length)
    }

    /// Returns the length of the arbitration table that a part belongs to, and the index of the part's first entry.
    fn part(&self, part: u32) -> Option<(u32, u32)> {
        let (low, high) = (self.port.vl_arbitration_low_cap(), self.port.vl_arbitration_high_cap());
        match part {
            1 | 2 => Some((low.into(), (part - 1) * 32)),
            3 | 4 => Some((high.into(), (part - 3) * 32)),
            _ => None,
        }
    }

    /// Returns the target of a request.
    pub(super) fn place(&self, request: &Mad) -> Place {
        let (attribute, modifier) = (request.attribute_id(), request.modifier());
        let own = u32::from(self.port.local_port_num());
        let modifier = match attribute {
            AttributeId::PORT_INFO => match modifier & !KNOWS_EXTENDED_SPEEDS {
                port if port == own => 0,
                port => port,
            },
            AttributeId::GUID_INFO => modifier,
            AttributeId::P_KEY_TABLE => modifier & 0xFFFF,
            AttributeId::VL_ARBITRATION => modifier >> 16,
            _ => 0,
        };
        (attribute, modifier)
    }

    /// Returns the legal statuses of a Get that passes the version and M_Key checks; empty if the status is left open.
    pub(super) fn of_get(&self, request: &Mad) -> &'static [Status] {
        const OK: &[Status] = &[Status::OK];
        const BEYOND: &[Status] = &[Status::INVALID_FIELD];
        const EITHER: &[Status] = &[Status::OK, Status::INVALID_FIELD];
        const ABSENT: &[Status] = &[Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED];
        let modifier = request.modifier();
        let within = |is_so| if is_so { OK } else { BEYOND };
        match request.attribute_id() {
            AttributeId::NODE_DESCRIPTION | AttributeId::NODE_INFO => {
                if modifier == 0 {
                    OK
                } else {
                    EITHER
                }
            }
            AttributeId::PORT_INFO if modifier & KNOWS_EXTENDED_SPEEDS != 0 && !self.has(EXTENDED_SPEEDS) => &[],
            // Bits above the port number have other meanings.
            AttributeId::PORT_INFO if modifier & 0x7FFF_FF00 != 0 => &[],
            AttributeId::PORT_INFO => within(self.place(request).1 <= self.node.num_ports().into()),
            AttributeId::GUID_INFO => match self.port.guid_cap() {
                0 => &[],
                length if Self::is_block(modifier, 8, length.into()) => OK,
                // The port may respond with zeros or refuse.
                _ if modifier < 32 => EITHER,
                _ => &[],
            },
            AttributeId::P_KEY_TABLE if modifier > 0xFFFF => &[],
            AttributeId::P_KEY_TABLE if Self::is_block(modifier, 32, self.node.partition_cap().into()) => OK,
            AttributeId::P_KEY_TABLE if modifier < 2048 => EITHER,
            AttributeId::P_KEY_TABLE => BEYOND,
            AttributeId::SL_TO_VL if !self.has(CapabilityMask::SL_MAPPING) => match self.port.vl_cap() {
                VlCap::VL0 => ABSENT,
                _ => &[],
            },
            AttributeId::SL_TO_VL if modifier == 0 => OK,
            AttributeId::VL_ARBITRATION if self.port.vl_cap() != VlCap::VL0 && modifier & 0xFFFF == 0 => {
                match self.part(modifier >> 16) {
                    None => BEYOND,
                    Some((0, _)) => &[],
                    Some((length, first)) if first < length => OK,
                    Some(_) => EITHER,
                }
            }
            AttributeId::LED_INFO if !self.has(LED_INFO) => ABSENT,
            AttributeId::LED_INFO if modifier == 0 => OK,
            AttributeId::SWITCH_INFO
            | AttributeId::LINEAR_FORWARDING
            | AttributeId::RANDOM_FORWARDING
            | AttributeId::MULTICAST_FORWARDING => ABSENT,
            _ => &[],
        }
    }

    /// Returns the legal statuses of a Set with legal values that passes the version and M_Key checks; empty if the
    /// status is left open.
    pub(super) fn of_set(&self, request: &Mad) -> &'static [Status] {
        const REFUSED: &[Status] = &[Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED];
        match request.attribute_id() {
            AttributeId::NODE_INFO => REFUSED,
            AttributeId::NODE_DESCRIPTION if !self.sets_description() => REFUSED,
            // PortInfo of another port is read-only through this port. The status of such a Set is left open.
            AttributeId::PORT_INFO if self.place(request).1 != 0 => &[],
            _ => self.of_get(request),
        }
    }

    /// Returns the effect of a Set on one element, and whether the requested value is legal. `now`: known values of the
    /// element.
    pub(super) fn set(&self, request: &Mad, element: Element, now: &Known) -> (Becomes, Legal) {
        let asked = element.bits(request.data());
        let (attribute, modifier) = self.place(request);
        let plain = (Becomes::Is(asked), Legal::Yes);
        let beyond = (Becomes::Anything, Legal::Open);
        let entry = u32::try_from(element.index).unwrap_or(u32::MAX);
        match attribute {
            // PortInfo of another port is read-only through this port.
            AttributeId::PORT_INFO if modifier != 0 => (Becomes::Stays, kept(asked, now)),
            AttributeId::PORT_INFO => self.set_port_info(request, element, now),
            AttributeId::NODE_DESCRIPTION if self.sets_description() => plain,
            AttributeId::GUID_INFO => match modifier.saturating_mul(8).saturating_add(entry) {
                // Read-only: the port may refuse a Set of another value.
                0 => (Becomes::Stays, kept(asked, now)),
                at if at < self.port.guid_cap().into() => plain,
                _ => (Becomes::Anything, Legal::Yes),
            },
            AttributeId::P_KEY_TABLE => {
                if modifier.saturating_mul(32).saturating_add(entry) < self.node.partition_cap().into() {
                    plain
                } else {
                    (Becomes::Anything, Legal::Yes)
                }
            }
            AttributeId::SL_TO_VL if asked == 15 || self.vls.is_some_and(|vls| asked < vls.into()) => plain,
            AttributeId::SL_TO_VL => beyond,
            AttributeId::VL_ARBITRATION => {
                let vl = request.data()[2 * element.index] & 0xF;
                let within = self
                    .part(modifier)
                    .is_some_and(|(length, first)| first + entry < length);
                match self.vls {
                    Some(vls) if within && vl < vls => plain,
                    // Status and effect of a nonzero entry beyond the table are left open.
                    _ if !within && asked != 0 => (Becomes::Anything, Legal::Open),
                    _ if !within => (Becomes::Anything, Legal::Yes),
                    _ => beyond,
                }
            }
            AttributeId::LED_INFO => plain,
            _ => (Becomes::Stays, Legal::Yes),
        }
    }

    fn set_port_info(&self, request: &Mad, element: Element, now: &Known) -> (Becomes, Legal) {
        let (name, asked) = (element.field.name, element.bits(request.data()));
        let stays = (Becomes::Stays, Legal::Yes);
        let read_only = (Becomes::Stays, kept(asked, now));
        let plain = (Becomes::Is(asked), Legal::Yes);
        let either = (Becomes::MayBe(asked), Legal::Yes);
        // Some ports apply link fields only when the link goes down, which this Set may command.
        let down = moves_link(request);
        let later = if down { (Becomes::Anything, Legal::Yes) } else { either };
        let illegal = (Becomes::Stays, Legal::No);
        let subset = |supported: u8| asked & !u64::from(supported) == 0;
        let optional = |capability| if self.has(capability) { plain } else { either };
        if moves(self.simulated, AttributeId::PORT_INFO, name) {
            // The rules do not cover how and when a port moves its link. Whether a port in Active accepts a Set to
            // Armed is left open, because a public suite sends this Set.
            let legal = match name {
                "PortState" if asked == 2 || asked > 4 => Legal::No,
                "PortPhysicalState" if asked > 3 => Legal::No,
                "PortState" | "PortPhysicalState" if asked != 0 => Legal::Open,
                _ => Legal::Yes,
            };
            return (Becomes::Anything, legal);
        }
        match name {
            // The architecture defines no effect of a value other than 0.
            "P_KeyViolations" | "Q_KeyViolations" if asked != 0 => (Becomes::Anything, Legal::Yes),
            "P_KeyViolations" | "Q_KeyViolations" => plain,
            "M_Key" | "M_KeyProtectBits" | "M_KeyLeasePeriod" | "GidPrefix" | "LMC" | "SubnetTimeOut" => plain,
            "LID" | "MasterSMLID" => match asked {
                1..0xC000 => plain,
                // Without an assigned LID, the port shows 0 or 0xFFFF. A Set of the shown value changes nothing,
                // and some ports refuse such a Set.
                _ if now.may_be(asked) => (Becomes::MayBe(asked), Legal::Open),
                _ => illegal,
            },
            "MasterSMSL" if !self.port.master_sm_lid().is_unicast() => either,
            "VLHighLimit" if self.port.vl_cap() == VlCap::VL0 => either,
            "MasterSMSL" | "VLHighLimit" => plain,
            // The meaning of a threshold of 0 is undefined.
            "LocalPhyErrors" | "OverrunErrors" if asked == 0 => (Becomes::MayBe(0), Legal::Open),
            "LocalPhyErrors" | "OverrunErrors" => plain,
            "LinkDownDefaultState" | "OperationalVLs" if asked == 0 && down => later,
            "LinkWidthEnabled" | "LinkSpeedEnabled" | "LinkDownDefaultState" | "OperationalVLs" if asked == 0 => stays,
            "LinkWidthEnabled" => match asked {
                0xFF => (Becomes::Is(self.port.link_width_supported().0.into()), Legal::Yes),
                _ if subset(self.port.link_width_supported().0) => plain,
                _ => illegal,
            },
            "LinkSpeedEnabled" => match asked {
                0xF => (Becomes::Is(self.port.link_speed_supported().0.into()), Legal::Yes),
                _ if !subset(self.port.link_speed_supported().0) => illegal,
                1 | 3 | 5 | 7 => plain,
                _ => (Becomes::MayBe(asked), Legal::Open),
            },
            "LinkSpeedExtEnabled" if !self.has(EXTENDED_SPEEDS) => either,
            "LinkSpeedExtEnabled" => match asked {
                0 => stays,
                30 | 31 => (Becomes::Anything, Legal::Open),
                _ if !subset(self.port.link_speed_ext_supported().0) => (Becomes::Stays, Legal::Open),
                _ if request.modifier() & KNOWS_EXTENDED_SPEEDS == 0 => either,
                _ => plain,
            },
            "LinkDownDefaultState" if asked > 2 => illegal,
            "LinkDownDefaultState" => later,
            "OperationalVLs" if asked > self.port.vl_cap().0.into() => illegal,
            "OperationalVLs" => later,
            // An unconfigured port may show 0 and accept a Set of 0.
            "NeighborMTU" if asked == 0 && now.may_be(0) => (Becomes::Anything, Legal::Open),
            "NeighborMTU" if !(1..=self.port.mtu_cap().0.into()).contains(&asked) => illegal,
            "NeighborMTU" => later,
            "InitType" => optional(REINIT),
            "McastPkeyTrapSuppressionEnabled" => optional(TRAP_SUPPRESSION),
            // Fields that only switches have, or that are read-only in some revisions of the architecture.
            "VLStallCount"
            | "HOQLife"
            | "PartitionEnforcementInbound"
            | "PartitionEnforcementOutbound"
            | "FilterRawInbound"
            | "FilterRawOutbound"
            | "LinkSpeedExtEnabled2" => either,
            _ => read_only,
        }
    }
}

/// Returns whether a Set may carry this value for a read-only element. A port may refuse a value that differs from the
/// element's present value.
fn kept(asked: u64, now: &Known) -> Legal {
    if now.may_be(asked) { Legal::Yes } else { Legal::Open }
}

/// Returns whether the field is read-only.
pub(super) fn is_read_only(place: Place, name: &str) -> bool {
    const WRITTEN: [&str; 30] = [
        "P_KeyViolations",
        "Q_KeyViolations",
        "M_Key",
        "M_KeyProtectBits",
        "M_KeyLeasePeriod",
        "GidPrefix",
        "LMC",
        "SubnetTimeOut",
        "LID",
        "MasterSMLID",
        "MasterSMSL",
        "VLHighLimit",
        "LocalPhyErrors",
        "OverrunErrors",
        "LinkWidthEnabled",
        "LinkSpeedEnabled",
        "LinkSpeedExtEnabled",
        "LinkSpeedExtEnabled2",
        "LinkDownDefaultState",
        "OperationalVLs",
        "NeighborMTU",
        "InitType",
        "InitTypeReply",
        "McastPkeyTrapSuppressionEnabled",
        "VLStallCount",
        "HOQLife",
        "PartitionEnforcementInbound",
        "PartitionEnforcementOutbound",
        "FilterRawInbound",
        "FilterRawOutbound",
    ];
    match place.0 {
        AttributeId::NODE_INFO => true,
        AttributeId::PORT_INFO => !WRITTEN.contains(&name),
        _ => false,
    }
}

/// Returns whether subnet management defines the method. A port refuses or discards other methods before any other
/// check.
pub(super) fn is_known(method: Method) -> bool {
    matches!(
        method,
        Method::GET | Method::SET | Method::TRAP | Method::REPORT | Method::TRAP_REPRESS
    ) || method.is_response()
}

/// Returns whether a port checks the M_Key of the method.
pub(super) fn is_checked(method: Method) -> bool {
    matches!(method, Method::GET | Method::SET | Method::TRAP_REPRESS)
}

/// Returns whether a port accepts the M_Key `key`. `port_key`: the values that the port's M_Key may have.
pub(super) fn opens(port_key: &Known, key: u64) -> Sure {
    port_key.sure(|own| own == 0 || own == key)
}

/// Returns whether a Set commands the link to change its state. The rules do not require a response to such a Set.
pub(super) fn moves_link(request: &Mad) -> bool {
    if (request.method(), request.attribute_id()) != (Method::SET, AttributeId::PORT_INFO) {
        return false;
    }
    let info: PortInfo = request.attribute();
    !info.is_zero_in("PortState") || !info.is_zero_in("PortPhysicalState")
}

/// Returns whether a port sends no traps. Such a port need not know TrapRepress, and may discard any TrapRepress.
pub fn sends_no_traps(port: &PortInfo) -> bool {
    !port.capability_mask().has(CapabilityMask::TRAP)
}

pub(super) fn is_of_version_1(request: &Mad) -> bool {
    let header = request.header();
    header.base_version() == 1 && header.class_version() == 1
}
