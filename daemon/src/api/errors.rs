//! Error statuses. The message names the root cause for people, and the details name it for programs.

use std::collections::HashMap;
use std::path::Path;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use crate::access::{Denied, Identity};
use crate::sched::{CreateError, NotReloaded, Refusal};
use crate::store::StoreError;
use verbatim_record::secrets::without_m_keys;
use verbatim_run::RunId;

const DOMAIN: &str = "verbatim.v1";

/// An invalid field of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// The field, such as `patterns[0]`.
    pub(super) field: String,
    /// The expected value and the value in the request.
    pub(super) what: String,
}

impl Violation {
    pub(super) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            what: what.into(),
        }
    }
}

fn with_info(code: Code, message: &str, reason: &str, metadata: &[(&str, &str)]) -> Status {
    let metadata: HashMap<String, String> = metadata
        .iter()
        .map(|(name, value)| ((*name).into(), at_most(LONGEST, value)))
        .collect();
    let message = at_most(LONGEST_MESSAGE, message);
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, metadata))
}

/// The maximum number of invalid fields in a response. The status travels in HTTP headers, which must stay small.
const MOST_VIOLATIONS: usize = 10;
/// The maximum length in characters of a name, or of the text about a field.
const LONGEST: usize = 300;
/// The maximum length of a message in characters. It is this large because the message of a quarantine names each
/// area that is not restored.
const LONGEST_MESSAGE: usize = 2000;

/// Cuts a text to this many characters, because a client may have sent a longer text. Also hides M_Keys, which the
/// reason of a quarantine may contain.
fn at_most(characters: usize, text: &str) -> String {
    let text = &*without_m_keys(text);
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Returns `INVALID_ARGUMENT` with the first [`MOST_VIOLATIONS`] invalid fields, and the number of the other fields.
pub(super) fn invalid(mut violations: Vec<Violation>) -> Status {
    let more = violations.len().saturating_sub(MOST_VIOLATIONS);
    violations.truncate(MOST_VIOLATIONS);
    for violation in &mut violations {
        for text in [&mut violation.field, &mut violation.what] {
            *text = at_most(LONGEST, text);
        }
    }
    if more > 0 {
        violations.push(Violation::new("…", format!("{more} more")));
    }
    let message: Vec<String> = violations.iter().map(|v| format!("{}: {}", v.field, v.what)).collect();
    let fields: Vec<FieldViolation> = violations
        .into_iter()
        .map(|v| FieldViolation::new(v.field, v.what))
        .collect();
    let mut details = ErrorDetails::with_bad_request(fields);
    details.set_error_info("INVALID_REQUEST", DOMAIN, HashMap::new());
    Status::with_error_details(Code::InvalidArgument, message.join("; "), details)
}

/// Returns `INVALID_ARGUMENT` for one field.
pub(super) fn invalid_field(field: &str, what: impl Into<String>) -> Status {
    invalid(vec![Violation::new(field, what)])
}

pub(super) fn not_found(reason: &str, name: &str, message: &str) -> Status {
    with_info(Code::NotFound, message, reason, &[("name", name)])
}

/// Returns `OUT_OF_RANGE`: the cursor of a watch is after the last event.
pub(super) fn out_of_range(message: &str) -> Status {
    with_info(Code::OutOfRange, message, "CURSOR_AHEAD", &[])
}

/// Returns `ALREADY_EXISTS`: the request id belongs to another request.
pub(super) fn request_id_reused(request_id: &str, (kind, name): (&str, &str), differs: &str) -> Status {
    let message = format!(
        "request_id {request_id:?} already created {name}, which differs in {differs}; send a new request_id for a \
         new {kind}"
    );
    let metadata = [(kind, name), ("request_id", request_id), ("differs", differs)];
    with_info(Code::AlreadyExists, &message, "REQUEST_ID_REUSED", &metadata)
}

/// Returns `FAILED_PRECONDITION`: the files of a run are on another host.
pub(super) fn elsewhere(run: &RunId, host: &str) -> Status {
    let message = format!(
        "the files of runs/{run} are on host {host}: ask its daemon for them; `verbatim rigs` names the rigs of each host"
    );
    with_info(Code::FailedPrecondition, &message, "RUN_ELSEWHERE", &[("host", host)])
}

/// Returns `RESOURCE_EXHAUSTED`: too many response streams are open, of this identity or in total.
pub(super) fn too_many_streams(who: &Identity, own: usize) -> Status {
    let message = format!(
        "too many responses are open, {own} of them for {who}: close some that follow runs, rigs or leases, or that \
         read files, and try again"
    );
    with_info(Code::ResourceExhausted, &message, "TOO_MANY_STREAMS", &[])
}

/// Returns `UNAVAILABLE`: the response stream ended early because the client stalled.
pub(super) fn too_slow(patience: std::time::Duration) -> Status {
    let message = format!(
        "the client read nothing of this response for {} s, so the daemon ended it; ask again, for a run from its last \
         cursor",
        patience.as_secs()
    );
    with_info(Code::Unavailable, &message, "READER_TOO_SLOW", &[])
}

pub(super) fn internal(message: &str) -> Status {
    with_info(Code::Internal, message, "INTERNAL", &[])
}

/// Converts a refusal of the plan.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let (code, reason, subject) = match refusal {
        Refusal::UnknownRig(rig) => (Code::NotFound, "RIG_UNKNOWN", rig.clone()),
        Refusal::LeftOver(rig) => (Code::FailedPrecondition, "RIG_LEFT_OVER", rig.clone()),
        Refusal::Stopping => (Code::Unavailable, "DAEMON_STOPPING", String::new()),
        Refusal::Quarantined { rig, .. } => (Code::FailedPrecondition, "RIG_QUARANTINED", rig.clone()),
        Refusal::LeaseOver(lease) => (Code::FailedPrecondition, "LEASE_ENDED", lease.to_string()),
        Refusal::LeaseWaits(lease) => (Code::FailedPrecondition, "LEASE_PENDING", lease.to_string()),
        Refusal::LeaseOfRun { lease, .. } | Refusal::OnlyForRun { lease, .. } => {
            (Code::FailedPrecondition, "LEASE_OF_RUN", lease.to_string())
        }
        Refusal::TooMany { .. } => (Code::ResourceExhausted, "TOO_MANY", String::new()),
        Refusal::TooLongQueue { rig, .. } => (Code::ResourceExhausted, "TOO_MANY_HOURS", rig.clone()),
        Refusal::TooLong { .. } => (Code::OutOfRange, "LEASE_TOO_LONG", String::new()),
        Refusal::Running { rig, .. } | Refusal::Restoring(rig) => (Code::FailedPrecondition, "RIG_BUSY", rig.clone()),
    };
    let message = at_most(LONGEST_MESSAGE, &refusal.to_string());
    let subject = at_most(LONGEST, &subject);
    let kind = if reason.starts_with("LEASE") { "lease" } else { "rig" };
    let name = format!("{kind}s/{subject}");
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, HashMap::from([(kind.to_string(), name.clone())]));
    if code == Code::FailedPrecondition {
        details.set_precondition_failure(vec![PreconditionViolation::new(reason, name, message.clone())]);
    }
    Status::with_error_details(code, message, details)
}

/// Converts a failed reload of the rig file: `FAILED_PRECONDITION`, or the error of the store.
pub(super) fn not_reloaded(error: &NotReloaded) -> Status {
    let reason = match error {
        NotReloaded::InUse(_) => "RIG_IN_USE",
        NotReloaded::Store(StoreError::RigOfAnother { .. }) | NotReloaded::File(_) | NotReloaded::OneDevice(..) => {
            "RIG_FILE_WRONG"
        }
        NotReloaded::Store(error) => return store(error),
    };
    with_info(Code::FailedPrecondition, &error.to_string(), reason, &[])
}

/// Converts a denied access.
pub(super) fn denied(denied: &Denied) -> Status {
    let (code, reason) = match denied {
        Denied::Unknown => (Code::Unauthenticated, "UNKNOWN_CALLER"),
        Denied::Nobody { .. } | Denied::Role { .. } => (Code::PermissionDenied, "ROLE_NEEDED"),
        Denied::NotOwner { .. } => (Code::PermissionDenied, "NOT_OWNER"),
    };
    with_info(code, &denied.to_string(), reason, &[])
}

/// Converts an error of the store.
pub(crate) fn store(error: &StoreError) -> Status {
    // A client learns the name of a file, but not its directory, which may name a rig that the client does not see.
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let message = match error {
        StoreError::Io { path, .. } | StoreError::Damaged { path, .. } | StoreError::OtherVersion { path, .. } => {
            tracing::error!("{error}");
            error.to_string().replace(&path.display().to_string(), &name(path))
        }
        _ => error.to_string(),
    };
    match error {
        StoreError::Unknown(id) => not_found("RUN_UNKNOWN", &format!("runs/{id}"), &message),
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            with_info(Code::ResourceExhausted, &message, "DISK_FULL", &[])
        }
        StoreError::Damaged { .. } => with_info(Code::DataLoss, &message, "RUN_DAMAGED", &[]),
        StoreError::NoLease(id) => not_found("LEASE_UNKNOWN", &format!("leases/{id}"), &message),
        StoreError::Pinned(_) => with_info(Code::FailedPrecondition, &message, "RUN_PINNED", &[]),
        StoreError::Unfinished(_) => with_info(Code::FailedPrecondition, &message, "RUN_UNFINISHED", &[]),
        StoreError::Away { .. } => with_info(Code::Unavailable, &message, "STORE_AWAY", &[]),
        StoreError::Io { .. }
        | StoreError::Exists(_)
        | StoreError::Held(_)
        | StoreError::Taken(_)
        | StoreError::TwoHosts { .. }
        | StoreError::RigOfAnother { .. }
        | StoreError::OtherVersion { .. } => with_info(Code::Internal, &message, "STORE_FAILED", &[]),
    }
}

/// Converts a failed creation of a run or lease.
pub(super) fn create(error: &CreateError) -> Status {
    match error {
        CreateError::Refused(refusal) => refused(refusal),
        CreateError::Store(error) => store(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_every_invalid_field() {
        let status = invalid(vec![
            Violation::new("rig", "no such"),
            Violation::new("patterns[1]", "nothing"),
        ]);
        assert_eq!(status.message(), "rig: no such; patterns[1]: nothing");
        let details = status.get_error_details();
        let fields: Vec<_> = details
            .bad_request()
            .unwrap()
            .field_violations
            .iter()
            .map(|v| v.field.as_str())
            .collect();
        assert_eq!(fields, ["rig", "patterns[1]"]);
        assert_eq!(details.error_info().unwrap().reason, "INVALID_REQUEST");
    }

    #[test]
    fn status_limits_invalid_fields() {
        let wrong = |number: usize| Violation::new(format!("patterns[{number}]"), "x".repeat(100_000));
        let status = invalid((0..5000).map(wrong).collect());
        assert!(status.message().len() < 8000 && status.details().len() < 8000);
        assert!(status.message().ends_with("4990 more"), "{}", status.message());
    }

    #[test]
    fn status_size_is_bounded() {
        let long = "é".repeat(4_000_000);
        for status in [
            not_found("RUN_UNKNOWN", &long, &long),
            refused(&Refusal::UnknownRig(long.clone())),
            denied(&Denied::NotOwner {
                who: crate::access::Identity::User(1),
                what: long.clone(),
                owner: long.clone(),
            }),
        ] {
            let size = status.message().len() + status.details().len();
            assert!(size < 16_000 && status.message().ends_with('…'), "{size}");
        }
    }

    #[test]
    fn quarantine_is_failed_precondition() {
        let status = refused(&Refusal::Quarantined {
            rig: "b".into(),
            reason: "locked".into(),
        });
        assert_eq!(status.code(), Code::FailedPrecondition);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["rig"], "rigs/b");
        assert!(
            details.precondition_failure().unwrap().violations[0]
                .description
                .contains("locked")
        );
    }
}
