//! History of a queue pair: the commands to its host, its events, and the states that it may be in.
//!
//! From the first packet or send request on, a queue pair may have failed by itself. The history then gives all
//! states that the queue pair may be in.
//!
//! Source: architecture 10.3.1 (states).

use std::collections::BTreeMap;
use std::rc::Rc;

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{HostEvent, Passed, Side, Trace, VerbsDone, WcStatus};
use verbatim_wire::packet::{Medium, Packet};

use super::steps::{self, Facts, Verdict};
use crate::freedom::holds;

/// Queue pair of the device, from its creation to its destruction.
pub(super) struct QpHistory<'t> {
    pub(super) trace: &'t Trace,
    pub(super) facts: Facts,
    pub(super) handle: u32,
    pub(super) qpn: u32,
    pub(super) service: pb::Service,
    pub(super) depths: (u32, u32),
    /// Commands to its host about the queue pair, in order.
    pub(super) commands: Vec<&'t VerbsDone>,
    /// Events that the host reported.
    pub(super) events: Vec<&'t HostEvent>,
    /// Places of packets to the queue pair, and of posted send requests. Each may have made the queue pair fail.
    traffic: Vec<usize>,
    /// Places of packets to the queue pair.
    came: Vec<usize>,
    /// Registrations and deregistrations of memory on its host.
    pub(super) memory: Rc<[&'t VerbsDone]>,
    /// Place where the queue pair was created; `end`: place where it was destroyed.
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// State of a queue pair when its host gets a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Is {
    /// State after the last step, or after the last failure that the device reported.
    pub(super) state: pb::QpState,
    /// Place of this step or report.
    pub(super) since: usize,
    /// Only traffic after this place may have made the queue pair fail. It is the place of the last step to RESET, INIT
    /// or RTR, or of the last reported failure.
    pub(super) up: usize,
    /// Whether the queue pair may have failed by itself since then.
    pub(super) may_have_failed: bool,
    /// Whether the host reported a failed datagram. Always false for a connected queue pair.
    pub(super) has_failed: bool,
}

impl Is {
    /// Returns the states that the queue pair may be in.
    pub(super) fn states(self, service: pb::Service) -> Vec<pb::QpState> {
        let mut states: Vec<pb::QpState> = [self.state].into_iter().filter(|_| !self.has_failed).collect();
        if self.may_have_failed {
            states.push(pb::QpState::Err);
        }
        if self.may_have_failed && service == pb::Service::Ud {
            states.push(pb::QpState::Sqe);
        }
        holds(states.len());
        states
    }
}

pub(super) fn is_done(done: &VerbsDone) -> bool {
    matches!(done.answer, Some((_, _, Reply::Done(_), _)))
}

pub(super) fn is_refused(done: &VerbsDone) -> bool {
    matches!(done.answer, Some((_, _, Reply::Refused(_), _)))
}

/// Record parameter that is nonzero if the device itself implements the verbs, so that no kernel or driver can
/// refuse commands.
pub const OWN_VERBS: &str = "own_verbs";

/// Linux error numbers of a missing function: ENOSYS, EOPNOTSUPP.
const NOT_THERE: [i32; 2] = [38, 95];

/// Returns the handle of the queue pair that a command is about.
fn handle_of(command: &Command) -> Option<u32> {
    Some(match command {
        Command::ModifyQp(of) => of.qp,
        Command::QueryQp(of) => of.qp,
        Command::PostSend(of) => of.qp,
        Command::PostReceive(of) => of.qp,
        Command::DestroyQp(of) => of.qp,
        _ => return None,
    })
}

/// For a command that posts work, returns whether the work is a receive, its `wr_id`, and its local memory.
pub(super) fn posts(command: &Command) -> Option<(bool, u64, Option<pb::Slice>)> {
    match command {
        Command::PostSend(post) => Some((false, post.wr_id, post.local)),
        Command::PostReceive(post) => Some((true, post.wr_id, post.local)),
        _ => None,
    }
}

/// Returns all queue pairs of the device.
pub(super) fn qp_histories(trace: &Trace) -> Vec<QpHistory<'_>> {
    let commands = || trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let facts = Facts::of(trace);
    let last = trace.timeline.order.len();
    let all_gone = |after: usize| {
        let mut ends = commands().filter(|done| matches!(done.command, Command::DestroyAll(_)));
        ends.find(|done| done.place > after).map(|done| done.place)
    };
    let made = commands().filter_map(|done| match (&done.command, &done.answer) {
        (Command::CreateQp(of), Some((_, _, Reply::Qp(qp), _))) => Some((done, of, qp)),
        _ => None,
    });
    let mut to: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for frame in trace.timeline.frames.iter().filter(|frame| !frame.received) {
        if let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) {
            to.entry(packet.bth().dest_qp().0).or_default().push(frame.place);
        }
    }
    // The tester sees no packets of its own adapter. A request of that adapter may cause packets to any queue pair.
    let of_tester = trace.timeline.commands.iter().filter(|done| done.side == Side::Tester);
    let asked = of_tester.filter(|done| matches!(done.command, Command::PostSend(_)) && !is_refused(done));
    let asked: Vec<usize> = asked.map(|done| done.place).collect();
    // Group the commands once: a long record has tens of thousands of commands, and hundreds of queue pairs.
    let mut by_handle: BTreeMap<u32, Vec<&VerbsDone>> = BTreeMap::new();
    for done in commands() {
        if let Some(handle) = handle_of(&done.command) {
            by_handle.entry(handle).or_default().push(done);
        }
    }
    let is_of_memory = |done: &&VerbsDone| {
        matches!(
            done.command,
            Command::RegisterMemory(_) | Command::DeregisterMemory(_) | Command::DestroyAll(_)
        )
    };
    let memory: Rc<[&VerbsDone]> = commands().filter(is_of_memory).collect();
    made.map(|(made, of, qp)| {
        let its = by_handle.get(&qp.qp).into_iter().flatten().copied();
        let its: Vec<&VerbsDone> = its.filter(|done| done.place > made.place).collect();
        let gone = its.iter().find(|done| matches!(done.command, Command::DestroyQp(_)));
        let end = gone
            .map(|done| done.place)
            .or_else(|| all_gone(made.place))
            .unwrap_or(last);
        let its: Vec<&VerbsDone> = its.into_iter().filter(|done| done.place < end).collect();
        let is_of_it = |happened: &&HostEvent| match &happened.event {
            Event::Completion(completion) => completion.qp == qp.qp,
            Event::AsyncEvent(event) => event.qp == qp.qp,
        };
        let within = trace.timeline.told_between((made.place, end)).iter();
        let posts = its
            .iter()
            .filter(|done| matches!(done.command, Command::PostSend(_)) && !is_refused(done));
        let mut came = to.get(&qp.qpn).cloned().unwrap_or_default();
        came.extend(asked.iter().filter(|place| (made.place..end).contains(*place)));
        came.sort_unstable();
        let posts = posts.map(|done| done.place);
        let mut traffic: Vec<usize> = posts.chain(came.iter().copied()).collect();
        traffic.sort_unstable();
        QpHistory {
            trace,
            facts,
            handle: qp.qp,
            qpn: qp.qpn,
            service: of.service(),
            depths: (of.send_depth, of.receive_depth),
            events: within
                .filter(|happened| happened.side == Side::Dut)
                .filter(is_of_it)
                .collect(),
            commands: its,
            traffic,
            came,
            memory: Rc::clone(&memory),
            begin: made.place,
            end,
        }
    })
    .collect()
}

/// Returns whether one of the sorted `places` lies between `after` and `before`.
fn is_between(places: &[usize], after: usize, before: usize) -> bool {
    let at = places.partition_point(|place| *place <= after);
    places.get(at).is_some_and(|place| *place < before)
}

impl<'t> QpHistory<'t> {
    pub(super) fn is_simulated(&self) -> bool {
        self.trace.begin.simulated
    }

    /// Returns whether refusals come from the device itself. If the device is in a host, the host's kernel, its driver
    /// or the agent may refuse instead.
    pub(super) fn has_own_verbs(&self) -> bool {
        self.is_simulated() || self.trace.parameter(OWN_VERBS).is_some_and(|is_own| is_own != 0)
    }

    /// Returns the result for a command that was accepted, although it must be refused.
    pub(super) fn when_taken(&self) -> Passed {
        if self.has_own_verbs() {
            Passed::Fail
        } else {
            Passed::Inconclusive
        }
    }

    /// Returns the result for a command that was refused, although it must be accepted. A refusal breaks no rule if
    /// its error number means a missing function ([`NOT_THERE`]), or if a host may have refused for reasons of its
    /// own.
    pub(super) fn when_refused(&self, done: &VerbsDone) -> Passed {
        match &done.answer {
            Some((.., Reply::Refused(refused), _)) if NOT_THERE.contains(&refused.errno) => Passed::Unspecified,
            _ if self.has_own_verbs() => Passed::Fail,
            _ => Passed::Unspecified,
        }
    }

    pub(super) fn has_traffic(&self, after: usize, before: usize) -> bool {
        is_between(&self.traffic, after, before)
    }

    /// Returns whether a datagram failed. The queue pair sends no datagram after that. Returns true in simulations
    /// only, because the order of a real host's reports is unknown.
    fn has_failed(&self, after: usize, before: usize) -> bool {
        // Only work posted after the place `after` counts, because completions of older work may be reported late.
        let sends = |wr_id: u64| {
            let later = self.commands.iter().filter(|done| done.place > after);
            let posts = later.filter_map(|done| posts(&done.command));
            let mut posts = posts.filter(|(_, of, _)| *of == wr_id).peekable();
            posts.peek().is_some() && posts.all(|(is_receive, ..)| !is_receive)
        };
        self.service == pb::Service::Ud
            && self.is_simulated()
            && self.events.iter().any(|happened| match &happened.event {
                Event::Completion(completion) => {
                    let is_error = ![WcStatus::SUCCESS.0, WcStatus::WR_FLUSH_ERR.0].contains(&completion.status);
                    is_error && (after..before).contains(&happened.place) && sends(completion.wr_id)
                }
                Event::AsyncEvent(_) => false,
            })
    }

    /// Calls `say` for each command with the state at that time. Stops at a command without a reply.
    pub(super) fn each(&self, mut say: impl FnMut(Is, &'t VerbsDone)) {
        let mut is = Is {
            state: pb::QpState::Reset,
            since: self.begin,
            up: self.begin,
            may_have_failed: false,
            has_failed: false,
        };
        for done in &self.commands {
            let is_up = !matches!(is.state, pb::QpState::Reset | pb::QpState::Init | pb::QpState::Err);
            // Work that is posted in SQE is flushed, and changes no state.
            let traffic = if is.state == pb::QpState::Sqe {
                &self.came
            } else {
                &self.traffic
            };
            is.may_have_failed = is_up && is_between(traffic, is.up, done.place);
            is.has_failed = is.may_have_failed && self.has_failed(is.up, done.place);
            say(is, done);
            match (&done.command, &done.answer) {
                (_, None) => return,
                (Command::ModifyQp(modify), _) if is_done(done) => {
                    if matches!(
                        modify.state(),
                        pb::QpState::Reset | pb::QpState::Init | pb::QpState::Rtr
                    ) {
                        is.up = done.place;
                    }
                    is.since = done.place;
                    is.state = modify.state();
                }
                // If the host reports a failure, the failure is certain. If it reports no failure, the report may be
                // outdated.
                (Command::QueryQp(_), Some((_, _, Reply::Status(status), _)))
                    if is.may_have_failed
                        && is.states(self.service).contains(&status.state())
                        && status.state() != is.state =>
                {
                    (is.state, is.since, is.up) = (status.state(), done.place, done.place);
                }
                _ => {}
            }
        }
    }

    /// Calls `say` for each step with its expected verdict, if the verdict is the same in all states that the queue
    /// pair may be in.
    pub(super) fn each_step(&self, mut say: impl FnMut(Is, &Verdict, &'t VerbsDone, &'t pb::ModifyQp)) {
        self.each(|is, done| {
            let Command::ModifyQp(modify) = &done.command else {
                return;
            };
            let verdicts: Vec<Verdict> = is
                .states(self.service)
                .into_iter()
                .map(|state| steps::verdict(self.service, state, modify, &self.facts))
                .collect();
            let is_same = verdicts.windows(2).all(|pair| pair[0].is_like(&pair[1]));
            if is_same && (is_done(done) || is_refused(done)) {
                say(is, &verdicts[0], done, modify);
            }
        });
    }
}
