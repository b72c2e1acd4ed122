//! Progress of counted work: a bar on a terminal, else an occasional line.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::print;

/// Interval between two lines, if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// The progress of counted work.
#[derive(Debug)]
pub(crate) struct Counter {
    bar: ProgressBar,
    unit: &'static str,
    /// Time of the next line; None on a terminal.
    next_line: Option<Mutex<Instant>>,
}

impl Counter {
    /// Starts at zero. `unit` is the name of the counted items, in the plural.
    pub(crate) fn new(unit: &'static str) -> Self {
        let is_terminal = print::has_terminal_for_messages();
        let bar = if is_terminal {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{msg:10}} {{bar:30}} {{pos}}/{{len}} {unit} {{elapsed}}"))
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            unit,
            next_line: (!is_terminal).then(|| Mutex::new(Instant::now() + LINE_EVERY)),
        }
    }

    /// Sets the name of the current part.
    #[expect(clippy::disallowed_methods, reason = "the text is a constant of this program")]
    pub(crate) fn at(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Sets the progress, and prints a line if one is due.
    pub(crate) fn done(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        let Some(next_line) = &self.next_line else { return };
        let (mut next, now) = (next_line.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if now >= *next {
            *next = now + LINE_EVERY;
            print::note(format_args!(
                "verbatim: so far: {done} of {all} {}, {}",
                self.unit,
                self.bar.message()
            ));
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
