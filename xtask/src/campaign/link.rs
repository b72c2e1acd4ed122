//! Damaged packets: the catalogue's judge of the link layer and the reference device's own check, written apart, must say
//! the same. The program that compares them is an example of the end-to-end tests, since both may be known there only;
//! this builds and starts it.

use super::Options;
use verbatim_lab::workspace::{cargo, root, run as run_command};

/// Packets, unless the options say otherwise.
const USUAL: u64 = 10_000_000;

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
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
            "link_campaign",
            "--",
        ])
        .arg("--packets")
        .arg(options.times_or(USUAL).to_string())
        // Behind --packets: what is given there holds.
        .args(&options.arguments);
    run_command("the link campaign", &mut command)
}
