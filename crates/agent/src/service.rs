//! `verbatim.agent.v1`: one stream is one session, with a thread of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, channel, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status, Streaming};
use verbatim_proto::agent as proto;
use verbatim_proto::agent::agent_service_server::AgentService;

use crate::log;
use verbatim_tls::Peer;
use verbatim_verbs::clock::{now_ns, since};
use verbatim_verbs::device::{Device, Failure};
use verbatim_verbs::drive::{AgentMessage, Cut, End, Inlet, Outlet, commands, drive, weight};
use verbatim_verbs::session::{Limits, Session, refused};

/// Largest total size of replies and events that wait for a client, in bytes.
const ROOM: u32 = 32 << 20;
/// Size that a smaller message counts as, in bytes. A message takes more memory than its encoding.
const LEAST: u32 = 512;

/// Longest time until a client's first command.
const FIRST: Duration = Duration::from_secs(10);
/// Longest silence of a client after its first command: longer than any test waits between two commands.
const IDLE: Duration = Duration::from_secs(1800);

/// A function that opens the device.
pub(crate) type Open<D> = Arc<dyn Fn() -> Result<D, Failure> + Send + Sync>;

pub(crate) struct Agent<D> {
    pub(crate) open: Open<D>,
    pub(crate) device: String,
    pub(crate) limits: Limits,
    pub(crate) max_sessions: u32,
    pub(crate) seats: Arc<Semaphore>,
    /// True once the agent must stop.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Replies and events on their way to a client; `room` limits their total size.
struct Out {
    answers: UnboundedSender<(Result<proto::SessionResponse, Status>, Option<OwnedSemaphorePermit>)>,
    room: Arc<Semaphore>,
    runtime: Handle,
}

impl Out {
    /// Sends a message, and waits while there is no room. Returns false if the client is gone or the session was cut
    /// off.
    fn say(&self, cut: &Cut, said: proto::SessionResponse) -> bool {
        let weight = weight(&said, ROOM).max(LEAST);
        let room = Arc::clone(&self.room);
        let permit = match room.try_acquire_many_owned(weight) {
            Ok(permit) => Some(permit),
            Err(_) => self.runtime.block_on(async {
                let room = Arc::clone(&self.room);
                tokio::select! {
                    permit = room.acquire_many_owned(weight) => permit.ok(),
                    () = self.answers.closed() => None,
                    () = cut.wait() => None,
                }
            }),
        };
        permit.is_some() && self.answers.send((Ok(said), permit)).is_ok()
    }

    /// Ends the stream with a status.
    fn end(&self, status: Status) {
        // An error means that the client has left.
        let _ = self.answers.send((Err(status), None));
    }
}

#[tonic::async_trait]
impl<D: Device> AgentService for Agent<D> {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<proto::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<proto::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let peer = peer(&request);
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
            let text = format!(
                "the agent has {0} of at most {0} sessions; end one, or start the agent with a larger --max-sessions",
                self.max_sessions
            );
            log(format_args!("{peer}: no session: {text}"));
            return Ok(Response::new(turned_away(request.into_inner(), text)));
        };
        let no_thread =
            |error: std::io::Error| Status::resource_exhausted(format!("the session cannot begin: {error}"));
        let (inlet, outlet) = commands().map_err(no_thread)?;
        let (answers, said) = unbounded_channel();
        let out = Out {
            answers,
            room: Arc::new(Semaphore::new(usize::try_from(ROOM).unwrap_or(usize::MAX >> 4))),
            runtime: Handle::current(),
        };
        tokio::spawn(take_in(request.into_inner(), inlet, self.stop.clone()));
        let owner = Owner {
            open: Arc::clone(&self.open),
            device: self.device.clone(),
            limits: self.limits,
            seat,
            stop: self.stop.clone(),
            peer,
        };
        std::thread::Builder::new()
            .name("session".into())
            .spawn(move || owner.own(outlet, &out))
            .map_err(no_thread)?;
        // The room of a reply is free again once the transport has taken the reply.
        let said = UnboundedReceiverStream::new(said).map(|(said, _room)| said);
        Ok(Response::new(Box::pin(said)))
    }

    async fn get_agent(&self, _: Request<proto::GetAgentRequest>) -> Result<Response<proto::GetAgentResponse>, Status> {
        let free = u32::try_from(self.seats.available_permits()).unwrap_or(u32::MAX);
        Ok(Response::new(proto::GetAgentResponse {
            version: env!("CARGO_PKG_VERSION").into(),
            devices: vec![self.device.clone()],
            sessions: self.max_sessions.saturating_sub(free),
            max_sessions: self.max_sessions,
            host: verbatim_verbs::host(),
        }))
    }
}

/// Describes the peer for the log.
fn peer<T>(request: &Request<T>) -> String {
    let local = request.extensions().get::<UdsConnectInfo>();
    if let Some(peer) = request.extensions().get::<Peer>() {
        return peer.to_string();
    }
    match (request.remote_addr(), local.and_then(|local| local.peer_cred)) {
        (Some(address), _) => address.to_string(),
        (None, Some(peer)) => format!("uid {}", peer.uid()),
        (None, None) => "a process of this host".into(),
    }
}

/// Refuses the first command with the reason and ends the stream. The refusal uses neither a thread nor the device, so
/// a refused client costs little.
fn turned_away(
    mut requests: Streaming<proto::SessionRequest>,
    text: String,
) -> Pin<Box<dyn Stream<Item = Result<proto::SessionResponse, Status>> + Send>> {
    let (answers, said) = channel(2);
    tokio::spawn(async move {
        let begun = now_ns();
        if let Ok(Ok(Some(request))) = timeout(FIRST, requests.message()).await {
            let reply = refused(Failure::refused(text.clone()));
            // An error means that the client has left.
            let _ = answers
                .send(Ok(response(AgentMessage::Answer(request.number, since(begun), reply))))
                .await;
            let _ = answers.send(Err(Status::resource_exhausted(text))).await;
        }
    });
    Box::pin(ReceiverStream::new(said))
}

/// Passes a client's commands on until the client leaves, is lost or is silent for too long, or the agent stops.
async fn take_in(mut requests: Streaming<proto::SessionRequest>, inlet: Inlet, mut stop: watch::Receiver<bool>) {
    let mut patience = FIRST;
    loop {
        let next = tokio::select! {
            next = timeout(patience, requests.message()) => match next {
                Ok(next) => next,
                // A silent client must not occupy a session.
                Err(_) => {
                    inlet.cut().cut();
                    return;
                }
            },
            () = inlet.ended() => return,
            _ = stop.wait_for(|stop| *stop) => {
                inlet.cut().cut();
                return;
            }
        };
        match next {
            Ok(Some(request)) => {
                patience = IDLE;
                let command = request.command.unwrap_or_default();
                tokio::select! {
                    put = inlet.put(request.number, command) => if put.is_err() { return },
                    _ = stop.wait_for(|stop| *stop) => {
                        inlet.cut().cut();
                        return;
                    }
                }
            }
            Ok(None) => return,
            // The connection broke, or the message is malformed: queued commands are not executed.
            Err(_) => {
                inlet.cut().cut();
                return;
            }
        }
    }
}

/// The data that the thread of a session needs.
struct Owner<D> {
    open: Open<D>,
    device: String,
    limits: Limits,
    seat: OwnedSemaphorePermit,
    stop: watch::Receiver<bool>,
    peer: String,
}

impl<D: Device> Owner<D> {
    fn own(self, mut outlet: Outlet, out: &Out) {
        let device = match (self.open)() {
            Ok(device) => device,
            Err(failure) => {
                log(format_args!("{}: no session: {failure}", self.peer));
                self.turn_away(&mut outlet, out, failure);
                return;
            }
        };
        log(format_args!("{}: a session begins", self.peer));
        let mut session = Session::new(device, self.limits);
        let cut = Arc::clone(outlet.cut());
        let end = drive(&mut session, &mut outlet, |said| out.say(&cut, response(said)));
        // Destroys the objects and frees the session's slot before the stream ends, because a client that sees the end
        // may rely on both.
        drop(session);
        drop(self.seat);
        let status = match &end {
            End::Left => None,
            End::Gone(why) => Some(format!("the device {} is gone: {why}", self.device)),
            End::Cut if *self.stop.borrow() => Some("the agent was told to stop; start it again".into()),
            End::Cut => None,
        };
        let why = match (&end, &status) {
            (End::Left, _) => "its client left",
            (_, Some(why)) => why,
            (_, None) => "its client is lost",
        };
        log(format_args!(
            "{}: a session ended, and its objects are destroyed: {why}",
            self.peer
        ));
        if let Some(text) = status {
            out.end(Status::unavailable(text));
        }
    }

    /// Refuses the first command with the reason and ends the stream.
    fn turn_away(&self, outlet: &mut Outlet, out: &Out, failure: Failure) {
        let begun = now_ns();
        let text = failure.text.clone();
        let Some(number) = outlet.first(FIRST) else { return };
        let cut = Arc::clone(outlet.cut());
        let answer = response(AgentMessage::Answer(number, since(begun), refused(failure)));
        if out.say(&cut, answer) {
            out.end(Status::unavailable(text));
        }
    }
}

fn response(said: AgentMessage) -> proto::SessionResponse {
    use proto::session_response::Kind;
    let (at, kind) = match said {
        AgentMessage::Answer(number, at, reply) => {
            let reply = Some(reply);
            (at, Kind::Answer(proto::Answer { number, reply }))
        }
        AgentMessage::Event(at, event) => (at, Kind::Event(event)),
    };
    proto::SessionResponse {
        at: Some(at),
        kind: Some(kind),
    }
}
