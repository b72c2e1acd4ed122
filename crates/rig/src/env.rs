//! The environment variables that a rig's process must start with.
//!
//! The dynamic linker reads LD_PRELOAD only at process start. A process that opens a rig with such variables therefore
//! executes itself once more with the rig's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::file::RigConfig;

/// Name of the environment variable that [`enter()`] sets to the rig's name in the process that it starts again.
pub const MARKER: &str = "VERBATIM_RIG_ENV";

/// Makes sure that this process has the rig's environment. If the process lacks a variable, this function executes the
/// same program with the same arguments and the rig's environment. It then does not return. Call this function before
/// the process opens, locks or writes anything.
///
/// # Errors
/// Fails if the program cannot be executed again, or if a variable is still missing after the restart.
pub fn enter(config: &RigConfig) -> io::Result<()> {
    let have = |name: &str| std::env::var_os(name);
    let Some((name, value)) = missing(&config.env, have) else {
        return Ok(());
    };
    if have(MARKER).as_deref() == Some(OsStr::new(&config.name)) {
        return Err(io::Error::other(still_missing(&config.name, name, value, have(name))));
    }
    let program = std::env::current_exe()?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(&program);
    if let Some(zeroth) = arguments.next() {
        command.arg0(zeroth);
    }
    let error = command
        .args(arguments)
        .envs(&config.env)
        .env(MARKER, &config.name)
        .exec();
    Err(io::Error::new(
        error.kind(),
        format!(
            "rig {:?} needs {name}={value} in the environment of its process, and {} could not be started again with \
             it: {error}",
            config.name,
            program.display()
        ),
    ))
}

/// Returns whether this process has the rig's environment variables.
#[must_use]
pub fn in_force(config: &RigConfig) -> bool {
    missing(&config.env, |name| std::env::var_os(name)).is_none()
}

/// Returns the first variable, with its value in the rig file, that this process lacks or has with another value.
pub(super) fn missing(
    wanted: &BTreeMap<String, String>,
    have: impl Fn(&str) -> Option<OsString>,
) -> Option<(&str, &str)> {
    wanted
        .iter()
        .find(|(name, value)| have(name).as_deref() != Some(OsStr::new(value)))
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Formats a variable for an error message.
pub(super) fn seen(value: Option<OsString>, name: &str) -> String {
    match value {
        Some(value) => format!("{name}={}", value.to_string_lossy()),
        None => format!("no {name}"),
    }
}

fn still_missing(rig: &str, name: &str, value: &str, have: Option<OsString>) -> String {
    format!(
        "rig {rig:?} needs {name}={value} in the environment of its process; this process was started again for it \
         ({MARKER} says so) and has {}: a program with file capabilities or the set-user-id bit loses LD_PRELOAD; if \
         {MARKER} is left over from another program, unset it",
        seen(have, name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> BTreeMap<String, String> {
        BTreeMap::from([("A".into(), "1".into()), ("B".into(), "2".into())])
    }

    #[test]
    fn every_variable_must_have_its_value() {
        let all = |name: &str| wanted().get(name).map(OsString::from);
        assert_eq!(missing(&wanted(), all), None);
        assert_eq!(missing(&wanted(), |_| Some("1".into())), Some(("B", "2")));
        assert_eq!(missing(&wanted(), |_| None), Some(("A", "1")));
        assert_eq!(missing(&BTreeMap::new(), |_| None), None);
    }

    #[test]
    fn error_names_the_variable_still_missing() {
        let text = still_missing("sim", "LD_PRELOAD", "/x.so", None);
        assert!(
            text.contains("LD_PRELOAD=/x.so") && text.contains("has no LD_PRELOAD"),
            "{text}"
        );
    }
}
