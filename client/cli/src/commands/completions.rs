//! `verbatim completions SHELL`: what the shell needs to complete its command lines.

use std::process::ExitCode;

use clap::Command;
use verbatim_manual::{Shell, completions};

use crate::print;

/// Print completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "\
bash: verbatim completions bash > ~/.local/share/bash-completion/completions/verbatim\n\
zsh:  verbatim completions zsh > DIR/_verbatim, DIR being one of $fpath\n\
fish: verbatim completions fish > ~/.config/fish/completions/verbatim.fish\n\
The Debian packages have them in their places.")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    completions(arguments.shell, command, &mut text);
    print::text(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
