//! How much judging leaves open: the largest set of alternatives that a judge kept at once.
//!
//! What is not known is kept as the values that it may have (see the oracles). Each kind of state that may multiply says
//! here how large it is whenever it grows, so that [qualification](crate) can tell that none gets out of hand.

use std::cell::Cell;

thread_local! {
    /// Of this thread: judging stays on the thread that asks for it, and a measure of one is not disturbed by others.
    static LARGEST: Cell<u64> = const { Cell::new(1) };
}

/// Judges, and says how many alternatives were kept at once at most: 1 when nothing was open.
pub fn measured<T>(judging: impl FnOnce() -> T) -> (T, u64) {
    let before = LARGEST.replace(1);
    let came = judging();
    let largest = LARGEST.get();
    LARGEST.set(before.max(largest));
    (came, largest)
}

/// So many alternatives are kept now.
pub(crate) fn kept(alternatives: u64) {
    LARGEST.with(|largest| largest.set(largest.get().max(alternatives)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_counts_where_it_is_measured_and_around_it() {
        let ((inner, after), outer) = measured(|| {
            kept(3);
            (measured(|| kept(2)).1, measured(|| ()).1)
        });
        assert_eq!((inner, after, outer), (2, 1, 3));
        assert_eq!(measured(|| measured(|| kept(5))).1, 5);
    }
}
