//! "Did you mean", or what there is to choose from.

use verbatim_nearest::nearest;

/// `; did you mean "device"?`, or what there is to choose from.
pub(super) fn hint<W: AsRef<str>>(word: &str, known: &[W]) -> String {
    match nearest(word, known.iter().map(AsRef::as_ref)) {
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
