//! VLArbitrationTable (architecture 14.2.5.9): the low- and high-priority tables in two parts each.
//!
//! The high half of the AttributeModifier selects the part: 1 and 2 low priority, 3 and 4 high priority. A part has
//! 32 entries. The low half is the port number on a switch; other nodes ignore it.

use rand_chacha::ChaCha8Rng;
use verbatim_wire::{Layout, Mad, Reserved, Status, VlArbitrationTable};

use crate::agent::{Agent, Reply};
use crate::defect::{Defect, Faults};
use crate::profile::{Profile, below};

/// Entries of a part.
const PART: usize = 32;
/// Maximum number of entries of a table.
const TABLE: usize = 64;

/// VL and weight.
type Entry = (u8, u8);

/// The low- or high-priority table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    entries: [Entry; TABLE],
    /// VLArbitrationLowCap or VLArbitrationHighCap.
    capacity: usize,
}

/// The tables of a port: low priority, high priority.
#[derive(Clone, Debug)]
pub(crate) struct Arbitration([Table; 2]);

/// The location of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// Index of the table: 0 low priority, 1 high priority.
    table: usize,
    /// Index of the part's first entry in the table.
    first: usize,
}

impl Arbitration {
    pub(crate) fn new(profile: &Profile) -> Self {
        let table = |capacity: u8| Table {
            entries: [(0, 0); TABLE],
            capacity: usize::from(capacity).min(TABLE),
        };
        let mut low = table(profile.vl_arbitration_low_cap);
        low.entries[0] = (0, 1);
        Self([low, table(profile.vl_arbitration_high_cap)])
    }

    /// Changes the weight of the first entry of the low-priority table. Only a defective device calls this function.
    pub(crate) fn disturb(&mut self) {
        self.0[0].entries[0].1 ^= 4;
    }

    /// Sets all entries but the first to the 15 data VLs in turn.
    pub(crate) fn name_all_vls(&mut self) {
        for table in &mut self.0 {
            let capacity = table.capacity;
            for (place, entry) in table.entries[..capacity].iter_mut().enumerate().skip(1) {
                *entry = ((place % 15) as u8, 1);
            }
        }
    }

    /// Fills the tables with random entries, as an earlier subnet manager may have left them.
    pub(crate) fn fill(&mut self, rng: &mut ChaCha8Rng, vls: u64) {
        for table in &mut self.0 {
            let capacity = table.capacity;
            for entry in &mut table.entries[..capacity] {
                *entry = (below(rng, vls) as u8, below(rng, 256) as u8);
            }
        }
        self.0[0].entries[0] = (0, 1 + below(rng, 255) as u8);
    }
}

/// Returns the location of a part, or `None` if the part does not exist.
fn place(part: u16, faults: &Faults) -> Option<Place> {
    let part = match part {
        0 if faults.has(Defect::VlArbitrationPart0Accepted) => 1,
        5 if faults.has(Defect::VlArbitrationPart5Accepted) => 3,
        0x8001 if faults.has(Defect::VlArbitrationPart32769Accepted) => 1,
        0xFFFF if faults.has(Defect::VlArbitrationPart65535Accepted) => 3,
        _ if faults.has(Defect::VlArbitrationPartLow3Bits) => part & 7,
        _ if faults.has(Defect::VlArbitrationPartLow8Bits) => part & 0xFF,
        _ => part,
    };
    let (table, first) = match part {
        1 => (0, 0),
        2 => (0, PART),
        3 => (1, 0),
        4 => (1, PART),
        _ => return None,
    };
    Some(Place {
        table: if faults.has(Defect::VlArbitrationHighAliasesLow) {
            0
        } else {
            table
        },
        first: if faults.has(Defect::VlArbitrationUpperPartAliasesLower) {
            0
        } else {
            first
        },
    })
}

impl Agent<'_> {
    /// Returns whether the request addresses a part of VLArbitrationTable that does not exist.
    pub(crate) fn is_bad_arbitration_part(&self, request: &Mad) -> bool {
        request.attribute_id() == verbatim_wire::AttributeId::VL_ARBITRATION
            && self.profile.has_vl_arbitration()
            && place(part_of(request.modifier()), self.faults).is_none()
    }

    pub(crate) fn get_vl_arbitration(&mut self, modifier: u32) -> Reply {
        if !self.profile.has_vl_arbitration() {
            return self.absent();
        }
        let Some(place) = place(part_of(modifier), self.faults) else {
            return self.no_part();
        };
        let table = &self.ports[self.at].arbitration.0[place.table];
        if place.first >= table.capacity && self.profile.choices.part_beyond_capacity_refused {
            return Reply::refused(Status::INVALID_FIELD);
        }
        let mut shown = VlArbitrationTable::default();
        if place.first < table.capacity {
            for (entry, &(vl, weight)) in table.entries[place.first..].iter().take(PART).enumerate() {
                shown = shown.with_vl(entry, vl).with_weight(entry, weight);
            }
            if self.faults.has(Defect::VlArbitrationReservedNotZero) {
                shown = shown.with_reserved(0, Reserved(8));
            }
        }
        Reply::ok(shown.bytes())
    }

    pub(crate) fn set_vl_arbitration(&mut self, modifier: u32, data: &[u8; 64]) -> Reply {
        if !self.profile.has_vl_arbitration() {
            return self.absent();
        }
        let asked = VlArbitrationTable::from_bytes(data);
        let mut wanted = asked;
        let Some(place) = place(part_of(modifier), self.faults) else {
            return self.set_bad_part(&wanted);
        };
        let operational = self.ports[self.at].operational();
        let table = &mut self.ports[self.at].arbitration.0[place.table];
        let room = table.capacity.saturating_sub(place.first).min(PART);
        for entry in (0..room).filter(|entry| asked.vl(*entry) >= operational) {
            if self.profile.choices.foreign_vls_refused {
                return Reply::refused(Status::INVALID_FIELD);
            }
            if self.profile.choices.corrects_foreign_vls {
                wanted = wanted.with_vl(entry, 0);
            }
        }
        let kept = if self.profile.choices.entries_beyond_capacity_kept {
            PART
        } else {
            room
        };
        if place.first == 0 && self.faults.has(Defect::VlArbitrationLowerClearsUpper) {
            table.entries[PART..].fill((0, 0));
        }
        // If the whole part is beyond the capacity, the port stores nothing.
        if room > 0 {
            table.store(place.first, kept, &wanted, self.faults);
        }
        self.get_vl_arbitration(modifier)
    }

    fn set_bad_part(&mut self, wanted: &VlArbitrationTable) -> Reply {
        if self.faults.has(Defect::VlArbitrationBadPartStored) {
            let table = &mut self.ports[self.at].arbitration.0[0];
            let room = table.capacity.min(PART);
            table.store(0, room, wanted, self.faults);
        }
        if self.faults.has(Defect::VlArbitrationBadPartSetAccepted) {
            return Reply::ok(wanted.bytes());
        }
        self.no_part()
    }

    fn no_part(&self) -> Reply {
        if self.faults.has(Defect::VlArbitrationBadPartWrongStatus) {
            Reply::refused(Status::METHOD_ATTRIBUTE_UNSUPPORTED)
        } else {
            Reply::refused(Status::INVALID_FIELD)
        }
    }
}

fn part_of(modifier: u32) -> u16 {
    (modifier >> 16) as u16
}

impl Table {
    /// Stores the first `count` entries of a part at the table's entries from `first` on.
    fn store(&mut self, first: usize, count: usize, wanted: &VlArbitrationTable, faults: &Faults) {
        if faults.has(Defect::VlArbitrationNotStored) {
            return;
        }
        for index in 0..count {
            if faults.has(Defect::VlArbitrationOnly16Entries) && index >= 16 {
                return;
            }
            let (mut vl, mut weight) = (wanted.vl(index), wanted.weight(index));
            if faults.has(Defect::VlArbitrationVlLost) {
                vl = 0;
            }
            if faults.has(Defect::VlArbitrationWeights7Bits) {
                weight &= 0x7F;
            }
            let mut at = first + index;
            if faults.has(Defect::VlArbitrationEntriesShifted) {
                at = (at + 1) % self.capacity.max(1);
            }
            if let Some(entry) = self.entries.get_mut(at) {
                *entry = (vl, weight);
            }
        }
    }
}
