//! `verbatim verify DIR`: checks that a bundle is unaltered, and that its verdicts follow from its records.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use verbatim_run as run;
use verbatim_text::Text;

use crate::{exit, print};

/// Exit code if a verdict differs from the run's verdict, or run.json from the records.
const DIFFERS: u8 = 1;

/// Check that a record is whole and unaltered, and judge it again.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 no byte has changed since the run sealed the record, and the verdicts are the same; 1 \
    some verdicts differ, or run.json differs from the records, and each difference is listed; 2 usage; 3 a byte is \
    altered, a file is missing or added, the signature is not that of the key, or the record cannot be read; 4 as 0, \
    but no test was judged, or a record has another revision of its test than this version, so its verdict was not \
    judged again. A signature proves who sealed the record only if you got the \
    key by another way: --key."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left, or a received copy
    directory: PathBuf,
    /// The expected SHA-256 of the manifest, obtained from the record's maker by another way; detects a replaced
    /// manifest
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// The public key, in PEM, that must have signed the record: `openssl pkey -in KEY.pem -pubout` writes one
    #[arg(long, value_name = "PUBLIC.pem")]
    key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let key = arguments.key.as_deref().map(run::PublicKey::open).transpose()?;
    let verified = run::verify_bundle(&arguments.directory)?;
    let directory = arguments.directory.display();
    if let Some(expected) = &arguments.sha256 {
        let is_hash = expected.len() == 64 && expected.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hash {
            let what = format!(
                "--sha256: expected 64 hexadecimal digits, as in the last line of manifest.json, seen {expected:?}"
            );
            return Err(exit::Usage(what).into());
        }
        if !expected.eq_ignore_ascii_case(&verified.sha256) {
            anyhow::bail!(
                "{directory} is not the expected record: expected SHA-256 {expected} of the manifest, seen {}",
                verified.sha256
            );
        }
    }
    if let Some(key) = &key {
        verified.demand(&arguments.directory, key)?;
    }
    if !verified.added.is_empty() {
        anyhow::bail!(
            "{directory} has files that the manifest does not list: {}; move them away, and verify again",
            super::explain::shortened(&verified.added)
        );
    }
    let same = verified.drift.is_empty();
    if arguments.json {
        let verdicts: Vec<_> = verified
            .report
            .verdicts
            .iter()
            .map(|verdict| json!({ "test": verdict.test, "outcome": verdict.outcome().to_string() }))
            .collect();
        print::json(&json!({
            "directory": arguments.directory,
            "files": verified.files,
            "bytes": verified.bytes,
            "manifest_sha256": verified.sha256,
            "signed_by": verified.signed_by.map(|key| key.id()),
            "verdicts": verdicts,
            "differs": verified.drift,
            "mismatches": verified.mismatches,
            "not_judged_anew": verified.report.not_judged_anew,
        }))?;
    } else {
        let signed = match verified.signed_by {
            None => "no".into(),
            Some(by) if key.is_some() => format!("by key {}, as demanded", by.id()),
            Some(by) => format!("by key {}; --key PUBLIC.pem checks whose key it is", by.id()),
        };
        let mut text = Text::of(format_args!(
            "whole    {}, {}, as the run sealed them",
            print::counted(verified.files as u64, "file", "files"),
            print::counted(verified.bytes, "byte", "bytes"),
        ));
        text.line(format_args!("manifest SHA-256 {}", verified.sha256));
        text.line(format_args!("signed   {signed}"));
        let as_recorded = &verified.report.not_judged_anew;
        let count = verified.report.verdicts.len() - as_recorded.len();
        if count == 0 {
            text.line("verdicts none judged again");
        } else if same {
            text.line(format_args!("verdicts {count} judged again: the same"));
        } else {
            let why = match verified.is_of_this_catalogue {
                true => "by the catalogue of the run, differ from verdicts.json",
                false => "by another catalogue than the run had, differ from verdicts.json",
            };
            text.line(format_args!("verdicts {count} judged again, {why}:"));
            let differences = verified.drift.iter();
            text.extend(differences.map(|difference| Text::of(format_args!("         {difference}"))));
        }
        text.extend(
            as_recorded
                .iter()
                .map(|(test, why)| Text::of(format_args!("         not judged anew: {test}: {why}"))),
        );
        if !verified.mismatches.is_empty() {
            text.line("run      its description differs from its records:");
            let mismatches = verified.mismatches.iter();
            text.extend(mismatches.map(|mismatch| Text::of(format_args!("         {mismatch}"))));
        }
        print::text(&text)?;
    }
    let is_judged = !verified.report.verdicts.is_empty() && verified.report.not_judged_anew.is_empty();
    let code = match (same && verified.mismatches.is_empty(), is_judged) {
        (false, _) => DIFFERS,
        (true, false) => exit::UNDECIDED,
        (true, true) => 0,
    };
    Ok(ExitCode::from(code))
}
