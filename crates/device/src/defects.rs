//! The `defects!` macro: an enum of defects by compliance statement, their names, and the set of a device's defects.

/// The error for a name that is not a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no defect is called {name:?}")]
pub struct UnknownDefect {
    /// The given name.
    pub name: String,
}

/// Declares an enum of defects and a set type for them.
///
/// Each defect is listed under the statement that it breaks, with its command-line name and a one-sentence description.
macro_rules! defects {
    (
        $(#[$doc:meta])* $kind:ident, $faults:ident;
        $( $statement:literal { $( $name:ident $kebab:literal $about:literal )* } )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $kind {
            $($( #[doc = concat!($statement, ": ", $about)] $name, )*)*
        }

        impl $kind {
            /// Every defect, grouped by statement.
            pub const ALL: &'static [$kind] = &[ $($( $kind::$name, )*)* ];

            /// Returns the command-line name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($( Self::$name => $kebab, )*)* }
            }

            /// Returns the compliance statement that this defect breaks.
            #[must_use]
            pub fn statement(self) -> &'static str {
                match self { $($( Self::$name => $statement, )*)* }
            }

            /// Returns the description of the wrong behaviour, in one sentence.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $($( Self::$name => $about, )*)* }
            }
        }

        impl core::fmt::Display for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl core::str::FromStr for $kind {
            type Err = $crate::defects::UnknownDefect;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let mut all = Self::ALL.iter().copied();
                all.find(|defect| defect.name() == name)
                    .ok_or_else(|| $crate::defects::UnknownDefect { name: name.into() })
            }
        }

        /// The defects of a device; empty in a conforming device.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $faults([u64; $kind::ALL.len().div_ceil(64)]);

        impl $faults {
            pub(crate) fn new(defects: &[$kind]) -> Self {
                let mut faults = Self([0; $kind::ALL.len().div_ceil(64)]);
                for &defect in defects {
                    faults.0[defect as usize / 64] |= 1 << (defect as usize % 64);
                }
                faults
            }

            pub(crate) fn has(&self, defect: $kind) -> bool {
                self.0[defect as usize / 64] & (1 << (defect as usize % 64)) != 0
            }
        }

        impl core::fmt::Debug for $faults {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let there = $kind::ALL.iter().filter(|&&defect| self.has(defect));
                f.debug_set().entries(there).finish()
            }
        }
    };
}

pub(crate) use defects;
