//! `verbatim`: tells whether an RDMA device follows the InfiniBand architecture to the letter.

mod commands;
mod exit;
mod print;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "verbatim",
    version,
    about = "Tells whether an RDMA device follows the InfiniBand architecture to the letter",
    after_help = "Results go to stdout, messages to stderr; --json prints one document.\n\
        Exit codes: 0 all judged passed; 1 a FAIL; 2 usage; 3 an ERROR of tester or rig; 4 inconclusive, or nothing judged."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the tests, with the statements that they judge
    Tests(commands::tests::Arguments),
    /// List the rigs of the rig file
    Rigs(commands::rigs::Arguments),
    /// Run tests on a rig (the built-in virtual one by default) and judge them
    Run(commands::run::Arguments),
    /// Judge the record of a run anew, offline
    Judge(commands::judge::Arguments),
    /// Export the record of a run
    Export(commands::export::Arguments),
    /// Test the tests: against sound device models, and against every defect of the device model
    Qualify(commands::qualify::Arguments),
    /// Tell what this machine offers and what it lacks
    Doctor(commands::doctor::Arguments),
}

fn main() -> ExitCode {
    // A closed pipe (`verbatim run | head`) must end this process, not make it panic.
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Tests(arguments) => commands::tests::run(&arguments),
        Command::Rigs(arguments) => commands::rigs::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Judge(arguments) => commands::judge::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Qualify(arguments) => commands::qualify::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) if print::is_closed_pipe(&error) => ExitCode::from(exit::ERROR),
        Err(error) => {
            eprintln!("verbatim: {}", print::in_words(&error));
            ExitCode::from(exit::of_error(&error))
        }
    }
}
