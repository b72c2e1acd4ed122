//! The path MTUs that the packets seen so far allow.

use core::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pmtu(u8);

impl Default for Pmtu {
    /// Returns all path MTUs.
    fn default() -> Self {
        Self(0b1_1111)
    }
}

impl Pmtu {
    /// Returns the possible sizes in bytes, smallest first.
    pub(super) fn sizes(self) -> impl Iterator<Item = u32> {
        (0..5).filter(move |bit| self.0 & (1 << bit) != 0).map(|bit| 256 << bit)
    }

    /// Returns the sizes for which `fits` is true; `None` if no size fits.
    pub(super) fn kept(self, fits: impl Fn(u32) -> bool) -> Option<Self> {
        let kept = (0..5)
            .filter(|bit| self.0 & (1 << bit) != 0 && fits(256 << bit))
            .fold(0, |kept, bit| kept | 1 << bit);
        (kept != 0).then_some(Self(kept))
    }

    /// Returns the set with only this size; `None` if the size is no path MTU.
    pub(super) fn only(size: u32) -> Option<Self> {
        Self::default().kept(|legal| legal == size)
    }

    /// Returns the sizes in both sets, or `self` if the sets share no size.
    pub(super) fn both(self, other: Self) -> Self {
        if self.0 & other.0 == 0 {
            self
        } else {
            Self(self.0 & other.0)
        }
    }

    /// Returns the size if only one is possible.
    pub(super) fn known(self) -> Option<u32> {
        let mut sizes = self.sizes();
        sizes.next().filter(|_| sizes.next().is_none())
    }

    /// Returns the number of PSNs of a READ of `bytes` bytes, one for each response packet; `None` if the possible path
    /// MTUs give different numbers.
    pub(super) fn psns(self, bytes: u32) -> Option<u32> {
        let mut counts = self.sizes().map(|size| psns(bytes, size));
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    }

    /// Returns the largest number of PSNs that a READ of `bytes` bytes may take.
    pub(super) fn most_psns(self, bytes: u32) -> u32 {
        self.sizes().next().map_or(1, |smallest| psns(bytes, smallest))
    }

    /// Returns whether a READ of `bytes` bytes may take `count` PSNs.
    pub(super) fn may_take(self, bytes: u32, count: u32) -> bool {
        self.sizes().any(|size| psns(bytes, size) == count)
    }
}

/// Returns the number of PSNs of a READ. Each response packet carries at most `size` bytes, and a zero-length READ has
/// one response packet.
fn psns(bytes: u32, size: u32) -> u32 {
    bytes.div_ceil(size).max(1)
}

impl fmt::Display for Pmtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, size) in self.sizes().enumerate() {
            write!(f, "{}{size}", if at > 0 { " or " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_sizes_narrow_to_one() {
        let all = Pmtu::default();
        assert_eq!(all.to_string(), "256 or 512 or 1024 or 2048 or 4096");
        assert_eq!(all.known(), None);
        let least = all.kept(|size| size >= 1500).unwrap();
        assert_eq!(least.to_string(), "2048 or 4096");
        assert_eq!(least.kept(|size| size == 1024), None);
        assert_eq!(least.kept(|size| size == 4096).unwrap().known(), Some(4096));
    }

    #[test]
    fn read_takes_one_psn_per_response() {
        let pmtu = Pmtu::default();
        assert_eq!(pmtu.psns(0), Some(1));
        assert_eq!(pmtu.psns(256), Some(1));
        assert_eq!(pmtu.psns(257), None);
        assert!(pmtu.may_take(4096, 4) && pmtu.may_take(4096, 1) && !pmtu.may_take(4096, 3));
        assert_eq!(pmtu.kept(|size| size == 1024).unwrap().psns(4097), Some(5));
    }
}
