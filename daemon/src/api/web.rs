//! The content of the web page: rigs, leases, runs and reports. The page calls the services like any client. Its
//! identity [`Identity::Web`] may view the rigs that the configuration allows.

pub mod report;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tonic::{Request, Status};
use verbatim_proto::document;
use verbatim_proto::v1::lease_service_server::LeaseService as _;
use verbatim_proto::v1::rig_service_server::RigService as _;
use verbatim_proto::v1::run_service_server::RunService as _;
use verbatim_proto::v1::{GetRunRequest, ListLeasesRequest, ListRigsRequest, ListRunsRequest, Run, RunState};
use verbatim_record::Bundle;

use super::{Leases, Rigs, Runs, Shared, blocking, errors, names};
use crate::access::{Caller, Identity};

/// The maximum number of runs or leases in a response.
const PAGE: i32 = 50;
/// The largest bundle in bytes whose report the daemon makes. The process of the report limits its own memory.
const LARGEST_RECORD: u64 = 1 << 30;

/// The web page and its data.
#[derive(Clone, Debug)]
pub struct Web {
    rigs: Rigs,
    leases: Leases,
    runs: Runs,
    shared: Arc<Shared>,
}

/// The content of a path.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// The HTML page, which loads its script and style from this daemon.
    Page(&'static str),
    /// The script of the page.
    Script(&'static str),
    /// The style of the page.
    Style(&'static str),
    /// Data that the page shows.
    Json(Value),
    /// The report of a run: a self-contained HTML page.
    Report(String),
}

impl Web {
    /// Creates the page over the services that all clients use.
    #[must_use]
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            rigs: Rigs::new(Arc::clone(shared)),
            leases: Leases::new(Arc::clone(shared)),
            runs: Runs::new(Arc::clone(shared)),
            shared: Arc::clone(shared),
        }
    }

    /// Returns the content of a path for the client at the address `from`.
    ///
    /// # Errors
    /// When the path doesn't exist, the viewers may not see its content, or the content cannot be made now.
    pub async fn get(&self, path: &str, query: Option<&str>, from: SocketAddr) -> Result<Found, Status> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts[..] {
            [""] => Ok(Found::Page(include_str!("web/page.html"))),
            ["page.js"] => Ok(Found::Script(include_str!("web/page.js"))),
            ["page.css"] => Ok(Found::Style(include_str!("web/page.css"))),
            ["api", "rigs"] => {
                let rigs = self
                    .rigs
                    .list_rigs(by_web(from, ListRigsRequest {}))
                    .await?
                    .into_inner();
                Ok(Found::Json(
                    json!({ "rigs": rigs.rigs.iter().map(document::rig).collect::<Vec<_>>() }),
                ))
            }
            ["api", "leases"] => {
                let request = ListLeasesRequest {
                    ended: false,
                    page_size: PAGE,
                    mine: false,
                };
                let leases = self.leases.list_leases(by_web(from, request)).await?.into_inner();
                Ok(Found::Json(
                    json!({ "leases": leases.leases.iter().map(document::lease).collect::<Vec<_>>() }),
                ))
            }
            ["api", "runs"] => {
                let request = ListRunsRequest {
                    page_size: PAGE,
                    page_token: query
                        .and_then(|query| query.strip_prefix("page_token="))
                        .unwrap_or_default()
                        .into(),
                    filter: String::new(),
                };
                let runs = self.runs.list_runs(by_web(from, request)).await?.into_inner();
                Ok(Found::Json(json!({
                    "runs": runs.runs.iter().map(document::short_run).collect::<Vec<_>>(),
                    "next_page_token": runs.next_page_token,
                })))
            }
            ["api", "runs", id] => Ok(Found::Json(document::listed_run(&self.run(id, from).await?))),
            ["runs", id] => {
                let run = self.run(id, from).await?;
                match run.state() {
                    RunState::Ended => self.report(&run).await,
                    _ => Ok(Found::Page(include_str!("web/run.html"))),
                }
            }
            _ => Err(errors::not_found(
                "PAGE_UNKNOWN",
                path,
                "there is no such page; / has the rigs and the runs",
            )),
        }
    }

    async fn run(&self, id: &str, from: SocketAddr) -> Result<Run, Status> {
        let name = format!("runs/{id}");
        let asked = self.runs.get_run(by_web(from, GetRunRequest { name })).await?;
        Ok(asked.into_inner().run.unwrap_or_default())
    }

    async fn report(&self, run: &Run) -> Result<Found, Status> {
        let name = run.name.clone();
        let scheduler = Arc::clone(&self.shared.scheduler);
        let id = names::run("name", &name)?;
        let stored = blocking(move || scheduler.store().get(&id))
            .await?
            .map_err(|error| errors::store(&error))?;
        let directory = self.shared.record(&stored.run)?;
        let Ok(_turn) = self.shared.reports.try_acquire() else {
            return Err(Status::resource_exhausted("another report is being made; try again"));
        };
        let (of, its_name) = (directory.clone(), name.clone());
        blocking(move || is_small_enough(&of, &its_name)).await??;
        let made = report::of(directory).await;
        made.map(Found::Report)
            .map_err(|why| Status::failed_precondition(format!("{name} has no report: {why}")))
    }
}

/// Returns a request in the name of the page's viewers.
fn by_web<T>(from: SocketAddr, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller {
        who: Identity::Web,
        gid: None,
        from: from.to_string(),
    });
    request
}

/// Checks that a record exists and is small enough to be judged here. Blocks on the disk.
fn is_small_enough(directory: &Path, name: &str) -> Result<(), Status> {
    let size: u64 = match Bundle::open_unread(directory) {
        Ok(bundle) => bundle.files().map(|file| file.bytes).sum(),
        Err(_) => {
            let what = format!("{name} left no files, or they were removed; `verbatim runs show` prints its verdicts");
            return Err(errors::not_found("RECORD_GONE", name, &what));
        }
    };
    let id = name.trim_start_matches("runs/");
    match size > LARGEST_RECORD {
        true => Err(Status::failed_precondition(format!(
            "the record of {name} has {} MiB, expected at most {} MiB for a report here; `verbatim report {id} --html \
             FILE` makes the same page",
            size >> 20,
            LARGEST_RECORD >> 20
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A full default run leaves about 280 MiB.
    #[test]
    fn record_of_a_full_run_is_small_enough() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("1.rec")).unwrap();
        file.set_len(400 << 20).unwrap();
        is_small_enough(directory.path(), "runs/1").unwrap();
        file.set_len(LARGEST_RECORD + 1).unwrap();
        let refused = is_small_enough(directory.path(), "runs/1").unwrap_err();
        assert!(refused.message().contains("verbatim report 1 --html"), "{refused}");
    }
}
