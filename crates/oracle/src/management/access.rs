//! What each attribute allows: where a request points, what a Set makes of each field, how a request is answered.
//!
//! Channel adapters and routers (architecture 14.2.5). What depends on more than a public source says is left open.

use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{AttributeId, Layout, Mad, Method, NodeInfo, PortInfo, Status, VlCap};

use super::image::{Element, moves};
use super::known::{Known, Sure};

/// CapabilityMask: LedInfo, extended speeds, InitType, suppression of traps of multicast P_Keys.
const LED_INFO: u32 = 1 << 9;
pub(super) const EXTENDED_SPEEDS: u32 = 1 << 14;
const REINIT: u32 = 1 << 18;
const TRAP_SUPPRESSION: u32 = 1 << 29;
/// CapabilityMask2: NodeDescription can be Set.
const SET_NODE_DESCRIPTION: u16 = 1;
/// AttributeModifier of PortInfo: whoever asks knows extended speeds.
pub(super) const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;

/// What a port said of itself last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) port: PortInfo,
    pub(super) node: NodeInfo,
    /// Data VLs that are operational, where that is certain.
    pub(super) vls: Option<u8>,
    /// Whether nothing but the tester and the port is there.
    pub(super) simulated: bool,
}

/// What is addressed: an attribute, and the AttributeModifier without what does not matter.
pub(super) type Place = (AttributeId, u32);

/// What a field becomes by a Set that is obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Becomes {
    /// It stays as it is.
    Stays,
    /// It is this.
    Is(u64),
    /// It stays, or is this.
    MayBe(u64),
    /// Nothing is said of it.
    Anything,
}

/// Whether a Set may carry a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Legal {
    /// It may.
    Yes,
    /// Left open, or not known.
    Open,
    /// It may not.
    No,
}

impl Facts {
    fn has(&self, capability: u32) -> bool {
        self.port.capability_mask().has(capability)
    }

    /// Whether NodeDescription can be Set.
    pub(super) fn sets_description(&self) -> bool {
        self.has(CapabilityMask::MASK2) && self.port.capability_mask_2().0 & SET_NODE_DESCRIPTION != 0
    }

    /// Whether the block is one of a table of so many entries.
    fn is_block(block: u32, entries: u32, length: u32) -> bool {
        block.checked_mul(entries).is_some_and(|first| first < length)
    }

    /// Entries of the arbitration table that a part belongs to, and the first one of the part.
    fn part(&self, part: u32) -> Option<(u32, u32)> {
        let (low, high) = (self.port.vl_arbitration_low_cap(), self.port.vl_arbitration_high_cap());
        match part {
            1 | 2 => Some((low.into(), (part - 1) * 32)),
            3 | 4 => Some((high.into(), (part - 3) * 32)),
            _ => None,
        }
    }

    /// What a request points at.
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

    /// The status of a Get that nothing else stands in the way of; none: left open.
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
            // Bits above the port's number have meanings of their own.
            AttributeId::PORT_INFO if modifier & 0x7FFF_FF00 != 0 => &[],
            AttributeId::PORT_INFO => within(self.place(request).1 <= self.node.num_ports().into()),
            AttributeId::GUID_INFO => match self.port.guid_cap() {
                0 => &[],
                length if Self::is_block(modifier, 8, length.into()) => OK,
                // Zeros or a refusal.
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

    /// The status of a Set of legal values that nothing else stands in the way of; none: left open.
    pub(super) fn of_set(&self, request: &Mad) -> &'static [Status] {
        const REFUSED: &[Status] = &[Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED];
        match request.attribute_id() {
            AttributeId::NODE_INFO => REFUSED,
            AttributeId::NODE_DESCRIPTION if !self.sets_description() => REFUSED,
            // Another port's is read-only here: how a Set of it is answered is left open.
            AttributeId::PORT_INFO if self.place(request).1 != 0 => &[],
            _ => self.of_get(request),
        }
    }

    /// What a Set makes of one element, and whether it may carry that value. `now`: what is known of it.
    pub(super) fn set(&self, request: &Mad, element: Element, now: &Known) -> (Becomes, Legal) {
        let asked = element.bits(request.data());
        let (attribute, modifier) = self.place(request);
        let plain = (Becomes::Is(asked), Legal::Yes);
        let beyond = (Becomes::Anything, Legal::Open);
        let entry = u32::try_from(element.index).unwrap_or(u32::MAX);
        match attribute {
            // Another port's is read-only here.
            AttributeId::PORT_INFO if modifier != 0 => (Becomes::Stays, kept(asked, now)),
            AttributeId::PORT_INFO => self.set_port_info(request, element, now),
            AttributeId::NODE_DESCRIPTION if self.sets_description() => plain,
            AttributeId::GUID_INFO => match modifier.saturating_mul(8).saturating_add(entry) {
                // Read-only: a Set of another value may be refused.
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
                    // What lies beyond the table may name any VL.
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
        // Some ports take fields of the link over only when it goes down.
        let down = moves_link(request);
        let later = if down { (Becomes::Anything, Legal::Yes) } else { either };
        let illegal = (Becomes::Stays, Legal::No);
        let subset = |supported: u8| asked & !u64::from(supported) == 0;
        let optional = |capability| if self.has(capability) { plain } else { either };
        if moves(self.simulated, AttributeId::PORT_INFO, name) {
            // What a port does with its link, and when, is not this oracle's. Whether Armed is taken in Active, too, is left open:
            // a public suite commands it.
            let legal = match name {
                "PortState" if asked == 2 || asked > 4 => Legal::No,
                "PortPhysicalState" if asked > 3 => Legal::No,
                "PortState" | "PortPhysicalState" if asked != 0 => Legal::Open,
                _ => Legal::Yes,
            };
            return (Becomes::Anything, legal);
        }
        match name {
            // What another value does is not laid down.
            "P_KeyViolations" | "Q_KeyViolations" if asked != 0 => (Becomes::Anything, Legal::Yes),
            "P_KeyViolations" | "Q_KeyViolations" => plain,
            "M_Key" | "M_KeyProtectBits" | "M_KeyLeasePeriod" | "GidPrefix" | "LMC" | "SubnetTimeOut" => plain,
            "LID" | "MasterSMLID" => match asked {
                1..0xC000 => plain,
                // Where none was assigned, what the port shows (0, or 0xFFFF) says nothing new; some refuse it.
                _ if now.may_be(asked) => (Becomes::MayBe(asked), Legal::Open),
                _ => illegal,
            },
            "MasterSMSL" if !self.port.master_sm_lid().is_unicast() => either,
            "VLHighLimit" if self.port.vl_cap() == VlCap::VL0 => either,
            "MasterSMSL" | "VLHighLimit" => plain,
            // Whether a threshold of 0 means anything is not said.
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
            // What a port that is not configured shows, it may take back.
            "NeighborMTU" if asked == 0 && now.may_be(0) => (Becomes::Anything, Legal::Open),
            "NeighborMTU" if !(1..=self.port.mtu_cap().0.into()).contains(&asked) => illegal,
            "NeighborMTU" => later,
            "InitType" => optional(REINIT),
            "McastPkeyTrapSuppressionEnabled" => optional(TRAP_SUPPRESSION),
            // Of switches alone, or read-only by some revisions of the architecture.
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

/// Whether a Set may carry this value of a read-only element: the one that it has, or a refusal is legal too.
fn kept(asked: u64, now: &Known) -> Legal {
    if now.may_be(asked) { Legal::Yes } else { Legal::Open }
}

/// Whether an attribute's field is one that no Set changes.
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

/// Whether the class has a method: others are refused, or discarded before anybody looks at them.
pub(super) fn is_known(method: Method) -> bool {
    matches!(
        method,
        Method::GET | Method::SET | Method::TRAP | Method::REPORT | Method::TRAP_REPRESS
    ) || method.is_response()
}

/// Whether an M_Key is looked at.
pub(super) fn is_checked(method: Method) -> bool {
    matches!(method, Method::GET | Method::SET | Method::TRAP_REPRESS)
}

/// Whether a key opens a port whose key may be these.
pub(super) fn opens(port_key: &Known, key: u64) -> Sure {
    port_key.sure(|own| own == 0 || own == key)
}

/// Whether a Set is a command to the link: what then becomes of the answer is not this oracle's.
pub(super) fn moves_link(request: &Mad) -> bool {
    if (request.method(), request.attribute_id()) != (Method::SET, AttributeId::PORT_INFO) {
        return false;
    }
    let info: PortInfo = request.attribute();
    !info.is_zero_in("PortState") || !info.is_zero_in("PortPhysicalState")
}

/// Whether a port sends no traps: it need not know of TrapRepress then, and may discard one, key and all.
pub fn sends_no_traps(port: &PortInfo) -> bool {
    !port.capability_mask().has(CapabilityMask::TRAP)
}

pub(super) fn is_of_version_1(request: &Mad) -> bool {
    let header = request.header();
    header.base_version() == 1 && header.class_version() == 1
}
