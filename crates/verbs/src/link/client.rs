//! A session at an agent, for procedures that block.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::LARGEST_MESSAGE;
use prost::Message;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use verbatim_proto::agent as proto;
use verbatim_proto::agent::agent_service_client::AgentServiceClient;
use verbatim_proto::agent::session_response::Kind;
use verbatim_proto::agent::{Command, GetAgentResponse, SessionRequest, SessionResponse};

use super::address::AgentAddress;
use super::bounds;
use super::connect::{call_failed, connect};
use super::inbox::{Inbox, Putter, inbox};
use super::{AgentMessage, Gone, VerbsLink};

/// Largest number of commands that wait to be sent.
const WAITING: usize = 256;
/// Longest time for the end of a session, in which the agent destroys the session's objects.
const FAREWELL: Duration = Duration::from_secs(3);

/// A session at an agent. Its own thread handles the network.
#[derive(Debug)]
pub struct AgentClient {
    agent: GetAgentResponse,
    requests: Option<Sender<SessionRequest>>,
    inbox: Inbox,
    /// Lets the thread end without the agent's confirmation.
    leave: Option<oneshot::Sender<()>>,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// How far a connection attempt came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Reached {
    /// No agent: no process listened, or the process did not answer `GetAgent`.
    Nobody,
    /// An agent that answered `GetAgent`.
    Agent,
}

/// A failed connection attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotConnected {
    /// How far the attempt came.
    pub reached: Reached,
    /// The reason, and what to do.
    pub why: String,
}

/// The result of connecting, which the thread needs for the session.
struct Connected {
    agent: GetAgentResponse,
    answers: Streaming<SessionResponse>,
}

impl AgentClient {
    /// Connects to an agent and begins a session.
    ///
    /// # Errors
    /// The reason and what to do: no agent listens, a certificate is missing or wrong, or no response comes in time.
    pub fn connect(address: &AgentAddress, timeout: Duration) -> Result<Self, String> {
        Self::connect_step_by_step(address, timeout).map_err(|error| error.why)
    }

    /// Connects like [`AgentClient::connect`]; the error also tells how far the attempt came.
    ///
    /// # Errors
    /// The reasons of [`AgentClient::connect`].
    pub fn connect_step_by_step(address: &AgentAddress, timeout: Duration) -> Result<Self, NotConnected> {
        let reached = Arc::new(AtomicBool::new(false));
        Self::connect_noting(address, timeout, &reached).map_err(|why| NotConnected {
            reached: if reached.load(Ordering::Acquire) {
                Reached::Agent
            } else {
                Reached::Nobody
            },
            why,
        })
    }

    /// Connects, and sets `answered` once the agent has answered `GetAgent`.
    fn connect_noting(address: &AgentAddress, timeout: Duration, answered: &Arc<AtomicBool>) -> Result<Self, String> {
        let begun = Instant::now();
        let internal =
            |error: std::io::Error| format!("agent at {address}: the tester cannot start its connection ({error})");
        let (putter, inbox) = inbox().map_err(internal)?;
        let (requests, taken) = channel(WAITING);
        let (leave, left) = oneshot::channel();
        let (ended_put, ended) = sync_channel::<()>(0);
        let (connected_put, connected) = sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(internal)?;
        let of_thread = address.clone();
        let noted = Arc::clone(answered);
        let work = move || {
            runtime.block_on(async {
                let connecting = tokio::time::timeout(timeout, begin(&of_thread, taken, &noted));
                let connected = connecting.await.unwrap_or_else(|_| {
                    let (missed, remedy) = if noted.load(Ordering::Acquire) {
                        (
                            "it answered GetAgent, but sent no response headers on its stream Session",
                            "an agent must send them when the stream begins, before the first command",
                        )
                    } else {
                        ("no answer", "is the host up, and does the agent run?")
                    };
                    let within = timeout.as_millis();
                    Err(format!("agent at {of_thread}: {missed} within {within} ms; {remedy}"))
                });
                match connected {
                    Ok(connected) => {
                        if connected_put.send(Ok(connected.agent.clone())).is_ok() {
                            listen(&of_thread, connected, putter, left).await;
                        }
                    }
                    Err(why) => {
                        let _ = connected_put.send(Err(why));
                    }
                }
            });
            // A name resolution in progress must not delay the end of the thread.
            runtime.shutdown_background();
            drop(ended_put);
        };
        let thread = std::thread::Builder::new()
            .name("agent".into())
            .spawn(work)
            .map_err(internal)?;
        // The thread itself gives up after `timeout`. This longer limit applies if the thread hangs.
        let patience = timeout.saturating_add(FAREWELL).saturating_sub(begun.elapsed());
        let agent = match connected.recv_timeout(patience) {
            Ok(connected) => connected?,
            Err(_) => {
                return Err(format!(
                    "agent at {address}: connecting takes longer than its time limit; please report this"
                ));
            }
        };
        Ok(Self {
            agent,
            requests: Some(requests),
            inbox,
            leave: Some(leave),
            ended,
            thread: Some(thread),
        })
    }

    /// Returns the agent's response to `GetAgent` when the session began.
    #[must_use]
    pub fn agent(&self) -> &GetAgentResponse {
        &self.agent
    }

    /// Sends a command; its reply carries this number.
    ///
    /// # Errors
    /// When the session has ended, or 256 commands are waiting to be sent.
    pub fn send(&mut self, number: u64, command: Command) -> Result<(), Gone> {
        self.inbox.ended()?;
        let size = command.encoded_len();
        // The agent would break the connection of a larger message, and the session would be lost.
        if size >= LARGEST_MESSAGE - 64 {
            return Err(Gone(format!(
                "a command of {size} bytes is too large for an agent, which takes {LARGEST_MESSAGE}; use several \
                 commands"
            )));
        }
        let request = SessionRequest {
            number,
            command: Some(command),
        };
        let Some(requests) = &self.requests else {
            return Err(self.inbox.gone());
        };
        match requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(self.inbox.gone()),
            Err(TrySendError::Full(_)) => Err(Gone(format!(
                "the agent takes no commands: {WAITING} wait; is it stopped, or does the tester not read its answers?"
            ))),
        }
    }

    /// Returns the next reply or event, or `None` if no message arrives in time.
    ///
    /// # Errors
    /// When the session has ended and all its messages were taken.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<AgentMessage>, Gone> {
        self.inbox.recv(timeout)
    }

    /// Ends the session, and waits until the agent has destroyed the session's objects. Returns the messages received
    /// until the end.
    ///
    /// # Errors
    /// When the session had ended before, or its end is not confirmed. It is then unknown whether all objects are
    /// destroyed.
    pub fn close(mut self) -> Result<Vec<AgentMessage>, Gone> {
        self.requests = None;
        let begun = Instant::now();
        let mut said = Vec::new();
        loop {
            match self.inbox.recv(FAREWELL.saturating_sub(begun.elapsed())) {
                Ok(Some(from)) => said.push(from),
                Ok(None) => return Err(Gone("the agent did not confirm the end of the session in time".into())),
                Err(Gone(why)) if why == CONFIRMED => return Ok(said),
                Err(gone) => return Err(gone),
            }
        }
    }
}

/// Reason of the end if the agent confirms that the client left.
const CONFIRMED: &str = "the agent ended the session";

impl Drop for AgentClient {
    fn drop(&mut self) {
        // The agent sees the end of the commands, destroys the session's objects, and ends its side.
        self.requests = None;
        let begun = Instant::now();
        // The remaining messages are useless, but the end comes only after them.
        while begun.elapsed() < FAREWELL {
            match self.inbox.recv(FAREWELL.saturating_sub(begun.elapsed())) {
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if let Some(leave) = self.leave.take() {
            let _ = leave.send(());
        }
        // Any error except a timeout means that the thread has ended, because no value is ever sent on this channel.
        let hangs = matches!(
            self.ended.recv_timeout(FAREWELL),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        );
        if let Some(thread) = self.thread.take()
            && !hangs
        {
            let _ = thread.join();
        }
    }
}

impl AsFd for AgentClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

impl VerbsLink for AgentClient {
    fn send(&mut self, number: u64, command: Command) -> Result<(), Gone> {
        Self::send(self, number, command)
    }

    fn recv(&mut self, timeout: Duration) -> Result<Option<AgentMessage>, Gone> {
        Self::recv(self, timeout)
    }
}

async fn begin(
    address: &AgentAddress,
    requests: tokio::sync::mpsc::Receiver<SessionRequest>,
    answered: &AtomicBool,
) -> Result<Connected, String> {
    let at = |why: String| format!("agent at {address}: {why}");
    let channel = connect(address).await.map_err(at)?;
    let mut client = AgentServiceClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
    let agent = client.get_agent(proto::GetAgentRequest {}).await;
    let mut agent = agent
        .map_err(|status| at(call_failed(&status, address, false)))?
        .into_inner();
    bounds::agent(&mut agent).map_err(at)?;
    answered.store(true, Ordering::Release);
    let answers = client.session(ReceiverStream::new(requests)).await;
    let answers = answers.map_err(|status| at(call_failed(&status, address, true)))?;
    Ok(Connected {
        agent,
        answers: answers.into_inner(),
    })
}

/// Passes on the agent's messages until the end of the session.
async fn listen(address: &AgentAddress, connected: Connected, putter: Putter, mut left: oneshot::Receiver<()>) {
    let mut answers = connected.answers;
    let end = loop {
        let next = tokio::select! {
            next = answers.message() => next,
            _ = &mut left => return,
        };
        match next {
            Ok(Some(response)) => {
                let from = match read(response) {
                    Ok(from) => from,
                    Err(why) => break format!("agent at {address}: {why}"),
                };
                if !putter.put(from).await {
                    return;
                }
            }
            Ok(None) => break CONFIRMED.into(),
            Err(status) => break format!("agent at {address}: {}", call_failed(&status, address, true)),
        }
    };
    putter.end(end);
}

/// Parses a message, and bounds its texts. The error describes the agent's fault.
fn read(mut response: SessionResponse) -> Result<AgentMessage, String> {
    bounds::message(&mut response)?;
    let lacks = |what: &str| {
        format!("it sent a message without {what}, which every message has; agent and tester must be of one version")
    };
    let at = response.at.ok_or_else(|| lacks("`at`"))?;
    Ok(match response.kind.ok_or_else(|| lacks("`answer` or `event`"))? {
        Kind::Answer(answer) => {
            let reply = answer.reply.ok_or_else(|| lacks("a `reply` in its `answer`"))?;
            AgentMessage::Answer(answer.number, at, reply)
        }
        Kind::Event(event) => AgentMessage::Event(at, event),
    })
}
