//! Measures the uncertainty of the transport checks: the largest number of alternatives that a check tracks at once.
//!
//! The checks count alternatives where they branch:
//!
//! * connections that packets may belong to (at most two),
//! * states of a queue pair (at most three),
//! * values of a byte of memory (at most [`MOST`]).
//!
//! Intervals, such as the ranges of counters and times, do not count.

use std::cell::Cell;

thread_local! {
    /// Per thread: all checks run on the thread of their caller.
    static LARGEST: Cell<usize> = const { Cell::new(1) };
}

/// Maximum number of alternatives. A check that needs more gives no verdict and reports the reason.
pub(crate) const MOST: usize = 63;

/// Runs `judging`. Returns its result, and the largest number of alternatives that were possible at once; 1 means
/// that nothing was uncertain.
pub fn measured<T>(judging: impl FnOnce() -> T) -> (T, usize) {
    let before = LARGEST.replace(1);
    let came = judging();
    let largest = LARGEST.get();
    LARGEST.set(before.max(largest));
    (came, largest)
}

/// Records the current number of alternatives.
pub(crate) fn holds(alternatives: usize) {
    LARGEST.with(|largest| largest.set(largest.get().max(alternatives)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_measures_report_largest_set() {
        let ((inner, after), outer) = measured(|| {
            holds(3);
            (measured(|| holds(2)).1, measured(|| ()).1)
        });
        assert_eq!((inner, after, outer), (2, 1, 3));
        assert_eq!(measured(|| measured(|| holds(5))).1, 5);
    }
}
