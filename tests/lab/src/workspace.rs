//! The paths of this workspace, and calls of cargo in it.

use std::{
    env,
    ffi::OsString,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

/// Returns the workspace's root directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is tests/lab of the workspace")
}

/// Returns a command of cargo in the workspace's root. The program is the cargo that runs this process, or else the
/// cargo on the PATH.
///
/// The command lacks the environment variables with which `cargo run` and `cargo test` describe their package. ring's
/// build script reads these variables: if they changed with each calling package, cargo would rebuild ring and the
/// daemon each time.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Prints a message if another cargo builds in the same directory. A quiet cargo would wait without a message.
pub fn say_if_build_must_wait(profile: &str) {
    let Ok(directory) = target_directory() else { return };
    let lock = directory.join(profile).join(".cargo-lock");
    if is_held(&lock) {
        eprintln!(
            "xtask: another cargo builds in {}; waiting for it",
            directory.join(profile).display()
        );
    }
}

/// Returns whether another process has locked the file. A missing file is not locked.
fn is_held(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Returns whether an environment variable describes the package that cargo runs.
fn is_of_a_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|start| name.starts_with(start))
        || name == "OUT_DIR"
}

/// Returns cargo's target directory, from `CARGO_TARGET_DIR`, cargo's configuration or the default `target`.
///
/// # Errors
///
/// When `cargo metadata` fails, for example because a manifest is broken.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let metadata = metadata(&root().join("Cargo.toml"))?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target_directory")?;
    Ok(PathBuf::from(directory))
}

/// Returns the output of `cargo metadata --no-deps` for a manifest.
///
/// # Errors
///
/// When cargo fails. The error contains cargo's message.
pub fn metadata(manifest: &Path) -> anyhow::Result<serde_json::Value> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .context("cargo could not be started; is Rust installed and on the PATH?")?;
    if !output.status.success() {
        bail!(
            "cargo metadata of {} failed: {}",
            manifest.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed something that is not JSON")
}

/// Runs a command to its end, and fails if the command fails. `what` names the command in messages.
///
/// # Errors
///
/// When the command cannot be started or does not exit with 0.
pub fn run(what: &str, command: &mut Command) -> anyhow::Result<()> {
    eprintln!("xtask: {what}");
    let status = command.status().with_context(|| {
        format!(
            "{what}: {} could not be started; is it installed?",
            command.get_program().to_string_lossy()
        )
    })?;
    if !status.success() {
        bail!("{what} failed ({status}); the command was: {}", shown(command));
    }
    Ok(())
}

/// Returns the command line as text that people can copy.
pub fn shown(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_held_and_missing_locks() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join(".cargo-lock");
        assert!(!is_held(&place));
        let theirs = File::create(&place).unwrap();
        assert!(!is_held(&place));
        theirs.lock().unwrap();
        assert!(is_held(&place));
        theirs.unlock().unwrap();
        assert!(!is_held(&place));
    }

    #[test]
    fn cargo_gets_no_package_variables() {
        assert!(env::var_os("CARGO_PKG_NAME").is_some(), "run this test with cargo");
        let command = cargo();
        let kept = command.get_envs().filter(|(_, value)| value.is_some()).count();
        let removed = |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(kept == 0 && removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO_TARGET_DIR") && !removed("PATH"));
    }
}
