//! `cargo xtask campaign all`: runs every campaign, and prints one summary.

use std::fmt::Write as _;
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};
use std::{env, iter, thread};

use anyhow::{Context, bail};

use super::{CAMPAIGNS, Campaign, Options};

struct Came {
    name: &'static str,
    wall: Duration,
    failed: bool,
}

/// Runs all campaigns in full, one after the other. With `--sample`, runs the short sample that CI runs of each
/// campaign.
///
/// A failed campaign does not stop the others. Samples that compute run in parallel with samples that wait.
///
/// # Errors
///
/// Returns an error that names all failed campaigns.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let came = match options.arguments.as_slice() {
        [] => in_full(options)?,
        [word] if word == "--sample" => samples()?,
        _ => bail!("`campaign all` takes `-- --sample` or nothing more; for other arguments, name one campaign"),
    };
    println!("{}", summary(&came));
    let failed: Vec<&str> = came.iter().filter(|came| came.failed).map(|came| came.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("campaigns failed: {}", failed.join(", "))
}

fn in_full(options: &Options) -> anyhow::Result<Vec<Came>> {
    let one = |campaign: &Campaign| {
        let words = scaled(options);
        eprintln!("xtask: campaign {} {}", campaign.name, words.join(" "));
        let start = Instant::now();
        let status = command(campaign, &words)?
            .status()
            .with_context(|| starting(campaign))?;
        Ok(Came {
            name: campaign.name,
            wall: start.elapsed(),
            failed: !status.success(),
        })
    };
    CAMPAIGNS.iter().map(one).collect()
}

/// Runs the samples on two threads. Prints a sample's output when the sample has ended, so that outputs do not mix.
fn samples() -> anyhow::Result<Vec<Came>> {
    let seed = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() % 1_000_000;
    let one = |campaign: &Campaign| {
        let words = sampled(campaign, seed);
        let start = Instant::now();
        let Output { status, stdout, stderr } = command(campaign, &words)?
            .output()
            .with_context(|| starting(campaign))?;
        eprint!(
            "xtask: campaign {} {}\n{}{}",
            campaign.name,
            words.join(" "),
            String::from_utf8_lossy(&stderr),
            String::from_utf8_lossy(&stdout)
        );
        Ok(Came {
            name: campaign.name,
            wall: start.elapsed(),
            failed: !status.success(),
        })
    };
    let lane = |waits: bool| {
        let of_lane = CAMPAIGNS.iter().filter(move |campaign| campaign.waits == waits);
        of_lane.map(one).collect::<anyhow::Result<Vec<Came>>>()
    };
    let (waiting, computing) = thread::scope(|scope| {
        let waiting = scope.spawn(|| lane(true));
        let computing = lane(false);
        (waiting.join(), computing)
    });
    let mut came = waiting.expect("a lane that panicked has said why")?;
    came.extend(computing?);
    came.sort_by_key(|came| came.name);
    Ok(came)
}

fn command(campaign: &Campaign, words: &[String]) -> anyhow::Result<Command> {
    let mut command = Command::new(env::current_exe().context("this program's own path")?);
    command.args(["campaign", campaign.name]).args(words);
    Ok(command)
}

fn starting(campaign: &Campaign) -> String {
    format!("starting the campaign {}", campaign.name)
}

/// Returns the arguments of a campaign's sample.
fn sampled(campaign: &Campaign, seed: u64) -> Vec<String> {
    let words = campaign.sample.iter();
    words.map(|word| word.replace("SEED", &seed.to_string())).collect()
}

/// Returns the arguments that pass the common options to one campaign.
fn scaled(options: &Options) -> Vec<String> {
    let seconds = options
        .seconds
        .iter()
        .flat_map(|seconds| ["--seconds".into(), seconds.to_string()]);
    match options.times {
        Some(times) => iter::once("--times".into())
            .chain([times.to_string()])
            .chain(seconds)
            .collect(),
        None => iter::once("--scale".into())
            .chain([options.scale.to_string()])
            .chain(seconds)
            .collect(),
    }
}

fn summary(came: &[Came]) -> String {
    let mut text = String::new();
    for came in came {
        let result = if came.failed { "FAILED" } else { "ok" };
        let seconds = came.wall.as_secs();
        let _ = writeln!(
            text,
            "{:<8} {:>4}m{:02}s  {result}",
            came.name,
            seconds / 60,
            seconds % 60
        );
    }
    let failed = came.iter().filter(|came| came.failed).count();
    let _ = write!(text, "campaigns: {} passed, {failed} failed", came.len() - failed);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_arguments_contain_the_seed() {
        for campaign in CAMPAIGNS {
            assert!(!campaign.sample.is_empty(), "{}", campaign.name);
            assert!(!sampled(campaign, 7).iter().any(|word| word.contains("SEED")));
        }
        let mutants = CAMPAIGNS.iter().find(|campaign| campaign.name == "mutants").unwrap();
        assert!(sampled(mutants, 7).contains(&"7".to_owned()));
    }

    #[test]
    fn summary_counts_failures() {
        let came = |name, failed| Came {
            name,
            wall: Duration::from_secs(61),
            failed,
        };
        let text = summary(&[came("kill", false), came("walk", true)]);
        assert!(
            text.contains("kill        1m01s  ok\n") && text.contains("walk        1m01s  FAILED\n"),
            "{text}"
        );
        assert!(text.ends_with("campaigns: 1 passed, 1 failed"), "{text}");
    }

    #[test]
    fn rejects_arguments_of_one_campaign() {
        let options = Options {
            arguments: vec!["--kills".into()],
            ..Options::default()
        };
        assert!(run(&options).is_err());
    }
}
