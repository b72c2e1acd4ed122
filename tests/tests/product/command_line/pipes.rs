//! Commands whose output is not read or cannot be written. They must end without a panic.

use std::fs::File;
use std::process::{Command, Stdio};

use verbatim_tests::product::{Place, program, run};

use crate::command_line::FEW;

/// The commands that print results.
const PRINTING: [&str; 8] = [
    "run c14-016-*",
    "run c14-016-* --json",
    "judge record",
    "judge record --json",
    "tests --long",
    "tests --json",
    "rigs",
    "qualify C13_013 --seeds 1 --json",
];

fn with_record() -> Place {
    let place = Place::new();
    assert_eq!(
        run(&mut place.verbatim("run C13_013 C14_016_Get --record record")).code(),
        0
    );
    place
}

/// Runs a command with this stdout, and returns its stderr. Expects exit code 3, or that of the verdict if the pipe of
/// `run` or `judge` is closed.
fn ended_by_stdout(command: &mut Command, stdout: Stdio) -> String {
    let output = command.stdout(stdout).stderr(Stdio::piped()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn closed_pipe_ends_commands_quietly() {
    let place = with_record();
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(
            ended_by_stdout(&mut place.verbatim(arguments), writer.into()),
            "",
            "{arguments}"
        );
    }
}

#[test]
fn full_stdout_is_reported() {
    let place = with_record();
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let said = ended_by_stdout(&mut place.verbatim(arguments), full.into());
        assert!(
            said.contains("No space left on device") && !said.contains("panicked"),
            "{arguments}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn head_may_read_one_line() {
    let place = Place::new();
    let script = format!("{{ \"$0\" run {FEW}; echo \"code $?\" >&2; }} | head -1");
    let output = run(place.command("sh").arg("-c").arg(script).arg(program("verbatim")));
    assert_eq!(output.stdout.lines().count(), 1, "{output}");
    assert!(output.stdout.starts_with("PASS "), "{output}");
    assert!(["code 0\n", "code 3\n"].contains(&output.stderr.as_str()), "{output}");
}

#[test]
fn closed_stdout_leaves_whole_record() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    ended_by_stdout(
        &mut place.verbatim(&format!("run --record record {FEW}")),
        writer.into(),
    );
    let judged = run(&mut place.verbatim("judge record"));
    assert_eq!(judged.code(), 0, "{judged}");
}
