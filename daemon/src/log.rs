//! The log: one line for each important event, on stderr; in a unit of systemd's, in the journal.

mod journal;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::spans::{self, Collector};
use journal::Journal;

/// What says what is in the log.
const VARIABLE: &str = "RUST_LOG";

/// Changes what is in the log of this process.
static CHANGE: OnceLock<Box<dyn Fn(Targets) + Send + Sync>> = OnceLock::new();

/// Begins the log. `log` of the configuration says what is in it; without it `RUST_LOG`, and without that, everything from
/// "info" on.
///
/// # Errors
/// When `RUST_LOG` is no such list, or the collector for spans cannot be named so.
pub(crate) fn begin(configured: Option<&Targets>) -> anyhow::Result<Option<Collector>> {
    let (filter, handle) = reload::Layer::new(wanted(configured)?);
    let log = layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .log_internal_errors(false);
    let log = match std::env::var_os("JOURNAL_STREAM") {
        None => log.boxed(),
        Some(_) => match Journal::at(Path::new(journal::SOCKET)) {
            Ok(journal) => journal.boxed(),
            // Then it reads what is on stderr, and has times of its own.
            Err(_) => log.without_time().boxed(),
        },
    };
    let (collects, collector) = spans::layer()?;
    // A line of the log says itself of which run it is.
    let no_spans = filter_fn(|metadata| metadata.target() != spans::TARGET);
    // Somebody else's log, such as that of a test, stays.
    if tracing_subscriber::registry()
        .with(log.with_filter(filter.and(no_spans)))
        .with(collects)
        .try_init()
        .is_ok()
    {
        // It fails only when the log is gone.
        let change = move |filter| drop(handle.reload(filter));
        let _first = CHANGE.set(Box::new(change));
    }
    Ok(collector)
}

/// What the configuration says now is in the log.
///
/// # Errors
/// When it says nothing, and `RUST_LOG` is no such list.
pub(crate) fn change(configured: Option<&Targets>) -> anyhow::Result<()> {
    let filter = wanted(configured)?;
    if let Some(change) = CHANGE.get() {
        change(filter);
    }
    Ok(())
}

fn wanted(configured: Option<&Targets>) -> anyhow::Result<Targets> {
    match configured {
        Some(configured) => Ok(configured.clone()),
        None => filter(VARIABLE, &std::env::var(VARIABLE).unwrap_or_default()),
    }
}

/// What such a list asks for; it stands at that place.
///
/// # Errors
/// What was expected, when it is none.
pub(crate) fn filter(place: &str, text: &str) -> anyhow::Result<Targets> {
    if text.trim().is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::INFO));
    }
    let expected = || {
        format!(
            "{place}={text:?}: expected off, error, warn, info, debug or trace, or a list such as \
             info,verbatim_daemon::sched=debug"
        )
    };
    // A word without a level would be taken for a module: then a mistyped level is a log without what was asked for.
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words.filter(|word| !word.contains('=')) {
        word.parse::<LevelFilter>()
            .with_context(|| format!("{}; {word:?} is no level (of a module: {word}=debug)", expected()))?;
    }
    text.parse().with_context(expected)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn without_a_word_the_log_begins_at_info() {
        for text in ["", " "] {
            let filter = filter("log", text).unwrap();
            assert!(filter.would_enable("verbatim_daemon", &Level::INFO));
            assert!(!filter.would_enable("verbatim_daemon", &Level::DEBUG));
        }
    }

    #[test]
    fn a_level_is_for_all_and_a_module_can_have_its_own() {
        for text in ["off", "error", "WARN", "info", "debug", "trace"] {
            assert_eq!(filter("log", text).unwrap().default_level(), text.parse().ok());
        }
        let filter = filter("log", "warn,verbatim_daemon::sched=debug,h2=off").unwrap();
        assert!(filter.would_enable("verbatim_daemon::sched::drive", &Level::DEBUG));
        assert!(!filter.would_enable("verbatim_daemon::api", &Level::INFO));
        assert!(!filter.would_enable("h2::codec", &Level::ERROR));
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_that_says_what_is_expected() {
        for text in [
            "verbatim_daemon=loud",
            "a=b=c",
            "inof",
            "info, verbatim_daemon",
            "warn,h2",
        ] {
            let error = format!("{:#}", filter("log", text).unwrap_err());
            assert!(
                error.contains("expected off, error, warn") && error.contains(text),
                "{error}"
            );
        }
    }
}
