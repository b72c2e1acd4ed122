//! Runs and rigs in the words of the API.

use verbatim_proto::v1::{Rig, RigState, Run, Verdict};

use crate::sched::{Lane, Phase, timestamp};
use crate::store::StoredRun;
use verbatim_rig::RigConfig;
use verbatim_tester::Unrestored;

/// A run. `place` is its place in the queue, 0 when it does not wait.
pub(super) fn run(of: StoredRun, place: u32, verdicts: Vec<Verdict>) -> Run {
    Run {
        name: format!("runs/{}", of.id),
        spec: Some(of.spec),
        state: of.state.into(),
        outcome: of.outcome.unwrap_or_default().into(),
        cause: of.cause.unwrap_or_default().into(),
        reason: of.reason,
        verdicts,
        tests: of.tests,
        info: of.info,
        owner: of.owner.to_string(),
        create_time: Some(timestamp(of.created_ns)),
        start_time: of.started_ns.map(timestamp),
        end_time: of.ended_ns.map(timestamp),
        queue_place: place,
    }
}

/// A rig.
pub(super) fn rig(of: &RigConfig, lane: Option<Lane>, pending: Option<&Unrestored>) -> Rig {
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
        pending_restore: pending.map(Unrestored::in_words).unwrap_or_default(),
    }
}

/// A run as it stands in a list: without the head of its report, its verdicts without checks and observations.
pub(super) fn in_a_list(mut run: Run) -> Run {
    run.info = None;
    for verdict in &mut run.verdicts {
        verdict.findings = Vec::new();
        verdict.passed = Vec::new();
        verdict.observations = Vec::new();
    }
    run
}
