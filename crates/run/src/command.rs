//! The command line that makes a run.

use crate::execute::Request;

/// The command that makes this run again, for a shell. Its rig is the built-in one, or one of kind `virtual` that keys
/// make of it.
#[must_use]
pub fn command(request: &Request) -> String {
    let mut words: Vec<String> = ["verbatim", "--server", "none", "run"].map(String::from).into();
    words.extend(request.spec.patterns.iter().cloned());
    words.extend(["--seed".into(), request.spec.seed.to_string()]);
    for key in request.rig.keys() {
        words.extend(["--rig-key".into(), key]);
    }
    for (name, value) in &request.spec.parameters {
        words.extend(["--set".into(), format!("{name}={value}")]);
    }
    let quoted: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
