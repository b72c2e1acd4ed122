//! Campaigns: long runs that do not fit into a test suite. Each has one entry in [`CAMPAIGNS`].

mod all;
mod fuzz;
mod mutants;

use std::ffi::OsStr;
use std::process::Command;

use anyhow::bail;
use verbatim_lab::workspace::{root, run as run_command};
use verbatim_lab::{build_binaries, build_examples};

/// Size of a campaign, and the campaign's own arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Number of repetitions, or the campaign's default if absent.
    pub(crate) times: Option<u64>,
    /// Size relative to the campaign's default.
    pub(crate) scale: f64,
    /// Seconds for each part of a campaign that is limited by time, or the campaign's default if absent.
    pub(crate) seconds: Option<u64>,
    /// Arguments that only the campaign parses.
    pub(crate) arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            times: None,
            scale: 1.0,
            seconds: None,
            arguments: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the number of repetitions: `--times`, else `usual` times `--scale`, at least 1.
    pub(crate) fn times_or(&self, usual: u64) -> u64 {
        // The conversion loses precision beyond 2^53. Campaigns are smaller.
        self.times.unwrap_or((usual as f64 * self.scale).round() as u64).max(1)
    }

    /// Returns the number of seconds: `--seconds`, else `usual` times `--scale`, at least 1.
    pub(crate) fn seconds_or(&self, usual: u64) -> u64 {
        self.seconds
            .unwrap_or((usual as f64 * self.scale).round() as u64)
            .max(1)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Campaign {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Line for the list of campaigns.
    pub(crate) summary: &'static str,
    /// Runs the campaign. Returns an error when the campaign found a fault.
    pub(crate) run: fn(&Options) -> anyhow::Result<()>,
    /// Arguments of the short sample that CI runs. `SEED` stands for a number that changes with each run.
    pub(crate) sample: &'static [&'static str],
    /// Whether the campaign mostly waits for processes and computes little.
    pub(crate) waits: bool,
}

pub(crate) const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "abuse",
        summary: "attacks on a daemon's listeners, each for --seconds (10): it neither crashes nor hangs, admits no \
                  attacker, frees its memory and descriptors; --requests N, --only, --seed",
        run: abuse,
        sample: &["--seconds", "2"],
        waits: true,
    },
    Campaign {
        name: "coverage",
        summary: "`verbatim coverage`: a test for each rule and statement, a defect for each rule",
        run: coverage,
        sample: &["--times", "1"],
        waits: false,
    },
    Campaign {
        name: "fuzz",
        summary: "every fuzz target of tests/fuzz for --seconds each (60); targets by name: only these",
        run: fuzz::run,
        sample: &["--seconds", "3"],
        waits: false,
    },
    Campaign {
        name: "inspect",
        summary: "--times (20000) captures with bytes changed, put in or left out: `inspect` and `inspect --rc` neither crash nor hang; --seed",
        run: inspect,
        sample: &["--times", "300", "--seed", "SEED"],
        waits: false,
    },
    Campaign {
        name: "kill",
        summary: "kill -9 of daemon, worker, client, restore, agent at random instants while runs wait, --times \
                  (300), --jobs (2) at a time: no run lost, no device left changed; --seed",
        run: kill,
        sample: &["--times", "15"],
        waits: true,
    },
    Campaign {
        name: "leases",
        summary: "--ops (10000) lease operations, the daemon killed meanwhile: no lease lost or granted twice; \
                  --store postgres: three daemons share one, which is also disconnected and restarted; --kills, \
                  --seed",
        run: leases,
        sample: &["--times", "300"],
        waits: true,
    },
    Campaign {
        name: "link",
        summary: "damaged packets, --packets N (10000000): judge and device agree on what a port does; --seed, --defect",
        run: link,
        sample: &["--times", "500000"],
        waits: false,
    },
    Campaign {
        name: "mutants",
        summary: "the device's code changed at one place each: 95 % must be noticed; --sample N, --seed, --jobs, --rules, --only",
        run: mutants::run,
        sample: &["--sample", "12", "--seed", "SEED", "--least", "60"],
        waits: false,
    },
    Campaign {
        name: "soak",
        summary: "mixed load through the installed service in its machine for --seconds (3600): memory and \
                  descriptors constant, no processes or files left",
        run: soak,
        sample: &["--seconds", "30"],
        waits: true,
    },
    Campaign {
        name: "vib",
        summary: "through the kernel: tests find --sample N (20, 0: all) management defects, --jobs J (12) at a time; \
                  the device is restored after --kills K (30); --seed",
        run: vib,
        sample: &["--sample", "2", "--kills", "4"],
        waits: true,
    },
    Campaign {
        name: "matrix",
        summary: "c09-matrix-* with rows of strength 3 on sound devices, --seeds N (20) from --first: no findings; \
                  --strength 4 for a night; --defect-seeds N: which defects no row finds",
        run: matrix,
        sample: &["--seeds", "12", "--rows", "40"],
        waits: false,
    },
    Campaign {
        name: "walk",
        summary: "c09-walk and c14-walk on sound devices, --seeds N (10000) from --first: no findings; --walk NAME: \
                  only this walk; --defect-seeds N: which defects c09-walk does not find",
        run: walk,
        sample: &["--seeds", "200", "--first", "978221"],
        waits: false,
    },
];

/// Attacks a daemon with all its listeners open, while an ordinary client requests the rigs.
fn abuse(options: &Options) -> anyhow::Result<()> {
    let (seconds, binaries) = (options.seconds_or(10).to_string(), build_binaries()?);
    let arguments: [&OsStr; 4] = [
        "--times".as_ref(),
        seconds.as_ref(),
        "--binaries".as_ref(),
        binaries.as_os_str(),
    ];
    example("abuse", arguments, options)
}

/// Runs `verbatim coverage`, and prints the lines that count missing tests and defects.
fn coverage(options: &Options) -> anyhow::Result<()> {
    let mut command = Command::new(build_binaries()?.join("verbatim"));
    command.args(["--server", "none", "coverage"]).args(&options.arguments);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    for line in text
        .lines()
        .skip_while(|line| !line.contains(": rules that no test exercises"))
    {
        println!("{line}");
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("`verbatim coverage` ended with {}", output.status);
    }
    Ok(())
}

fn inspect(options: &Options) -> anyhow::Result<()> {
    let (times, binaries) = (options.times_or(20_000).to_string(), build_binaries()?);
    let arguments: [&OsStr; 4] = [
        "--times".as_ref(),
        times.as_ref(),
        "--binaries".as_ref(),
        binaries.as_os_str(),
    ];
    example("altered_captures", arguments, options)
}

/// Kills daemon, worker, client, restore and agent at random instants, while tests change a device.
///
/// After the next start of the killed process, the device must be in its original state.
fn kill(options: &Options) -> anyhow::Result<()> {
    let (times, binaries) = (options.times_or(300).to_string(), build_binaries()?);
    let arguments = [
        "--times".as_ref(),
        times.as_ref(),
        "--binaries".as_ref(),
        binaries.as_os_str(),
    ];
    example("kill", arguments, options)
}

/// Kills daemons and the database that they share, while leases are used. No lease may get lost, and no rig may have
/// two holders.
fn leases(options: &Options) -> anyhow::Result<()> {
    let (times, binaries) = (options.times_or(10_000).to_string(), build_binaries()?);
    let arguments: [&OsStr; 4] = [
        "--times".as_ref(),
        times.as_ref(),
        "--binaries".as_ref(),
        binaries.as_os_str(),
    ];
    example("leases", arguments, options)
}

/// Sends damaged packets.
///
/// The oracle and the reference device have separate checks of the link layer, whose results must agree.
fn link(options: &Options) -> anyhow::Result<()> {
    let packets = options.times_or(10_000_000).to_string();
    example("link_campaign", ["--packets".as_ref(), packets.as_ref()], options)
}

/// Puts mixed load on the installed service.
fn soak(options: &Options) -> anyhow::Result<()> {
    let seconds = options.seconds_or(3600).to_string();
    example("soak", ["--times".as_ref(), seconds.as_ref()], options)
}

/// Runs tests with the native InfiniBand adapter in the machine. The tests must find defects; killed processes must not
/// harm the device.
fn vib(options: &Options) -> anyhow::Result<()> {
    let binaries = build_binaries()?;
    let reader = build_examples(&["umad_read"])?.join("umad_read");
    let (sample, kills) = (options.times_or(20).to_string(), options.times_or(30).to_string());
    let arguments: [&OsStr; 12] = [
        "--binaries".as_ref(),
        binaries.as_os_str(),
        "--reader".as_ref(),
        reader.as_os_str(),
        "--sample".as_ref(),
        sample.as_ref(),
        "--jobs".as_ref(),
        "12".as_ref(),
        "--kills".as_ref(),
        kills.as_ref(),
        "--seed".as_ref(),
        "1".as_ref(),
    ];
    example("vib", arguments, options)
}

/// Runs random walks on the device model. A walk on a sound device must pass.
fn walk(options: &Options) -> anyhow::Result<()> {
    let seeds = options.times_or(10_000).to_string();
    example("walk", ["--seeds".as_ref(), seeds.as_ref()], options)
}

/// Runs the rows of covering arrays on the device model. No row may fail on a sound device.
fn matrix(options: &Options) -> anyhow::Result<()> {
    let seeds = options.times_or(20).to_string();
    let arguments: [&OsStr; 5] = [
        "--matrix".as_ref(),
        "--strength".as_ref(),
        "3".as_ref(),
        "--seeds".as_ref(),
        seeds.as_ref(),
    ];
    example("walk", arguments, options)
}

/// Runs a campaign that is an example program. The user's arguments come last and override the defaults.
fn example<'a>(name: &str, arguments: impl IntoIterator<Item = &'a OsStr>, options: &Options) -> anyhow::Result<()> {
    let mut command = Command::new(build_examples(&[name])?.join(name));
    command.current_dir(root()).args(arguments).args(&options.arguments);
    run_command(&format!("the campaign {name}"), &mut command)
}

/// Runs the campaign `name`.
///
/// # Errors
///
/// Returns an error when no campaign has this name, when the options are invalid, or when the campaign found a fault.
pub(crate) fn run(name: &str, options: &Options) -> anyhow::Result<()> {
    if !options.scale.is_finite() || options.scale <= 0.0 {
        bail!("--scale must be a number above 0, not {}", options.scale);
    }
    if name == "all" {
        return all::run(options);
    }
    match CAMPAIGNS.iter().find(|campaign| campaign.name == name) {
        Some(campaign) => (campaign.run)(options),
        None => bail!("no campaign {name:?}; there are:\n{}", list()),
    }
}

/// Lists the campaigns, one per line.
pub(crate) fn list() -> String {
    let all =
        "every campaign in full, one summary, one exit code: for a night; --scale; --sample: what CI runs of each";
    let lines = CAMPAIGNS.iter().map(|campaign| (campaign.name, campaign.summary));
    lines
        .chain([("all", all)])
        .map(|(name, summary)| format!("  {name:<12} {summary}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_campaign_lists_all() {
        let error = run("nonsense", &Options::default()).unwrap_err().to_string();
        assert!(
            error.contains("no campaign \"nonsense\"") && error.contains("fuzz"),
            "{error}"
        );
    }

    #[test]
    fn times_overrides_scale() {
        assert_eq!(
            Options {
                times: Some(3),
                scale: 9.0,
                ..Options::default()
            }
            .times_or(100),
            3
        );
        assert_eq!(
            Options {
                scale: 0.25,
                ..Options::default()
            }
            .times_or(100),
            25
        );
        assert_eq!(
            Options {
                scale: 0.001,
                ..Options::default()
            }
            .times_or(100),
            1
        );
        assert!(
            run(
                "fuzz",
                &Options {
                    scale: 0.0,
                    ..Options::default()
                }
            )
            .is_err()
        );
    }
}
