//! The machines of these tests.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use verbatim_lab::machine::{Image, MachineError};
use verbatim_lab::{SubnetManager, VibLab, VibOptions, build_examples};
use verbatim_tests::product::programs;

/// Longest time of a command in a machine, on the busiest host.
const LIMIT: Duration = Duration::from_secs(1800);

/// Arguments of the device model of most tests. The device has no LID yet.
pub(crate) const SOUND: [&str; 4] = ["--profile", "full", "--seed", "1"];

/// The path of `umad_read`, built once.
static READER: LazyLock<PathBuf> = LazyLock::new(|| {
    let examples = build_examples(&["umad_read"]).unwrap_or_else(|error| panic!("{error:#}"));
    examples.join("umad_read")
});

static OWN: LazyLock<Mutex<Option<VibLab>>> = LazyLock::new(|| Mutex::new(start(1, SubnetManager::Never)));
static MANAGED: LazyLock<Mutex<Option<VibLab>>> = LazyLock::new(|| Mutex::new(start(1, SubnetManager::Before)));

/// Returns whether this host can run a machine. Otherwise prints the reason, or fails if `CI` is set.
pub(crate) fn can_be_had() -> bool {
    match Image::ensure() {
        Ok(_) => true,
        Err(error @ MachineError::NotInstalled { .. }) => {
            skip(&error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn skip(error: &dyn std::fmt::Display) {
    assert!(std::env::var_os("CI").is_none(), "{error}");
    eprintln!("skipped: {error}");
}

/// Starts a machine whose adapter has `ports` ports, if this host can run a machine.
pub(crate) fn start(ports: u8, subnet_manager: SubnetManager) -> Option<VibLab> {
    start_with(VibOptions {
        ports,
        subnet_manager,
        ..VibOptions::default()
    })
}

/// Starts a machine with a switch between adapter and device, if this host can run a machine.
pub(crate) fn start_switched() -> Option<VibLab> {
    build_examples(&["switch"]).unwrap_or_else(|error| panic!("{error:#}"));
    start_with(VibOptions {
        has_switch: true,
        ..VibOptions::default()
    })
}

fn start_with(options: VibOptions) -> Option<VibLab> {
    if !can_be_had() {
        return None;
    }
    let options = VibOptions {
        model: SOUND.iter().map(Into::into).collect(),
        programs: vec![READER.clone()],
        ..options
    };
    match VibLab::start(programs(), options) {
        Ok(lab) => Some(lab),
        Err(error) => {
            let missing = matches!(error.downcast_ref(), Some(MachineError::NotInstalled { .. }));
            assert!(missing, "{error:#}");
            skip(&error);
            None
        }
    }
}

/// Runs `test` in the machine without a subnet manager, if this host can run a machine.
pub(crate) fn own(test: impl FnOnce(&mut VibLab)) {
    if let Some(lab) = &mut *OWN.lock().unwrap_or_else(PoisonError::into_inner) {
        test(lab);
    }
}

/// Runs `test` in the machine with OpenSM, if this host can run a machine.
pub(crate) fn managed(test: impl FnOnce(&mut VibLab)) {
    if let Some(lab) = &mut *MANAGED.lock().unwrap_or_else(PoisonError::into_inner) {
        test(lab);
    }
}

/// Returns a command's exit status and output.
pub(crate) fn ran(lab: &VibLab, command: &str) -> (u8, String) {
    let script = format!("{}{command}", lab.environment());
    let ran = lab
        .machine()
        .run(&script, LIMIT)
        .unwrap_or_else(|error| panic!("{error}"));
    (ran.status, ran.text())
}

/// Returns the output of a command that must succeed.
pub(crate) fn text(lab: &VibLab, command: &str) -> String {
    let (status, text) = ran(lab, command);
    assert_eq!(status, 0, "{command}: {text}");
    text
}

/// Repeats a command until its status and output satisfy `is_so`.
pub(crate) fn until(lab: &VibLab, command: &str, is_so: impl Fn(u8, &str) -> bool) {
    let bound = std::time::Instant::now() + LIMIT;
    loop {
        let (status, said) = ran(lab, command);
        if is_so(status, &said) {
            return;
        }
        assert!(std::time::Instant::now() < bound, "{command}: {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the device's fields from our own reader, as lines `Attribute[modifier].Field = 0x1f`.
pub(crate) fn read(lab: &VibLab) -> Vec<String> {
    let text = text(lab, "umad_read $VERBATIM_RIG_FILE vib");
    text.lines().map(str::to_owned).collect()
}
