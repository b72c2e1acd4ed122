//! A command that is none: which one was meant.

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// The error of arguments whose command is mistyped, with the command that is the nearest, as for tests and statements, in
/// place of what clap takes for similar. Other errors stay as they are.
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
    fn of_commands_the_one_that_a_person_would_take_for_near_is_offered() {
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
    fn nothing_is_offered_where_no_command_is_near_and_other_errors_stay() {
        let nothing = told("verbatim rearrange");
        assert!(nothing.contains("unrecognized subcommand 'rearrange'"), "{nothing}");
        assert!(!nothing.contains("exists"), "{nothing}");
        assert!(told("verbatim tests --jsno").contains("'--json'"));
    }
}
