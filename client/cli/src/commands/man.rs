//! `verbatim man`: manual pages, generated from the definition of the command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command as Process, ExitCode, Stdio};

use anyhow::Context;
use clap::Command;

use crate::exit::Usage;
use crate::print;

/// Show the manual page of a command.
#[derive(clap::Args)]
#[command(
    after_help = "For a program of `cargo install`: verbatim man --dir ~/.cargo/share/man/man1\n\
The Debian packages install the pages."
)]
pub(crate) struct Arguments {
    /// The command, such as `runs watch`; by default the program itself
    command: Vec<String>,
    /// Write the pages of all commands into a directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &arguments.dir {
        verbatim_manual::pages(command, directory).with_context(|| format!("--dir {}", directory.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let words: Vec<&str> = arguments.command.iter().map(String::as_str).collect();
    let page = verbatim_manual::page(command, &words)?.ok_or_else(|| {
        let words = words.join(" ");
        Usage(format!(
            "there is no command {words:?}; `verbatim --help` lists the commands"
        ))
    })?;
    if !print::is_terminal() || !shown(&page) {
        print::document_of_another_form(&String::from_utf8_lossy(&page))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a page with man(1). Returns false if man fails.
fn shown(page: &[u8]) -> bool {
    let Ok(mut man) = Process::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    // Ignore the write error: the user may quit the pager early.
    let written = man.stdin.take().map(|mut stdin| stdin.write_all(page));
    drop(written);
    man.wait().is_ok_and(|status| status.success())
}
