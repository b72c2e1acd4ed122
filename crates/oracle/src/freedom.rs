//! How much judging leaves open: the largest set of alternatives that the transport oracle has held at once.
//!
//! Where it branches it says how many it holds: the connections that packets may belong to (two at most, by their make), the
//! states that a queue pair may be in (three at most), and the values that a byte of memory may have, which are bounded: see
//! [`MOST`]. Intervals, such as those of counters and times, are no sets. Nothing is counted where nothing is open.

use std::cell::Cell;

thread_local! {
    /// Of this thread: judging stays on the thread that asks for it.
    static LARGEST: Cell<usize> = const { Cell::new(1) };
}

/// Alternatives that are held at most. What would need more is left open, with the reason.
pub(crate) const MOST: usize = 63;

/// What judging comes to, and how many alternatives were held at once at most: 1 when nothing was open.
pub fn measured<T>(judging: impl FnOnce() -> T) -> (T, usize) {
    let before = LARGEST.replace(1);
    let came = judging();
    let largest = LARGEST.get();
    LARGEST.set(before.max(largest));
    (came, largest)
}

/// So many alternatives are held now.
pub(crate) fn holds(alternatives: usize) {
    LARGEST.with(|largest| largest.set(largest.get().max(alternatives)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_where_it_is_measured_and_around_it() {
        let ((inner, after), outer) = measured(|| {
            holds(3);
            (measured(|| holds(2)).1, measured(|| ()).1)
        });
        assert_eq!((inner, after, outer), (2, 1, 3));
        assert_eq!(measured(|| measured(|| holds(5))).1, 5);
    }
}
