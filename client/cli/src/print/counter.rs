//! Work of which so much is done: a bar on a terminal, elsewhere a line now and then.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Lines are so far apart, for a log that somebody reads.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// How much of some work is done.
#[derive(Debug)]
pub(crate) struct Counter {
    bar: ProgressBar,
    unit: &'static str,
    /// When a line is due, where there is no terminal.
    next_line: Option<Mutex<Instant>>,
}

impl Counter {
    /// Of work that begins now, counted in this unit.
    pub(crate) fn new(unit: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
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

    /// Names the part that is under way.
    pub(crate) fn at(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// So much of all is done.
    pub(crate) fn done(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        let Some(next_line) = &self.next_line else { return };
        let (mut next, now) = (next_line.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if now >= *next {
            *next = now + LINE_EVERY;
            eprintln!(
                "verbatim: so far: {done} of {all} {}, {}",
                self.unit,
                self.bar.message()
            );
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
