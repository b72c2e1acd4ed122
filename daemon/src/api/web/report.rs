//! Makes the report of a run in a separate process. Judging a record takes a multiple of its size in memory, too
//! much for the daemon. If a record crashes the process, only this report fails.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use tokio::process::Command;
use tokio::time::timeout;
use verbatim_catalog::Register;
use verbatim_record::secrets::Secrets;
use verbatim_record::{Entry, Verdict};
use verbatim_report::{Digest, Reported};

/// The daemon's command that makes a report: `verbatimd report-page DIR`.
pub const COMMAND: &str = "report-page";
/// The memory limit of the process in bytes. It is below the limit of the daemon's unit, because the process runs
/// in this unit.
const MEMORY: u64 = 1 << 30;
/// The time limit of a report.
const WITHIN: Duration = Duration::from_secs(50);

/// Returns the report of a record, or why there is none.
pub(super) async fn of(directory: PathBuf) -> Result<String, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(COMMAND)
        .arg(&directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let output = match timeout(WITHIN, child.wait_with_output()).await {
        Ok(output) => output.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("it takes longer than {WITHIN:?}")),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(match said.is_empty() {
            true => output.status.to_string(),
            false => said,
        });
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Writes the report of a record to stdout, within the memory limit.
///
/// # Errors
/// When the record cannot be read or judged, or stdout cannot be written.
#[expect(clippy::disallowed_methods, reason = "the page shows hidden characters")]
pub fn print(directory: &Path) -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    // Everybody who reaches the page may read the report, so it shows no M_Keys.
    let secrets = Mutex::new(Secrets::default());
    let learn = |record: &[Entry], verdict: &Verdict| {
        let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
        record.iter().for_each(|entry| secrets.learn_entry(entry));
        // In the report, a line shows the whole key of a MAD, but not always the whole key of a frame.
        let hidden = |(at, entry): (usize, &Entry)| {
            let Entry::Frame(frame) = entry else { return None };
            let mut bytes = frame.bytes.to_vec();
            secrets.hide_bytes(&mut bytes).then_some((at, bytes))
        };
        let hidden: Vec<_> = record.iter().enumerate().filter_map(hidden).collect();
        if hidden.is_empty() {
            return Digest::of(record, verdict);
        }
        let mut record = record.to_vec();
        for (at, bytes) in hidden {
            if let Entry::Frame(frame) = &mut record[at] {
                frame.bytes = bytes.into();
            }
        }
        Digest::of(&record, verdict)
    };
    let kept = verbatim_run::read_bundle(directory, learn)?;
    let run = &kept.report.run;
    let known = Register::default().known(&run.fingerprint, run.started_ns, &kept.report.verdicts);
    let reported = Reported {
        run,
        verdicts: &kept.report.verdicts,
        records: &kept.records,
        before: &[],
        not_judged_anew: &kept.report.not_judged_anew,
        known: &known,
        tolerates_known: false,
        seal: &kept.seal,
    };
    let page = verbatim_report::linked(&reported, "../");
    let secrets = secrets.into_inner().unwrap_or_else(PoisonError::into_inner);
    io::stdout().lock().write_all(secrets.hide(&page).as_bytes())?;
    Ok(())
}
