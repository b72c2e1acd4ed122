//! The path MTU as far as packets tell: the sizes that it may still be.

use core::fmt;

/// A set of path MTUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pmtu(u8);

impl Default for Pmtu {
    /// Nothing is known.
    fn default() -> Self {
        Self(0b1_1111)
    }
}

impl Pmtu {
    /// What it may be, smallest first.
    pub(super) fn sizes(self) -> impl Iterator<Item = u32> {
        (0..5).filter(move |bit| self.0 & (1 << bit) != 0).map(|bit| 256 << bit)
    }

    /// Those of its sizes that `fits`; `None` when there is none.
    pub(super) fn kept(self, fits: impl Fn(u32) -> bool) -> Option<Self> {
        let kept = (0..5)
            .filter(|bit| self.0 & (1 << bit) != 0 && fits(256 << bit))
            .fold(0, |kept, bit| kept | 1 << bit);
        (kept != 0).then_some(Self(kept))
    }

    /// That size alone; `None` when it is none.
    pub(super) fn only(size: u32) -> Option<Self> {
        Self::default().kept(|legal| legal == size)
    }

    /// What both allow; this one, when nothing is left.
    pub(super) fn both(self, other: Self) -> Self {
        if self.0 & other.0 == 0 {
            self
        } else {
            Self(self.0 & other.0)
        }
    }

    /// The size, when only one is left.
    pub(super) fn known(self) -> Option<u32> {
        let mut sizes = self.sizes();
        sizes.next().filter(|_| sizes.next().is_none())
    }

    /// PSNs of a READ of so many bytes: one for each response. `None` when that depends on what is not known.
    pub(super) fn psns(self, bytes: u32) -> Option<u32> {
        let mut counts = self.sizes().map(|size| psns(bytes, size));
        let first = counts.next()?;
        counts.all(|count| count == first).then_some(first)
    }

    /// PSNs that a READ of so many bytes takes at most.
    pub(super) fn most_psns(self, bytes: u32) -> u32 {
        self.sizes().next().map_or(1, |smallest| psns(bytes, smallest))
    }

    /// Whether a READ of so many bytes may take so many PSNs.
    pub(super) fn may_take(self, bytes: u32, count: u32) -> bool {
        self.sizes().any(|size| psns(bytes, size) == count)
    }
}

/// PSNs of a READ: a response carries as much as the path MTU, and one of no bytes is a response, too.
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
    fn what_is_not_excluded_stays_possible() {
        let all = Pmtu::default();
        assert_eq!(all.to_string(), "256 or 512 or 1024 or 2048 or 4096");
        assert_eq!(all.known(), None);
        let least = all.kept(|size| size >= 1500).unwrap();
        assert_eq!(least.to_string(), "2048 or 4096");
        assert_eq!(least.kept(|size| size == 1024), None);
        assert_eq!(least.kept(|size| size == 4096).unwrap().known(), Some(4096));
    }

    #[test]
    fn a_read_takes_as_many_psns_as_it_has_responses() {
        let pmtu = Pmtu::default();
        assert_eq!(pmtu.psns(0), Some(1));
        assert_eq!(pmtu.psns(256), Some(1));
        assert_eq!(pmtu.psns(257), None);
        assert!(pmtu.may_take(4096, 4) && pmtu.may_take(4096, 1) && !pmtu.may_take(4096, 3));
        assert_eq!(pmtu.kept(|size| size == 1024).unwrap().psns(4097), Some(5));
    }
}
