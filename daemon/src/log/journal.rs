//! Writes the log to systemd's journal in its native protocol. An entry holds the line that stderr would show. It also
//! holds each field under its own name (RIG, RUN, TEST, WHO), so that `journalctl RUN=ID` finds all lines of a run.
//!
//! The crate tracing-journald is not used: it leaves the fields out of the line, so `journalctl -u verbatimd`
//! would not show them.
//! Source: "Native Journal Protocol", systemd's documentation.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use verbatim_record::secrets::without_m_keys;
use verbatim_text::shown;

/// The journal's socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
/// The daemon's name in the journal.
const IDENTIFIER: &str = "verbatimd";
/// The largest size of a field's value in bytes; longer values are cut. A datagram holds about 200 KiB.
pub(super) const LONGEST: usize = 16 * 1024;

/// A connection to the journal.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    /// Connects to the journal's socket.
    ///
    /// # Errors
    /// When no process listens at the socket.
    pub(super) fn at(socket: &Path) -> io::Result<Self> {
        let journal = UnixDatagram::unbound()?;
        journal.connect(socket)?;
        Ok(Self(journal))
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        // Ignore an error: without the journal, there is no place to report it.
        let _ = self.0.send(&fields.entry(level, event.metadata().target()));
    }
}

/// The fields of one log event.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.keep(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, value.into());
    }
}

impl Fields {
    fn keep(&mut self, field: &Field, value: String) {
        let value = without_m_keys(&value);
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }

    fn entry(self, level: Level, target: &str) -> Vec<u8> {
        let Self { mut message, others } = self;
        for (name, value) in &others {
            // Writing to a string never fails.
            let _ = write!(message, " {name}={value}");
        }
        let priority = match level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            Level::DEBUG | Level::TRACE => "7",
        };
        let mut entry = Vec::new();
        put(&mut entry, "PRIORITY", priority);
        put(&mut entry, "SYSLOG_IDENTIFIER", IDENTIFIER);
        put(&mut entry, "TARGET", target);
        put(&mut entry, "MESSAGE", &shown(&message));
        for (name, value) in &others {
            if let Some(name) = name_of(name) {
                put(&mut entry, &name, value);
            }
        }
        entry
    }
}

/// Converts a field name to a name that the journal accepts: capitals, digits and underscores, starting with a
/// letter. Returns `None` if the result is too long or does not start with a letter.
fn name_of(field: &str) -> Option<String> {
    let name: String = field
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    (name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

/// Appends a field in the form with an explicit length, so that a newline in the value cannot start another field.
fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    let value = &value.as_bytes()[..value.len().min(LONGEST)];
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'\n');
    entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    entry.extend_from_slice(value);
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_cannot_forge_a_field() {
        let fields = Fields {
            message: "run ended".into(),
            others: vec![("run", "01J".into()), ("reason", "x\nRUN=forged".into())],
        };
        let entry = fields.entry(Level::WARN, "verbatim_daemon::sched");
        let mut expected = Vec::new();
        for (name, value) in [
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "verbatimd"),
            ("TARGET", "verbatim_daemon::sched"),
            ("MESSAGE", "run ended run=01J reason=x\\nRUN=forged"),
            ("RUN", "01J"),
            ("REASON", "x\nRUN=forged"),
        ] {
            expected.extend_from_slice(format!("{name}\n").as_bytes());
            expected.extend_from_slice(&(value.len() as u64).to_le_bytes());
            expected.extend_from_slice(format!("{value}\n").as_bytes());
        }
        assert_eq!(entry, expected);
    }

    #[test]
    fn field_names_suit_the_journal() {
        assert_eq!(name_of("within_s").as_deref(), Some("WITHIN_S"));
        assert_eq!(name_of("log.target").as_deref(), Some("LOG_TARGET"));
        assert_eq!(name_of("_pid"), None);
    }

    #[test]
    fn cuts_long_value() {
        let mut entry = Vec::new();
        put(&mut entry, "A", &"x".repeat(LONGEST + 1));
        assert_eq!(entry.len(), 2 + 8 + LONGEST + 1);
    }
}
