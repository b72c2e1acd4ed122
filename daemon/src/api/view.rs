//! Conversion of runs, rigs and leases to the messages of the API.

use std::sync::Arc;

use prost::Message as _;
use verbatim_catalog::Register;
use verbatim_proto::v1::{Lease, Rig, RigState, Run, Verdict, Waiting};

use super::Shared;
use super::hidden::hide;
use crate::access::{Access, Caller, Identity};
use crate::sched::{LeaseView, Phase, RigSlot, RigSlotView, timestamp};
use crate::store::{Elsewhere, RunEntry};
use verbatim_record::secrets::{Secrets, without_m_keys};
use verbatim_rig::RigConfig;
use verbatim_tester::Unrestored;
use verbatim_text::cut;

/// The longest reason of a run or verdict in an answer, in bytes.
pub(super) const LONGEST_REASON: usize = 16 << 10;

/// The caller for whom a view is made. It tells whether the caller sees the M_Keys of a rig's devices.
#[derive(Clone, Debug)]
pub(super) struct Eyes {
    access: Arc<Access>,
    caller: Caller,
}

impl Eyes {
    pub(super) fn of(shared: &Shared, caller: &Caller) -> Self {
        Self {
            access: Arc::clone(&shared.access),
            caller: caller.clone(),
        }
    }

    /// Returns whether the caller sees a rig now.
    pub(super) fn see(&self, rig: &str) -> bool {
        self.access.view(&self.caller, rig).is_ok()
    }

    /// Returns whether the caller sees M_Keys now. The caller's roles may change.
    pub(super) fn see_keys(&self, rig: &str) -> bool {
        self.access.read(&self.caller, rig).is_ok()
    }
}

/// Converts a run for a caller. `place` is the run's place in the queue, or 0 if the run does not wait. `deviations`
/// are the known deviations of the rig's devices.
pub(super) fn run(kept: RunEntry, place: u32, verdicts: Vec<Verdict>, deviations: &Register, eyes: &Eyes) -> Run {
    let rig = kept.run.spec.rig.clone();
    let run = whole_run(kept, place, verdicts, deviations);
    match eyes.see_keys(&rig) {
        true => run,
        false => hide("Run", &run, &mut Secrets::default()),
    }
}

fn whole_run(kept: RunEntry, place: u32, verdicts: Vec<Verdict>, deviations: &Register) -> Run {
    let of = kept.run;
    let mut reason = of.reason;
    cut(&mut reason, LONGEST_REASON);
    let known_deviations = of.info.as_ref().map_or_else(Vec::new, |info| {
        let known = deviations.known(&info.fingerprint, info.started_ns, &verdicts);
        known.into_iter().map(Into::into).collect()
    });
    Run {
        name: format!("runs/{}", of.id),
        spec: Some(of.spec),
        state: of.state.into(),
        outcome: of.outcome.unwrap_or_default().into(),
        cause: of.cause.unwrap_or_default().into(),
        reason,
        verdicts,
        tests: of.tests,
        info: of.info,
        owner: of.owner.to_string(),
        owner_name: of.owner.in_words(),
        create_time: Some(timestamp(of.created_ns)),
        start_time: of.started_ns.map(timestamp),
        end_time: of.ended_ns.map(timestamp),
        queue_place: place,
        pinned: kept.pinned,
        lease: format!("leases/{}", of.lease),
        purge_time: kept.purged_ns.map(timestamp),
        known_deviations,
    }
}

pub(super) fn rig(of: &RigConfig, slot: Option<(RigSlotView, Option<Identity>)>, pending: Option<&Unrestored>) -> Rig {
    let (view, holder) = slot.unwrap_or_default();
    let (state, state_reason) = view.slot.state();
    let RigSlot {
        phase, holder: lease, ..
    } = view.slot;
    let current_run = match &phase {
        Phase::Running(run) => format!("runs/{run}"),
        _ => String::new(),
    };
    Rig {
        name: format!("rigs/{}", of.name),
        kind: of.kind.name().into(),
        device: of.kind.device(),
        state: state.into(),
        // Operators find the keys in the journal's directory, beside the commands that restore the device.
        state_reason: without_m_keys(&state_reason),
        current_run,
        lease: lease.map(|lease| format!("leases/{lease}")).unwrap_or_default(),
        holder_name: holder.as_ref().map(Identity::in_words).unwrap_or_default(),
        holder: holder.map(|who| who.to_string()).unwrap_or_default(),
        labels: of.all_labels().collect(),
        offers: of.offers_in_words(),
        host: String::new(),
        queue: view.queue.iter().map(|run| format!("runs/{run}")).collect(),
        pending_restore: pending
            .map(Unrestored::in_words)
            .unwrap_or_default()
            .iter()
            .map(|area| without_m_keys(area))
            .collect(),
    }
}

/// Converts a rig of another host. Returns the rig, the host, and whether the host's daemon is running.
pub(super) fn elsewhere(of: Elsewhere) -> (Rig, String, bool) {
    let mut rig = Rig::decode(&of.body[..]).unwrap_or_default();
    rig.name = format!("rigs/{}", of.rig);
    rig.host.clone_from(&of.host);
    if let Some(silent_ns) = of.silent_ns {
        rig.state = RigState::Draining.into();
        rig.state_reason = format!(
            "the daemon of host {} has been silent for {} s; its clients reach it at {}",
            of.host,
            silent_ns / 1_000_000_000,
            of.address
        );
    }
    (rig, of.host, of.silent_ns.is_none())
}

/// Converts a lease for a caller. Leaves out the rigs that the caller does not see.
pub(super) fn lease(mut view: LeaseView, eyes: &Eyes) -> Lease {
    view.lease.rigs.retain(|rig| eyes.see(rig));
    view.holders.retain(|holder| eyes.see(&holder.rig));
    view.closed.retain(|(rig, _)| eyes.see(rig));
    let because = view.because();
    let LeaseView {
        lease: of,
        waits,
        about_to_begin,
        ..
    } = view;
    Lease {
        name: format!("leases/{}", of.id),
        owner: of.owner.to_string(),
        owner_name: of.owner.in_words(),
        state: of.state.into(),
        priority: of.priority.into(),
        candidates: of.rigs,
        rig: of.rig,
        token: of.token,
        lasts_s: of.lasts_s,
        create_time: Some(timestamp(of.created_ns)),
        start_time: of.granted_ns.map(timestamp),
        expire_time: of.until_ns.map(timestamp),
        end_time: of.ended_ns.map(timestamp),
        reason: without_m_keys(&of.reason),
        run: of.run.map(|run| format!("runs/{run}")).unwrap_or_default(),
        waiting: waits.map(|(place, latest)| Waiting {
            place: u32::try_from(place).unwrap_or(u32::MAX),
            because: because.iter().map(|why| without_m_keys(why)).collect(),
            latest: latest.map(timestamp),
            about_to_begin,
        }),
    }
}
