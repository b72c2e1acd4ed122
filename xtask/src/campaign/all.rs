//! `cargo xtask campaign all`: every campaign, one after the other, with one summary.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use std::{env, iter};

use anyhow::{Context, bail};

use super::{CAMPAIGNS, Campaign, Options};

/// What a campaign came to.
struct Came {
    name: &'static str,
    wall: Duration,
    failed: bool,
}

/// Runs all campaigns in full, or with `--sample` the short sample of each that CI runs. A campaign that fails stops no other.
///
/// # Errors
///
/// When a campaign failed; names all that did.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let sample = match options.arguments.as_slice() {
        [] => false,
        [word] if word == "--sample" => true,
        _ => bail!("`campaign all` takes `-- --sample` or nothing more; for other arguments name one campaign"),
    };
    let seed = SystemTime::UNIX_EPOCH.elapsed()?.as_secs() % 1_000_000;
    let mut came = Vec::new();
    for campaign in CAMPAIGNS {
        let words = if sample {
            sampled(campaign, seed)
        } else {
            scaled(options)
        };
        eprintln!("xtask: campaign {} {}", campaign.name, words.join(" "));
        let start = Instant::now();
        let status = Command::new(env::current_exe().context("this program's own path")?)
            .args(["campaign", campaign.name])
            .args(&words)
            .status()
            .with_context(|| format!("starting the campaign {}", campaign.name))?;
        came.push(Came {
            name: campaign.name,
            wall: start.elapsed(),
            failed: !status.success(),
        });
    }
    println!("{}", summary(&came));
    let failed: Vec<&str> = came.iter().filter(|came| came.failed).map(|came| came.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("campaigns failed: {}", failed.join(", "))
}

/// The arguments of a campaign's sample.
fn sampled(campaign: &Campaign, seed: u64) -> Vec<String> {
    let words = campaign.sample.iter();
    words.map(|word| word.replace("SEED", &seed.to_string())).collect()
}

/// What was given for all campaigns, for one.
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
    fn the_sample_of_each_campaign_is_an_argument_list_with_the_seed_in_place() {
        for campaign in CAMPAIGNS {
            assert!(!campaign.sample.is_empty(), "{}", campaign.name);
            assert!(!sampled(campaign, 7).iter().any(|word| word.contains("SEED")));
        }
        let walk = CAMPAIGNS.iter().find(|campaign| campaign.name == "walk").unwrap();
        assert!(sampled(walk, 7).contains(&"7".to_owned()));
    }

    #[test]
    fn a_summary_counts_what_failed() {
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
    fn an_argument_that_only_one_campaign_has_is_refused() {
        let options = Options {
            arguments: vec!["--kills".into()],
            ..Options::default()
        };
        assert!(run(&options).is_err());
    }
}
