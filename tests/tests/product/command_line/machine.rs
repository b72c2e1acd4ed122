//! Machines that lack something: permissions, a library, a device, disk space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use verbatim_tests::oracle::skipped;
use verbatim_tests::product::{Output, Place, program, run};

use crate::command_line::FEW;

/// A rig file for a device that this machine does not have.
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

/// Copies the program to a path at which any user may start it.
fn for_everybody(place: &Place) -> PathBuf {
    let copy = place.path("verbatim");
    // Copy in another process. A child of a concurrent test could inherit a writable descriptor of the copy, which
    // would then not be executable.
    let copied = Command::new("cp").arg(program("verbatim")).arg(&copy).status();
    assert!(copied.unwrap().success());
    copy
}

#[test]
fn unprivileged_user_runs_virtual_rig() {
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
    command.arg("run").args(FEW.split(' ')).current_dir("/");
    let output = run(command
        .env_remove("HOME")
        .env_remove("STATE_DIRECTORY")
        .env_remove("TMPDIR"));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
    let output = run(command.env("HOME", "/nonexistent").env("STATE_DIRECTORY", "/proc/none"));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output}");
}

#[test]
fn virtual_rig_leaves_no_files() {
    let place = Place::new();
    assert_eq!(run(&mut place.verbatim("run C14_016_Set")).code(), 0);
    assert_eq!(
        fs::read_dir(place.path(".")).unwrap().count(),
        0,
        "neither in the directory nor in the state directory"
    );
}

/// Checks that there is no verdict, and that stderr has "unavailable" and each of the words.
fn unavailable(output: &Output, words: &[&str]) {
    assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
    assert!(output.stderr.contains("\"bench\" is unavailable: "), "{output}");
    for words in words {
        assert!(output.stderr.contains(words), "{words:?} is not in {output}");
    }
    assert!(!output.stderr.contains("panicked"), "{output}");
}

#[test]
fn absent_device_is_unavailable() {
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

/// Makes a root directory with only the program and its linked libraries.
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

/// Returns a chroot command, as root or in a user namespace. Returns `None` if this host allows neither.
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
fn missing_libibumad_names_package() {
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
fn full_disk_is_tester_error() {
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
