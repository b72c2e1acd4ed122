//! `c09-modify-steps`: a queue pair takes the steps that there are, and refuses all others.
//!
//! Queue pairs of both services, which nobody talks to, go from RESET to RTS, SQD, ERR and RESET. Before each step others are
//! tried: to states that it does not lead to, without one of the attributes that it needs, with one that it does not take. What
//! is refused leaves the queue pair where it was. It goes to RTS with each of what a step may have, alone and together, with the
//! least and with the most. What is posted in ERR is flushed. A datagram queue pair whose send queue has failed goes back to RTS alone. Work is refused before RTS and taken then, as much as the queue was made for.
//! Reading: the table of attributes by transition is the architecture's; Linux has the same. On a host its kernel and its driver
//! refuse before the device hears of it, so that what is taken there and should not be is INCONCLUSIVE, and work that is posted
//! too early is not judged. A host without SQD is spared it.
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Gap, Label, Side, Trace, Verbs};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Stop, Test, Tester};

use crate::transport::rc;
use crate::transport::rc::ask;

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

/// As long as a completion may take that nothing holds back.
const LATER: Duration = Duration::from_secs(2);

/// What its queue pairs hold.
const DEPTH: u32 = 16;

/// Steps.
pub(super) static TEST: Test = Test {
    id: "c09-modify-steps",
    aliases: &[],
    revision: 2,
    about: "A queue pair takes the steps that there are, with the attributes that they need, and refuses all others.",
    reading: "Each step without each attribute that it needs, with one that it does not take, to states that it does not lead to: \
        refused, and nothing has changed; on a host what is taken all the same is INCONCLUSIVE. Then the step itself, with what it may \
        have, and with the least and the most of each value: taken. From SQE a datagram queue pair goes to RTS alone.",
    statements: &[STEPS, WORK, FLUSHED],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: steps,
    judge: judge_steps,
};

/// A queue pair whose steps are tried.
struct Tried {
    qp: u32,
    channel: Channel,
}

impl Tried {
    fn make(t: &mut Tester<'_>, channel: &Channel, service: pb::Service) -> Step<Option<Self>> {
        let create = Command::CreateQp(pb::CreateQp {
            service: service.into(),
            send_depth: DEPTH,
            receive_depth: DEPTH,
        });
        let made = t.verbs(CREATE, Side::Dut, create)?;
        Ok(match made {
            Reply::Qp(qp) => Some(Self {
                qp: qp.qp,
                channel: *channel,
            }),
            _ => None,
        })
    }

    /// Takes a step, or tries to, and asks where the queue pair is then. Whether it was taken.
    fn to(&self, t: &mut Tester<'_>, state: pb::QpState, attributes: &pb::QpAttributes) -> Step<bool> {
        let modify = Command::ModifyQp(pb::ModifyQp {
            qp: self.qp,
            state: state.into(),
            attributes: Some(attributes.clone()),
        });
        let reply = t.verbs(MODIFY, Side::Dut, modify)?;
        t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: self.qp }))?;
        Ok(!matches!(reply, Reply::Refused(_)))
    }

    /// The same to states that it cannot go to.
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

    /// A datagram to nobody: where it is sent all the same, nobody hears it.
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

    /// Takes all steps to RTS, from RESET.
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

/// Attributes without one of them, for each of them.
fn without_each(of: &pb::QpAttributes) -> Vec<pb::QpAttributes> {
    type A = pb::QpAttributes;
    let leave: [fn(&mut A); 14] = [
        |a| a.pkey_index = None,
        |a| a.port = None,
        |a| a.access = None,
        |a| a.path_mtu = None,
        |a| a.dest_qpn = None,
        |a| a.rq_psn = None,
        |a| a.sq_psn = None,
        |a| a.max_dest_rd_atomic = None,
        |a| a.max_rd_atomic = None,
        |a| a.min_rnr_timer = None,
        |a| a.timeout = None,
        |a| a.retry_cnt = None,
        |a| a.rnr_retry = None,
        |a| a.address = None,
    ];
    let qkey: fn(&mut A) = |a| a.qkey = None;
    let without = leave.into_iter().chain([qkey]).map(|leave| {
        let mut less = of.clone();
        leave(&mut less);
        less
    });
    without.filter(|less| less != of).collect()
}

/// Attributes with each of the others.
fn with_each(of: &pb::QpAttributes, others: &pb::QpAttributes) -> Vec<pb::QpAttributes> {
    without_each(others)
        .into_iter()
        .filter_map(|less| {
            let mut more = of.clone();
            let mut is_new = false;
            macro_rules! add {
                ($($name:ident),*) => { $(
                    if less.$name.is_none() && others.$name.is_some() && of.$name.is_none() {
                        more.$name = others.$name.clone();
                        is_new = true;
                    }
                )* };
            }
            add!(
                pkey_index,
                port,
                access,
                path_mtu,
                dest_qpn,
                rq_psn,
                sq_psn,
                max_dest_rd_atomic,
                max_rd_atomic,
                min_rnr_timer,
                timeout,
                retry_cnt,
                rnr_retry,
                qkey,
                address
            );
            is_new.then_some(more)
        })
        .collect()
}

/// What a queue pair is given on its way.
struct Given {
    init: pb::QpAttributes,
    rtr: pb::QpAttributes,
    rts: pb::QpAttributes,
    /// All that there is.
    all: pb::QpAttributes,
    facts: pb::Opened,
}

impl Given {
    fn ask(t: &mut Tester<'_>, channel: &Channel, service: pb::Service) -> Step<Self> {
        let Reply::Opened(facts) = t.verbs_must(OPEN, Side::Dut, Command::Open(pb::Open {}))? else {
            return Err(Stop::Tester("a host answered Open with something else".into()));
        };
        let all = pb::QpAttributes {
            pkey_index: Some(0),
            port: Some(facts.port),
            access: Some(pb::Access::default()),
            path_mtu: Some(channel.mtu.0.into()),
            // None of the connection's: what comes from there is no packet of it.
            dest_qpn: Some(channel.own_qpn.0 ^ 0x0100),
            rq_psn: Some(0x00A5_5A01),
            sq_psn: Some(0x005A_A502),
            max_dest_rd_atomic: Some(1),
            max_rd_atomic: Some(1),
            min_rnr_timer: Some(12),
            timeout: Some(0),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            qkey: Some(0x1234_5678),
            address: Some(t.address_of_peer(&facts)?),
        };
        let none = pb::QpAttributes::default;
        let is_rc = service == pb::Service::Rc;
        let init = pb::QpAttributes {
            pkey_index: all.pkey_index,
            port: all.port,
            access: all.access.filter(|_| is_rc),
            qkey: all.qkey.filter(|_| !is_rc),
            ..none()
        };
        let (rtr, rts) = if is_rc {
            let rtr = pb::QpAttributes {
                path_mtu: all.path_mtu,
                dest_qpn: all.dest_qpn,
                rq_psn: all.rq_psn,
                max_dest_rd_atomic: all.max_dest_rd_atomic,
                min_rnr_timer: all.min_rnr_timer,
                address: all.address.clone(),
                ..none()
            };
            let rts = pb::QpAttributes {
                sq_psn: all.sq_psn,
                timeout: all.timeout,
                retry_cnt: all.retry_cnt,
                rnr_retry: all.rnr_retry,
                max_rd_atomic: all.max_rd_atomic,
                ..none()
            };
            (rtr, rts)
        } else {
            let rts = pb::QpAttributes {
                sq_psn: all.sq_psn,
                ..none()
            };
            (none(), rts)
        };
        Ok(Self {
            init,
            rtr,
            rts,
            all,
            facts,
        })
    }
}

fn steps(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    for service in [pb::Service::Rc, pb::Service::Ud] {
        let given = Given::ask(t, &channel, service)?;
        let Some(tried) = Tried::make(t, &channel, service)? else {
            continue;
        };
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

/// RESET to RTS, each step with all that it refuses before it.
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
            port: Some(given.facts.port + 1),
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
            // Codes that name no MTU.
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

/// A step to RTS with what it may have beside.
fn later(given: &Given, with: &pb::QpAttributes) -> pb::QpAttributes {
    let is_rc = given.init.access.is_some();
    pb::QpAttributes {
        access: given.all.access.filter(|_| is_rc),
        min_rnr_timer: given.all.min_rnr_timer.filter(|_| is_rc),
        qkey: given.all.qkey.filter(|_| !is_rc),
        ..with.clone()
    }
}

/// A step without each attribute that it needs, and with each that it does not take.
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

/// A step that stays, or goes on, with nothing, with each attribute of some, and with each of the others.
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

/// In RTS and SQD.
fn in_rts(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    use pb::QpState::{Init, Rtr, Rts, Sqd, Sqe};
    let none = pb::QpAttributes::default();
    // No step leads there from RTS or SQD.
    let nowhere = [
        (Init, &given.init),
        (Init, &none),
        (Rtr, &given.rtr),
        (Rtr, &none),
        (Sqe, &none),
    ];
    // Those that a step does not take are in all: both ways are tried.
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
    // Last, since what is posted may fail, and nobody knows the state then.
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

/// To ERR, and to RESET again from there and from all others.
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
    tried.send(t, 4)?;
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

/// To RTS with each of what the steps may have, alone and together, and with the least and the most that there is.
fn each_way(t: &mut Tester<'_>, tried: &Tried, given: &Given, service: pb::Service) -> Step {
    use pb::QpState::{Init, Reset, Rtr, Rts};
    let none = pb::QpAttributes::default();
    let ways = match service {
        pb::Service::Rc => ways_of_connection(given),
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

/// What the steps to RTR and to RTS are given.
type Way = (pb::QpAttributes, pb::QpAttributes);

fn ways_of_connection(given: &Given) -> Vec<Way> {
    let (rtr, rts, all) = (|| given.rtr.clone(), || given.rts.clone(), &given.all);
    let alone = [
        (
            pb::QpAttributes {
                access: all.access,
                ..rtr()
            },
            pb::QpAttributes {
                access: all.access,
                ..rts()
            },
        ),
        (
            pb::QpAttributes {
                pkey_index: all.pkey_index,
                ..rtr()
            },
            pb::QpAttributes {
                min_rnr_timer: all.min_rnr_timer,
                ..rts()
            },
        ),
    ];
    let together = (
        pb::QpAttributes {
            access: all.access,
            pkey_index: all.pkey_index,
            ..rtr()
        },
        later(given, &rts()),
    );
    let least = (
        pb::QpAttributes {
            max_dest_rd_atomic: Some(0),
            min_rnr_timer: Some(0),
            rq_psn: Some(0),
            ..rtr()
        },
        pb::QpAttributes {
            max_rd_atomic: Some(0),
            timeout: Some(0),
            retry_cnt: Some(0),
            rnr_retry: Some(0),
            sq_psn: Some(0),
            ..rts()
        },
    );
    let most = (
        pb::QpAttributes {
            path_mtu: Some(given.facts.active_mtu)
                .filter(|code| (1..=5).contains(code))
                .or(all.path_mtu),
            max_dest_rd_atomic: Some(given.facts.max_qp_rd_atom),
            min_rnr_timer: Some(31),
            rq_psn: Some(0x00FF_FFFF),
            ..rtr()
        },
        pb::QpAttributes {
            max_rd_atomic: Some(given.facts.max_qp_init_rd_atom),
            timeout: Some(31),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            sq_psn: Some(0x00FF_FFFF),
            ..rts()
        },
    );
    [(rtr(), rts()), together, least, most]
        .into_iter()
        .chain(alone)
        .collect()
}

fn ways_of_datagrams(given: &Given) -> Vec<Way> {
    let (none, rts, all) = (pb::QpAttributes::default, || given.rts.clone(), &given.all);
    let with_key = || pb::QpAttributes {
        qkey: all.qkey,
        ..none()
    };
    let with_index = || pb::QpAttributes {
        pkey_index: all.pkey_index,
        ..none()
    };
    let with_both = pb::QpAttributes {
        pkey_index: all.pkey_index,
        ..with_key()
    };
    vec![
        (none(), rts()),
        (with_key(), later(given, &rts())),
        (with_index(), rts()),
        (with_both, rts()),
    ]
}

/// A datagram queue pair whose send queue has failed, since the memory of a datagram was gone when it was to be sent: one step
/// leads on from there.
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

/// Makes the send queue fail, if it can be made to; whether that was shown.
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
    // Drained, it keeps what is posted until its memory is gone.
    let is_drained = tried.to(t, Sqd, &none)?;
    if is_drained {
        let gone = pb::Slice {
            memory: other.memory,
            offset: 0,
            length: 8,
        };
        tried.send_to(t, wr_id, given, gone)?;
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

/// As many requests as its queues were made for, which nobody answers.
fn full(t: &mut Tester<'_>, tried: &Tried, given: &Given) -> Step {
    tried.to_rts(t, given)?;
    for wr_id in 0..u64::from(DEPTH) {
        tried.send(t, 100 + wr_id)?;
        tried.receive(t, 200 + wr_id)?;
    }
    t.pause(ask::SOON)
}

fn judge_steps(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [OPEN, CREATE, MODIFY, STATE, RECEIVE, SEND, DESTROY, OTHER, GONE] {
        t.not_judged(label);
    }
    rc::dialogues(t)?;
    f.exercises(&[
        "step-refused",
        "step-taken",
        "state",
        "work-taken",
        "flushed-late",
        "datagram-completes",
    ]);
    Ok(())
}
