//! Consoles of Linux hosts: the text that a kernel printed during a test.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use verbatim_record::verbs::KernelReport;
use verbatim_record::{Side, kernel_reports};
use verbatim_rig::RigConfig;

use crate::error::RunError;

/// Most bytes of a console that are read after one test; the newest count.
const MOST: u64 = 1 << 20;
/// Most reports that a record keeps of one test.
const REPORTS: usize = 16;

/// A console's log, and the length of its part that earlier tests have read.
struct Console {
    side: Side,
    path: PathBuf,
    read: u64,
}

/// The consoles of a rig's hosts.
pub(crate) struct Consoles(Vec<Console>);

impl Consoles {
    /// Opens the consoles that the rig file names. Their present content belongs to no test.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub(crate) fn of(rig: &RigConfig) -> Result<Self, RunError> {
        let named = [(Side::Dut, &rig.consoles.dut), (Side::Tester, &rig.consoles.tester)];
        let mut consoles = Vec::new();
        for (side, path) in named {
            let Some(path) = path.clone() else { continue };
            match open(&path) {
                Ok((_, read)) => consoles.push(Console { side, path, read }),
                Err(source) => {
                    let rig = rig.name.clone();
                    return Err(RunError::Console { rig, path, source });
                }
            }
        }
        Ok(Self(consoles))
    }

    /// Returns the reports that the kernels have printed since the last call.
    pub(crate) fn reports(&mut self) -> Vec<KernelReport> {
        let mut all = Vec::new();
        for console in &mut self.0 {
            let text = since(&console.path, &mut console.read).unwrap_or_default();
            let side = console.side;
            let reports = kernel_reports(&text).into_iter().take(REPORTS);
            all.extend(reports.map(|text| KernelReport { side, text }));
        }
        all
    }
}

/// Checks that the consoles of a rig can be read.
///
/// # Errors
/// When a log cannot be read.
pub fn check_consoles(rig: &RigConfig) -> Result<(), RunError> {
    Consoles::of(rig).map(|_| ())
}

/// Opens a log. Returns its length too. Does not wait for the other end of a pipe.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() {
            "directory"
        } else {
            "pipe or device"
        };
        let why = format!("it is a {kind}, expected a regular file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok((file, metadata.len()))
}

/// Returns the complete lines after `read`, and moves `read` to their end.
fn since(path: &Path, read: &mut u64) -> io::Result<String> {
    let (mut file, length) = open(path)?;
    // A shorter file is a new one, after a rotation of logs.
    let from = if length < *read { 0 } else { *read }.max(length.saturating_sub(MOST));
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.take(length - from).read_to_end(&mut text)?;
    // The next call reads a line that is not complete yet.
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    *read = from + text.len() as u64;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use verbatim_rig::{Consoles as Paths, VirtualConfig};

    #[test]
    fn each_report_belongs_to_one_test() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("console");
        std::fs::write(&path, "[1] WARNING: CPU: 0 PID: 1 at a.c:1 before+0x1/0x2\n").unwrap();
        let mut rig = RigConfig::built_in(VirtualConfig::default());
        rig.consoles = Paths {
            dut: Some(path.clone()),
            tester: None,
        };
        let mut consoles = Consoles::of(&rig).unwrap();
        assert!(consoles.reports().is_empty());
        let mut file = File::options().append(true).open(&path).unwrap();
        writeln!(file, "[2] WARNING: CPU: 0 PID: 1 at a.c:1 during+0x1/0x2").unwrap();
        let reports = consoles.reports();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].side == Side::Dut && reports[0].text.contains("during"));
        assert!(consoles.reports().is_empty());
    }

    #[test]
    fn refuses_pipes_and_directories() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [path, place.path().to_owned()] {
            assert!(open(&path).is_err(), "{}", path.display());
        }
    }
}
