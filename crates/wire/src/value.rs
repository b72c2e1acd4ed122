//! What stands in a field: a number with a name, legal values and words for people.

use core::fmt;

/// A type that a field of a layout can hold.
///
/// Values that a device writes are newtypes, never Rust enums: any bit pattern must be representable.
pub trait Value: Copy + PartialEq + fmt::Display + fmt::Debug {
    /// The value whose bits these are. Never fails: illegal values are values too.
    fn from_bits(bits: u64) -> Self;
    /// The bits of this value, right-aligned.
    fn to_bits(self) -> u64;
    /// Whether the architecture gives this value a meaning in the field.
    fn is_legal(self) -> bool {
        true
    }
}

macro_rules! plain_value {
    ($($t:ty),*) => {$(
        impl Value for $t {
            // A field is never wider than the type that its layout names.
            #[allow(clippy::cast_possible_truncation)]
            fn from_bits(bits: u64) -> Self {
                bits as $t
            }
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}
plain_value!(u8, u16, u32, u64);

impl Value for bool {
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
}

/// Bits that the architecture reserves: sent as 0, ignored on receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reserved(pub u64);

impl Value for Reserved {
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    fn to_bits(self) -> u64 {
        self.0
    }
    fn is_legal(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} (reserved)", self.0)
    }
}
