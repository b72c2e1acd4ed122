//! Resource names.

use core::fmt;
use core::str::FromStr;

use crate::Error;

/// A run's resource name: "runs/ID".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunName(String);

/// A rig's resource name: "rigs/NAME".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RigName(String);

/// A lease's resource name: "leases/ID".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseName(String);

macro_rules! resource {
    ($name:ident, $collection:literal, $kind:literal) => {
        impl $name {
            /// Returns the whole name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the name without its collection.
            #[must_use]
            pub fn id(&self) -> &str {
                self.0.strip_prefix($collection).unwrap_or(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Parses a name with or without its collection.
            fn from_str(given: &str) -> Result<Self, Error> {
                let id = given.strip_prefix($collection).unwrap_or(given);
                if id.is_empty() || id.contains(['/', ' ']) {
                    return Err(Error::Name {
                        kind: $kind,
                        given: given.into(),
                        expected: concat!($collection, "ID or ID alone"),
                    });
                }
                Ok(Self(format!("{}{id}", $collection)))
            }
        }
    };
}

resource!(RunName, "runs/", "run");
resource!(RigName, "rigs/", "rig");
resource!(LeaseName, "leases/", "lease");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collection_is_optional_in_names() {
        for given in ["runs/7", "7"] {
            let name: RunName = given.parse().unwrap();
            assert_eq!((name.as_str(), name.id()), ("runs/7", "7"));
        }
        for given in ["", "runs/", "rigs/7", "a b"] {
            let parsed: Result<RunName, Error> = given.parse();
            let error = parsed.unwrap_err().to_string();
            assert!(error.contains("runs/ID") && error.contains(given), "{error}");
        }
    }
}
