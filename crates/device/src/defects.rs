//! What lists of defects have in common: an enum of them by statement, their names, and the set that a device has.

/// A name that no defect has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no defect is called {name:?}")]
pub struct UnknownDefect {
    /// The name that was asked for.
    pub name: String,
}

/// An enum of defects, and the set of them that a device has.
///
/// Each defect stands under the statement that it breaks, with its name as people type it, and with what the device does
/// wrong in one sentence.
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

            /// Its name, as people type it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($( Self::$name => $kebab, )*)* }
            }

            /// The statement that it breaks.
            #[must_use]
            pub fn statement(self) -> &'static str {
                match self { $($( Self::$name => $statement, )*)* }
            }

            /// What is done wrong, in one sentence.
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

        /// The defects that are there; none in what conforms.
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

            /// Whether this one is there.
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
