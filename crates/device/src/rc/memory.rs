//! Registered memory and its keys (architecture 10.6).

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_wire::RKey;
use verbatim_wire::verbs::Access;

use super::verbs::{Memory, MemoryHandle, Refusal, Slice};

/// Distance between the first addresses of two regions. No region reaches the next one.
const STRIDE: u64 = 1 << 32;
/// Maximum number of regions in the lifetime of an adapter.
const MAX_REGIONS: u32 = 1 << 16;

/// Maximum size of one region, and of all regions together, in bytes.
pub(crate) const LONGEST: u32 = 64 << 20;
const TOTAL: u64 = 256 << 20;

/// The access that a remote operation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    Write,
    Read,
    Atomic,
}

/// The reason why a remote operation is denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// No region has the key.
    Key,
    /// The range exceeds the region.
    Bounds,
    /// The region does not grant the right.
    Right,
}

/// A location in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) memory: MemoryHandle,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
struct Region {
    address: u64,
    access: Access,
    /// `None` after a SEND with Invalidate.
    r_key: Option<RKey>,
    bytes: Vec<u8>,
}

/// Remote data that the host does not see yet.
#[derive(Clone, Debug)]
struct Late {
    until: Duration,
    place: Place,
    /// The bytes that the host sees before `until`.
    before: Vec<u8>,
}

/// All registered memory of an adapter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    regions: BTreeMap<MemoryHandle, Region>,
    /// Regions that a defective adapter still opens to the peer after deregistration.
    left: BTreeMap<MemoryHandle, Region>,
    /// Remote writes that the host does not see yet, in order.
    late: VecDeque<Late>,
    made: u32,
}

impl Regions {
    /// Registers memory of at most `longest` bytes. The first region begins at the address `first`.
    pub(crate) fn register(
        &mut self,
        length: u32,
        access: Access,
        (longest, first): (u32, u64),
    ) -> Result<Memory, Refusal> {
        if length == 0 || length > longest {
            return Err(Refusal::invalid(format!(
                "expected memory of 1 to {longest} bytes, not {length}; register less at a time"
            )));
        }
        let present: u64 = self.regions.values().map(|region| region.bytes.len() as u64).sum();
        if present + u64::from(length) > TOTAL {
            return Err(Refusal::full(format!(
                "expected at most {TOTAL} bytes of registered memory, and {present} are there; deregister some first"
            )));
        }
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(Refusal::invalid(
                "expected local_write with remote_write and remote_atomic: a remote write writes local memory",
            ));
        }
        if self.made == MAX_REGIONS {
            return Err(Refusal::full(format!(
                "expected at most {MAX_REGIONS} registrations in the life of this adapter, and this is one more"
            )));
        }
        self.made += 1;
        let handle = MemoryHandle(self.made);
        let address = first + u64::from(self.made - 1) * STRIDE;
        let r_key = RKey(self.made << 8 | (self.made.wrapping_mul(0x9D) & 0xFF));
        let region = Region {
            address,
            access,
            r_key: Some(r_key),
            bytes: vec![0; length as usize],
        };
        self.regions.insert(handle, region);
        Ok(Memory {
            handle,
            address,
            l_key: r_key.0 ^ 0x8000_0000,
            r_key,
        })
    }

    pub(crate) fn deregister(&mut self, handle: MemoryHandle) -> Result<(), Refusal> {
        match self.regions.remove(&handle) {
            Some(_) => Ok(()),
            None => Err(Refusal::unknown("memory", handle.0)),
        }
    }

    /// Deregisters memory for the host, but not for the peer: the defect `DeregisteredOpen`.
    pub(crate) fn deregister_here(&mut self, handle: MemoryHandle) -> Result<(), Refusal> {
        let region = self.regions.remove(&handle);
        let region = region.ok_or_else(|| Refusal::unknown("memory", handle.0))?;
        self.left.insert(handle, region);
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.regions.clear();
        self.left.clear();
        self.late.clear();
    }

    /// Checks that the slice lies within existing memory. A slice of length 0 always passes.
    pub(crate) fn check(&self, slice: Slice) -> Result<(), Refusal> {
        if slice.length == 0 {
            return Ok(());
        }
        let Some(region) = self.regions.get(&slice.memory) else {
            return Err(Refusal::unknown("memory", slice.memory.0));
        };
        let end = u64::from(slice.offset) + u64::from(slice.length);
        if end > region.bytes.len() as u64 {
            return Err(Refusal::invalid(format!(
                "expected a slice within the {} bytes of memory {}, and it ends at byte {end}",
                region.bytes.len(),
                slice.memory.0
            )));
        }
        Ok(())
    }

    /// Returns the bytes of a checked slice, or `None` if the memory was deregistered since.
    pub(crate) fn bytes(&self, slice: Slice) -> Option<&[u8]> {
        if slice.length == 0 {
            return Some(&[]);
        }
        let start = slice.offset as usize;
        self.regions
            .get(&slice.memory)?
            .bytes
            .get(start..start + slice.length as usize)
    }

    /// Returns whether the slice exists and grants local write.
    pub(crate) fn is_writable(&self, slice: Slice) -> bool {
        slice.length == 0
            || self.check(slice).is_ok()
                && self
                    .regions
                    .get(&slice.memory)
                    .is_some_and(|region| region.access.local_write)
    }

    /// Writes into a slice from `at` on. Ignores bytes beyond the end of the slice.
    pub(crate) fn write(&mut self, slice: Slice, at: u32, bytes: &[u8]) {
        let room = slice.length.saturating_sub(at) as usize;
        let bytes = &bytes[..bytes.len().min(room)];
        self.put(
            Place {
                memory: slice.memory,
                offset: slice.offset as usize + at as usize,
            },
            bytes,
        );
    }

    /// Writes at a place. Ignores bytes beyond the end of the region.
    pub(crate) fn put(&mut self, place: Place, bytes: &[u8]) {
        let (regions, left) = (&mut self.regions, &mut self.left);
        let region = regions.get_mut(&place.memory);
        let Some(region) = region.or_else(|| left.get_mut(&place.memory)) else {
            return;
        };
        let end = region.bytes.len();
        let start = place.offset.min(end);
        let stop = start.saturating_add(bytes.len()).min(end);
        region.bytes[start..stop].copy_from_slice(&bytes[..stop - start]);
    }

    /// Writes at a place. The host sees the bytes only after `delay`.
    pub(crate) fn put_late(&mut self, place: Place, bytes: &[u8], now: Duration, delay: Duration) {
        self.late.retain(|late| late.until > now);
        if !delay.is_zero() {
            let before = self.get(place, bytes.len()).to_vec();
            let until = now + delay;
            self.late.push_back(Late { until, place, before });
        }
        self.put(place, bytes);
    }

    /// Makes all remote writes visible to the host. Called when a receive completes, and before the host writes.
    pub(crate) fn settle(&mut self) {
        self.late.clear();
    }

    /// Returns the bytes of a checked slice as the host sees them.
    pub(crate) fn seen(&self, slice: Slice, now: Duration) -> Vec<u8> {
        let mut seen = self.bytes(slice).unwrap_or_default().to_vec();
        let from = slice.offset as usize;
        for late in self.late.iter().rev().filter(|late| late.until > now) {
            if late.place.memory != slice.memory {
                continue;
            }
            for (offset, &byte) in (late.place.offset..).zip(&late.before) {
                if let Some(shown) = offset.checked_sub(from).and_then(|at| seen.get_mut(at)) {
                    *shown = byte;
                }
            }
        }
        seen
    }

    /// Returns at most `length` bytes at a place; fewer if the region ends before.
    pub(crate) fn get(&self, place: Place, length: usize) -> &[u8] {
        let Some(region) = self.region(place.memory) else {
            return &[];
        };
        let end = region.bytes.len();
        let start = place.offset.min(end);
        &region.bytes[start..start.saturating_add(length).min(end)]
    }

    /// Returns the place of a remote range of `length` bytes, or the reason why the access is denied.
    pub(crate) fn remote(&self, r_key: RKey, address: u64, length: u64, right: Right) -> Result<Place, Denied> {
        let (handle, region) = self.keyed(r_key).ok_or(Denied::Key)?;
        let allowed = match right {
            Right::Write => region.access.remote_write,
            Right::Read => region.access.remote_read,
            Right::Atomic => region.access.remote_atomic,
        };
        let offset = address.checked_sub(region.address).ok_or(Denied::Bounds)?;
        let end = offset.checked_add(length).ok_or(Denied::Bounds)?;
        if end > region.bytes.len() as u64 {
            return Err(Denied::Bounds);
        }
        if !allowed {
            return Err(Denied::Right);
        }
        let offset = usize::try_from(offset).map_err(|_| Denied::Bounds)?;
        Ok(Place { memory: handle, offset })
    }

    /// Returns the place by the low 32 bits of the address only. Only a defective adapter calls this function.
    pub(crate) fn by_low_address(&self, r_key: RKey, address: u64, length: u64, right: Right) -> Option<Place> {
        const LOW: u64 = 0xFFFF_FFFF;
        let (_, region) = self.keyed(r_key)?;
        self.remote(r_key, region.address & !LOW | address & LOW, length, right)
            .ok()
    }

    /// Returns the place of an address in any region, without a check of key and rights. Only defects use this
    /// function.
    pub(crate) fn by_address(&self, address: u64) -> Option<Place> {
        self.regions.iter().find_map(|(&memory, region)| {
            let offset = usize::try_from(address.checked_sub(region.address)?).ok()?;
            (offset < region.bytes.len()).then_some(Place { memory, offset })
        })
    }

    /// Returns the place of an address in a region whose key was invalidated: the defect `InvalidateSparesReads`.
    pub(crate) fn without_key(&self, address: u64) -> Option<Place> {
        let place = self.by_address(address)?;
        self.regions[&place.memory].r_key.is_none().then_some(place)
    }

    /// Invalidates a remote key. Returns whether the key existed.
    pub(crate) fn invalidate(&mut self, r_key: RKey) -> bool {
        let region = self.regions.values_mut().find(|region| region.r_key == Some(r_key));
        region.map(|region| region.r_key = None).is_some()
    }

    fn region(&self, handle: MemoryHandle) -> Option<&Region> {
        self.regions.get(&handle).or_else(|| self.left.get(&handle))
    }

    fn keyed(&self, r_key: RKey) -> Option<(MemoryHandle, &Region)> {
        // The key contains the handle, so the time of the lookup does not depend on the number of regions.
        let handle = MemoryHandle(r_key.0 >> 8);
        let region = self.region(handle)?;
        (region.r_key == Some(r_key)).then_some((handle, region))
    }
}
