//! Stored bundles: judging their records again, and exporting a capture.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use verbatim_capture::{Capture, Holds, Recorded};
use verbatim_catalog::{JudgeError, VERSION, judge};
use verbatim_record::{Begin, Bundle, BundleError, Bytes, Check, Entry, StoredRecord, record_name};
use verbatim_record_proto::v1::{RunInfo, Verdict};

use crate::error::RunError;
use crate::execute::{Report, worst};
use crate::signature::{self, PublicKey, SignatureError};

/// A bundle that was judged again.
#[derive(Debug)]
pub struct Rejudged<T> {
    /// The run with its new verdicts.
    pub report: Report,
    /// The differences from the verdicts of the run.
    pub drift: Vec<String>,
    /// The result of the `digest` of [`read_bundle`] for each record, in the order of the run.
    pub records: Vec<T>,
    /// Text that identifies the bundle's bytes: the manifest's hash, and the key that signed it.
    pub seal: String,
}

/// Judges the records of a bundle again. Also returns the differences from the verdicts of the run.
///
/// If this catalogue lacks a test or has another revision of it, the report has the stored verdict of the run.
/// [`Report::not_judged_anew`] then has the reason.
///
/// # Errors
/// When the bundle's bytes were altered, or a record cannot be judged and the bundle has no verdict for it.
pub fn judge_bundle(directory: &Path) -> Result<(Report, Vec<String>), RunError> {
    let (bundle, _) = signature::open(directory)?;
    let (report, drift, _) = judged(&bundle, directory, |_, _, _, _| Ok(()))?;
    Ok((report, drift))
}

/// Judges the records of a bundle again, and applies `digest` to each record and its verdict. Judges one record per
/// core at a time, but at most four. Together they have at most 64 MiB, or the size of the largest record.
///
/// # Errors
/// As [`judge_bundle`].
pub fn read_bundle<T: Send>(
    directory: &Path,
    digest: impl Fn(&[Entry], &Verdict) -> T + Sync,
) -> Result<Rejudged<T>, RunError> {
    let (bundle, signed_by) = signature::open(directory)?;
    let (report, drift, records) = judged(&bundle, directory, |stored, _, bytes, verdict| {
        // Read the entries again, because the judge consumed them; a copy would double their memory.
        Ok(digest(&stored.entries(bytes)?, verdict))
    })?;
    let signed = signed_by.map_or_else(String::new, |key| format!(", signed by key {}", key.id()));
    Ok(Rejudged {
        report,
        drift,
        records,
        seal: format!("manifest SHA-256 {}{signed}", bundle.sha256()),
    })
}

/// Limit of records that are judged at a time. Each needs a multiple of its size in memory.
const THREADS: usize = 4;

/// Bytes of records that are judged at a time, unless one record has more.
const AT_ONCE: u64 = 64 << 20;

/// A bundle whose bytes match its manifest.
#[derive(Debug)]
pub struct Verified {
    /// Number of files in the manifest.
    pub files: usize,
    /// Total size of these files, in bytes.
    pub bytes: u64,
    /// SHA-256 of the manifest, in hexadecimal. It covers every byte of the bundle.
    pub sha256: String,
    /// Names in the directory that are not in the manifest.
    pub added: Vec<String>,
    /// Public key of the signature, if there is one. The bundle does not prove whose key it is.
    pub signed_by: Option<PublicKey>,
    /// The run with its new verdicts.
    pub report: Report,
    /// The differences from the verdicts of the run.
    pub drift: Vec<String>,
    /// The values of `run.json` and of records' names that differ from the content of the records, each with both
    /// values.
    pub mismatches: Vec<String>,
    /// Whether every record is of this version's catalogue.
    pub is_of_this_catalogue: bool,
}

impl Verified {
    /// Checks that this key signed the bundle.
    ///
    /// # Errors
    /// When the bundle has no signature, or a signature by another key.
    pub fn demand(&self, directory: &Path, key: &PublicKey) -> Result<(), SignatureError> {
        if self.signed_by == Some(*key) {
            return Ok(());
        }
        Err(SignatureError::NotBy {
            path: directory.into(),
            expected: key.id(),
            found: self
                .signed_by
                .map_or_else(|| "no signature".into(), |other| format!("one by key {}", other.id())),
        })
    }
}

/// Checks a bundle's bytes and signature, and judges its records again.
///
/// # Errors
/// As [`judge_bundle`].
pub fn verify_bundle(directory: &Path) -> Result<Verified, RunError> {
    let (bundle, signed_by) = signature::open(directory)?;
    let added = bundle.added()?;
    let run: RunInfo = document(&bundle, directory, "run.json")?;
    let before: Vec<Verdict> = document(&bundle, directory, "verdicts.json")?;
    let named = |stored: &StoredRecord<'_>, begin: Begin, _: &Bytes, _: &Verdict| Ok((stored.name().to_owned(), begin));
    let (report, drift, begins) = judged(&bundle, directory, named)?;
    Ok(Verified {
        mismatches: mismatches(&run, &before, &begins),
        is_of_this_catalogue: begins.iter().all(|(_, begin)| begin.catalogue == VERSION),
        files: bundle.files().count(),
        bytes: bundle.files().map(|file| file.bytes).sum(),
        sha256: bundle.sha256().into(),
        added,
        signed_by,
        report,
        drift,
    })
}

/// Compares the values of `run.json`, and the names of the records, with the verdicts and records. Describes each
/// difference with both values.
fn mismatches(run: &RunInfo, before: &[Verdict], begins: &[(String, Begin)]) -> Vec<String> {
    let mut all = Vec::new();
    let outcome = worst(before);
    if run.outcome() != outcome {
        all.push(format!(
            "run.json has outcome {}, but the worst outcome in verdicts.json is {outcome}",
            run.outcome()
        ));
    }
    for (place, (name, begin)) in begins.iter().enumerate() {
        let expected = record_name(place, &begin.test);
        if *name != expected {
            all.push(format!(
                "{name} is the record of {}; expected the name {expected}",
                begin.test
            ));
        }
        let (of_run, of_record) = (run.seed.to_string(), begin.seed.to_string());
        for (what, of_run, of_record) in [
            ("rig_kind", &run.rig_kind, &begin.rig_kind),
            ("seed", &of_run, &of_record),
            ("catalogue", &run.catalogue, &begin.catalogue),
        ] {
            if of_run != of_record {
                all.push(format!("run.json has {what} {of_run:?}, {name} has {of_record:?}"));
            }
        }
    }
    all
}

/// Judges the records of a bundle again. Returns the report, the differences from the verdicts of the run, and the
/// result of `seen` for each record.
fn judged<T: Send>(
    bundle: &Bundle,
    directory: &Path,
    seen: impl Fn(&StoredRecord<'_>, Begin, &Bytes, &Verdict) -> Result<T, RunError> + Sync,
) -> Result<(Report, Vec<String>, Vec<T>), RunError> {
    let mut run: RunInfo = document(bundle, directory, "run.json")?;
    let before: Vec<Verdict> = document(bundle, directory, "verdicts.json")?;
    let stored: Vec<(usize, StoredRecord<'_>)> = bundle.each_record().enumerate().collect();
    let (mut verdicts, mut digests, mut not_judged_anew) = (Vec::new(), Vec::new(), BTreeMap::new());
    // The records in memory together never have more bytes than this room.
    let largest = stored.iter().map(|(_, stored)| stored.size()).max();
    let room = Room::of(largest.unwrap_or(0).max(AT_ONCE));
    for of_record in side_by_side(&stored, |(at, stored)| {
        let _place = room.take(stored.size());
        let bytes = stored.bytes()?;
        let entries = stored.entries(&bytes)?;
        let begin = match entries.first() {
            Some(Entry::Begin(begin)) => Begin::clone(begin),
            _ => Begin::default(),
        };
        let (verdict, why_not) = anew_or_as_recorded(entries, before.get(*at))?;
        let digest = seen(stored, begin, &bytes, &verdict)?;
        Ok::<_, RunError>((verdict, why_not, digest))
    }) {
        let (verdict, why_not, digest) = of_record?;
        not_judged_anew.extend(why_not.map(|why| (verdict.test.clone(), why)));
        verdicts.push(verdict);
        digests.push(digest);
    }
    let drift = drift(&before, &verdicts);
    run.outcome = worst(&verdicts).into();
    let report = Report {
        not_judged_anew,
        ..Report::new(run, verdicts)
    };
    Ok((report, drift, digests))
}

/// Judges a record again. If this version cannot judge the record, returns the verdict of the run and the reason.
///
/// The judge of a test knows only its own revision of the procedure. On the record of another revision it could report
/// a false failure or miss a fault, so it refuses that record.
fn anew_or_as_recorded(
    entries: Vec<Entry>,
    recorded: Option<&Verdict>,
) -> Result<(Verdict, Option<String>), JudgeError> {
    let (test, made_by) = match entries.first() {
        Some(Entry::Begin(begin)) => (begin.test.clone(), begin.catalogue.clone()),
        _ => Default::default(),
    };
    let error = match judge(entries) {
        Ok(verdict) => return Ok((verdict, None)),
        Err(error) => error,
    };
    let why = match &error {
        JudgeError::Revision { recorded, ours, .. } => format!(
            "recorded by revision {recorded} of the test; this version has revision {ours}, whose procedure or rules differ"
        ),
        JudgeError::UnknownTest(_) => "this version does not have the test".into(),
        JudgeError::Trace(_) => return Err(error),
    };
    // Without a stored verdict of the run there is nothing to return.
    let recorded = recorded.filter(|verdict| verdict.test == test).ok_or(error)?;
    let why = format!("{why}: the run's own verdict is kept; Verbatim {made_by}, which made the record, judges it");
    Ok((recorded.clone(), Some(why)))
}

/// A limit of bytes that threads share.
#[derive(Debug)]
struct Room {
    free: Mutex<u64>,
    freed: Condvar,
}

impl Room {
    fn of(bytes: u64) -> Self {
        Self {
            free: Mutex::new(bytes),
            freed: Condvar::new(),
        }
    }

    /// Waits until this many bytes are free, and holds them until the result is dropped. `bytes` must not exceed the
    /// whole room.
    fn take(&self, bytes: u64) -> Place<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_while(free, |free| *free < bytes);
        *waited.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Place { room: self, bytes }
    }
}

/// Held bytes of a [`Room`].
#[derive(Debug)]
struct Place<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.room.freed.notify_all();
    }
}

/// Applies `work` to each item, on one thread per core, at most four. Returns the results in the order of the items.
/// After the first error no more items are started, so later results may be missing.
fn side_by_side<I: Sync, T: Send, E: Send>(items: &[I], work: impl Fn(&I) -> Result<T, E> + Sync) -> Vec<Result<T, E>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = Mutex::new(Vec::new());
    let take = || {
        while !failed.load(Ordering::Relaxed)
            && let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            let result = work(item);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            scope.spawn(take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Exports a bundle as a pcapng capture.
///
/// # Errors
/// When the bundle cannot be read, the capture cannot be written, or the file exists and `force` is not set.
pub fn export_pcapng(directory: &Path, file: &Path, force: bool) -> Result<(), RunError> {
    export_pcapng_until(directory, file, force, &AtomicBool::new(false))
}

/// Exports a bundle like [`export_pcapng`], but stops before the next record once `stop` is set.
///
/// # Errors
/// Those of [`export_pcapng`], and [`RunError::Stopped`].
pub fn export_pcapng_until(directory: &Path, file: &Path, force: bool, stop: &AtomicBool) -> Result<(), RunError> {
    let go_on = || match stop.load(Ordering::Relaxed) {
        true => Err(RunError::Stopped),
        false => Ok(()),
    };
    let (bundle, _) = signature::open(directory)?;
    let run: RunInfo = document(&bundle, directory, "run.json")?;
    let before: Vec<Verdict> = document(&bundle, directory, "verdicts.json")?;
    let mut holds = Holds::default();
    let mut verdicts = Vec::new();
    // Read each record twice: first for the summary in the capture's header, then for the packets. Only one record is
    // in memory at a time.
    for (at, stored) in bundle.each_record().enumerate() {
        go_on()?;
        let entries = stored.read()?;
        holds.add(&entries);
        verdicts.push(anew_or_as_recorded(entries, before.get(at))?.0);
    }
    let io = |source| {
        RunError::Bundle(BundleError::Io {
            path: file.into(),
            source,
        })
    };
    let exists = || RunError::FileExists(file.into());
    if file.exists() && !force {
        return Err(exists());
    }
    // Write to a temporary file and rename it, because a truncated capture looks like the capture of a shorter run.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        let what = format!(
            "there is no directory {}; make it, or name another file",
            parent.display()
        );
        return Err(io(std::io::Error::new(std::io::ErrorKind::NotFound, what)));
    }
    let part = tempfile::Builder::new()
        .prefix(".verbatim-export-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .map_err(io)?;
    let application = concat!("Verbatim ", env!("CARGO_PKG_VERSION"));
    let out = std::io::BufWriter::new(part.as_file());
    let mut capture = Capture::begin(out, holds, (application, run.started_ns)).map_err(io)?;
    for (stored, verdict) in bundle.each_record().zip(&verdicts) {
        go_on()?;
        let recorded = Recorded {
            entries: &stored.read()?,
            verdict: Some(verdict),
        };
        capture.record(&recorded).map_err(io)?;
    }
    capture.end().map_err(io)?;
    let kept = if force {
        part.persist(file)
    } else {
        part.persist_noclobber(file)
    };
    kept.map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(),
        _ => io(error.error),
    })?;
    Ok(())
}

fn document<T: serde::de::DeserializeOwned>(bundle: &Bundle, directory: &Path, name: &str) -> Result<T, RunError> {
    let wrong = |what: String| RunError::Document {
        path: directory.join(name),
        what,
    };
    let text = bundle
        .text(name)
        .ok_or_else(|| wrong("it is missing from the bundle".into()))?;
    serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
}

fn drift(before: &[Verdict], now: &[Verdict]) -> Vec<String> {
    let mut drift: Vec<String> = before
        .iter()
        .zip(now)
        .filter(|(before, now)| before != now && !is_same_without_places(before, now))
        .map(|(before, now)| {
            if before.outcome() == now.outcome() {
                let (test, outcome) = (&now.test, now.outcome());
                format!("{test}: still {outcome}, but its checks differ{}", why(before, now))
            } else {
                let (was, is) = (before.outcome(), now.outcome());
                format!("{}: was {was}, is {is}{}", now.test, why(before, now))
            }
        })
        .collect();
    if before.len() != now.len() {
        drift.push(format!(
            "the run had {} verdicts, the bundle has {} records",
            before.len(),
            now.len()
        ));
    }
    drift
}

/// Returns whether `before` equals `now` except for rules, premises and places, which earlier versions did not
/// store.
fn is_same_without_places(before: &Verdict, now: &Verdict) -> bool {
    let plain = |of: &Verdict| {
        let mut of = of.clone();
        of.reason.clear();
        for check in of.findings.iter_mut().chain(&mut of.passed) {
            *check = Check {
                rule: String::new(),
                follows_from: None,
                given: Vec::new(),
                places: Vec::new(),
                times: 0,
                ..mem::take(check)
            };
        }
        let key = |check: &Check| {
            (
                check.statement.clone(),
                check.about.clone(),
                check.seen.clone(),
                check.expected.clone(),
            )
        };
        of.findings.sort_by_key(key);
        of.passed.sort_by_key(key);
        of
    };
    let has_places = before
        .findings
        .iter()
        .chain(&before.passed)
        .any(|check| !check.places.is_empty());
    !has_places && plain(before) == plain(now)
}

/// Describes the first check that is missing now, and the first that is new.
fn why(before: &Verdict, now: &Verdict) -> String {
    let all = |of: &Verdict| -> Vec<String> {
        let checks = of.findings.iter().chain(&of.passed);
        let words = |check: &Check| {
            let result = check.result().as_str_name().trim_start_matches("CHECK_RESULT_");
            let Check { statement, about, .. } = check;
            format!(
                "{result} [{statement}] {about}: expected {}, seen {}",
                check.expected, check.seen
            )
        };
        checks.map(words).collect()
    };
    let (then, here) = (all(before), all(now));
    let first = |of: &[String], beside: &[String], head: &str| {
        let beside: BTreeSet<&String> = beside.iter().collect();
        let mut only = of.iter().filter(|check| !beside.contains(check));
        only.next().map_or_else(String::new, |check| {
            let more = match only.count() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("; {head}: {check}{more}")
        })
    };
    first(&then, &here, "only in the bundle") + &first(&here, &then, "only now")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_items() {
        let items: Vec<u64> = (0..64).collect();
        let done = side_by_side(&items, |item| {
            // The first items finish last.
            std::hint::black_box((0..(64 - item) * 1_000).fold(0, |sum, at| sum ^ std::hint::black_box(at)));
            Ok::<_, ()>(item * 2)
        });
        assert_eq!(done, items.iter().map(|item| Ok(item * 2)).collect::<Vec<_>>());
        assert!(side_by_side(&[], |_: &u64| Ok::<_, ()>(())).is_empty());
    }

    #[test]
    fn records_in_work_fit_into_the_room() {
        let sizes = [5_u64, 1, 4, 2, 3, 5, 5, 1, 1, 1, 1, 1];
        let (room, now) = (Room::of(5), AtomicUsize::new(0));
        let most = side_by_side(&sizes, |size| {
            let _place = room.take(*size);
            let size = usize::try_from(*size).unwrap();
            let held = now.fetch_add(size, Ordering::SeqCst) + size;
            thread::yield_now();
            now.fetch_sub(size, Ordering::SeqCst);
            Ok::<_, ()>(held)
        });
        assert_eq!(most.len(), sizes.len());
        assert!(most.iter().all(|held| held.is_ok_and(|held| held <= 5)), "{most:?}");
    }

    #[test]
    fn first_error_is_of_the_first_failing_item() {
        let items: Vec<u64> = (0..64).collect();
        let done = side_by_side(&items, |item| if *item >= 7 { Err(*item) } else { Ok(()) });
        let errors: Vec<u64> = done.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.first(), Some(&7));
        assert!(errors.len() <= THREADS, "{errors:?}");
    }
}
