//! The `layout!` macro, which declares a layout, and the operations on every layout.

use core::fmt;

use crate::bits::{get_bits, set_bits};

/// The printed form of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// The value, or in a table a list of the values of all elements.
    Value,
    /// Reserved bits, printed only if a bit is set.
    Reserved,
    /// Text, padded with zeros.
    Text,
    /// Bytes without further structure, in hexadecimal.
    Octets,
}

/// One field of a layout.
#[derive(Clone, Copy)]
pub struct Field {
    /// The specification's name.
    pub name: &'static str,
    /// Offset in bits from the first bit of the object, which is the most significant bit of the first byte.
    pub offset: usize,
    /// Width of one element in bits, 1 to 64.
    pub width: usize,
    /// Number of elements; 1 except in tables.
    pub count: usize,
    /// Distance from one element to the next in bits.
    pub stride: usize,
    /// The printed form.
    pub style: Style,
    show: fn(u64) -> String,
    legal: fn(u64) -> bool,
}

impl Field {
    /// Creates a field. Only the `layout!` macro calls this function.
    #[doc(hidden)]
    #[must_use]
    pub const fn new<V: crate::Value>(
        name: &'static str,
        offset: usize,
        width: usize,
        (count, stride): (usize, usize),
        style: Style,
    ) -> Self {
        Self {
            name,
            offset,
            width,
            count,
            stride,
            style,
            show: show::<V>,
            legal: legal::<V>,
        }
    }

    /// Returns the bits of element `index` in `bytes`.
    #[must_use]
    pub fn bits(&self, bytes: &[u8], index: usize) -> u64 {
        get_bits(bytes, self.offset + index * self.stride, self.width)
    }

    /// Returns the value in words, for example "VL0-3", "Armed" or "18 = 1.07 s".
    #[must_use]
    pub fn words(&self, bytes: &[u8]) -> String {
        match self.style {
            Style::Text => text(bytes, self),
            Style::Octets => self.elements(bytes).map(|bits| format!("{bits:02x}")).collect(),
            _ if self.count == 1 => (self.show)(self.bits(bytes, 0)),
            _ => self
                .elements(bytes)
                .map(|bits| (self.show)(bits))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    /// Returns the value of one element in words.
    #[must_use]
    pub fn words_of(&self, bits: u64) -> String {
        (self.show)(bits)
    }

    /// Returns whether the value of every element is legal.
    #[must_use]
    pub fn is_legal(&self, bytes: &[u8]) -> bool {
        self.elements(bytes).all(self.legal)
    }

    fn elements<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        (0..self.count).map(move |index| self.bits(bytes, index))
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.name, self.offset, self.width)?;
        if self.count > 1 {
            write!(f, "x{}", self.count)
        } else {
            Ok(())
        }
    }
}

fn show<V: crate::Value>(bits: u64) -> String {
    V::from_bits(bits).to_string()
}

fn legal<V: crate::Value>(bits: u64) -> bool {
    V::from_bits(bits).is_legal()
}

fn text(bytes: &[u8], field: &Field) -> String {
    #[allow(clippy::cast_possible_truncation)] // elements of text are 8 bits wide
    let raw: Vec<u8> = field.elements(bytes).map(|bits| bits as u8).collect();
    let end = raw.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    format!("{:?}", String::from_utf8_lossy(&raw[..end]))
}

/// An object of fixed size with declared fields.
pub trait Layout: Clone + PartialEq + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// The specification's name.
    const NAME: &'static str;
    /// Size of the object in bytes.
    const SIZE: usize;
    /// All fields, including reserved ones, in wire order of their first element.
    const FIELDS: &'static [Field];

    /// Returns a view of a copy of `bytes`. Fills missing bytes with 0 and ignores surplus bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Returns the bytes of the object.
    fn bytes(&self) -> &[u8];

    /// Returns the field `name`.
    ///
    /// # Panics
    /// If the layout has no field of that name.
    #[track_caller]
    fn field(name: &str) -> &'static Field {
        let Some(field) = Self::FIELDS.iter().find(|field| field.name == name) else {
            let names: Vec<_> = Self::FIELDS.iter().map(|field| field.name).collect();
            panic!("{} has no field {name}; it has {}", Self::NAME, names.join(", "));
        };
        field
    }

    /// Returns whether every bit of the field `name` is 0.
    ///
    /// # Panics
    /// If the layout has no field of that name.
    fn is_zero_in(&self, name: &str) -> bool {
        let field = Self::field(name);
        (0..field.count).all(|index| field.bits(self.bytes(), index) == 0)
    }

    /// Returns a copy of this object with the named fields taken from `other`.
    ///
    /// # Panics
    /// If the layout has no field of a given name.
    #[must_use]
    fn with_fields_of(&self, other: &Self, names: &[&str]) -> Self {
        let mut bytes = self.bytes().to_vec();
        for field in names.iter().map(|name| Self::field(name)) {
            for index in 0..field.count {
                let bits = field.bits(other.bytes(), index);
                set_bits(&mut bytes, field.offset + index * field.stride, field.width, bits);
            }
        }
        Self::from_bytes(&bytes)
    }

    /// Returns the fields in which the two objects differ, in wire order.
    fn differences(&self, other: &Self) -> Vec<Difference> {
        Self::FIELDS
            .iter()
            .filter(|field| (0..field.count).any(|i| field.bits(self.bytes(), i) != field.bits(other.bytes(), i)))
            .map(|field| Difference {
                field,
                left: field.words(self.bytes()),
                right: field.words(other.bytes()),
            })
            .collect()
    }

    /// Converts this object to [`Valid`] if all its values are legal and all its reserved bits are 0.
    ///
    /// # Errors
    /// All fields with an illegal value.
    fn validate(self) -> Result<Valid<Self>, Invalid> {
        let fields: Vec<_> = Self::FIELDS
            .iter()
            .filter(|field| !field.is_legal(self.bytes()))
            .map(|field| (field, field.words(self.bytes())))
            .collect();
        if fields.is_empty() {
            Ok(Valid(self))
        } else {
            Err(Invalid {
                object: Self::NAME,
                fields,
            })
        }
    }
}

/// An object whose fields all hold legal values. Only [`Layout::validate`] creates a `Valid`.
#[derive(Clone, PartialEq, Debug)]
pub struct Valid<L>(L);

impl<L> Valid<L> {
    /// Returns the view, whose fields accept any value.
    pub fn into_inner(self) -> L {
        self.0
    }
}

impl<L> core::ops::Deref for Valid<L> {
    type Target = L;
    fn deref(&self) -> &L {
        &self.0
    }
}

/// The error of [`Layout::validate`]: the fields with an illegal value.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Invalid {
    /// The name of the object's layout.
    pub object: &'static str,
    /// The illegal fields and their values in words.
    pub fields: Vec<(&'static Field, String)>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} holds illegal values:", self.object)?;
        for (field, words) in &self.fields {
            write!(f, " {} = {words};", field.name)?;
        }
        Ok(())
    }
}

/// A field in which two objects differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The field.
    pub field: &'static Field,
    /// Its value in the first object, in words.
    pub left: String,
    /// Its value in the second object, in words.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} / {}", self.field.name, self.left, self.right)
    }
}

/// Returns whether the fields cover each bit of the object exactly once and stand in wire order. `layout!` calls this
/// function at compile time.
pub(crate) const fn covers_each_bit_once(fields: &[Field], size: usize) -> bool {
    let mut seen = [false; 256 * 8];
    let mut total = 0;
    let mut f = 0;
    while f < fields.len() {
        let field = fields[f];
        if f > 0 && field.offset <= fields[f - 1].offset {
            return false;
        }
        let mut element = 0;
        while element < field.count {
            let mut bit = 0;
            while bit < field.width {
                let at = field.offset + element * field.stride + bit;
                if at >= size * 8 || seen[at] {
                    return false;
                }
                seen[at] = true;
                total += 1;
                bit += 1;
            }
            element += 1;
        }
        f += 1;
    }
    total == size * 8
}

/// Prints every field on its own line, except reserved fields whose bits are all 0.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, name: &str, fields: &[Field], bytes: &[u8]) -> fmt::Result {
    write!(f, "{name}")?;
    for field in fields {
        let idle = (0..field.count).all(|index| field.bits(bytes, index) == 0);
        if field.style != Style::Reserved || !idle {
            write!(f, "\n  {:<34} {}", field.name, field.words(bytes))?;
        }
    }
    Ok(())
}

/// Declares a layout: `getter, builder: Type = "Name" @ offset, width;` for each field, in wire order. Offset and width
/// are in bits. A table adds `[elements; stride]`. A style other than the default follows the type: `text` or `octets`.
macro_rules! layout {
    (@size_pair) => { (1usize, 0usize) };
    (@size_pair [$count:expr; $stride:expr]) => { ($count as usize, $stride as usize) };
    (@style Reserved) => { $crate::layout::Style::Reserved };
    (@style $t:ident) => { $crate::layout::Style::Value };
    (@style $t:ident text) => { $crate::layout::Style::Text };
    (@style $t:ident octets) => { $crate::layout::Style::Octets };

    (@access $(#[$doc:meta])* $get:ident, $with:ident, $t:ident, $off:expr, $width:expr;) => {
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $get(&self) -> $t {
            <$t as $crate::Value>::from_bits($crate::bits::get_bits(&self.0, $off, $width))
        }
        #[doc = concat!("The same with another `", stringify!($get), "`.")]
        #[must_use]
        pub fn $with(mut self, value: $t) -> Self {
            $crate::bits::set_bits(&mut self.0, $off, $width, $crate::Value::to_bits(value));
            self
        }
    };
    (@access $(#[$doc:meta])* $get:ident, $with:ident, $t:ident, $off:expr, $width:expr; [$count:expr; $stride:expr]) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// If `index` is not an element of the field.
        #[must_use]
        #[inline]
        pub fn $get(&self, index: usize) -> $t {
            assert!(index < $count, "element {index} of {}", $count);
            <$t as $crate::Value>::from_bits($crate::bits::get_bits(&self.0, $off + index * $stride, $width))
        }
        #[doc = concat!("The same with another element of `", stringify!($get), "`.")]
        ///
        /// # Panics
        /// If `index` is not an element of the field.
        #[must_use]
        pub fn $with(mut self, index: usize, value: $t) -> Self {
            assert!(index < $count, "element {index} of {}", $count);
            $crate::bits::set_bits(&mut self.0, $off + index * $stride, $width, $crate::Value::to_bits(value));
            self
        }
    };

    (
        $(#[$meta:meta])*
        pub struct $name:ident[$size:expr] $words:literal {
            $(
                $(#[$doc:meta])*
                $get:ident, $with:ident: $t:ident $($style:ident)? = $field:literal @ $off:expr, $width:expr
                $(, [$count:expr; $stride:expr])?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name([u8; $size]);

        impl $name {
            $( layout!(@access $(#[$doc])* $get, $with, $t, $off, $width; $([$count; $stride])?); )*
        }

        impl Default for $name {
            /// Sets all bits to 0.
            fn default() -> Self {
                Self([0; $size])
            }
        }

        impl $crate::Layout for $name {
            const NAME: &'static str = $words;
            const SIZE: usize = $size;
            const FIELDS: &'static [$crate::Field] = &[
                $( $crate::Field::new::<$t>(
                    $field, $off, $width,
                    layout!(@size_pair $([$count; $stride])?),
                    layout!(@style $t $($style)?),
                ), )*
            ];
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut object = [0; $size];
                let given = bytes.len().min($size);
                object[..given].copy_from_slice(&bytes[..given]);
                Self(object)
            }
            #[inline]
            fn bytes(&self) -> &[u8] {
                &self.0
            }
        }

        const _: () = assert!(
            $crate::layout::covers_each_bit_once(<$name as $crate::Layout>::FIELDS, $size),
            concat!(stringify!($name), ": the fields must cover each bit once, in wire order")
        );

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::layout::print(f, $words, <$name as $crate::Layout>::FIELDS, &self.0)
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use layout;
