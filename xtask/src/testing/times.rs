//! Wall-clock and processor times of the steps, and their table.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Number of steps in the short table.
const LONGEST: usize = 10;

/// A step of a test run.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) name: String,
    /// Time from the start of the step to its end.
    pub(super) wall: Duration,
    /// Processor time of the step's process and of all children that the process waited for.
    pub(super) cpu: Duration,
    pub(super) passed: u64,
    pub(super) broken: u64,
    /// Whether the process exited with a code other than 0.
    pub(super) failed: bool,
}

/// Waits until a child process has ended, and returns its process id. The caller must still take its status.
///
/// # Errors
///
/// Returns an error when there is no child.
pub(super) fn next_ended() -> anyhow::Result<u32> {
    let status = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).context("waiting for a job")?;
    let pid = match status {
        WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => pid,
        other => anyhow::bail!("a job came to {other:?}"),
    };
    Ok(u32::try_from(pid.as_raw())?)
}

/// Waits until a child process has ended, and returns its processor time. The caller must still take its status.
///
/// # Errors
///
/// Returns an error when the process is no child.
pub(super) fn cpu_when_ended(pid: u32) -> anyhow::Result<Duration> {
    let id = Id::Pid(Pid::from_raw(i32::try_from(pid)?));
    waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).context("waiting for a process")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the processor time of a process")?;
    let ticks = sysconf(SysconfVar::CLK_TCK)?.context("the kernel's ticks per second")?;
    processor_time(&stat, u32::try_from(ticks)?).context("/proc/PID/stat has another form")
}

/// Parses `/proc/PID/stat` (proc(5), fields 14 to 17): time of the process and of the children that it waited for.
fn processor_time(stat: &str, ticks_per_second: u32) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: Vec<u32> = fields
        .split(' ')
        .skip(11)
        .take(4)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| Duration::from_secs(1) * ticks.iter().sum() / ticks_per_second)
}

/// Times of a whole test run.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Time from the start of the run to its end.
    pub(super) wall: Duration,
}

impl Table {
    /// Formats the steps, longest first: all of them, or the ten longest and one line for the others.
    pub(super) fn text(&self, every_row: bool) -> String {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.wall));
        let shown = if every_row { rows.len() } else { rows.len().min(LONGEST) };
        let mut text = String::from("     wall        CPU   tests  step\n");
        let mut line = |name: &str, wall: Duration, cpu: Duration, tests: u64| {
            let _ = writeln!(text, "{}  {}  {tests:>6}  {name}", clock(wall), clock(cpu));
        };
        for row in &rows[..shown] {
            let name = if row.failed {
                format!("{} FAILED", row.name)
            } else {
                row.name.clone()
            };
            line(&name, row.wall, row.cpu, row.passed + row.broken);
        }
        let sum = |rows: &[&Row]| {
            let cpu = rows.iter().map(|row| row.cpu).sum();
            (cpu, rows.iter().map(|row| row.passed + row.broken).sum())
        };
        if shown < rows.len() {
            let (cpu, tests) = sum(&rows[shown..]);
            let wall = rows[shown..].iter().map(|row| row.wall).sum();
            line(
                &format!("{} other steps (--times lists them)", rows.len() - shown),
                wall,
                cpu,
                tests,
            );
        }
        let (cpu, tests) = sum(&rows);
        line("all, steps beside each other", self.wall, cpu, tests);
        text
    }
}

/// Formats a time as minutes and seconds, in ten columns.
fn clock(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    format!("{:>4}m{:02}.{}s", tenths / 600, tenths / 10 % 60, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_sums_four_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 300 100 20 0 1 0 99 0 0";
        assert_eq!(processor_time(stat, 100), Some(Duration::from_secs(6)));
        assert_eq!(processor_time("7 (a) S 1 2", 100), None);
    }

    #[test]
    fn short_table_sums_the_other_steps() {
        let row = |seconds| Row {
            name: format!("step {seconds}"),
            wall: Duration::from_secs(seconds),
            cpu: Duration::from_secs(1),
            passed: 2,
            ..Row::default()
        };
        let table = Table {
            rows: (1..=12).map(row).collect(),
            wall: Duration::from_secs(61),
        };
        let text = table.text(false);
        assert!(text.contains("step 3\n") && !text.contains("step 2\n"), "{text}");
        assert!(text.contains("   0m03.0s     0m02.0s       4  2 other steps"), "{text}");
        assert!(text.contains("   1m01.0s     0m12.0s      24  all"), "{text}");
        assert!(table.text(true).contains("step 1\n"));
    }
}
