//! Runs and rigs in the words of the API.

use verbatim_proto::v1::{self, Rig, RigState, Run, Verdict};

use crate::sched::{Journal, Lane, Phase, convert};
use crate::store::StoredRun;
use verbatim_rig::RigConfig;

/// A run. `place` is its place in the queue, 0 when it does not wait.
pub(super) fn run(of: StoredRun, place: u32, verdicts: Vec<Verdict>, report: Option<String>) -> Run {
    Run {
        name: format!("runs/{}", of.id),
        rig: format!("rigs/{}", of.rig),
        patterns: of.patterns,
        parameters: of.parameters,
        seed: of.seed,
        state: convert::state(of.state).into(),
        outcome: convert::outcome(of.outcome).into(),
        cause: convert::cause(of.cause).into(),
        reason: of.reason,
        verdicts,
        tests: of.tests,
        uid: of.uid,
        create_time: Some(convert::timestamp(of.created_ns)),
        start_time: of.started_ns.map(convert::timestamp),
        end_time: of.ended_ns.map(convert::timestamp),
        queue_place: place,
        report_json: report.unwrap_or_default(),
    }
}

/// A rig.
pub(super) fn rig(of: &RigConfig, lane: Option<Lane>, pending: Option<&Journal>) -> Rig {
    let (phase, queue) = lane.map_or((Phase::Idle, Vec::new()), |lane| (lane.phase, lane.queue.into()));
    let (state, state_reason, current_run) = match phase {
        Phase::Idle => (RigState::Idle, String::new(), String::new()),
        Phase::Running(run) => (RigState::Busy, String::new(), format!("runs/{run}")),
        Phase::Restoring => (RigState::Busy, String::new(), String::new()),
        Phase::Quarantined(reason) => (RigState::Quarantined, reason, String::new()),
    };
    Rig {
        name: format!("rigs/{}", of.name),
        kind: of.kind.name().into(),
        device: of.kind.device(),
        state: state.into(),
        state_reason,
        current_run,
        queue: queue.iter().map(|run| format!("runs/{run}")).collect(),
        pending_restore: pending.map(Journal::in_words).unwrap_or_default(),
    }
}

/// A verdict as it stands in a list: without findings.
pub(super) fn in_a_list(verdict: Verdict) -> v1::Verdict {
    v1::Verdict {
        findings: Vec::new(),
        ..verdict
    }
}
