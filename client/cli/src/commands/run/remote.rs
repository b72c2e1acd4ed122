//! A run at a daemon: creates the run, and follows it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use verbatim_catalog::deviations::Known;
use verbatim_client::v1::RunState;
use verbatim_client::{Address, Client, Error, LeaseName, RunName, fresh_id, patiently, v1};
use verbatim_record::BundleWriter;
use verbatim_run::RunError;
use verbatim_text::Text;

use super::labelled::{self, Held};
use super::{Arguments, Document, Done, choice, last};
use crate::commands::report::is_record;
use crate::commands::runs::artifacts;
use crate::exit::Usage;
use crate::print::progress::Progress;
use crate::{exit, print, server};

/// Exit code after an interrupt.
const LEFT: u8 = 130;

/// Returns the run's settings with the selected tests of the daemon, and with the default seed.
pub(super) fn chosen(arguments: &Arguments, mut spec: v1::RunSpec, address: &Address) -> anyhow::Result<v1::RunSpec> {
    server::refuse_rig_file(arguments.rig_file.as_ref(), address)?;
    arguments.ad_hoc.refuse(address)?;
    server::refuse_rig_keys(&arguments.rig_key, address)?;
    server::refuse_deviations(&arguments.known.deviations, address)?;
    let (kind, offers) = rig_of(arguments, address);
    spec.seed = arguments.seed_on(&kind);
    spec.patterns = arguments.patterns_on(&kind);
    if !arguments.chooses() && !choice::is_selection(&spec.patterns) {
        return Ok(spec);
    }
    let (failed, patterns, rig) = (arguments.failed, spec.patterns.clone(), spec.rig.clone());
    let (tests, failed) = server::at(address, |client| async move {
        let tests = client.list_tests(&patterns).await?.tests;
        let failed = if failed {
            Some(not_passed(&client, &rig).await?)
        } else {
            None
        };
        Ok((tests, failed))
    })?;
    spec.patterns = choice::patterns(arguments, &spec, tests, &offers, failed.as_deref())?;
    Ok(spec)
}

/// Returns the kind of the run's rig, and the needs of tests that the rig fulfils. If the daemon chooses the rig, the
/// kind may be "any", and the needs are unknown.
fn rig_of(arguments: &Arguments, address: &Address) -> (String, Vec<String>) {
    if !arguments.labels.is_empty() {
        let kind = arguments.labels.iter().find_map(|label| label.strip_prefix("kind="));
        return (kind.unwrap_or("any").into(), Vec::new());
    }
    let (lease, rig) = (arguments.lease.clone(), arguments.rig.clone());
    let rig = server::at(address, |client| async move {
        let rig = match lease {
            Some(lease) => client.get_lease(&lease.parse()?).await?.rig,
            None => rig,
        };
        Ok(client.get_rig(&rig.parse()?).await?)
    });
    // Ignore a problem with the lease or the rig here: the run itself reports it.
    rig.map_or_else(|_| ("virtual".into(), Vec::new()), |rig| (rig.kind, rig.offers))
}

/// Sets the tests of the run in the progress, which then shows their expected duration.
async fn expect(client: &Client, run: &v1::Run, progress: &mut Progress) -> anyhow::Result<()> {
    let rig = run.spec.as_ref().map_or("", |spec| spec.rig.as_str());
    let kind = client.get_rig(&rig.parse()?).await?.kind;
    progress.expects(rig, &kind, &run.tests);
    Ok(())
}

/// Returns the tests that did not pass in the caller's last run on a rig, or else in the last run of all users.
async fn not_passed(client: &Client, rig: &str) -> anyhow::Result<Vec<String>> {
    if rig.is_empty() {
        return Err(Usage("--failed needs --rig RIG: it repeats tests of the last run on that rig".into()).into());
    }
    let newest = client.newest(&format!("rig={rig} AND state=ENDED")).await?;
    let Some(run) = newest else {
        return Err(Usage(format!(
            "--failed: the daemon has no ended run of rig {rig}; run without --failed first"
        ))
        .into());
    };
    let run = client.get_run(&run.name.parse()?).await?;
    print::note(format_args!(
        "verbatim: --failed repeats tests of {} of {}",
        run.name, run.owner_name
    ));
    Ok(last::not_passed(&run.verdicts))
}

pub(super) fn run(
    arguments: &Arguments,
    spec: v1::RunSpec,
    record: Option<&Path>,
    address: &Address,
) -> anyhow::Result<Done> {
    // Check the directory before the run starts, so that the record of an ended run has a place.
    let record = record.map(new_directory).transpose()?;
    let lease: Option<LeaseName> = arguments.lease.as_deref().map(str::parse).transpose()?;
    let request = v1::CreateRunRequest {
        request_id: fresh_id(),
        spec: Some(spec),
        lease: lease.map(|lease| lease.to_string()).unwrap_or_default(),
        priority: v1::Priority::from(arguments.priority).into(),
        own_lease: arguments.own_lease,
        wait_at_most_s: arguments.waits().map(|time| time.as_secs()),
        attended: !arguments.detach,
    };
    server::at(address, |client| async move {
        if arguments.labels.is_empty() {
            return carried_out(client, request, record, arguments).await;
        }
        if let Some(lease) = labelled::mine(&client, arguments).await? {
            let request = v1::CreateRunRequest { lease, ..request };
            return carried_out(client, request, record, arguments).await;
        }
        let held = Held::take(&client, arguments).await?;
        let request = v1::CreateRunRequest {
            lease: held.name().to_string(),
            ..request
        };
        let done = carried_out(client.clone(), request, record, arguments).await;
        held.end(&client).await;
        done
    })
}

async fn carried_out(
    client: Client,
    request: v1::CreateRunRequest,
    record: Option<PathBuf>,
    arguments: &Arguments,
) -> anyhow::Result<Done> {
    let &Arguments { detach, json, wait, .. } = arguments;
    let left = || Done {
        code: LEFT,
        interrupted: true,
        why: (v1::Cause::Operator, "the user left before the run ended".into()),
        ..Done::default()
    };
    let mut stop = Stop::listen()?;
    let mut progress = Progress::new(arguments.lines());
    let (run, stopped) = tokio::select! {
        run = client.create_run_under(request.clone()) => (run?, false),
        () = stop.asked() => {
            progress.say("stopping; Ctrl-C again leaves at once");
            // The daemon may have created the run already. Repeat the request: the same request id returns the same
            // run, which can then be cancelled.
            tokio::select! {
                run = client.create_run_under(request.clone()) => (run?, true),
                () = stop.asked() => return Ok(left()),
            }
        }
    };
    let name: RunName = run.name.parse()?;
    if request.lease.is_empty() && print::document::bare(&run.lease) != print::document::bare(&run.name) {
        progress.say(&labelled::under(&run.lease));
    }
    if detach && !stopped {
        progress.finish();
        let document = json.then(|| print::document::run(&run));
        if document.is_none() {
            print::text(&Text::of(&name))?;
        }
        return Ok(Done {
            json: document.map(Document::Value),
            ..Done::default()
        });
    }
    // With `--no-wait`, a run that would have to wait ends at once, and its result has the reason.
    if run.state() == RunState::Queued && !arguments.no_wait {
        say_if_it_waits(&client, &run, &progress, wait).await;
    }
    let mut stop = Some(stop);
    // After an error, the progress shows no expected time.
    expect(&client, &run, &mut progress).await.unwrap_or_default();
    let followed = follow(&client, &name, 0, &mut progress, stop.as_mut(), stopped, |_| Ok(())).await?;
    let Followed::Ended { run, interrupted } = followed else {
        return Ok(left());
    };
    if let Some(directory) = &record {
        artifacts::download_all(&client, &name, directory).await?;
        if !is_record(directory) {
            // The run did not begin. If the empty directory cannot be removed, it does no harm.
            let _ = std::fs::remove_dir(directory);
        }
    }
    let (code, document) = end_of(
        &run,
        record
            .as_deref()
            .filter(|directory| arguments.record.is_some() && is_record(directory)),
        json || arguments.reports.prints_ktap(),
        arguments.known.known,
        arguments.telling(false),
    )?;
    if document.is_none() {
        print::text_of_run(&progress.took(arguments.durations, arguments.verbose))?;
    }
    Ok(Done {
        code,
        why: (run.cause(), run.reason.clone()),
        known: run.known_deviations.iter().cloned().map(Known::from).collect(),
        verdicts: run.verdicts,
        json: document.map(Document::Value),
        interrupted,
    })
}

/// The way in which following a run ended.
pub(crate) enum Followed {
    /// The run ended.
    Ended {
        /// The ended run.
        run: Box<v1::Run>,
        /// Whether a signal cancelled the run.
        interrupted: bool,
    },
    /// The user left before the run ended.
    Left,
}

/// Follows a run to its end. The first signal cancels the run. After the second signal, the function returns
/// while the daemon continues. Without `stop`, signals have their default effect.
pub(crate) async fn follow(
    client: &Client,
    name: &RunName,
    cursor: u64,
    progress: &mut Progress,
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
    let mut cancelling = stopped.then(|| cancel(client, name, progress));
    let mut interrupted = stopped;
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
                None => {
                    interrupted = true;
                    cancelling = Some(cancel(client, name, progress));
                }
                Some(cancelling) => {
                    progress.finish();
                    // The request to cancel may have finished with an error, so check its result too.
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
    let run = Box::new(patiently(|| client.get_run(name)).await?);
    Ok(Followed::Ended { run, interrupted })
}

/// Asks the daemon to cancel the run, in parallel with the events.
fn cancel(client: &Client, name: &RunName, progress: &Progress) -> JoinHandle<bool> {
    progress.say("cancelling: the device is restored first; Ctrl-C again leaves, and the daemon continues");
    let tell = progress.teller();
    let (client, name) = (client.clone(), name.clone());
    tokio::spawn(async move {
        match patiently(|| client.cancel_run(&name)).await {
            Ok(_) => true,
            // The run may have ended already.
            Err(Error::Refusal(_)) => true,
            Err(error) => {
                tell(&format!("cannot cancel {name}: {error}"));
                false
            }
        }
    })
}

fn leave(name: &RunName, confirmed: bool) {
    let how = if confirmed {
        "ends soon: the daemon is cancelling it"
    } else {
        "may continue: the daemon has not yet confirmed the cancellation (`verbatim runs cancel` repeats the request)"
    };
    print::note(format_args!(
        "verbatim: left; {name} {how}. `verbatim runs watch {name}` shows its end"
    ));
}

/// Prints the result of a run, in the format of a run inside this process. Returns the exit code.
pub(crate) fn show_end(run: &v1::Run) -> anyhow::Result<ExitCode> {
    let (code, _) = end_of(run, None, false, false, print::Telling::default())?;
    Ok(ExitCode::from(code))
}

/// Returns the exit code of a run, and the JSON document. Without `json`, prints the result instead.
fn end_of(
    run: &v1::Run,
    record: Option<&Path>,
    json: bool,
    tolerates_known: bool,
    telling: print::Telling,
) -> anyhow::Result<(u8, Option<Value>)> {
    let mut ended = print::document::ended(run);
    let code = exit::of_run(print::document::outcome(run.outcome()), &ended.report, tolerates_known);
    if json {
        if let (Some(record), Some(of_run)) = (record, ended.json.get_mut("run").and_then(Value::as_object_mut)) {
            of_run.insert("record".into(), serde_json::json!(record));
        }
        return Ok((code, Some(ended.json)));
    }
    let place = record.map_or_else(
        || format!("; {}", run.name),
        |path| format!("; {}, record in {}", run.name, path.display()),
    );
    print::text_of_run(&print::end(&ended, &place, &telling))?;
    Ok((code, None))
}

/// Prints why the run waits for its rig; with `wait`, prints each new reason. Ignores errors, because the run's
/// events show its progress too.
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

/// Checks that the directory of a record is absent or empty, and creates it.
fn new_directory(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).context("--record")?;
    BundleWriter::create(&path).map_err(RunError::from)?;
    Ok(path)
}

/// Receiver of SIGINT and SIGTERM.
pub(crate) struct Stop(Signals);

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        Signals::new([SIGINT, SIGTERM])
            .map(Self)
            .context("cannot catch signals")
    }

    /// Waits for the next signal.
    async fn asked(&mut self) {
        self.0.next().await;
    }
}
