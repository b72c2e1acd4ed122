//! `verbatim completions SHELL`: prints the completion script of a shell.

use std::process::ExitCode;

use verbatim_manual::{Shell, dynamic_completions};

use crate::print;

/// Print completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "\
bash: verbatim completions bash > ~/.local/share/bash-completion/completions/verbatim\n\
zsh:  verbatim completions zsh > DIR/_verbatim, where DIR is in $fpath\n\
fish: verbatim completions fish > ~/.config/fish/completions/verbatim.fish\n\
The completions of rigs, tests, runs and leases are always current.\n\
The Debian packages install the scripts.")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    dynamic_completions(arguments.shell, "verbatim", &mut text)?;
    print::document_of_another_form(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
