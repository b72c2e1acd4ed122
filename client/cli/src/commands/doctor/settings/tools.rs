//! Tools of this host that report settings. Each has a time limit and an output limit.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Time limit of a tool. `mlxconfig` reads hundreds of settings from the firmware.
const WITHIN: Duration = Duration::from_secs(20);
/// Output limit in bytes, more than any of the tools prints.
const LONGEST: u64 = 1 << 20;

/// Runs the first of these tools that is on the PATH, and returns its output.
///
/// # Errors
/// When none is installed, or the tool fails. The error is the reason.
pub(in crate::commands::doctor) fn installed(tools: &[&str], arguments: &[&str]) -> Result<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = tools.iter().find_map(|tool| on_path(&path, tool));
    let found = found.ok_or_else(|| format!("{} is not on the PATH", tools.join(" or ")))?;
    output(&found, arguments, WITHIN)
}

fn on_path(path: &OsStr, tool: &str) -> Option<PathBuf> {
    let is_program = |place: &PathBuf| {
        place
            .metadata()
            .is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .map(|place| place.join(tool))
        .find(is_program)
}

/// Returns the output of a program, if it succeeds within a time limit.
fn output(program: &Path, arguments: &[&str], within: Duration) -> Result<String, String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(LONGEST).read_to_end(&mut bytes));
        // Ignore an error: the caller may have stopped waiting.
        let _ = tell.send(read.is_some_and(|read| read.is_ok()).then_some(bytes));
    });
    let no_answer = || format!("{name}: no answer within {} s", within.as_secs_f32());
    let Ok(printed) = told.recv_timeout(within) else {
        // Ignore an error: the program may have ended already.
        let _ = child.kill();
        let _ = child.wait();
        return Err(no_answer());
    };
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait()));
    match (printed, ended.recv_timeout(within)) {
        (_, Err(_)) => Err(no_answer()),
        (_, Ok(Err(error))) => Err(failed(error)),
        (Some(bytes), Ok(Ok(status))) if status.success() => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        (_, Ok(Ok(status))) => Err(format!("{name} failed ({status}); it may need root")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_has_a_time_limit() {
        let shell = Path::new("/bin/sh");
        let run = |script: &str, within| output(shell, &["-c", script], within);
        assert_eq!(run("echo a", WITHIN).unwrap(), "a\n");
        assert!(run("exit 3", WITHIN).unwrap_err().contains("exit status: 3"));
        let late = run("exec sleep 1000", Duration::from_millis(10)).unwrap_err();
        assert!(late.contains("no answer within 0.01 s"), "{late}");
        assert!(output(Path::new("/nonexistent"), &[], WITHIN).is_err());
    }

    #[test]
    fn finds_only_executables_on_the_path() {
        let place = tempfile::tempdir().unwrap();
        let tool = place.path().join("mlxreg");
        std::fs::write(&tool, "").unwrap();
        assert_eq!(on_path(place.path().as_os_str(), "mlxreg"), None);
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(on_path(place.path().as_os_str(), "mlxreg"), Some(tool));
        assert_eq!(on_path(place.path().as_os_str(), "mstreg"), None);
    }
}
