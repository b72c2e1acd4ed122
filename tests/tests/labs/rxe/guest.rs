//! Machines for these tests, and the programs that run in them.

use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use verbatim_lab::machine::{BootOptions, Image, Machine, MachineError, PAIR_SCRIPT, Share, console_log};
use verbatim_lab::{RxeLab, RxeVerbsLab, build_examples};
use verbatim_tests::product::programs;

/// Longest time of a command in a machine, on the busiest host.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Examples of this package, built once. Debug builds would be too slow in the machine.
static PROGRAMS: LazyLock<PathBuf> =
    LazyLock::new(|| build_examples(&["pingpong", "umad_gmp"]).unwrap_or_else(|error| panic!("{error:#}")));

pub(crate) struct Guest {
    machine: Machine,
    _share: Share,
}

/// Returns the image, or `None` with a message if this host lacks a package and may skip the test.
pub(crate) fn image() -> Option<Image> {
    match Image::ensure() {
        Ok(image) => Some(image),
        Err(error @ MachineError::NotInstalled { .. }) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts a machine with the agent in it and the tester outside, if this host can run a machine.
pub(crate) fn rxe_lab() -> Option<RxeLab> {
    image()?;
    Some(RxeLab::start(Some(programs())).unwrap_or_else(|error| panic!("{error:#}")))
}

/// Starts a machine with agent and daemon in it, if this host can run a machine.
pub(crate) fn verbs_lab() -> Option<RxeVerbsLab> {
    image()?;
    Some(RxeVerbsLab::start(Some(programs())).unwrap_or_else(|error| panic!("{error:#}")))
}

/// A machine with `rxe0` and `rxe1` on a veth pair, without agent and daemon. The first test that needs the machine
/// boots it. The mutex lets one test at a time use the machine.
static PAIR: LazyLock<Mutex<Option<Guest>>> = LazyLock::new(|| {
    let boot = || {
        let image = image()?;
        let share = Share::new().unwrap();
        share.write("pair.sh", PAIR_SCRIPT).unwrap();
        for name in ["pingpong", "umad_gmp"] {
            share.program(&PROGRAMS.join(name)).unwrap();
        }
        let options = BootOptions::new(share.path(), "pair.sh", console_log("test-rxe").unwrap()).with_cpus(2);
        let machine = Machine::boot(&image, &options).unwrap_or_else(|error| panic!("{error}"));
        Some(Guest { machine, _share: share })
    };
    Mutex::new(boot())
});

/// Runs `test` in the machine, if this host can run a machine.
pub(crate) fn in_machine(test: impl FnOnce(&Machine)) {
    let guest = PAIR.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guest) = &*guest {
        test(&guest.machine);
    }
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn run(machine: &Machine, command: &str) -> String {
    let ran = machine.run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ran.status, 0, "{command}: {}", ran.text());
    ran.text()
}

/// Returns the index of a device's RoCEv2 GID. `gid` is the text of the GID, with colons.
pub(crate) fn gid_index(machine: &Machine, device: &str, gid: &str) -> u32 {
    let ports = format!("/sys/class/infiniband/{device}/ports/1");
    let script = format!(
        "for at in $(grep -l '{gid}' {ports}/gids/* | sed 's,.*/,,'); do \
         grep -q 'RoCE v2' {ports}/gid_attrs/types/$at && echo $at && exit; done; exit 1"
    );
    let text = run(machine, &script);
    text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
}
