//! Tests of the machine: its image is made once, it boots in time, its programs work, and its end is detected.
//!
//! A boot takes seconds, so a group of tests shares one machine.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod arp;
mod dut;
mod ends;
mod image;
mod pair;

use std::{
    env,
    sync::{LazyLock, Mutex},
    time::Duration,
};

use verbatim_lab::machine::{BootOptions, DUT_SCRIPT, Image, Machine, MachineError, PAIR_SCRIPT, Share, console_log};

/// Longest time of a command in a machine, on the busiest host.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns the image, or `None` with a message if this host lacks a package and may skip the test.
fn image() -> Option<Image> {
    match Image::ensure() {
        Ok(image) => Some(image),
        Err(error @ MachineError::NotInstalled { .. }) if env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

struct Lab {
    machine: Machine,
    _share: Share,
}

fn boot(script: &str, text: &str, with: impl FnOnce(BootOptions) -> BootOptions) -> Option<Lab> {
    let image = image()?;
    let share = Share::new().unwrap();
    share.write(script, text).unwrap();
    let console = console_log(&format!("test-{script}")).unwrap();
    let options = with(BootOptions::new(share.path(), script, console));
    let machine = Machine::boot(&image, &options).unwrap_or_else(|error| panic!("{error}"));
    Some(Lab { machine, _share: share })
}

/// The machine of most tests, in the verbs set-up. The first test that needs the machine boots it. The mutex lets one
/// test at a time use the machine's devices.
static PAIR: LazyLock<Mutex<Option<Lab>>> =
    LazyLock::new(|| Mutex::new(boot("pair.sh", PAIR_SCRIPT, |options| options)));

/// The machine with the device under test and both interfaces.
static DUT: LazyLock<Mutex<Option<Lab>>> = LazyLock::new(|| {
    Mutex::new(boot("dut.sh", DUT_SCRIPT, |options| {
        options.with_data_nic().with_agent_port()
    }))
});

/// Runs `test` on a shared machine, if the machine could be booted.
fn on(lab: &Mutex<Option<Lab>>, test: impl FnOnce(&Machine)) {
    let lab = lab.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(lab) = &*lab {
        test(&lab.machine);
    }
}

/// Runs a command that must succeed, and returns its output.
fn run(machine: &Machine, command: &str) -> String {
    let ran = machine.run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ran.status, 0, "{command}: {}", ran.text());
    ran.text()
}
