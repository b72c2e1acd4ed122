//! Errors that name the root cause, for people in the message and for programs in the details.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, StatusExt};

use crate::access::Denied;
use crate::sched::{CreateError, Refusal};
use crate::store::StoreError;
use verbatim_run::RunId;

/// The domain of every `ErrorInfo`.
const DOMAIN: &str = "verbatim.v1";

/// A field of a request that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    /// The field, such as `patterns[0]`.
    pub(super) field: String,
    /// What was expected and what was seen.
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
    let metadata: HashMap<String, String> = metadata.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, metadata))
}

/// Wrong fields that an answer names. It travels in headers, which are small.
const MOST_VIOLATIONS: usize = 10;
/// Characters of what is said of one.
const LONGEST: usize = 300;

/// `INVALID_ARGUMENT`: every field that is wrong, not only the first; of very many the first few.
pub(super) fn invalid(mut violations: Vec<Violation>) -> Status {
    let more = violations.len().saturating_sub(MOST_VIOLATIONS);
    violations.truncate(MOST_VIOLATIONS);
    for violation in &mut violations {
        for text in [&mut violation.field, &mut violation.what] {
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                text.truncate(end);
                text.push('…');
            }
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

/// `INVALID_ARGUMENT` for one field.
pub(super) fn invalid_field(field: &str, what: impl Into<String>) -> Status {
    invalid(vec![Violation::new(field, what)])
}

/// `NOT_FOUND`.
pub(super) fn not_found(reason: &str, name: &str, message: &str) -> Status {
    with_info(Code::NotFound, message, reason, &[("name", name)])
}

/// `OUT_OF_RANGE`.
pub(super) fn out_of_range(message: &str) -> Status {
    with_info(Code::OutOfRange, message, "CURSOR_AHEAD", &[])
}

/// `ALREADY_EXISTS`: the request id belongs to another request.
pub(super) fn request_id_reused(request_id: &str, run: &RunId, differs: &str) -> Status {
    let message = format!(
        "request_id {request_id:?} already created runs/{run}, which differs in {differs}; send a new request_id for a \
         new run"
    );
    let run = format!("runs/{run}");
    let metadata = [("run", run.as_str()), ("request_id", request_id), ("differs", differs)];
    with_info(Code::AlreadyExists, &message, "REQUEST_ID_REUSED", &metadata)
}

/// `INTERNAL`.
pub(super) fn internal(message: &str) -> Status {
    with_info(Code::Internal, message, "INTERNAL", &[])
}

/// What the plan does not do.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let (code, reason, subject) = match refusal {
        Refusal::UnknownRig(rig) => (Code::NotFound, "RIG_UNKNOWN", rig.clone()),
        Refusal::Stopping => (Code::Unavailable, "DAEMON_STOPPING", String::new()),
        Refusal::Quarantined { rig, .. } => (Code::FailedPrecondition, "RIG_QUARANTINED", rig.clone()),
        Refusal::Running { rig, .. } | Refusal::Restoring(rig) => (Code::FailedPrecondition, "RIG_BUSY", rig.clone()),
    };
    let message = refusal.to_string();
    let name = format!("rigs/{subject}");
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, HashMap::from([("rig".to_string(), name.clone())]));
    if code == Code::FailedPrecondition {
        details.set_precondition_failure(vec![PreconditionViolation::new(reason, name, message.clone())]);
    }
    Status::with_error_details(code, message, details)
}

/// What somebody may not do.
pub(super) fn denied(denied: &Denied) -> Status {
    let (code, reason) = match denied {
        Denied::Unknown => (Code::Unauthenticated, "UNKNOWN_CALLER"),
        Denied::Nobody { .. } | Denied::Role { .. } => (Code::PermissionDenied, "ROLE_NEEDED"),
        Denied::NotOwner { .. } => (Code::PermissionDenied, "NOT_OWNER"),
    };
    with_info(code, &denied.to_string(), reason, &[])
}

/// What the store cannot do.
pub(super) fn store(error: &StoreError) -> Status {
    let message = error.to_string();
    match error {
        StoreError::Unknown(id) => not_found("RUN_UNKNOWN", &format!("runs/{id}"), &message),
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            with_info(Code::ResourceExhausted, &message, "DISK_FULL", &[])
        }
        StoreError::Damaged { .. } => with_info(Code::DataLoss, &message, "RUN_DAMAGED", &[]),
        StoreError::Io { .. } | StoreError::Exists(_) => with_info(Code::Internal, &message, "STORE_FAILED", &[]),
    }
}

/// Why a run is not created.
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
    fn every_wrong_field_is_named_in_message_and_details() {
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
    fn an_answer_names_few_of_many_wrong_fields_and_shortly() {
        let wrong = |number: usize| Violation::new(format!("patterns[{number}]"), "x".repeat(100_000));
        let status = invalid((0..5000).map(wrong).collect());
        assert!(status.message().len() < 8000 && status.details().len() < 8000);
        assert!(status.message().ends_with("4990 more"), "{}", status.message());
    }

    #[test]
    fn a_quarantine_is_a_failed_precondition_that_names_the_rig_and_the_reason() {
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
