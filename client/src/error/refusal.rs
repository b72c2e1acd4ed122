//! The refusal of a server: its message and its rich error details.

use core::fmt;

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A server's refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The gRPC code.
    pub code: Code,
    /// Message of the server.
    pub message: String,
    /// Constant for programs, such as "RIG_QUARANTINED"; empty if the server sent none.
    pub reason: String,
    /// The invalid parts of the request or of the server's state, each with a description.
    pub violations: Vec<(String, String)>,
    /// Remedies.
    pub help: Vec<String>,
}

impl Refusal {
    pub(crate) fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let fields = details.bad_request().into_iter().flat_map(|bad| {
            bad.field_violations
                .iter()
                .map(|wrong| (wrong.field.clone(), wrong.description.clone()))
        });
        let states = details.precondition_failure().into_iter().flat_map(|failure| {
            failure
                .violations
                .iter()
                .map(|wrong| (wrong.subject.clone(), wrong.description.clone()))
        });
        let resource = details
            .resource_info()
            .map(|resource| (resource.resource_name.clone(), resource.description.clone()));
        let help = details.help().into_iter().flat_map(|help| {
            help.links.iter().map(|link| {
                if link.url.is_empty() {
                    link.description.clone()
                } else {
                    format!("{} ({})", link.description, link.url)
                }
            })
        });
        Self {
            code: status.code(),
            message: status.message().into(),
            reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
            violations: fields.chain(states).chain(resource).collect(),
            help: help.collect(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A server may omit the message or a description. A text that occurs twice is printed once.
        let mut said = if self.message.is_empty() {
            format!("{:?}", self.code)
        } else {
            self.message.clone()
        };
        for (subject, what) in &self.violations {
            if !what.is_empty() && !said.contains(what.as_str()) {
                said.push_str(&format!("; {subject}: {what}"));
            }
        }
        for help in &self.help {
            if !said.contains(help.as_str()) {
                said.push_str(&format!("; {help}"));
            }
        }
        f.write_str(&said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    #[test]
    fn refusal_prints_each_detail_once() {
        let mut details = ErrorDetails::new();
        details
            .add_bad_request_violation("rig", "there is no rig \"nope\"")
            .add_bad_request_violation("seed", "must fit in 64 bits")
            .set_error_info("RIG_UNKNOWN", "verbatim", std::collections::HashMap::new())
            .add_help_link("see `verbatim rigs`", "");
        let status = Status::with_error_details(Code::InvalidArgument, "there is no rig \"nope\"", details);
        let refusal = Refusal::of(&status);
        assert_eq!(refusal.reason, "RIG_UNKNOWN");
        assert_eq!(
            refusal.to_string(),
            "there is no rig \"nope\"; seed: must fit in 64 bits; see `verbatim rigs`"
        );
    }
}
