//! Kills of daemon, worker or both at random instants, while tests change a device: after the next start the device must
//! be as it was found. The program that does it is an example of the end-to-end tests; this builds and starts it.

use super::Options;
use verbatim_lab::build_binaries;
use verbatim_lab::workspace::{cargo, root, run as run_command};

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let binaries = build_binaries()?;
    let mut command = cargo();
    command
        .current_dir(root())
        .args([
            "run",
            "--release",
            "--quiet",
            "-p",
            "verbatim-tests",
            "--example",
            "kill",
            "--",
        ])
        .arg("--times")
        .arg(options.times_or(300).to_string())
        .arg("--binaries")
        .arg(binaries)
        .args(&options.arguments);
    run_command("the kill campaign", &mut command)
}
