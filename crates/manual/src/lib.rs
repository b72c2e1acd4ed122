//! Man pages and completions of a program, generated from the definition of its command line.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::env::{CompleteEnv, Shells};
pub use clap_complete::{ArgValueCompleter, CompletionCandidate, Shell};

/// Environment variable with the directory for pages and completions, for packagers.
pub const VARIABLE: &str = "VERBATIM_MANUAL";

/// Environment variable that requests completions. Scripts of [`dynamic_completions`] set it.
const COMPLETES: &str = "VERBATIM_COMPLETE";

/// Directory and file name of the completions of the program NAME for each shell, below `/usr/share`.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "NAME.bash"),
    (Shell::Zsh, "zsh/vendor-completions", "_NAME"),
    (Shell::Fish, "fish/vendor_completions.d", "NAME.fish"),
];

/// Handles a request in the environment variables: writes pages and completions, or completes a word for a shell.
/// If `asked` returns an exit code, the program must end with this code.
#[must_use]
pub fn asked(command: fn() -> Command) -> Option<ExitCode> {
    CompleteEnv::with_factory(command).var(COMPLETES).complete();
    let directory = from(std::env::var_os(VARIABLE))?;
    match write(command(), &directory) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!(
                "{VARIABLE}={}: {error}; name a directory that can be written",
                directory.display()
            );
            Some(ExitCode::FAILURE)
        }
    }
}

/// Writes the completion script of one shell. The script calls the program for each word, and the program responds in
/// [`asked`].
///
/// # Errors
/// When the output cannot be written.
pub fn dynamic_completions(shell: Shell, program: &str, out: &mut dyn io::Write) -> io::Result<()> {
    let shells = Shells::builtins();
    let of = shells.completer(&shell.to_string());
    let of = of.ok_or_else(|| io::Error::other(format!("there are no completions for {shell}")))?;
    of.write_registration(COMPLETES, program, program, program, out)
}

/// Returns the manual page of a subcommand of a program, such as `["runs", "watch"]`. Returns `None` if there is no
/// such command.
///
/// # Errors
/// When the page cannot be written.
pub fn page(mut program: Command, command: &[&str]) -> io::Result<Option<Vec<u8>>> {
    program.build();
    let mut of = Some(&program);
    for word in command {
        of = of.and_then(|of| of.find_subcommand(word));
    }
    let mut out = Vec::new();
    match of {
        None => Ok(None),
        Some(of) => clap_mangen::Man::new(of.clone()).render(&mut out).map(|()| Some(out)),
    }
}

/// Writes a page for the program and for each visible command to a directory, which is created if absent.
///
/// # Errors
/// When a file cannot be written.
pub fn pages(program: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(program, directory)
}

fn from(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Writes pages for the program and each visible command (`man/man1`), and completions for bash, zsh and fish. The
/// layout below `directory` is that of `/usr/share`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(command: Command, directory: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    pages(command, &directory.join("man/man1"))?;
    for (shell, place, file) in SHELLS {
        let place = directory.join(place);
        fs::create_dir_all(&place)?;
        let mut out = Vec::new();
        dynamic_completions(shell, &name, &mut out)?;
        fs::write(place.join(file.replace("NAME", &name)), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_commands_get_pages_and_completions() {
        let place = std::env::temp_dir().join(format!("verbatim-manual-{}", std::process::id()));
        let command = Command::new("prog")
            .subcommand(Command::new("shown").about("Does it"))
            .subcommand(Command::new("secret").hide(true));
        write(command, &place).unwrap();
        let has = |path: &str| place.join(path).is_file();
        assert!(has("man/man1/prog.1") && has("man/man1/prog-shown.1"));
        assert!(!has("man/man1/prog-secret.1") && !has("man/man1/prog-help.1"));
        assert!(has("bash-completion/completions/prog.bash") && has("zsh/vendor-completions/_prog"));
        assert!(has("fish/vendor_completions.d/prog.fish"));
        let page = fs::read_to_string(place.join("man/man1/prog-shown.1")).unwrap();
        assert!(page.contains("Does it"), "{page}");
        let bash = fs::read_to_string(place.join("bash-completion/completions/prog.bash")).unwrap();
        assert!(
            bash.contains("VERBATIM_COMPLETE=\"bash\"") && bash.contains("\"prog\" --"),
            "{bash}"
        );
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn page_belongs_to_the_named_command() {
        let program =
            || Command::new("prog").subcommand(Command::new("one").subcommand(Command::new("two").about("Does two")));
        let of = |words: &[&str]| {
            let page = page(program(), words).unwrap();
            page.map(|page| String::from_utf8(page).unwrap())
        };
        assert!(of(&["one", "two"]).unwrap().contains("Does two"));
        assert!(of(&[]).unwrap().contains("prog") && of(&["three"]).is_none());
    }

    #[test]
    fn empty_variable_requests_nothing() {
        assert_eq!(from(Some("".into())), None);
        assert_eq!(from(Some("/x".into())), Some("/x".into()));
    }
}
