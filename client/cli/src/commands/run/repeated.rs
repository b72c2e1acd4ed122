//! A single run, or repeated runs with increasing seeds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use verbatim_client::v1::{Cause, Outcome, RunSpec, Verdict};
use verbatim_run::{Signer, sign_bundle};
use verbatim_text::Text;

use super::{Arguments, Document, Done};
use crate::commands::report::is_record;
use crate::{exit, print};

/// Executes one run; the path is the directory of its record.
type Once<'a> = dyn FnMut(RunSpec, Option<&Path>) -> anyhow::Result<Done> + 'a;

/// Signs the record of a run. If the user left the run early, there is no record to sign.
fn signed(signer: Option<&Signer>, record: Option<&Path>) -> anyhow::Result<()> {
    let (Some(signer), Some(record)) = (signer, record) else {
        return Ok(());
    };
    if is_record(record) {
        sign_bundle(record, signer, false)?;
    } else {
        print::note(format_args!(
            "verbatim: nothing was signed: {} has no complete record",
            record.display()
        ));
    }
    Ok(())
}

/// Executes the run once, or as often as `--repeat` says. Returns the most severe exit code.
pub(super) fn run(arguments: &Arguments, spec: RunSpec, once: &mut Once<'_>) -> anyhow::Result<ExitCode> {
    let record = arguments.record.as_ref().map(std::path::absolute).transpose();
    let record = record.context("--record")?;
    // Check the key before the run starts.
    let signer = arguments.sign.as_deref().map(Signer::open).transpose()?;
    let Some(times) = arguments.repeat else {
        let has_reports = !arguments.reports.wanted().is_empty();
        let temporary = (has_reports && record.is_none()).then(tempfile::tempdir).transpose();
        let temporary = temporary.context("cannot make a temporary directory for the record of the reports")?;
        let place = record.or_else(|| temporary.as_ref().map(|directory| directory.path().join("record")));
        let done = match once(spec.clone(), place.as_deref()) {
            Ok(done) => done,
            Err(error) => {
                if exit::of_error(&error) == exit::ERROR {
                    let why = verbatim_text::in_words(&*error).to_string();
                    arguments.reports.write_without_record(&spec, &(Cause::Rig, why))?;
                }
                return Err(error);
            }
        };
        signed(signer.as_ref(), place.as_deref())?;
        let written = match place.filter(|_| has_reports) {
            Some(place) if is_record(&place) => arguments.reports.write_all(&place, &done.known, arguments.known.known),
            Some(_) => arguments.reports.write_without_record(&spec, &done.why),
            None => Ok(()),
        };
        if let Some(json) = done.json.as_ref().filter(|_| arguments.json) {
            print::unless_closed(print::json(json))?;
        }
        written?;
        return Ok(ExitCode::from(done.code));
    };
    if let Some(record) = &record {
        std::fs::create_dir_all(record).with_context(|| format!("--record {}", record.display()))?;
    }
    let mut counts = Counts::default();
    let mut documents: Vec<Document> = Vec::new();
    let mut code = 0;
    for time in 1..=times {
        let spec = RunSpec {
            seed: spec.seed.wrapping_add(u64::from(time - 1)),
            ..spec.clone()
        };
        let place: Option<PathBuf> = record.as_ref().map(|record| record.join(time.to_string()));
        let done = once(spec, place.as_deref())?;
        signed(signer.as_ref(), place.as_deref())?;
        code = gravest(code, done.code);
        counts.add(&done.verdicts);
        documents.extend(done.json);
        if done.interrupted || (arguments.exitfirst && [1, 3].contains(&done.code)) {
            break;
        }
    }
    if arguments.json {
        print::unless_closed(print::json(
            &json!({ "schema": "verbatim.repeated.v1", "runs": documents }),
        ))?;
    } else if !arguments.detach {
        print::text_of_run(&counts.table(times))?;
    }
    Ok(ExitCode::from(code))
}

/// Returns the more severe exit code: ERROR before FAIL, FAIL before INCONCLUSIVE, INCONCLUSIVE before PASS.
fn gravest(one: u8, other: u8) -> u8 {
    let rank = |code: u8| [0, 4, 1, 3].iter().position(|known| *known == code).unwrap_or(4);
    if rank(other) > rank(one) { other } else { one }
}

/// For each test, the number of runs with each outcome.
#[derive(Default)]
struct Counts(BTreeMap<String, BTreeMap<Outcome, u32>>);

impl Counts {
    fn add(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let of_test = self.0.entry(verdict.test.clone()).or_default();
            *of_test.entry(verdict.outcome()).or_default() += 1;
        }
    }

    /// Lists the tests that did not always pass, and counts the tests that did.
    fn table(&self, times: u32) -> Text {
        let passed = |counts: &BTreeMap<Outcome, u32>| counts.keys().all(|outcome| *outcome == Outcome::Pass);
        let mut out = Text::of("");
        for (test, counts) in self.0.iter().filter(|(_, counts)| !passed(counts)) {
            let words: Vec<String> = counts
                .iter()
                .rev()
                .map(|(outcome, count)| format!("{count} {outcome}"))
                .collect();
            out.line(format_args!("{test:<34} {}", words.join(", ")));
        }
        let always = self.0.values().filter(|counts| passed(counts)).count();
        let runs = self
            .0
            .values()
            .map(|counts| counts.values().sum::<u32>())
            .max()
            .unwrap_or(0);
        out.line(format_args!(
            "{runs} of {}: {always} of {} passed in each run",
            print::counted(u64::from(times), "run", "runs"),
            print::counted(self.0.len() as u64, "test", "tests"),
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_repeated_runs_is_the_most_severe() {
        assert_eq!([0, 4, 0].into_iter().fold(0, gravest), 4);
        assert_eq!([4, 1, 0].into_iter().fold(0, gravest), 1);
        assert_eq!([1, 3, 4].into_iter().fold(0, gravest), 3);
        assert_eq!([3, 130, 1].into_iter().fold(0, gravest), 130);
    }
}
