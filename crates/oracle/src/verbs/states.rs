//! Rules for the states of a queue pair: accepted steps and work, reports and events, and the states in which the queue
//! pair is silent. The rules apply to every queue pair of the device, connected or not.
//!
//! A queue pair may be in one of a set of states (`qp_history`). If these states lead to different requirements, no
//! rule is applied.
//!
//! Source: architecture 10.3.1 (states), 11.2.5.2 (modify queue pair), 11.4.1 (work requests), 11.6.3.1 (events); Linux
//! `ib_modify_qp_is_ok`. On a host, its kernel, its driver or an agent may refuse a command before the device gets the
//! command. On such a host, an accepted command that must be refused is INCONCLUSIVE. A refused command that must be
//! accepted is NOT_APPLICABLE.

use core::time::Duration;

use verbatim_record::verbs::{Command, Event, Reply, pb, reply_words};
use verbatim_record::{Evidence, HostEvent, Passed, Side, Time, VerbsDone, WcStatus};
use verbatim_wire::packet::{Medium, Packet};

use super::asking::Asking;
use super::events::event_reason;
use super::qp_history::{Is, QpHistory, is_done, is_refused, posts};
use super::qp_trace::{EVENT_WAIT, SIMULATED_PATH};
use super::steps::{self, Verdict, state_in_words};
use crate::parsed::QUEUED;
use crate::rc;
use crate::rule::Rule;

pub(super) type StatesRule = for<'t> fn(&QpHistory<'t>, &mut Asking<'_, 't>);

pub(super) static RULES: &[(Rule, StatesRule)] = &[
    (Rule::StepRefused, step_refused),
    (Rule::StepTaken, step_taken),
    (Rule::State, state),
    (Rule::WorkRefused, work_refused),
    (Rule::WorkTaken, work_taken),
    (Rule::EventReason, event_reason),
    (Rule::SilentState, silent_state),
    (Rule::FlushedLate, flushed_late),
    (Rule::DatagramCompletes, datagram_completes),
];

fn about(is: Is, modify: &pb::ModifyQp) -> String {
    let given = steps::given(modify);
    let with = if given.is_empty() {
        "nothing".into()
    } else {
        given.join(", ")
    };
    format!(
        "{} to {} with {with}",
        state_in_words(is.state),
        state_in_words(modify.state())
    )
}

fn reply_in_words(done: &VerbsDone) -> String {
    match &done.answer {
        Some((.., reply, _)) => reply_words(reply),
        None => "no reply".into(),
    }
}

fn step_refused<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    history.each_step(|is, verdict, done, modify| {
        let Verdict::Refused(why) = verdict else { return };
        let result = if is_refused(done) {
            Passed::Pass
        } else {
            history.when_taken()
        };
        asking.say(result, [done.into()], || {
            (about(is, modify), format!("refused: {why}"), reply_in_words(done))
        });
    });
}

fn step_taken<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    history.each_step(|is, verdict, done, modify| {
        if !matches!(verdict, Verdict::Taken) {
            return;
        }
        let result = if is_done(done) {
            Passed::Pass
        } else {
            history.when_refused(done)
        };
        asking.say(result, [done.into()], || {
            (about(is, modify), "done".into(), reply_in_words(done))
        });
    });
}

fn state<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    let (mut sq_psn, mut rq_psn) = (None, None);
    let mut psn_since = history.begin;
    history.each(|is, done| {
        match (&done.command, &done.answer) {
            (Command::ModifyQp(modify), _) if is_done(done) => {
                let given = modify.attributes.clone().unwrap_or_default();
                if modify.state() == pb::QpState::Reset {
                    (sq_psn, rq_psn) = (None, None);
                    psn_since = done.place;
                }
                sq_psn = given.sq_psn.or(sq_psn);
                rq_psn = given.rq_psn.or(rq_psn);
            }
            (Command::QueryQp(_), Some((_, _, Reply::Status(status), _))) => {
                let states = is.states(history.service);
                let wanted = states.iter().map(|state| state_in_words(*state)).collect::<Vec<_>>();
                let is_so = states.contains(&status.state());
                asking.must(is_so, [done.into()], || {
                    let about = "state of the queue pair".to_owned();
                    (about, wanted.join(" or "), state_in_words(status.state()))
                });
                // The PSNs are not compared in three cases: after traffic, which advances them; on a host, whose
                // driver may report other values; and in ERR, where they have no meaning.
                let is_over = status.state() == pb::QpState::Err;
                if !history.is_simulated() || is_over || history.has_traffic(psn_since, done.place) {
                    return;
                }
                for (name, given, seen) in [("sq_psn", sq_psn, status.sq_psn), ("rq_psn", rq_psn, status.rq_psn)] {
                    if let Some(given) = given {
                        asking.must(given == seen, [done.into()], || {
                            (format!("{name} of the queue pair"), given.to_string(), seen.to_string())
                        });
                    }
                }
            }
            _ => {}
        }
    });
}

/// Returns whether the command posts work in a state that refuses it.
pub(super) fn refuses(is: Is, done: &VerbsDone) -> bool {
    posts(&done.command).is_some_and(|(is_receive, ..)| match is.state {
        pb::QpState::Reset => true,
        pb::QpState::Init | pb::QpState::Rtr => !is_receive,
        _ => false,
    })
}

fn work_refused<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !history.has_own_verbs() {
        return;
    }
    history.each(|is, done| {
        let Some((is_receive, ..)) = posts(&done.command) else {
            return;
        };
        if refuses(is, done) && !is.may_have_failed && done.answer.is_some() {
            asking.must(is_refused(done), [done.into()], || {
                let what = if is_receive { "a receive" } else { "a send request" };
                let about = format!("{what} in {}", state_in_words(is.state));
                (about, "refused".into(), reply_in_words(done))
            });
        }
    });
}

fn work_taken<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    let mut taken: [Vec<(u64, usize)>; 2] = [Vec::new(), Vec::new()];
    history.each(|is, done| {
        if matches!(&done.command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Reset && is_done(done)) {
            taken = [Vec::new(), Vec::new()];
        }
        let Some((is_receive, wr_id, local)) = posts(&done.command) else {
            return;
        };
        let of_kind = &mut taken[usize::from(is_receive)];
        let completed = |wr_id: u64, place: usize| {
            history.events.iter().any(|happened| {
                let is_it = matches!(&happened.event, Event::Completion(completion) if completion.wr_id == wr_id);
                is_it && (place..done.place).contains(&happened.place)
            })
        };
        of_kind.retain(|(wr_id, place)| !completed(*wr_id, *place));
        let depth = if is_receive { history.depths.1 } else { history.depths.0 };
        let has_room = of_kind.len() < depth as usize;
        if !is_refused(done) {
            of_kind.push((wr_id, done.place));
        }
        let takes = match is.state {
            pb::QpState::Rts | pb::QpState::Sqd => true,
            pb::QpState::Init | pb::QpState::Rtr => is_receive,
            _ => false,
        };
        let is_usual = match &done.command {
            Command::PostSend(post) => history.facts.must_accept(history.service, post),
            _ => true,
        };
        if !takes || is.may_have_failed && is.state != pb::QpState::Rts || !has_room || !is_usual {
            return;
        }
        if !is_in_memory(&history.memory, local, done.place) || done.answer.is_none() {
            return;
        }
        let result = if is_refused(done) {
            history.when_refused(done)
        } else {
            Passed::Pass
        };
        asking.say(result, [done.into()], || {
            let what = if is_receive { "a receive" } else { "a send request" };
            let about = format!("{what} in {}", state_in_words(is.state));
            (about, "accepted".into(), reply_in_words(done))
        });
    });
}

fn flushed_late<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    history.each(|is, done| {
        let Some((is_receive, wr_id, _)) = posts(&done.command) else {
            return;
        };
        let flushes = match is.state {
            pb::QpState::Err => true,
            pb::QpState::Sqe => !is_receive && !is.may_have_failed,
            _ => false,
        };
        let known = done.answer.as_ref().filter(|_| flushes && is_done(done));
        let Some((answered, ..)) = known else { return };
        let status = |happened: &&HostEvent| match &happened.event {
            Event::Completion(completion) if completion.wr_id == wr_id && happened.place > done.place => {
                Some(WcStatus(completion.status))
            }
            _ => None,
        };
        let happened = history
            .events
            .iter()
            .copied()
            .find(|happened| status(happened).is_some());
        let due = answered.latest.after(EVENT_WAIT);
        // A missing completion counts only if the host replied to a command about the queue pair after the
        // deadline.
        let mut later = history.commands.iter().filter(|later| later.place > done.place);
        let is_alive = later.any(|later| later.asked.earliest >= due && later.answer.is_some());
        if happened.is_none() && !is_alive {
            return;
        }
        let by_step = happened.and_then(|happened| stirred_by(history, (done.place, due), happened));
        let is_so = happened.as_ref().and_then(status) == Some(WcStatus::WR_FLUSH_ERR);
        let evidence = [Evidence::from(done)].into_iter();
        let evidence = evidence
            .chain(by_step.map(Evidence::from))
            .chain(happened.map(Evidence::from));
        asking.must(is_so && by_step.is_none(), evidence, || {
            let what = if is_receive { "a receive" } else { "a send request" };
            let seen = happened.map_or_else(
                || "no completion".into(),
                |happened| Evidence::from(happened).in_words(),
            );
            let seen = match by_step {
                Some(_) => format!("{seen}, only after the next command"),
                None => seen,
            };
            let about = format!("{what} in {}", state_in_words(is.state));
            (about, format!("its completion with {}", WcStatus::WR_FLUSH_ERR), seen)
        });
    });
}

/// Returns the step or post, after the deadline, to which the device reacted with a late completion. Applies in
/// simulations only: on hardware, the time at which a host fetched a completion is unknown.
fn stirred_by<'t>(history: &QpHistory<'t>, (place, due): (usize, Time), happened: &HostEvent) -> Option<&'t VerbsDone> {
    let mut later = history.commands.iter().copied().filter(|later| later.place > place);
    let stirs = |later: &&VerbsDone| {
        let is_it = matches!(later.command, Command::ModifyQp(_)) || posts(&later.command).is_some();
        is_it && later.asked.earliest >= due
    };
    let by = later.find(stirs).filter(|by| happened.at.earliest >= by.asked.latest);
    by.filter(|_| history.is_simulated())
}

fn datagram_completes<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    let step = |done: &&VerbsDone| matches!(&done.command, Command::ModifyQp(_)) && is_done(done);
    history.each(|is, done| {
        let Command::PostSend(post) = &done.command else {
            return;
        };
        let is_up = matches!(is.state, pb::QpState::Rts | pb::QpState::Sqd);
        if history.service != pb::Service::Ud || !is_up || !post.signaled || !is_done(done) {
            return;
        }
        let mut later = history
            .commands
            .iter()
            .copied()
            .filter(|later| later.place > done.place);
        let mut steps = later.clone().filter(step);
        // Command from which on the device must send the datagram: the post itself or, in SQD, the step to RTS.
        let begins = match is.state {
            pb::QpState::Rts => Some(done),
            _ => steps.next().filter(
                |step| matches!(&step.command, Command::ModifyQp(modify) if modify.state() == pb::QpState::Rts),
            ),
        };
        let Some((known, ..)) = begins.and_then(|begins| begins.answer.as_ref()) else {
            return;
        };
        let due = known.latest.after(EVENT_WAIT);
        let is_left = steps.next().is_none_or(|step| step.asked.earliest >= due);
        let is_alive = later.any(|later| later.asked.earliest >= due && later.answer.is_some());
        let is_it = |happened: &&&HostEvent| {
            matches!(&happened.event, Event::Completion(completion) if completion.wr_id == post.wr_id)
                && happened.place > done.place
        };
        let happened = history.events.iter().find(is_it).copied();
        if happened.is_some() || is_left && is_alive {
            let evidence = [Evidence::from(done)].into_iter().chain(happened.map(Evidence::from));
            let since = begins.map_or(done.place, |begins| begins.place);
            let by_step = happened.and_then(|happened| stirred_by(history, (since, due), happened));
            let is_so = happened.is_some_and(|happened| happened.place > since) && by_step.is_none();
            asking.must(is_so, evidence, || {
                let about = format!("a datagram posted in {}", state_in_words(is.state));
                let seen = match (happened, by_step) {
                    (Some(_), Some(_)) => "the completion, only after the next command",
                    (Some(_), None) => "the completion, in SQD",
                    (None, _) => "none",
                };
                (about, "its completion, in RTS".into(), seen.into())
            });
        }
    });
}

/// Returns whether the memory of a request is registered and writable for the device. A host may refuse other memory.
pub(super) fn is_in_memory(memory: &[&VerbsDone], local: Option<pb::Slice>, until: usize) -> bool {
    is_registered(memory, local, until, true)
}

/// Returns whether the memory of a request is registered, and writable for the device if `writes` is true. After a
/// deregistration without an answer, the memory counts as not registered.
pub(super) fn is_registered(memory: &[&VerbsDone], local: Option<pb::Slice>, until: usize, writes: bool) -> bool {
    let Some(local) = local.filter(|local| local.length > 0) else {
        return true;
    };
    let before = &memory[..memory.partition_point(|done| done.place < until)];
    // The last command about that memory decides.
    let last = before
        .iter()
        .rev()
        .find_map(|done| match (&done.command, &done.answer) {
            (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) if made.memory == local.memory => {
                let is_writable = !writes || asked.access.is_some_and(|access| access.local_write);
                Some(is_writable && u64::from(local.offset) + u64::from(local.length) <= u64::from(asked.length))
            }
            (Command::DeregisterMemory(gone), _) if gone.memory == local.memory && !is_refused(done) => Some(false),
            (Command::DestroyAll(_), _) => Some(false),
            _ => None,
        });
    last.unwrap_or(false)
}

fn silent_state<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    let measured = rc::path(history.trace).map(|path| path + MARGIN);
    let path = measured.or_else(|| history.is_simulated().then_some(SIMULATED_PATH));
    let path = path.unwrap_or(ANY_PATH);
    let modify = |done: &&'t VerbsDone| match &done.command {
        Command::ModifyQp(modify) if is_done(done) => Some((*done, modify)),
        _ => None,
    };
    let steps: Vec<(&VerbsDone, &pb::ModifyQp)> = history.commands.iter().filter_map(modify).collect();
    let mut peer = None;
    for (at, (done, modify)) in steps.iter().enumerate() {
        peer = modify.attributes.as_ref().and_then(|given| given.dest_qpn).or(peer);
        let is_silent = matches!(
            modify.state(),
            pb::QpState::Reset | pb::QpState::Init | pb::QpState::Err
        );
        let (Some((known, ..)), Some(peer)) = (&done.answer, peer.filter(|_| is_silent)) else {
            continue;
        };
        let until = steps.get(at + 1).map_or(history.end, |(next, _)| next.place);
        // In ERR, packets that are already in the port's queue still leave.
        let path = match modify.state() {
            pb::QpState::Err => path.max(QUEUED),
            _ => path,
        };
        listen(
            history,
            asking,
            (done, modify.state()),
            (known.latest.after(path), until),
            peer,
        );
    }
}

/// Time that a packet may take beyond the longest measured round trip.
const MARGIN: Duration = Duration::from_millis(1);
/// Upper bound of the transit time on a path that was not measured.
const ANY_PATH: Duration = Duration::from_secs(1);

fn listen<'t>(
    history: &QpHistory<'t>,
    asking: &mut Asking<'_, 't>,
    (step, state): (&'t VerbsDone, pb::QpState),
    (since, until): (verbatim_record::Time, usize),
    peer: u32,
) {
    let others: Vec<u32> = history
        .trace
        .timeline
        .commands
        .iter()
        .filter(|done| done.side == Side::Dut && is_done(done))
        .filter_map(|done| match &done.command {
            Command::ModifyQp(modify) if modify.qp != history.handle => modify.attributes.as_ref()?.dest_qpn,
            _ => None,
        })
        .collect();
    // Another queue pair may be connected to the same peer, and may have sent the packets.
    if others.contains(&peer) {
        return;
    }
    let frames = history.trace.timeline.frames_between((step.place, until)).iter();
    let late = frames
        .filter(|frame| frame.received && frame.at.earliest > since)
        .find(|frame| {
            let packet = Packet::parse(Medium::Ethernet, &frame.bytes);
            packet.is_ok_and(|packet| packet.bth().dest_qp().0 == peer)
        });
    let evidence = [Evidence::from(step)].into_iter().chain(late.map(Evidence::from));
    asking.must(late.is_none(), evidence, || {
        let about = format!("packets in {}", state_in_words(state));
        (
            about,
            "none".into(),
            late.map(|frame| Evidence::from(frame).in_words()).unwrap_or_default(),
        )
    });
    if state == pb::QpState::Err {
        return;
    }
    let is_completion =
        |happened: &&&HostEvent| matches!(happened.event, Event::Completion(_)) && happened.at.earliest > since;
    let mut within = history
        .events
        .iter()
        .filter(|happened| happened.place > step.place && happened.place < until);
    let done = within.find(is_completion);
    let evidence = [Evidence::from(step)]
        .into_iter()
        .chain(done.map(|happened| Evidence::from(*happened)));
    asking.must(done.is_none(), evidence, || {
        let about = format!("completions in {}", state_in_words(state));
        (
            about,
            "none".into(),
            done.map(|happened| Evidence::from(*happened).in_words())
                .unwrap_or_default(),
        )
    });
}
