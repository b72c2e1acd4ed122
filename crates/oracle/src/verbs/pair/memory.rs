//! Memory of both ends: its regions, and an image of its content after the messages of a connection.
//!
//! A byte of an image is `None` if several values are possible. For example, a failed READ may have stored some data.

use std::collections::BTreeMap;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Side, Trace};

use super::ends::Pair;

/// A region of registered memory.
#[derive(Clone, Debug)]
struct Region {
    side: Side,
    handle: u32,
    address: u64,
    length: u32,
    r_key: u32,
    access: pb::Access,
    bytes: Vec<Option<u8>>,
}

/// The reason why a responder refuses an access to its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Denied {
    Key,
    Bounds,
    Right,
}

impl Denied {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Key => "its R_Key belongs to no region",
            Self::Bounds => "it reaches beyond its region",
            Self::Right => "its region does not allow the access",
        }
    }
}

/// Place in a region: its index and an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    region: usize,
    offset: usize,
}

impl Place {
    pub(super) fn after(self, bytes: usize) -> Self {
        Self {
            offset: self.offset + bytes,
            ..self
        }
    }

    /// Returns whether another place is in the `length` bytes that begin at this one.
    pub(super) fn has(self, other: Self, length: usize) -> bool {
        self.region == other.region && (self.offset..self.offset + length).contains(&other.offset)
    }
}

/// A function that returns whether an access includes the right that a request needs.
pub(super) type Right = fn(&pb::Access) -> bool;

/// Images of all regions that existed when the connection's first request was posted.
#[derive(Clone, Debug)]
pub(super) struct Images(Vec<Region>);

impl Images {
    /// Returns the images at the place `before` of the record. Bytes that a host writes later, before the place
    /// `until`, are unknown.
    pub(super) fn of(trace: &Trace, (before, until): (usize, usize)) -> Self {
        // The region and the place at which it was registered.
        let mut regions: BTreeMap<(Side, u32), (usize, Region)> = BTreeMap::new();
        for done in trace.timeline.commands.iter().take_while(|done| done.place < before) {
            let side = done.side;
            match (&done.command, &done.answer) {
                (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) => {
                    let region = Region {
                        side,
                        handle: made.memory,
                        address: made.address,
                        length: asked.length,
                        r_key: made.r_key,
                        access: asked.access.unwrap_or_default(),
                        bytes: Vec::new(),
                    };
                    regions.insert((side, made.memory), (done.place, region));
                }
                (Command::DeregisterMemory(gone), Some((_, _, Reply::Done(_), _))) => {
                    regions.remove(&(side, gone.memory));
                }
                (Command::DestroyAll(_), _) => regions.retain(|(of, _), _| *of != side),
                _ => {}
            }
        }
        for (_, region) in regions.values_mut() {
            region.bytes = vec![Some(0); region.length as usize];
        }
        let first = regions.values().map(|(place, _)| *place).min().unwrap_or(until);
        for done in trace.timeline.commands_between((first, until)) {
            if let Command::WriteMemory(write) = &done.command
                && let Some((_, region)) = regions
                    .get_mut(&(done.side, write.memory))
                    .filter(|(registered, _)| *registered < done.place)
            {
                let places = region.bytes.iter_mut().skip(write.offset as usize);
                for (place, byte) in places.zip(&write.bytes) {
                    *place = (done.place < before).then_some(*byte);
                }
            }
        }
        Self(regions.into_values().map(|(_, region)| region).collect())
    }

    /// Returns the place of local memory, and whether the device may write it.
    pub(super) fn local(&self, side: Side, slice: pb::Slice) -> Option<(Place, bool)> {
        let is_it = |region: &Region| region.side == side && region.handle == slice.memory;
        let at = self.0.iter().position(is_it)?;
        let place = Place {
            region: at,
            offset: slice.offset as usize,
        };
        Some((place, self.0[at].access.local_write))
    }

    /// Returns the place of remote memory.
    pub(super) fn remote(
        &self,
        side: Side,
        (r_key, address, length): (u32, u64, u32),
        right: Right,
    ) -> Result<Place, Denied> {
        let is_it = |region: &Region| region.side == side && region.r_key == r_key;
        let at = self.0.iter().position(is_it).ok_or(Denied::Key)?;
        let region = &self.0[at];
        let offset = address.checked_sub(region.address).ok_or(Denied::Bounds)?;
        if offset
            .checked_add(length.into())
            .is_none_or(|end| end > u64::from(region.length))
        {
            return Err(Denied::Bounds);
        }
        if !right(&region.access) {
            return Err(Denied::Right);
        }
        Ok(Place {
            region: at,
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
        })
    }

    pub(super) fn get(&self, place: Place, length: u32) -> Vec<Option<u8>> {
        let bytes = self.0[place.region].bytes.iter().skip(place.offset);
        bytes.take(length as usize).copied().collect()
    }

    pub(super) fn put(&mut self, place: Place, bytes: &[Option<u8>]) {
        let places = self.0[place.region].bytes.iter_mut().skip(place.offset);
        for (place, byte) in places.zip(bytes) {
            *place = *byte;
        }
    }

    /// Marks bytes as unknown.
    pub(super) fn forget(&mut self, place: Place, length: u32) {
        self.put(place, &vec![None; length as usize]);
    }

    /// Returns the 64-bit little-endian number at a place; `None` if a byte is unknown.
    pub(super) fn number(&self, place: Place) -> Option<u64> {
        let bytes: Option<Vec<u8>> = self.get(place, 8).into_iter().collect();
        Some(u64::from_le_bytes(bytes?.try_into().ok()?))
    }

    /// Returns the image of a slice, for comparison with the bytes that a host read.
    pub(super) fn slice(&self, side: Side, slice: pb::Slice) -> Option<Vec<Option<u8>>> {
        let (place, _) = self.local(side, slice)?;
        Some(self.get(place, slice.length))
    }
}

/// Returns the places of the connection's first post and of its end.
pub(super) fn extent(pair: &Pair<'_>) -> (usize, usize) {
    let sends = pair.ends.iter().filter_map(|end| end.sends.first());
    let first = sends.map(|(done, _)| done.place).min().unwrap_or(usize::MAX);
    (first, pair.ends[0].end.max(pair.ends[1].end))
}

/// Returns the first difference between an image and the bytes of a host: the offset, the expected and the seen byte.
pub(super) fn difference(image: &[Option<u8>], seen: &[u8]) -> Option<(usize, u8, u8)> {
    let mut pairs = image.iter().zip(seen).enumerate();
    pairs.find_map(|(at, (expected, seen))| expected.filter(|expected| expected != seen).map(|of| (at, of, *seen)))
}
