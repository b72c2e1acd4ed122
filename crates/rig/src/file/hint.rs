//! Hints in messages about unknown names.

use verbatim_nearest::nearest;

/// Returns a suggestion of the nearest known name, such as `; did you mean "device"?`, or else the list of all known
/// names. The text is empty if no name is near and more than 60 names are known.
pub(super) fn hint<W: AsRef<str>>(word: &str, known: &[W]) -> String {
    match nearest(word, known.iter().map(AsRef::as_ref)) {
        Some(meant) => format!("; did you mean {meant:?}?"),
        None if known.len() > 60 => String::new(),
        None => format!("; expected one of {}", list(known)),
    }
}

pub(super) fn list<W: AsRef<str>>(words: &[W]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    quoted.join(", ")
}
