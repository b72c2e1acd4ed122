//! The command line that repeats a run.

use verbatim_text::Command;

use crate::execute::Request;

/// Returns the shell command that repeats this run. The rig must be of kind `virtual`; its keys become options.
#[must_use]
pub fn command(request: &Request) -> String {
    let mut command = Command::new("verbatim --server none run");
    for pattern in &request.spec.patterns {
        command = command.word(pattern);
    }
    command = command.own("--seed").word(request.spec.seed);
    for key in request.rig.keys() {
        command = command.own("--rig-key").word(key);
    }
    for (name, value) in &request.spec.parameters {
        command = command.own("--set").word(format_args!("{name}={value}"));
    }
    command.to_string()
}
