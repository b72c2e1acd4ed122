//! Progress of a run: a progress bar on a terminal, else a line each minute, and a line per test when it ends.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use verbatim_client::v1::{Outcome, RunState, Verdict};
use verbatim_record::Restored;
use verbatim_run::Event;
use verbatim_text::{Text, shown};

use super::history::{self, Expected};
use super::pace::{Pace, words};
use crate::print;

/// A run whose tests are expected to last this long announces its duration.
const LONG: Duration = Duration::from_secs(60);

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
    pace: Arc<Mutex<Paced>>,
    /// The rig and its kind, whose history the run extends.
    rig: Option<(String, String)>,
    /// Ends the thread that watches the pace, when it is dropped.
    watched: Option<Sender<()>>,
}

/// The pace of a run, and the start of its first test.
#[derive(Debug, Default)]
struct Paced {
    pace: Pace,
    since: Option<Instant>,
}

impl Paced {
    fn at(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

fn locked(paced: &Mutex<Paced>) -> MutexGuard<'_, Paced> {
    paced.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    /// Starts the progress of a run.
    pub(crate) fn new(lines: Lines) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if !print::has_terminal_for_messages() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let pace = Arc::<Mutex<Paced>>::default();
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg} {elapsed}{left}") {
            let of = Arc::clone(&pace);
            let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                let paced = locked(&of);
                if let Some(left) = paced.pace.left(paced.at()).filter(|left| !left.is_zero()) {
                    // Ignore an error of the bar: the progress cannot show it.
                    let _ = write!(out, ", about {} left", words(left));
                }
            };
            bar.set_style(style.with_key("left", left));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            test: String::new(),
            lines,
            since: Instant::now(),
            begun: Instant::now(),
            took: Vec::new(),
            pace,
            rig: None,
            watched: None,
        }
    }

    /// Sets the tests of the run and the rig. From now on, the progress shows how long the run will still take.
    pub(crate) fn expects(&mut self, rig: &str, kind: &str, tests: &[String]) {
        if kind == "virtual" {
            return; // The time of a virtual rig is simulated.
        }
        let expected = Expected::on(rig, kind);
        let pace = Pace::of(tests.iter().map(|id| (id.clone(), expected.of(id))).collect());
        let (whole, is_quiet) = (pace.whole(), self.lines == Lines::NotPassed);
        self.rig = Some((rig.into(), kind.into()));
        locked(&self.pace).pace = pace;
        if whole >= LONG && !is_quiet {
            let tests = print::counted(tests.len() as u64, "test", "tests");
            self.say(&format!("{tests} on {rig}, about {}", words(whole)));
        }
        if !is_quiet {
            self.watch();
        }
    }

    /// Starts the thread that prints a line each minute if stderr is no terminal, and a line for each slow test.
    fn watch(&mut self) {
        let (of, tell) = (Arc::clone(&self.pace), self.teller());
        let (watched, over) = mpsc::channel();
        let is_terminal = print::has_terminal_for_messages();
        let watch = move || {
            while over.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let mut paced = locked(&of);
                let at = paced.at();
                let lines = [paced.pace.slow(at), paced.pace.each_minute(at).filter(|_| !is_terminal)];
                drop(paced);
                lines.iter().flatten().for_each(|line| tell(line));
            }
        };
        // Without the thread, the run only lacks these lines.
        if thread::Builder::new().name("pace".into()).spawn(watch).is_ok() {
            self.watched = Some(watched);
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
        let mut paced = locked(&self.pace);
        paced.since.get_or_insert_with(Instant::now);
        let at = paced.at();
        paced.pace.begun(usize::try_from(place).unwrap_or(usize::MAX), at);
        drop(paced);
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
        // The duration of a test that did not run to its end has no use.
        if !matches!(
            verdict.outcome(),
            Outcome::Error | Outcome::Skipped | Outcome::NotApplicable
        ) {
            self.took.push((took, verdict.test.clone()));
        }
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

    /// Removes the bar, and stores the durations of the tests for later runs on the rig.
    pub(crate) fn finish(&mut self) {
        self.watched = None;
        self.bar.finish_and_clear();
        if let Some((rig, kind)) = self.rig.take() {
            history::add(&rig, &kind, &self.took);
        }
    }
}

/// Formats a duration in real time, also for a simulated rig.
fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}
