//! Attributes of the subnet management and performance classes.
//!
//! Source of the layouts: libibmad's field table and OpenSM's `ib_types.h`. A test compares these layouts with
//! libibmad's encoder and decoder.

mod node;
mod notice;
mod performance;
mod port_info;
mod tables;

use core::fmt;

pub use node::{LedInfo, NodeDescription, NodeInfo, SmInfo, SwitchInfo};
pub use notice::Notice;
pub use performance::{ClassPortInfo, PortCounters, PortRcvErrorDetails};
pub use port_info::PortInfo;
pub use tables::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlMappingTable, VlArbitrationTable,
};

use crate::codes::{AttributeId, MgmtClass};
use crate::layout::{Field, Layout};
use crate::mad::Mad;

/// An attribute that a MAD can carry.
pub trait Attribute: Layout + Copy + Default {
    /// The AttributeID.
    const ID: AttributeId;
    /// Whether the attribute belongs to the performance class. Otherwise it belongs to the subnet management
    /// classes.
    const PERFORMANCE: bool = false;
}

/// Calls a macro with all attributes of both classes.
macro_rules! every_attribute {
    ($call:ident) => {
        $call! {
            NodeDescription, NodeInfo, SwitchInfo, GuidInfo, PortInfo, PKeyTable, SlToVlMappingTable,
            VlArbitrationTable, LinearForwardingTable, MulticastForwardingTable, SmInfo, LedInfo, Notice,
            ClassPortInfo, PortCounters, PortRcvErrorDetails
        }
    };
}

macro_rules! any_attribute {
    ($($name:ident),*) => {
        /// An attribute with a known layout.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum AnyAttribute {
            $( #[doc = concat!("`", stringify!($name), "`.")] $name($name) ),*
        }

        impl AnyAttribute {
            /// Parses the attribute `id` of `class`. Returns `None` if its layout is not known.
            #[must_use]
            pub fn from_bytes(class: MgmtClass, id: AttributeId, bytes: &[u8]) -> Option<Self> {
                $( if id == <$name as Attribute>::ID && is_of_class(<$name as Attribute>::PERFORMANCE, class) {
                    return Some(Self::$name($name::from_bytes(bytes)));
                } )*
                None
            }

            /// Returns the fields of the attribute.
            #[must_use]
            pub fn fields(&self) -> &'static [Field] {
                match self { $( Self::$name(_) => <$name as Layout>::FIELDS, )* }
            }

            /// Returns the bytes of the attribute.
            #[must_use]
            pub fn bytes(&self) -> &[u8] {
                match self { $( Self::$name(attribute) => attribute.bytes(), )* }
            }

            /// Returns the specification's name of an attribute, or its number if it has no name in the class.
            #[must_use]
            pub fn name(class: MgmtClass, id: AttributeId) -> String {
                $( if id == <$name as Attribute>::ID && is_of_class(<$name as Attribute>::PERFORMANCE, class) {
                    return <$name as Layout>::NAME.into();
                } )*
                id.name_in(class)
            }
        }

        impl fmt::Display for AnyAttribute {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $( Self::$name(attribute) => fmt::Display::fmt(attribute, f), )* }
            }
        }
    };
}
every_attribute!(any_attribute);

/// Returns whether `class` has an attribute. `performance` is the attribute's [`Attribute::PERFORMANCE`].
fn is_of_class(performance: bool, class: MgmtClass) -> bool {
    match class {
        MgmtClass::PERF => performance,
        MgmtClass::SUBN_LID | MgmtClass::SUBN_DIRECTED => !performance,
        _ => false,
    }
}

impl AnyAttribute {
    /// Returns the attribute of a MAD, or `None` if its layout or its class is not known.
    #[must_use]
    pub fn of(mad: &Mad) -> Option<Self> {
        (mad.is_smp() || mad.class() == MgmtClass::PERF)
            .then(|| Self::from_bytes(mad.class(), mad.attribute_id(), mad.data()))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{LeasePeriod, ProtectBits};
    use crate::{Lid, MKey, VlCap};
    use proptest::prelude::*;

    macro_rules! ids_are_unique {
        ($($name:ident),*) => {{
            let mut ids = vec![$( ($name::PERFORMANCE, $name::ID) ),*];
            ids.sort();
            let all = ids.len();
            ids.dedup();
            assert_eq!(ids.len(), all);
        }};
    }

    #[test]
    fn attribute_name_depends_on_class() {
        for (class, id, name) in [
            (MgmtClass::SUBN_DIRECTED, 0x10, "NodeDescription"),
            (MgmtClass::COM_MGT, 0x10, "ConnectRequest"),
            (MgmtClass::SUBN_LID, 0x31, "LedInfo"),
            (MgmtClass::SUBN_ADM, 0x31, "ServiceRecord"),
            (MgmtClass::PERF, 0x12, "PortCounters"),
            (MgmtClass::SUBN_LID, 0x12, "SwitchInfo"),
        ] {
            assert_eq!(AnyAttribute::name(class, AttributeId(id)), name, "{class}");
            let bytes = [0; 64];
            let has_layout = matches!(class, MgmtClass::SUBN_DIRECTED | MgmtClass::SUBN_LID | MgmtClass::PERF);
            let known = AnyAttribute::from_bytes(class, AttributeId(id), &bytes);
            assert!(known.is_none() || has_layout, "{class} {id:#06x}");
        }
    }

    #[test]
    fn attribute_ids_are_unique_in_a_class() {
        every_attribute!(ids_are_unique);
    }

    #[test]
    fn builders_write_where_getters_read() {
        let info = PortInfo::default()
            .with_m_key(MKey(7))
            .with_lid(Lid(0x1234))
            .with_protect_bits(ProtectBits(2))
            .with_m_key_lease_period(LeasePeriod(15))
            .with_operational_vls(VlCap(4));
        assert_eq!(info.m_key(), MKey(7));
        assert_eq!(info.lid(), Lid(0x1234));
        assert_eq!(info.bytes()[34], 0b1000_0000);
        assert_eq!(info.bytes()[43], 0x40);
        let difference = &info.differences(&info.with_operational_vls(VlCap(1)))[0];
        assert_eq!(difference.to_string(), "OperationalVLs: VL0-7 / VL0");
    }

    #[test]
    fn validate_names_each_illegal_field() {
        let info = PortInfo::from_bytes(&[0xFF; 64]);
        let error = info.validate().unwrap_err().to_string();
        assert!(error.contains("PortState = 0xf (unknown)"), "{error}");
        assert!(error.contains("Reserved274 = 0x7 (reserved)"), "{error}");
    }

    #[test]
    fn table_entries_do_not_overlap() {
        let mut table = VlArbitrationTable::default();
        for entry in 0..32u8 {
            table = table
                .with_vl(entry.into(), entry % 16)
                .with_weight(entry.into(), 200 + entry);
        }
        assert_eq!((table.vl(17), table.weight(17)), (1, 217));
        assert_eq!(table.bytes()[34..36], [1, 217]);
        assert_eq!(table.reserved(17), crate::Reserved(0));
    }

    proptest! {
        #[test]
        fn any_bytes_print_and_validate(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), id in 0u16..0x40, performance: bool
        ) {
            let class = if performance { MgmtClass::PERF } else { MgmtClass::SUBN_LID };
            if let Some(attribute) = AnyAttribute::from_bytes(class, AttributeId(id), &bytes) {
                prop_assert!(!attribute.to_string().is_empty());
                for field in attribute.fields() {
                    prop_assert!(!field.words(attribute.bytes()).is_empty() || field.style == crate::Style::Octets);
                    let _ = field.is_legal(attribute.bytes());
                }
            }
        }
    }
}
