//! `verbatim qualify`: checks that the tests pass on sound models and catch the defects of the device model.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use verbatim_run::qualify::{AnyDefect, Extent, Qualification, Rules, qualify, sound_models};
use verbatim_text::Text;

use crate::exit::Usage;
use crate::print::counter::Counter;
use crate::{exit, print};

/// Schema version of [`Document`].
const SCHEMA: &str = "verbatim.qualification.v1";

/// The rules by which records are judged.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ByRules {
    /// No packet is lost, and times are exact
    Simulated,
    /// Packets may be lost, late or out of order; parameters have their usual values for hardware
    Hardware,
    /// Both sets of rules, one after the other
    Both,
}

/// The JSON document.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// The result for each set of rules.
    qualifications: Vec<Qualification>,
}

/// Check the tests against device models with and without defects.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these tests and the defects of their statements: an id, a public name, a statement, or a glob
    patterns: Vec<String>,
    /// The rules by which the records are judged
    #[arg(long, value_enum, default_value = "both")]
    rules: ByRules,
    /// Number of states of each sound model, one per seed
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Number of illegal values in a sweep, the most revealing first
    #[arg(long, default_value_t = 512)]
    sweep: u64,
    /// Run every test of a defect's statement, even after a test has caught the defect; always on if PATTERNS are given
    #[arg(long)]
    every: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let tests = verbatim_catalog::select(&arguments.patterns).map_err(|error| Usage(error.to_string()))?;
    let rules = match arguments.rules {
        ByRules::Simulated => vec![Rules::Simulated],
        ByRules::Hardware => vec![Rules::Hardware],
        ByRules::Both => vec![Rules::Simulated, Rules::Hardware],
    };
    let counter = Counter::new("models");
    let one = |rules: Rules| {
        let extent = Extent {
            rules,
            seeds: arguments.seeds,
            sweep: arguments.sweep,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            tests: tests.clone(),
            models: sound_models(),
            defects: AnyDefect::all().collect(),
            every: arguments.every || !arguments.patterns.is_empty(),
        };
        counter.at(rules.name());
        qualify(&extent, &|done, all| counter.done(done as u64, all as u64))
    };
    let qualifications: Vec<_> = rules.into_iter().map(one).collect();
    counter.finish();
    let good = qualifications.iter().all(Qualification::is_good);
    if arguments.json {
        print::json(&Document {
            schema: SCHEMA,
            qualifications,
        })?;
    } else {
        print::text(&Text::own(&words(&qualifications, !arguments.patterns.is_empty())))?;
    }
    Ok(ExitCode::from(if good { 0 } else { exit::ERROR }))
}

/// Formats the result: a line for each test with a column for each set of rules, the problems, and a line for each
/// set of rules. `chosen` means that the user selected tests. The text then lists the defects that each test
/// catches, and omits the number of survivors.
fn words(all: &[Qualification], chosen: bool) -> String {
    let mut out = String::new();
    for (place, test) in all[0].tests.iter().enumerate() {
        out.push_str(&format!("{:<34}", test.id));
        for of in all {
            let test = &of.tests[place];
            let other = match of.rules {
                Rules::Simulated => String::new(),
                Rules::Hardware => format!(", {:>3} inconclusive", test.inconclusive),
            };
            let count = test.catches.len() as u64;
            let catches = match of.every {
                true => format!(", catches {count:>3} {:<7}", print::plural(count, "defect", "defects")),
                false => String::new(),
            };
            out.push_str(&format!(
                "  {}: passed {:>4}{other}, {:>3} not applicable{catches}",
                of.rules.name(),
                test.passed,
                test.not_applicable,
            ));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        if chosen {
            out.push_str(&caught(all, place));
        }
    }
    for of in all {
        let rules = of.rules.name();
        for defect in of.defects.iter().filter(|defect| of.survived.contains(&defect.name)) {
            out.push_str(&format!(
                "SURVIVED    {rules}: {} {} ({})\n            repeat: {}\n",
                defect.statement, defect.name, defect.about, defect.repeat
            ));
        }
        for one in &of.excepted {
            out.push_str(&format!(
                "EXCEPTED    {rules}: {} needs --set {}: {}\n",
                one.defect, one.set, one.reason
            ));
        }
        for defect in of.defects.iter().filter(|defect| of.stale.contains(&defect.name)) {
            out.push_str(&format!(
                "NO EXCEPTION {rules}: a test with the usual parameters catches {}: remove it from the \
                 exceptions\n            \
                 repeat: {}\n",
                defect.name, defect.repeat
            ));
        }
        for alarm in &of.false_alarms {
            out.push_str(&format!(
                "FALSE ALARM {rules}: {} on {} seed {}: {} {}\n            repeat: {}\n",
                alarm.test, alarm.model, alarm.seed, alarm.outcome, alarm.reason, alarm.repeat
            ));
        }
    }
    for of in all {
        let survived = if chosen {
            "survivors count only in a run of all tests".into()
        } else {
            format!("{} survived", of.survived.len())
        };
        out.push_str(&format!(
            "{:<10} {}, {survived}; {}; {} excepted; {}; largest state set {}\n",
            of.rules.name(),
            print::counted(of.defects.len() as u64, "defect", "defects"),
            print::counted(of.false_alarms.len() as u64, "false alarm", "false alarms"),
            of.excepted.len(),
            print::counted(of.cases as u64, "case", "cases"),
            of.largest_state_set
        ));
    }
    out
}

/// Lists the names of the defects that a test catches, one per line.
fn caught(all: &[Qualification], place: usize) -> String {
    let names: BTreeSet<_> = all.iter().flat_map(|of| &of.tests[place].catches).collect();
    if names.is_empty() {
        return "    catches no defect of its statements: add to the device model a defect that it catches\n".into();
    }
    let line = |name: &String| {
        let by = all.iter().filter(|of| of.tests[place].catches.contains(name));
        let by: Vec<_> = by
            .map(|of| match of.rules {
                Rules::Simulated => "simulation",
                Rules::Hardware => "hardware",
            })
            .collect();
        let alone = if by.len() == all.len() {
            String::new()
        } else {
            format!(" only by the rules of {}", by.join(", "))
        };
        format!("    catches {name}{alone}\n")
    };
    names.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbatim_run::qualify::QualifiedTest;

    #[test]
    fn counts_have_singular_and_plural() {
        let test = |catches: &[&str]| QualifiedTest {
            id: "c14-walk".into(),
            passed: 1,
            not_applicable: 0,
            inconclusive: 0,
            catches: catches.iter().map(ToString::to_string).collect(),
        };
        let of = |rules| Qualification {
            rules,
            catalogue: String::new(),
            every: true,
            tests: vec![test(&["a"]), test(&["a", "b"])],
            defects: Vec::new(),
            survived: Vec::new(),
            excepted: Vec::new(),
            stale: Vec::new(),
            false_alarms: Vec::new(),
            cases: 1,
            largest_state_set: 1,
        };
        let first_alone = Qualification {
            every: false,
            ..of(Rules::Simulated)
        };
        assert!(!words(&[first_alone], false).contains("catches"));
        let text = words(&[of(Rules::Simulated), of(Rules::Hardware)], false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("catches   1 defect   hardware: "), "{text}");
        assert!(lines[0].ends_with("catches   1 defect"), "{text}");
        assert!(lines[1].ends_with("catches   2 defects"), "{text}");
        assert!(
            lines[2].ends_with("0 defects, 0 survived; 0 false alarms; 0 excepted; 1 case; largest state set 1"),
            "{text}"
        );
    }
}
