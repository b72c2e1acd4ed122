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

/// Reason why no region allows an access of the other end.
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

    /// Returns whether another place lies within `length` bytes from this one.
    pub(super) fn has(self, other: Self, length: usize) -> bool {
        self.region == other.region && (self.offset..self.offset + length).contains(&other.offset)
    }
}

/// The access that a request needs.
pub(super) type Right = fn(&pb::Access) -> bool;

/// Images of all regions that existed when the connection's first request was posted.
#[derive(Clone, Debug)]
pub(super) struct Images(Vec<Region>);

impl Images {
    /// Returns the images at the place `before`. Bytes that a host writes later, up to `until`, are unknown.
    pub(super) fn of(trace: &Trace, (before, until): (usize, usize)) -> Self {
        let mut regions: BTreeMap<(Side, u32), Region> = BTreeMap::new();
        for done in trace.timeline.commands.iter().filter(|done| done.place < until) {
            let side = done.side;
            match (&done.command, &done.answer) {
                (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) if done.place < before => {
                    let region = Region {
                        side,
                        handle: made.memory,
                        address: made.address,
                        length: asked.length,
                        r_key: made.r_key,
                        access: asked.access.unwrap_or_default(),
                        bytes: vec![Some(0); asked.length as usize],
                    };
                    regions.insert((side, made.memory), region);
                }
                (Command::DeregisterMemory(gone), Some((_, _, Reply::Done(_), _))) if done.place < before => {
                    regions.remove(&(side, gone.memory));
                }
                (Command::DestroyAll(_), _) if done.place < before => regions.retain(|(of, _), _| *of != side),
                (Command::WriteMemory(write), _) => {
                    if let Some(region) = regions.get_mut(&(side, write.memory)) {
                        let places = region.bytes.iter_mut().skip(write.offset as usize);
                        for (place, byte) in places.zip(&write.bytes) {
                            *place = (done.place < before).then_some(*byte);
                        }
                    }
                }
                _ => {}
            }
        }
        Self(regions.into_values().collect())
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

    /// Returns the 64 bits at a place, as a little-endian host reads them.
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

/// Returns the places of the connection's first and last command.
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
