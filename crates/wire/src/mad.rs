//! Management datagrams (MADs): 256 bytes with a common header of 24 bytes.
//!
//! Source of the layouts: architecture chapters 13 and 14; `ib_mad.h` of Linux.

use core::fmt;

use crate::attr::{AnyAttribute, Attribute};
use crate::codes::{AttributeId, Method, MgmtClass, Status};
use crate::layout::{Layout, Style, layout};
use crate::value::Reserved;
use crate::values::{Hex16, Hex32, Hex64, Lid, MKey};

/// Length of every MAD in bytes.
pub const MAD_LENGTH: usize = 256;
/// Length of the data of a subnet management packet in bytes.
pub const SMP_DATA_LENGTH: usize = 64;

layout! {
    /// The common header of every MAD, 24 bytes (architecture 13.4.2).
    pub struct MadHeader[24] "MADHeader" {
        /// BaseVersion: 1.
        base_version, with_base_version: u8 = "BaseVersion" @ 0, 8;
        /// MgmtClass.
        class, with_class: MgmtClass = "MgmtClass" @ 8, 8;
        /// ClassVersion.
        class_version, with_class_version: u8 = "ClassVersion" @ 16, 8;
        /// R bit and Method.
        method, with_method: Method = "R_Method" @ 24, 8;
        /// Status; bit 15 is the D bit in a directed-route SMP.
        status_word, with_status_word: Hex16 = "Status" @ 32, 16;
        /// Class specific: hop pointer and count in a directed-route SMP.
        class_specific, with_class_specific: Hex16 = "ClassSpecific" @ 48, 16;
        /// TransactionID.
        transaction_id, with_transaction_id: Hex64 = "TransactionID" @ 64, 64;
        /// AttributeID.
        attribute, with_attribute: AttributeId = "AttributeID" @ 128, 16;
        /// Reserved.
        reserved_144, with_reserved_144: Reserved = "Reserved144" @ 144, 16;
        /// AttributeModifier.
        modifier, with_modifier: Hex32 = "AttributeModifier" @ 160, 32;
    }
}

layout! {
    /// A LID-routed subnet management packet (architecture 14.2.1.1).
    pub struct LidSmp[256] "SMP (LID routed)" {
        /// The common header.
        header_octet, with_header_octet: u8 octets = "MADHeader" @ 0, 8, [24; 8];
        /// M_Key.
        m_key, with_m_key: MKey = "M_Key" @ 192, 64;
        /// Reserved.
        reserved_256, with_reserved_256: Reserved = "Reserved256" @ 256, 64, [4; 64];
        /// SMPData.
        data_octet, with_data_octet: u8 octets = "SMPData" @ 512, 8, [64; 8];
        /// Reserved.
        reserved_1024, with_reserved_1024: Reserved = "Reserved1024" @ 1024, 64, [16; 64];
    }
}

layout! {
    /// A directed-route subnet management packet (architecture 14.2.1.2).
    pub struct DrSmp[256] "SMP (directed route)" {
        /// BaseVersion: 1.
        base_version, with_base_version: u8 = "BaseVersion" @ 0, 8;
        /// MgmtClass: 0x81.
        class, with_class: MgmtClass = "MgmtClass" @ 8, 8;
        /// ClassVersion.
        class_version, with_class_version: u8 = "ClassVersion" @ 16, 8;
        /// R bit and Method.
        method, with_method: Method = "R_Method" @ 24, 8;
        /// D: the direction bit, set in a response on its return path.
        direction, with_direction: bool = "D" @ 32, 1;
        /// Status.
        status, with_status: Status = "Status" @ 33, 15;
        /// HopPointer.
        hop_pointer, with_hop_pointer: u8 = "HopPointer" @ 48, 8;
        /// HopCount.
        hop_count, with_hop_count: u8 = "HopCount" @ 56, 8;
        /// TransactionID.
        transaction_id, with_transaction_id: Hex64 = "TransactionID" @ 64, 64;
        /// AttributeID.
        attribute, with_attribute: AttributeId = "AttributeID" @ 128, 16;
        /// Reserved.
        reserved_144, with_reserved_144: Reserved = "Reserved144" @ 144, 16;
        /// AttributeModifier.
        modifier, with_modifier: Hex32 = "AttributeModifier" @ 160, 32;
        /// M_Key.
        m_key, with_m_key: MKey = "M_Key" @ 192, 64;
        /// DrSLID.
        dr_slid, with_dr_slid: Lid = "DrSLID" @ 256, 16;
        /// DrDLID.
        dr_dlid, with_dr_dlid: Lid = "DrDLID" @ 272, 16;
        /// Reserved.
        reserved_288, with_reserved_288: Reserved = "Reserved288" @ 288, 32, [7; 32];
        /// SMPData.
        data_octet, with_data_octet: u8 octets = "SMPData" @ 512, 8, [64; 8];
        /// InitialPath: the output port of each hop; entry 0 is unused.
        initial_path, with_initial_path: u8 octets = "InitialPath" @ 1024, 8, [64; 8];
        /// ReturnPath: the port that received the packet at each hop.
        return_path, with_return_path: u8 octets = "ReturnPath" @ 1536, 8, [64; 8];
    }
}

layout! {
    /// A general management packet with data from byte 64 on, as in the performance class (architecture 16.1).
    pub struct Gmp[256] "GMP" {
        /// The common header.
        header_octet, with_header_octet: u8 octets = "MADHeader" @ 0, 8, [24; 8];
        /// Reserved.
        reserved_192, with_reserved_192: Reserved = "Reserved192" @ 192, 64, [5; 64];
        /// The attribute.
        data_octet, with_data_octet: u8 octets = "Data" @ 512, 8, [192; 8];
    }
}

/// The error for bytes that are not a MAD.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a MAD has 256 bytes, this one has {length}: truncated on the way, or not a MAD")]
pub struct MadError {
    /// Number of bytes given.
    pub length: usize,
}

/// A management datagram: any 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mad([u8; MAD_LENGTH]);

impl Default for Mad {
    /// Sets all bytes to 0.
    fn default() -> Self {
        Self([0; MAD_LENGTH])
    }
}

impl From<[u8; MAD_LENGTH]> for Mad {
    fn from(bytes: [u8; MAD_LENGTH]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for Mad {
    type Error = MadError;
    fn try_from(bytes: &[u8]) -> Result<Self, MadError> {
        <[u8; MAD_LENGTH]>::try_from(bytes)
            .map(Self)
            .map_err(|_| MadError { length: bytes.len() })
    }
}

impl Mad {
    /// Creates a directed-route SMP as its sender sends it: hop pointer 0, DrSLID and DrDLID permissive.
    ///
    /// `path` lists the output port of each hop.
    ///
    /// # Panics
    /// If the path has more than 63 hops.
    #[must_use]
    pub fn directed(method: Method, attribute: AttributeId, modifier: u32, path: &[u8]) -> Self {
        assert!(
            path.len() < 64,
            "a directed route has at most 63 hops, not {}",
            path.len()
        );
        let mut mad = Self::request(MgmtClass::SUBN_DIRECTED, method, attribute, modifier);
        #[allow(clippy::cast_possible_truncation)] // at most 63
        let count = path.len() as u8;
        mad.0[7] = count;
        mad.0[32..36].fill(0xFF);
        mad.0[129..129 + path.len()].copy_from_slice(path);
        mad
    }

    /// Creates a LID-routed SMP.
    #[must_use]
    pub fn lid_routed(method: Method, attribute: AttributeId, modifier: u32) -> Self {
        Self::request(MgmtClass::SUBN_LID, method, attribute, modifier)
    }

    /// Creates a general management packet of the performance class.
    #[must_use]
    pub fn performance(method: Method, attribute: AttributeId, modifier: u32) -> Self {
        Self::request(MgmtClass::PERF, method, attribute, modifier)
    }

    fn request(class: MgmtClass, method: Method, attribute: AttributeId, modifier: u32) -> Self {
        Self::default().with_header(
            &MadHeader::default()
                .with_base_version(1)
                .with_class(class)
                .with_class_version(1)
                .with_method(method)
                .with_attribute(attribute)
                .with_modifier(Hex32(modifier)),
        )
    }

    /// Returns the bytes of the MAD.
    #[must_use]
    pub fn bytes(&self) -> &[u8; MAD_LENGTH] {
        &self.0
    }

    /// Returns the bytes for modification; any value is allowed.
    pub fn bytes_mut(&mut self) -> &mut [u8; MAD_LENGTH] {
        &mut self.0
    }

    /// Returns the common header.
    #[must_use]
    pub fn header(&self) -> MadHeader {
        MadHeader::from_bytes(&self.0)
    }

    /// Returns this MAD with another common header.
    #[must_use]
    pub fn with_header(mut self, header: &MadHeader) -> Self {
        self.0[..24].copy_from_slice(header.bytes());
        self
    }

    /// Returns this MAD with all reserved bits set in the common header and, in an SMP, in the fields after the common
    /// header.
    #[must_use]
    pub fn with_reserved_set(mut self) -> Self {
        let of_route = match (self.is_smp(), self.is_directed()) {
            (false, _) => &[][..],
            (true, true) => DrSmp::FIELDS,
            (true, false) => LidSmp::FIELDS,
        };
        let fields = MadHeader::FIELDS.iter().chain(of_route);
        for field in fields.filter(|field| field.style == Style::Reserved) {
            for index in 0..field.count {
                let at = field.offset + index * field.stride;
                crate::set_bits(&mut self.0, at, field.width, u64::MAX >> (64 - field.width));
            }
        }
        self
    }

    /// Returns MgmtClass.
    #[must_use]
    pub fn class(&self) -> MgmtClass {
        MgmtClass(self.0[1])
    }

    /// Returns the R bit and Method.
    #[must_use]
    pub fn method(&self) -> Method {
        Method(self.0[3])
    }

    /// Returns this MAD with another method.
    #[must_use]
    pub fn with_method(mut self, method: Method) -> Self {
        self.0[3] = method.0;
        self
    }

    /// Returns Status, without the D bit of a directed-route SMP.
    #[must_use]
    pub fn status(&self) -> Status {
        let word = u16::from_be_bytes([self.0[4], self.0[5]]);
        Status(if self.is_directed() { word & 0x7FFF } else { word })
    }

    /// Returns this MAD with another status. Preserves the D bit of a directed-route SMP.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Self {
        let kept = if self.is_directed() {
            u16::from(self.0[4] & 0x80) << 8
        } else {
            0
        };
        self.0[4..6].copy_from_slice(&(status.0 | kept).to_be_bytes());
        self
    }

    /// Returns TransactionID.
    #[must_use]
    pub fn transaction_id(&self) -> u64 {
        self.header().transaction_id().0
    }

    /// Returns this MAD with another TransactionID.
    #[must_use]
    pub fn with_transaction_id(mut self, id: u64) -> Self {
        self.0[8..16].copy_from_slice(&id.to_be_bytes());
        self
    }

    /// Returns AttributeID.
    #[must_use]
    pub fn attribute_id(&self) -> AttributeId {
        AttributeId(u16::from_be_bytes([self.0[16], self.0[17]]))
    }

    /// Returns AttributeModifier.
    #[must_use]
    pub fn modifier(&self) -> u32 {
        u32::from_be_bytes([self.0[20], self.0[21], self.0[22], self.0[23]])
    }

    /// Returns the M_Key of a subnet management packet.
    #[must_use]
    pub fn m_key(&self) -> MKey {
        LidSmp::from_bytes(&self.0).m_key()
    }

    /// Returns this MAD with another M_Key.
    #[must_use]
    pub fn with_m_key(mut self, key: MKey) -> Self {
        self.0[24..32].copy_from_slice(&key.0.to_be_bytes());
        self
    }

    /// Returns whether the class is one of the subnet management classes.
    #[must_use]
    pub fn is_smp(&self) -> bool {
        matches!(self.class(), MgmtClass::SUBN_LID | MgmtClass::SUBN_DIRECTED)
    }

    /// Returns whether the class is directed-route subnet management.
    #[must_use]
    pub fn is_directed(&self) -> bool {
        self.class() == MgmtClass::SUBN_DIRECTED
    }

    /// Returns the attribute's bytes: 64 in a subnet management packet, 192 in other MADs.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        if self.is_smp() { &self.0[64..128] } else { &self.0[64..] }
    }

    /// Returns this MAD with the first bytes of the attribute replaced. Ignores surplus bytes.
    #[must_use]
    pub fn with_data(mut self, data: &[u8]) -> Self {
        let room = self.data().len().min(data.len());
        self.0[64..64 + room].copy_from_slice(&data[..room]);
        self
    }

    /// Returns a view of the attribute.
    #[must_use]
    pub fn attribute<A: Attribute>(&self) -> A {
        A::from_bytes(self.data())
    }

    /// Returns the bytes up to the last non-zero byte. A record stores a MAD in this form.
    #[must_use]
    pub fn without_trailing_zeros(&self) -> &[u8] {
        let end = self.0.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        &self.0[..end]
    }

    /// Restores a MAD from its bytes without trailing zeros.
    ///
    /// # Errors
    /// If there are more than 256 bytes.
    pub fn with_trailing_zeros(bytes: &[u8]) -> Result<Self, MadError> {
        if bytes.len() > MAD_LENGTH {
            return Err(MadError { length: bytes.len() });
        }
        let mut mad = Self::default();
        mad.0[..bytes.len()].copy_from_slice(bytes);
        Ok(mad)
    }
}

impl fmt::Display for Mad {
    /// Prints one line: class, method, attribute, modifier, status.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.is_smp() {
            "Subn".into()
        } else {
            self.class().to_string()
        };
        let attribute = AnyAttribute::name(self.class(), self.attribute_id());
        write!(f, "{class}{}({attribute}", self.method())?;
        if self.modifier() != 0 {
            write!(f, ", modifier {:#010x}", self.modifier())?;
        }
        f.write_str(")")?;
        if self.method().is_response() {
            write!(f, " status {}", self.status())
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_directed() {
            write!(f, "{}", DrSmp::from_bytes(&self.0))?;
        } else {
            write!(f, "{}\n  M_Key {}", self.header(), self.m_key())?;
        }
        match AnyAttribute::of(self) {
            Some(attribute) => write!(f, "\n{attribute}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortInfo;
    use proptest::prelude::*;

    #[test]
    fn directed_smp_fields_match_offsets() {
        let mad = Mad::directed(Method::GET, AttributeId::PORT_INFO, 1, &[1]).with_m_key(MKey(0x0102_0304_0506_0708));
        let b = mad.bytes();
        assert_eq!(&b[..4], &[1, 0x81, 1, 1]);
        assert_eq!((b[6], b[7]), (0, 1), "hop pointer, hop count");
        assert_eq!(&b[16..24], &[0, 0x15, 0, 0, 0, 0, 0, 1]);
        assert_eq!(&b[24..32], &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(&b[32..36], &[0xFF; 4], "DrSLID, DrDLID permissive");
        assert_eq!(&b[128..131], &[0, 1, 0], "initial path");
    }

    #[test]
    fn status_excludes_direction_bit() {
        let mut mad = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_method(Method::GET_RESP);
        mad.bytes_mut()[4] = 0x80;
        assert_eq!(mad.status(), Status::OK);
        let refused = mad.with_status(Status::INVALID_FIELD);
        assert_eq!(refused.bytes()[4..6], [0x80, 0x1C]);
        assert_eq!(
            refused.to_string(),
            "SubnGetResp(PortInfo) status 0x001c (invalid value in attribute or modifier)"
        );
    }

    #[test]
    fn rejects_mad_of_other_length() {
        let error = Mad::try_from(&[0u8; 255][..]).unwrap_err();
        assert_eq!(error.length, 255);
        assert!(Mad::with_trailing_zeros(&[0; 257]).is_err());
    }

    proptest! {
        #[test]
        fn any_256_bytes_print_as_mad(seed in proptest::collection::vec(any::<u8>(), 256)) {
            let mad = Mad::try_from(&seed[..]).unwrap();
            let printed = format!("{mad} {mad:?}");
            prop_assert!(printed.len() > 10);
            prop_assert_eq!(Mad::with_trailing_zeros(mad.without_trailing_zeros()).unwrap(), mad);
            let _ = mad.attribute::<PortInfo>().validate();
        }
    }
}
