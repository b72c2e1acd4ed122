//! Code shared by the benches: the command line and the exit code.

use std::process::ExitCode;

use anyhow::Context;

/// Runs a bench. `run` returns whether every goal was reached. With `--strict`, a missed goal gives exit code 1.
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

/// Returns the number after an option of the command line, or `usual` if the option is absent.
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
