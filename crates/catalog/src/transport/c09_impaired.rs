//! `c09-impaired-requester`, `c09-impaired-responder`: a reliable connection over InfiniBand while management of one of
//! the two ports makes the link discard its packets.
//!
//! Each window of loss begins with a Set and ends with another. SLtoVLMappingTable maps SL 0 to VL 15, so the port
//! discards what it sends on this SL. Or P_KeyTable loses its first entry, so the responder's port discards what
//! arrives. Numbered datagrams on the same SL measure the window: some before, some within, some after it. Within the
//! window the requester posts a SEND with immediate. The SEND must complete once, and not before the window ends. The
//! receive must complete once, even if the responses were lost and the requester repeated the SEND. The requester
//! repeats at most 4 T after its last try, so the SEND completes within 4 T after the window.
//!
//! False alarm: a window longer than 7 T, as with a lost Set, may end the retries. The result is then INCONCLUSIVE.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus, duration_words};
use verbatim_tester::peer::{ChannelOptions, Pair, labels};
use verbatim_tester::{Need, Settable, Step, Stop, Test, Tester};
use verbatim_wire::packet::AckTimeout;
use verbatim_wire::{PKey, PKeyTable, SlToVlMappingTable, Status};

use crate::transport::rc::{self, offers};

const DISCARD: &str = "7.6 SL to VL";
const P_KEY: &str = "9.6.1 P_Key";
const COMPLETION: &str = "C9-60";
const TIMEOUT: &str = "C9-142";
const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";

const STREAM_QP: Label<Verbs> = Label::new("create a datagram queue pair");
const STREAM_STATE: Label<Verbs> = Label::new("modify the datagram queue pair");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
/// Labels of the datagrams by phase.
const DATAGRAMS: [Label<Verbs>; 3] = [
    Label::new("a datagram before the window"),
    Label::new("a datagram within the window"),
    Label::new("a datagram after the window"),
];
const SEND: Label<Verbs> = Label::new("post a SEND within the window");
const LASTS: Label<Wait> = Label::new("while packets are lost");
const END: Label<Wait> = Label::new("after the window");

/// Labels of a window: the table before it, the Set that begins it, the Set that ends it.
type Labels<A> = (Label<A>, Label<A>, Label<A>);
const REQUESTS: Labels<SlToVlMappingTable> = (
    Label::new("the requester's SLtoVL table"),
    Label::new("discard the requests"),
    Label::new("send the requests again"),
);
const RESPONSES: Labels<SlToVlMappingTable> = (
    Label::new("the responder's SLtoVL table"),
    Label::new("discard the responses"),
    Label::new("send the responses again"),
);
const PARTITION: Labels<PKeyTable> = (
    Label::new("the responder's P_Key table"),
    Label::new("remove the responder's P_Key"),
    Label::new("put the responder's P_Key back"),
);

/// Phases of a window.
const BEFORE: usize = 0;
const WITHIN: usize = 1;
const AFTER: usize = 2;
/// Number of datagrams in a phase.
const STREAM: u32 = 4;
/// Q_Key of the datagrams.
const Q_KEY: u32 = 0x1B0D_0001;
/// Length in bytes of a message, and of the receive of a datagram with its network header.
const LENGTH: u32 = 64;
const WITH_HEADER: u32 = 40 + LENGTH;
/// Code of the local ACK timeout T: 67 ms.
const T: AckTimeout = AckTimeout(14);
const RETRIES: u8 = 7;
/// Length of a window in units of T. The requester retries at least once within the window, and at least once after it.
const WINDOW: u32 = 5;
/// First wr_id of the SENDs and of their receives.
const FIRST_SEND: u64 = 1000;

pub(super) static REQUESTER: Test = Test {
    id: "c09-impaired-requester",
    aliases: &[],
    revision: 1,
    about: "While its link loses packets, the DUT repeats its SEND, which completes once and not too early.",
    reading: "Management of the two ports loses the packets: SLtoVLMappingTable maps SL 0 to VL 15, or P_KeyTable \
        lacks the P_Key. Numbered datagrams measure each window of loss.",
    statements: &[COMPLETION, TIMEOUT, DISCARD, P_KEY],
    needs: &[Need::Mad, Need::Verbs, Need::NativePair, Need::OwnSubnet],
    parameters: &[],
    procedure: |t| procedure(t, Side::Dut),
    judge: |t, f| judge(t, f, Side::Dut),
};

pub(super) static RESPONDER: Test = Test {
    id: "c09-impaired-responder",
    about: "While its link loses requests or responses, the DUT executes each repeated SEND once.",
    statements: &[DUPLICATES, P_KEY, DISCARD],
    procedure: |t| procedure(t, Side::Tester),
    judge: |t, f| judge(t, f, Side::Tester),
    ..REQUESTER
};

/// An end of the datagram stream: side, handle and number of the queue pair, and LID of its port.
struct End {
    side: Side,
    qp: u32,
    qpn: u32,
    lid: u32,
}

struct Setup {
    pair: Pair,
    asking: Side,
    /// The ends of the stream: the DUT's, then the tester's.
    ends: [End; 2],
    lasts: Duration,
    silence: Duration,
}

fn other(side: Side) -> Side {
    match side {
        Side::Dut => Side::Tester,
        Side::Tester => Side::Dut,
    }
}

fn procedure(t: &mut Tester<'_>, asking: Side) -> Step {
    let options = ChannelOptions {
        timeout: t.nearest_timeout(T),
        retry_cnt: RETRIES,
        ..ChannelOptions::default()
    };
    let timeout = options.timeout;
    let once = timeout.duration().unwrap_or_default();
    let setup = Setup {
        pair: t.open_pair(&options, &options)?,
        asking,
        ends: [end(t, Side::Dut)?, end(t, Side::Tester)?],
        lasts: once * WINDOW,
        silence: t.rc_silence(Duration::ZERO, timeout, RETRIES),
    };
    let asker_is_own = asking == Side::Tester;
    let discard = |table: SlToVlMappingTable| table.with_vl(0, 15);
    let remove = |table: PKeyTable| table.with_p_key(0, PKey(0));
    let goes_on = window(t, &setup, (0, asking), asker_is_own, &REQUESTS, discard)?
        && window(t, &setup, (1, other(asking)), !asker_is_own, &RESPONSES, discard)?;
    if goes_on {
        window(t, &setup, (2, asking), !asker_is_own, &PARTITION, remove)?;
    }
    Ok(())
}

/// Runs one window of loss, at the tester's own port if `own` is true, else at the DUT's. `sender` sends the datagrams.
/// Returns false if the connection has failed.
fn window<A: Settable>(
    t: &mut Tester<'_>,
    setup: &Setup,
    (number, sender): (u32, Side),
    own: bool,
    labels: &Labels<A>,
    change: impl FnOnce(A) -> A,
) -> Step<bool> {
    let guard = match t.at_port(own, |t| t.guard(labels.0, t.key())) {
        Ok(guard) if !guard.found().names_foreign_vls(&t.at_port(own, |t| t.shown())) => guard,
        Ok(_) | Err(Stop::Refused(_)) => return Ok(true),
        Err(stop) => return Err(stop),
    };
    datagrams(t, setup, sender, (number, BEFORE))?;
    let image = guard.quiet().change(change);
    let begun = t.at_port(own, |t| t.set(labels.1, &guard, image))?;
    if begun.is_some_and(|answer| answer.status != Status::OK) {
        return Ok(true);
    }
    datagrams(t, setup, sender, (number, WITHIN))?;
    let (asks, answers) = match setup.asking {
        Side::Dut => (setup.pair.dut_memory, setup.pair.own_memory),
        Side::Tester => (setup.pair.own_memory, setup.pair.dut_memory),
    };
    let (qp, receiver) = match setup.asking {
        Side::Dut => (setup.pair.dut_qp, setup.pair.own_qp),
        Side::Tester => (setup.pair.own_qp, setup.pair.dut_qp),
    };
    let wr_id = FIRST_SEND + u64::from(number);
    let receive = Command::PostReceive(pb::PostReceive {
        qp: receiver,
        wr_id,
        local: Some(answers.slice(0, LENGTH)),
    });
    t.verbs_must(RECEIVE, other(setup.asking), receive)?;
    let send = Command::PostSend(pb::PostSend {
        qp,
        wr_id,
        operation: pb::Operation::SendImm.into(),
        local: Some(asks.slice(0, LENGTH)),
        signaled: true,
        imm: number,
        ..pb::PostSend::default()
    });
    t.verbs_must(SEND, setup.asking, send)?;
    t.wait_for(LASTS, setup.lasts)?;
    t.at_port(own, |t| t.set(labels.2, &guard, guard.quiet()))?;
    let done = t.next_completion(setup.asking, qp, t.now().after(setup.silence))?;
    datagrams(t, setup, sender, (number, AFTER))?;
    t.wait_for(END, setup.lasts)?;
    Ok(done.is_some_and(|done| done.status == WcStatus::SUCCESS.0))
}

/// Creates one end of the stream.
fn end(t: &mut Tester<'_>, side: Side) -> Step<End> {
    let unexpected = || Stop::Tester("a host answered a command with another reply".into());
    let Reply::Opened(facts) = t.verbs_must(labels::OPEN, side, Command::Open(pb::Open {}))? else {
        return Err(unexpected());
    };
    let depth = 4 * STREAM;
    let create = Command::CreateQp(pb::CreateQp {
        service: pb::Service::Ud.into(),
        send_depth: depth,
        receive_depth: depth,
    });
    let qp = match t.verbs(STREAM_QP, side, create)? {
        Reply::Qp(qp) => qp,
        Reply::Refused(refused) => {
            return Err(Stop::NotOffered(format!(
                "the host of the {side}'s device refused the queue pair for datagrams: {}",
                refused.text
            )));
        }
        _ => return Err(unexpected()),
    };
    let init = pb::QpAttributes {
        pkey_index: Some(0),
        port: Some(facts.port),
        qkey: Some(Q_KEY),
        ..pb::QpAttributes::default()
    };
    let rts = pb::QpAttributes {
        sq_psn: Some(0),
        ..pb::QpAttributes::default()
    };
    let none = pb::QpAttributes::default();
    for (state, attributes) in [
        (pb::QpState::Init, init),
        (pb::QpState::Rtr, none),
        (pb::QpState::Rts, rts),
    ] {
        let modify = Command::ModifyQp(pb::ModifyQp {
            qp: qp.qp,
            state: state.into(),
            attributes: Some(attributes),
        });
        t.verbs_must(STREAM_STATE, side, modify)?;
    }
    Ok(End {
        side,
        qp: qp.qp,
        qpn: qp.qpn,
        lid: facts.lid,
    })
}

/// Returns the immediate data of the datagrams of a window and phase.
fn mark(window: u32, phase: usize) -> u32 {
    (window + 1) << 4 | phase as u32
}

/// Sends the datagrams of one phase. Waits for the arrival of each datagram, except within the window.
fn datagrams(t: &mut Tester<'_>, setup: &Setup, sender: Side, (window, phase): (u32, usize)) -> Step {
    let [dut, own] = &setup.ends;
    let (from, to) = if sender == Side::Dut { (dut, own) } else { (own, dut) };
    let memory = |side| match side {
        Side::Dut => setup.pair.dut_memory,
        Side::Tester => setup.pair.own_memory,
    };
    for _ in 0..STREAM {
        let receive = Command::PostReceive(pb::PostReceive {
            qp: to.qp,
            wr_id: 0,
            local: Some(memory(to.side).slice(ChannelOptions::MEMORY / 2, WITH_HEADER)),
        });
        // After a window, the receives that its lost datagrams did not take are still posted.
        if phase != AFTER {
            t.verbs_must(RECEIVE, to.side, receive)?;
        }
        let send = Command::PostSend(pb::PostSend {
            qp: from.qp,
            wr_id: 0,
            operation: pb::Operation::SendImm.into(),
            local: Some(memory(from.side).slice(0, LENGTH)),
            signaled: true,
            imm: mark(window, phase),
            address: Some(pb::AddressVector {
                dlid: to.lid,
                ..pb::AddressVector::default()
            }),
            remote_qpn: to.qpn,
            remote_qkey: Q_KEY,
            ..pb::PostSend::default()
        });
        t.verbs_must(DATAGRAMS[phase], from.side, send)?;
        if phase != WITHIN {
            let until = t.now().after(Duration::from_millis(100));
            let is_it = |done: &pb::Completion| done.imm == Some(mark(window, phase));
            while let Some(done) = t.next_completion(to.side, to.qp, until)? {
                if is_it(&done) {
                    break;
                }
            }
        }
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, asking: Side) -> Result<(), Gap> {
    for label in [labels::OPEN, STREAM_QP, STREAM_STATE, RECEIVE, SEND]
        .into_iter()
        .chain(DATAGRAMS)
    {
        t.not_judged(label);
    }
    t.not_judged(LASTS);
    t.not_judged(END);
    t.not_judged(REQUESTS.0);
    t.not_judged(RESPONSES.0);
    t.not_judged(PARTITION.0);
    let timeout = AckTimeout(offers::given(t, asking, |given| given.timeout).unwrap_or(0));
    let once = timeout.duration().unwrap_or_default();
    let mut judged = 0;
    for (number, sets) in [ends_of(t, &REQUESTS), ends_of(t, &RESPONSES), ends_of(t, &PARTITION)]
        .into_iter()
        .enumerate()
    {
        let Some((begins, ends)) = sets else { continue };
        judged += 1;
        let of = Window {
            number,
            asking,
            begins,
            ends,
            once,
        };
        if of.measured(t, f) {
            of.connection(t, f);
        }
    }
    if judged == 0 {
        return Err(Gap::Ended("no port accepted a table that discards packets".into()));
    }
    Ok(())
}

/// Returns the Sets that begin and end a window, if both succeeded.
fn ends_of<'t, A>(t: &'t Trace, labels: &Labels<A>) -> Option<(&'t Exchange, &'t Exchange)> {
    let is_ok = |of: &&Exchange| of.answer().is_some_and(|answer| answer.mad.status() == Status::OK);
    let (begins, ends) = (t.each(labels.1).find(is_ok), t.each(labels.2).find(is_ok));
    begins.zip(ends)
}

struct Window<'t> {
    number: usize,
    asking: Side,
    begins: &'t Exchange,
    ends: &'t Exchange,
    once: Duration,
}

impl Window<'_> {
    /// The side that sends the datagrams.
    fn sender(&self) -> Side {
        if self.number == 1 {
            other(self.asking)
        } else {
            self.asking
        }
    }

    /// The side whose port management changes.
    fn changed(&self) -> Side {
        if self.number == 2 {
            other(self.asking)
        } else {
            self.sender()
        }
    }

    /// Judges the datagrams. Returns whether they show the window.
    fn measured(&self, t: &Trace, f: &mut Findings<'_>) -> bool {
        let came = |phase| self.arrived(t, phase);
        let (before, within, after) = (came(BEFORE), came(WITHIN), came(AFTER));
        let words = format!("{before} before, {within} during, {after} after the change");
        let result = match (before > 0, within, after > 0) {
            (true, 0, true) => Passed::Pass,
            (true, 1.., _) if self.changed() == Side::Dut => Passed::Fail,
            _ => Passed::Inconclusive,
        };
        let statement = if self.number == 2 { P_KEY } else { DISCARD };
        let about = match (self.number, self.sender()) {
            (2, _) => "datagrams while the port has no P_Key of the partition",
            (_, Side::Dut) => "datagrams of the DUT while SL 0 maps to VL 15",
            (_, Side::Tester) => "datagrams to the DUT while SL 0 maps to VL 15",
        };
        f.claim(statement, about)
            .by_all([self.begins, self.ends])
            .saw(words)
            .comes_to("some before, 0 during, some after the change", result)
    }

    /// Returns how many datagrams of a phase arrived.
    fn arrived(&self, t: &Trace, phase: usize) -> usize {
        let done = rc::completions_of(t, other(self.sender()), (0, usize::MAX));
        let mark = mark(self.number as u32, phase);
        let is_it = |done: &&rc::Done<'_>| done.completion.wr_id == 0 && done.completion.imm == Some(mark);
        done.iter().filter(is_it).count()
    }

    /// Judges the SEND that the requester posted within the window.
    fn connection(&self, t: &Trace, f: &mut Findings<'_>) {
        let wr_id = FIRST_SEND + self.number as u64;
        let of = |side| {
            let done = rc::completions_of(t, side, (0, usize::MAX));
            done.into_iter()
                .filter(|done| done.completion.wr_id == wr_id)
                .collect::<Vec<_>>()
        };
        let (sent, received) = (of(self.asking), of(other(self.asking)));
        let ended = self.ends.answer().map_or(self.ends.sent, |answer| answer.at);
        // The device may have executed a Set whose response was lost.
        let [begins, ends] = [self.begins, self.ends].map(|set| t.first_try(set).sent.earliest);
        let lasted = ended.latest.since(begins);
        let too_long = lasted > self.once * u32::from(RETRIES);
        let is_of_dut = |side: Side, result| {
            // On hardware, a table may take effect late, and an adapter may keep the old one.
            if side == Side::Dut && t.begin.simulated {
                result
            } else {
                Passed::Inconclusive
            }
        };
        let result = match sent.as_slice() {
            [one] if one.status() != WcStatus::SUCCESS && too_long => Passed::Inconclusive,
            [one] if one.status() != WcStatus::SUCCESS => is_of_dut(self.asking, Passed::Fail),
            [one] if one.event.at.latest < ends => is_of_dut(self.asking, Passed::Fail),
            [_] => Passed::Pass,
            [] if !t.begin.simulated => Passed::Inconclusive,
            _ => is_of_dut(self.asking, Passed::Fail),
        };
        let (completion, receipt) = match self.asking {
            Side::Dut => (COMPLETION, COMPLETION),
            Side::Tester => (DUPLICATES, DUPLICATES),
        };
        let words = (
            format!("wr_id {wr_id} with {}, after the window", WcStatus::SUCCESS),
            rc::completions_in_words(&sent),
        );
        let complete = f.prove(
            completion,
            &rc::evidence(&sent),
            "completion of the SEND",
            words,
            result,
        );
        if !complete {
            return;
        }
        let result = match received.as_slice() {
            [one] if one.status() == WcStatus::SUCCESS => Passed::Pass,
            _ => is_of_dut(other(self.asking), Passed::Fail),
        };
        let words = (
            format!("wr_id {wr_id} with {}, once", WcStatus::SUCCESS),
            rc::completions_in_words(&received),
        );
        f.prove(
            receipt,
            &rc::evidence(&received),
            "completion of the receive",
            words,
            result,
        );
        let (Some(one), Side::Dut) = (sent.first(), self.asking) else {
            return;
        };
        let (least, most) = one.event.at.since(ended);
        let bound = 4 * self.once;
        let result = match () {
            () if most <= bound + t.begin.host_bound => Passed::Pass,
            // A lost retry delays the completion.
            () if t.begin.simulated || least > 16 * bound => Passed::Fail,
            () => Passed::Inconclusive,
        };
        let words = (
            format!("at most {} (4 T)", duration_words(bound)),
            format!("{}..{}", duration_words(least), duration_words(most)),
        );
        let measured = ((least, most), None, Some(bound));
        f.prove_time(
            TIMEOUT,
            &rc::evidence(&sent),
            "end of the window to the completion",
            words,
            measured,
            result,
        );
    }
}
