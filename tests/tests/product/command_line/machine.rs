//! Machines that lack something: rights, a library, a device, room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use verbatim_tests::oracle::skipped;
use verbatim_tests::product::{Output, Place, program, run};

use crate::command_line::SHORT;

/// A rig at a port of this machine, which has no such device.
const ABSENT: &str = r#"config_version = 1

[[rig]]
name = "bench"
kind = "umad"
device = "mlx5_77"
port = 1
route = "0,1"
"#;

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The program where any user may start it.
fn for_everybody(place: &Place) -> PathBuf {
    let copy = place.path("verbatim");
    // By another process: a child of a test beside this one would hold the copy open, and it could not be run.
    let copied = Command::new("cp").arg(program("verbatim")).arg(&copy).status();
    assert!(copied.unwrap().success());
    copy
}

#[test]
fn a_user_without_rights_and_without_a_home_runs_the_virtual_rig() {
    let place = Place::new();
    let verbatim = for_everybody(&place);
    let mut command = if is_root() {
        let mut setpriv = place.command("setpriv");
        setpriv
            .args([
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                "--no-new-privs",
                "--",
            ])
            .arg(verbatim);
        setpriv
    } else {
        place.command(verbatim)
    };
    command.arg("run").args(SHORT.split(' ')).current_dir("/");
    let output = run(command
        .env_remove("HOME")
        .env_remove("STATE_DIRECTORY")
        .env_remove("TMPDIR"));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
    let output = run(command.env("HOME", "/nonexistent").env("STATE_DIRECTORY", "/proc/none"));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
}

#[test]
fn the_virtual_rig_leaves_nothing_behind() {
    let place = Place::new();
    assert_eq!(run(&mut place.verbatim("run C14_016_Set")).code(), 0);
    assert_eq!(
        fs::read_dir(place.path(".")).unwrap().count(),
        0,
        "neither in the directory nor in the state directory"
    );
}

/// Expects "unavailable": on stderr, with each of the words, and no verdict.
fn unavailable(output: &Output, words: &[&str]) {
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains("\"bench\" is unavailable: "), "{output}");
    for words in words {
        assert!(output.stderr.contains(words), "{words:?} is not in {output}");
    }
    assert!(!output.stderr.contains("panicked"), "{output}");
}

#[test]
fn a_device_that_is_not_there_is_unavailable_and_doctor_says_so_too() {
    let place = Place::new();
    place.write("rigs.toml", ABSENT);
    let output = run(&mut place.verbatim("run C13_013 --rig-file rigs.toml --rig bench --json"));
    if output.stderr.contains("libibumad") && output.stderr.contains("apt-get install libibumad3") {
        skipped(
            "libibumad",
            "sudo apt-get install -y --no-install-recommends libibumad3",
        );
        return;
    }
    unavailable(&output, &["mlx5_77"]);
    let doctor = run(&mut place.verbatim("doctor --rig-file rigs.toml --rig bench"));
    assert_eq!(doctor.code(), 3, "{doctor}");
    assert!(doctor.stdout.contains("missing rig bench"), "{doctor}");
    let survey = run(&mut place.verbatim("doctor --rig-file rigs.toml"));
    assert_eq!(survey.code(), 3, "a rig of the file is needed: {survey}");
    assert!(
        survey.stdout.contains("missing rig bench") && survey.stdout.contains("rig virtual"),
        "{survey}"
    );
}

/// A root directory with the program, the libraries that it is linked with, and nothing else.
fn bare_root(place: &Place) -> PathBuf {
    let root = place.path("root");
    fs::create_dir_all(root.join("work")).unwrap();
    fs::write(root.join("work/rigs.toml"), ABSENT).unwrap();
    fs::copy(program("verbatim"), root.join("verbatim")).unwrap();
    let linked = run(place.command("ldd").arg(program("verbatim")));
    for path in linked.stdout.split_whitespace().filter(|word| word.starts_with('/')) {
        let inside = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::copy(path, inside).unwrap();
    }
    root
}

/// chroot, for root itself or in a user namespace; nothing where neither is allowed.
fn in_root(place: &Place, root: &Path) -> Option<Command> {
    let mut chroot = if is_root() {
        place.command("chroot")
    } else {
        let mut unshare = place.command("unshare");
        unshare.args(["--map-root-user", "chroot"]);
        unshare
    };
    chroot
        .arg(root)
        .env("STATE_DIRECTORY", "/work/state")
        .env_remove("TMPDIR");
    let mut probe = in_root_with(&chroot, root);
    (probe
        .args(["/verbatim", "--version"])
        .output()
        .unwrap()
        .status
        .success())
    .then_some(chroot)
}

fn in_root_with(chroot: &Command, root: &Path) -> Command {
    let mut command = Command::new(chroot.get_program());
    command.args(chroot.get_args());
    assert!(command.get_args().any(|argument| argument == root));
    command
}

#[test]
fn a_machine_without_libibumad_is_told_how_to_install_it_and_runs_the_virtual_rig() {
    let place = Place::new();
    let root = bare_root(&place);
    let Some(mut chroot) = in_root(&place, &root) else {
        skipped("the right to call chroot", "run the tests as root");
        return;
    };
    chroot.args(["/verbatim", "run", "C13_013", "--rig-file", "/work/rigs.toml"]);
    let output = run(&mut chroot);
    assert_eq!(output.code(), 0, "the virtual rig needs no library: {output}");
    chroot.args(["--rig", "bench"]);
    unavailable(&run(&mut chroot), &["libibumad", "apt-get install libibumad3"]);
}

#[test]
fn a_disk_that_fills_up_is_an_error_of_the_tester_and_no_verdict_is_kept() {
    if !is_root() {
        skipped("the right to mount", "run the tests as root");
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=64k none small && exec \"$0\" run --record small/record";
    let mut command = place.command("unshare");
    let output = run(command.args(["--mount", "sh", "-c", script]).arg(program("verbatim")));
    assert_eq!(output.code(), 3, "{output}");
    assert!(
        output.stdout.contains("[TESTER] the record could not be written"),
        "{output}"
    );
    assert!(
        output.stderr.contains("No space left on device") && output.stderr.contains("small/record"),
        "{output}"
    );
    assert_eq!(
        output.stderr.matches("No space left on device").count(),
        1,
        "said once: {output}"
    );
    assert!(!output.stderr.contains("panicked"), "{output}");
}
