//! A run inside the calling process. The run opens the rig, restores the changes of an earlier run, and runs the tests
//! in sequence. It judges each test from its record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use verbatim_catalog::deviations::Known;
use verbatim_catalog::{JudgeError, Register, VERSION, judge, judge_trace, select};
use verbatim_record::{BundleWriter, Entry, Note, Reset, Side, Sink, Span, StopReason, Stopped, Time, Tracing};
use verbatim_record_proto::v1::run_event::Event;
use verbatim_record_proto::v1::{Cause, LogLine, Outcome, RunInfo, RunSpec, TestEnded, TestStarted, Verdict};
use verbatim_tester::{Case, Journal, MemoryJournal, Ran, Rig, RigInfo, run};

use crate::console::Consoles;
use crate::device::{Claimed, Patience};
use crate::error::RunError;
use crate::id::{RunId, now_ns};
use crate::lease::{Lease, Leased};
use crate::recover::recover_first;
use crate::reset;
use crate::shrink::{self, Try};
use crate::sink::RunSink;
use crate::state::StateDirectory;
use crate::stopped;
use verbatim_rig::{OpenRig, ResetConfig, RigConfig, RigKind, Session};
use verbatim_wire::MKey;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Id of the run.
    pub id: RunId,
    /// The rig.
    pub rig: RigConfig,
    /// The tests and their parameters.
    pub spec: RunSpec,
    /// Directory of the bundle; None to keep only the verdicts.
    pub record: Option<PathBuf>,
    /// Set to stop the run.
    pub cancel: Arc<AtomicBool>,
    /// Whether a failed walk is repeated with fewer steps, to find the shortest walk that fails.
    pub shrinks: bool,
    /// Options of `verbatim run` that select the rig in addition to --rig, quoted for a shell.
    pub rig_options: String,
    /// The lease of the rig; [`Lease::default`] if none is needed.
    pub lease: Arc<Lease>,
}

/// The point at which [`resume`] continues a run whose process died.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// Number of tests with a complete record.
    pub done: u32,
    /// The reason why the next test is lost; None if it had not started.
    pub lost: Option<String>,
    /// Start of the run, in nanoseconds since 1970.
    pub started_ns: u64,
}

/// Schema version of [`Report`] in JSON.
pub const REPORT_SCHEMA: &str = "verbatim.report.v1";

/// A run with its verdicts; the document that `--json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The constant [`REPORT_SCHEMA`].
    pub schema: String,
    /// The run. The JSON also has its start as an RFC 3339 time.
    #[serde(serialize_with = "with_start_in_words")]
    pub run: RunInfo,
    /// The verdict of each test, in the order of the run.
    pub verdicts: Vec<Verdict>,
    /// Known deviations of this kind of device, and whether each appeared in the run. Known deviations change no
    /// verdict.
    pub known_deviations: Vec<Known>,
    /// For a stored record: the tests that this version cannot judge again, each with the reason. Their verdicts are
    /// those of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_judged_anew: BTreeMap<String, String>,
}

/// Serializes a run with its start both as `started_ns` and, in RFC 3339, as `started`.
fn with_start_in_words<S: serde::Serializer>(run: &RunInfo, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct InWords<'a> {
        #[serde(flatten)]
        run: &'a RunInfo,
        started: String,
    }
    let started = time::OffsetDateTime::from_unix_timestamp_nanos(run.started_ns.into())
        .ok()
        .and_then(|at| at.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default();
    InWords { run, started }.serialize(serializer)
}

impl Report {
    /// Creates a report, with the known deviations of the built-in register.
    #[must_use]
    pub fn new(run: RunInfo, verdicts: Vec<Verdict>) -> Self {
        Self {
            schema: REPORT_SCHEMA.into(),
            known_deviations: Register::default().known(&run.fingerprint, run.started_ns, &verdicts),
            run,
            verdicts,
            not_judged_anew: BTreeMap::new(),
        }
    }

    /// Replaces the known deviations by those of this register.
    #[must_use]
    pub fn knowing(self, deviations: &Register) -> Self {
        Self {
            known_deviations: deviations.known(&self.run.fingerprint, self.run.started_ns, &self.verdicts),
            ..self
        }
    }

    /// Returns whether known deviations explain all failed and undecided checks of a test.
    #[must_use]
    pub fn is_known(&self, test: &str) -> bool {
        self.known_deviations
            .iter()
            .any(|known| known.test == test && known.explains_all)
    }
}

/// Returns the worst outcome of the verdicts; SKIPPED if there are none.
#[must_use]
pub fn worst(verdicts: &[Verdict]) -> Outcome {
    let outcomes = verdicts.iter().map(Verdict::outcome);
    outcomes.max().unwrap_or(Outcome::Skipped)
}

/// The restore journal. It is on disk if the device outlives this process.
enum RunJournal {
    Memory(MemoryJournal),
    File(Box<Claimed>),
}

impl RunJournal {
    fn get(&mut self) -> &mut dyn Journal {
        match self {
            Self::Memory(journal) => journal,
            Self::File(journal) => journal.as_mut(),
        }
    }
}

/// Runs tests on a rig and judges them.
///
/// # Errors
/// When the run cannot begin, its bundle cannot be written, or the run gave way between two tests. Errors of a test are
/// in its verdict.
pub fn execute(request: &Request, report: &mut dyn FnMut(Event)) -> Result<Report, RunError> {
    execute_in(request, None, report)
}

/// Like [`execute`], with the restore journal in the state directory `state`. If `state` is None, the environment names
/// the directory.
///
/// # Errors
/// As [`execute`].
pub fn execute_in(
    request: &Request,
    state: Option<&StateDirectory>,
    report: &mut dyn FnMut(Event),
) -> Result<Report, RunError> {
    let bundle = request.record.as_deref().map(BundleWriter::create).transpose()?;
    let from_the_start = Resume {
        done: 0,
        lost: None,
        started_ns: now_ns(),
    };
    rest(request, &from_the_start, bundle, state, report)
}

/// Continues a recorded run whose process died. Judges finished tests from their records, without events. The lost test
/// gets a record with the reason, and a verdict.
///
/// # Errors
/// As [`execute`], and when a record of a finished test is incomplete.
pub fn resume(
    request: &Request,
    from: &Resume,
    state: Option<&StateDirectory>,
    report: &mut dyn FnMut(Event),
) -> Result<Report, RunError> {
    let resume = |record| BundleWriter::resume(record, from.done);
    let bundle = request.record.as_deref().map(resume).transpose()?;
    rest(request, from, bundle, state, report)
}

/// Runs the tests from the point `from` on.
fn rest(
    request: &Request,
    from: &Resume,
    mut bundle: Option<BundleWriter>,
    state: Option<&StateDirectory>,
    report: &mut dyn FnMut(Event),
) -> Result<Report, RunError> {
    let spec = &request.spec;
    let tests = select(&spec.patterns)?;
    let done = from.done as usize;
    let first = done + usize::from(from.lost.is_some());
    // Lock the device before anything is sent to it.
    let mut journal = match request.rig.kind {
        RigKind::Virtual(_) => RunJournal::Memory(MemoryJournal::default()),
        _ => {
            let state = state.cloned().map_or_else(StateDirectory::find, Ok)?;
            let patience = Patience {
                cancel: Arc::clone(&request.cancel),
                lease: Arc::clone(&request.lease),
            };
            let claimed = Claimed::open(&request.rig, &state.journals(), patience)?;
            RunJournal::File(Box::new(claimed))
        }
    };
    let mut open = verbatim_rig::open(&request.rig.in_run(spec.seed), Arc::clone(&request.cancel))?;
    if let (RunJournal::File(_), Some(state)) = (&journal, state) {
        request.lease.fence(&state.journals(), &request.rig.name)?;
    }
    if let RunJournal::File(journal) = &mut journal {
        recover_first(&request.rig, &mut open, journal, report)?;
    }

    // The restore of an earlier run's changes needs no lease, but tests need one.
    if let Session::Real(rig) = open.session {
        open.session = Session::Real(Box::new(Leased::new(rig, Arc::clone(&request.lease))));
    }
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut over: Option<(StopReason, String)> = None;
    let how_far = (matches!(journal, RunJournal::Memory(_)), spec.exit_first);
    let mut consoles = Consoles::of(&request.rig)?;
    for (place, test) in tests.iter().copied().enumerate() {
        if place < done
            && let Some(bundle) = &mut bundle
        {
            let entries = bundle.recorded(test.id)?;
            let stopped = entries.iter().find_map(|entry| match entry {
                Entry::Stopped(stopped) => Some(stopped.reason),
                _ => None,
            });
            let verdict = judge(entries)?;
            // On a rig with a reset command, the run continues after a test that left the device dead: a reset may
            // have revived the device. If the device is still dead, the next test reports that.
            let is_reset = request.rig.reset.is_some();
            let ends = ends_the_run(&verdict, stopped, how_far);
            over = over.or_else(|| ends.filter(|(why, _)| !is_reset || *why == StopReason::NotWanted));
            verdicts.push(verdict);
            continue;
        }
        let cancelled = place > 0 && request.cancel.load(Ordering::Relaxed);
        if place >= first && over.is_none() && !cancelled && request.lease.gives_way() {
            return Err(RunError::GaveWay { done: number(place) });
        }
        if place >= first {
            report(Event::TestStarted(TestStarted {
                test: test.id.into(),
                place: number(place),
                total: number(tests.len()),
            }));
        }
        let instead = match (&from.lost, &over) {
            (Some(why), _) if place < first => Some((StopReason::Tester, why.as_str())),
            (_, Some((reason, why))) => Some((*reason, why.as_str())),
            // A test after a cancel still gets a record, because a cancelled run must not look like a success.
            _ if cancelled => Some((StopReason::Cancelled, "the run was cancelled before this test")),
            _ if request.lease.is_over() => {
                Some((StopReason::LeaseEnded, "the lease of the rig ended before this test"))
            }
            _ => None,
        };
        let case = Case {
            test,
            seed: spec.seed,
            parameters: parameters(spec, &open.info),
            catalogue: VERSION.into(),
        };
        let began = instead.is_none();
        let how = (instead, request, &mut consoles);
        let is_last = place + 1 == tests.len();
        let (verdict, stopped, after) =
            one_test(&case, &mut open, &mut journal, (bundle.as_mut(), is_last), how, report)?;
        if over.is_none() {
            over = match after {
                After::Over(why) => Some((StopReason::Skipped, format!("the run ended at {}: {why}", verdict.test))),
                // The reset repaired the device, so only a failure with `exit_first` ends the run.
                After::Reset => {
                    ends_the_run(&verdict, stopped, how_far).filter(|(why, _)| *why == StopReason::NotWanted)
                }
                After::AsItWas => ends_the_run(&verdict, stopped, how_far),
            };
        }
        if place == first
            && !matches!(verdict.outcome(), Outcome::Error | Outcome::Skipped)
            && let Session::Real(rig) = &mut open.session
            && let Ok(device) = verbatim_rig::device_fingerprint(rig.as_mut(), &open.info)
        {
            // Read the fingerprint only after a test without an error, because a dead device would cost minutes of
            // timeouts.
            open.fingerprint = verbatim_rig::whole_fingerprint(open.fingerprint, device);
        }
        let of_such = request.rig.deviations.known(
            &open.fingerprint.to_string(),
            from.started_ns,
            std::slice::from_ref(&verdict),
        );
        report(Event::TestEnded(TestEnded {
            verdict: Some(verdict.clone()),
            known_deviations: of_such.into_iter().map(Into::into).collect(),
        }));
        let was_stopped = matches!(stopped, Some(StopReason::Cancelled | StopReason::LeaseEnded));
        if was_stopped && began && matches!(open.session, Session::Real(_)) {
            report(Event::LogLine(LogLine {
                text: stopped::in_words(&verdict.restored),
            }));
        }
        verdicts.push(verdict);
    }
    let run = RunInfo {
        id: request.id.to_string(),
        rig: request.rig.name.clone(),
        rig_kind: open.info.kind.clone(),
        seed: spec.seed,
        catalogue: VERSION.into(),
        started_ns: from.started_ns,
        host: host(),
        fingerprint: open.fingerprint.to_string(),
        outcome: worst(&verdicts).into(),
        record: request.record.as_ref().map(|path| path.display().to_string()),
        rig_options: request.rig_options.clone(),
    };
    let document = Report::new(run, verdicts).knowing(&request.rig.deviations);
    if let Some(bundle) = bundle {
        bundle.write("run.json", &pretty(&document.run))?;
        bundle.write("verdicts.json", &pretty(&document.verdicts))?;
        bundle.seal()?;
    }
    Ok(document)
}

fn one_test(
    case: &Case<'_>,
    open: &mut OpenRig,
    journal: &mut RunJournal,
    (bundle, is_last): (Option<&mut BundleWriter>, bool),
    (instead, request, consoles): (Option<(StopReason, &str)>, &Request, &mut Consoles),
    report: &mut dyn FnMut(Event),
) -> Result<(Verdict, Option<StopReason>, After), RunError> {
    let file = bundle.map(|bundle| bundle.record(case.test.id)).transpose()?;
    let mut sink = RunSink {
        tracing: Tracing::default(),
        file,
        step: None,
        report,
    };
    let info = open.info.clone();
    let mut after = After::AsItWas;
    let now = if let Some((reason, text)) = instead {
        let text = text.into();
        sink.put(Entry::Begin(Box::new(case.begin(&info))));
        sink.put(Entry::Stopped(Stopped { reason, text }));
        Time(0)
    } else {
        let now = perform(open, &mut sink, journal.get(), case);
        let has_crashed = told(&mut sink, consoles) && sink.tracing.trace().is_ok_and(|trace| trace.stopped.is_some());
        let is_walk = request.shrinks && shrink::is_walk(case.test);
        // A walk is repeated, which needs a device that responds.
        if is_walk && has_crashed {
            after = reset_after(open, &mut sink, journal, (request, is_last), consoles)?;
        }
        if is_walk
            && !matches!(after, After::Over(_))
            && let Some(why) = shorten(open, &mut sink, journal, (case, request, now, has_crashed), consoles)?
        {
            after = After::Over(why);
        }
        if matches!(after, After::AsItWas) {
            after = reset_after(open, &mut sink, journal, (request, is_last), consoles)?;
        }
        now
    };
    let RunSink { tracing, file, .. } = sink;
    let written = file.map_or(Ok(()), |file| file.finish(now));
    let trace = tracing.trace().map_err(JudgeError::from)?;
    let stopped = trace.stopped.as_ref().map(|stopped| stopped.reason);
    let verdict = judge_trace(trace)?;
    let verdict = match written {
        Ok(()) => verdict,
        // A record that is incomplete on disk cannot be checked, so its verdict does not count.
        Err(error) => Verdict {
            outcome: Outcome::Error.into(),
            cause: Cause::Tester.into(),
            reason: format!("the record could not be written: {error}"),
            ..verdict
        },
    };
    Ok((verdict, stopped, after))
}

/// Puts the reports that the kernels have printed into a record. Returns whether the DUT's kernel reported an error.
fn told(sink: &mut dyn Sink, consoles: &mut Consoles) -> bool {
    let mut is_of_dut = false;
    for report in consoles.reports() {
        is_of_dut |= report.side == Side::Dut;
        sink.put(Entry::KernelReport(report));
    }
    is_of_dut
}

/// The state of the rig after a test.
enum After {
    /// No reset was needed.
    AsItWas,
    /// The reset command ran, and the device responds.
    Reset,
    /// The rig cannot be used any more; the text is the reason.
    Over(String),
}

/// Runs the rig's reset command, if it has one: between two tests, and also after the last test if the device does
/// not respond.
fn reset_after(
    open: &mut OpenRig,
    sink: &mut RunSink<'_, '_>,
    journal: &mut RunJournal,
    (request, is_last): (&Request, bool),
    consoles: &mut Consoles,
) -> Result<After, RunError> {
    let (Some(config), Session::Real(rig)) = (&request.rig.reset, &mut open.session) else {
        return Ok(After::AsItWas);
    };
    let stopped = sink.tracing.trace().ok().and_then(|trace| trace.stopped.as_ref());
    let nothing_sent = stopped.is_some_and(|of| of.reason == StopReason::NotOffered);
    if request.cancel.load(Ordering::Relaxed) || request.lease.is_over() || nothing_sent {
        return Ok(After::AsItWas);
    }
    let mut keys = vec![open.info.key];
    let mut is_changed = false;
    if let RunJournal::File(journal) = journal {
        is_changed = !journal.pending().is_empty();
        keys.extend(journal.left().keys);
    }
    let silent = reset::found(rig.as_mut(), &open.info, &keys);
    // If the device responds, there is no reset after the last test, and none while the journal lists changes: the
    // changes must stay visible.
    if silent.is_empty() && (is_last || is_changed || config.only_when_silent) {
        return Ok(After::AsItWas);
    }
    // Text that arrived late belongs to this test.
    told(sink, consoles);
    let (reset, over) = revive(
        open,
        journal,
        (request, config, consoles),
        (silent, &keys),
        &mut *sink.report,
    );
    sink.put(Entry::Reset(Box::new(reset)));
    Ok(over.map_or(After::Reset, After::Over))
}

/// Runs the reset command, opens the rig again, and restores the changes of the journal. `silent` is empty if the
/// device responds, else the reason why it does not. If the rig can no longer be used, also returns the reason.
fn revive(
    open: &mut OpenRig,
    journal: &mut RunJournal,
    (request, config, consoles): (&Request, &ResetConfig, &mut Consoles),
    (silent, keys): (String, &[MKey]),
    report: &mut dyn FnMut(Event),
) -> (Reset, Option<String>) {
    // Close the agent's connection and the socket, because the reset may end both.
    open.session = Session::Closed;
    let mut reset = reset::command(config, &request.cancel);
    reset.silent = silent;
    reset.after = match verbatim_rig::open(&request.rig.in_run(request.spec.seed), Arc::clone(&request.cancel)) {
        Err(error) => error.to_string(),
        Ok(again) => {
            open.info = again.info;
            let Session::Real(mut rig) = again.session else {
                return (reset, Some("the rig has another device than before the reset".into()));
            };
            let after = reset::found(rig.as_mut(), &open.info, keys);
            open.session = Session::Real(rig);
            after
        }
    };
    // The text of the boot belongs to no test.
    drop(consoles.reports());
    let mut over = None;
    if !reset.after.is_empty() {
        over = Some(format!("the device did not answer after its reset: {}", reset.after));
    } else if let RunJournal::File(journal) = journal {
        let restored = recover_first(&request.rig, open, journal, report);
        over = restored.err().map(|error| error.to_string());
    }
    if let Session::Real(rig) = core::mem::replace(&mut open.session, Session::Closed) {
        open.session = Session::Real(Box::new(Leased::new(rig, Arc::clone(&request.lease))));
    }
    (reset, over)
}

fn perform(open: &mut OpenRig, sink: &mut dyn Sink, journal: &mut dyn Journal, case: &Case<'_>) -> Time {
    let info = &open.info;
    match &mut open.session {
        // Each test has its own device model, so that its record does not depend on earlier tests.
        Session::Virtual(config) => {
            let mut rig = config.rig();
            let _: Ran = run(&mut rig, info, sink, journal, case);
            rig.now()
        }
        Session::Real(rig) => {
            let _: Ran = run(rig.as_mut(), info, sink, journal, case);
            rig.now()
        }
        Session::Closed => {
            sink.put(Entry::Begin(Box::new(case.begin(info))));
            let text = "the rig was not opened again after the reset of its device".into();
            let reason = StopReason::RigGone;
            sink.put(Entry::Stopped(Stopped { reason, text }));
            Time(0)
        }
    }
}

/// Repeats a failed walk with fewer and fewer steps. The shortest walk that still fails becomes a note in the record.
/// If the DUT's kernel reported an error in a row, first runs the rows after it, and adds notes of their verdicts.
/// Returns the reason why the rig can no longer be used, if a reset failed.
fn shorten(
    open: &mut OpenRig,
    sink: &mut RunSink<'_, '_>,
    journal: &mut RunJournal,
    (case, request, now, has_crashed): (&Case<'_>, &Request, Time, bool),
    consoles: &mut Consoles,
) -> Result<Option<String>, RunError> {
    /// Time limit of all tries on hardware. Tries on a simulated rig have no time limit.
    const PATIENCE: Duration = Duration::from_secs(120);
    /// Time limit if the host restarts after each failed try.
    const PATIENCE_AT_CRASHES: Duration = Duration::from_secs(600);
    /// Number of tries on hardware before a shorter walk counts as passed.
    const AGAIN: u32 = 2;
    let whole = judge_trace(sink.tracing.trace().map_err(JudgeError::from)?)?;
    if whole.outcome() != Outcome::Fail {
        return Ok(None);
    }
    let mut lost = None;
    let simulated = open.info.simulated;
    let is_fresh = matches!(open.session, Session::Virtual(_));
    let is_over = || request.cancel.load(Ordering::Relaxed) || request.lease.is_over();
    let mut go = |given: &[(&str, u64)]| {
        if lost.is_some() || is_over() {
            return None;
        }
        let others = case
            .parameters
            .iter()
            .filter(|(name, _)| given.iter().all(|(other, _)| name != other));
        let given = given.iter().map(|(name, value)| (name.to_string(), *value));
        let part = Case {
            parameters: others.cloned().chain(given).collect(),
            ..case.clone()
        };
        let mut tracing = Tracing::default();
        perform(open, &mut tracing, journal.get(), &part);
        let is_of_dut = told(&mut tracing, consoles);
        let trace = tracing.trace().ok()?;
        let stopped = trace.stopped.as_ref().map(|stopped| stopped.reason);
        let verdict = judge_trace(trace).ok()?;
        let crashes = is_of_dut && stopped.is_some();
        if let (true, Some(config), Session::Real(rig)) = (crashes, &request.rig.reset, &mut open.session) {
            // After the end of the lease, the device may be another run's.
            if is_over() {
                return None;
            }
            let keys = [open.info.key];
            let silent = reset::found(rig.as_mut(), &open.info, &keys);
            if !silent.is_empty() {
                let how = (request, config, &mut *consoles);
                lost = revive(open, journal, how, (silent, &keys), &mut *sink.report).1;
                return Some(verdict).filter(|_| lost.is_none());
            }
        }
        let ends = ends_the_run(&verdict, stopped, (is_fresh, false)).is_some();
        Some(verdict).filter(|_| !ends)
    };
    let mut notes = Vec::new();
    if has_crashed {
        notes = after_a_report(case, &whole, &mut go);
    }
    let begun = now_ns();
    let patience = if has_crashed { PATIENCE_AT_CRASHES } else { PATIENCE };
    let mut attempt = |given: &[(&str, u64)]| {
        for _ in 0..if simulated { 1 } else { AGAIN } {
            if !simulated && u128::from(now_ns().saturating_sub(begun)) > patience.as_nanos() {
                return Try::Stop;
            }
            match go(given) {
                Some(verdict) if shrink::is_same(&whole, &verdict) => return Try::Fails,
                Some(_) => {}
                None => return Try::Stop,
            }
        }
        Try::Passes
    };
    // The host crashed in the last of the failed rows.
    let mut rows = verbatim_catalog::failed_rows(&whole);
    if has_crashed {
        rows.reverse();
    }
    notes.extend(shrink::shrink(case, simulated, &rows, &mut attempt));
    for text in notes {
        let at = Span::exactly(now);
        sink.put(Entry::Note(Note { at, text }));
    }
    Ok(lost)
}

/// The most reports of the kernel that one run of rows survives.
const CRASHES: usize = 40;

/// Runs a walk with other values of these parameters. Returns None if no more runs are possible.
type Go<'a> = dyn FnMut(&[(&str, u64)]) -> Option<Verdict> + 'a;

/// Runs the rows after the one at which the DUT's kernel reported an error. Repeats this while a row causes a report,
/// at most [`CRASHES`] times. Each repetition also leaves out the rows with a value that probably caused a report.
/// Returns a note for each repetition.
fn after_a_report(case: &Case<'_>, whole: &Verdict, go: &mut Go<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let is_one = case.parameters.iter().any(|(name, value)| name == "row" && *value > 0);
    if is_one || !case.test.parameters.iter().any(|parameter| parameter.name == "first") {
        return notes;
    }
    let mut last = verbatim_catalog::failed_rows(whole).last().copied();
    let strength = case.parameter("strength", false).unwrap_or(2);
    let mut without = case.parameter("without", false).unwrap_or(0);
    let mut suspected = 0;
    while let (Some(row), true) = (last, notes.len() < CRASHES) {
        let first = row + 1;
        // Of two values, the one that is in two such rows is suspected.
        let broken = verbatim_catalog::broken_values(case.test.id, strength, row);
        without |= if broken.count_ones() == 1 {
            broken
        } else {
            broken & suspected
        };
        suspected |= broken;
        let Some(verdict) = go(&[("first", first), ("without", without)]) else {
            notes.push(format!("after the kernel report: rows {first} and later did not run"));
            break;
        };
        // Only a report of the kernel counts. Rows that fail in another way do not end the test.
        let rows = verbatim_catalog::failed_rows(&verdict);
        last = rows.last().copied().filter(|_| verdict.fails(verbatim_catalog::KERNEL));
        let reason = verdict.reason.split(" (with it: ").next().unwrap_or_default();
        notes.push(match last {
            Some(row) => {
                let fails = format!("row {row} fails: ");
                let words = verdict.observations.iter().find_map(|of| of.text.strip_prefix(&fails));
                let words = words.and_then(|words| words.split(';').next()).unwrap_or_default();
                format!("after the kernel report: row {row} causes one too: {words} (--set row={row}): {reason}")
            }
            None => format!(
                "after the kernel report: rows {first} and later, without the rows with a value of earlier ones (--set \
                 without={without}): {} {reason}",
                verdict.outcome()
            ),
        });
    }
    if let Some(row) = last.filter(|_| notes.len() == CRASHES) {
        let first = row + 1;
        notes.push(format!(
            "after the kernel report: rows {first} and later did not run, after {CRASHES} reports"
        ));
    }
    notes
}

/// Returns the parameters of the run. Parameters that the run does not set have the values of the rig's device.
fn parameters(spec: &RunSpec, info: &RigInfo) -> Vec<(String, u64)> {
    let of_rig = info.of_device.iter().cloned();
    let of_rig = of_rig.filter(|(name, _)| !spec.parameters.contains_key(name));
    let given = spec.parameters.iter().map(|(name, value)| (name.clone(), *value));
    given.chain(of_rig).collect()
}

/// Returns why the run ends after this verdict, if it does. On a rig with a new device for each test, only errors of
/// the operator end the run. With `exit_first`, the first failure also ends the run.
fn ends_the_run(
    verdict: &Verdict,
    stopped: Option<StopReason>,
    (is_fresh, exit_first): (bool, bool),
) -> Option<(StopReason, String)> {
    if exit_first && matches!(verdict.outcome(), Outcome::Fail | Outcome::Error) {
        let (outcome, test) = (verdict.outcome(), &verdict.test);
        let why = format!("the run ended at the first failure, as asked: {outcome} of {test}");
        return Some((StopReason::NotWanted, why));
    }
    if is_fresh && verdict.cause() != Cause::Operator {
        return None;
    }
    let ends = match (verdict.outcome(), verdict.cause()) {
        (Outcome::Error, Cause::Rig | Cause::Operator) => true,
        // A single malformed response ends only the test in which it occurs. A failed sanity check or a
        // disturbance would recur in the next test.
        (Outcome::Inconclusive, Cause::Rig) => {
            matches!(stopped, Some(StopReason::NotSane | StopReason::Disturbed))
                && verdict.findings.is_empty()
                && verdict.passed.is_empty()
        }
        _ => false,
    };
    // A device that could not be restored makes further verdicts meaningless.
    let left = verdict.restored.iter().any(|restored| !restored.is_complete());
    let why = || format!("the run ended at {}: {}", verdict.test, verdict.reason);
    (ends || left).then(|| (StopReason::Skipped, why()))
}

fn pretty<T: Serialize>(of: &T) -> String {
    let mut text = verbatim_text::shown_json(serde_json::to_string_pretty(of).expect("plain data"));
    text.push('\n');
    text
}

fn number(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_string())
        .unwrap_or_default()
}
