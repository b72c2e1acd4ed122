//! Runs jobs in parallel. Jobs that mostly wait get the processor time that they need.
//!
//! Jobs that compute use the remaining time. They run with a lower priority, two at a time.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::Context;
use verbatim_lab::workspace::shown;

use super::times::{self, Row};

/// Load of one processor in percent.
pub(super) type Percent = u32;

/// A process that runs tests.
#[derive(Debug)]
pub(super) struct Job {
    /// Name in the output.
    pub(super) name: String,
    pub(super) command: Command,
    pub(super) load: Percent,
    /// Duration in seconds if the job runs alone. The longest job starts first.
    pub(super) seconds: u32,
}

impl Job {
    /// Returns whether the job occupies a whole processor.
    fn computes(&self) -> bool {
        self.load >= 100
    }
}

struct Running {
    job: Job,
    child: Child,
    output: File,
    start: Instant,
}

/// The limit of the summed mean loads of running jobs that mostly wait, in percent for each processor. The limit
/// exceeds 100, because the jobs rarely all have their mean load at one time.
const ROOM: Percent = 112;

/// Runs all jobs to their end, even if one fails. Returns a row for each job.
///
/// # Errors
///
/// Returns an error when a job cannot be started.
pub(super) fn run(mut waiting: Vec<Job>) -> anyhow::Result<Vec<Row>> {
    let processors = available_parallelism().map_or(2, std::num::NonZero::get);
    let room = ROOM * Percent::try_from(processors)?;
    let count = waiting.len();
    waiting.sort_by_key(|job| std::cmp::Reverse(job.seconds));
    let mut running: Vec<Running> = Vec::new();
    let mut rows = Vec::new();
    loop {
        while let Some(next) = next(&waiting, running.iter().map(|running| &running.job), room) {
            running.push(start(waiting.remove(next))?);
        }
        if running.is_empty() {
            return Ok(rows);
        }
        let pid = times::next_ended()?;
        let Some(place) = running.iter().position(|running| running.child.id() == pid) else {
            continue;
        };
        let row = end(running.remove(place))?;
        eprintln!(
            "xtask: {}/{count} {} {} in {} s",
            rows.len() + 1,
            row.name,
            if row.failed { "FAILED" } else { "ok" },
            row.wall.as_secs()
        );
        rows.push(row);
    }
}

/// Number of computing jobs in parallel. There are two, because a computing job also waits now and then.
const COMPUTING: usize = 2;

/// Returns the index of the job to start.
///
/// The first choice is the longest job that mostly waits and whose load fits. The second choice is the longest
/// computing job, if fewer than [`COMPUTING`] computing jobs run.
fn next<'j>(waiting: &[Job], running: impl Iterator<Item = &'j Job>, room: Percent) -> Option<usize> {
    let (computing, beside): (Vec<&Job>, Vec<&Job>) = running.partition(|job| job.computes());
    let load: Percent = beside.iter().map(|job| job.load).sum();
    let fits = |job: &Job| !job.computes() && load + job.load <= room;
    let computes = |job: &Job| job.computes() && computing.len() < COMPUTING;
    waiting
        .iter()
        .position(fits)
        .or_else(|| waiting.iter().position(computes))
}

/// Returns the command with a lower priority. The lowest priority would be too low: the labs' machines would starve a
/// job with deadlines.
fn niced(of: &Command) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "5"]).arg(of.get_program()).args(of.get_args());
    for (name, value) in of.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = of.get_current_dir() {
        command.current_dir(directory);
    }
    command
}

fn start(mut job: Job) -> anyhow::Result<Running> {
    let output = tempfile::tempfile().context("making a file for what a job prints")?;
    if job.computes() {
        job.command = niced(&job.command);
    }
    job.command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let start = Instant::now();
    let child = job
        .command
        .spawn()
        .with_context(|| format!("starting {}: {}", job.name, shown(&job.command)))?;
    Ok(Running {
        job,
        child,
        output,
        start,
    })
}

/// Takes the status of a job that ended, and prints its output if it failed.
fn end(mut running: Running) -> anyhow::Result<Row> {
    let cpu = times::cpu_when_ended(running.child.id())?;
    let status = running.child.wait().context("waiting for a job")?;
    let wall = running.start.elapsed();
    let mut text = Vec::new();
    running.output.rewind()?;
    running.output.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    if !status.success() {
        eprintln!(
            "{text}xtask: {} ended with {status}: {}",
            running.job.name,
            shown(&running.job.command)
        );
    }
    let (passed, broken) = counts(&text);
    Ok(Row {
        name: running.job.name,
        wall,
        cpu,
        passed,
        broken,
        failed: !status.success(),
    })
}

/// Returns the numbers of passed and failed tests in the programs' closing lines.
fn counts(text: &str) -> (u64, u64) {
    let closing = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    closing.fold((0, 0), |(passed, broken), line| {
        let number = |word: &str| {
            let before = line.split(word).next().unwrap_or_default();
            before
                .rsplit([' ', '.'])
                .next()
                .and_then(|number| number.parse::<u64>().ok())
        };
        (
            passed + number(" passed").unwrap_or(0),
            broken + number(" failed").unwrap_or(0),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(command: &str, load: Percent) -> Job {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        Job {
            name: command.to_owned(),
            command: shell,
            load,
            seconds: 1,
        }
    }

    #[test]
    fn job_starts_when_its_load_fits() {
        let [half, most, computes] = [50, 90, 100].map(|load| job("x", load));
        let jobs = [job("a", 80), job("b", 40), job("c", 120)];
        assert_eq!(next(&jobs, [&half].into_iter(), 140), Some(0));
        assert_eq!(next(&jobs, [&most].into_iter(), 140), Some(1));
        assert_eq!(next(&jobs, [&most, &half, &computes].into_iter(), 140), Some(2));
        assert_eq!(next(&jobs, [&most, &half, &computes, &computes].into_iter(), 140), None);
    }

    #[test]
    fn counts_tests_over_all_closing_lines() {
        let text = "test a ... ok\ntest result: ok. 12 passed; 0 failed; 1 ignored\nx\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 0.1s\n";
        assert_eq!(counts(text), (15, 2));
    }

    #[test]
    fn failed_job_does_not_stop_the_others() {
        let fails = "echo test result: FAILED. 1 passed, 2 failed; exit 3";
        let rows = run(vec![job(fails, 100), job("true", 100), job("true", 100)]).unwrap();
        assert_eq!(rows.len(), 3);
        let failed: Vec<&Row> = rows.iter().filter(|row| row.failed).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].passed, failed[0].broken), (1, 2));
    }
}
