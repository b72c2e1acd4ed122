//! Both ends of a connection between two adapters, read from the record.

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{HostEvent, Side, Span, Time, Trace, VerbsDone, WcStatus};
use verbatim_wire::Mtu;
use verbatim_wire::packet::Psn;

use super::super::qp_history::{is_done, is_refused};
use crate::rc::{HALF, merge};

/// A posted work request: its command and its parameters.
pub(super) type Sent<'t> = (&'t VerbsDone, &'t pb::PostSend);
pub(super) type Receive<'t> = (&'t VerbsDone, &'t pb::PostReceive);

/// A completion, with the event that reported it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'t> {
    pub(super) event: &'t HostEvent,
    pub(super) completion: &'t pb::Completion,
}

impl Told<'_> {
    pub(super) fn status(&self) -> WcStatus {
        WcStatus(self.completion.status)
    }

    pub(super) fn in_words(&self) -> String {
        format!("wr_id {} with {}", self.completion.wr_id, self.status())
    }
}

/// One end of the connection: a queue pair, from its creation to its end.
pub(super) struct End<'t> {
    pub(super) side: Side,
    pub(super) handle: u32,
    qpn: u32,
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Handle of the memory that its host registered last before it created the queue pair.
    pub(super) memory: Option<u32>,
    /// Local CA ACK Delay of its device.
    pub(super) ack_delay: u32,
    /// Attributes that its host set, the last value of each.
    pub(super) given: pb::QpAttributes,
    /// Accepted steps, in order, and the command that destroyed the queue pair.
    pub(super) steps: Vec<(&'t VerbsDone, pb::QpState)>,
    pub(super) sends: Vec<Sent<'t>>,
    pub(super) receives: Vec<Receive<'t>>,
    pub(super) completions: Vec<Told<'t>>,
    pub(super) events: Vec<(&'t HostEvent, &'t str)>,
    /// Queries that the host answered, with the state.
    pub(super) queries: Vec<(&'t VerbsDone, pb::QpState)>,
}

impl<'t> End<'t> {
    /// Returns the completions of receives, or those of send requests.
    pub(super) fn completions_of(&self, receives: bool) -> impl Iterator<Item = Told<'t>> + '_ {
        let is_it = move |told: &&Told<'_>| {
            let wr_id = told.completion.wr_id;
            let is_receive = self.receives.iter().any(|(_, receive)| receive.wr_id == wr_id);
            is_receive == receives
        };
        self.completions.iter().filter(is_it).copied()
    }

    /// Returns whether the queue pair hears requests from the place `after` to the place `until`.
    pub(super) fn hears(&self, (after, until): (usize, usize)) -> Hears {
        let hears = |state| matches!(state, pb::QpState::Rtr | pb::QpState::Rts | pb::QpState::Sqd);
        let before = self.steps.iter().rev().find(|(done, _)| done.place < after);
        let mut later = self
            .steps
            .iter()
            .filter(|(done, _)| (after..until).contains(&done.place));
        if before.is_some_and(|(_, state)| hears(*state)) {
            return match later.all(|(_, state)| hears(*state)) {
                true => Hears::Yes,
                false => Hears::Unknown,
            };
        }
        match later.find(|(_, state)| hears(*state)) {
            None => Hears::No,
            Some((done, _)) => match &done.answer {
                Some((at, ..)) => Hears::From(at.latest),
                None => Hears::Unknown,
            },
        }
    }

    /// Returns the command that moved the queue pair to ERR, if its host did.
    pub(super) fn stopped(&self) -> Option<&'t VerbsDone> {
        let mut steps = self.steps.iter();
        steps
            .find(|(_, state)| *state == pb::QpState::Err)
            .map(|(done, _)| *done)
    }

    /// Returns whether its host moved the queue pair back to RESET, and did not destroy it.
    pub(super) fn was_reset(&self) -> bool {
        let is_reset = |(done, state): &(&VerbsDone, pb::QpState)| {
            *state == pb::QpState::Reset && matches!(done.command, Command::ModifyQp(_))
        };
        self.steps.iter().any(is_reset)
    }

    /// Returns whether its host replied to a command after this time.
    pub(super) fn is_alive_after(&self, trace: &Trace, time: Time) -> bool {
        let mut commands = trace.timeline.commands.iter().filter(|done| done.side == self.side);
        commands.any(|done| done.place < self.end && done.asked.earliest >= time && done.answer.is_some())
    }

    pub(super) fn mtu(&self) -> u32 {
        let code = self.given.path_mtu.and_then(|code| u8::try_from(code).ok());
        code.and_then(|code| Mtu(code).bytes()).unwrap_or(256)
    }
}

/// Whether a queue pair hears the requests of its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hears {
    Yes,
    No,
    /// It hears them again from this time on.
    From(Time),
    Unknown,
}

/// A connection between two adapters. `ends[0]` is the device under test, unless the connection is a control.
pub(super) struct Pair<'t> {
    pub(super) trace: &'t Trace,
    pub(super) ends: [End<'t>; 2],
}

impl Pair<'_> {
    pub(super) fn begin(&self) -> usize {
        self.ends[0].begin.min(self.ends[1].begin)
    }

    /// Returns how far the PSN that the responder expects first lies beyond the requester's first PSN.
    pub(super) fn gap(&self, asker: usize) -> i64 {
        let first = self.ends[asker].given.sq_psn.unwrap_or_default();
        let expected = self.ends[1 - asker].given.rq_psn.unwrap_or_default();
        let ahead = Psn::new(expected).since(Psn::new(first));
        match ahead < HALF {
            true => i64::from(ahead),
            false => i64::from(ahead) - i64::from(Psn::COUNT),
        }
    }
}

/// Returns the connections between the device and the tester's adapter, and those of the tester's adapter with itself.
pub(super) fn pairs(trace: &Trace) -> (Vec<Pair<'_>>, Vec<Pair<'_>>) {
    let addresses = [Addresses::of(trace, Side::Dut), Addresses::of(trace, Side::Tester)];
    let (mut pairs, mut controls) = (Vec::new(), Vec::new());
    let mut left: Vec<End<'_>> = ends(trace);
    for end in &mut left {
        end.ack_delay = addresses[end.side as usize].ack_delay;
    }
    while !left.is_empty() {
        let one = left.remove(0);
        let fits = |other: &End<'_>| {
            let is_named =
                |a: &End<'_>, b: &End<'_>| a.given.dest_qpn == Some(b.qpn) && addresses[b.side as usize].has(&a.given);
            other.begin < one.end && is_named(&one, other) && is_named(other, &one)
        };
        let Some(at) = left.iter().position(fits) else {
            continue;
        };
        let other = left.remove(at);
        match (one.side, other.side) {
            (Side::Dut, Side::Tester) => pairs.push(Pair {
                trace,
                ends: [one, other],
            }),
            (Side::Tester, Side::Dut) => pairs.push(Pair {
                trace,
                ends: [other, one],
            }),
            (Side::Tester, Side::Tester) => controls.push(Pair {
                trace,
                ends: [one, other],
            }),
            (Side::Dut, Side::Dut) => {}
        }
    }
    (pairs, controls)
}

/// Facts that a side's host reports: the addresses of its port, and its Local CA ACK Delay.
#[derive(Default)]
struct Addresses<'t> {
    gids: Vec<&'t [u8]>,
    lid: u32,
    ack_delay: u32,
}

impl<'t> Addresses<'t> {
    fn of(trace: &'t Trace, side: Side) -> Self {
        let mut opened = trace.timeline.commands.iter().filter(|done| done.side == side);
        let facts = opened.find_map(|done| match &done.answer {
            Some((_, _, Reply::Opened(facts), _)) => Some(facts),
            _ => None,
        });
        facts.map_or_else(Self::default, |facts| Self {
            gids: facts.gids.iter().map(|gid| gid.gid.as_slice()).collect(),
            lid: facts.lid,
            ack_delay: facts.local_ca_ack_delay,
        })
    }

    /// Returns whether the address vector leads to this port.
    fn has(&self, given: &pb::QpAttributes) -> bool {
        given
            .address
            .as_ref()
            .is_some_and(|address| match address.dgid.is_empty() {
                true => address.dlid == self.lid,
                false => self.gids.contains(&address.dgid.as_slice()),
            })
    }
}

/// Returns all RC queue pairs of both sides.
fn ends(trace: &Trace) -> Vec<End<'_>> {
    let last = trace.timeline.order.len();
    let commands = &trace.timeline.commands;
    let made = commands.iter().filter_map(|done| match (&done.command, &done.answer) {
        (Command::CreateQp(of), Some((_, _, Reply::Qp(qp), _))) if of.service() == pb::Service::Rc => Some((done, qp)),
        _ => None,
    });
    made.map(|(made, qp)| {
        let is_end = |done: &&VerbsDone| {
            done.side == made.side
                && match &done.command {
                    Command::DestroyQp(of) => of.qp == qp.qp,
                    Command::DestroyAll(_) => true,
                    _ => false,
                }
        };
        let its = || trace.timeline.commands_between((made.place, last)).iter();
        let gone = its().find(is_end);
        // The events that a host reports before it answers the command still belong to the queue pair.
        let end = gone.map_or(last, |gone| gone.place);
        let mut before = commands
            .iter()
            .rev()
            .filter(|done| done.side == made.side && done.place < made.place);
        let memory = before.find_map(|done| match &done.answer {
            Some((_, _, Reply::Memory(memory), _)) => Some(memory.memory),
            _ => None,
        });
        let mut one = End {
            memory,
            ack_delay: 0,
            side: made.side,
            handle: qp.qp,
            qpn: qp.qpn,
            begin: made.place,
            end,
            given: pb::QpAttributes::default(),
            steps: Vec::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            completions: Vec::new(),
            events: Vec::new(),
            queries: Vec::new(),
        };
        for done in its().filter(|done| done.side == made.side && done.place < end) {
            one.learn(done);
        }
        // A destroyed queue pair hears nothing more.
        one.steps.extend(
            gone.map(|gone| (gone, pb::QpState::Reset))
                .filter(|_| is_destroyed(gone)),
        );
        for told in trace.timeline.told_between((made.place, end)) {
            match &told.event {
                _ if told.side != made.side => {}
                Event::Completion(completion) if completion.qp == qp.qp => {
                    one.completions.push(Told {
                        event: told,
                        completion,
                    });
                }
                Event::AsyncEvent(event) if event.qp == qp.qp => one.events.push((told, &event.name)),
                _ => {}
            }
        }
        one
    })
    .collect()
}

fn is_destroyed(gone: Option<&VerbsDone>) -> bool {
    gone.is_some_and(|gone| matches!(gone.command, Command::DestroyQp(_)))
}

impl<'t> End<'t> {
    fn learn(&mut self, done: &'t VerbsDone) {
        match &done.command {
            Command::ModifyQp(modify) if modify.qp == self.handle && is_done(done) => {
                if let Some(given) = &modify.attributes {
                    merge(&mut self.given, given);
                }
                self.steps.push((done, modify.state()));
            }
            Command::PostSend(post) if post.qp == self.handle && !is_refused(done) => self.sends.push((done, post)),
            Command::PostReceive(post) if post.qp == self.handle && !is_refused(done) => {
                self.receives.push((done, post));
            }
            Command::QueryQp(of) if of.qp == self.handle => {
                if let Some((_, _, Reply::Status(status), _)) = &done.answer {
                    self.queries.push((done, status.state()));
                }
            }
            _ => {}
        }
    }
}

/// Returns the time of a command's execution on the clock of its host.
pub(super) fn host_time(done: &VerbsDone) -> Option<Span> {
    done.answer.as_ref().map(|(_, host_at, ..)| *host_at)
}
