//! What is done with the bundle of an earlier run: judge it anew, make a capture of it.

use std::path::Path;

use verbatim_catalog::judge;
use verbatim_record::{Bundle, BundleError};
use verbatim_record_proto::v1::{RunInfo, Verdict};

use crate::error::RunError;
use crate::execute::{Report, worst};

/// Judges the records of a bundle anew. Returns also in what the verdicts differ from those of the run.
///
/// # Errors
/// When a byte of the bundle is not what was written, or the catalogue does not know its tests.
pub fn judge_bundle(directory: &Path) -> Result<(Report, Vec<String>), RunError> {
    let bundle = Bundle::open(directory)?;
    let mut run: RunInfo = document(&bundle, directory, "run.json")?;
    let before: Vec<Verdict> = document(&bundle, directory, "verdicts.json")?;
    let verdicts = bundle
        .records()?
        .into_iter()
        .map(judge)
        .collect::<Result<Vec<_>, _>>()?;
    let drift = drift(&before, &verdicts);
    run.outcome = worst(&verdicts).into();
    Ok((Report::new(run, verdicts), drift))
}

/// Writes the capture of a bundle.
///
/// # Errors
/// When the bundle cannot be read, or the capture cannot be written or is there already.
pub fn export_pcapng(directory: &Path, file: &Path) -> Result<(), RunError> {
    let bundle = Bundle::open(directory)?;
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
    let created = std::fs::File::create_new(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => RunError::FileExists(file.into()),
        _ => io(error),
    })?;
    let out = std::io::BufWriter::new(created);
    let application = concat!("Verbatim ", env!("CARGO_PKG_VERSION"));
    verbatim_capture::write(out, &recorded, (application, run.started_ns)).map_err(io)?;
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
