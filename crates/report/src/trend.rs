//! The trend of verdicts and measured times over earlier runs of a device.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use verbatim_record::{Outcome, Verdict};
use verbatim_record_proto::v1::{CheckResult, RunInfo};

use crate::input::day;
use crate::interval::{Scale, class, escaped, mark_words, span_words};

/// The most pictures of a test. If there are more, pictures with failed checks are preferred.
const PICTURES: usize = 6;

/// An earlier run of the device.
#[derive(Clone, PartialEq, Debug)]
pub struct Past {
    /// The run.
    pub run: RunInfo,
    /// One verdict per test.
    pub verdicts: Vec<Verdict>,
}

/// Returns the device's version: the firmware that its host reports, otherwise the Revision of NodeInfo, otherwise "-".
#[must_use]
pub fn version(fingerprint: &str) -> String {
    let fingerprint: Value = serde_json::from_str(fingerprint).unwrap_or_default();
    let places = [
        "/device/firmware",
        "/tester/dut_host/device/firmware",
        "/device/node_info/Revision",
    ];
    let word = |place: &&str| {
        let value = fingerprint.pointer(place)?;
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (!word.is_empty() && word != "null").then_some(word)
    };
    places.iter().find_map(word).unwrap_or_else(|| "-".into())
}

/// Returns the name of a run in the trend: the device's version, otherwise the run's id.
fn called(run: &RunInfo) -> String {
    match version(&run.fingerprint).as_str() {
        // An id consists of a time and a serial number; the serial number 0 is not shown.
        "-" => format!("run {}", run.id.trim_end_matches("-0000")),
        known => known.into(),
    }
}

/// The trend over the earlier runs and the current run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trend {
    /// Each run's name and date, the oldest first.
    pub(crate) runs: Vec<(String, String)>,
    /// Each test with its outcome in each run, `None` if the run did not include it.
    pub(crate) tests: Vec<(String, Vec<Option<Outcome>>)>,
    /// Each picture's caption and SVG text.
    pub(crate) pictures: Vec<(String, String)>,
    /// The number of pictures left out.
    pub(crate) left_out: usize,
}

/// A run's measurements of one subject: the least and greatest value and the bounds in nanoseconds, and the worst
/// result. A subject is the text `about` of its checks.
#[derive(Clone, Copy, Debug)]
struct Bar {
    least: u64,
    most: u64,
    lower: Option<u64>,
    upper: Option<u64>,
    worst: CheckResult,
}

/// Returns the trend of the last run's tests.
pub(crate) fn trend(runs: &[(&RunInfo, &[Verdict])]) -> Trend {
    let Some((_, last)) = runs.last().filter(|_| runs.len() > 1) else {
        return Trend::default();
    };
    let find = |verdicts: &[Verdict], test: &str| verdicts.iter().position(|verdict| verdict.test == test);
    let mut out = Trend {
        runs: runs.iter().map(|(run, _)| (called(run), day(run.started_ns))).collect(),
        ..Trend::default()
    };
    for verdict in *last {
        let test = &verdict.test;
        let of_runs: Vec<Option<&Verdict>> = runs
            .iter()
            .map(|(_, verdicts)| find(verdicts, test).map(|place| &verdicts[place]))
            .collect();
        let outcomes = of_runs.iter().map(|verdict| verdict.map(Verdict::outcome)).collect();
        out.tests.push((test.clone(), outcomes));
        let mut pictures = of_test(test, &of_runs, &out.runs);
        // The sort is stable, and puts pictures with failed checks first.
        pictures.sort_by_key(|(worst, ..)| core::cmp::Reverse(*worst));
        out.left_out += pictures.len().saturating_sub(PICTURES);
        let shown = pictures.into_iter().take(PICTURES);
        out.pictures.extend(shown.map(|(_, caption, svg)| (caption, svg)));
    }
    out
}

/// Returns a verdict's measurements, keyed by statement and subject.
fn bars(verdict: &Verdict) -> BTreeMap<(&str, &str), Bar> {
    let mut bars: BTreeMap<(&str, &str), Bar> = BTreeMap::new();
    for check in verdict.findings.iter().chain(&verdict.passed) {
        let Some(of) = check.measured else { continue };
        let bar = bars.entry((&check.statement, &check.about)).or_insert(Bar {
            least: of.least_ns,
            most: of.most_ns,
            lower: of.lower_ns,
            upper: of.upper_ns,
            worst: check.result(),
        });
        bar.least = bar.least.min(of.least_ns);
        bar.most = bar.most.max(of.most_ns);
        bar.worst = bar.worst.max(check.result());
    }
    bars
}

fn of_test(test: &str, of_runs: &[Option<&Verdict>], runs: &[(String, String)]) -> Vec<(CheckResult, String, String)> {
    let measured: Vec<_> = of_runs
        .iter()
        .map(|verdict| verdict.map(bars).unwrap_or_default())
        .collect();
    // Keep the order of the latest run that has the subject. Alphabetical order would put 10 before 2.
    let mut seen = BTreeSet::new();
    let last_first = of_runs.iter().rev().flatten();
    let checks = last_first.flat_map(|verdict| verdict.findings.iter().chain(&verdict.passed));
    let timed = checks.filter(|check| check.measured.is_some());
    let keys: Vec<(&str, &str)> = timed
        .map(|check| (check.statement.as_str(), check.about.as_str()))
        .filter(|key| seen.insert(*key))
        .collect();
    keys.into_iter()
        .filter_map(|key| {
            let bars: Vec<Option<Bar>> = measured.iter().map(|bars| bars.get(&key).copied()).collect();
            // A single measurement shows no trend.
            if bars.iter().flatten().count() < 2 {
                return None;
            }
            let worst = bars
                .iter()
                .flatten()
                .map(|bar| bar.worst)
                .max()
                .unwrap_or(CheckResult::Pass);
            let caption = format!("{test}, {}: {}", key.0, key.1);
            let svg = svg(&caption, &bars, runs);
            Some((worst, caption, svg))
        })
        .collect()
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // a picture of few runs
fn svg(caption: &str, bars: &[Option<Bar>], runs: &[(String, String)]) -> String {
    const LEFT: f64 = 80.0;
    const TOP: f64 = 12.0;
    const HIGH: f64 = 150.0;
    // The width of a character of a name, with some space between names, in SVG units.
    const LETTER: f64 = 7.0;
    let step = (780.0 / bars.len() as f64).clamp(24.0, 120.0);
    let right = LEFT + step * bars.len() as f64;
    // Names must not overlap. If space is short, only every n-th run has its name; the last run always has its name.
    let longest = runs.iter().map(|(version, day)| version.len().max(day.len())).max();
    let name = longest.unwrap_or(0) as f64 * LETTER;
    let every = (name / step).ceil().max(1.0) as usize;
    // The last name may extend beyond the plot.
    let end = right + ((name - step) / 2.0).max(10.0);
    let scale = Scale::of(
        bars.iter()
            .flatten()
            .flat_map(|bar| [Some(bar.least), Some(bar.most), bar.lower, bar.upper])
            .flatten(),
    );
    let y = |ns: u64| TOP + HIGH * (1.0 - scale.at(ns));
    let words: Vec<String> = bars
        .iter()
        .zip(runs)
        .map(|(bar, (version, day))| {
            let seen = match bar {
                None => "not measured".into(),
                Some(bar) => format!("{} {}", span_words(bar.least, bar.most), word(bar.worst)),
            };
            format!("{version} of {day}: {seen}")
        })
        .collect();
    let mut out = format!(
        "<svg class=\"times\" role=\"img\" viewBox=\"0 0 {:.0} {:.0}\" style=\"max-width:{:.0}px\" aria-label=\"{}\">",
        end,
        TOP + HIGH + 44.0,
        end,
        escaped(&format!("{caption}. {}", words.join(". ")))
    );
    for mark in scale.marks() {
        let at = y(mark);
        out.push_str(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"value\" x=\"{:.1}\" \
             y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            mark_words(mark)
        ));
    }
    for (number, (bar, (version, day))) in bars.iter().zip(runs).enumerate() {
        let middle = LEFT + step * (number as f64 + 0.5);
        let is_named = (bars.len() - 1 - number).is_multiple_of(every);
        for (line, text) in [(18.0, version), (34.0, day)].into_iter().filter(|_| is_named) {
            out.push_str(&format!(
                "<text class=\"axis\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
                TOP + HIGH + line,
                escaped(text)
            ));
        }
        let Some(bar) = bar else { continue };
        let (from, width) = (middle - step * 0.4, step * 0.8);
        let mut forbidden = |top: f64, bottom: f64| {
            out.push_str(&format!(
                "<rect class=\"forbidden\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                (bottom - top).max(0.0)
            ));
        };
        if let Some(lower) = bar.lower {
            forbidden(y(lower), TOP + HIGH);
        }
        if let Some(upper) = bar.upper {
            forbidden(TOP, y(upper));
        }
        for bound in [bar.lower, bar.upper].into_iter().flatten() {
            let at = y(bound);
            out.push_str(&format!(
                "<line class=\"bound\" x1=\"{from:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"><title>bound {}</title></line>",
                from + width,
                mark_words(bound)
            ));
        }
        let (top, bottom) = (y(bar.most), y(bar.least));
        out.push_str(&format!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"10\" height=\"{:.1}\"><title>{}</title></rect>",
            class(bar.worst),
            middle - 5.0,
            (bottom - top).max(4.0),
            escaped(&words[number])
        ));
        if bar.worst != CheckResult::Pass {
            out.push_str(&format!(
                "<text class=\"axis {}\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
                class(bar.worst),
                (top - 4.0).max(10.0),
                word(bar.worst)
            ));
        }
    }
    out.push_str("</svg>");
    out
}

const fn word(result: CheckResult) -> &'static str {
    match result {
        CheckResult::Fail => "failed",
        CheckResult::Pass => "passed",
        CheckResult::Inconclusive | CheckResult::Unspecified => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_record::{Check, Measured};

    fn run(version: &str) -> RunInfo {
        RunInfo {
            fingerprint: format!("{{\"device\":{{\"firmware\":\"{version}\"}}}}"),
            ..RunInfo::default()
        }
    }

    fn verdict(outcome: Outcome, ns: u64, result: CheckResult) -> Verdict {
        Verdict {
            test: "t".into(),
            outcome: outcome.into(),
            passed: vec![Check {
                statement: "C9-130".into(),
                about: "retry".into(),
                result: result.into(),
                measured: Some(Measured {
                    least_ns: ns,
                    most_ns: ns + 1,
                    lower_ns: Some(100),
                    upper_ns: None,
                }),
                ..Check::default()
            }],
            ..Verdict::default()
        }
    }

    #[test]
    fn trend_lists_runs_oldest_first() {
        let (old, new) = (run("16.35"), run("16.<36>"));
        let before = [verdict(Outcome::Pass, 120, CheckResult::Pass)];
        let now = [verdict(Outcome::Fail, 50, CheckResult::Fail)];
        let trend = trend(&[(&old, &before), (&new, &now)]);
        assert_eq!(trend.runs[0].0, "16.35");
        assert_eq!(
            trend.tests,
            [("t".to_owned(), vec![Some(Outcome::Pass), Some(Outcome::Fail)])]
        );
        let [(caption, svg)] = trend.pictures.as_slice() else {
            panic!("{trend:?}");
        };
        assert_eq!(caption, "t, C9-130: retry");
        assert!(svg.contains("16.&lt;36&gt;") && svg.contains("m-FAIL") && svg.contains("m-PASS"));
    }

    #[test]
    fn single_run_has_no_trend() {
        let now = [verdict(Outcome::Pass, 50, CheckResult::Pass)];
        assert_eq!(trend(&[(&run("1"), &now)]), Trend::default());
    }

    #[test]
    fn version_is_the_devices() {
        assert_eq!(
            version(r#"{"device":{"firmware":"16.35"},"tester":{"firmware":"1"}}"#),
            "16.35"
        );
        assert_eq!(version(r#"{"device":{"node_info":{"Revision":"0x0"}}}"#), "0x0");
        assert_eq!(version("no JSON"), "-");
    }

    #[test]
    fn names_of_many_runs_do_not_overlap() {
        let names = |count: usize| {
            let runs: Vec<_> = (1..=count)
                .map(|n| (format!("16.35.{n:04}"), "2026-01-02".into()))
                .collect();
            let verdict = verdict(Outcome::Pass, 5, CheckResult::Pass);
            let picture = of_test("t", &vec![Some(&verdict); count], &runs).remove(0).2;
            (
                picture.matches("\">16.35.").count(),
                picture.contains(&format!("\">16.35.{count:04}<")),
            )
        };
        assert_eq!(names(3), (3, true));
        // A run takes 24 units, a name 70 units.
        assert_eq!(names(60), (20, true));
    }

    #[test]
    fn unversioned_runs_have_unique_names() {
        let named = |id: &str| {
            called(&RunInfo {
                id: id.into(),
                ..RunInfo::default()
            })
        };
        assert_eq!(named("01a211ca8cbe-0000"), "run 01a211ca8cbe");
        assert_ne!(named("01a211ca8cbe-0000"), named("01a211ca8cbf-0000"));
        assert_ne!(named("01a211ca8cbe-0000"), named("01a211ca8cbe-0001"));
    }
}
