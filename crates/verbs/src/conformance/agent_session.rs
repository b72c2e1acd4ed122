//! A session: sending a command, and receiving its reply and the events before the reply.

use core::time::Duration;
use std::time::Instant as Here;

use verbatim_proto::agent::{self as proto, Command, Completion, Instant, Refused, command, event, reply};

use super::{Checked, Not, PATIENCE, QUIET, wrong};
use crate::drive::AgentMessage;
use crate::link::AgentClient;

/// A reply, with the local times at which the command was sent and the reply arrived.
#[derive(Clone, Debug)]
pub(super) struct TimedReply {
    pub(super) at: Instant,
    pub(super) kind: reply::Kind,
    pub(super) asked: Here,
    pub(super) came: Here,
}

/// A session with the agent under check.
pub(super) struct AgentSession {
    client: AgentClient,
    number: u64,
    /// Completions that no check has taken yet.
    completions: Vec<Completion>,
    /// Instant of the last reply.
    last: Option<Instant>,
    /// Description of the first invalid instant.
    wrong_instant: Option<String>,
    /// Description of the first event that the agent sent after a reply that the event should precede.
    late: Option<String>,
    answers: u64,
    events: u64,
    opened: Option<proto::Opened>,
    /// Existing queue pairs, the oldest first.
    queue_pairs: Vec<u32>,
}

impl AgentSession {
    pub(super) fn new(client: AgentClient) -> Self {
        Self {
            client,
            number: 0,
            completions: Vec::new(),
            last: None,
            wrong_instant: None,
            late: None,
            answers: 0,
            events: 0,
            opened: None,
            queue_pairs: Vec::new(),
        }
    }

    pub(super) fn agent(&self) -> &proto::GetAgentResponse {
        self.client.agent()
    }

    /// Sends a command without waiting, and returns its number.
    pub(super) fn send(&mut self, kind: Option<command::Kind>) -> Result<u64, Not> {
        // The numbers advance by 7, so the check notices an agent that numbers its replies itself.
        self.number += 7;
        match self.client.send(self.number, Command { kind }) {
            Ok(()) => Ok(self.number),
            Err(gone) => wrong(format!("the session ended: {gone}")),
        }
    }

    /// Receives until the next reply, which must have this number. Stores the events before it.
    pub(super) fn answer(&mut self, number: u64, asked: Here) -> Result<TimedReply, Not> {
        loop {
            match self.client.recv(PATIENCE) {
                Err(gone) => return wrong(format!("the session ended before the answer: {gone}")),
                Ok(None) => {
                    return wrong(format!(
                        "no answer within {} s; answer each command within this time",
                        PATIENCE.as_secs()
                    ));
                }
                Ok(Some(AgentMessage::Event(at, event))) => self.take_event(at, event),
                Ok(Some(AgentMessage::Answer(of, at, reply))) => {
                    if of != number {
                        return wrong(format!(
                            "expected the answer to command {number}, seen the answer to {of}; answer in the order of \
                             the commands, each with its command's number"
                        ));
                    }
                    self.note_instant("the answer", at);
                    if let Some(last) = self.last
                        && (at.earliest_ns < last.earliest_ns || at.latest_ns < last.latest_ns)
                    {
                        self.wrong_instant.get_or_insert_with(|| {
                            format!(
                                "an answer has the time {}, and the answer before it {}: the clock went back",
                                words(at),
                                words(last)
                            )
                        });
                    }
                    self.last = Some(at);
                    self.answers += 1;
                    let Some(kind) = reply.kind else {
                        return wrong(
                            "an answer without a kind; give a kind of verbatim.agent.v1.Reply, `done` if nothing else \
                             applies",
                        );
                    };
                    let came = Here::now();
                    return Ok(TimedReply { at, kind, asked, came });
                }
            }
        }
    }

    fn take_event(&mut self, at: Instant, event: proto::Event) {
        self.events += 1;
        self.note_instant("an event", at);
        // An event that ended before a command began must not arrive after the reply to that command.
        if let Some(last) = self.last
            && at.latest_ns < last.earliest_ns
        {
            self.late.get_or_insert_with(|| {
                format!(
                    "an event of {} came after the answer of {}; send all events that precede the end of a command \
                     before its answer",
                    words(at),
                    words(last)
                )
            });
        }
        if let Some(event::Kind::Completion(completion)) = event.kind {
            self.completions.push(completion);
        }
    }

    fn note_instant(&mut self, what: &str, at: Instant) {
        if at.earliest_ns > at.latest_ns {
            self.wrong_instant.get_or_insert_with(|| {
                format!(
                    "{what} has earliest_ns {} after its latest_ns {}",
                    at.earliest_ns, at.latest_ns
                )
            });
        }
    }

    /// Sends a command and returns any reply.
    pub(super) fn ask(&mut self, kind: command::Kind) -> Result<TimedReply, Not> {
        let asked = Here::now();
        let number = self.send(Some(kind))?;
        self.answer(number, asked)
    }

    /// Sends a command that must be answered by `Done`.
    pub(super) fn done(&mut self, what: &str, kind: command::Kind) -> Result<(), Not> {
        match self.ask(kind)?.kind {
            reply::Kind::Done(_) => Ok(()),
            other => wrong(format!("{what}: expected `done`, seen {}", in_words(&other))),
        }
    }

    /// Sends a command that the agent must refuse with a text. With `by_agent`, the refusal must have errno 0.
    pub(super) fn refused(&mut self, what: &str, by_agent: bool, kind: command::Kind) -> Result<Refused, Not> {
        let refused = match self.ask(kind)?.kind {
            reply::Kind::Refused(refused) => refused,
            other => {
                return wrong(format!(
                    "{what}: expected `refused`, seen {}; check the command before the device gets it",
                    in_words(&other)
                ));
            }
        };
        if refused.text.trim().is_empty() {
            return wrong(format!(
                "{what} is refused without a text; name the expected value, the seen value and the remedy"
            ));
        }
        if by_agent && refused.errno != 0 {
            return wrong(format!(
                "{what} is refused with errno {}; a refusal by the agent itself has errno 0, a refusal by a driver \
                 has the driver's number",
                refused.errno
            ));
        }
        Ok(refused)
    }

    /// Returns the properties of the device; the first call queries them.
    pub(super) fn opened(&mut self) -> Result<proto::Opened, Not> {
        if let Some(opened) = &self.opened {
            return Ok(opened.clone());
        }
        match self.ask(command::Kind::Open(proto::Open {}))?.kind {
            reply::Kind::Opened(opened) => {
                self.opened = Some(opened.clone());
                Ok(opened)
            }
            other => wrong(format!("Open: expected `opened`, seen {}", in_words(&other))),
        }
    }

    /// Registers memory. A refusal is a failure of the check.
    pub(super) fn memory(&mut self, length: u32) -> Result<proto::Memory, Not> {
        let register = command::Kind::RegisterMemory(proto::RegisterMemory {
            length,
            access: Some(ALL),
        });
        match self.ask(register)?.kind {
            reply::Kind::Memory(memory) => Ok(memory),
            reply::Kind::Refused(refused) => wrong(format!(
                "{length} bytes of memory are refused (errno {}): {}",
                refused.errno, refused.text
            )),
            other => wrong(format!("RegisterMemory: expected `memory`, seen {}", in_words(&other))),
        }
    }

    /// Whether the device reports that it supports only one queue pair.
    pub(super) fn has_one_queue_pair(&mut self) -> Result<bool, Not> {
        Ok(self.opened()?.max_qp == 1)
    }

    /// Creates a queue pair. If `max_qp` queue pairs exist, first destroys the oldest one. Returns `Not::Has` if
    /// the device lacks the service.
    pub(super) fn queue_pair(&mut self, service: proto::Service, depth: u32) -> Result<proto::Qp, Not> {
        let of = self.opened()?;
        let has = of.capabilities.unwrap_or_default();
        let name = service.as_str_name().trim_start_matches("SERVICE_");
        if !has.services.is_empty() && !has.services.contains(&service.into()) {
            return Err(Not::Has(format!("the device reports no {name} queue pairs")));
        }
        if of.max_qp != 0 && self.queue_pairs.len() >= of.max_qp as usize {
            self.destroy(self.queue_pairs[0])?;
        }
        let least = |most: u32| if most == 0 { depth } else { depth.min(most) };
        let create = command::Kind::CreateQp(proto::CreateQp {
            service: service.into(),
            send_depth: least(has.max_send_depth),
            receive_depth: least(has.max_receive_depth),
        });
        match self.ask(create)?.kind {
            reply::Kind::Qp(qp) => {
                self.queue_pairs.push(qp.qp);
                Ok(qp)
            }
            reply::Kind::Refused(refused) if service == proto::Service::Ud && [0, 38, 95].contains(&refused.errno) => {
                Err(Not::Has(format!(
                    "the device creates no UD queue pair: {}",
                    refused.text
                )))
            }
            reply::Kind::Refused(refused) if !self.queue_pairs.is_empty() => wrong(format!(
                "a {name} queue pair in addition to {} is refused (errno {}): {}; max_qp is {}; expected the number of \
                 queue pairs that the device has",
                self.queue_pairs.len(),
                refused.errno,
                refused.text,
                of.max_qp
            )),
            reply::Kind::Refused(refused) => wrong(format!(
                "a {name} queue pair of depth {depth} is refused (errno {}): {}",
                refused.errno, refused.text
            )),
            other => wrong(format!("CreateQp: expected `qp`, seen {}", in_words(&other))),
        }
    }

    pub(super) fn query(&mut self, qp: u32) -> Result<proto::QpStatus, Not> {
        match self.ask(command::Kind::QueryQp(proto::QueryQp { qp }))?.kind {
            reply::Kind::Status(status) => Ok(status),
            other => wrong(format!("QueryQp: expected `status`, seen {}", in_words(&other))),
        }
    }

    /// Waits at most `within` for `count` completions, then briefly for further ones. Returns all completions.
    pub(super) fn completions(&mut self, count: usize, within: Duration) -> Result<Vec<Completion>, Not> {
        let begun = Here::now();
        loop {
            let left = if self.completions.len() < count {
                within.saturating_sub(begun.elapsed())
            } else {
                QUIET
            };
            match self.client.recv(left) {
                Ok(Some(AgentMessage::Event(at, event))) => self.take_event(at, event),
                Ok(Some(AgentMessage::Answer(number, ..))) => {
                    return wrong(format!(
                        "the agent sent an answer to {number}, which was answered before or never sent"
                    ));
                }
                Ok(None) => return Ok(core::mem::take(&mut self.completions)),
                Err(gone) => return wrong(format!("the session ended: {gone}")),
            }
        }
    }

    pub(super) fn destroy(&mut self, qp: u32) -> Result<(), Not> {
        self.queue_pairs.retain(|made| *made != qp);
        self.done("DestroyQp", command::Kind::DestroyQp(proto::DestroyQp { qp }))
    }

    /// Destroys everything that a check made. Returns whether the session is still usable.
    pub(super) fn clean(&mut self) -> bool {
        let destroy = command::Kind::DestroyAll(proto::DestroyAll {});
        let clean = self.done("DestroyAll", destroy).is_ok();
        self.completions.clear();
        self.queue_pairs.clear();
        clean
    }

    /// Checks the instants of all replies and events.
    pub(super) fn instants(&self) -> Checked {
        match &self.wrong_instant {
            None => Ok(format!(
                "{} answers and {} events: no time goes back",
                self.answers, self.events
            )),
            Some(what) => wrong(format!(
                "{what}; both ends are the agent's CLOCK_MONOTONIC in nanoseconds, the first read before the call and the \
                 second after it"
            )),
        }
    }

    /// Checks that the agent sent no event after a reply that the event should precede.
    pub(super) fn order_of_events(&self) -> Checked {
        match &self.late {
            None => Ok(format!(
                "none of {} events came after an answer that it should precede",
                self.events
            )),
            Some(what) => wrong(what.clone()),
        }
    }

    /// Ends the session like a tester, and returns the replies and events until its end.
    pub(super) fn close(self) -> Result<Vec<AgentMessage>, String> {
        self.client.close().map_err(|gone| gone.0)
    }

    /// Waits for a duration. Fails if the session ends before the duration is over.
    pub(super) fn idle(&mut self, time: Duration) -> Result<(), Not> {
        let begun = Here::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            match self.client.recv(left) {
                Ok(Some(AgentMessage::Event(at, event))) => self.take_event(at, event),
                Ok(_) => {}
                Err(gone) => return wrong(gone.0),
            }
        }
        Ok(())
    }
}

pub(super) const ALL: proto::Access = proto::Access {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
};

fn words(at: Instant) -> String {
    format!("{}..{} ns", at.earliest_ns, at.latest_ns)
}

/// Describes a reply in a few words.
pub(super) fn in_words(kind: &reply::Kind) -> String {
    match kind {
        reply::Kind::Refused(refused) => format!("`refused` (errno {}, {:?})", refused.errno, refused.text),
        reply::Kind::Bytes(bytes) => format!("`bytes` ({} of them)", bytes.bytes.len()),
        reply::Kind::Opened(_) => "`opened`".into(),
        reply::Kind::Memory(_) => "`memory`".into(),
        reply::Kind::Qp(_) => "`qp`".into(),
        reply::Kind::Done(_) => "`done`".into(),
        reply::Kind::Status(_) => "`status`".into(),
    }
}
