//! Counts with their nouns.

/// Returns the singular for a count of 1, otherwise the plural.
#[must_use]
pub const fn plural(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// Formats a count with its noun: `1 packet`, `0 packets`.
#[must_use]
pub fn counted(count: u64, one: &'static str, more: &'static str) -> String {
    format!("{count} {}", plural(count, one, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let all = [0, 1, 2, 21].map(|count| counted(count, "packet", "packets"));
        assert_eq!(all, ["0 packets", "1 packet", "2 packets", "21 packets"]);
    }
}
