//! The text at the end of a run: findings, known deviations and observations.

use verbatim_catalog::deviations::Showed;
use verbatim_client::v1::{Cause, Check, CheckResult, Outcome, Verdict};
use verbatim_rig::file::BUILT_IN;
use verbatim_run::Report;
use verbatim_text::Text;

use super::{counted, is_explained, paint};

/// Number of similar findings that are shown.
const ALIKE: usize = 3;

/// Number of observations that are shown in a run without findings.
const FEW: usize = 3;

/// The amount of detail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Telling {
    /// Whether observations are left out.
    pub(crate) quiet: bool,
    /// Whether all findings are shown, including similar ones and those that known deviations explain.
    pub(crate) all: bool,
    /// Parameters (`--set`) of the command that repeats a FAIL; None to omit the command for a stored record.
    pub(crate) again: Option<Vec<String>>,
    /// Whether the options that select the rig are those of this command line, and not those of a daemon.
    pub(crate) is_own: bool,
}

/// Returns the text on all tests that did not pass: statement, expected and seen values, packets. Adds known deviations
/// and, unless `quiet`, observations.
pub(crate) fn explanation(report: &Report, telling: &Telling) -> Text {
    let mut out = Text::new();
    for verdict in &report.verdicts {
        if is_explained(verdict) && (telling.all || !report.is_known(&verdict.test)) {
            out.extend([one(verdict, telling.all)]);
            if let Some(set) = telling.again.as_ref().filter(|_| verdict.outcome() == Outcome::Fail) {
                let rig = Some(&*report.run.rig).filter(|rig| *rig != BUILT_IN);
                let again = verbatim_report::again(&report.run, telling.is_own, rig, &verdict.test, set);
                out.line(format_args!("  again: {again}"));
            }
        }
    }
    out.extend([deviations(report)]);
    if telling.quiet {
        return out;
    }
    let observations: Vec<Text> = report
        .verdicts
        .iter()
        .flat_map(|verdict| {
            verdict.observations.iter().map(|seen| {
                let open = if seen.spec_ambiguous {
                    " (left open by the architecture)"
                } else {
                    ""
                };
                Text::of(format_args!("  {}: {}{open}", verdict.test, seen.text))
            })
        })
        .collect();
    let tests = report
        .verdicts
        .iter()
        .filter(|verdict| !verdict.observations.is_empty())
        .count();
    let is_green = !report.verdicts.iter().any(is_explained);
    if is_green && !telling.all && observations.len() > FEW {
        out.line("");
        out.line(format_args!(
            "{} observations of {}, which decide nothing: `--all` shows them",
            observations.len(),
            counted(tests as u64, "test", "tests")
        ));
    } else if !observations.is_empty() {
        out.line("");
        out.line("Observations, which decide nothing:");
        out.extend(observations);
    }
    out
}

/// Lists the known deviations: first those that appeared, then those that did not appear or have expired.
fn deviations(report: &Report) -> Text {
    let mut out = Text::new();
    let of = |showed: &[Showed]| -> Text {
        let chosen = report
            .known_deviations
            .iter()
            .filter(|known| showed.contains(&known.showed));
        chosen
            .map(|known| Text::of(format_args!("  {}", known.words())))
            .collect()
    };
    let seen = || {
        report
            .known_deviations
            .iter()
            .filter(|known| known.showed == Showed::Seen)
    };
    let mut devices: Vec<&str> = seen().map(|known| known.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    if !devices.is_empty() {
        let devices = devices.join("; ");
        out.line("");
        out.line(format_args!("Known deviations of {devices}, which change no verdict:"));
        out.extend([of(&[Showed::Seen])]);
    }
    let loud = of(&[Showed::NotSeen, Showed::Expired]);
    if !loud.is_empty() {
        let head = "Known deviations that did not appear or have expired:";
        out.line("");
        out.painted(paint(Outcome::Inconclusive), head, "");
        out.extend([loud]);
    }
    out
}

fn one(verdict: &Verdict, all: bool) -> Text {
    let cause = match verdict.cause() {
        Cause::Unspecified => String::new(),
        cause => format!(", cause {cause}"),
    };
    let head = format!("{} {}{cause}", verdict.outcome(), verdict.test);
    let mut out = Text::of("");
    out.painted(paint(verdict.outcome()), head, "");
    if !verdict.aliases.is_empty() {
        out.line(format_args!("  public name: {}", verdict.aliases.join(", ")));
    }
    if verdict.findings.is_empty() || verdict.outcome() == Outcome::Error {
        out.block("  ", &verdict.reason);
    }
    if all {
        out.extend(verdict.findings.iter().map(|check| finding(check, 1, usize::MAX)));
    } else {
        let causes: Vec<&Check> = verdict
            .findings
            .iter()
            .filter(|check| check.follows_from.is_none())
            .collect();
        out.extend([shortened(&causes)]);
        let more = verdict.findings.len() - causes.len();
        if more > 0 {
            let follow = if more == 1 {
                "finding follows"
            } else {
                "findings follow"
            };
            out.line(format_args!("  {more} more {follow} from the above; --all shows each"));
        }
    }
    for restored in verdict.restored.iter().filter(|restored| !restored.is_complete()) {
        out.line(format_args!("  not restored: {} {}", restored.area, restored.failure));
        for field in &restored.left {
            out.line(format_args!("    {field}"));
        }
    }
    out
}

/// Number of events that a finding shows without `--all`: the last ones, which include the judged event.
const EVIDENCE: usize = 3;

/// Order of findings: failed checks before undecided ones.
const FAILED_FIRST: [bool; 2] = [true, false];

/// Formats findings, failed checks first. Equal findings appear once with their count. Of findings that differ only
/// in numbers, only the first few appear.
fn shortened(findings: &[&Check]) -> Text {
    let mut out = Text::new();
    for failed in FAILED_FIRST {
        let mut groups: Vec<(String, Vec<(&Check, usize)>)> = Vec::new();
        let of_it = |check: &&Check| (check.result() == CheckResult::Fail) == failed;
        for check in findings.iter().copied().filter(of_it) {
            let alike = alike(check);
            let place = groups.iter().position(|(known, _)| *known == alike).unwrap_or_else(|| {
                groups.push((alike, Vec::new()));
                groups.len() - 1
            });
            let group = &mut groups[place].1;
            match group.iter_mut().find(|(first, _)| says_the_same(first, check)) {
                Some((_, times)) => *times += 1,
                None => group.push((check, 1)),
            }
        }
        for (_, group) in &groups {
            for (check, times) in group.iter().take(ALIKE) {
                out.extend([finding(check, *times, EVIDENCE)]);
            }
            let more: usize = group.iter().skip(ALIKE).map(|(_, times)| times).sum();
            if more > 0 {
                out.line(format_args!("  and {more} more like these; --all shows each"));
            }
        }
    }
    out
}

fn says_the_same(one: &Check, other: &Check) -> bool {
    let said = |check: &Check| (check.about.clone(), check.expected.clone(), check.seen.clone());
    said(one) == said(other)
}

/// Returns the text of a finding without its numbers.
fn alike(check: &Check) -> String {
    let without = |text: &str| -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c.is_ascii_digit() {
                true if out.ends_with('#') => {}
                true => out.push('#'),
                false => out.push(c),
            }
        }
        out
    };
    format!(
        "{}|{}|{}|{}",
        check.statement,
        without(&check.about),
        without(&check.expected),
        without(&check.seen)
    )
}

fn finding(check: &Check, times: usize, most: usize) -> Text {
    // The id of a statement without a public number already contains its title.
    let title = verbatim_catalog::statement(&check.statement)
        .filter(|statement| !statement.id.contains(' '))
        .map_or_else(String::new, |statement| format!(" {}", statement.title));
    let times = if times > 1 {
        format!(" ({times} times)")
    } else {
        String::new()
    };
    let mut out = Text::of(format_args!("  {}{title}: {}{times}", check.statement, check.about));
    out.line(format_args!("    expected  {}", check.expected));
    out.line(format_args!("    seen      {}", check.seen));
    for given in &check.given {
        out.line(format_args!("    given     {given}"));
    }
    for event in &check.evidence[check.evidence.len().saturating_sub(most)..] {
        out.line(format_args!("    evidence  {event}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use verbatim_client::v1::RunInfo;

    use super::*;

    fn check(about: &str, seen: &str, result: CheckResult) -> Check {
        Check {
            statement: "C14-24".into(),
            about: about.into(),
            seen: seen.into(),
            expected: "status 0x0000".into(),
            result: result.into(),
            ..Check::default()
        }
    }

    #[test]
    fn similar_findings_are_folded() {
        let mut findings: Vec<Check> = (0..70)
            .map(|block| check(&format!("block {block}"), "status 0x000c", CheckResult::Fail))
            .collect();
        findings.insert(0, check("open", "nothing", CheckResult::Inconclusive));
        findings.push(check("GUIDCap", "32", CheckResult::Fail));
        findings.push(check("GUIDCap", "32", CheckResult::Fail));
        let text = shortened(&findings.iter().collect::<Vec<_>>());
        assert_eq!(text.matches(": block ").count(), 3, "{text}");
        assert!(text.contains("and 67 more like these; --all shows each"), "{text}");
        assert!(text.contains("GUIDCap (2 times)"), "{text}");
        assert!(text.find("GUIDCap") < text.find(": open"), "{text}");
    }

    #[test]
    fn fail_shows_the_command_that_repeats_it() {
        let run = RunInfo {
            rig: "core".into(),
            rig_options: "--rig-file /r.toml".into(),
            seed: 7,
            ..RunInfo::default()
        };
        let verdict = |test: &str, outcome: Outcome| Verdict {
            test: test.into(),
            outcome: outcome.into(),
            ..Verdict::default()
        };
        let verdicts = vec![verdict("a", Outcome::Fail), verdict("b", Outcome::Inconclusive)];
        let telling = Telling {
            again: Some(vec!["steps=48".into()]),
            is_own: true,
            ..Telling::default()
        };
        let text = explanation(&Report::new(run, verdicts), &telling);
        let line = "  again: verbatim run --rig-file /r.toml --rig core a --seed 7 --set steps=48\n";
        assert!(text.contains(line) && text.matches("again:").count() == 1, "{text}");
    }

    #[test]
    fn observations_of_a_passed_run_are_folded() {
        use verbatim_client::v1::Observation;
        let verdict = |test: &str, count: usize, outcome: Outcome| Verdict {
            test: test.into(),
            outcome: outcome.into(),
            observations: vec![
                Observation {
                    text: "was seen".into(),
                    ..Observation::default()
                };
                count
            ],
            ..Verdict::default()
        };
        let told = |verdicts: &[Verdict], all: bool| {
            let telling = Telling {
                all,
                ..Telling::default()
            };
            explanation(&Report::new(RunInfo::default(), verdicts.to_vec()), &telling)
        };
        let green = [verdict("a", 3, Outcome::Pass), verdict("b", 2, Outcome::Pass)];
        let folded = told(&green, false);
        assert!(
            folded.contains("5 observations of 2 tests") && !folded.contains("was seen"),
            "{folded}"
        );
        assert_eq!(told(&green, true).matches("was seen").count(), 5);
        assert_eq!(told(&green[..1], false).matches("was seen").count(), 3);
        let failed = [verdict("a", 5, Outcome::Pass), verdict("b", 0, Outcome::Fail)];
        assert_eq!(told(&failed, false).matches("was seen").count(), 5);
    }

    #[test]
    fn findings_that_differ_in_a_word_are_not_similar() {
        let other = check("block 1", "no answer", CheckResult::Fail);
        assert_ne!(
            alike(&check("block 1", "status 0x000c", CheckResult::Fail)),
            alike(&other)
        );
    }
}
