//! The rig's reset command. It runs between two tests, and when the device stopped responding.
//!
//! A reset never hides a missing restore. If the device responds and the journal lists changes, there is no reset.
//! After a reset the tester restores the journal's changes before it sends anything else.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use verbatim_record::{Entry, Reset};
use verbatim_rig::ResetConfig;
use verbatim_tester::{Case, MemoryJournal, Need, Rig, RigInfo, Test, run};
use verbatim_wire::MKey;

/// Limit of the stored output, in bytes. The end of the output is kept.
const KEPT: u64 = 16 * 1024;
/// Interval between two checks whether the command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Checks whether the device responds; a refusal counts as a response. Returns an empty text if the device responds,
/// and the reason of the failed check otherwise. Tries each of these M_Keys, because a device need not respond to a
/// wrong key.
pub(crate) fn found(rig: &mut dyn Rig, info: &RigInfo, keys: &[MKey]) -> String {
    let mut silent = String::new();
    for key in keys {
        let info = RigInfo {
            key: *key,
            ..info.clone()
        };
        silent = found_by(rig, &info);
        if silent.is_empty() {
            break;
        }
    }
    silent
}

fn found_by(rig: &mut dyn Rig, info: &RigInfo) -> String {
    let needs: &'static [Need] = match info.offers.as_slice() {
        offers if offers.contains(&Need::Mad) => &[Need::Mad],
        offers if offers.contains(&Need::Packets) => &[Need::Packets],
        _ => &[Need::Verbs],
    };
    let test = Test {
        needs,
        ..Test::of("is the device there", |_| Ok(()))
    };
    let case = Case {
        test: &test,
        seed: 0,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    // Assign no LID, so that the check only reads and nothing needs a restore.
    let info = RigInfo {
        assign_lid: None,
        ..info.clone()
    };
    let mut record = Vec::new();
    let ran = run(rig, &info, &mut record, &mut MemoryJournal::default(), &case);
    let answered = record.iter().any(|entry| matches!(entry, Entry::Arrived(_)));
    match ran.stopped {
        Some(stopped) if !answered => stopped.text,
        _ => String::new(),
    }
}

/// Runs the command, and returns its result. Kills the command if the run is cancelled.
pub(crate) fn command(config: &ResetConfig, cancel: &AtomicBool) -> Reset {
    let begun = Instant::now();
    let mut reset = Reset {
        command: config.command.clone(),
        ..Reset::default()
    };
    match ended(config, cancel, begun) {
        Ok((status, why, output)) => {
            reset.succeeded = why.is_empty() && status.success();
            reset.ended = if why.is_empty() { status.to_string() } else { why };
            reset.output = output;
        }
        Err(error) => {
            reset.ended = format!(
                "it could not be run ({error}): `reset` of the rig names a program and its arguments, relative to the rig \
                 file's directory"
            );
        }
    }
    reset.took = begun.elapsed();
    reset
}

fn ended(config: &ResetConfig, cancel: &AtomicBool, begun: Instant) -> std::io::Result<(ExitStatus, String, String)> {
    let Some((program, arguments)) = config.command.split_first() else {
        return Err(std::io::Error::other("no program"));
    };
    // The output goes to a file instead of a pipe, because background processes of the command may keep writing.
    let mut output = tempfile::tempfile()?;
    let program = match program.contains('/') {
        true => config.directory.join(program),
        false => program.into(),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&config.directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let mut why = String::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() >= config.within {
            why = format!(
                "ended by the tester: it took longer than {:?} (reset_within)",
                config.within
            );
        } else if cancel.load(Ordering::Relaxed) {
            why = "ended by the tester: the run was cancelled".into();
        }
        if !why.is_empty() {
            break killed(&mut child)?;
        }
        std::thread::sleep(LOOK);
    };
    Ok((status, why, tail(&mut output)?))
}

/// Kills the command and its process group.
fn killed(child: &mut Child) -> std::io::Result<ExitStatus> {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
    child.kill()?;
    child.wait()
}

fn tail(output: &mut std::fs::File) -> std::io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(KEPT);
    output.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    output.take(KEPT).read_to_end(&mut bytes)?;
    let left_out = match from {
        0 => String::new(),
        from => format!("[{from} bytes before this are left out]\n"),
    };
    Ok(left_out + &String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(script: &str, within: Duration) -> ResetConfig {
        ResetConfig {
            command: ["sh", "-c", script].map(String::from).to_vec(),
            directory: ".".into(),
            within,
            only_when_silent: false,
        }
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn keeps_output_and_exit_status() {
        let reset = command(&config("echo out; echo err >&2", LONG), &AtomicBool::new(false));
        assert_eq!((reset.succeeded, reset.output.as_str()), (true, "out\nerr\n"));
        assert_eq!(reset.ended, "exit status: 0");
        let reset = command(&config("exit 3", LONG), &AtomicBool::new(false));
        assert_eq!((reset.succeeded, reset.ended.as_str()), (false, "exit status: 3"));
    }

    #[test]
    fn kills_a_hanging_reset_and_its_children() {
        let reset = command(
            &config("sleep 1000 & sleep 1000", Duration::ZERO),
            &AtomicBool::new(false),
        );
        assert!(
            !reset.succeeded && reset.ended.contains("reset_within"),
            "{}",
            reset.ended
        );
        let reset = command(&config("sleep 1000", LONG), &AtomicBool::new(true));
        assert!(reset.ended.contains("cancelled"), "{}", reset.ended);
    }

    #[test]
    fn keeps_the_end_of_long_output() {
        let reset = command(
            &config("yes | head -c 100000; echo last", LONG),
            &AtomicBool::new(false),
        );
        assert!(reset.output.len() < 17_000 && reset.output.ends_with("last\n"));
        assert!(
            reset.output.starts_with("[83621 bytes before this are left out]"),
            "{}",
            &reset.output[..60]
        );
    }

    #[test]
    fn reports_a_missing_program() {
        let of = ResetConfig {
            command: vec!["./no-such-program".into()],
            ..config("", LONG)
        };
        let reset = command(&of, &AtomicBool::new(false));
        assert!(
            !reset.succeeded && reset.ended.contains("could not be run"),
            "{}",
            reset.ended
        );
    }
}
