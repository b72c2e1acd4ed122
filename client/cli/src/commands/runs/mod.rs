//! `verbatim runs`: the runs of a daemon.

pub(crate) mod artifacts;
mod diff;

pub(crate) use diff::values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use verbatim_client::v1::RunState;
use verbatim_client::{Client, RunName};
use verbatim_run::RunError;
use verbatim_text::Command as ShellCommand;

use crate::commands::run::{Followed, follow, show_end};
use crate::print::progress::{Lines, Progress};
use crate::server::{self, Finder, run_named};
use crate::{exit, print};

/// The runs that a daemon keeps; without a command, a list of them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Subcommand)]
enum Command {
    /// List runs, the newest first
    List(List),
    /// Show a run: its settings and its results
    Show(Show),
    /// Follow a run to its end; leaving does not stop it
    #[command(after_help = "The exit code is that of `verbatim run`. Ctrl-C leaves; the run goes on.")]
    Watch(WatchArguments),
    /// Ask a run to stop; its device is restored
    Cancel {
        /// The run: runs/ID, ID, or latest
        run: String,
    },
    /// List the files that a run left, or read one of them
    Artifacts(artifacts::Arguments),
    /// Keep a run and its files beyond the daemon's limits
    Pin {
        /// The runs: runs/ID, ID, or latest
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Unpin a run, so that the daemon's limits apply to its files again
    Unpin {
        /// The runs: runs/ID, ID, or latest
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Delete ended runs, with their files
    Delete {
        /// The runs: runs/ID or ID
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Show how a second run differs from a first: verdicts and measured values
    #[command(
        after_help = "A run in a directory is judged anew, without a daemon. The exit code is 0 when nothing \
        differs, and 1 when anything does."
    )]
    Diff(diff::Arguments),
    /// Export the record of a run
    Export {
        /// The run: runs/ID, ID, or latest
        run: String,
        /// Write a capture for Wireshark: frames as they were, MADs as InfiniBand packets with reconstructed headers
        #[arg(long, value_name = "FILE")]
        pcapng: PathBuf,
    },
}

#[derive(clap::Args)]
struct List {
    /// Only the runs that match: terms joined by " AND ": rig=NAME, owner=me, state=QUEUED|RUNNING|ENDED,
    /// outcome=PASS|FAIL|...
    #[arg(long, default_value = "")]
    filter: String,
    /// Number of runs on a page
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..=1000))]
    page_size: i32,
    /// Token of the page to show, as printed after the page before it
    #[arg(long, value_name = "TOKEN", default_value = "", conflicts_with = "all")]
    page_token: String,
    /// List all pages
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Show {
    /// The run: runs/ID, ID, or latest
    run: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct WatchArguments {
    /// The run: runs/ID, ID, or latest
    run: String,
    /// Only the events after this cursor
    #[arg(long, value_name = "N", default_value_t = 0)]
    cursor: u64,
    /// Print each event as a JSON object on a line of its own
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, finder: Finder<'_>) -> anyhow::Result<ExitCode> {
    let command = match arguments.command.unwrap_or(Command::List(arguments.list)) {
        Command::Diff(arguments) => return diff::run(&arguments, finder),
        command => command,
    };
    let place = finder.place()?;
    server::at(place.server("`verbatim runs`")?, |client| async move {
        match command {
            Command::List(arguments) => list(&client, &arguments).await,
            Command::Show(arguments) => show(&client, &arguments).await,
            Command::Watch(arguments) => watch(&client, &arguments).await,
            Command::Cancel { run } => cancel(&client, &run_named(&client, &run).await?).await,
            Command::Pin { runs } => pin(&client, &runs, true).await,
            Command::Unpin { runs } => pin(&client, &runs, false).await,
            Command::Delete { runs } => delete(&client, &runs).await,
            Command::Diff(arguments) => diff::run(&arguments, finder),
            Command::Artifacts(arguments) => artifacts::run(&client, &arguments).await,
            Command::Export { run, pcapng } => {
                let run = run_named(&client, &run).await?;
                if pcapng.exists() {
                    return Err(RunError::FileExists(pcapng).into());
                }
                artifacts::to_file(&client, &run, "run.pcapng", &pcapng).await?;
                print::note(format_args!("wrote {}", pcapng.display()));
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// The most runs that are listed.
const MOST_RUNS: usize = 1_000_000;

async fn list(client: &Client, arguments: &List) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    let mut token = arguments.page_token.clone();
    loop {
        let page = client.list_runs(&arguments.filter, arguments.page_size, &token).await?;
        if page.runs.is_empty() && !page.next_page_token.is_empty() {
            anyhow::bail!(
                "the daemon sent a page without runs that claims a further page: this is a fault of the daemon"
            );
        }
        if runs.len() > MOST_RUNS {
            anyhow::bail!(
                "the daemon listed more than {MOST_RUNS} runs: select fewer with --filter, or leave out --all"
            );
        }
        runs.extend(page.runs);
        token = page.next_page_token;
        if !arguments.all || token.is_empty() {
            break;
        }
    }
    if arguments.json {
        let documents: Vec<_> = runs.iter().map(print::document::listed_run).collect();
        print::json(&serde_json::json!({ "runs": documents, "next_page_token": token }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print::text(&print::tables::runs(&runs))?;
    if runs.is_empty() {
        print::note("no runs");
    }
    if !token.is_empty() {
        let next = ShellCommand::new("--page-token").word(&token);
        print::note(format_args!("there are more runs: --all, or {next}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(client: &Client, arguments: &Show) -> anyhow::Result<ExitCode> {
    let run = client.get_run(&run_named(client, &arguments.run).await?).await?;
    if arguments.json {
        print::json(&print::document::run(&run))?;
        return Ok(ExitCode::SUCCESS);
    }
    let ended = print::document::ended(&run);
    let mut text = print::tables::run_head(&run);
    text.line("");
    text.extend(ended.report.verdicts.iter().map(|verdict| print::line(verdict, "")));
    if run.state() == RunState::Ended {
        text.extend([print::end(&ended, "", &print::Telling::default())]);
    }
    print::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn watch(client: &Client, arguments: &WatchArguments) -> anyhow::Result<ExitCode> {
    let name = run_named(client, &arguments.run).await?;
    let json = arguments.json;
    let each = |event: &_| {
        if json {
            print::json_line(&print::document::event(event))
        } else {
            Ok(())
        }
    };
    let mut progress = Progress::new(if json { Lines::None } else { Lines::All });
    let followed = follow(client, &name, arguments.cursor, &mut progress, None, false, each).await?;
    match followed {
        Followed::Ended { run, .. } if json => {
            let ended = print::document::ended(&run);
            let outcome = print::document::outcome(run.outcome());
            Ok(ExitCode::from(exit::of_run(outcome, &ended.report, false)))
        }
        Followed::Ended { run, .. } => show_end(&run),
        Followed::Left => Ok(ExitCode::SUCCESS),
    }
}

async fn cancel(client: &Client, run: &RunName) -> anyhow::Result<ExitCode> {
    let before = client.get_run(run).await?;
    let run = client.cancel_run(run).await?;
    if before.state() == RunState::Ended {
        print::note(format_args!(
            "{}: had already ended ({}); nothing was cancelled",
            run.name,
            before.outcome()
        ));
    } else if run.state() == RunState::Ended && run.start_time.is_none() {
        print::note(format_args!("{}: cancelled before it began", run.name));
    } else if run.state() == RunState::Ended {
        print::note(format_args!("{}: ended ({})", run.name, run.outcome()));
    } else {
        print::note(format_args!(
            "{0}: being cancelled; its device is restored first. `verbatim runs watch {0}` shows its end",
            run.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn pin(client: &Client, runs: &[String], pinned: bool) -> anyhow::Result<ExitCode> {
    for run in runs {
        let run = client.pin_run(&run_named(client, run).await?, pinned).await?;
        let how = if pinned { "pinned" } else { "no longer pinned" };
        print::note(format_args!("{}: {how}", run.name));
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(client: &Client, runs: &[String]) -> anyhow::Result<ExitCode> {
    for run in runs {
        // "latest" is not accepted: a newer run may have appeared since the user looked.
        let run: RunName = run.parse()?;
        client.delete_run(&run).await?;
        print::note(format_args!("{run}: deleted"));
    }
    Ok(ExitCode::SUCCESS)
}
