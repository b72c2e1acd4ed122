//! The directory of journals and runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The state directory, which contains journals and runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDirectory(PathBuf);

/// Error: no state directory can be determined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no state directory for journals and runs: none of $STATE_DIRECTORY, $XDG_STATE_HOME and $HOME is an absolute \
     path; set one of them"
)]
pub struct NoStateDirectory;

impl StateDirectory {
    /// Returns `$STATE_DIRECTORY`, else `$XDG_STATE_HOME/verbatim`, else `~/.local/state/verbatim`. Of several
    /// directories in `$STATE_DIRECTORY`, separated by colons, the first is used. Variables without an absolute
    /// path count as unset. The directory need not exist.
    ///
    /// # Errors
    /// When none of the variables is set to an absolute path.
    pub fn find() -> Result<Self, NoStateDirectory> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Returns the state directories of this user, the best first: `$XDG_STATE_HOME/verbatim`,
    /// `~/.local/state/verbatim`, `$STATE_DIRECTORY`. They need not exist.
    #[must_use]
    pub fn of_this_user() -> Vec<Self> {
        let of = |names: &[&str]| {
            Self::from_variables(|name| names.contains(&name).then(|| std::env::var_os(name)).flatten()).ok()
        };
        [of(&["XDG_STATE_HOME"]), of(&["HOME"]), of(&["STATE_DIRECTORY"])]
            .into_iter()
            .flatten()
            .collect()
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoStateDirectory> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let path = |name: &str| variable(name).map(PathBuf::from).filter(absolute);
        // A service manager sets several directories, separated by colons.
        let first = variable("STATE_DIRECTORY").and_then(|list| std::env::split_paths(&list).next());
        first
            .filter(absolute)
            .or_else(|| path("XDG_STATE_HOME").map(|home| home.join("verbatim")))
            .or_else(|| path("HOME").map(|home| home.join(".local/state/verbatim")))
            .map(Self)
            .ok_or(NoStateDirectory)
    }

    /// Returns the state directory at `path`. Ignores the environment.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the directory of restore journals.
    #[must_use]
    pub fn journals(&self) -> PathBuf {
        self.0.join("journals")
    }

    /// Returns the directory of runs.
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
    fn prefers_state_directory_then_xdg_then_home() {
        let all = [("STATE_DIRECTORY", "/a:/b"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(&all).as_deref(), Some("/a"));
        assert_eq!(found(&all[1..]).as_deref(), Some("/x/verbatim"));
        assert_eq!(found(&all[2..]).as_deref(), Some("/h/.local/state/verbatim"));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn relative_or_empty_variable_is_unset() {
        assert_eq!(
            found(&[("STATE_DIRECTORY", ""), ("XDG_STATE_HOME", "x"), ("HOME", "/h")]).as_deref(),
            Some("/h/.local/state/verbatim")
        );
        assert_eq!(found(&[("HOME", "here")]), None);
    }
}
