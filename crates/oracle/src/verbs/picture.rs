//! Partly known content of a memory: the values that each byte holds, or may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::freedom::{MOST, holds};

/// Possible content of the device's memory.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// A possible value of each byte: the only one, unless [`Self::more`] has others; without meaning if
    /// [`Self::unknown`].
    bytes: Vec<u8>,
    /// Further possible values, by byte.
    more: BTreeMap<usize, BTreeSet<u8>>,
    /// For each byte, whether its value is unknown.
    unknown: Vec<bool>,
    /// First byte that exceeded [`MOST`] possible values, and was then marked as unknown.
    excess: Option<usize>,
}

/// Content of a part of the memory at some time.
#[derive(Clone, Debug)]
pub(super) struct Part {
    begin: usize,
    bytes: Vec<u8>,
    more: BTreeMap<usize, BTreeSet<u8>>,
    unknown: Vec<bool>,
}

impl Picture {
    /// Returns a memory of zeros, as after its registration, or a memory with unknown content.
    pub(super) fn new(length: usize, is_known: bool) -> Self {
        Self {
            bytes: vec![0; length],
            more: BTreeMap::new(),
            unknown: vec![!is_known; length],
            excess: None,
        }
    }

    fn within(&self, range: &Range<usize>) -> Range<usize> {
        range.start.min(self.bytes.len())..range.end.min(self.bytes.len())
    }

    /// Sets the bytes from `begin` on.
    pub(super) fn put(&mut self, begin: usize, bytes: &[u8]) {
        let range = self.within(&(begin..begin.saturating_add(bytes.len())));
        for (at, byte) in range.clone().zip(bytes) {
            self.bytes[at] = *byte;
        }
        self.unknown[range.clone()].fill(false);
        self.forget_more(range);
    }

    /// Adds these bytes to the possible values from `begin` on.
    pub(super) fn may_put(&mut self, begin: usize, bytes: &[u8]) {
        for (at, byte) in self.within(&(begin..begin.saturating_add(bytes.len()))).zip(bytes) {
            if self.bytes[at] == *byte || self.unknown[at] {
                continue;
            }
            let more = self.more.entry(at).or_default();
            more.insert(*byte);
            let values = more.len() + 1;
            if values > MOST {
                self.more.remove(&at);
                self.unknown[at] = true;
                self.excess.get_or_insert(at);
            } else {
                holds(values);
            }
        }
    }

    /// Returns the first byte that exceeded [`MOST`] possible values.
    pub(super) fn excess(&self) -> Option<usize> {
        self.excess
    }

    /// Marks a range as unknown.
    pub(super) fn free(&mut self, range: Range<usize>) {
        let range = self.within(&range);
        self.unknown[range.clone()].fill(true);
        self.forget_more(range);
    }

    fn forget_more(&mut self, range: Range<usize>) {
        if !self.more.is_empty() {
            self.more.retain(|at, _| !range.contains(at));
        }
    }

    /// Returns whether a byte may hold a value. A byte beyond the memory may hold any value.
    pub(super) fn may_hold(&self, at: usize, value: u8) -> bool {
        let Some(byte) = self.bytes.get(at) else { return true };
        *byte == value || self.unknown[at] || self.more.get(&at).is_some_and(|more| more.contains(&value))
    }

    /// Returns the content of a range, if all of it is known.
    pub(super) fn known(&self, range: Range<usize>) -> Option<&[u8]> {
        let bytes = self.bytes.get(range.clone())?;
        let is_known = !self.unknown[range.clone()].contains(&true) && self.more.range(range).next().is_none();
        is_known.then_some(bytes)
    }

    /// Returns the possible values of a few bytes in words.
    pub(super) fn in_words(&self, range: Range<usize>) -> String {
        let byte = |at: usize| match self.more.get(&at) {
            _ if self.unknown[at] => "??".into(),
            None => format!("{:02x}", self.bytes[at]),
            Some(more) => {
                let all = [self.bytes[at]].into_iter().chain(more.iter().copied());
                all.map(|value| format!("{value:02x}")).collect::<Vec<_>>().join("|")
            }
        };
        let words: Vec<String> = self.within(&range).map(byte).collect();
        format!("[{}]", words.join(" "))
    }

    /// Returns a copy of a range.
    pub(super) fn part(&self, range: Range<usize>) -> Part {
        let range = self.within(&range);
        Part {
            begin: range.start,
            bytes: self.bytes[range.clone()].to_vec(),
            more: self
                .more
                .range(range.clone())
                .map(|(at, more)| (*at, more.clone()))
                .collect(),
            unknown: self.unknown[range].to_vec(),
        }
    }
}

impl Part {
    /// Returns whether the part has a byte of that range.
    pub(super) fn overlaps(&self, range: &Range<usize>) -> bool {
        self.begin < range.end && range.start < self.begin + self.bytes.len()
    }

    /// Returns whether a byte of the part may have held a value.
    pub(super) fn may_hold(&self, at: usize, value: u8) -> bool {
        let Some(byte) = at.checked_sub(self.begin).and_then(|at| self.bytes.get(at)) else {
            return false;
        };
        *byte == value || self.unknown[at - self.begin] || self.more.get(&at).is_some_and(|more| more.contains(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn may_put_adds_a_possible_value() {
        let mut picture = Picture::new(8, true);
        picture.put(2, &[7, 8]);
        picture.may_put(3, &[9, 9]);
        let may = |at, values: &[u8]| {
            (0..=255)
                .filter(|value| picture.may_hold(at, *value))
                .eq(values.iter().copied())
        };
        assert!(may(1, &[0]) && may(2, &[7]) && may(3, &[8, 9]) && may(4, &[0, 9]));
        assert_eq!(picture.known(1..3), Some([0, 7].as_slice()));
        assert_eq!((picture.known(2..4), picture.known(7..9)), (None, None));
        assert_eq!(picture.in_words(2..4), "[07 08|09]");
        assert!(picture.may_hold(8, 1), "what lies beyond the memory is not known");
    }

    #[test]
    fn too_many_values_make_a_byte_unknown() {
        let mut picture = Picture::new(4, true);
        let (_, largest) = crate::measured(|| (1..63).for_each(|value| picture.may_put(1, &[value])));
        assert_eq!((largest, picture.excess()), (63, None));
        assert!(picture.may_hold(1, 62) && !picture.may_hold(1, 63));
        let (_, largest) = crate::measured(|| picture.may_put(1, &[63, 9]));
        assert_eq!((largest, picture.excess()), (2, Some(1)));
        assert!(picture.may_hold(1, 255) && !picture.may_hold(2, 255));
    }

    #[test]
    fn freed_byte_holds_anything_until_put() {
        let mut picture = Picture::new(4, false);
        assert!(picture.may_hold(0, 5));
        picture.put(0, &[1, 2, 3, 4]);
        picture.free(1..2);
        let before = picture.part(0..2);
        picture.put(0, &[9, 9]);
        assert!(before.may_hold(0, 1) && !before.may_hold(0, 9) && before.may_hold(1, 77) && !before.may_hold(2, 3));
        assert!(!picture.may_hold(1, 77));
        assert_eq!(picture.in_words(0..9), "[09 09 03 04]");
    }
}
