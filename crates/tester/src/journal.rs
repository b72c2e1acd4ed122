//! The restore journal: what the device had before the first Set, on disk before that Set leaves.

mod file;
mod owner;
mod room;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use verbatim_wire::MKey;

use crate::Step;

pub use file::{FileJournal, Left, Unrestored};
pub use owner::Owner;

/// What is restored together: an attribute with all its parts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Area {
    /// Its AttributeID.
    pub attribute: u16,
    /// What people call it.
    pub name: String,
}

/// One part of an area: an AttributeModifier and the bytes found there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The AttributeModifier.
    pub modifier: u32,
    /// The attribute's bytes.
    #[serde(with = "hex")]
    pub data: Vec<u8>,
}

/// An area that was changed, or may have been, and is not yet restored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The area.
    pub area: Area,
    /// What was found.
    pub parts: Vec<Part>,
}

/// Why the journal cannot be used. Nothing may be Set then.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of it cannot be read or written.
    #[error(
        "restore journal {path}: {source}; free space or mend the permissions of that directory, or name another one in STATE_DIRECTORY"
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
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
    /// It is of another device than the one that the rig names now.
    #[error(
        "restore journal {path} is of {kept}, and rig {rig} now names {named}: that device still holds what a test set; \
         name it in the rig file again, as this rig or another, and restore it; if it is gone for good, remove {path}"
    )]
    OtherDevice {
        /// The journal.
        path: PathBuf,
        /// The rig.
        rig: String,
        /// The device that it is of.
        kept: String,
        /// The device that the rig names.
        named: String,
    },
    /// The disk is full, and nothing was changed yet.
    #[error(
        "there is no room for the restore journal {path} ({source}): nothing was sent to the device, which could not be \
         restored; free space on that disk"
    )]
    NoRoom {
        /// The journal.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It does not hold what a journal holds.
    #[error(
        "restore journal {path} is damaged ({what}): the device may still hold what a test set; look at the file, restore the device by hand, then remove {path} and {lock}"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Its lock, which tells whether there must be a journal.
        lock: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Where it is kept what must be restored.
pub trait Journal {
    /// Keeps an area. On disk when this returns. Returns the parts that are kept: those of its first image, if there is
    /// one already, and the new ones.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&mut self, area: &Area, parts: &[Part], keys: &[MKey]) -> Result<Vec<Part>, JournalError>;

    /// Keeps every M_Key that may be in force after the coming Set, and the longest lease period in seconds.
    ///
    /// # Errors
    /// When it cannot be written.
    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError>;

    /// Forgets an area that is restored.
    ///
    /// # Errors
    /// When it cannot be written.
    fn settle(&mut self, area: &Area) -> Result<(), JournalError>;

    /// The longest lease period in seconds that any Set asked for.
    fn lease_s(&self) -> u16;

    /// Says which device what is saved from now on belongs to: its PortGUID in words.
    ///
    /// # Errors
    /// [`crate::Stop`] when that device is not to be used: another process drives it, or what another rig's run left changed on it is
    /// still to be restored.
    fn identify(&mut self, device: &str) -> Step;
}

/// The only version of this form.
const VERSION: u32 = 2;

/// What a journal holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// Version of this form.
    version: u32,
    /// Every M_Key that may be in force, the likeliest first, in hexadecimal.
    keys: Vec<String>,
    /// The longest lease period in seconds.
    lease_s: u16,
    /// PortGUID of the device, in words; empty when it did not tell.
    device: String,
    /// The rig that it was made for.
    owner: Owner,
    /// Areas to restore, in the order in which they were saved.
    areas: Vec<Pending>,
    /// SHA-256 of all the rest, in hexadecimal: a journal that was altered must not be applied.
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

    /// The given keys first, in their order, then those that were known. True when anything changed.
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
                ..Self::default()
            };
        }
    }
}

/// A journal that ends with the process: for devices that end with it too.
#[derive(Debug, Default)]
pub struct MemoryJournal(Content);

impl MemoryJournal {
    /// Areas not yet restored.
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
        let bad = || serde::de::Error::custom("bytes in hexadecimal, two digits each, were expected");
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
    fn the_first_image_of_an_area_is_the_one_that_is_kept() {
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
