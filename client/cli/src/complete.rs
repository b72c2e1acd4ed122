//! Shell completions of current rigs, tests, runs and leases.

use std::ffi::OsStr;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command};
use verbatim_catalog::{Extent, TESTS, statements, typable};
use verbatim_client::{Address, Client, Error};
use verbatim_manual::{ArgValueCompleter, CompletionCandidate};
use verbatim_rig::RigFile;
use verbatim_text::{quoted, shown};

use crate::commands::rigs;
use crate::print::document::{bare, outcome};
use crate::server::{Arguments, Place, at};

/// Time limit of a request to the daemon, because the shell waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of runs to offer, the newest ones.
const RUNS: i32 = 50;

/// Adds completers for the names of rigs, tests, runs and leases to the command line.
pub(crate) fn completed(command: Command) -> Command {
    let completer = |argument: Arg| match argument.get_id().as_str() {
        "rig" => argument.add(ArgValueCompleter::new(rigs)),
        "patterns" | "tests" => argument.add(ArgValueCompleter::new(tests)),
        "run" | "runs" | "first" | "second" => argument.add(ArgValueCompleter::new(runs)),
        "lease" | "leases" | "attach" => argument.add(ArgValueCompleter::new(leases)),
        _ => argument,
    };
    command.mut_args(completer).mut_subcommands(completed)
}

/// Returns the names that begin with the word, each with its help text. Leaves out a name that begins with `-` or
/// needs quotes, because the shell inserts the name as it is.
fn offered(word: &OsStr, names: impl IntoIterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let is_word = |name: &str| !name.starts_with('-') && quoted(name) == name;
    let fits = names
        .into_iter()
        .filter(|(name, _)| name.starts_with(&*word) && is_word(name));
    fits.map(|(name, help)| CompletionCandidate::new(name).help(Some(shown(&help).into_owned().into())))
        .collect()
}

/// Returns the value of an option on the command line.
fn given(option: &str) -> Option<String> {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let of_next = words
        .iter()
        .position(|word| word == option)
        .and_then(|at| words.get(at + 1));
    let of_same = || {
        words
            .iter()
            .find_map(|word| word.strip_prefix(option)?.strip_prefix('='))
    };
    of_next.map(String::as_str).or_else(of_same).map(str::to_owned)
}

/// Returns the daemon that the command line, the environment or the configuration names.
fn daemon() -> Option<Address> {
    let arguments = given("--server").or_else(|| given("--daemon"));
    let arguments = Arguments::of_server(arguments.or_else(|| std::env::var("VERBATIM_SERVER").ok()));
    match Place::find(&arguments).ok()? {
        Place::Server(address) => Some(address),
        Place::Inside(_) => None,
    }
}

fn asked<T, F: Future<Output = Result<T, Error>>>(ask: impl FnOnce(Client) -> F) -> Option<T> {
    let asked = |client| async move { Ok(tokio::time::timeout(PATIENCE, ask(client)).await??) };
    at(&daemon()?, asked).ok()
}

pub(crate) fn rigs(word: &OsStr) -> Vec<CompletionCandidate> {
    if daemon().is_some() {
        let rigs = asked(|client| async move { client.list_rigs().await }).unwrap_or_default();
        return offered(word, rigs.into_iter().map(|rig| (bare(&rig.name).into(), rig.device)));
    }
    let file = rigs::load(given("--rig-file").map(PathBuf::from).as_ref());
    let file = file.unwrap_or_else(|_| RigFile::built_in());
    offered(word, file.all().map(|rig| (rig.name.clone(), rig.kind.device())))
}

pub(crate) fn tests(word: &OsStr) -> Vec<CompletionCandidate> {
    let tests = TESTS.iter().map(|test| (test.id.to_owned(), test.about.to_owned()));
    let aliases = TESTS.iter().flat_map(|test| {
        test.aliases
            .iter()
            .map(|alias| ((*alias).to_owned(), test.about.to_owned()))
    });
    let statements = statements()
        .iter()
        .map(|statement| (typable(&statement.id).into_owned(), statement.title.clone()));
    let selections = Extent::NAMES.map(|name| (name.to_owned(), "tests selected by duration".to_owned()));
    offered(word, tests.chain(aliases).chain(statements).chain(selections))
}

/// Completes the newest runs of a daemon.
pub(crate) fn runs(word: &OsStr) -> Vec<CompletionCandidate> {
    let page = asked(|client| async move { client.list_runs("", RUNS, "").await });
    let runs = page.map(|page| page.runs).unwrap_or_default().into_iter().map(|run| {
        let came_to = outcome(run.outcome()).map_or_else(|| run.state().to_string(), |outcome| outcome.to_string());
        let rig = run.spec.unwrap_or_default().rig;
        (run.name, format!("{came_to} on {rig}"))
    });
    offered(word, runs.chain([("latest".into(), "the newest run".into())]))
}

/// Completes the leases of a daemon that have not ended.
pub(crate) fn leases(word: &OsStr) -> Vec<CompletionCandidate> {
    let leases = asked(|client| async move { client.list_leases(false, false).await }).unwrap_or_default();
    let leases = leases.into_iter().map(|lease| {
        let rig = if lease.rig.is_empty() {
            "waits"
        } else {
            lease.rig.as_str()
        };
        let help = format!("{rig}, of {}", lease.owner_name);
        (lease.name, help)
    });
    offered(word, leases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_only_words() {
        let names = ["rigs/a-1.b", "$(id)", "a;id", "a\nb", "--record=x", ""];
        let names = names.map(|name| (name.to_owned(), "x\n\u{1b}[2K".to_owned()));
        let offered = offered(OsStr::new(""), names);
        assert_eq!(offered.len(), 1, "{offered:?}");
        assert_eq!(offered[0].get_value(), "rigs/a-1.b");
        let help = offered[0].get_help().unwrap().to_string();
        assert!(!help.contains(['\n', '\u{1b}']), "{help:?}");
    }
}
