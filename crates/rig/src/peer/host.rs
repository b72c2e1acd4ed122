//! The host of a device: its outstanding commands, its reports, and its liveness.

use core::time::Duration;
use std::collections::BTreeMap;

use nix::poll::{PollFd, PollFlags, ppoll};
use verbatim_proto::agent as proto;
use verbatim_record::verbs::{self, Command, Event, Reply};
use verbatim_record::{Side, Span, Time, TimeSource};
use verbatim_tester::Arrival;

use super::{AT_ONCE, Found};
use crate::clock::Clock;
use verbatim_verbs::{AgentMessage, Gone, VerbsLink};

/// Time to wait for the host's report that its device was removed, after a refusal that the removal may have
/// caused.
const WORD_WITHIN: Duration = Duration::from_millis(500);
/// Default limits of a host's silence.
const SIGNS: Signs = Signs {
    after: Duration::from_secs(1),
    within: Duration::from_secs(10),
};
/// Errnos of the driver of a removed device: EIO, ENXIO, ENODEV.
const OF_THE_GONE: [i32; 3] = [5, 6, 19];
/// The event after which the device is unusable.
pub(super) const DEVICE_FATAL: &str = "IBV_EVENT_DEVICE_FATAL";
/// The event that the device's port went down. After this event, the cable explains the device's silence.
const PORT_ERR: &str = "IBV_EVENT_PORT_ERR";

/// Remedy for an agent that breaks a rule of its protocol.
const REMEDY: &str = "correct the agent (`verbatim doctor --agent ADDRESS` checks its rules)";

/// Limits of a host's silence. The rig reports no deadline before a silent host has responded to a probe. While the
/// whole host is silent, the device's silence proves nothing. The agent's own keep-alive does not replace the probe: it
/// releases the device if the tester is gone, and gives the tester no information.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// Silence after which the rig probes the host.
    pub(super) after: Duration,
    /// Time limit of the response to the probe. After this time the host counts as lost.
    pub(super) within: Duration,
}

/// A host, with its state.
pub(super) struct Host {
    pub(super) side: Side,
    link: Box<dyn VerbsLink>,
    /// Reports that are not taken yet arrived at or after this time.
    pub(super) empty_at: Time,
    /// Number of the last command sent to the host.
    last: u64,
    /// Outstanding commands. The key is a command's number on the connection. The value is the tester's number, or None
    /// for a probe and for a command of an earlier test.
    asked: BTreeMap<u64, Option<u32>>,
    /// A report that was received and is not processed yet.
    next: Option<AgentMessage>,
    pub(super) signs: Signs,
    /// The rig's clock.
    clock: Clock,
    /// Time of the host's last report.
    sign_at: Time,
    /// Time of a probe that has no response yet.
    asked_for_sign: Option<Time>,
}

impl Host {
    pub(super) fn new(side: Side, link: Box<dyn VerbsLink>, clock: Clock, within: Option<Duration>) -> Self {
        Self {
            side,
            link,
            empty_at: Time(0),
            last: 0,
            asked: BTreeMap::new(),
            next: None,
            signs: Signs {
                after: clock.of_rig(SIGNS.after),
                within: clock.of_rig(within.unwrap_or(SIGNS.within)),
            },
            clock,
            sign_at: Time(0),
            asked_for_sign: None,
        }
    }

    /// Takes the host's reports.
    pub(super) fn look(&mut self, clock: Clock, found: &mut Found) -> Result<(), String> {
        for _ in 0..AT_ONCE {
            let before = clock.now();
            let Some(said) = self.receive()? else {
                self.empty_at = before;
                break;
            };
            let at = clock.since(self.empty_at);
            self.sign_at = before;
            self.asked_for_sign = None;
            let (AgentMessage::Answer(_, when, _) | AgentMessage::Event(when, _)) = &said;
            if when.earliest_ns > when.latest_ns {
                return Err(format!(
                    "the agent of the {}'s device sent a time whose earliest_ns {} is after its latest_ns {}; \
                     {REMEDY}",
                    self.side, when.earliest_ns, when.latest_ns
                ));
            }
            match said {
                // Ignore kinds of events that a newer agent may add.
                AgentMessage::Event(_, proto::Event { kind: None }) => {}
                AgentMessage::Event(host_at, proto::Event { kind: Some(event) }) => {
                    let over = match &event {
                        Event::AsyncEvent(of) if of.name == DEVICE_FATAL => Some(format!(
                            "the {}'s device is gone: it reported {DEVICE_FATAL}",
                            self.side
                        )),
                        Event::AsyncEvent(of) if of.name == PORT_ERR => Some(format!(
                            "the port of the {}'s device went down: it reported {PORT_ERR}; is the cable in?",
                            self.side
                        )),
                        _ => None,
                    };
                    found.push(
                        at.latest,
                        Arrival::Told(self.side, at, host_span(clock, host_at), event),
                    );
                    if let Some(why) = over {
                        return Err(why);
                    }
                }
                AgentMessage::Answer(number, host_at, proto::Reply { kind }) => {
                    let Some(asked) = self.asked.remove(&number) else {
                        return Err(format!(
                            "the agent of the {}'s device answered command {number}, which is not outstanding: the \
                             tester sent {} commands, and each gets one answer; {REMEDY}",
                            self.side, self.last
                        ));
                    };
                    let Some(reply) = kind else {
                        return Err(format!(
                            "the host of the {}'s device gave command {number} of {} an answer that this version does \
                             not know: run the agent of the same version",
                            self.side, self.last
                        ));
                    };
                    if smells_of_gone(&reply) {
                        self.wait_for_the_word(&reply)?;
                    }
                    if let Some(number) = asked {
                        found.push(
                            at.latest,
                            Arrival::Verbs(self.side, number, at, host_span(clock, host_at), reply),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Returns the host's next report, without waiting.
    fn receive(&mut self) -> Result<Option<AgentMessage>, String> {
        match self.next.take() {
            None => self.link.recv(Duration::ZERO).map_err(|Gone(why)| why),
            next => Ok(next),
        }
    }

    /// Waits for the host's report that the device is gone. After the removal of its device, a host first refuses
    /// a command, and then reports the removal. The refusal then tells nothing about the device's behavior.
    fn wait_for_the_word(&mut self, reply: &Reply) -> Result<(), String> {
        let until = Clock::wall_now() + WORD_WITHIN;
        while self.next.is_none() {
            let left = until.saturating_sub(Clock::wall_now());
            if left.is_zero() {
                break;
            }
            let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
            let _ = ppoll(&mut link, Some(left.into()), None);
            // Any other report means that the host still has its device.
            self.next = self
                .link
                .recv(Duration::ZERO)
                .map_err(|Gone(why)| format!("{why} (before that: {})", verbs::reply_words(reply)))?;
        }
        Ok(())
    }

    /// Sends a command.
    pub(super) fn send(&mut self, number: u32, command: &Command) -> Result<(), String> {
        self.last += 1;
        // Each test counts its commands from the start, so an outstanding command with this number is of an earlier
        // test.
        for known in self.asked.values_mut().filter(|known| **known == Some(number)) {
            *known = None;
        }
        self.asked.insert(self.last, Some(number));
        self.put(command)
    }

    fn put(&mut self, command: &Command) -> Result<(), String> {
        let command = proto::Command {
            kind: Some(command.clone()),
        };
        self.link.send(self.last, command).map_err(|Gone(why)| why)
    }

    /// Returns whether the host was silent for so long that it may be gone.
    pub(super) fn wants_sign(&self, now: Time) -> bool {
        now.since(self.sign_at) >= self.signs.after
    }

    /// Probes a silent host. The probe queries QP 0, which never exists; the host refuses it without using the device.
    pub(super) fn ask_for_sign(&mut self, now: Time) -> Result<(), String> {
        if !self.wants_sign(now) {
            return Ok(());
        }
        match self.asked_for_sign {
            None => {
                self.asked_for_sign = Some(now);
                self.last += 1;
                self.asked.insert(self.last, None);
                self.put(&Command::QueryQp(verbs::pb::QueryQp { qp: 0 }))
            }
            Some(asked) if now.since(asked) >= self.signs.within => Err(format!(
                "the host of the {}'s device did not answer a probe within {:?}; is its agent stopped, or the network \
                 to it down? If the device is slow, raise agent_within of the rig",
                self.side,
                self.clock.wall(self.signs.within)
            )),
            Some(_) => Ok(()),
        }
    }
}

fn host_span(clock: Clock, at: proto::Instant) -> Span {
    clock
        .of_host(at.earliest_ns, at.latest_ns)
        .with_source(TimeSource::OwnClock)
}

/// Waits until a host may have a report; false if none has one.
pub(super) fn hosts_have(hosts: &[Host], timeout: Duration) -> bool {
    if hosts.is_empty() && timeout.is_zero() {
        return false;
    }
    let mut fds: Vec<PollFd<'_>> = hosts
        .iter()
        .map(|host| PollFd::new(host.link.as_fd(), PollFlags::POLLIN))
        .collect();
    // A signal or a failed poll ends the wait early; the caller then looks for reports.
    ppoll(&mut fds, Some(timeout.into()), None).map_or(true, |ready| ready > 0)
}

/// Returns whether a refusal may come from a removed device.
fn smells_of_gone(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(refused)
        if OF_THE_GONE.contains(&refused.errno) || refused.text.starts_with("the device is gone"))
}
