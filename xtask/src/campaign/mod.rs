//! Campaigns: long runs that a test suite has no time for, each with one entry in [`CAMPAIGNS`].

mod all;
mod fuzz;
mod mutants;

use std::ffi::OsStr;
use std::process::Command;

use anyhow::bail;
use verbatim_lab::workspace::{root, run as run_command};
use verbatim_lab::{build_binaries, build_examples};

/// How large a campaign shall be, and what only one campaign understands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// How often to do the one thing that is done often; the campaign's own choice when absent.
    pub(crate) times: Option<u64>,
    /// How large, 1.0 being the campaign's own choice.
    pub(crate) scale: f64,
    /// Seconds for each part of a campaign that is limited by time.
    pub(crate) seconds: Option<u64>,
    /// Arguments that only the campaign understands.
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
    /// How often, when the campaign's own choice is `usual`: `--times`, else `--scale` of it, at least once.
    pub(crate) fn times_or(&self, usual: u64) -> u64 {
        // Precision is lost beyond 2^53 times, which nobody lives to see.
        self.times.unwrap_or((usual as f64 * self.scale).round() as u64).max(1)
    }

    /// How many seconds, when the campaign's own choice is `usual`.
    pub(crate) fn seconds_or(&self, usual: u64) -> u64 {
        self.seconds
            .unwrap_or((usual as f64 * self.scale).round() as u64)
            .max(1)
    }
}

/// One campaign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Campaign {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// One line for the list.
    pub(crate) summary: &'static str,
    /// Does it; fails when it found something.
    pub(crate) run: fn(&Options) -> anyhow::Result<()>,
    /// Arguments of the short sample that CI runs; `SEED` stands for a number that is another each time.
    pub(crate) sample: &'static [&'static str],
    /// Whether it waits for processes most of the time, rather than computes.
    pub(crate) waits: bool,
}

/// All campaigns.
pub(crate) const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "abuse",
        summary: "attacks on a daemon by its doors, each for --seconds (10): it neither crashes nor hangs, lets nobody in, gives back what it took; --requests N, --only, --seed",
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
        summary: "kill -9 of daemon, worker, client, restore, agent at random instants while runs wait, --times (300), --jobs (2) at a time: nothing lost or left altered; --seed",
        run: kill,
        sample: &["--times", "15"],
        waits: true,
    },
    Campaign {
        name: "leases",
        summary: "--ops (10000) lease operations, the daemon killed meanwhile: nothing lost or held twice; --store postgres: three daemons share one, which is cut off and restarted too; --kills, --seed",
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
        summary: "mixed load through the installed service in its machine for --seconds (3600): memory and descriptors flat, nothing left",
        run: soak,
        sample: &["--seconds", "30"],
        waits: true,
    },
    Campaign {
        name: "vib",
        summary: "through the kernel: --sample N (20, 0: all) defects of management die, --jobs J (12) at a time; as found after --kills K (30); --seed",
        run: vib,
        sample: &["--sample", "2", "--kills", "4"],
        waits: true,
    },
    Campaign {
        name: "walk",
        summary: "c09-walk and c14-walk on sound devices, --seeds N (10000) from --first on: no findings; --walk NAME: that one; --defect-seeds N: which defects c09-walk does not find",
        run: walk,
        sample: &["--seeds", "200", "--first", "978221"],
        waits: false,
    },
];

/// Attacks on a daemon with all its doors open, while somebody who means no harm asks for the rigs.
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

/// What `verbatim coverage` misses, in lines that begin with a number.
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

/// Altered captures.
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

/// Kills of daemon, worker, client, restore and agent at random instants, while tests change a device: after the next start the device must
/// be as it was found.
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

/// Leases under kills of daemons and of the database that they share: none is lost, and no rig is held twice.
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

/// Damaged packets: the catalogue's judge of the link layer and the reference device's own check, written apart, must say
/// the same.
fn link(options: &Options) -> anyhow::Result<()> {
    let packets = options.times_or(10_000_000).to_string();
    example("link_campaign", ["--packets".as_ref(), packets.as_ref()], options)
}

/// Mixed load through the installed service.
fn soak(options: &Options) -> anyhow::Result<()> {
    let seconds = options.seconds_or(3600).to_string();
    example("soak", ["--times".as_ref(), seconds.as_ref()], options)
}

/// The native adapter in the machine: defects that die there, and kills of whoever takes part.
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

/// Random walks on the device model: none finds anything on a sound one.
fn walk(options: &Options) -> anyhow::Result<()> {
    let seeds = options.times_or(10_000).to_string();
    example("walk", ["--seeds".as_ref(), seeds.as_ref()], options)
}

/// Runs a campaign that is an example program. What people give comes last, and holds.
fn example<'a>(name: &str, arguments: impl IntoIterator<Item = &'a OsStr>, options: &Options) -> anyhow::Result<()> {
    let mut command = Command::new(build_examples(&[name])?.join(name));
    command.current_dir(root()).args(arguments).args(&options.arguments);
    run_command(&format!("the campaign {name}"), &mut command)
}

/// Runs the campaign `name`.
///
/// # Errors
///
/// When there is none of that name, the options make no sense, or the campaign found something.
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

/// The campaigns, one a line.
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
    fn an_unknown_campaign_is_answered_by_the_list() {
        let error = run("nonsense", &Options::default()).unwrap_err().to_string();
        assert!(
            error.contains("no campaign \"nonsense\"") && error.contains("fuzz"),
            "{error}"
        );
    }

    #[test]
    fn times_wins_over_scale_and_nothing_is_less_than_once() {
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
