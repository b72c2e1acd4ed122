//! Metrics for a Prometheus server: counters since the daemon's start, and the current states of the rigs.
//!
//! Every series that doesn't belong to a rig exists from the start with value 0, so that `rate()` and `absent()`
//! work. Each label has a bounded set of values. The label `rig` has the names in the rig file. No label names a
//! run, lease, test or user.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use verbatim_proto::v1::{Outcome, RigState};

type Label = [(&'static str, &'static str); 1];
type OfRig = Vec<(&'static str, String)>;

const OUTCOMES: [Outcome; 6] = [
    Outcome::Skipped,
    Outcome::NotApplicable,
    Outcome::Pass,
    Outcome::Inconclusive,
    Outcome::Fail,
    Outcome::Error,
];
const STATES: [RigState; 5] = [
    RigState::Idle,
    RigState::Busy,
    RigState::Quarantined,
    RigState::Draining,
    RigState::Unreachable,
];

/// The current state of a rig.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RigStands {
    /// The rig's state.
    pub state: RigState,
    /// The number of runs that wait for the rig.
    pub waiting: usize,
    /// Whether the device cannot be reached, or the last run ended because of the rig.
    pub unreachable: bool,
}

/// Counters since the daemon's start.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    runs_created: Counter,
    runs_ended: Family<Label, Counter>,
    tests_ended: Family<Label, Counter>,
    waited: Histogram,
    ran: Histogram,
    restores: Family<Label, Counter>,
    worker_failures: Counter,
    handshakes_refused: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        // The bucket bounds range from 0.1 s to about 7 hours.
        let durations = || Histogram::new(exponential_buckets(0.1, 4.0, 10));
        let of = Self {
            registry: Registry::with_prefix("verbatim"),
            runs_created: Counter::default(),
            runs_ended: Family::default(),
            tests_ended: Family::default(),
            waited: durations(),
            ran: durations(),
            restores: Family::default(),
            worker_failures: Counter::default(),
            handshakes_refused: Counter::default(),
        };
        for outcome in OUTCOMES {
            let _there = of.runs_ended.get_or_create(&by_outcome(outcome));
            let _there = of.tests_ended.get_or_create(&by_outcome(outcome));
        }
        for complete in [true, false] {
            let _there = of.restores.get_or_create(&by_result(complete));
        }
        of.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let build = Family::<Label, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        let to = &mut self.registry;
        to.register("build_info", "The daemon's version", build);
        to.register("runs_created", "Runs that were created", self.runs_created.clone());
        to.register("runs_ended", "Runs that ended, by outcome", self.runs_ended.clone());
        to.register("tests_ended", "Tests that ended, by outcome", self.tests_ended.clone());
        let help = "Time from a run's creation to its start";
        to.register_with_unit("run_wait", help, Unit::Seconds, self.waited.clone());
        let help = "Time from a run's start to its end";
        to.register_with_unit("run_duration", help, Unit::Seconds, self.ran.clone());
        let help = "Restores of changed devices, by result; a failed restore is tried again";
        to.register("restores", help, self.restores.clone());
        let help = "Runs whose worker died, hung or could not be started";
        to.register("worker_failures", help, self.worker_failures.clone());
        let help = "TLS handshakes that were refused";
        to.register("handshakes_refused", help, self.handshakes_refused.clone());
        self
    }

    /// Counts a created run.
    pub fn run_created(&self) {
        self.runs_created.inc();
    }

    /// Records the first start of a run. `waited` is the time since the creation of the run.
    pub fn run_begins(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    /// Counts the end of a run. `ran` is the time since its start, if it started.
    pub fn run_ended(&self, outcome: Outcome, ran: Option<Duration>) {
        self.runs_ended.get_or_create(&by_outcome(outcome)).inc();
        if let Some(ran) = ran {
            self.ran.observe(ran.as_secs_f64());
        }
    }

    /// Counts the end of a test.
    pub fn test_ended(&self, outcome: Outcome) {
        self.tests_ended.get_or_create(&by_outcome(outcome)).inc();
    }

    /// Counts a restore of a device, complete or not.
    pub fn restored(&self, complete: bool) {
        self.restores.get_or_create(&by_result(complete)).inc();
    }

    /// Counts a run whose worker failed.
    pub fn worker_failed(&self) {
        self.worker_failures.inc();
    }

    /// Counts a refused TLS handshake.
    pub fn handshake_refused(&self) {
        self.handshakes_refused.inc();
    }

    /// Returns all metrics in the OpenMetrics text format, with the current states of the rigs and the resources of
    /// this process.
    #[must_use]
    pub fn text(&self, rigs: &BTreeMap<String, RigStands>) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = encode_registry(&mut text, &self.registry);
        let _ = encode_registry(&mut text, &of_rigs(rigs));
        let _ = encode_registry(&mut text, &of_process());
        let _ = encode_eof(&mut text);
        text
    }
}

fn by_outcome(outcome: Outcome) -> Label {
    let word = match outcome {
        Outcome::Skipped | Outcome::Unspecified => "skipped",
        Outcome::NotApplicable => "not_applicable",
        Outcome::Pass => "pass",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Fail => "fail",
        Outcome::Error => "error",
    };
    [("outcome", word)]
}

fn by_result(complete: bool) -> Label {
    [("result", if complete { "restored" } else { "failed" })]
}

fn state_word(state: RigState) -> &'static str {
    match state {
        RigState::Idle | RigState::Unspecified => "idle",
        RigState::Busy => "busy",
        RigState::Quarantined => "quarantined",
        RigState::Draining => "draining",
        RigState::Unreachable => "unreachable",
    }
}

fn of_rigs(rigs: &BTreeMap<String, RigStands>) -> Registry {
    let mut registry = Registry::with_prefix("verbatim");
    let (by_state, quarantined) = (Family::<Label, Gauge>::default(), Family::<OfRig, Gauge>::default());
    let (waiting, unreachable) = (Family::<OfRig, Gauge>::default(), Family::<OfRig, Gauge>::default());
    for state in STATES {
        by_state.get_or_create(&[("state", state_word(state))]).set(0);
    }
    for (name, rig) in rigs {
        by_state.get_or_create(&[("state", state_word(rig.state))]).inc();
        let of = vec![("rig", name.clone())];
        let out = i64::from(rig.state == RigState::Quarantined);
        quarantined.get_or_create(&of).set(out);
        let runs = i64::try_from(rig.waiting).unwrap_or(i64::MAX);
        waiting.get_or_create(&of).set(runs);
        unreachable.get_or_create(&of).set(i64::from(rig.unreachable));
    }
    registry.register("rigs", "Rigs, by state", by_state);
    let help = "1 while the rig's device could not be restored";
    registry.register("rig_quarantined", help, quarantined);
    let help = "1 while the rig's device cannot be reached, or after a run that ended because of the rig";
    registry.register("rig_unreachable", help, unreachable);
    registry.register("rig_waiting_runs", "Runs that wait for the rig", waiting);
    registry
}

/// Returns the process metrics under the names that Prometheus client libraries of other languages use. Omits
/// unreadable values.
fn of_process() -> Registry {
    let mut registry = Registry::with_prefix("process");
    if let Some(bytes) = resident() {
        let memory = Gauge::<i64>::default();
        memory.set(bytes);
        registry.register_with_unit("resident_memory", "Resident memory", Unit::Bytes, memory);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        let descriptors = Gauge::<i64>::default();
        descriptors.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        registry.register("open_fds", "Open file descriptors", descriptors);
    }
    registry
}

fn resident() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_exist_from_the_start() {
        let text = Metrics::default().text(&BTreeMap::new());
        for series in [
            "verbatim_runs_created_total 0",
            "verbatim_runs_ended_total{outcome=\"error\"} 0",
            "verbatim_tests_ended_total{outcome=\"not_applicable\"} 0",
            "verbatim_restores_total{result=\"failed\"} 0",
            "verbatim_worker_failures_total 0",
            "verbatim_handshakes_refused_total 0",
            "verbatim_run_wait_seconds_count 0",
            "verbatim_rigs{state=\"quarantined\"} 0",
            "process_open_fds ",
        ] {
            assert!(text.contains(series), "{series}: {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn counts_events_and_rig_states() {
        let metrics = Metrics::default();
        metrics.run_created();
        metrics.run_begins(Duration::from_millis(250));
        metrics.test_ended(Outcome::Fail);
        metrics.run_ended(Outcome::Fail, Some(Duration::from_secs(2)));
        metrics.restored(false);
        let stands = |state, waiting| RigStands {
            state,
            waiting,
            unreachable: waiting == 0,
        };
        let rigs = [
            ("a", stands(RigState::Quarantined, 3)),
            ("b", stands(RigState::Idle, 0)),
        ];
        let text = metrics.text(&rigs.map(|(name, rig)| (name.to_owned(), rig)).into());
        for series in [
            "verbatim_runs_created_total 1",
            "verbatim_runs_ended_total{outcome=\"fail\"} 1",
            "verbatim_runs_ended_total{outcome=\"pass\"} 0",
            "verbatim_run_wait_seconds_sum 0.25",
            "verbatim_run_duration_seconds_sum 2.0",
            "verbatim_restores_total{result=\"failed\"} 1",
            "verbatim_rigs{state=\"quarantined\"} 1",
            "verbatim_rig_quarantined{rig=\"a\"} 1",
            "verbatim_rig_quarantined{rig=\"b\"} 0",
            "verbatim_rig_waiting_runs{rig=\"a\"} 3",
            "verbatim_rig_unreachable{rig=\"a\"} 0",
            "verbatim_rig_unreachable{rig=\"b\"} 1",
        ] {
            assert!(text.contains(series), "{series}: {text}");
        }
    }
}
