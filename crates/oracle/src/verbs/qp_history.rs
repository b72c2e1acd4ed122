//! The life of a queue pair: what its host was asked to do with it, what it told, and which states it may be in by then.
//!
//! From the first packet or send request on it may have failed by itself, so that what it may be is a set of states.
//!
//! Source: architecture 10.3.1 (states).

use std::collections::BTreeMap;
use std::rc::Rc;

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{HostEvent, Passed, Side, Trace, VerbsDone, WcStatus};
use verbatim_wire::packet::{Medium, Packet};

use super::steps::{self, Facts, Verdict};
use crate::freedom::holds;

/// A queue pair of the device, from when it was made until it was destroyed.
pub(super) struct QpHistory<'t> {
    pub(super) trace: &'t Trace,
    pub(super) facts: Facts,
    pub(super) handle: u32,
    pub(super) service: pb::Service,
    pub(super) depths: (u32, u32),
    /// What its host was asked to do with it, in order.
    pub(super) commands: Vec<&'t VerbsDone>,
    /// What was told of it.
    pub(super) events: Vec<&'t HostEvent>,
    /// Where something came to it, or was posted to be sent, that may have made it fail.
    traffic: Vec<usize>,
    /// Where a packet came to it.
    came: Vec<usize>,
    /// What was done with memory on its host.
    pub(super) memory: Rc<[&'t VerbsDone]>,
    /// The place where it was made, and the one where it was gone.
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// What a queue pair is when its host is asked for something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Is {
    /// By its steps.
    pub(super) state: pb::QpState,
    /// The place of the step that made it so.
    pub(super) since: usize,
    /// Where it went to RTR.
    pub(super) up: usize,
    /// Whether it may have failed.
    pub(super) may_have_failed: bool,
    /// Whether it was told so, of a datagram queue pair.
    pub(super) has_failed: bool,
}

impl Is {
    /// The states that it may be in.
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

/// The parameter that says so of a rig whose agent stands for the device itself.
pub const OWN_VERBS: &str = "own_verbs";

/// Linux's numbers of what is not there: ENOSYS, EOPNOTSUPP.
const NOT_THERE: [i32; 2] = [38, 95];

/// Whose queue pair a command is about.
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

/// What a command posts: whether it is a receive, and where its data are.
pub(super) fn posts(command: &Command) -> Option<(bool, u64, Option<pb::Slice>)> {
    match command {
        Command::PostSend(post) => Some((false, post.wr_id, post.local)),
        Command::PostReceive(post) => Some((true, post.wr_id, post.local)),
        _ => None,
    }
}

/// All queue pairs of the device.
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
    // Sorted out once: a long record has ten thousands of commands and hundreds of queue pairs.
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
        let came = to.get(&qp.qpn).cloned().unwrap_or_default();
        let posts = posts.map(|done| done.place);
        let mut traffic: Vec<usize> = posts.chain(came.iter().copied()).collect();
        traffic.sort_unstable();
        QpHistory {
            trace,
            facts,
            handle: qp.qp,
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

/// Whether one of these places, which are in order, lies between two others.
fn is_between(places: &[usize], after: usize, before: usize) -> bool {
    let at = places.partition_point(|place| *place <= after);
    places.get(at).is_some_and(|place| *place < before)
}

impl<'t> QpHistory<'t> {
    pub(super) fn is_simulated(&self) -> bool {
        self.trace.begin.simulated
    }

    /// Whether refusals are the device's own: on a host a kernel, a driver or an agent is between.
    pub(super) fn has_own_verbs(&self) -> bool {
        self.is_simulated() || self.trace.parameter(OWN_VERBS).is_some_and(|is_own| is_own != 0)
    }

    /// What is taken that must be refused.
    pub(super) fn when_taken(&self) -> Passed {
        if self.has_own_verbs() {
            Passed::Fail
        } else {
            Passed::Inconclusive
        }
    }

    /// What is refused that must be taken. A host may lack it, and a device that says so: that is no fault.
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

    /// Whether a datagram failed, after which none is sent. Of a real host's answers nobody knows which came first.
    fn has_failed(&self, after: usize, before: usize) -> bool {
        // What was posted before the failure that is known was told late, and is no other.
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

    /// Each command with what the queue pair is by then; ends where nobody answered.
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
            // What is posted in SQE is flushed and changes nothing.
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
                // That it has failed it says itself; that it has not may be old when it is told.
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

    /// Each step, with what must come of it in all states that the queue pair may be in.
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
