//! The report of the campaign.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, bail};
use serde_json::json;

use super::build::Built;
use super::exceptions::Exception;
use super::{Arguments, Case, Fate, function};

/// Prints the survivors by function, and the score last. `skipped` is the number of excepted mutants that were not
/// tried.
pub(super) fn report(
    built: &Built,
    cases: &[Case],
    (fates, skipped): (&BTreeMap<usize, Fate>, usize),
    exceptions: &[Exception],
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let excepted = |id: usize| {
        exceptions
            .iter()
            .find(|exception| exception.is_for(&built.mutants[id].name))
    };
    let mut survivors: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let (mut killed, mut survived, mut with_reason, mut broken) = (0, 0, 0, 0);
    let mut unsure = 0;
    for (&id, fate) in fates {
        match fate {
            Fate::Killed(_) => killed += 1,
            Fate::Broken => broken += 1,
            _ if excepted(id).is_some() => with_reason += 1,
            fate => {
                survived += 1;
                unsure += u32::from(matches!(fate, Fate::Unsure(_)));
                survivors.entry(function(&built.mutants[id].name)).or_default().push(id);
            }
        }
    }
    for (function, of) in &survivors {
        println!("{function}");
        for id in of {
            let mutant = &built.mutants[*id];
            let change = mutant.name.split_once(": ").map_or("", |(_, change)| change);
            let how = match &fates[id] {
                Fate::Survived(0) => "not reached".to_owned(),
                Fate::Survived(cases) => format!("{cases} cases passed"),
                Fate::Unsure(noticed) => format!("{} {}", noticed.test, noticed.outcome),
                _ => "no device".to_owned(),
            };
            println!("  {}:{}: {change} ({how})", mutant.file, mutant.line);
            println!(
                "    cargo xtask campaign mutants --rules {} --only {:?}",
                arguments.rules, mutant.name
            );
        }
    }
    for (id, fate) in fates {
        let name = &built.mutants[*id].name;
        let is_by_name = exceptions.iter().any(|exception| exception.mutants.contains(name));
        if is_by_name && matches!(fate, Fate::Killed(_)) {
            println!("killed, so remove this exception: {name}");
        }
    }
    if let Some(path) = &arguments.json {
        let all: Vec<_> = fates
            .iter()
            .map(|(id, fate)| line(built, cases, *id, fate, excepted(*id)))
            .collect();
        fs::write(path, serde_json::to_string_pretty(&all)?).with_context(|| format!("writing {}", path.display()))?;
    }
    // Rounded down, so that 95 % means at least 95 %.
    let percent = |part: u32| (1000.0 * f64::from(part) / f64::from((killed + survived).max(1))).floor() / 10.0;
    println!(
        "survivors that were noticed without a FAIL: {unsure}; score with them: {:.1} %",
        percent(killed + unsure)
    );
    println!("exceptions that make the model panic or run without end: {broken}");
    with_reason += broken + skipped;
    let score = percent(killed);
    let of = fates.len() + skipped;
    println!("mutants: {killed} killed, {survived} survived, {with_reason} excepted of {of} ({score:.1} %)");
    let least = arguments.least;
    if score < least {
        bail!("expected {least} % of the mutants to be killed, seen {score:.1} %: see the survivors above");
    }
    Ok(())
}

fn line(built: &Built, cases: &[Case], id: usize, fate: &Fate, exception: Option<&Exception>) -> serde_json::Value {
    let mutant = &built.mutants[id];
    let (fate, by) = match fate {
        Fate::Killed(noticed) => ("killed", Some(noticed)),
        Fate::Unsure(noticed) => ("unsure", Some(noticed)),
        Fate::Broken => ("no device", None),
        Fate::Survived(0) => ("not reached", None),
        Fate::Survived(_) => ("survived", None),
    };
    json!({
        "mutant": mutant.name,
        "file": mutant.file,
        "line": mutant.line,
        "fate": fate,
        "excepted": exception.map(|exception| &exception.reason),
        "test": by.map(|by| &by.test),
        "outcome": by.map(|by| &by.outcome),
        "reason": by.map(|by| &by.reason),
        "checks": by.map(|by| &by.checks),
        "case": by.map(|by| &cases[by.case].repeat),
    })
}
