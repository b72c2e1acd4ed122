//! The machine itself: made once, up within its limit, seen when it is killed, and what is in it works.
//!
//! One machine for a group of tests: a boot takes seconds.
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

/// A command in a machine takes at most this, on the busiest host.
const LIMIT: Duration = Duration::from_secs(60);

/// The image, or nothing when this host lacks something and need not have it: then the test says so and is skipped.
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

/// A machine with the share that it was booted from.
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

/// The machine that most tests use: the verbs set-up, booted by whichever comes first. `Mutex`, for its devices are
/// one test's at a time.
static PAIR: LazyLock<Mutex<Option<Lab>>> =
    LazyLock::new(|| Mutex::new(boot("pair.sh", PAIR_SCRIPT, |options| options)));

/// The device under test, with both interfaces.
static DUT: LazyLock<Mutex<Option<Lab>>> = LazyLock::new(|| {
    Mutex::new(boot("dut.sh", DUT_SCRIPT, |options| {
        options.with_data_nic().with_agent_port()
    }))
});

/// Runs `test` on a shared machine, if there can be one.
fn on(lab: &Mutex<Option<Lab>>, test: impl FnOnce(&Machine)) {
    let lab = lab.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(lab) = &*lab {
        test(&lab.machine);
    }
}

/// Runs a command that must succeed, and returns what it printed.
fn run(machine: &Machine, command: &str) -> String {
    let ran = machine.run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ran.status, 0, "{command}: {}", ran.text());
    ran.text()
}
