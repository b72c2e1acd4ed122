//! The test programs that cargo builds.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use super::of_workspace;
use super::times::{self, Row};

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) package: String,
    /// Name of the target; `lib` or `bin NAME` for unit tests.
    pub(super) target: String,
    pub(super) executable: PathBuf,
    /// Directory of the package, where cargo runs tests.
    pub(super) directory: PathBuf,
}

impl Program {
    /// Returns the command, with the variables that cargo sets for a test of the package.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env("CARGO_PKG_NAME", &self.package);
        command
    }

    /// Returns the names of the program's tests.
    ///
    /// # Errors
    ///
    /// Returns an error when the program does not list its tests.
    pub(super) fn tests(&self) -> anyhow::Result<Vec<String>> {
        let output = self
            .command()
            .args(["--list", "--format", "terse"])
            .output()
            .with_context(|| format!("starting {}", self.executable.display()))?;
        if !output.status.success() {
            bail!("{} --list failed: {}", self.executable.display(), output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    }
}

/// Builds the test programs of the workspace. Returns the programs and the times of the build.
///
/// # Errors
///
/// Returns an error when the code does not compile. Cargo has printed the reason.
pub(super) fn build() -> anyhow::Result<(Vec<Program>, Row)> {
    let start = Instant::now();
    eprintln!("xtask: building the tests");
    let mut build = of_workspace("test");
    build
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stdout(Stdio::piped());
    let mut child = build.spawn().context("starting cargo")?;
    let said = child.stdout.take().context("cargo's messages")?;
    let mut programs = Vec::new();
    for line in BufReader::new(said).lines() {
        let message: Value = serde_json::from_str(&line.context("reading cargo's messages")?)?;
        programs.extend(program(&message));
    }
    let cpu = times::cpu_when_ended(child.id())?;
    if !child.wait().context("waiting for cargo")?.success() {
        bail!("the tests do not build");
    }
    programs.sort_by(|one, other| (&one.package, &one.target).cmp(&(&other.package, &other.target)));
    let row = Row {
        name: "build".to_owned(),
        wall: start.elapsed(),
        cpu,
        ..Row::default()
    };
    Ok((programs, row))
}

/// Returns the test program that a message of cargo reports, if there is one.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = PathBuf::from(message["manifest_path"].as_str()?)
        .parent()?
        .to_path_buf();
    let name = message["target"]["name"].as_str()?;
    let target = match message["target"]["kind"][0].as_str()? {
        "test" => name.to_owned(),
        "bin" => format!("bin {name}"),
        _ => "lib".to_owned(),
    };
    // `path+file:///work/crates/wire#verbatim-wire@0.1.0`, or without a name if the directory has the same name.
    let id = message["package_id"].as_str()?;
    let last = id
        .rsplit(['#', '/'])
        .find(|part| part.contains(|c: char| c.is_ascii_alphabetic()))?;
    let package = last.split('@').next()?.to_owned();
    Some(Program {
        package,
        target,
        executable,
        directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, kind: &str, test: bool) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "/w/crates/wire/Cargo.toml",
            "target": {"kind": [kind], "name": "wire"}, "profile": {"test": test}, "executable": "/t/wire-1"
        })
    }

    #[test]
    fn names_programs_by_package_and_target() {
        let named = |id, kind| {
            let program = program(&message(id, kind, true)).unwrap();
            (program.package, program.target)
        };
        let long = "path+file:///w/crates/wire#verbatim-wire@0.1.0";
        assert_eq!(named(long, "lib"), ("verbatim-wire".into(), "lib".into()));
        assert_eq!(
            named("path+file:///w/xtask#0.1.0", "bin"),
            ("xtask".into(), "bin wire".into())
        );
        assert_eq!(named(long, "test"), ("verbatim-wire".into(), "wire".into()));
    }

    #[test]
    fn an_example_is_no_test_program() {
        assert_eq!(program(&message("path+file:///w#a@0.1.0", "example", false)), None);
    }
}
