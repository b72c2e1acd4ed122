//! The audit log: who did what to which device. Each act appends a line of JSON; no line is ever changed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use super::Caller;
use crate::sched::timestamp;
use verbatim_run::now_ns;

/// An act on a rig, done or refused.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Act<'a> {
    /// The name of the act, such as "CreateRun".
    pub what: &'a str,
    /// The rig.
    pub rig: &'a str,
    /// The rig's device; empty when there is no such rig.
    pub device: &'a str,
    /// The run; empty when the act concerns no run.
    pub run: &'a str,
    /// Why the act was refused; empty when it was done.
    pub refused: &'a str,
}

impl Act<'_> {
    /// Returns whether the line must be synced to the disk before the client gets its response.
    fn is_waited_for(&self) -> bool {
        self.refused.is_empty() && !matches!(self.what, "CreateLease" | "RenewLease" | "EndLease")
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    who: String,
    from: &'a str,
    #[serde(flatten)]
    act: Act<'a>,
}

/// The audit log.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    file: Arc<File>,
    /// Locked while a line is written.
    writes: Mutex<()>,
    /// Wakes the thread that syncs the lines of leases and of refused acts.
    soon: SyncSender<()>,
}

impl Audit {
    /// Opens `audit.jsonl` in a directory, readable by its owner only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("audit.jsonl");
        let file = Arc::new(File::options().append(true).create(true).mode(0o600).open(&path)?);
        let (soon, asked) = sync_channel(1);
        let (lines, of) = (Arc::clone(&file), path.clone());
        thread::Builder::new().name("audit".into()).spawn(move || {
            while asked.recv().is_ok() {
                if let Err(error) = lines.sync_data() {
                    tracing::error!(path = %of.display(), %error, "the audit log cannot be synced");
                }
            }
        })?;
        Ok(Self {
            path,
            file,
            writes: Mutex::default(),
            soon,
        })
    }

    /// Appends a line, which survives a crash of the daemon. This function also syncs the line to the disk before
    /// it returns, so that the line survives a power loss. The exceptions are lines of leases and of refused acts,
    /// which a thread syncs soon afterwards.
    ///
    /// # Errors
    /// When the line cannot be written or synced.
    pub fn note(&self, caller: &Caller, act: Act<'_>) -> io::Result<()> {
        let line = Line {
            time: timestamp(now_ns()).to_string(),
            who: caller.who.to_string(),
            from: &caller.from,
            act,
        };
        let mut line = serde_json::to_string(&line)?;
        line.push('\n');
        let written = {
            let _turn = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
            (&*self.file).write_all(line.as_bytes())
        };
        let kept = written.and_then(|()| match act.is_waited_for() {
            // The lock is released before the sync, so that one sync covers the lines of all waiting threads.
            true => self.file.sync_data(),
            false => {
                // A full channel means that a pending sync covers this line too.
                let _ = self.soon.try_send(());
                Ok(())
            }
        });
        kept.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn appends_lines_only_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let act = Act {
            what: "CreateRun",
            rig: "bench-1",
            device: "mlx5_0 port 1",
            run: "runs/a",
            refused: "",
        };
        for uid in [7, 8] {
            let audit = Audit::open(directory.path()).unwrap();
            audit.note(&Caller::user(uid, 7), act).unwrap();
        }
        let path = directory.path().join("audit.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let who: Vec<_> = lines.iter().map(|line| line["who"].as_str().unwrap()).collect();
        assert_eq!(who, ["uid:7", "uid:8"]);
        assert_eq!(lines[1]["device"], "mlx5_0 port 1");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
