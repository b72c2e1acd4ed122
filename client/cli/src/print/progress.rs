//! A run while it goes on: a progress bar on a terminal, and a line per test as it ends.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verbatim_client::v1;
use verbatim_client::v1::watch_run_response::Event as ServerEvent;
use verbatim_record::Verdict;
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

    /// An event of a run inside this process.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Begun(test, place, all) => self.begun(test.id, *place as u64, *all as u64),
            Event::Step(label) => self.step(label),
            Event::Ended(verdict) => self.ended(verdict),
            Event::Recovered(restored) => {
                let areas: Vec<_> = restored.iter().map(|restored| restored.area.to_string()).collect();
                let complete = restored.iter().all(|restored| restored.is_complete());
                self.restored(&areas, complete);
            }
        }
    }

    /// An event of a run at a daemon.
    pub(crate) fn show_remote(&mut self, event: &v1::WatchRunResponse) {
        match &event.event {
            Some(ServerEvent::TestStarted(begun)) => {
                self.begun(&begun.test, u64::from(begun.place), u64::from(begun.total));
            }
            Some(ServerEvent::StepStarted(step)) => self.step(&step.step),
            Some(ServerEvent::TestEnded(ended)) => {
                if let Some(verdict) = &ended.verdict {
                    self.ended(&print::document::verdict(verdict));
                }
            }
            Some(ServerEvent::RestoreEnded(ended)) => self.restored(&ended.areas, ended.complete),
            Some(ServerEvent::LogLine(line)) => self.say(&line.text),
            Some(ServerEvent::StateChanged(_)) | None => {}
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

    fn restored(&self, areas: &[String], complete: bool) {
        let how = if complete {
            "restored first"
        } else {
            "restored first, but not wholly"
        };
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
