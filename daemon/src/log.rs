//! The log: one line for each important event, on stderr or, in a systemd unit, in the journal.

mod journal;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::spans::{self, Collector};
use journal::Journal;
use verbatim_record::secrets::without_m_keys;
use verbatim_text::{cut, shown};

/// The environment variable that selects the content of the log.
const VARIABLE: &str = "RUST_LOG";

/// The function that replaces the filter of the log. [`begin`] sets it.
static CHANGE: OnceLock<Box<dyn Fn(Targets) + Send + Sync>> = OnceLock::new();

/// Starts the log. `configured` is the filter of the configuration. Without it, `RUST_LOG` is the filter; the default
/// is "info".
///
/// # Errors
/// When `RUST_LOG` is not a valid filter, or the address of the span collector is invalid.
#[expect(clippy::disallowed_methods, reason = "the lines of the log are shown by `field`")]
pub(crate) fn begin(configured: Option<&Targets>) -> anyhow::Result<Option<Collector>> {
    let (filter, handle) = reload::Layer::new(wanted(configured)?);
    let log = layer()
        .with_writer(|| WithoutKeys(std::io::stderr()))
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .fmt_fields(format::debug_fn(field).delimited(" "))
        .log_internal_errors(false);
    let log = match std::env::var_os("JOURNAL_STREAM") {
        None => log.boxed(),
        Some(_) => match Journal::at(Path::new(journal::SOCKET)) {
            Ok(journal) => journal.boxed(),
            // systemd sends stderr to the journal, which adds its own timestamps.
            Err(_) => log.without_time().boxed(),
        },
    };
    let (collects, collector) = spans::layer()?;
    // Log lines name their run themselves, so spans stay out of the log.
    let no_spans = filter_fn(|metadata| metadata.target() != spans::TARGET);
    // If a subscriber exists already, such as a test's, keep it.
    if tracing_subscriber::registry()
        .with(log.with_filter(filter.and(no_spans)))
        .with(collects)
        .try_init()
        .is_ok()
    {
        // Reloading fails only when the log no longer exists.
        let change = move |filter| drop(handle.reload(filter));
        let _first = CHANGE.set(Box::new(change));
    }
    Ok(collector)
}

/// Writes a field of a log line. A foreign text cannot begin another line.
fn field(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut text = format!("{value:?}");
    cut(&mut text, journal::LONGEST);
    match field.name() {
        "message" => write!(out, "{}", shown(&text)),
        name => write!(out, "{name}={}", shown(&text)),
    }
}

/// Replaces the filter of the log by `configured`, or by the filter of `RUST_LOG` if `configured` is `None`.
///
/// # Errors
/// When `configured` is `None` and `RUST_LOG` is not a valid filter.
pub(crate) fn change(configured: Option<&Targets>) -> anyhow::Result<()> {
    let filter = wanted(configured)?;
    if let Some(change) = CHANGE.get() {
        change(filter);
    }
    Ok(())
}

/// A writer of log lines that hides M_Keys. Each write is a whole line.
struct WithoutKeys<W>(W);

impl<W: Write> Write for WithoutKeys<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => self.0.write_all(without_m_keys(text).as_bytes())?,
            Err(_) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn wanted(configured: Option<&Targets>) -> anyhow::Result<Targets> {
    match configured {
        Some(configured) => Ok(configured.clone()),
        None => filter(VARIABLE, &std::env::var(VARIABLE).unwrap_or_default()),
    }
}

/// Parses a filter. `place` names the origin of `text` in the error.
///
/// # Errors
/// When `text` is not a valid filter; the error shows the expected form.
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
    // Reject unknown levels: the parser would take an unknown level for the name of a module, and silently drop
    // log lines.
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words.filter(|word| !word.contains('=')) {
        word.parse::<LevelFilter>().with_context(|| {
            format!(
                "{}; {word:?} is not a level (for a module, write {word}=debug)",
                expected()
            )
        })?;
    }
    text.parse().with_context(expected)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::Level;

    use super::*;

    struct Copy(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Copy {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the log of these calls.
    fn logged(calls: impl FnOnce()) -> String {
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let made = Arc::clone(&written);
        let lines = layer()
            .with_writer(move || Copy(Arc::clone(&made)))
            .with_ansi(false)
            .fmt_fields(format::debug_fn(field).delimited(" "));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), calls);
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_of_others_begins_no_line() {
        let hostile = "x\nERROR forged \u{1b}[2K\u{202e}";
        let as_error = std::io::Error::other(hostile);
        let text = logged(|| tracing::warn!(name = hostile, error = %as_error, "refused: {hostile}"));
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        assert_eq!(text.matches("forged").count(), 3, "{text}");
    }

    #[test]
    fn long_text_of_others_is_cut() {
        let reason = "x".repeat(20 << 20);
        let text = logged(|| tracing::warn!(reason, "run ended"));
        assert!(
            text.len() < journal::LONGEST + 200 && text.contains("(cut, 209715"),
            "{} bytes",
            text.len()
        );
    }

    #[test]
    fn default_level_is_info() {
        for text in ["", " "] {
            let filter = filter("log", text).unwrap();
            assert!(filter.would_enable("verbatim_daemon", &Level::INFO));
            assert!(!filter.would_enable("verbatim_daemon", &Level::DEBUG));
        }
    }

    #[test]
    fn module_can_have_own_level() {
        for text in ["off", "error", "WARN", "info", "debug", "trace"] {
            assert_eq!(filter("log", text).unwrap().default_level(), text.parse().ok());
        }
        let filter = filter("log", "warn,verbatim_daemon::sched=debug,h2=off").unwrap();
        assert!(filter.would_enable("verbatim_daemon::sched::drive", &Level::DEBUG));
        assert!(!filter.would_enable("verbatim_daemon::api", &Level::INFO));
        assert!(!filter.would_enable("h2::codec", &Level::ERROR));
    }

    #[test]
    fn bad_filter_error_shows_expected_form() {
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

    #[test]
    fn log_lines_have_no_m_keys() {
        let mut line = WithoutKeys(Vec::new());
        line.write_all(b"run ended reason=another M_Key, 0x83eef1b574723f2b\n")
            .unwrap();
        line.write_all(b"\xff\n").unwrap();
        assert_eq!(line.0, b"run ended reason=another M_Key, M_Key #1\n\xff\n");
    }
}
