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

/// A number with a name. With `legal |bits| expression`, some numbers have no meaning.
macro_rules! newtype {
    ($(#[$meta:meta])* $name:ident($inner:ty) $(legal |$bits:ident| $legal:expr)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
        pub struct $name(pub $inner);
        impl $crate::value::Value for $name {
            #[allow(clippy::cast_possible_truncation)] // a field is never wider than its type
            fn from_bits(bits: u64) -> Self {
                Self(bits as $inner)
            }
            fn to_bits(self) -> u64 {
                u64::from(self.0)
            }
            $(fn is_legal(self) -> bool {
                let $bits = self.0;
                $legal
            })?
        }
    };
}

/// A number printed in hexadecimal, `0x` and so many digits together.
macro_rules! hex {
    ($(#[$meta:meta])* $name:ident($inner:ty), $digits:literal) => {
        $crate::value::newtype!($(#[$meta])* $name($inner));
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!("{:#0", $digits, "x}"), self.0)
            }
        }
    };
}

/// A number whose codes have names; unknown ones print as `0x5 (unknown)`, or with so many digits.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident($inner:ty $(, $digits:literal)?) {
        $($code:literal $konst:ident $words:literal),* $(,)?
    }) => {
        $crate::value::newtype!($(#[$meta])* $name($inner) legal |bits| [$($code),*].contains(&bits));
        impl $name {
            $( #[doc = concat!("Code `", stringify!($code), "`: ", $words, ".")] pub const $konst: Self = Self($code); )*

            /// The name, if the code has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $( $code => Some($words), )* _ => None }
            }
        }
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!("{:#" $(, "0", $digits)?, "x} (unknown)"), self.0),
                }
            }
        }
    };
}

pub(crate) use {hex, named, newtype};
