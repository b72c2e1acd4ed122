//! Restores the values that the device had before the run.

use core::time::Duration;

use verbatim_record::{Entry, Label, Restored};
use verbatim_wire::{
    AttributeId, GuidInfo, LedInfo, MKey, NodeDescription, NodeInfo, PKeyTable, PortInfo, SlToVlMappingTable, Status,
    Style, VlArbitrationTable,
};

use crate::exchange::{BUSY_TRIES, busy_pause};
use crate::guard::{AreaState, Settable};
use crate::journal::{Area, Part};
use crate::stop::{Step, Stop};
use crate::tester::{TRIES, Tester, refused};

/// Longest lease period, in seconds, that a cancelled run waits for.
const CANCELLED_PATIENCE_S: u16 = 120;

const PROBE: Label<PortInfo> = Label::new("restoring: which M_Key is in force");

impl Tester<'_> {
    /// Restores every area that may have changed, the last saved area first. Returns one result for each area.
    pub(crate) fn restore_all(&mut self) -> Vec<Restored> {
        let (mut results, mut tried_again) = (Vec::new(), Vec::new());
        while let Some(state) = self.areas.pop() {
            let result = self.restore_area(&state);
            // A device may refuse a value until another area is restored. For example, the VLs that a table may name
            // depend on OperationalVLs. The area is therefore tried once more after the others.
            let place = (state.area.attribute, state.area.own);
            let may_wait = !self.areas.is_empty() && !tried_again.contains(&place);
            if !result.left.is_empty() && may_wait {
                tried_again.push(place);
                self.areas.insert(0, state);
                continue;
            }
            if result.is_complete() {
                self.settle(&state.area);
            }
            self.sink.put(Entry::Restored(result.clone()));
            self.sink.flush();
            results.push(result);
        }
        results
    }

    /// Removes an area from the journal, because it is restored or must not be restored.
    pub(crate) fn settle(&mut self, area: &Area) {
        match self.journal.settle(area) {
            Ok(()) => self.sink.put(Entry::Journal {
                area: area.name.clone(),
                change: "settled".into(),
            }),
            Err(error) => self.note(format!("restored, but the journal still lists it: {error}")),
        }
    }

    fn restore_area(&mut self, state: &AreaState) -> Restored {
        let parts = &state.parts;
        let mut result = Restored {
            area: state.area.name.clone(),
            ..Restored::default()
        };
        self.own = state.area.own;
        let key = if self.own { Ok(()) } else { self.find_key() };
        let done = key.and_then(|()| match AttributeId(state.area.attribute) {
            AttributeId::PORT_INFO => self.restore_parts::<PortInfo>(parts, &mut result),
            AttributeId::VL_ARBITRATION => self.restore_parts::<VlArbitrationTable>(parts, &mut result),
            AttributeId::NODE_INFO => self.restore_parts::<NodeInfo>(parts, &mut result),
            AttributeId::NODE_DESCRIPTION => self.restore_parts::<NodeDescription>(parts, &mut result),
            AttributeId::GUID_INFO => self.restore_parts::<GuidInfo>(parts, &mut result),
            AttributeId::P_KEY_TABLE => self.restore_parts::<PKeyTable>(parts, &mut result),
            AttributeId::SL_TO_VL => self.restore_parts::<SlToVlMappingTable>(parts, &mut result),
            AttributeId::LED_INFO => self.restore_parts::<LedInfo>(parts, &mut result),
            other => Err(Stop::Tester(format!("this version cannot restore {other}"))),
        });
        self.own = false;
        if let Err(stop) = done {
            result.failure = stop.to_entry().text;
        }
        result
    }

    /// Finds the M_Key in force among the candidates. If no candidate works, waits for the lease to expire and tries
    /// again.
    pub(crate) fn find_key(&mut self) -> Step {
        if self.try_keys()? {
            return Ok(());
        }
        // A cancelled run must not wait for hours. If it cannot restore the device, the journal remains and the next
        // start restores it.
        let patience = if self.stopped.is_some() {
            CANCELLED_PATIENCE_S
        } else {
            u16::MAX
        };
        let lease = self.journal.lease_s();
        if (1..=patience).contains(&lease) {
            self.note(format!(
                "the device answered none of the M_Keys that may be in force: waiting until its M_Key lease period of {lease} s is over"
            ));
            self.pause(Duration::from_secs(u64::from(lease) + 2))?;
            if self.try_keys()? {
                return Ok(());
            }
        }
        let keys = self.keys.iter().map(MKey::to_string).collect::<Vec<_>>().join(", ");
        Err(Stop::NoAnswer(format!(
            "no answer to Get(PortInfo) with any M_Key that may be in force ({keys}): is the device there? \
             If it is, power-cycle it or set its M_Key with its own tools"
        )))
    }

    /// Tries each candidate M_Key. At protect level 1 a Get with a wrong key also reports M_Key 0. The tester therefore
    /// accepts M_Key 0 only if no other candidate works.
    fn try_keys(&mut self) -> Step<bool> {
        let mut hidden = false;
        for key in self.keys.clone() {
            let Some(answer) = self.ask_at(PROBE, key, 0)? else {
                continue;
            };
            let (shown, level) = (answer.value.m_key(), answer.value.protect_bits().0);
            // A busy device has not checked the key, so the key in force stays unknown. Waiting for the lease would not
            // help.
            if answer.status == Status::BUSY {
                return Err(refused(PROBE.name, answer.status));
            }
            if answer.status != Status::OK {
                continue;
            }
            if shown == MKey(0) && level == 1 {
                hidden = true;
                continue;
            }
            self.put_in_force(shown);
            return Ok(true);
        }
        if hidden && self.keys.contains(&MKey(0)) {
            self.put_in_force(MKey(0));
            return Ok(true);
        }
        Ok(false)
    }

    fn restore_parts<A: Settable>(&mut self, parts: &[Part], result: &mut Restored) -> Step {
        for part in parts {
            let found = A::from_bytes(&part.data);
            let mut now = self.read_for_restore::<A>(part.modifier)?;
            // Writes up to four images, one after the other; an image is the value that a Set carries. The first
            // two contain only values that every device accepts. The third also contains values that a device may
            // refuse. A device that ignores no-change values may lose restored values by the third image, so the
            // last image writes them again.
            let images: [fn(&A, &A) -> A; 4] = [
                |found, now| found.quiet().writable(now),
                |found, now| A::explicit(found, now).writable(now),
                |found, now| A::explicit(found, now),
                |found, now| A::explicit(found, now).writable(now),
            ];
            for image in images {
                if is_as_found(&found, &now) {
                    break;
                }
                self.write_back::<A>(part.modifier, image(&found, &now))?;
                now = self.read_for_restore::<A>(part.modifier)?;
            }
            result.left.extend(different::<A>(&found, &now));
            result.not_restorable.extend(moved::<A>(&found, &now));
        }
        Ok(())
    }

    fn read_for_restore<A: Settable>(&mut self, modifier: u32) -> Step<A> {
        self.get_at(Label::<A>::new("restoring: as it is"), self.key(), modifier)
    }

    /// Writes an image back. Does not report a refusal: the caller reads the values afterwards.
    fn write_back<A: Settable>(&mut self, modifier: u32, image: A) -> Step {
        let label = Label::<A>::new("restoring: as it was found");
        let new = image.key_and_lease().map(|(key, _)| key).filter(|_| !self.own);
        let (mut silences, mut busy) = (0, 0);
        while silences < TRIES && busy < BUSY_TRIES {
            let mad = self.set_mad(self.key(), modifier, &image);
            let answer = self.exchange_once(label, silences + busy, &mad)?;
            let is_busy = answer.as_ref().is_some_and(|answer| answer.status == Status::BUSY);
            if is_busy {
                self.pause(busy_pause(busy))?;
            }
            if let Some(new) = new {
                if answer.as_ref().is_some_and(|answer| answer.status == Status::OK) {
                    // Tries the new key first. A Get with the old key would now be a violation, and the device would
                    // send a trap to the subnet manager.
                    self.keys.retain(|key| *key != new);
                    self.keys.insert(0, new);
                } else if !self.keys.contains(&new) {
                    self.keys.push(new);
                }
                self.find_key()?;
            }
            match answer {
                Some(_) if is_busy => busy += 1,
                Some(_) => return Ok(()),
                None => silences += 1,
            }
        }
        Ok(())
    }
}

/// Whether all fields that a Set could restore are equal.
fn is_as_found<A: Settable>(found: &A, now: &A) -> bool {
    let kept = [A::NOT_RESTORABLE, A::ITS_OWN, A::READ_ONLY];
    let counts = |name| !kept.iter().any(|names| names.contains(&name));
    differences(found, now, "left", counts).is_empty()
}

/// Returns the restorable fields that differ, each with the found value and the present value.
fn different<A: Settable>(found: &A, now: &A) -> Vec<String> {
    let counts = |name| !found.may_stay(name) && !A::ITS_OWN.contains(&name) && !A::READ_ONLY.contains(&name);
    differences(found, now, "left", counts)
}

/// Returns the fields that changed and cannot be restored.
fn moved<A: Settable>(found: &A, now: &A) -> Vec<String> {
    differences(found, now, "now", |name| {
        found.may_stay(name) || A::READ_ONLY.contains(&name)
    })
}

fn differences<A: Settable>(found: &A, now: &A, word: &str, counts: impl Fn(&'static str) -> bool) -> Vec<String> {
    let mut told = Vec::new();
    for of in found.differences(now).into_iter().filter(|of| counts(of.field.name)) {
        let field = of.field;
        if field.count == 1 || field.style != Style::Value {
            told.push(format!("{}: found {}, {word} {}", field.name, of.left, of.right));
            continue;
        }
        // For a table, lists only the entries that differ.
        for index in 0..field.count {
            let (was, is) = (field.bits(found.bytes(), index), field.bits(now.bytes(), index));
            if was != is {
                let (was, is) = (field.words_of(was), field.words_of(is));
                told.push(format!("{} {index}: found {was}, {word} {is}", field.name));
            }
        }
    }
    told
}
