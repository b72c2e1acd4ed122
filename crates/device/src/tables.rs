//! GUIDInfo, P_KeyTable and SLtoVLMappingTable (architecture 14.2.5.5, 14.2.5.7, 14.2.5.8).

use verbatim_wire::{Guid, GuidInfo, Layout, PKey, PKeyTable, Reserved, SlToVlMappingTable, Status};

use crate::agent::{Agent, Reply};
use crate::defect::Defect;

/// Entries of a GUIDInfo block.
const GUIDS: usize = 8;
/// Entries of a P_KeyTable block.
const P_KEYS: usize = 32;

/// Returns the index of the first entry of a block, or `None` if the block is beyond the table.
fn first_of(block: u32, entries: usize, length: usize) -> Option<usize> {
    let first = usize::try_from(block).ok()?.checked_mul(entries)?;
    (first < length).then_some(first)
}

impl Agent<'_> {
    /// Returns a block of GUIDs; entries beyond GUIDCap read as 0.
    pub(crate) fn get_guid_info(&mut self, block: u32) -> Reply {
        let own_guid_shown = !self.faults.has(Defect::Guid0NotPortGuid);
        let guids = &self.ports[self.at].guids;
        let Some(first) = first_of(block, GUIDS, guids.len()) else {
            return self.no_block(Defect::GuidBlockBeyondAccepted);
        };
        let mut info = GuidInfo::default();
        for (entry, &guid) in guids[first..].iter().take(GUIDS).enumerate() {
            info = info.with_guid(entry, guid);
        }
        if first == 0 && !own_guid_shown {
            info = info.with_guid(0, Guid(!guids[0].0));
        }
        Reply::ok(info.bytes())
    }

    /// Stores a block of GUIDs. Entry 0 of block 0 is the PortGUID, which is read-only.
    pub(crate) fn set_guid_info(&mut self, block: u32, data: &[u8; 64]) -> Reply {
        let faults = self.faults;
        let guids = &mut self.port().guids;
        let Some(first) = first_of(block, GUIDS, guids.len()) else {
            return self.no_block(Defect::GuidBlockBeyondAccepted);
        };
        let wanted = GuidInfo::from_bytes(data);
        for (entry, guid) in guids[first..].iter_mut().take(GUIDS).enumerate() {
            let read_only = first + entry == 0 && !faults.has(Defect::Guid0Writable);
            if !read_only && !faults.has(Defect::GuidInfoNotStored) {
                *guid = wanted.guid(entry);
            }
        }
        self.get_guid_info(block)
    }

    /// Returns a block of P_Keys. Ignores the high half of the modifier, which is the port number on a switch.
    pub(crate) fn get_p_key_table(&mut self, modifier: u32) -> Reply {
        let keys = &self.ports[self.at].p_keys;
        let Some(first) = first_of(modifier & 0xFFFF, P_KEYS, keys.len()) else {
            return self.no_block(Defect::PKeyBlockBeyondAccepted);
        };
        let mut table = PKeyTable::default();
        for (entry, &key) in keys[first..].iter().take(P_KEYS).enumerate() {
            table = table.with_p_key(entry, PKey(key));
        }
        Reply::ok(table.bytes())
    }

    pub(crate) fn set_p_key_table(&mut self, modifier: u32, data: &[u8; 64]) -> Reply {
        let faults = self.faults;
        let keys = &mut self.port().p_keys;
        let Some(first) = first_of(modifier & 0xFFFF, P_KEYS, keys.len()) else {
            return self.no_block(Defect::PKeyBlockBeyondAccepted);
        };
        let wanted = PKeyTable::from_bytes(data);
        for (entry, key) in keys[first..].iter_mut().take(P_KEYS).enumerate() {
            let mut value = wanted.p_key(entry).0;
            if faults.has(Defect::PKeyMembershipLost) {
                value &= 0x7FFF;
            }
            if faults.has(Defect::PKeyEntry7Full) && first + entry == 7 && value != 0 {
                value |= 0x8000;
            }
            if !faults.has(Defect::PKeyTableNotStored) {
                *key = value;
            }
        }
        self.get_p_key_table(modifier)
    }

    /// Returns the VL of each SL. Ignores the modifier, which contains port numbers on a switch.
    pub(crate) fn get_sl_to_vl(&mut self) -> Reply {
        if !self.profile.has_sl_mapping() {
            return self.absent();
        }
        let mut table = SlToVlMappingTable::default();
        for (sl, &vl) in self.port().sl_to_vl.iter().enumerate() {
            table = table.with_vl(sl, vl);
        }
        if self.faults.has(Defect::SlToVlReservedNotZero) {
            table = table.with_reserved_64(6, Reserved(1));
        }
        Reply::ok(table.bytes())
    }

    pub(crate) fn set_sl_to_vl(&mut self, data: &[u8; 64]) -> Reply {
        if !self.profile.has_sl_mapping() {
            return self.absent();
        }
        let asked = SlToVlMappingTable::from_bytes(data);
        let mut wanted = asked;
        let operational = self.ports[self.at].operational();
        let choices = &self.profile.choices;
        for sl in (0..16).filter(|sl| (operational..15).contains(&asked.vl(*sl))) {
            if choices.foreign_vls_refused {
                return Reply::refused(Status::INVALID_FIELD);
            }
            if choices.corrects_foreign_vls {
                wanted = wanted.with_vl(sl, 0);
            }
        }
        let swapped = usize::from(self.faults.has(Defect::SlToVlEntriesSwapped));
        let zeroes = self.faults.has(Defect::SlToVl15StoredAs0);
        if !self.faults.has(Defect::SlToVlNotStored) {
            for (sl, vl) in self.port().sl_to_vl.iter_mut().enumerate() {
                *vl = wanted.vl(sl ^ swapped);
                if *vl == 15 && zeroes {
                    *vl = 0;
                }
            }
        }
        self.get_sl_to_vl()
    }

    /// Returns the refusal of an optional table that this node does not have.
    pub(crate) fn absent(&self) -> Reply {
        let refusal = self.unsupported();
        if refusal.status == Status::METHOD_ATTRIBUTE_UNSUPPORTED {
            Reply::refused(self.profile.choices.absent_attribute())
        } else {
            refusal
        }
    }

    fn no_block(&self, accepted: Defect) -> Reply {
        if self.faults.has(accepted) {
            Reply::ok(&[])
        } else {
            Reply::refused(Status::INVALID_FIELD)
        }
    }
}
