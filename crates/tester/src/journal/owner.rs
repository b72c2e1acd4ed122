//! The owner of a journal: the rig, and the device behind it.

use serde::{Deserialize, Serialize};

/// The rig and device that a journal is made for. The areas in the journal belong to the device: the rig's name may
/// later denote another device, and another rig may name this device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The rig's name.
    pub rig: String,
    /// Description of the device in the rig file; empty if there is none.
    pub device: String,
    /// Text of a rig file that contains this rig alone; may be empty. The device can be restored from this text after
    /// the rig was deleted from the user's rig file.
    pub config: String,
    /// Path of the rig file. Relative paths in `config` start at its directory.
    pub config_path: String,
}

impl Owner {
    /// Whether both belong to the same device. Compares the devices if both name one, else the names of the rigs.
    /// An empty rig name in `self` matches every rig.
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
    /// Makes an owner with the rig's name alone.
    fn from(rig: &str) -> Self {
        Self {
            rig: rig.into(),
            ..Self::default()
        }
    }
}
