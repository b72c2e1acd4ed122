//! A run's report, made by a process of its own: judging a record again takes a multiple of it in memory, which the daemon is
//! not to have, and a record that would fell who judges it fells nobody else.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use tokio::process::Command;
use tokio::time::timeout;
use verbatim_catalog::Register;
use verbatim_report::{Digest, Reported};

/// The daemon's command that makes one: `verbatimd report-page DIR`.
pub const COMMAND: &str = "report-page";
/// What a report may take: less than the unit of the daemon may, whose share it is.
const MEMORY: u64 = 1 << 30;
/// A report that is not there by then is not waited for.
const WITHIN: Duration = Duration::from_secs(50);

/// The report of a record, or why there is none.
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
        .map_err(|error| format!("it cannot be begun: {error}"))?;
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

/// Writes the report of a record to stdout, within what a report may take.
///
/// # Errors
/// When the record cannot be read or judged, or stdout not be written.
pub fn print(directory: &Path) -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    let kept = verbatim_run::read_bundle(directory, Digest::of)?;
    let page = verbatim_report::html(&Reported {
        run: &kept.report.run,
        verdicts: &kept.report.verdicts,
        records: &kept.records,
        before: &[],
        not_judged_anew: &kept.report.not_judged_anew,
        deviations: &Register::default(),
        tolerates_known: false,
        seal: &kept.seal,
    });
    io::stdout().lock().write_all(page.as_bytes())?;
    Ok(())
}
