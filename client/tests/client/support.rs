//! A scripted server on a socket in a temporary directory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};
use verbatim_client::Address;
use verbatim_client::v1::run_event::Event;
use verbatim_client::v1::run_service_server::{RunService, RunServiceServer};
use verbatim_client::v1::{self, RunState};

type Answer<T> = Result<Response<T>, Status>;
type Events = Pin<Box<dyn Stream<Item = Result<v1::WatchRunResponse, Status>> + Send>>;
type Chunks = Pin<Box<dyn Stream<Item = Result<v1::ReadArtifactResponse, Status>> + Send>>;

/// The script of one WatchRun stream.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Cursors of the events to send. [`LAST`] is the run's end.
    pub(crate) cursors: Vec<u64>,
    /// Status that ends the stream; None for a normal end.
    pub(crate) end: Option<Status>,
}

/// The cursor of the run's last event.
pub(crate) const LAST: u64 = 6;

/// The scripts of the server, and the requests that it received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Script of each WatchRun stream, in order.
    pub(crate) scripts: Arc<Mutex<VecDeque<Script>>>,
    /// Cursors of the WatchRun requests.
    pub(crate) watched: Arc<Mutex<Vec<u64>>>,
    /// Status with which the server refuses GetRun.
    pub(crate) refusal: Arc<Mutex<Option<Status>>>,
    /// Request ids of CreateRun requests.
    pub(crate) created: Arc<Mutex<Vec<String>>>,
    /// Whether the run has ended.
    pub(crate) ended: Arc<Mutex<bool>>,
}

impl Told {
    /// Adds the script of a WatchRun stream.
    pub(crate) fn watch(&self, cursors: &[u64], end: Option<Status>) -> &Self {
        let cursors = cursors.to_vec();
        self.scripts.lock().unwrap().push_back(Script { cursors, end });
        self
    }
}

fn event(cursor: u64) -> v1::WatchRunResponse {
    let event = if cursor == LAST {
        Event::StateChanged(v1::RunStateChanged {
            state: RunState::Ended.into(),
            ..Default::default()
        })
    } else {
        Event::LogLine(v1::LogLine {
            text: cursor.to_string(),
        })
    };
    let event = v1::RunEvent {
        cursor,
        time: None,
        event: Some(event),
    };
    v1::WatchRunResponse { event: Some(event) }
}

#[tonic::async_trait]
impl RunService for Told {
    type WatchRunStream = Events;
    type ReadArtifactStream = Chunks;

    async fn watch_run(&self, request: Request<v1::WatchRunRequest>) -> Answer<Events> {
        self.watched.lock().unwrap().push(request.get_ref().cursor);
        let script = self.scripts.lock().unwrap().pop_front();
        let Script { cursors, end } = script.ok_or_else(|| Status::unavailable("no more scripts"))?;
        let events = cursors.into_iter().map(|cursor| Ok(event(cursor)));
        Ok(Response::new(Box::pin(tokio_stream::iter(
            events.chain(end.map(Err)).collect::<Vec<_>>(),
        ))))
    }

    async fn get_run(&self, request: Request<v1::GetRunRequest>) -> Answer<v1::GetRunResponse> {
        if let Some(status) = self.refusal.lock().unwrap().clone() {
            return Err(status);
        }
        let state = if *self.ended.lock().unwrap() {
            RunState::Ended
        } else {
            RunState::Running
        };
        let run = v1::Run {
            name: request.into_inner().name,
            state: state.into(),
            ..Default::default()
        };
        Ok(Response::new(v1::GetRunResponse { run: Some(run) }))
    }

    async fn create_run(&self, request: Request<v1::CreateRunRequest>) -> Answer<v1::CreateRunResponse> {
        let mut created = self.created.lock().unwrap();
        created.push(request.into_inner().request_id);
        if created.len() < 3 {
            return Err(Status::unavailable("stopping"));
        }
        let run = v1::Run {
            name: "runs/1".into(),
            ..Default::default()
        };
        Ok(Response::new(v1::CreateRunResponse { run: Some(run) }))
    }

    async fn list_runs(&self, _: Request<v1::ListRunsRequest>) -> Answer<v1::ListRunsResponse> {
        Ok(Response::new(v1::ListRunsResponse::default()))
    }

    async fn pin_run(&self, _: Request<v1::PinRunRequest>) -> Result<Response<v1::PinRunResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delete_run(&self, _: Request<v1::DeleteRunRequest>) -> Result<Response<v1::DeleteRunResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn cancel_run(&self, _: Request<v1::CancelRunRequest>) -> Answer<v1::CancelRunResponse> {
        Ok(Response::new(v1::CancelRunResponse::default()))
    }

    async fn list_artifacts(&self, _: Request<v1::ListArtifactsRequest>) -> Answer<v1::ListArtifactsResponse> {
        Ok(Response::new(v1::ListArtifactsResponse::default()))
    }

    async fn read_artifact(&self, _: Request<v1::ReadArtifactRequest>) -> Answer<Chunks> {
        let chunks = [b"one ".to_vec(), b"two".to_vec()].map(|data| Ok(v1::ReadArtifactResponse { data }));
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }
}

/// A directory with the server's socket in it.
#[derive(Debug)]
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.path().join("verbatim.sock")
    }

    pub(crate) fn address(&self) -> Address {
        Address::unix(&self.socket()).unwrap()
    }

    /// Starts the server, which listens before this function returns.
    pub(crate) fn serve(&self, told: &Told) -> Serving {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let service = RunServiceServer::new(told.clone());
        let task = tokio::spawn(async move {
            let until = async { stopped.await.unwrap_or_default() };
            tonic::transport::Server::builder()
                .serve_with_incoming_shutdown(service, UnixListenerStream::new(listener), until)
                .await
                .unwrap();
        });
        Serving { stop, task }
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Stops the server at once, and leaves its socket file.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        drop(self.stop);
    }
}
