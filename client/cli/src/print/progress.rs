//! Progress of a run: a progress bar on a terminal, and a line per test when it ends.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verbatim_client::v1::{RunState, Verdict};
use verbatim_record::Restored;
use verbatim_run::Event;
use verbatim_text::{Text, shown};

use crate::print;

/// The lines that go to stdout when tests end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lines {
    /// No lines.
    None,
    /// A line for each test with FAIL, ERROR or INCONCLUSIVE.
    NotPassed,
    /// A line for each test.
    All,
    /// A line for each test, with its duration and its passed checks.
    Long,
}

/// A progress bar on a terminal, and a line per test when it ends.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    test: String,
    lines: Lines,
    since: Instant,
    begun: Instant,
    took: Vec<(Duration, String)>,
}

impl Progress {
    /// Starts the progress of a run.
    pub(crate) fn new(lines: Lines) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if !print::has_terminal_for_messages() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            test: String::new(),
            lines,
            since: Instant::now(),
            begun: Instant::now(),
            took: Vec::new(),
        }
    }

    /// Shows an event of the run.
    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::TestStarted(begun) => self.begun(&begun.test, u64::from(begun.place), u64::from(begun.total)),
            Event::StepStarted(step) => self.step(&step.step),
            Event::TestEnded(ended) => ended.verdict.iter().for_each(|verdict| self.ended(verdict)),
            Event::RestoreEnded(ended) => self.restored(&ended.areas),
            Event::LogLine(line) => self.say(&line.text),
            Event::StateChanged(changed) if changed.state() == RunState::Queued && !changed.reason.is_empty() => {
                self.say(&format!("the run {}", changed.reason));
            }
            Event::StateChanged(_) => {}
        }
    }

    /// Prints a message without disturbing the bar.
    pub(crate) fn say(&self, message: &str) {
        self.bar.suspend(|| print::note(format_args!("verbatim: {message}")));
    }

    /// Returns a function that prints messages without disturbing the bar.
    pub(crate) fn teller(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        move |message| bar.suspend(|| print::note(format_args!("verbatim: {message}")))
    }

    fn begun(&mut self, test: &str, place: u64, all: u64) {
        self.test = test.into();
        self.begun = Instant::now();
        self.bar.set_length(all);
        self.bar.set_position(place);
        self.message(&self.test);
    }

    fn step(&self, label: &str) {
        self.message(&format!("{}: {label}", self.test));
    }

    #[expect(clippy::disallowed_methods, reason = "the text is shown")]
    fn message(&self, text: &str) {
        self.bar.set_message(shown(text).into_owned());
    }

    fn ended(&mut self, verdict: &Verdict) {
        let took = self.begun.elapsed();
        self.took.push((took, verdict.test.clone()));
        let line = match self.lines {
            Lines::None => return,
            Lines::NotPassed if !print::is_explained(verdict) => return,
            Lines::NotPassed | Lines::All => print::line(verdict, ""),
            Lines::Long => {
                let mut text = print::line(verdict, &format!("  {}", seconds(took)));
                text.extend([print::checked(verdict)]);
                text
            }
        };
        // Ignore a closed pipe here. The end of the run reports it, after the device was restored.
        self.bar.suspend(|| print::text(&line).unwrap_or_default());
    }

    /// Returns the duration of the run, and the longest tests; empty if neither is requested.
    pub(crate) fn took(&self, longest: Option<usize>, verbose: bool) -> Text {
        let mut out = Text::new();
        if let Some(longest) = longest {
            let mut took = self.took.clone();
            took.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
            took.truncate(longest);
            out.line("");
            out.line("Longest:");
            for (took, test) in took {
                out.line(format_args!("  {:>9}  {test}", seconds(took)));
            }
        }
        if longest.is_some() || verbose {
            out.line(format_args!("took {}", seconds(self.since.elapsed())));
        }
        out
    }

    fn restored(&self, restored: &[Restored]) {
        let how = if restored.iter().all(Restored::is_complete) {
            "restored first"
        } else {
            "restored first, but only in part"
        };
        let areas: Vec<_> = restored.iter().map(|restored| restored.area.as_str()).collect();
        self.say(&format!(
            "an earlier run left the device changed; {how}: {}",
            areas.join(", ")
        ));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Formats a duration in real time, also for a simulated rig.
fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}
