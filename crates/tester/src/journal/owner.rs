//! Whose journal it is: the rig, and the device behind it.

use serde::{Deserialize, Serialize};

/// The rig that a journal is made for. A rig's name may come to mean another device and a device be named by another
/// rig: what a journal lists belongs to the device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The rig's name.
    pub rig: String,
    /// What its device is, as far as the rig file tells; empty when it does not.
    pub device: String,
    /// The rig file that has this rig alone, so that the device can be restored after the rig file has lost the rig;
    /// empty when there is none.
    pub config: String,
    /// Where that rig file was: what is relative in it is relative to there.
    pub config_path: String,
}

impl Owner {
    /// Whether both are of one device, as far as they tell: by the device where both tell it, else by the rig's name.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        if self.device.is_empty() || other.device.is_empty() {
            self.rig == other.rig || self.rig.is_empty()
        } else {
            self.device == other.device
        }
    }
}

impl From<&str> for Owner {
    /// A rig of which the name alone is known.
    fn from(rig: &str) -> Self {
        Self {
            rig: rig.into(),
            ..Self::default()
        }
    }
}
