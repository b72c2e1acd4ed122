//! The command line that repeats a run.

use crate::execute::Request;

/// Returns the shell command that repeats this run. The rig must be of kind `virtual`; its keys become options.
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

/// Quotes a word for a shell, if needed.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
