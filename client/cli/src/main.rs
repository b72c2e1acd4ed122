//! The program `verbatim`: tests whether an RDMA device follows the InfiniBand architecture to the letter.

mod commands;
mod complete;
mod exit;
mod mistyped;
mod print;
mod server;

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "verbatim",
    version,
    about = "Tells whether an RDMA device follows the InfiniBand architecture to the letter",
    after_help = "Results go to stdout, messages to stderr; --json prints one document.\n\
        Exit codes: 0 all judged tests passed; 1 a FAIL; 2 usage; 3 an ERROR of tester or rig; 4 inconclusive, or no \
        test judged."
)]
struct Arguments {
    #[command(flatten)]
    server: server::Arguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the tests, with the statements that they judge
    Tests(commands::tests::Arguments),
    /// List the compliance statements that tests judge, or show the requirements of some statements
    Statements(commands::statements::Arguments),
    /// List the rigs, or restore the changes that an earlier run left on a rig
    Rigs(commands::rigs::Arguments),
    /// Reserve a rig for exclusive use
    Reserve(commands::leases::Reserve),
    /// List the leases of rigs, renew a lease, or end it
    Leases(commands::leases::Arguments),
    /// Run tests on a rig (the built-in virtual one by default) and judge them
    Run(Box<commands::run::Arguments>),
    /// List, show, follow and stop the runs of a daemon, and read their files
    Runs(commands::runs::Arguments),
    /// Show the verdicts and measured values of a rig over its runs, by firmware version of the device
    Trend(commands::trend::Arguments),
    /// Judge the record of a run anew, offline
    Judge(commands::judge::Arguments),
    /// Check that a record is whole and unaltered, and that its verdicts follow from it
    Verify(commands::verify::Arguments),
    /// Sign a record, so that others can verify with the public key that it is yours
    Sign(commands::sign::Arguments),
    /// Report on a run: HTML, Markdown, JUnit, TAP
    Report(commands::report::Arguments),
    /// Explain findings: list them, or show premise, stimulus, answer and statement of one
    Explain(commands::explain::Arguments),
    /// Export the record of a run
    Export(commands::export::Arguments),
    /// Judge the packets of a capture: which packets a conforming port accepts or discards, and why
    Inspect(commands::inspect::Arguments),
    /// Check the tests against sound device models, and against every defect of the device model
    Qualify(commands::qualify::Arguments),
    /// Show which rules and tests judge each statement, how often, and on which rigs
    Coverage(commands::coverage::Arguments),
    /// Make certificates for daemons and agents on other hosts, and for their clients
    Pki(commands::pki::Arguments),
    /// Check this machine: list usable and missing parts, with remedies
    Doctor(commands::doctor::Arguments),
    /// Print completions for a shell: bash, zsh, fish
    Completions(commands::completions::Arguments),
    /// Show the manual page of a command, or write all pages
    Man(commands::man::Arguments),
}

/// Commands that never use a daemon. Their help omits the options of a connection.
const WITHOUT_A_DAEMON: [&str; 10] = [
    "judge",
    "verify",
    "sign",
    "export",
    "inspect",
    "qualify",
    "coverage",
    "pki",
    "completions",
    "man",
];

/// Builds the command line.
fn command() -> clap::Command {
    let mut command = <Arguments as clap::CommandFactory>::command();
    let hidden: Vec<clap::Arg> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.clone().hide(true))
        .collect();
    for name in WITHOUT_A_DAEMON {
        command = command.mut_subcommand(name, |of| {
            let own: Vec<clap::Id> = of.get_arguments().map(|own| own.get_id().clone()).collect();
            of.args(hidden.iter().filter(|hidden| !own.contains(hidden.get_id())))
        });
    }
    complete::completed(command)
}

fn main() -> ExitCode {
    if let Some(done) = verbatim_manual::asked(command) {
        return done;
    }
    let parsed = command().try_get_matches();
    let parsed =
        parsed.and_then(|matches| Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command())));
    let arguments = parsed.unwrap_or_else(|error| {
        let words: Vec<String> = std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let named = words
            .iter()
            .find_map(|word| command().find_subcommand(word).map(|it| it.get_name() == "run"));
        let error = mistyped::with_the_nearest(error, command(), words.iter().cloned());
        if error.use_stderr() && named == Some(true) {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
            if let Err(error) = commands::run::report_usage_error(&words, why) {
                print::note(format_args!("verbatim: {}", verbatim_text::in_words(&*error)));
            }
        }
        error.exit()
    });
    let finder = server::Finder(&arguments.server);
    let place = || finder.place();
    let done = match arguments.command {
        Command::Tests(arguments) => place().and_then(|place| commands::tests::run(&arguments, &place)),
        Command::Statements(arguments) => place().and_then(|place| commands::statements::run(&arguments, &place)),
        Command::Rigs(arguments) => commands::rigs::run(&arguments, place),
        Command::Reserve(arguments) => place().and_then(|place| commands::leases::reserve(&arguments, &place)),
        Command::Leases(arguments) => place().and_then(|place| commands::leases::run(arguments, &place)),
        Command::Run(mut arguments) => commands::run::run(&mut arguments, place),
        Command::Runs(arguments) => commands::runs::run(arguments, finder),
        Command::Trend(arguments) => place().and_then(|place| commands::trend::run(&arguments, &place)),
        Command::Judge(arguments) => commands::judge::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Sign(arguments) => commands::sign::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments, finder),
        Command::Explain(arguments) => commands::explain::run(&arguments, finder),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Inspect(arguments) => commands::inspect::run(&arguments),
        Command::Qualify(arguments) => commands::qualify::run(&arguments),
        Command::Coverage(arguments) => commands::coverage::run(&arguments),
        Command::Pki(arguments) => commands::pki::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Man(arguments) => commands::man::run(&arguments, command()),
        Command::Doctor(arguments) => commands::doctor::run(&arguments, place),
    };
    match done {
        Ok(code) => code,
        // A closed pipe (`verbatim run | head`) ends this process without a panic.
        Err(error) if print::is_closed_pipe(&error) => ExitCode::from(exit::ERROR),
        Err(error) => {
            print::note(format_args!("verbatim: {}", verbatim_text::in_words(&*error)));
            ExitCode::from(exit::of_error(&error))
        }
    }
}
