//! The audit log: the acts of clients on devices. Each act appends a line of JSON; no line is ever changed. A full file
//! gets the name `audit.1.jsonl`, and the number of each earlier file increases by 1.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use super::{Caller, Identity};
use crate::sched::timestamp;
use verbatim_run::now_ns;

/// The name of the current file.
const NAME: &str = "audit.jsonl";
/// The most bytes of a file.
const LARGEST: u64 = 16 << 20;
/// The number of full files that are kept.
const KEPT: u32 = 15;
/// The most refused acts of a client that the log lists in an hour.
const REFUSALS: u64 = 100;
const HOUR_NS: u64 = 3_600_000_000_000;
/// The most clients whose refused acts the log lists in an hour.
const CLIENTS: usize = 4096;

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
    /// The number of refused acts of this client that the log does not list.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The state of the current file, and the counts of refused acts.
#[derive(Debug)]
struct Log {
    file: Arc<File>,
    bytes: u64,
    refusals: HashMap<Identity, Refusals>,
}

/// The refused acts of a client.
#[derive(Clone, Copy, Debug)]
struct Refusals {
    /// The time of the client's first refused act in this hour, in nanoseconds since 1970.
    since_ns: u64,
    count: u64,
}

/// The audit log. Its files have a limited size, and so have the lines that a refused client can cause.
#[derive(Debug)]
pub struct Audit {
    directory: PathBuf,
    largest: u64,
    /// Locked while a line is written.
    log: Arc<Mutex<Log>>,
    /// Wakes the thread that syncs the lines of leases and of refused acts.
    soon: SyncSender<()>,
}

fn opened(directory: &Path) -> io::Result<(Arc<File>, u64)> {
    let path = directory.join(NAME);
    let file = File::options().append(true).create(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((Arc::new(file), bytes))
}

impl Log {
    /// Counts a refused act. Returns the number of the client's unlisted acts since its last line; `None` if the log
    /// does not list this act either.
    fn refused(&mut self, who: &Identity, now_ns: u64) -> Option<u64> {
        let is_over = |of: &Refusals| now_ns.abs_diff(of.since_ns) >= HOUR_NS;
        if !self.refusals.contains_key(who) && self.refusals.len() >= CLIENTS {
            self.refusals.retain(|_, of| !is_over(of));
            if self.refusals.len() >= CLIENTS {
                return None;
            }
        }
        let begun = Refusals {
            since_ns: now_ns,
            count: 0,
        };
        let of = self.refusals.entry(who.clone()).or_insert(begun);
        let mut left_out = 0;
        if is_over(of) {
            left_out = of.count.saturating_sub(REFUSALS);
            *of = begun;
        }
        of.count += 1;
        (of.count <= REFUSALS).then_some(left_out)
    }

    /// Begins a new file, and removes the oldest.
    fn rotate(&mut self, directory: &Path) -> io::Result<()> {
        self.file.sync_data()?;
        let older = |number: u32| match number {
            0 => directory.join(NAME),
            number => directory.join(format!("audit.{number}.jsonl")),
        };
        for number in (0..KEPT).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        (self.file, self.bytes) = opened(directory)?;
        Ok(())
    }
}

impl Audit {
    /// Opens `audit.jsonl` in a directory, readable by its owner only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let (file, bytes) = opened(directory)?;
        let log = Arc::new(Mutex::new(Log {
            file,
            bytes,
            refusals: HashMap::new(),
        }));
        let (soon, asked) = sync_channel(1);
        let (lines, of) = (Arc::clone(&log), directory.join(NAME));
        thread::Builder::new().name("audit".into()).spawn(move || {
            while asked.recv().is_ok() {
                let file = Arc::clone(&lines.lock().unwrap_or_else(PoisonError::into_inner).file);
                if let Err(error) = file.sync_data() {
                    tracing::error!(path = %of.display(), %error, "the audit log cannot be synced");
                }
            }
        })?;
        Ok(Self {
            directory: directory.into(),
            largest: LARGEST,
            log,
            soon,
        })
    }

    /// Appends a line, which survives a crash of the daemon. This function also syncs the line to the disk before
    /// it returns, so that the line survives a power loss. The exceptions are lines of leases and of refused acts,
    /// which a thread syncs soon afterwards. After many refused acts of a client, the log lists only their number.
    ///
    /// # Errors
    /// When the line cannot be written or synced.
    pub fn note(&self, caller: &Caller, act: Act<'_>) -> io::Result<()> {
        self.note_at(caller, act, now_ns()).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{}: {error}", self.directory.join(NAME).display()),
            )
        })
    }

    fn note_at(&self, caller: &Caller, act: Act<'_>, now_ns: u64) -> io::Result<()> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = match act.refused {
            "" => 0,
            _ => match log.refused(&caller.who, now_ns) {
                Some(left_out) => left_out,
                None => return Ok(()),
            },
        };
        let line = Line {
            time: timestamp(now_ns).to_string(),
            who: caller.who.to_string(),
            from: &caller.from,
            act,
            left_out,
        };
        let mut line = verbatim_text::shown_json(serde_json::to_string(&line)?);
        line.push('\n');
        if log.bytes > 0 && log.bytes + line.len() as u64 > self.largest {
            log.rotate(&self.directory)?;
        }
        (&*log.file).write_all(line.as_bytes())?;
        log.bytes += line.len() as u64;
        let file = Arc::clone(&log.file);
        // The lock is released before the sync, so that one sync covers the lines of all waiting threads.
        drop(log);
        if act.is_waited_for() {
            return file.sync_data();
        }
        // A full channel means that a pending sync covers this line too.
        let _ = self.soon.try_send(());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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

    const REFUSED: Act<'_> = Act {
        what: "RestoreRig",
        rig: "bench-1",
        device: "",
        run: "",
        refused: "viewer",
    };

    fn lines(directory: &Path, name: &str) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn refused_client_adds_few_lines_an_hour() {
        let directory = tempfile::tempdir().unwrap();
        let audit = Audit::open(directory.path()).unwrap();
        let (viewer, other) = (Caller::user(7, 7), Caller::user(8, 8));
        for _ in 0..REFUSALS + 900 {
            audit.note_at(&viewer, REFUSED, 1).unwrap();
        }
        audit.note_at(&other, REFUSED, 1).unwrap();
        let done = Act { refused: "", ..REFUSED };
        audit.note_at(&viewer, done, 1).unwrap();
        assert_eq!(lines(directory.path(), NAME).len() as u64, REFUSALS + 2);
        audit.note_at(&viewer, REFUSED, HOUR_NS + 1).unwrap();
        let last = lines(directory.path(), NAME).pop().unwrap();
        assert_eq!(last["left_out"], 900, "{last}");
    }

    #[test]
    fn full_file_is_kept_and_the_oldest_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(directory.path()).unwrap();
        audit.largest = 1;
        for number in 0..KEPT + 5 {
            let run = number.to_string();
            let done = Act {
                refused: "",
                run: &run,
                what: "EndLease",
                ..REFUSED
            };
            audit.note(&Caller::user(7, 7), done).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), KEPT as usize + 1);
        let run = |name: &str| lines(directory.path(), name)[0]["run"].clone();
        assert_eq!(run(NAME), (KEPT + 4).to_string());
        assert_eq!(run("audit.1.jsonl"), (KEPT + 3).to_string());
        assert_eq!(run("audit.15.jsonl"), "4");
    }
}
