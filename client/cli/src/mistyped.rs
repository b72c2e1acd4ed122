//! Suggestions for a mistyped command.

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Replaces clap's suggestion for an unknown command with the nearest command. Returns other errors unchanged.
pub(crate) fn with_the_nearest(mut error: Error, mut root: Command, arguments: impl Iterator<Item = String>) -> Error {
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) if error.kind() == ErrorKind::InvalidSubcommand => typed.clone(),
        _ => return error,
    };
    root.build();
    let mut command = &root;
    for argument in arguments.take_while(|argument| *argument != typed) {
        command = command.find_subcommand(&argument).unwrap_or(command);
    }
    let known = command.get_subcommands().filter(|known| !known.is_hide_set());
    match verbatim_nearest::nearest(&typed, known.map(Command::get_name)) {
        Some(near) => error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(vec![near.into()]),
        ),
        None => error.remove(ContextKind::SuggestedSubcommand),
    };
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        let command = crate::command();
        let words = || line.split(' ').map(String::from);
        let error = command.clone().try_get_matches_from(words()).unwrap_err();
        with_the_nearest(error, command, words().skip(1)).to_string()
    }

    #[test]
    fn suggests_the_nearest_command() {
        for (line, near) in [
            ("verbatim rnu", "'run'"),
            ("verbatim statments", "'statements'"),
            ("verbatim --server none exlpain", "'explain'"),
            ("verbatim runs shwo", "'show'"),
        ] {
            let told = told(line);
            assert!(told.contains(&format!("subcommand exists: {near}\n")), "{line}: {told}");
        }
    }

    #[test]
    fn suggests_no_distant_command() {
        let nothing = told("verbatim rearrange");
        assert!(nothing.contains("unrecognized subcommand 'rearrange'"), "{nothing}");
        assert!(!nothing.contains("exists"), "{nothing}");
        assert!(told("verbatim tests --jsno").contains("'--json'"));
    }
}
