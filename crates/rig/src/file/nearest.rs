//! "Did you mean".

/// No word that anybody types is longer.
const LONGEST: usize = 64;

/// The known word that is nearest to `word`, if one is near enough to be meant.
fn nearest<'a, W: AsRef<str>>(word: &str, known: &'a [W]) -> Option<&'a str> {
    let letters = word.chars().count();
    if letters > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    known
        .iter()
        .map(AsRef::as_ref)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= letters.div_ceil(3).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "device"?`, or what there is to choose from.
pub(super) fn hint<W: AsRef<str>>(word: &str, known: &[W]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("; did you mean {meant:?}?"),
        None if known.len() > 60 => String::new(),
        None => format!("; expected one of {}", list(known)),
    }
}

/// Words, quoted and separated.
pub(super) fn list<W: AsRef<str>>(words: &[W]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    quoted.join(", ")
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
