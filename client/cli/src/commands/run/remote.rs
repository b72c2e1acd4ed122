//! A run at a daemon: made there, watched here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use verbatim_client::v1::RunState;
use verbatim_client::{Address, Client, Error, LeaseName, RunName, fresh_id, patiently, v1};
use verbatim_record::BundleWriter;
use verbatim_run::RunError;

use crate::commands::run::Arguments;
use crate::commands::runs::artifacts;
use crate::print::progress::Progress;
use crate::{exit, print, server};

/// Exit code of a process that left because of a signal.
const LEFT: u8 = 130;

pub(super) fn run(arguments: &Arguments, address: &Address) -> anyhow::Result<ExitCode> {
    server::refuse_rig_file(arguments.rig_file.as_ref(), address)?;
    server::refuse_rig_keys(&arguments.rig_key, address)?;
    let spec = arguments.spec()?;
    // Before the run: afterwards there would be nowhere to put its record.
    let record = arguments.record.as_deref().map(new_directory).transpose()?;
    let lease: Option<LeaseName> = arguments.lease.as_deref().map(str::parse).transpose()?;
    let request = v1::CreateRunRequest {
        request_id: fresh_id(),
        spec: Some(spec),
        lease: lease.map(|lease| lease.to_string()).unwrap_or_default(),
        priority: v1::Priority::from(arguments.priority).into(),
    };
    server::at(address, |client| carried_out(client, request, record, arguments))
}

async fn carried_out(
    client: Client,
    request: v1::CreateRunRequest,
    record: Option<PathBuf>,
    &Arguments { detach, json, wait, .. }: &Arguments,
) -> anyhow::Result<ExitCode> {
    let mut stop = Stop::listen()?;
    let progress = Progress::new(json);
    let (run, stopped) = tokio::select! {
        run = client.create_run_under(request.clone()) => (run?, false),
        () = stop.asked() => {
            progress.say("stopping; Ctrl-C again leaves at once");
            // The request may have arrived: sent again, it gives the same run, which can then be cancelled.
            tokio::select! {
                run = client.create_run_under(request.clone()) => (run?, true),
                () = stop.asked() => return Ok(ExitCode::from(LEFT)),
            }
        }
    };
    let name: RunName = run.name.parse()?;
    if detach && !stopped {
        progress.finish();
        if json {
            print::json(&print::document::run(&run))?;
        } else {
            print::text(&format!("{name}\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if run.state() == RunState::Queued {
        say_if_it_waits(&client, &run, &progress, wait).await;
    }
    let mut stop = Some(stop);
    let followed = follow(&client, &name, 0, progress, stop.as_mut(), stopped, |_| Ok(())).await?;
    let Followed::Ended(run) = followed else {
        return Ok(ExitCode::from(LEFT));
    };
    if let Some(directory) = &record {
        artifacts::download_all(&client, &name, directory).await?;
    }
    show_end(&run, record.as_deref(), json)
}

/// How following a run ended.
pub(crate) enum Followed {
    /// With the run.
    Ended(Box<v1::Run>),
    /// Before it: somebody had enough.
    Left,
}

/// Follows a run to its end. The first signal cancels it, the second leaves; without `stop`, signals do what they do.
pub(crate) async fn follow(
    client: &Client,
    name: &RunName,
    cursor: u64,
    mut progress: Progress,
    mut stop: Option<&mut Stop>,
    stopped: bool,
    mut each: impl FnMut(&v1::RunEvent) -> anyhow::Result<()>,
) -> anyhow::Result<Followed> {
    let tell = progress.teller();
    let mut away = false;
    let mut watch = client.watch(name, cursor).on_break(move |error| {
        if !std::mem::replace(&mut away, true) {
            tell(&format!("{error}; trying again for a minute"));
        }
    });
    let mut cancelling = stopped.then(|| cancel(client, name, &progress));
    loop {
        let asked = async {
            match &mut stop {
                Some(stop) => stop.asked().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = asked => match &mut cancelling {
                None => cancelling = Some(cancel(client, name, &progress)),
                Some(cancelling) => {
                    progress.finish();
                    // One that could not be asked for is over too, and confirms nothing.
                    let confirmed = cancelling.is_finished() && cancelling.await.unwrap_or(false);
                    leave(name, confirmed);
                    return Ok(Followed::Left);
                }
            },
            event = watch.next() => match event {
                Some(event) => {
                    let event = event?;
                    event.event.iter().for_each(|event| progress.show(event));
                    each(&event)?;
                }
                None => break,
            },
        }
    }
    progress.finish();
    Ok(Followed::Ended(Box::new(patiently(|| client.get_run(name)).await?)))
}

/// Asks the daemon to cancel, beside the watching.
fn cancel(client: &Client, name: &RunName, progress: &Progress) -> JoinHandle<bool> {
    progress.say("cancelling: the device is restored first; Ctrl-C again leaves, the daemon goes on");
    let tell = progress.teller();
    let (client, name) = (client.clone(), name.clone());
    tokio::spawn(async move {
        match patiently(|| client.cancel_run(&name)).await {
            Ok(_) => true,
            // It ended in the meantime.
            Err(Error::Refusal(_)) => true,
            Err(error) => {
                tell(&format!("{name} could not be cancelled: {error}"));
                false
            }
        }
    })
}

fn leave(name: &RunName, confirmed: bool) {
    let how = if confirmed {
        "goes on being cancelled at the daemon"
    } else {
        "may go on: the daemon has not yet confirmed that it cancels it (`verbatim runs cancel` asks again)"
    };
    eprintln!("verbatim: left; {name} {how}. `verbatim runs watch {name}` shows its end");
}

/// Prints what a run came to, as a run inside this process does, and returns its exit code.
pub(crate) fn show_end(run: &v1::Run, record: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let mut ended = print::document::ended(run);
    if json {
        if let (Some(record), Some(of_run)) = (record, ended.json.get_mut("run").and_then(|run| run.as_object_mut())) {
            of_run.insert("record".into(), serde_json::json!(record));
        }
        print::json(&ended.json)?;
    } else {
        let place = record.map_or_else(
            || format!("; {}", run.name),
            |path| format!("; {}, record in {}", run.name, path.display()),
        );
        print::text(&print::end(&ended, &place))?;
    }
    Ok(ExitCode::from(exit::of_run(
        print::document::outcome(run.outcome()),
        &ended.report.verdicts,
    )))
}

/// Says why the run waits, if it does; with `wait` each time that changes. A courtesy: when the daemon cannot say it, the
/// events will tell.
async fn say_if_it_waits(client: &Client, run: &v1::Run, progress: &Progress, wait: bool) {
    let Ok(lease) = run.lease.parse() else { return };
    let Ok(mut watch) = client.watch_lease(&lease).await else {
        return;
    };
    let (tell, name) = (progress.teller(), run.name.clone());
    let mut last = String::new();
    let mut say = move |told: &v1::WatchLeaseResponse| {
        let words = told.lease.as_ref().and_then(print::tables::news_of_waiting);
        if let Some(words) = words.filter(|words| *words != last) {
            tell(&format!("{name} waits, {words}"));
            last = words;
        }
        told.lease
            .as_ref()
            .is_some_and(|lease| lease.state() == v1::LeaseState::Pending)
    };
    let waits = matches!(watch.next().await, Ok(Some(first)) if say(&first));
    if wait && waits {
        tokio::spawn(async move { while matches!(watch.next().await, Ok(Some(next)) if say(&next)) {} });
    }
}

/// A directory that is absent or empty, made if need be.
fn new_directory(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).context("--record")?;
    BundleWriter::create(&path).map_err(RunError::from)?;
    Ok(path)
}

/// Ctrl-C and SIGTERM.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot catch signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of them.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
