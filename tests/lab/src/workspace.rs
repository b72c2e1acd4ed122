//! Where this workspace is, and how to call cargo in it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};

/// The workspace's root directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is tests/lab of the workspace")
}

/// The cargo that runs us, or the one on the PATH, to be run in the workspace's root.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    command
}

/// Where cargo builds to: `CARGO_TARGET_DIR`, cargo's configuration, or `target`.
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

/// `cargo metadata --no-deps` of a manifest.
///
/// # Errors
///
/// When cargo fails; its own message is part of the error.
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

/// Runs a command to its end, and fails when it does. `what` names it in the error.
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

/// A command line for people to copy.
pub fn shown(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// A program on the PATH, or in the directories for system programs, which are not on everybody's.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// The command line that installs Debian's `packages`.
pub fn apt_line(packages: &[&str]) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_apt_line_can_be_copied() {
        assert_eq!(
            apt_line(&["ibsim-utils", "jq"]),
            "sudo apt-get install -y --no-install-recommends ibsim-utils jq"
        );
    }
}
