//! The steps of a walk: drawn from random numbers, and described as text.

use core::fmt;
use core::time::Duration;

use verbatim_tester::Stream;
use verbatim_wire::{AttributeId, Method};

/// The key of an SMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// The key in force.
    Right,
    /// Another key.
    Other(u64),
    /// The key in force with this bit inverted.
    OneBit(u32),
    Zero,
}

/// The field or attribute that a Set changes, besides the M_Key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// A field of PortInfo, set to a legal value.
    Port(&'static str),
    /// A field of PortInfo, set to an illegal value.
    Illegal(&'static str),
    /// All read-only fields of PortInfo.
    ReadOnly,
    /// The violation counters, set to 0.
    Counters,
    /// Another attribute, or one of its entries.
    Other(AttributeId),
}

/// One step of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// A lock: number of the M_Key (0 for key 0), protect level, lease period in seconds.
    Lock(u8, u8, u16),
    Get(AttributeId, u32, Key),
    Set(What, u64, Key),
    Repress(Key),
    /// A Get by a LID-routed SMP.
    ByLid(AttributeId, u32, Key),
    /// NodeInfo with an undefined method, or as a response.
    Method(Method),
    /// A Get(NodeInfo) with an undefined class version.
    Version(u8),
    Wait(Duration),
}

/// The fields of PortInfo that a step sets to legal values. These Sets do not take the link down. The walk leaves out
/// the addresses if the rig reaches the device by its LID.
const LEGAL: [&str; 18] = [
    "GidPrefix",
    "SubnetTimeOut",
    "LocalPhyErrors",
    "OverrunErrors",
    "MasterSMSL",
    "VLHighLimit",
    "NeighborMTU",
    "OperationalVLs",
    "LinkWidthEnabled",
    "LinkSpeedEnabled",
    "all widths",
    "all speeds",
    "LinkSpeedExtEnabled",
    "LinkDownDefaultState",
    "InitType",
    "McastPkeyTrapSuppressionEnabled",
    "addresses",
    "ClientReregister",
];
const ILLEGAL: [&str; 9] = [
    "PortState",
    "PortPhysicalState",
    "LID",
    "MasterSMLID",
    "NeighborMTU",
    "OperationalVLs",
    "LinkWidthEnabled",
    "LinkSpeedEnabled",
    "LinkDownDefaultState",
];
const SET: [AttributeId; 7] = [
    AttributeId::NODE_DESCRIPTION,
    AttributeId::NODE_INFO,
    AttributeId::GUID_INFO,
    AttributeId::P_KEY_TABLE,
    AttributeId::SL_TO_VL,
    AttributeId::VL_ARBITRATION,
    AttributeId::LED_INFO,
];
const GET: [(AttributeId, &[u32]); 15] = [
    (AttributeId::PORT_INFO, &[0]),
    (AttributeId::PORT_INFO, &[0]),
    (AttributeId::PORT_INFO, &[0]),
    (AttributeId::PORT_INFO, &[0]),
    (AttributeId::PORT_INFO, &[0, 1, 2, 3, 255, 1 << 16]),
    (AttributeId::NODE_INFO, &[0]),
    (AttributeId::NODE_DESCRIPTION, &[0]),
    (AttributeId::GUID_INFO, &[0, 1, 3, 4, 31, 1 << 16]),
    (AttributeId::P_KEY_TABLE, &[0, 1, 2, 0x7FF, 0xFFFF]),
    (AttributeId::SL_TO_VL, &[0]),
    (AttributeId::VL_ARBITRATION, &[1 << 16, 2 << 16, 3 << 16, 4 << 16]),
    (AttributeId::VL_ARBITRATION, &[0, 5 << 16, 0x8001 << 16, 0xFFFF << 16]),
    (AttributeId::LED_INFO, &[0]),
    (AttributeId::SWITCH_INFO, &[0]),
    (AttributeId::LINEAR_FORWARDING, &[0, 1]),
];
const METHODS: [Method; 6] = [
    Method::GET_TABLE,
    Method::GET_MULTI,
    Method::DELETE,
    Method(0x1F),
    Method::GET_RESP,
    Method(0x92),
];
const VERSIONS: [u8; 3] = [0, 2, 0x81];

fn one<T: Copy>(random: &mut Stream, of: &[T]) -> T {
    let last = of.len() as u64 - 1;
    of[random.between(0, last) as usize]
}

impl Key {
    fn drawn(random: &mut Stream) -> Self {
        match random.between(0, 9) {
            0..=5 => Self::Right,
            6 => Self::Zero,
            7 => Self::Other(random.nonzero()),
            _ => Self::OneBit(random.between(0, 63) as u32),
        }
    }
}

impl Action {
    pub(super) fn drawn(random: &mut Stream) -> Self {
        match random.between(0, 99) {
            0..=14 => {
                let lease = one(random, &[0, 2, 5, 9, 15, 60, 300]);
                Self::Lock(one(random, &[0, 1, 1, 2, 2, 3, 3]), random.between(0, 3) as u8, lease)
            }
            15..=17 => {
                let (attribute, modifiers) = one(random, &GET);
                Self::ByLid(attribute, one(random, modifiers), Key::drawn(random))
            }
            18..=48 => {
                let (attribute, modifiers) = one(random, &GET);
                Self::Get(attribute, one(random, modifiers), Key::drawn(random))
            }
            49..=83 => {
                let what = match random.between(0, 9) {
                    0..=3 => What::Port(one(random, &LEGAL)),
                    4..=5 => What::Illegal(one(random, &ILLEGAL)),
                    6 => one(random, &[What::ReadOnly, What::Counters]),
                    _ => What::Other(one(random, &SET)),
                };
                Self::Set(what, random.bits(), Key::drawn(random))
            }
            84..=87 => Self::Repress(Key::drawn(random)),
            88..=90 => Self::Method(one(random, &METHODS)),
            91..=92 => Self::Version(one(random, &VERSIONS)),
            _ => Self::Wait(Duration::from_millis(one(
                random,
                &[100, 1500, 3500, 6500, 10_500, 16_500],
            ))),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right key"),
            Self::Other(_) => f.write_str("another key"),
            Self::OneBit(bit) => write!(f, "right key except bit {bit}"),
            Self::Zero => f.write_str("key 0"),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(name) => write!(f, "PortInfo:{name}"),
            Self::Illegal(name) => write!(f, "PortInfo:{name} to an illegal value"),
            Self::ReadOnly => f.write_str("read-only fields of PortInfo"),
            Self::Counters => f.write_str("violation counters to 0"),
            Self::Other(attribute) => attribute.fmt(f),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(0, level, lease) => write!(f, "set M_Key 0, level {level}, lease {lease} s"),
            Self::Lock(key, level, lease) => write!(f, "set M_Key number {key}, level {level}, lease {lease} s"),
            Self::Get(attribute, 0, key) => write!(f, "Get {attribute}, {key}"),
            Self::Get(attribute, modifier, key) => write!(f, "Get {attribute} {modifier:#x}, {key}"),
            Self::Set(what, _, key) => write!(f, "Set {what}, {key}"),
            Self::Repress(key) => write!(f, "TrapRepress, {key}"),
            Self::ByLid(attribute, modifier, key) => write!(f, "Get {attribute} {modifier:#x} by LID, {key}"),
            Self::Method(method) => write!(f, "{method} NodeInfo"),
            Self::Version(version) => write!(f, "Get NodeInfo in class version {version}"),
            Self::Wait(time) => write!(f, "wait {} ms", time.as_millis()),
        }
    }
}
