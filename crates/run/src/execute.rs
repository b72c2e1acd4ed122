//! A run inside the calling process: open the rig, restore what an earlier run left, run the tests one after the
//! other, judge each from its record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use verbatim_catalog::deviations::Known;
use verbatim_catalog::{JudgeError, Register, VERSION, judge, judge_trace, select};
use verbatim_record::{BundleWriter, Entry, Note, Sink, Span, StopReason, Stopped, Time, Tracing};
use verbatim_record_proto::v1::run_event::Event;
use verbatim_record_proto::v1::{Cause, Outcome, RunInfo, RunSpec, TestEnded, TestStarted, Verdict};
use verbatim_tester::{Case, Journal, MemoryJournal, Ran, Rig, RigInfo, run};

use crate::device::{Claimed, Patience};
use crate::error::RunError;
use crate::id::{RunId, now_ns};
use crate::lease::{Lease, Leased};
use crate::recover::recover_first;
use crate::reset;
use crate::shrink::{self, Try};
use crate::sink::RunSink;
use crate::state::StateDirectory;
use verbatim_rig::{OpenRig, RigConfig, Session, VirtualConfig};

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The run's id.
    pub id: RunId,
    /// The rig.
    pub rig: RigConfig,
    /// What to run on it.
    pub spec: RunSpec,
    /// Where the bundle goes; none for a run that leaves only its verdicts.
    pub record: Option<PathBuf>,
    /// Set to stop the run.
    pub cancel: Arc<AtomicBool>,
    /// Whether a walk that fails is run again with fewer and fewer of its steps.
    pub shrinks: bool,
    /// Options of `verbatim run` that lead to the rig again, beside --rig, as a shell takes them.
    pub rig_options: String,
    /// What the rig is used under; [`Lease::default`] for who needs none.
    pub lease: Arc<Lease>,
}

/// Where a run goes on whose process died in it: see [`resume`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// Tests that have a whole record.
    pub done: u32,
    /// Why the test after those is lost, when it had begun.
    pub lost: Option<String>,
    /// Nanoseconds since 1970 at the start of the run.
    pub started_ns: u64,
}

/// Version of the shape of [`Report`] in JSON.
pub const REPORT_SCHEMA: &str = "verbatim.report.v1";

/// A run and its verdicts: the document of `--json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: String,
    /// The run; what `--json` prints says its start in words, too.
    #[serde(serialize_with = "with_start_in_words")]
    pub run: RunInfo,
    /// A verdict for each test, in order.
    pub verdicts: Vec<Verdict>,
    /// What is known of devices of its kind, and whether it showed. It changes no verdict.
    pub known_deviations: Vec<Known>,
    /// Of a record that is read again: tests whose verdict is that of the run, and why it was not judged anew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_judged_anew: BTreeMap<String, String>,
}

/// A run, and `started` beside `started_ns`: nobody reads nanoseconds since 1970.
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
    /// A run with its verdicts, and what of them the built-in entries know.
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

    /// The same, with what is known by these entries.
    #[must_use]
    pub fn knowing(self, deviations: &Register) -> Self {
        Self {
            known_deviations: deviations.known(&self.run.fingerprint, self.run.started_ns, &self.verdicts),
            ..self
        }
    }

    /// Whether all that failed in a test, or was left undecided, is known of such devices.
    #[must_use]
    pub fn is_known(&self, test: &str) -> bool {
        self.known_deviations
            .iter()
            .any(|known| known.test == test && known.explains_all)
    }
}

/// The worst outcome of a run; SKIPPED when there is no verdict.
#[must_use]
pub fn worst(verdicts: &[Verdict]) -> Outcome {
    let outcomes = verdicts.iter().map(Verdict::outcome);
    outcomes.max().unwrap_or(Outcome::Skipped)
}

/// A journal for each kind of rig: on disk where the device outlives this process.
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
/// When the run cannot begin or its bundle cannot be kept, or it gave way between two tests. What happens to a test is in
/// its verdict.
pub fn execute(request: &Request, report: &mut dyn FnMut(Event)) -> Result<Report, RunError> {
    execute_in(request, None, report)
}

/// As [`execute`], with the restore journal in that state directory; none for the one that the environment names.
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

/// Goes on with a run whose process died in it, and which keeps a record. The tests that it came to the end of are judged
/// from their records and not reported again; the one that is lost gets a record that says why, and its verdict.
///
/// # Errors
/// As [`execute`], and when a record of the run is not whole.
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

/// The run from there on.
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
    let mut open = verbatim_rig::open(&request.rig.in_run(spec.seed), Arc::clone(&request.cancel))?;
    let mut journal = match open.session {
        Session::Virtual(_) => RunJournal::Memory(MemoryJournal::default()),
        Session::Real(_) => {
            let state = state.cloned().map_or_else(StateDirectory::find, Ok)?;
            let patience = Patience {
                cancel: Arc::clone(&request.cancel),
                lease: Arc::clone(&request.lease),
            };
            let claimed = Claimed::open(&request.rig, &state.journals(), patience)?;
            RunJournal::File(Box::new(claimed))
        }
    };
    if let (RunJournal::File(_), Some(state)) = (&journal, state) {
        request.lease.fence(&state.journals(), &request.rig.name)?;
    }
    if let RunJournal::File(journal) = &mut journal {
        recover_first(&request.rig, &mut open, journal, report)?;
    }

    // What restores first needs no lease; whatever tests do does.
    if let Session::Real(rig) = open.session {
        open.session = Session::Real(Box::new(Leased::new(rig, Arc::clone(&request.lease))));
    }
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut over: Option<(StopReason, String)> = None;
    let how_far = (matches!(journal, RunJournal::Memory(_)), spec.exit_first);
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
            // A reset that did not bring the device back is seen at the next test.
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
            // As if it had begun: otherwise a run that did not do what it was asked for could look like a success.
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
        let how = (instead, request);
        let is_last = place + 1 == tests.len();
        let (verdict, stopped, after) =
            one_test(&case, &mut open, &mut journal, (bundle.as_mut(), is_last), how, report)?;
        if over.is_none() {
            over = match after {
                After::Over(why) => Some((StopReason::Skipped, format!("the run ended at {}: {why}", verdict.test))),
                // What ended it was the device, which is as new.
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
            // Asked of a device that is known to answer: a dead one would cost minutes of silence.
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
    (instead, request): (Option<(StopReason, &str)>, &Request),
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
        if request.shrinks && shrink::is_walk(case.test) {
            shorten(open, &mut sink, journal.get(), (case, &request.cancel, now))?;
        }
        after = reset_after(open, &mut sink, journal, (request, is_last))?;
        now
    };
    let RunSink { tracing, file, .. } = sink;
    let written = file.map_or(Ok(()), |file| file.finish(now));
    let trace = tracing.trace().map_err(JudgeError::from)?;
    let stopped = trace.stopped.as_ref().map(|stopped| stopped.reason);
    let verdict = judge_trace(trace)?;
    let verdict = match written {
        Ok(()) => verdict,
        // What is not on disk whole cannot be checked by anyone: it is no verdict.
        Err(error) => Verdict {
            outcome: Outcome::Error.into(),
            cause: Cause::Tester.into(),
            reason: format!("the record could not be written: {error}"),
            ..verdict
        },
    };
    Ok((verdict, stopped, after))
}

/// What became of the rig after a test.
enum After {
    /// Nothing was done to it.
    AsItWas,
    /// Its reset command was run, and its device answers.
    Reset,
    /// It is of no use any more, and why.
    Over(String),
}

/// Runs the rig's reset command, if it has one and now is the time: between two tests, and when the device stopped answering.
fn reset_after(
    open: &mut OpenRig,
    sink: &mut RunSink<'_, '_>,
    journal: &mut RunJournal,
    (request, is_last): (&Request, bool),
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
    // A device that answers and is not as it was found stays so: what was done to it is to be seen, not to be reset away.
    if silent.is_empty() && (is_last || is_changed) {
        return Ok(After::AsItWas);
    }
    // The agent and the socket are let go: the reset may take them down.
    open.session = Session::Virtual(VirtualConfig::default());
    let mut reset = reset::command(config, &request.cancel);
    reset.silent = silent;
    reset.after = match verbatim_rig::open(&request.rig.in_run(request.spec.seed), Arc::clone(&request.cancel)) {
        Err(error) => error.to_string(),
        Ok(again) => {
            open.info = again.info;
            let Session::Real(mut rig) = again.session else {
                return Ok(After::Over("its device is another than before the reset".into()));
            };
            let after = reset::found(rig.as_mut(), &open.info, &keys);
            open.session = Session::Real(rig);
            after
        }
    };
    let mut over = None;
    if !reset.after.is_empty() {
        over = Some(format!("the device did not come back by its reset: {}", reset.after));
    } else if let RunJournal::File(journal) = journal {
        let restored = recover_first(&request.rig, open, journal, &mut *sink.report);
        over = restored.err().map(|error| error.to_string());
    }
    if let Session::Real(_) = &open.session
        && let Session::Real(rig) = core::mem::replace(&mut open.session, Session::Virtual(VirtualConfig::default()))
    {
        open.session = Session::Real(Box::new(Leased::new(rig, Arc::clone(&request.lease))));
    }
    sink.put(Entry::Reset(Box::new(reset)));
    Ok(over.map_or(After::Reset, After::Over))
}

fn perform(open: &mut OpenRig, sink: &mut dyn Sink, journal: &mut dyn Journal, case: &Case<'_>) -> Time {
    let info = &open.info;
    match &mut open.session {
        // Each test has a device of its own: its record depends on nothing that ran before.
        Session::Virtual(config) => {
            let mut rig = config.rig();
            let _: Ran = run(&mut rig, info, sink, journal, case);
            rig.now()
        }
        Session::Real(rig) => {
            let _: Ran = run(rig.as_mut(), info, sink, journal, case);
            rig.now()
        }
    }
}

/// A walk that has failed is tried with fewer and fewer of its steps; the shortest that still fails goes into its record.
fn shorten(
    open: &mut OpenRig,
    sink: &mut RunSink<'_, '_>,
    journal: &mut dyn Journal,
    (case, cancel, now): (&Case<'_>, &AtomicBool, Time),
) -> Result<(), RunError> {
    /// How long the tries may take in real time.
    const PATIENCE: Duration = Duration::from_secs(120);
    /// How often a walk is tried on hardware before it counts as one that passes.
    const AGAIN: u32 = 2;
    let whole = judge_trace(sink.tracing.trace().map_err(JudgeError::from)?)?;
    if whole.outcome() != Outcome::Fail {
        return Ok(());
    }
    let simulated = open.info.simulated;
    let is_fresh = matches!(open.session, Session::Virtual(_));
    let begun = now_ns();
    let mut attempt = |given: &[(&str, u64)]| {
        let others = case
            .parameters
            .iter()
            .filter(|(name, _)| given.iter().all(|(other, _)| name != other));
        let given = given.iter().map(|(name, value)| (name.to_string(), *value));
        let part = Case {
            parameters: others.cloned().chain(given).collect(),
            ..case.clone()
        };
        for _ in 0..if simulated { 1 } else { AGAIN } {
            let is_late = !simulated && u128::from(now_ns().saturating_sub(begun)) > PATIENCE.as_nanos();
            if is_late || cancel.load(Ordering::Relaxed) {
                return Try::Stop;
            }
            let mut tracing = Tracing::default();
            perform(open, &mut tracing, journal, &part);
            let trace = tracing.trace().map_err(JudgeError::from);
            let stopped = trace.as_ref().ok().and_then(|trace| trace.stopped.as_ref());
            let stopped = stopped.map(|stopped| stopped.reason);
            match trace.and_then(judge_trace) {
                Ok(verdict) if ends_the_run(&verdict, stopped, (is_fresh, false)).is_some() => return Try::Stop,
                Ok(verdict) if shrink::is_same(&whole, &verdict) => return Try::Fails,
                Ok(_) => {}
                Err(_) => return Try::Stop,
            }
        }
        Try::Passes
    };
    if let Some(text) = shrink::shrink(case, simulated, &mut attempt) {
        let at = Span::exactly(now);
        sink.put(Entry::Note(Note { at, text }));
    }
    Ok(())
}

/// The parameters of the run, and what the rig file says of the device where the run says nothing.
fn parameters(spec: &RunSpec, info: &RigInfo) -> Vec<(String, u64)> {
    let of_rig = info.of_device.iter().cloned();
    let of_rig = of_rig.filter(|(name, _)| !spec.parameters.contains_key(name));
    let given = spec.parameters.iter().map(|(name, value)| (name.clone(), *value));
    given.chain(of_rig).collect()
}

/// Whether the run cannot or, where the first failure ends it, shall not go on after this verdict, and why. Where each
/// test has a device of its own, none leaves anything to the next.
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
        // One odd answer ends its test; who cannot be worked with, or is not alone, is so in the next one too.
        (Outcome::Inconclusive, Cause::Rig) => {
            matches!(stopped, Some(StopReason::NotSane | StopReason::Disturbed))
                && verdict.findings.is_empty()
                && verdict.passed.is_empty()
        }
        _ => false,
    };
    // On a device that is not as it was found, nothing more is known.
    let left = verdict.restored.iter().any(|restored| !restored.is_complete());
    let why = || format!("the run ended at {}: {}", verdict.test, verdict.reason);
    (ends || left).then(|| (StopReason::Skipped, why()))
}

fn pretty<T: Serialize>(of: &T) -> String {
    let mut text = serde_json::to_string_pretty(of).expect("plain data");
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
