//! A run while it goes on: a progress bar on a terminal, and a line per test as it ends.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verbatim_client::v1::{RunState, Verdict};
use verbatim_record::Restored;
use verbatim_run::Event;

use crate::print;

/// A progress bar on a terminal, and a line per test as it ends.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    test: String,
    quiet: bool,
}

impl Progress {
    /// Quiet: without lines on stdout.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            test: String::new(),
            quiet,
        }
    }

    /// An event of a run.
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

    /// A message, which does not disturb the bar.
    pub(crate) fn say(&self, message: &str) {
        self.bar.suspend(|| eprintln!("verbatim: {message}"));
    }

    /// A handle to say things through, from elsewhere.
    pub(crate) fn teller(&self) -> impl Fn(&str) + Send + 'static {
        let bar = self.bar.clone();
        move |message| bar.suspend(|| eprintln!("verbatim: {message}"))
    }

    fn begun(&mut self, test: &str, place: u64, all: u64) {
        self.test = test.into();
        self.bar.set_length(all);
        self.bar.set_position(place);
        self.bar.set_message(self.test.clone());
    }

    fn step(&self, label: &str) {
        self.bar.set_message(format!("{}: {label}", self.test));
    }

    fn ended(&self, verdict: &Verdict) {
        if !self.quiet {
            let line = print::line(verdict);
            // A closed pipe shows at the end of the run: the device is restored before anything else.
            self.bar
                .suspend(|| print::text(&format!("{line}\n")).unwrap_or_default());
        }
    }

    fn restored(&self, restored: &[Restored]) {
        let how = if restored.iter().all(Restored::is_complete) {
            "restored first"
        } else {
            "restored first, but not wholly"
        };
        let areas: Vec<_> = restored.iter().map(|restored| restored.area.as_str()).collect();
        self.say(&format!(
            "an earlier run left the device changed; {how}: {}",
            areas.join(", ")
        ));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
