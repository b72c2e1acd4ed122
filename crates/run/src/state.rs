//! Where journals and runs are kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The state directory: journals and runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDirectory(PathBuf);

/// No state directory can be named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no place for journals and runs: expected $STATE_DIRECTORY, $XDG_STATE_HOME or $HOME to be an absolute \
     path, none is; set one of them"
)]
pub struct NoStateDirectory;

impl StateDirectory {
    /// `$STATE_DIRECTORY` (the first of several, as a service manager sets it), else `$XDG_STATE_HOME/verbatim`, else
    /// `~/.local/state/verbatim`. Variables that hold no absolute path count as unset. It need not exist yet.
    ///
    /// # Errors
    /// When none of the variables is set to an absolute path.
    pub fn find() -> Result<Self, NoStateDirectory> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoStateDirectory> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let path = |name: &str| variable(name).map(PathBuf::from).filter(absolute);
        // A service manager that was asked for several directories separates them by colons.
        let first = variable("STATE_DIRECTORY").and_then(|list| std::env::split_paths(&list).next());
        first
            .filter(absolute)
            .or_else(|| path("XDG_STATE_HOME").map(|home| home.join("verbatim")))
            .or_else(|| path("HOME").map(|home| home.join(".local/state/verbatim")))
            .map(Self)
            .ok_or(NoStateDirectory)
    }

    /// That directory, whatever the environment says.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where restore journals are.
    #[must_use]
    pub fn journals(&self) -> PathBuf {
        self.0.join("journals")
    }

    /// Where runs are.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        let found = StateDirectory::from_variables(get).ok()?;
        Some(found.path().display().to_string())
    }

    #[test]
    fn the_service_managers_directory_comes_first_then_xdg_then_home() {
        let all = [("STATE_DIRECTORY", "/a:/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(&all).as_deref(), Some("/a"));
        assert_eq!(found(&all[1..]).as_deref(), Some("/x/verbatim"));
        assert_eq!(found(&all[2..]).as_deref(), Some("/h/.local/state/verbatim"));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_relative_or_empty_variable_counts_as_none() {
        assert_eq!(
            found(&[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")]).as_deref(),
            Some("/h/.local/state/verbatim")
        );
        assert_eq!(found(&[("HOME", "here")]), None);
    }
}
