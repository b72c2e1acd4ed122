//! The host of a device: what it was asked, what it says, and whether it lives.

use core::time::Duration;
use std::collections::BTreeMap;

use nix::poll::{PollFd, PollFlags, ppoll};
use verbatim_proto::agent as proto;
use verbatim_record::verbs::{self, Command, Event, Reply};
use verbatim_record::{Side, Span, Time, TimeSource};
use verbatim_tester::Arrival;

use super::{AT_ONCE, Found};
use crate::clock::Clock;
use verbatim_verbs::{Gone, Said, VerbsLink};

/// How long a refusal that smells of a device that is gone is kept back, for the word that it is.
const WORD_WITHIN: Duration = Duration::from_millis(500);
/// After so long without a word a host is asked for a sign of life, and how long that may take.
const SIGNS: Signs = Signs {
    after: Duration::from_secs(1),
    within: Duration::from_secs(10),
};
/// Error numbers that the driver of a device that is gone gives: EIO, ENXIO, ENODEV.
const OF_THE_GONE: [i32; 3] = [5, 6, 19];
/// The report after which a device is of no use.
pub(super) const DEVICE_FATAL: &str = "IBV_EVENT_DEVICE_FATAL";
/// What a device reports when its port goes down: silence after it is the cable's.
const PORT_ERR: &str = "IBV_EVENT_PORT_ERR";

/// When a host is asked for a sign of life. No deadline is met before it gave the sign: the silence of a device proves
/// nothing where its whole host is silent. The agent's keep-alive is another thing: it frees the device of a tester that
/// is gone, and proves nothing to the tester that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// After so long without a word.
    pub(super) after: Duration,
    /// It is gone after so long without the sign.
    pub(super) within: Duration,
}

/// A host, and what is known of it.
pub(super) struct Host {
    pub(super) side: Side,
    link: Box<dyn VerbsLink>,
    /// Nothing that is still to come was said before this.
    pub(super) empty_at: Time,
    /// The last number that a command was given on its way.
    last: u64,
    /// Commands without an answer: that number, and the tester's.
    asked: BTreeMap<u64, u32>,
    /// What it said that was looked at and not taken.
    next: Option<Said>,
    pub(super) signs: Signs,
    /// The rig's.
    clock: Clock,
    /// When it was last heard of.
    sign_at: Time,
    /// Since when it owes a sign of life.
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

    /// Takes what it said.
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
            match said {
                // What a newer agent has to tell beyond what is known here is not for this rig.
                Said::Event(_, proto::Event { kind: None }) => {}
                Said::Event(host_at, proto::Event { kind: Some(event) }) => {
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
                Said::Answer(number, host_at, proto::Reply { kind: Some(reply) }) if number <= self.last => {
                    if smells_of_gone(&reply) {
                        self.wait_for_the_word(&reply)?;
                    }
                    // An answer that nobody waits for is a sign of life, or is of an earlier test.
                    if let Some(number) = self.asked.remove(&number) {
                        found.push(
                            at.latest,
                            Arrival::Verbs(self.side, number, at, host_span(clock, host_at), reply),
                        );
                    }
                }
                Said::Answer(number, ..) => {
                    return Err(format!(
                        "the host of the {}'s device gave command {number} of {} an answer that this version does not \
                         know: run the agent of the same version",
                        self.side, self.last
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether something that it said was looked at and not taken.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// What the host said next, without waiting.
    fn receive(&mut self) -> Result<Option<Said>, String> {
        match self.next.take() {
            None => self.link.recv(Duration::ZERO).map_err(|Gone(why)| why),
            next => Ok(next),
        }
    }

    /// A device that is gone refuses first, and its host says why right after: then the refusal is no answer of a device.
    fn wait_for_the_word(&mut self, reply: &Reply) -> Result<(), String> {
        let until = Clock::wall_now() + WORD_WITHIN;
        while self.next.is_none() {
            let left = until.saturating_sub(Clock::wall_now());
            if left.is_zero() {
                break;
            }
            let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
            let _ = ppoll(&mut link, Some(left.into()), None);
            // A host that goes on talking still has its device.
            self.next = self
                .link
                .recv(Duration::ZERO)
                .map_err(|Gone(why)| format!("{why} (before that: {})", verbs::reply_words(reply)))?;
        }
        Ok(())
    }

    /// Hands a command over.
    pub(super) fn send(&mut self, number: u32, command: &Command) -> Result<(), String> {
        self.last += 1;
        // The tester counts anew in each test: what is left of an earlier one must not answer for this one.
        self.asked.retain(|_, known| *known != number);
        self.asked.insert(self.last, number);
        self.put(command)
    }

    fn put(&mut self, command: &Command) -> Result<(), String> {
        let command = proto::Command {
            kind: Some(command.clone()),
        };
        self.link.send(self.last, command).map_err(|Gone(why)| why)
    }

    /// Whether nothing was heard of it for so long that its silence could be its end.
    pub(super) fn wants_sign(&self, now: Time) -> bool {
        now.since(self.sign_at) >= self.signs.after
    }

    /// Asks for a sign of life where one is wanted: for a queue pair that never is, which its host refuses by itself,
    /// without a word to the device.
    pub(super) fn ask_for_sign(&mut self, now: Time) -> Result<(), String> {
        if !self.wants_sign(now) {
            return Ok(());
        }
        match self.asked_for_sign {
            None => {
                self.asked_for_sign = Some(now);
                self.last += 1;
                self.put(&Command::QueryQp(verbs::pb::QueryQp { qp: 0 }))
            }
            Some(asked) if now.since(asked) >= self.signs.within => Err(format!(
                "the host of the {}'s device gives no sign of life: asked for one, it said nothing for {:?}; is it \
                 stopped, or is the way to it cut? A slow device's may take longer: agent_within of the rig",
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

/// Whether a host may have something to say within that time; when not, none has.
pub(super) fn hosts_have(hosts: &[Host], timeout: Duration) -> bool {
    if hosts.is_empty() && timeout.is_zero() {
        return false;
    }
    let mut fds: Vec<PollFd<'_>> = hosts
        .iter()
        .map(|host| PollFd::new(host.link.as_fd(), PollFlags::POLLIN))
        .collect();
    // A signal, or a poll that fails for want of memory, ends the wait early; the next look finds what there is.
    ppoll(&mut fds, Some(timeout.into()), None).map_or(true, |ready| ready > 0)
}

/// Whether a refusal may come of a device that is gone.
fn smells_of_gone(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(refused)
        if OF_THE_GONE.contains(&refused.errno) || refused.text.starts_with("the device is gone"))
}
