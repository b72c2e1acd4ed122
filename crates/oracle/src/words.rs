//! Words of messages.

/// Returns a count with its noun: `1 receive`, `2 receives`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
