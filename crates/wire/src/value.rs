//! Values of fields: the conversion from and to bits, the legal values, and the printed form.

use core::fmt;

/// A type that a field of a layout can hold.
///
/// A value that a device writes is a newtype, never a Rust enum, because every bit pattern must be representable.
pub trait Value: Copy + PartialEq + fmt::Display + fmt::Debug {
    /// Returns the value with these bits. Never fails: an illegal bit pattern is a value too.
    fn from_bits(bits: u64) -> Self;
    /// Returns the bits of this value, right-aligned.
    fn to_bits(self) -> u64;
    /// Returns whether the architecture defines this value for the field.
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

/// Bits that the architecture reserves. A sender sets them to 0 and a receiver ignores them.
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

/// Declares a newtype of an integer. `legal |bits| expression` limits the legal values; by default all are legal.
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

/// Declares a newtype that prints as `0x` and hexadecimal digits. `$digits` is the printed width, with the `0x`.
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

/// Declares a newtype whose codes have names. An unknown code prints as `0x5 (unknown)`. The optional `$digits` is the
/// width of the printed number, with the `0x`.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident($inner:ty $(, $digits:literal)?) {
        $($code:literal $konst:ident $words:literal),* $(,)?
    }) => {
        $crate::value::newtype!($(#[$meta])* $name($inner) legal |bits| [$($code),*].contains(&bits));
        impl $name {
            $( #[doc = concat!("Code `", stringify!($code), "`: ", $words, ".")] pub const $konst: Self = Self($code); )*

            /// Returns the name of the code, or `None` for an unknown code.
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
