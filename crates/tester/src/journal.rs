//! The restore journal. Before the tester sends the first Set, it saves the values of the device in this journal.

mod file;
mod owner;
mod room;
mod witness;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use verbatim_wire::MKey;

use crate::Step;

pub use file::{FileJournal, Left, Unrestored};
pub use owner::Owner;

/// An attribute with all its parts, restored together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Area {
    /// AttributeID.
    pub attribute: u16,
    /// Name in messages.
    pub name: String,
    /// Whether the area belongs to the tester's own port; else to the DUT.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub own: bool,
}

/// One part of an area: an AttributeModifier and the attribute's value at it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The AttributeModifier.
    pub modifier: u32,
    /// The attribute's bytes.
    #[serde(with = "hex")]
    pub data: Vec<u8>,
}

/// An area that a run may have changed and that is not yet restored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The area.
    pub area: Area,
    /// The parts, with the values found before the first Set.
    pub parts: Vec<Part>,
}

/// The reason why the journal cannot be used. The tester then sends no Set.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of the journal cannot be read or written.
    #[error(
        "restore journal {path}: {source}; free space, correct the directory's permissions, or name another directory \
         in STATE_DIRECTORY"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process uses the rig.
    #[error("rig {rig} is in use by another process (it holds {path}); wait for it to end, or stop it")]
    Busy {
        /// The rig.
        rig: String,
        /// The lock file.
        path: PathBuf,
    },
    /// The journal belongs to another device than the rig names now.
    #[error(
        "restore journal {path} belongs to {kept}, but rig {rig} now names {named}: {kept} still has values that a \
         test set; name {kept} in the rig file again, for this rig or another, and restore it; if {kept} no longer \
         exists, remove {path}"
    )]
    OtherDevice {
        /// The journal.
        path: PathBuf,
        /// The rig.
        rig: String,
        /// The device that the journal belongs to.
        kept: String,
        /// The device that the rig names.
        named: String,
    },
    /// The disk is full, and the run has not changed anything yet.
    #[error(
        "the disk has no room for the restore journal {path} ({source}): nothing was sent to the device, because the \
         tester could not restore it; free space on that disk"
    )]
    NoRoom {
        /// The journal.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The journal file is not valid, or is absent although it must exist.
    #[error(
        "restore journal {path} is damaged ({what}): the device may still have values that a test set; \
         look at the file, restore the device by hand, then remove {path} and {lock}"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The lock file, which records whether a journal must exist.
        lock: PathBuf,
        /// The defect.
        what: String,
    },
}

/// A store of the values that must be restored.
pub trait Journal {
    /// Saves an area: a journal file is on disk when the call returns. Returns all saved parts of the area. A part that
    /// was saved before keeps its first value.
    ///
    /// # Errors
    /// When the journal cannot be written.
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Result<Vec<Part>, JournalError>;

    /// Stores every M_Key that may be in force after the next Set. Also stores the lease period of that Set, in
    /// seconds, if it is the longest so far.
    ///
    /// # Errors
    /// When the journal cannot be written.
    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError>;

    /// Removes an area from the list of areas to restore.
    ///
    /// # Errors
    /// When the journal cannot be written.
    fn settle(&mut self, area: &Area) -> Result<(), JournalError>;

    /// Returns the longest lease period, in seconds, that any Set requested.
    fn lease_s(&self) -> u16;

    /// Sets the device to which the areas saved from now on belong. `device` is its PortGUID as text.
    ///
    /// # Errors
    /// [`crate::Stop`] when the device must not be used. Either another process uses it, or another rig's run changed
    /// it and has not restored it.
    fn identify(&mut self, device: &str) -> Step;
}

/// The only supported version of the format.
const VERSION: u32 = 3;

/// The content of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    /// The number of changes of the rig's journals so far. The lock file has this number too.
    generation: u64,
    /// Every M_Key that may be in force, the likeliest first, in hexadecimal.
    keys: Vec<String>,
    /// The longest lease period in seconds.
    lease_s: u16,
    /// PortGUID of the device as text; empty if the device did not report it.
    device: String,
    /// The rig that the journal was made for.
    owner: Owner,
    /// Areas to restore, in the order in which they were saved.
    areas: Vec<Pending>,
    /// SHA-256 of all other fields, in hexadecimal. An altered journal must not be applied.
    checksum: String,
}

impl Content {
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Vec<Part> {
        self.version = VERSION;
        self.add_keys(keys);
        let place = self
            .areas
            .iter()
            .position(|pending| pending.area == *area)
            .unwrap_or_else(|| {
                self.areas.push(Pending {
                    area: area.clone(),
                    parts: Vec::new(),
                });
                self.areas.len() - 1
            });
        let kept = &mut self.areas[place].parts;
        for part in parts {
            if kept.iter().all(|known| known.modifier != part.modifier) {
                kept.push(part.clone());
            }
        }
        kept.clone()
    }

    /// Puts the given keys first, in their order, and then the other known keys. Returns whether the list changed.
    fn add_keys(&mut self, keys: &[MKey]) -> bool {
        let mut all: Vec<String> = keys.iter().map(MKey::to_string).collect();
        all.extend(
            self.keys
                .iter()
                .filter(|known| !all.contains(*known))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let changed = all != self.keys;
        self.keys = all;
        changed
    }

    fn settle(&mut self, area: &Area) {
        self.areas.retain(|pending| pending.area != *area);
        if self.areas.is_empty() {
            *self = Self {
                device: core::mem::take(&mut self.device),
                owner: core::mem::take(&mut self.owner),
                generation: self.generation,
                ..Self::default()
            };
        }
    }
}

/// A journal in memory, for devices that exist only within this process.
#[derive(Debug, Default)]
pub struct MemoryJournal(Content);

impl MemoryJournal {
    /// Returns the areas that are not yet restored.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.0.areas
    }
}

impl Journal for MemoryJournal {
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Result<Vec<Part>, JournalError> {
        Ok(self.0.save(area, parts, keys))
    }
    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError> {
        self.0.add_keys(keys);
        self.0.lease_s = self.0.lease_s.max(lease_s);
        Ok(())
    }
    fn settle(&mut self, area: &Area) -> Result<(), JournalError> {
        self.0.settle(area);
        Ok(())
    }
    fn lease_s(&self) -> u16 {
        self.0.lease_s
    }
    fn identify(&mut self, device: &str) -> Step {
        self.0.device = device.into();
        Ok(())
    }
}

/// Bytes as hexadecimal text.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bad = || serde::de::Error::custom("expected bytes in hexadecimal, two digits each");
        if !text.is_ascii() || text.len() % 2 != 0 {
            return Err(bad());
        }
        (0..text.len() / 2)
            .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| bad()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn area() -> (Area, Vec<Part>) {
        let area = Area {
            attribute: 0x15,
            name: "PortInfo of the receiving port".into(),
            own: false,
        };
        (
            area,
            vec![Part {
                modifier: 0,
                data: vec![1, 2, 255],
            }],
        )
    }

    #[test]
    fn first_saved_image_is_kept() {
        let (area, parts) = area();
        let mut journal = MemoryJournal::default();
        journal.save(&area, &parts, &[]).unwrap();
        journal
            .save(
                &area,
                &[Part {
                    modifier: 0,
                    data: vec![9],
                }],
                &[],
            )
            .unwrap();
        assert_eq!(journal.pending()[0].parts, parts);
    }
}
