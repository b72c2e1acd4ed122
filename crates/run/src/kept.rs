//! What is done with the bundle of an earlier run: judge it anew, make a capture of it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use verbatim_catalog::judge;
use verbatim_record::{Bundle, BundleError, Entry, StoredRecord};
use verbatim_record_proto::v1::{RunInfo, Verdict};

use crate::error::RunError;
use crate::execute::{Report, worst};
use crate::signature::{self, PublicKey, SignatureError};

/// A bundle that was judged anew.
#[derive(Debug)]
pub struct Kept<T> {
    /// The run with the verdicts of now.
    pub report: Report,
    /// In what they differ from those of the run.
    pub drift: Vec<String>,
    /// What was made of each record, in the order of the run.
    pub records: Vec<T>,
    /// What ties a report to these bytes, in words: the manifest's hash, and the key that signed it.
    pub seal: String,
}

/// Judges the records of a bundle anew. Returns also in what the verdicts differ from those of the run.
///
/// # Errors
/// When a byte of the bundle is not what was written, or the catalogue does not know its tests.
pub fn judge_bundle(directory: &Path) -> Result<(Report, Vec<String>), RunError> {
    let (bundle, _) = signature::open(directory)?;
    judged(&bundle, directory, |_, _| Ok(()))
}

/// The same, with what `digest` makes of each record and its verdict. One record is in memory at a time.
///
/// # Errors
/// As [`judge_bundle`].
pub fn read_bundle<T>(directory: &Path, digest: impl Fn(&[Entry], &Verdict) -> T) -> Result<Kept<T>, RunError> {
    let (bundle, signed_by) = signature::open(directory)?;
    let mut records = Vec::new();
    let (report, drift) = judged(&bundle, directory, |stored, verdict| {
        // Read again: the judge has taken the entries, and to copy them would take their memory twice.
        records.push(digest(&stored.read()?, verdict));
        Ok(())
    })?;
    let signed = signed_by.map_or_else(String::new, |key| format!(", signed by key {}", key.id()));
    Ok(Kept {
        report,
        drift,
        records,
        seal: format!("manifest SHA-256 {}{signed}", bundle.sha256()),
    })
}

/// A bundle whose bytes are those that the run sealed.
#[derive(Debug)]
pub struct Verified {
    /// How many files the manifest lists.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// SHA-256 of the manifest, in hexadecimal: it stands for every byte.
    pub sha256: String,
    /// Names in the directory that the manifest does not list.
    pub added: Vec<String>,
    /// The key whose signature the bundle has. Whose key it is, the bundle does not say: whoever has one can sign.
    pub signed_by: Option<PublicKey>,
    /// The run with the verdicts of now.
    pub report: Report,
    /// In what they differ from those of the run.
    pub drift: Vec<String>,
}

impl Verified {
    /// Demands that the bundle is signed by this key.
    ///
    /// # Errors
    /// When it is not signed, or by another.
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

/// Checks a bundle, and judges it anew.
///
/// # Errors
/// As [`judge_bundle`].
pub fn verify_bundle(directory: &Path) -> Result<Verified, RunError> {
    let (bundle, signed_by) = signature::open(directory)?;
    let added = bundle.added()?;
    let (report, drift) = judged(&bundle, directory, |_, _| Ok(()))?;
    Ok(Verified {
        files: bundle.sizes().count(),
        bytes: bundle.sizes().sum(),
        sha256: bundle.sha256().into(),
        added,
        signed_by,
        report,
        drift,
    })
}

fn judged(
    bundle: &Bundle,
    directory: &Path,
    mut seen: impl FnMut(&StoredRecord<'_>, &Verdict) -> Result<(), RunError>,
) -> Result<(Report, Vec<String>), RunError> {
    let mut run: RunInfo = document(bundle, directory, "run.json")?;
    let before: Vec<Verdict> = document(bundle, directory, "verdicts.json")?;
    let mut verdicts = Vec::new();
    for stored in bundle.each_record() {
        let verdict = judge(stored.read()?)?;
        seen(&stored, &verdict)?;
        verdicts.push(verdict);
    }
    let drift = drift(&before, &verdicts);
    run.outcome = worst(&verdicts).into();
    Ok((Report::new(run, verdicts), drift))
}

/// Writes the capture of a bundle.
///
/// # Errors
/// When the bundle cannot be read, or the capture cannot be written or is there already.
pub fn export_pcapng(directory: &Path, file: &Path) -> Result<(), RunError> {
    let (bundle, _) = signature::open(directory)?;
    let run: RunInfo = document(&bundle, directory, "run.json")?;
    let records = bundle.records()?;
    let verdicts = records.iter().cloned().map(judge).collect::<Result<Vec<_>, _>>()?;
    let recorded: Vec<_> = records
        .iter()
        .zip(&verdicts)
        .map(|(entries, verdict)| verbatim_capture::Recorded {
            entries,
            verdict: Some(verdict),
        })
        .collect();
    let io = |source| {
        RunError::Bundle(BundleError::Io {
            path: file.into(),
            source,
        })
    };
    let exists = || RunError::FileExists(file.into());
    if file.exists() {
        return Err(exists());
    }
    // Whole or not at all: what is cut off must not look like the capture of a shorter run.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let part = tempfile::Builder::new()
        .prefix(".verbatim-export-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .map_err(io)?;
    let application = concat!("Verbatim ", env!("CARGO_PKG_VERSION"));
    verbatim_capture::write(
        std::io::BufWriter::new(part.as_file()),
        &recorded,
        (application, run.started_ns),
    )
    .map_err(io)?;
    part.persist_noclobber(file).map_err(|error| match error.error.kind() {
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
        .ok_or_else(|| wrong("the bundle does not have it".into()))?;
    serde_json::from_str(text).map_err(|error| wrong(error.to_string()))
}

fn drift(before: &[Verdict], now: &[Verdict]) -> Vec<String> {
    let mut drift: Vec<String> = before
        .iter()
        .zip(now)
        .filter(|(before, now)| before != now)
        .map(|(before, now)| {
            if before.outcome() == now.outcome() {
                format!("{}: still {}, but its checks differ", now.test, now.outcome())
            } else {
                format!("{}: was {}, is {}", now.test, before.outcome(), now.outcome())
            }
        })
        .collect();
    if before.len() != now.len() {
        drift.push(format!("{} verdicts then, {} records now", before.len(), now.len()));
    }
    drift
}
