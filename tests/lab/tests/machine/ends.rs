//! The end of a machine, and boots that fail.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use verbatim_lab::machine::{BootOptions, Machine, MachineError, Share, console_log};

use crate::{LIMIT, boot, image};

const SERVES: &str = ". /etc/lab.sh\nready\nwhile :; do sleep 3600; done\n";

fn process_is_gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn detects_killed_machine_and_keeps_console() {
    let Some(lab) = boot("serves.sh", SERVES, |options| options) else {
        return;
    };
    let console = lab.machine.console().to_path_buf();
    let killed = Command::new("kill")
        .args(["-9", &lab.machine.pid().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let error = lab.machine.run("true", LIMIT).unwrap_err();
    assert!(matches!(error, MachineError::Ended { .. }), "{error}");
    let error = lab.machine.wait_for_exit(LIMIT).unwrap_err();
    assert!(matches!(error, MachineError::Ended { .. }), "{error}");
    let deadline = Instant::now() + LIMIT;
    while lab.machine.is_running() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    drop(lab);
    assert!(fs::read_to_string(console).unwrap().contains("machine: ready"));
}

#[test]
fn drop_ends_process_and_removes_sockets() {
    let Some(mut lab) = boot("serves.sh", SERVES, BootOptions::with_data_nic) else {
        return;
    };
    assert!(lab.machine.booted_in() < LIMIT);
    let (pid, place) = (lab.machine.pid(), lab.machine.directory().to_path_buf());
    assert!(!process_is_gone(pid) && place.exists());
    lab.machine.kill();
    assert!(process_is_gone(pid) && !lab.machine.is_running());
    drop(lab);
    assert!(!place.exists());
}

#[test]
fn returns_script_output_and_exit_status() {
    // The script exits while its `sleep` still runs, which must not delay the machine's end.
    let script = ". /etc/lab.sh\nsleep 600 &\nready\n{ head -c 100000 /dev/zero; printf '\\377\\n'; } >$(port out)\n\
                  echo to err >$(port err)\nexit 43\n";
    let Some(mut lab) = boot("prints.sh", script, BootOptions::with_output) else {
        return;
    };
    let output = lab.machine.take_output().unwrap();
    assert!(lab.machine.take_output().is_none());
    let read = |mut stream: std::os::unix::net::UnixStream| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).map(|_| bytes).unwrap()
        })
    };
    let (out, err) = (read(output.out), read(output.err));
    assert_eq!(lab.machine.wait_for_exit(LIMIT).unwrap(), 43);
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    assert!(out.len() == 100_002 && out.ends_with(b"\0\xff\n"), "{}", out.len());
    assert_eq!(err, b"to err\n");
}

#[test]
fn failing_script_is_quoted_without_retry() {
    let Some(image) = image() else { return };
    let share = Share::new().unwrap();
    share.write("fails.sh", ". /etc/lab.sh\nfail no such luck\n").unwrap();
    let console = console_log("test-fails").unwrap();
    let error = Machine::boot(&image, &BootOptions::new(share.path(), "fails.sh", &console)).unwrap_err();
    assert!(error.to_string().contains("no such luck"), "{error}");
    let kept = fs::read_to_string(&console).unwrap();
    assert_eq!(kept.matches("machine: failed: no such luck").count(), 1, "{kept}");
}

#[test]
fn slow_boot_is_retried_once() {
    let Some(image) = image() else { return };
    let share = Share::new().unwrap();
    share.write("silent.sh", "while :; do sleep 3600; done\n").unwrap();
    let console = console_log("test-silent").unwrap();
    let options = BootOptions::new(share.path(), "silent.sh", &console).with_limit(Duration::from_millis(300));
    let start = Instant::now();
    let error = Machine::boot(&image, &options).unwrap_err();
    assert!(
        matches!(&error, MachineError::NotReady { what, .. } if what.contains("within")),
        "{error}"
    );
    assert!(start.elapsed() >= 2 * Duration::from_millis(300));
}

#[test]
fn rejects_share_without_script() {
    let Some(image) = image() else { return };
    let share = Share::new().unwrap();
    let console = console_log("test-none").unwrap();
    let error = Machine::boot(&image, &BootOptions::new(share.path(), "none.sh", &console)).unwrap_err();
    assert!(error.to_string().contains("none.sh"), "{error}");
    assert!(!console.exists());
    let options = BootOptions::new(share.path(), "none.sh", Path::new("/proc/none/console"));
    assert!(matches!(Machine::boot(&image, &options), Err(MachineError::Io { .. })));
}

#[test]
fn mounts_host_directory_at_same_path() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("in"), "from the host").unwrap();
    let Some(lab) = boot("serves.sh", SERVES, |options| options.with_directory(place.path())) else {
        return;
    };
    let ran = lab
        .machine
        .run("pwd; cat in; echo from the machine >out", LIMIT)
        .unwrap();
    assert_eq!(ran.text(), format!("{}\nfrom the host", place.path().display()));
    assert_eq!(
        fs::read_to_string(place.path().join("out")).unwrap(),
        "from the machine\n"
    );
}

#[test]
fn machine_ends_with_its_process() {
    const CHILD: &str = "VERBATIM_TEST_BOOTS_AND_WAITS";
    if std::env::var_os(CHILD).is_some() {
        let lab = boot("serves.sh", SERVES, |options| options).unwrap();
        println!("\nmachine {}", lab.machine.pid());
        // Wait until the process that started this one kills it.
        let _ = lab.machine.wait_for_exit(Duration::from_secs(600));
        return;
    }
    if image().is_none() {
        return;
    }
    let name = "ends::machine_ends_with_its_process";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = lines
        .map(|line| line.unwrap())
        .find_map(|line| line.strip_prefix("machine ").map(|pid| pid.parse().unwrap()))
        .unwrap();
    assert!(!process_is_gone(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + LIMIT;
    while !process_is_gone(pid) {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        std::thread::yield_now();
    }
}
