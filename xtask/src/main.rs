//! `cargo xtask`: development tasks. See `cargo xtask --help`.

mod added;
mod campaign;
mod check;
mod deps;
#[cfg(test)]
mod features;
mod files;
mod golden;
mod kernel_arguments;
mod matrix;
mod new;
mod quick;
mod setup;
mod supply;
mod testing;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use verbatim_lab::{SubnetManager, VibOptions};

use crate::campaign::Options;
use crate::golden::Golden;

/// Development tasks of Verbatim.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the packages that the lab and the tests use (Debian; needs root).
    Setup,
    /// Set up, then run all tests; further arguments go to `cargo test`.
    Test {
        /// Print the times of all steps instead of the ten longest.
        #[arg(long)]
        times: bool,
        /// For `cargo test`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Before a commit, in minutes: formatting, lints, the changed crates' unit tests, the changed tests'
    /// qualification. Prints added comment sentences that are hard to read.
    Quick {
        /// The revision that changes are counted from.
        #[arg(long, default_value = "HEAD")]
        since: String,
    },
    /// Exactly what CI runs: formatting, dependency directions, lints, documentation, tests.
    Check,
    /// Check the directions in which the crates may depend on each other, and the cycles of files within them.
    Deps {
        /// Print each crate's largest cycle of files first.
        #[arg(long)]
        files: bool,
    },
    /// Keep a test's golden record and its verdict; without a test: judge all golden records anew.
    Golden {
        /// The test's id.
        test: Option<String>,
        /// The defect of the device. Without a defect, the device must pass the test.
        #[arg(long, requires = "test")]
        defect: Option<String>,
        /// The device model's profile: full, minimal or one-data-vl.
        #[arg(long, default_value = golden::PROFILE)]
        profile: String,
        /// The seed of the device's properties and of the random choices.
        #[arg(long, default_value_t = golden::SEED)]
        seed: u64,
        /// Replace an existing record, after a change of the test's revision.
        #[arg(long)]
        replace: bool,
    },
    /// Begin a new test or defect as a copy of an existing one.
    New {
        #[command(subcommand)]
        kind: new::Kind,
    },
    /// Check the programs' dependencies against deny.toml: licences, bans, duplicates, sources.
    Supply {
        /// Also write an SBOM (CycloneDX), target/debian/verbatim.cdx.json, and print its path.
        #[arg(long)]
        sbom: bool,
    },
    /// Build the Debian packages of client, daemon and agent, under target/debian, and print their paths.
    Package {
        /// The profile of the build.
        #[arg(long, default_value = "release")]
        profile: String,
        /// The packages' version. Default: the workspace's version.
        #[arg(long)]
        version: Option<String>,
    },
    /// Build the C programs of tests/c and print their directory.
    CPrograms,
    /// Run a command with a device under test that needs no hardware.
    Lab {
        #[command(subcommand)]
        device: Device,
    },
    /// Run the tests of rxe on several kernels of Debian, and write one page and one JSON document.
    Matrix(matrix::Arguments),
    /// Run a long campaign. Without a name: list them.
    Campaign {
        /// The campaign's name.
        name: Option<String>,
        /// Number of repetitions, if the campaign repeats something.
        #[arg(long, visible_alias = "ops", conflicts_with = "scale")]
        times: Option<u64>,
        /// Size relative to the campaign's default.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Seconds for each part, if the campaign is limited by time.
        #[arg(long)]
        seconds: Option<u64>,
        /// Arguments of this campaign alone.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum Device {
    /// ibsim: a subnet management agent behind the real libibumad. The tester is on A, the device under test is B.
    Ibsim {
        /// The command, with `verbatim` and `verbatimd` on its PATH and VERBATIM_RIG_FILE set.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// rxe: Linux's own RoCEv2 stack in an emulated machine. The tester is outside, on its data cable.
    Rxe {
        /// Only the machine: no agent, no daemon, and nothing is built.
        #[arg(long)]
        bare: bool,
        #[command(flatten)]
        kernel: kernel_arguments::KernelArguments,
        /// Run the command on Debian's kernel too, and print how the verdicts differ.
        #[arg(long, value_parser = ["stock"], conflicts_with = "bare")]
        baseline: Option<String>,
        /// Write all frames of the data cable to this file, as pcap. With --bare, two other RDMA programs can be
        /// watched.
        #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
        capture: Option<PathBuf>,
        /// The command, with `verbatim` and `verbatimd` on its PATH and a daemon that holds the rig `rxe`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// remote: a daemon with mutual TLS and the device model on one machine, the command on another (network
    /// namespaces).
    Remote {
        /// The command, with `verbatim` on its PATH and a certificate; the daemon's rig is `model`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// rxe-verbs: two RoCEv2 devices in one machine; agent, daemon and the command run in it.
    RxeVerbs {
        /// Only the devices: no agent, no daemon, and nothing is built.
        #[arg(long)]
        bare: bool,
        #[command(flatten)]
        kernel: kernel_arguments::KernelArguments,
        /// The command; a program of this host is taken into the machine. The daemon holds the rig `rxe-verbs`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// service: a Debian with systemd in a machine, with the packages installed and the service running.
    Service {
        /// The command, run in the machine as an ordinary user of the group `verbatim`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// vib: a native InfiniBand adapter in a machine, cabled to a device model outside; the command runs in the
    /// machine.
    Vib {
        /// When OpenSM manages the subnet: never, from before the daemon starts, or from 20 s after the command began.
        #[arg(long, default_value = "never", value_parser = ["never", "before", "during"])]
        opensm: String,
        /// Number of ports of the adapter, each cabled to its own model: the rig vib is at port 1, vib2 at port 2, and
        /// so on.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
        ports: u8,
        /// Put a switch between: the device at the switch's port 2; at its port 3, OpenSM on a second port of the
        /// adapter.
        #[arg(long, conflicts_with = "ports")]
        switch: bool,
        /// The device model's profile, as `verbatimd model` takes it.
        #[arg(long, default_value = "full")]
        profile: String,
        /// The model's seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// A defect of the device; may be repeated.
        #[arg(long)]
        defect: Vec<String>,
        #[command(flatten)]
        kernel: kernel_arguments::KernelArguments,
        /// The command; a program of this host is taken into the machine. The daemon holds the rig `vib`.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<u8> {
    match task {
        Task::Setup => setup::setup()?,
        Task::Test { times, arguments } => check::test(times, &arguments)?,
        Task::Check => check::check()?,
        Task::Quick { since } => quick::quick(&since)?,
        Task::Deps { files } => {
            if files {
                files::print()?;
            }
            deps::check_workspace()?;
            files::check()?;
        }
        Task::Golden { test: None, .. } => golden::write_verdicts()?,
        Task::Golden {
            test: Some(test),
            defect,
            profile,
            seed,
            replace,
        } => {
            let golden = Golden {
                test: &test,
                defect: defect.as_deref(),
                profile: &profile,
                seed,
                replace,
            };
            golden.keep()?;
            golden::write_verdicts()?;
        }
        Task::New { kind } => new::begin(&kind)?,
        Task::CPrograms => println!("{}", verbatim_lab::build_c_programs()?.display()),
        Task::Matrix(arguments) => matrix::run(&arguments)?,
        Task::Lab {
            device: Device::Ibsim { command },
        } => return verbatim_lab::run_in_ibsim(&command),
        Task::Lab {
            device: Device::Remote { command },
        } => return verbatim_lab::run_in_remote(&command),
        Task::Supply { sbom } => {
            if let Some(path) = supply::check(sbom)? {
                println!("{}", path.display());
            }
        }
        Task::Package { profile, version } => {
            for package in verbatim_lab::build_packages(&profile, version.as_deref())? {
                println!("{}", package.display());
            }
        }
        Task::Lab {
            device: Device::Service { command },
        } => return verbatim_lab::run_in_service(&command),
        Task::Lab {
            device:
                Device::Rxe {
                    bare,
                    kernel,
                    baseline,
                    capture,
                    command,
                },
        } => {
            let kernel = kernel.into();
            return match baseline {
                Some(_) => verbatim_lab::run_against_stock(&command, &kernel),
                None => verbatim_lab::run_in_rxe(&command, bare, &kernel, capture.as_deref()),
            };
        }
        Task::Lab {
            device: Device::RxeVerbs { bare, kernel, command },
        } => return verbatim_lab::run_in_rxe_verbs(&command, bare, &kernel.into()),
        Task::Lab {
            device:
                Device::Vib {
                    opensm,
                    ports,
                    switch,
                    profile,
                    seed,
                    defect,
                    kernel,
                    command,
                },
        } => {
            let subnet_manager = match opensm.as_str() {
                "before" => SubnetManager::Before,
                "during" => SubnetManager::During,
                _ => SubnetManager::Never,
            };
            let device = ["--profile".to_owned(), profile, "--seed".to_owned(), seed.to_string()];
            let defects = defect.into_iter().flat_map(|name| ["--defect".to_owned(), name]);
            let options = VibOptions {
                ports,
                model: device.into_iter().chain(defects).map(OsString::from).collect(),
                subnet_manager,
                has_switch: switch,
                kernel: kernel.into(),
                ..VibOptions::default()
            };
            return verbatim_lab::run_in_vib(&command, &options);
        }
        Task::Campaign { name: None, .. } => print!("{}", campaign::list()),
        Task::Campaign {
            name: Some(name),
            times,
            scale,
            seconds,
            arguments,
        } => {
            campaign::run(
                &name,
                &Options {
                    times,
                    scale,
                    seconds,
                    arguments,
                },
            )?;
        }
    }
    Ok(0)
}
