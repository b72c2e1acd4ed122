//! Runs the catalogue on a device model with one changed piece of code (a mutant). `cargo xtask campaign mutants`
//! builds this program with a copy of the device that contains all mutants. The program has two commands:
//!
//! - `cases RULES SEEDS`: for every case on sound models, prints a line of JSON with the case's outcome, its duration,
//!   and the mutants whose code the case reaches.
//! - `try RULES SEEDS MUTANT CASE...`: runs the cases with the mutant. Prints the first case that fails and, before
//!   that, the first case with another outcome than PASS or FAIL.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use verbatim_catalog::TESTS;
use verbatim_device::mutant;
use verbatim_record_proto::v1::{Cause, Outcome, Verdict};
use verbatim_run::qualify::{Extent, Rules, sound_models};
use verbatim_run::{Request, command, execute};

/// `try` ends after this many cases whose outcome is neither PASS nor FAIL: about three cases of each test.
const MOST_UNSURE: usize = 300;

fn main() -> ExitCode {
    // The verdict reports a panic of the changed model, so print nothing here.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let rules = |text: &str| {
        if text == "hardware" {
            Rules::Hardware
        } else {
            Rules::Simulated
        }
    };
    match texts[..] {
        ["cases", of, seeds] => record(&cases(rules(of), number(seeds))),
        ["try", of, seeds, id, ref chosen @ ..] => {
            let cases = cases(rules(of), number(seeds));
            let chosen = chosen.iter().map(|place| number(place) as usize);
            attempt(&cases, number(id) as u32, chosen);
        }
        _ => {
            eprintln!("expected cases RULES SEEDS, or try RULES SEEDS MUTANT CASE...; seen {texts:?}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Returns the cases, ordered by seed, then model, then test.
fn cases(rules: Rules, seeds: u64) -> Vec<Request> {
    let extent = Extent {
        rules,
        seeds,
        sweep: 4,
        threads: 1,
        tests: TESTS.to_vec(),
        models: sound_models().into_iter().filter(|model| !model.is_drawn()).collect(),
        defects: Vec::new(),
        every: false,
    };
    let mut cases = Vec::new();
    for seed in 1..=seeds {
        for model in &extent.models {
            cases.extend(extent.undisturbed(model, seed));
        }
    }
    cases
}

fn run(request: &Request) -> Verdict {
    let report = execute(request, &mut |_| {}).expect("a run on a device model that keeps no record");
    report.verdicts.into_iter().next().expect("a verdict for the one test")
}

fn record(cases: &[Request]) {
    let mut out = std::io::stdout().lock();
    for request in cases {
        let _ = mutant::reached();
        let began = Instant::now();
        let verdict = run(request);
        let line = json!({
            "test": verdict.test,
            "outcome": verdict.outcome().as_str_name(),
            "reason": verdict.reason,
            "micros": began.elapsed().as_micros() as u64,
            "reaches": mutant::reached(),
            "repeat": command(request),
        });
        writeln!(out, "{line}").expect("stdout");
    }
}

fn attempt(cases: &[Request], id: u32, chosen: impl Iterator<Item = usize>) {
    mutant::turn_on(id);
    let mut unsure = 0;
    for place in chosen {
        let verdict = run(&cases[place]);
        match verdict.outcome() {
            Outcome::Pass | Outcome::NotApplicable => continue,
            Outcome::Fail => return tell(place, &verdict),
            _ if unsure == 0 => tell(place, &verdict),
            _ => {}
        }
        unsure += 1;
        if unsure == MOST_UNSURE {
            return;
        }
    }
}

fn tell(case: usize, verdict: &Verdict) {
    let line = json!({
        "case": case,
        "test": verdict.test,
        "outcome": verdict.outcome().as_str_name(),
        "reason": verdict.reason,
        // The model panicked, or had endless events at one instant.
        "is_broken": verdict.cause() == Cause::Tester || verdict.reason.contains("a device that never rests"),
        "checks": verdict.findings.iter().map(|check| format!("{} {}", check.statement, check.about)).collect::<Vec<_>>(),
    });
    println!("{line}");
}
