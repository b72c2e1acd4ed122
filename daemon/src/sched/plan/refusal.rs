//! Refusals of the plan.

use std::time::Duration;

use verbatim_run::RunId;

use crate::access::Identity;
use crate::store::LeaseId;

/// Why the plan refuses a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such rig.
    #[error("there is no rig {0:?}")]
    UnknownRig(String),
    /// The rig file no longer has the rig, which stays only until its device is restored.
    #[error(
        "rig {0} is no longer in the rig file, and stays only until its device is restored; add it there again, or \
         restore it: verbatim rigs restore {0}"
    )]
    LeftOver(String),
    /// The daemon is stopping.
    #[error("the daemon is stopping: it takes no more runs; try again when it is back")]
    Stopping,
    /// The rig is quarantined.
    #[error("rig {rig} is quarantined: {reason}")]
    Quarantined {
        /// The rig.
        rig: String,
        /// The reason, and what to do.
        reason: String,
    },
    /// A run is running on the rig.
    #[error(
        "rig {rig} is busy: run {run} is under way, and restores the device itself when it ends; wait for it or cancel it"
    )]
    Running {
        /// The rig.
        rig: String,
        /// The run.
        run: RunId,
    },
    /// A restore is running on the rig.
    #[error("rig {0} is busy: the daemon is already restoring its device; try again after the restore")]
    Restoring(String),
    /// The lease has ended, or is about to end.
    #[error("lease {0} has ended; reserve the rig again")]
    LeaseOver(LeaseId),
    /// The lease has no rig yet.
    #[error("lease {0} has no rig yet; `verbatim leases` says why, `verbatim reserve --attach {0}` waits for it")]
    LeaseWaits(LeaseId),
    /// A lease that was made for a run cannot be ended.
    #[error("lease {lease} was made for run {run}, and ends with it; cancel the run: verbatim runs cancel {run}")]
    LeaseOfRun {
        /// The lease.
        lease: LeaseId,
        /// The run.
        run: RunId,
    },
    /// A lease that was made for a run cannot be renewed, and takes no other run.
    #[error(
        "lease {lease} was made for run {run}, and ends with it: it cannot be renewed, and takes no other run; reserve \
         the rig instead (`verbatim reserve`)"
    )]
    OnlyForRun {
        /// The lease.
        lease: LeaseId,
        /// The run.
        run: RunId,
    },
    /// The limit on leases and waiting runs is reached.
    #[error(
        "{whose} {most} leases and runs that have not ended, which is the limit; end or cancel some (`verbatim \
         leases`, `verbatim runs`), or wait"
    )]
    TooMany {
        /// The beginning of the message, such as "uid:7 has".
        whose: String,
        /// The limit.
        most: usize,
    },
    /// The waiting leases of one identity for a rig would last too long.
    #[error(
        "{who} already waits for {hours} h of rig {rig}, and may wait for at most {most_h} h; end some of the leases \
         (`verbatim leases`), ask for less time, or wait"
    )]
    TooLongQueue {
        /// The identity.
        who: String,
        /// The rig.
        rig: String,
        /// The hours that its waiting leases last, rounded up.
        hours: u64,
        /// The limit in hours.
        most_h: u64,
    },
    /// The lease would last too long.
    #[error("a lease lasts at most {most_s} s after its grant; renew this lease for at most {left_s} s")]
    TooLong {
        /// The longest duration of a lease, in seconds.
        most_s: u64,
        /// The seconds left until that limit.
        left_s: u64,
    },
}

/// Checks that an identity with the waiting leases `reserved` may reserve each of `rigs` for another `lasts`. The
/// waiting leases for one rig may last at most `most` in total. One lease is always accepted.
///
/// # Errors
/// [`Refusal::TooLongQueue`].
pub fn has_hours<'l>(
    who: &Identity,
    reserved: impl Iterator<Item = (&'l [String], Duration)> + Clone,
    (rigs, lasts): (&[String], Duration),
    most: Duration,
) -> Result<(), Refusal> {
    for rig in rigs {
        let of_rig = reserved.clone().filter(|(rigs, _)| rigs.contains(rig));
        let waits_for: Duration = of_rig.map(|(_, lasts)| lasts).sum();
        // If no other lease waits, the lease may be longer than the limit.
        if !waits_for.is_zero() && waits_for + lasts > most {
            return Err(Refusal::TooLongQueue {
                who: who.in_words(),
                rig: rig.clone(),
                hours: waits_for.as_secs().div_ceil(3600),
                most_h: most.as_secs() / 3600,
            });
        }
    }
    Ok(())
}
