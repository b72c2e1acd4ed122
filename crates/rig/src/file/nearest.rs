//! "Did you mean".

/// The known word that is nearest to `word`, if one is near enough to be meant.
#[must_use]
pub fn nearest<'a, W: AsRef<str>>(word: &str, known: &'a [W]) -> Option<&'a str> {
    let far = word.chars().count().div_ceil(3).max(2);
    known
        .iter()
        .map(AsRef::as_ref)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "device"?`, or what there is to choose from.
pub(super) fn hint<W: AsRef<str>>(word: &str, known: &[W]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("; did you mean {meant:?}?"),
        None if known.len() > 32 => String::new(),
        None => format!("; expected one of {}", list(known)),
    }
}

/// Words, quoted and separated.
pub(super) fn list<W: AsRef<str>>(words: &[W]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    quoted.join(", ")
}

/// How many letters must be put in, taken out, replaced or swapped with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    // Words of a length that nobody mistypes need no table.
    if a.len().abs_diff(b.len()) > 8 || a.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let other = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut least = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + other);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_a_slip_and_a_wrong_case_are_near_and_another_word_is_not() {
        let known = ["device", "defects", "port", "route"];
        assert_eq!(nearest("devcie", &known), Some("device"));
        assert_eq!(nearest("Ports", &known), Some("port"));
        assert_eq!(nearest("rout", &known), Some("route"));
        assert_eq!(nearest("timeout_ms", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"x".repeat(100_000), &known), None);
    }
}
