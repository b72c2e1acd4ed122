//! Values of packet headers, as newtypes that print what they mean.

use core::fmt;

use crate::value::Value;

/// A type whose codes have names; unknown codes print as `0x5 (unknown)`.
macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($code:literal $konst:ident $words:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
        pub struct $name(pub u8);
        impl $name {
            $( #[doc = concat!("`", stringify!($code), "`: ", $words, ".")] pub const $konst: Self = Self($code); )*

            /// The name, if the code has one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $( $code => Some($words), )* _ => None }
            }
        }
        impl Value for $name {
            #[allow(clippy::cast_possible_truncation)] // a field is never wider than its type
            fn from_bits(bits: u64) -> Self { Self(bits as u8) }
            fn to_bits(self) -> u64 { self.0.into() }
            fn is_legal(self) -> bool { self.name().is_some() }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#04x} (unknown)", self.0),
                }
            }
        }
    };
}
pub(crate) use codes;

codes!(
    /// LRH:LNH: which header follows the LRH.
    Lnh { 0 RAW "raw", 1 IPV6 "raw IPv6", 2 IBA_LOCAL "IBA local", 3 IBA_GLOBAL "IBA global" }
);
/// A queue pair number: 0 takes subnet management packets, 1 general ones, 0xFFFFFF a multicast group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Qpn(pub u32);

impl Qpn {
    /// QP0: subnet management packets.
    pub const SMI: Self = Self(0);
    /// QP1: general management packets.
    pub const GSI: Self = Self(1);
    /// All members of a multicast group.
    pub const MULTICAST: Self = Self(0xFF_FFFF);
}

impl Value for Qpn {
    #[allow(clippy::cast_possible_truncation)] // the field has 24 bits
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
    fn to_bits(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)?;
        match *self {
            Self::SMI => f.write_str(" (SMI)"),
            Self::GSI => f.write_str(" (GSI)"),
            Self::MULTICAST => f.write_str(" (multicast)"),
            _ => Ok(()),
        }
    }
}

/// A queue key. The one of QP1 is a constant; bit 31 says privileged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct QKey(pub u32);

impl QKey {
    /// The Q_Key of QP1.
    pub const GSI: Self = Self(0x8001_0000);
}

impl Value for QKey {
    #[allow(clippy::cast_possible_truncation)] // the field has 32 bits
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
    fn to_bits(self) -> u64 {
        self.0.into()
    }
}

impl fmt::Display for QKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_as_people_say_them() {
        assert_eq!(Lnh(3).to_string(), "IBA global");
        assert_eq!(Qpn(1).to_string(), "0x000001 (GSI)");
    }
}
