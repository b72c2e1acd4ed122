//! What the benches of the packet path have in common: the command line, the line that is printed, the exit code.

use std::process::ExitCode;

use anyhow::Context;

/// Runs a bench: its result is whether every goal was reached. A missed goal is an exit code of 1 with `--strict` only.
pub(crate) fn exit(name: &str, run: impl FnOnce() -> anyhow::Result<bool>) -> ExitCode {
    let strict = std::env::args().any(|argument| argument == "--strict");
    match run() {
        Ok(reached) if reached || !strict => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The number behind an option of the command line.
pub(crate) fn option(name: &str, usual: usize) -> anyhow::Result<usize> {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == name) {
        Some(at) => {
            let word = arguments.get(at + 1).with_context(|| format!("{name} N"))?;
            let number = word
                .parse()
                .with_context(|| format!("{name} {word:?}: a number was expected"))?;
            anyhow::ensure!(number > 0, "{name} 0: at least 1 was expected");
            Ok(number)
        }
        None => Ok(usual),
    }
}

/// The value below which that share of the values lies; sorts them.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values[at.min(values.len() - 1)]
}

/// Prints the median of ratios with their range; whether it is at most the goal, if there is one.
pub(crate) fn report(what: &str, ratios: &mut [f64], goal: Option<f64>) -> bool {
    let median = quantile(ratios, 0.5);
    let reached = goal.is_none_or(|most| median <= most);
    let verdict = match goal {
        Some(most) => format!(", goal at most {most}: {}", if reached { "reached" } else { "MISSED" }),
        None => String::new(),
    };
    println!(
        "{what}: median {median:.3} of {} ({:.3}..{:.3}){verdict}",
        ratios.len(),
        ratios[0],
        ratios[ratios.len() - 1]
    );
    reached
}
