//! Mutants that tests cannot notice, each with the reason, from `tests/mutants/exceptions.toml`.

use std::fs;

use anyhow::{Context, bail};
use serde::Deserialize;
use verbatim_lab::workspace::root;

use super::rewrite::Mutant;

/// The reason why some mutants do not count against the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    /// The reason: the mutant changes no behaviour, or the change is not visible outside the device.
    pub(super) reason: String,
    /// Names of mutants. A name that ends with `: *` stands for all mutants of a function.
    pub(super) mutants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    except: Vec<Exception>,
}

impl Exception {
    /// Returns whether the exception covers a mutant.
    pub(super) fn is_for(&self, name: &str) -> bool {
        self.mutants.iter().any(|of| speaks_of(of, name))
    }
}

/// Returns whether a name in an exception matches the name of a mutant.
fn speaks_of(of: &str, name: &str) -> bool {
    match of.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => of == name,
    }
}

/// Returns the names in exceptions that match no mutant, because the code changed later.
pub(super) fn of_no_mutant<'a>(exceptions: &'a [Exception], mutants: &[Mutant]) -> Vec<&'a str> {
    let names = exceptions.iter().flat_map(|one| &one.mutants).map(String::as_str);
    let has_no_mutant = |of: &&str| !mutants.iter().any(|mutant| speaks_of(of, &mutant.name));
    names.filter(has_no_mutant).collect()
}

pub(super) fn read() -> anyhow::Result<Vec<Exception>> {
    let path = root().join("tests/mutants/exceptions.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let file: File = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    if let Some(without) = file.except.iter().find(|one| one.reason.trim().is_empty()) {
        bail!("{}: expected a reason for {:?}", path.display(), without.mutants);
    }
    Ok(file.except)
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn each_exception_names_a_mutant() {
        let (mutants, _) = build::find().unwrap();
        assert_eq!(of_no_mutant(&read().unwrap(), &mutants), Vec::<&str>::new());
    }
}
