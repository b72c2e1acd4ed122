//! Man pages and completions of a program, from the definition of its command line: nobody writes them twice.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
pub use clap_complete::Shell;

/// Names the directory that the pages and completions go into; whoever packages the programs sets it.
pub const VARIABLE: &str = "VERBATIM_MANUAL";

/// Where each shell looks for completions, below `/usr/share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/vendor-completions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// Writes them, and only them, where the environment asks for it: then the program ends with what is returned.
#[must_use]
pub fn asked(command: impl FnOnce() -> Command) -> Option<ExitCode> {
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

/// Writes the completions of one shell.
pub fn completions(shell: Shell, mut command: Command, out: &mut dyn io::Write) {
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, out);
}

fn from(value: Option<OsString>) -> Option<PathBuf> {
    value.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Writes a page for the program and one for each command that is not hidden (`man/man1`), and the completions of bash, zsh
/// and fish, below `directory` as they lie below `/usr/share`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(mut command: Command, directory: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let pages = directory.join("man/man1");
    fs::create_dir_all(&pages)?;
    // First: the other builds the command, and a built one has a page for `help` of each.
    clap_mangen::generate_to(command.clone(), &pages)?;
    for (shell, place) in SHELLS {
        let place = directory.join(place);
        fs::create_dir_all(&place)?;
        clap_complete::generate_to(shell, &mut command, &name, &place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_is_shown_has_a_page_and_each_shell_its_completions() {
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
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn an_empty_variable_asks_for_nothing() {
        assert_eq!(from(Some("".into())), None);
        assert_eq!(from(Some("/x".into())), Some("/x".into()));
    }
}
