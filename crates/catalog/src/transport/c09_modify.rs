//! `c09-modify-steps`: a queue pair makes the transitions that the architecture allows, and refuses all others.
//!
//! Queue pairs of both services, without a peer, go from RESET to RTS, SQD, ERR and RESET. Before each transition
//! the test tries invalid transitions: to states that cannot follow, without a required attribute, and with an
//! excess attribute. A refused transition leaves the queue pair's state unchanged. The queue pair goes to RTS with
//! each optional attribute alone, with all of them, with the least values and with the greatest. Requests posted
//! in ERR are flushed. A datagram queue pair whose send queue failed goes back to RTS, and to no other of the
//! tried states. The host refuses SENDs before RTS. In RTS it accepts as many SENDs as the queue was created for.
//!
//! Reading: the table of attributes by transition is the architecture's; Linux has the same table. On a host the
//! kernel and the driver may refuse a command before the device sees it. A wrongly accepted transition is
//! therefore INCONCLUSIVE, and a wrongly refused transition NOT_APPLICABLE. The test does not judge work posted
//! too early. With `--set own_verbs=1` the test judges all three as faults. The test leaves out services, states
//! and values that the device lacks, and SQD on a host without it. Without `--set soft_roce=1` the test never
//! increases max_dest_rd_atomic on Linux rxe, whose kernel would then write out of bounds.
//!
//! False alarm: none known.

mod attributes;
mod given;
mod ways;

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Gap, Label, Side, Trace, Verbs, VerbsDone};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};

use crate::transport::rc::{self, ask, offers};
use crate::transport::soft_roce;
use verbatim_oracle as oracle;

use attributes::{with_each, without_each};
use given::Given;
use ways::{ways_of_connection, ways_of_datagrams};

const STEPS: &str = "11.2.5.2 modify queue pair";
const WORK: &str = "11.4.1 work requests";
const FLUSHED: &str = "10.3.1 ERR";

const OPEN: Label<Verbs> = Label::new("ask for the port");
const CREATE: Label<Verbs> = Label::new("create another queue pair");
const MODIFY: Label<Verbs> = Label::new("modify the queue pair");
const STATE: Label<Verbs> = Label::new("state of the queue pair");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SEND: Label<Verbs> = Label::new("post a SEND");
const DESTROY: Label<Verbs> = Label::new("destroy the other queue pair");
const OTHER: Label<Verbs> = Label::new("register memory that will be gone");
const GONE: Label<Verbs> = Label::new("deregister it under a datagram");

/// Pause after a request, long enough for its completion.
const LATER: Duration = Duration::from_secs(2);

/// Number of requests that each queue of a queue pair holds.
const DEPTH: u32 = 16;

/// Whether the DUT implements verbs itself, so that no driver or agent refuses a command.
const OWN_VERBS: Parameter = Parameter {
    name: oracle::OWN_VERBS,
    about: "1: the DUT implements verbs itself, without a driver or an agent, so a wrong refusal is a fault",
    range: (0, 1),
    simulated: 1,
    default: 0,
};

pub(super) static TEST: Test = Test {
    id: "c09-modify-steps",
    aliases: &[],
    revision: 4,
    about: "A queue pair makes every allowed transition with its required attributes, and refuses all others.",
    reading: "Transitions without a required attribute, with an excess attribute, or to a state that cannot follow: \
        refused, and the state stays unchanged. Then the allowed transition, with optional attributes, and with the \
        least and the greatest values: accepted. On a host, a wrongly accepted transition is INCONCLUSIVE, and a \
        wrongly refused transition is NOT_APPLICABLE. From SQE a datagram queue pair goes only to RTS.",
    statements: &[STEPS, WORK, FLUSHED],
    needs: &[Need::Packets],
    parameters: &[soft_roce::PARAMETER, OWN_VERBS],
    procedure: steps,
    judge: judge_steps,
};

/// A queue pair whose transitions the test tries.
struct Tried {
    qp: u32,
    channel: Channel,
}

impl Tried {
    fn make(t: &mut Tester<'_>, channel: &Channel, service: pb::Service) -> Step<Option<Self>> {
        let (send_depth, receive_depth) = t.depths(DEPTH);
        let create = Command::CreateQp(pb::CreateQp {
            service: service.into(),
            send_depth,
            receive_depth,
        });
        if t.must_be_offered(Side::Dut, &create).is_err() {
            return Ok(None);
        }
        let made = t.verbs(CREATE, Side::Dut, create)?;
        Ok(match made {
            Reply::Qp(qp) => Some(Self {
                qp: qp.qp,
                channel: *channel,
            }),
            _ => None,
        })
    }

    fn modify(&self, state: pb::QpState, attributes: &pb::QpAttributes) -> Command {
        Command::ModifyQp(pb::ModifyQp {
            qp: self.qp,
            state: state.into(),
            attributes: Some(attributes.clone()),
        })
    }

    /// Ends the procedure if the device lacks a value that its queue pairs need on their way to RTS.
    fn must_go(&self, t: &Tester<'_>, given: &Given) -> Step {
        use pb::QpState::{Init, Rtr, Rts};
        let rts = later(given, &given.rts);
        [(Init, &given.init), (Rtr, &given.rtr), (Rts, &rts)]
            .into_iter()
            .try_for_each(|(state, attributes)| t.must_be_offered(Side::Dut, &self.modify(state, attributes)))
    }

    /// Tries a transition, and queries the state afterwards. Returns whether the host accepted the transition.
    ///
    /// Returns `false`, without a try, if the device lacks the transition.
    fn to(&self, t: &mut Tester<'_>, state: pb::QpState, attributes: &pb::QpAttributes) -> Step<bool> {
        let modify = self.modify(state, attributes);
        if t.must_be_offered(Side::Dut, &modify).is_err() {
            return Ok(false);
        }
        let reply = t.verbs(MODIFY, Side::Dut, modify)?;
        t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: self.qp }))?;
        Ok(!matches!(reply, Reply::Refused(_)))
    }

    /// Tries transitions to states that cannot follow.
    fn not_to(&self, t: &mut Tester<'_>, states: &[(pb::QpState, &pb::QpAttributes)]) -> Step {
        for (state, attributes) in states {
            self.to(t, *state, attributes)?;
        }
        Ok(())
    }

    fn send(&self, t: &mut Tester<'_>, wr_id: u64) -> Step {
        let post = pb::PostSend {
            qp: self.qp,
            wr_id,
            operation: pb::Operation::Send.into(),
            local: Some(self.channel.memory.slice(0, 8)),
            signaled: true,
            ..pb::PostSend::default()
        };
        t.verbs(SEND, Side::Dut, Command::PostSend(post)).map(drop)
    }

    /// Posts a datagram to a queue pair that does not exist.
    fn send_to(&self, t: &mut Tester<'_>, wr_id: u64, given: &Given, local: pb::Slice) -> Step {
        let post = pb::PostSend {
            qp: self.qp,
            wr_id,
            operation: pb::Operation::Send.into(),
            local: Some(local),
            signaled: true,
            address: given.all.address.clone(),
            remote_qpn: self.channel.own_qpn.0 ^ 0x0100,
            remote_qkey: given.all.qkey.unwrap_or(0),
            ..pb::PostSend::default()
        };
        t.verbs(SEND, Side::Dut, Command::PostSend(post)).map(drop)
    }

    /// Makes all transitions from RESET to RTS.
    fn to_rts(&self, t: &mut Tester<'_>, given: &Given) -> Step {
        use pb::QpState::{Init, Reset, Rtr, Rts};
        self.to(t, Reset, &pb::QpAttributes::default())?;
        for (state, attributes) in [(Init, &given.init), (Rtr, &given.rtr), (Rts, &given.rts)] {
            self.to(t, state, attributes)?;
        }
        Ok(())
    }

    fn receive(&self, t: &mut Tester<'_>, wr_id: u64) -> Step {
        let post = Command::PostReceive(pb::PostReceive {
            qp: self.qp,
            wr_id,
            local: Some(self.channel.memory.slice(0, 64)),
        });
        t.verbs(RECEIVE, Side::Dut, post).map(drop)
    }
}

fn steps(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    for service in [pb::Service::Rc, pb::Service::Ud] {
        let given = Given::ask(t, &channel, service)?;
        let Some(tried) = Tried::make(t, &channel, service)? else {
            continue;
        };
        tried.must_go(t, &given)?;
        t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: tried.qp }))?;
        up(t, &tried, &given)?;
        in_rts(t, &tried, &given)?;
        down(t, &tried, &given)?;
        each_way(t, &tried, &given, service)?;
        match service {
            pb::Service::Rc => full(t, &tried, &given)?,
            _ => failed(t, &tried, &given)?,
        }
        t.verbs(DESTROY, Side::Dut, Command::DestroyQp(pb::DestroyQp { qp: tried.qp }))?;
    }
    Ok(())
}

/// Makes the transitions from RESET to RTS, and tries invalid transitions before each.
fn up(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    use pb::QpState::{Init, Rtr, Rts, Sqd, Sqe};
    let none = pb::QpAttributes::default();
    tried.send(t, 1)?;
    tried.receive(t, 1)?;
    tried.not_to(
        t,
        &[
            (Rtr, &given.rtr),
            (Rts, &given.rts),
            (Rts, &none),
            (Sqd, &none),
            (Sqe, &none),
        ],
    )?;
    refused(t, tried, given, (Init, &given.init))?;
    let wrong = [
        pb::QpAttributes {
            port: Some(255),
            ..given.init.clone()
        },
        pb::QpAttributes {
            pkey_index: Some(0xFFFF),
            ..given.init.clone()
        },
    ];
    tried.not_to(t, &wrong.each_ref().map(|wrong| (Init, wrong)))?;
    tried.to(t, Init, &given.init)?;
    tried.send(t, 2)?;
    tried.receive(t, 2)?;
    tried.not_to(t, &[(Rts, &given.rts), (Rts, &none), (Sqd, &none), (Sqe, &none)])?;
    taken(t, tried, (Init, &none), &given.init)?;
    refused(t, tried, given, (Rtr, &given.rtr))?;
    if given.rtr.address.is_some() {
        let most = given.facts.max_qp_rd_atom;
        let nobody = pb::AddressVector {
            dgid: Vec::new(),
            ..given.rtr.address.clone().unwrap_or_default()
        };
        let wrong = [
            pb::QpAttributes {
                max_dest_rd_atomic: Some(most + 1),
                ..given.rtr.clone()
            },
            // These codes name no MTU.
            pb::QpAttributes {
                path_mtu: Some(0),
                ..given.rtr.clone()
            },
            pb::QpAttributes {
                path_mtu: Some(6),
                ..given.rtr.clone()
            },
            pb::QpAttributes {
                address: Some(nobody),
                ..given.rtr.clone()
            },
            pb::QpAttributes {
                pkey_index: Some(0xFFFF),
                ..given.rtr.clone()
            },
        ];
        tried.not_to(t, &wrong.each_ref().map(|wrong| (Rtr, wrong)))?;
    }
    let with = pb::QpAttributes {
        pkey_index: Some(0),
        ..given.rtr.clone()
    };
    tried.to(t, Rtr, &with)?;
    tried.send(t, 3)?;
    tried.receive(t, 3)?;
    tried.not_to(
        t,
        &[
            (Init, &given.init),
            (Init, &none),
            (Rtr, &given.rtr),
            (Rtr, &none),
            (Sqd, &none),
            (Sqe, &none),
        ],
    )?;
    refused(t, tried, given, (Rts, &given.rts))?;
    if given.rts.max_rd_atomic.is_some() {
        let most = given.facts.max_qp_init_rd_atom;
        let wrong = pb::QpAttributes {
            max_rd_atomic: Some(most + 1),
            ..given.rts.clone()
        };
        tried.to(t, Rts, &wrong)?;
    }
    tried.to(t, Rts, &later(given, &given.rts))?;
    Ok(())
}

/// Returns the attributes of a transition to RTS, with the optional attributes.
fn later(given: &Given, with: &pb::QpAttributes) -> pb::QpAttributes {
    let is_rc = given.init.access.is_some();
    pb::QpAttributes {
        access: given.all.access.filter(|_| is_rc),
        min_rnr_timer: given.all.min_rnr_timer.filter(|_| is_rc),
        qkey: given.all.qkey.filter(|_| !is_rc),
        ..with.clone()
    }
}

/// Tries a transition without each required attribute in turn, and with each attribute that the transition does not
/// take.
fn refused(t: &mut Tester<'_>, tried: &Tried, given: &Given, (to, needs): (pb::QpState, &pb::QpAttributes)) -> Step {
    let may = match to {
        pb::QpState::Rtr => pb::QpAttributes {
            pkey_index: given.all.pkey_index,
            access: given.init.access,
            qkey: given.init.qkey,
            ..needs.clone()
        },
        pb::QpState::Rts => later(given, needs),
        _ => needs.clone(),
    };
    let less = without_each(needs).into_iter();
    let more = with_each(&may, &given.all);
    for attributes in less.chain(more) {
        tried.to(t, to, &attributes)?;
    }
    Ok(())
}

/// Tries a transition without attributes, and with each attribute of `with` alone.
fn taken(
    t: &mut Tester<'_>,
    tried: &Tried,
    (to, none): (pb::QpState, &pb::QpAttributes),
    with: &pb::QpAttributes,
) -> Step {
    tried.to(t, to, none)?;
    for attributes in with_each(none, with) {
        tried.to(t, to, &attributes)?;
    }
    Ok(())
}

/// Tries transitions in RTS and in SQD.
fn in_rts(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    use pb::QpState::{Init, Rtr, Rts, Sqd, Sqe};
    let none = pb::QpAttributes::default();
    // No transition leads from RTS or SQD to these states.
    let nowhere = [
        (Init, &given.init),
        (Init, &none),
        (Rtr, &given.rtr),
        (Rtr, &none),
        (Sqe, &none),
    ];
    // `all` also holds attributes that the transition does not take, so the test tries both kinds.
    taken(t, tried, (Rts, &none), &given.all)?;
    tried.not_to(t, &nowhere)?;
    for attributes in with_each(&none, &given.all) {
        tried.to(t, Sqd, &attributes)?;
    }
    if !tried.to(t, Sqd, &none)? {
        return Ok(());
    }
    tried.not_to(t, &nowhere)?;
    taken(t, tried, (Sqd, &none), &given.all)?;
    for attributes in with_each(&none, &given.all) {
        if tried.to(t, Rts, &attributes)? {
            tried.to(t, Sqd, &none)?;
        }
    }
    // Post the datagrams last, because they may fail and leave the state unknown.
    let is_of_datagrams = given.init.qkey.is_some();
    if is_of_datagrams {
        for wr_id in [5, 6] {
            tried.send_to(t, wr_id, given, tried.channel.memory.slice(0, 8))?;
        }
    }
    tried.to(t, Rts, &none)?;
    if is_of_datagrams {
        t.pause(LATER)?;
    }
    Ok(())
}

/// Tries invalid transitions in ERR, then moves to ERR and to RESET from each state.
fn down(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    use pb::QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let none = pb::QpAttributes::default();
    tried.to(t, Err, &none)?;
    let to = [
        (Init, &given.init),
        (Init, &none),
        (Rtr, &given.rtr),
        (Rtr, &none),
        (Rts, &given.rts),
        (Rts, &none),
        (Sqd, &none),
    ];
    tried.not_to(t, &to)?;
    tried.not_to(t, &[(Sqe, &none)])?;
    // Post to one queue at a time: the device must flush each queue without work on the other.
    tried.send(t, 4)?;
    t.pause(LATER)?;
    tried.receive(t, 4)?;
    t.pause(LATER)?;
    let path = [(Init, &given.init), (Rtr, &given.rtr), (Rts, &given.rts)];
    for last in [Err, Reset] {
        tried.to(t, last, &none)?;
        for length in 0..=path.len() {
            tried.to(t, Reset, &none)?;
            for (state, attributes) in &path[..length] {
                tried.to(t, *state, attributes)?;
            }
            if length > 0 {
                tried.to(t, last, &none)?;
            }
        }
    }
    tried.to(t, Reset, &none)?;
    Ok(())
}

/// Goes to RTS with each optional attribute alone, with all of them, with the least values and with the greatest.
fn each_way(t: &mut Tester<'_>, tried: &Tried, given: &Given, service: pb::Service) -> Step {
    use pb::QpState::{Init, Reset, Rtr, Rts};
    let none = pb::QpAttributes::default();
    let ways = match service {
        pb::Service::Rc => {
            let is_spared = soft_roce::is_spared(t, TEST.id, &Reply::Opened(given.facts.clone()));
            let resources = match given.rtr.max_dest_rd_atomic {
                same if is_spared => [same; 2],
                _ => [0, given.facts.max_qp_rd_atom].map(Some),
            };
            ways_of_connection(given, resources)
        }
        _ => ways_of_datagrams(given),
    };
    for (rtr, rts) in &ways {
        for (state, attributes) in [(Init, &given.init), (Rtr, rtr), (Rts, rts)] {
            tried.to(t, state, attributes)?;
        }
        tried.to(t, Reset, &none)?;
    }
    Ok(())
}

/// Makes the send queue of a datagram queue pair fail, and tries the transitions from SQE. Only RTS may follow.
fn failed(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    use pb::QpState::{Init, Rtr, Rts, Sqd, Sqe};
    let none = pb::QpAttributes::default();
    let with_key = pb::QpAttributes {
        qkey: given.all.qkey,
        ..none.clone()
    };
    for (round, last) in [&none, &with_key].into_iter().enumerate() {
        tried.to_rts(t, given)?;
        if !fails(t, tried, given, 300 + round as u64)? {
            return Ok(());
        }
        let nowhere = [
            (Init, &given.init),
            (Init, &none),
            (Rtr, &given.rtr),
            (Sqd, &none),
            (Sqe, &none),
        ];
        tried.not_to(t, &nowhere)?;
        tried.send_to(t, 310 + round as u64, given, tried.channel.memory.slice(0, 8))?;
        t.pause(LATER)?;
        for attributes in with_each(&none, &given.all).iter().filter(|given| **given != with_key) {
            tried.to(t, Rts, attributes)?;
        }
        tried.to(t, Rts, last)?;
    }
    Ok(())
}

/// Makes the send queue fail, if possible, with a datagram whose memory is deregistered. Returns whether the send
/// queue failed.
fn fails(t: &mut Tester<'_>, tried: &Tried, given: &Given, wr_id: u64) -> Step<bool> {
    use pb::QpState::{Rts, Sqd};
    let none = pb::QpAttributes::default();
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: 4096,
        access: Some(pb::Access::default()),
    });
    let Reply::Memory(other) = t.verbs(OTHER, Side::Dut, register)? else {
        return Ok(false);
    };
    // In SQD the queue pair keeps the datagram until the memory is deregistered.
    let is_drained = tried.to(t, Sqd, &none)?;
    if is_drained {
        let gone = pb::Slice {
            memory: other.memory,
            offset: 0,
            length: 8,
        };
        tried.send_to(t, wr_id, given, gone)?;
        // The next request is flushed.
        tried.send_to(t, wr_id + 50, given, tried.channel.memory.slice(0, 8))?;
    }
    let gone = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
    t.verbs(GONE, Side::Dut, gone)?;
    if !is_drained {
        return Ok(false);
    }
    tried.to(t, Rts, &none)?;
    t.pause(LATER)?;
    let reply = t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: tried.qp }))?;
    Ok(matches!(reply, Reply::Status(status) if status.state() == pb::QpState::Sqe))
}

/// Posts as many requests as the queues hold; the peer does not answer them.
fn full(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    tried.to_rts(t, given)?;
    for wr_id in 0..u64::from(DEPTH) {
        tried.send(t, 100 + wr_id)?;
        tried.receive(t, 200 + wr_id)?;
    }
    t.pause(ask::RESPONSE_WAIT)
}

fn judge_steps(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [OPEN, CREATE, MODIFY, STATE, RECEIVE, SEND, DESTROY, OTHER, GONE] {
        t.not_judged(label);
    }
    rc::dialogues(t)?;
    let is_least = |done: &VerbsDone| match &done.command {
        Command::ModifyQp(modify) => modify
            .attributes
            .as_ref()
            .is_some_and(|of| of.max_dest_rd_atomic == Some(0)),
        _ => false,
    };
    let sent = t.commands(MODIFY).any(is_least);
    let opened = t.commands(OPEN).next().and_then(rc::reply);
    if let Some(why) = soft_roce::spared(t, TEST.id, opened, sent) {
        f.observe(
            format!("the test did not try the least and the greatest max_dest_rd_atomic: {why}"),
            &[],
        );
    }
    let drains = |done: &VerbsDone| matches!(&done.command, Command::ModifyQp(to) if to.state() == pb::QpState::Sqd);
    if offers::goes_to(t, pb::QpState::Sqd) && !t.commands(MODIFY).any(drains) {
        return Err(Gap::Missing(MODIFY.name));
    }
    let is_ud = |done: &VerbsDone| matches!(&done.command, Command::CreateQp(of) if of.service() == pb::Service::Ud);
    if offers::serves(t, pb::Service::Ud) && !t.commands(CREATE).any(is_ud) {
        return Err(Gap::Missing(CREATE.name));
    }
    if !offers::serves(t, pb::Service::Ud) {
        f.goes_without(&["datagram-completes"], "the device has no datagrams");
    }
    f.exercises(&[
        Rule::StepRefused,
        Rule::StepTaken,
        Rule::State,
        Rule::WorkTaken,
        Rule::FlushedLate,
        Rule::DatagramCompletes,
    ]);
    Ok(())
}
