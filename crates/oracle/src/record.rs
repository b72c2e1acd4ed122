//! Applies the rules for the device's packets to the record of any test.

use core::cell::LazyCell;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::verbs::{Command, Reply, command_words, pb};
use verbatim_record::{Check, Evidence, Findings, FrameSeen, Passed, Side, Trace, VerbsDone};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{Medium, Opcode, Packet, Psn, Qpn, Service, SyndromeKind};

use super::access::{Regions, Rights};
use super::connection::{Connection, Loss};
use super::parsed::Event;
use super::partition::reaches;
use super::rule::{Excuse, Rule};
use super::verbs;
use super::verbs::asking::{RuleFinding, RuleHeld};
use super::verbs::habit::Habit;
use crate::rc::{HALF, is_sequence_nak};
use crate::rc::{connections_of, end_of, is_taken};
use crate::words::counted;

/// Ends of a connection: the tester's and the device's.
const TESTER: usize = 0;
const DUT: usize = 1;
/// Maximum number of failed checks for one rule, because one fault may break the rule many times in one record.
const EACH: usize = 2;
/// Maximum number of events in the text of a rule that holds.
const EVIDENCE: usize = 2;

/// Rule about reserved bits, which is skipped here. Only the test of reserved bits checks them. Otherwise, one
/// device that sets a reserved bit would fail all tests.
const RESERVED: Rule = Rule::Reserved;

/// Adds a failed check for each rule that the device breaks, unless a lost packet explains the violation. Then adds
/// the checks for the rules that the test exercises, and for `statements`.
///
/// Violations by the peer are not reported, because the peer breaks rules on purpose. Packets of the peer that the
/// device must silently drop are not checked.
pub fn judge(trace: &Trace, findings: &mut Findings<'_>, statements: &[&str]) {
    let is_judged_here = findings.exercises.is_some();
    let (mut broken, mut held) = packets(trace);
    let ruling = verbs::rule(trace);
    let said = ruling.said.iter();
    broken.extend(
        said.filter(|said| is_judged_here || said.result == Passed::Fail)
            .cloned(),
    );
    // Failures precede inconclusive results.
    broken.sort_by_key(|said| said.result != Passed::Fail);
    let mut told: Vec<(&str, Option<Habit>)> = Vec::new();
    for said in broken {
        let name = said.rule.name();
        if said.result == Passed::Unspecified {
            findings.not_applicable.get_or_insert_with(|| not_taken(&said));
            continue;
        }
        // If a habit of the device explains a finding, the finding becomes an observation. There is one exception: in
        // the test of that habit, a finding of `Habit::RULE` remains a finding.
        let establishes = |habit: &Habit| said.rule == Habit::RULE && habit.is_subject_of(&trace.begin.test);
        let foreign = said.habit.filter(|habit| !establishes(habit));
        let most = if foreign.is_some() { 1 } else { EACH };
        let kind = (name, said.habit);
        if told.iter().filter(|told| **told == kind).count() == most {
            continue;
        }
        told.push(kind);
        if let Some(habit) = foreign {
            let text = format!("{name}: {}: {} ({})", said.about, said.seen, habit.words());
            findings.observe(text, &[]);
            // If a habit explains a violation of a rule that this test exercises, the test does not apply to the
            // device.
            let is_its_own = findings.exercises.as_ref().is_some_and(|wanted| wanted.contains(&name));
            if is_its_own && findings.not_applicable.is_none() {
                findings.not_applicable = Some(format!("{}; this hides {name}", habit.words()));
            }
            continue;
        }
        let about = match said.about.as_str() {
            "" => name.to_string(),
            about => format!("{name}: {about}"),
        };
        findings
            .claim(said.rule.statement(), about)
            .rule(name)
            .given(said.given)
            .by_all(said.evidence)
            .saw(said.seen)
            .comes_to(said.expected, said.result);
    }
    held.extend(ruling.held);
    let Some(wanted) = findings.exercises.clone() else {
        return;
    };
    let refused = tell_refused(trace, findings);
    let is_broken = findings.checks.iter().any(|check| check.result() == Passed::Fail);
    exercised(findings, &held, (&wanted, statements), (is_broken, refused));
}

/// Returns the reason why the test does not apply, for a step or a work request that the host refused.
fn not_taken(said: &RuleFinding<'_>) -> String {
    format!(
        "the host of the DUT's device lacks a capability that the test needs: {}: {}",
        said.about, said.seen
    )
}

/// Adds a check for each rule in `wanted`, with the number of times that the rule held, and a check for each
/// statement in `statements`. A rule that was never applied is inconclusive, unless another check failed, or the device
/// lacks a capability that the test needs.
fn exercised(
    findings: &mut Findings<'_>,
    held: &[RuleHeld<'_>],
    (wanted, statements): (&[&'static str], &[&str]),
    (is_broken, refused): (bool, Option<String>),
) {
    let lacks = |findings: &mut Findings<'_>| {
        let is_known = refused.is_some();
        findings.not_applicable = findings.not_applicable.take().or(refused.clone());
        is_known
    };
    for name in wanted {
        let rule = Rule::named(name).expect("tests name rules that exist");
        let of_rule: Vec<&RuleHeld<'_>> = held.iter().filter(|held| held.rule == rule).collect();
        match of_rule.iter().map(|held| held.times).sum() {
            0 if is_broken || findings.goes_without.contains(name) || lacks(findings) => {}
            0 => {
                let words = (rule.says(), "no event to which this rule applies");
                findings.prove(rule.statement(), &[], name, words, Passed::Inconclusive);
            }
            times => holds(findings, (rule.statement(), name, rule.says()), &of_rule, times, ""),
        }
    }
    let spared = findings.goes_without.clone();
    for statement in statements {
        let of_it: Vec<&RuleHeld<'_>> = held
            .iter()
            .filter(|held| held.rule.statement() == *statement && held.times > 0)
            .collect();
        // The test itself may have checked a statement that no rule covers.
        let is_of_it = |check: &Check| check.statement == *statement && check.result() != Passed::Inconclusive;
        match of_it.iter().map(|held| held.times).sum::<u32>() {
            0 if is_broken || findings.checks.iter().any(is_of_it) || spared.contains(statement) || lacks(findings) => {
            }
            0 => {
                let words = ("an event to which a rule of the statement applies", "none");
                findings.prove(statement, &[], "rules", words, Passed::Inconclusive);
            }
            times => {
                let rules = of_it.iter().map(|held| held.rule).collect::<BTreeSet<_>>().len();
                let (of_rules, of_times) = (counted(rules, "rule"), counted(times as usize, "time"));
                let all = format!("{of_rules} held {of_times}; closest: ");
                holds(
                    findings,
                    (statement, "rules", "all rules of the statement hold"),
                    &of_it,
                    times,
                    &all,
                );
            }
        }
    }
}

/// Adds a passed check with the evidence of the case that came closest to a violation.
fn holds(
    findings: &mut Findings<'_>,
    (statement, about, says): (&str, &str, &str),
    held: &[&RuleHeld<'_>],
    times: u32,
    before: &str,
) {
    let is_shown = |held: &&&RuleHeld<'_>| !held.evidence.is_empty();
    let by_slack = |one: &&&RuleHeld<'_>, other: &&&RuleHeld<'_>| one.slack.total_cmp(&other.slack);
    let Some(closest) = held.iter().filter(is_shown).min_by(by_slack).or(held.first()) else {
        return;
    };
    let mut words: Vec<String> = (!closest.closest.is_empty())
        .then(|| closest.closest.clone())
        .into_iter()
        .collect();
    let last = closest.evidence.len().saturating_sub(EVIDENCE);
    words.extend(closest.evidence[last..].iter().map(Evidence::in_words));
    if times > 1 {
        words.push(format!("{} more", times - 1));
    }
    findings
        .claim(statement, about)
        .rule(closest.rule.name())
        .times(times)
        .by_all(closest.evidence.iter().copied())
        .saw(format!("{before}{}", words.join("; ")))
        .comes_to(says, Passed::Pass);
}

/// Adds an observation for each work request that the DUT's host refused to post. Returns [`first_refused`].
fn tell_refused(trace: &Trace, findings: &mut Findings<'_>) -> Option<String> {
    for done in trace.timeline.commands.iter().filter(|done| done.side == Side::Dut) {
        if let (Command::PostSend(post), Some((_, _, Reply::Refused(_), _))) = (&done.command, &done.answer) {
            let operation = post.operation().as_str_name().replace("OPERATION_", "");
            let length = post.local.map_or(0, |local| local.length);
            let text = format!("the host refused to post {operation} of {length} bytes, so the test does not judge it");
            findings.observe(text, &[]);
        }
    }
    first_refused(trace)
}

/// Describes the first command that the DUT's host refused although the architecture does not demand the refusal.
pub fn first_refused(trace: &Trace) -> Option<String> {
    let by_right = verbs::refused_by_right(trace);
    let mut refused = trace.timeline.commands.iter().filter_map(|done| match &done.answer {
        Some((.., Reply::Refused(refused), _)) if done.side == Side::Dut && !by_right.contains(&done.number) => {
            Some((done, refused))
        }
        _ => None,
    });
    refused.next().map(|(done, refused)| {
        format!(
            "the host of the DUT's device refused to {}: {}",
            command_words(&done.command),
            refused.text
        )
    })
}

/// Returns the violations in the device's packets, without excused violations, and how often each packet rule held.
fn packets(trace: &Trace) -> (Vec<RuleFinding<'_>>, Vec<RuleHeld<'_>>) {
    let (mut broken, mut kept) = (Vec::new(), Vec::new());
    let crossing = LazyCell::new(|| CROSSING + 2 * quickest(trace));
    let (pairs, regions) = (pairs(trace), Regions::of(trace));
    for pair in &pairs {
        let connection = connection(trace, pair, &regions);
        kept.extend(connection.counts().map(|(rule, count)| {
            let held = count.asked - count.broken - count.excused;
            RuleHeld {
                rule,
                times: u32::try_from(held).unwrap_or(u32::MAX),
                closest: String::new(),
                slack: f64::MAX,
                evidence: frame_of(trace, count.shown[DUT])
                    .map(Evidence::from)
                    .into_iter()
                    .collect(),
            }
        }));
        // The peer may reuse a PSN for another request. If the first request with the PSN was lost, the device knows
        // only the second one. Skip the findings from the second request on, unless the device answered the first
        // request.
        let altered = connection
            .findings
            .iter()
            .filter(|finding| finding.by == TESTER && finding.rule == ALTERED)
            .filter_map(|finding| finding.packets.iter().max().copied())
            .filter(|number| !was_answered(trace, pair, *number))
            .min()
            .filter(|_| !trace.begin.simulated);
        for finding in connection.findings {
            if altered.is_some_and(|altered| finding.packets.iter().any(|packet| *packet >= altered)) {
                continue;
            }
            let frames = finding.packets.iter().filter_map(|number| frame_of(trace, *number));
            let is_its_own = match finding.unless {
                None => true,
                Some(Excuse::NotArrived) if OF_TIME.contains(&finding.rule) => {
                    trace.begin.simulated && had_arrived(frames.clone(), *crossing)
                }
                // Every request of the peer is recorded before it leaves, so the record has the request of every
                // response.
                Some(Excuse::RequestsLost) => trace.begin.simulated && OF_RESPONDER.contains(&finding.rule),
                Some(excuse) => excuse.is_excluded_in_record(trace.begin.simulated),
            };
            if finding.by != DUT || !is_its_own || finding.rule == RESERVED {
                continue;
            }
            // The packet rules assume that the speed of the device's clock is constant. If the speed varies, a wrong
            // interval is inconclusive.
            let is_of_time = finding.rule == INTERVAL && trace.begin.stretch() > 1.0;
            broken.push(RuleFinding {
                rule: finding.rule,
                about: String::new(),
                expected: finding.expected,
                seen: finding.seen,
                evidence: frames.map(Evidence::Frame).collect(),
                result: if is_of_time { Passed::Inconclusive } else { Passed::Fail },
                habit: None,
                given: Vec::new(),
            });
        }
    }
    (broken, kept)
}

/// Rule that a retransmission equals the original.
const ALTERED: Rule = Rule::SameAgain;

/// Responder rules whose violations may have the excuse `RequestsLost`. In a simulation this excuse does not apply,
/// because the record has every request.
const OF_RESPONDER: [Rule; 4] = [
    Rule::DamagedRequest,
    Rule::ResponsesInOrder,
    Rule::ReadResponseOpcode,
    Rule::ReadResponseLength,
];

const INTERVAL: Rule = Rule::RnrInterval;
/// Rules whose violations may have the excuse `NotArrived`. In a simulation, the time since the packet was sent decides
/// whether the excuse applies.
const OF_TIME: [Rule; 2] = [INTERVAL, Rule::SequenceNak];
/// Upper bound of the time in which two packets may cross on a simulated path, not counting the device's own delay.
const CROSSING: Duration = Duration::from_micros(100);

/// Returns the device's shortest time from a request to its response. It is the estimate for the time that a packet
/// spends inside the device, which `CROSSING` does not include.
fn quickest(trace: &Trace) -> Duration {
    let frames = &trace.timeline.frames;
    let which = |frame: &FrameSeen| {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
        let opcode = packet.opcode();
        // A sequence NAK carries the PSN of the missing request, not of the request that caused it.
        let is_it =
            opcode.service() == Service::Rc && opcode.is_response() == frame.received && !is_sequence_nak(&packet);
        is_it.then_some(packet.bth().psn())
    };
    // First request with each PSN, since a response may answer the first transmission.
    let mut first: BTreeMap<u32, &FrameSeen> = BTreeMap::new();
    let took = frames.iter().filter_map(|frame| {
        let psn = which(frame)?.0;
        if frame.received {
            return Some(frame.at.since(first.get(&psn)?.at).0);
        }
        first.entry(psn).or_insert(frame);
        None
    });
    took.min().unwrap_or_default()
}

/// Returns whether the device had answered an earlier request with the same PSN when packet `number` was sent.
fn was_answered(trace: &Trace, pair: &Pair, number: u64) -> bool {
    let Some((sent, packet)) = frame_of(trace, number).and_then(parsed) else {
        return false;
    };
    let psn = packet.bth().psn();
    let before = trace.timeline.frames_between((pair.places.0, sent.place)).iter();
    before
        .filter(|frame| frame.received)
        .filter_map(parsed)
        .any(|(_, of_dut)| {
            let tells = match of_dut.aeth().map(|aeth| aeth.syndrome().kind()) {
                Some(SyndromeKind::Ack(_)) => true,
                // READ Middle responses have no AETH.
                None => of_dut.opcode() == Opcode::RC_READ_RESPONSE_MIDDLE,
                Some(_) => false,
            };
            tells && of_dut.bth().dest_qp() == pair.own && of_dut.bth().psn().since(psn) < HALF
        })
}

/// Returns the frame with that number. Numbers begin at 1.
fn frame_of(trace: &Trace, number: u64) -> Option<&FrameSeen> {
    trace.timeline.frames.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

fn parsed(frame: &FrameSeen) -> Option<(&FrameSeen, Packet<'_>)> {
    Some((frame, Packet::parse(Medium::Ethernet, &frame.bytes).ok()?))
}

/// Returns whether the first of the frames came from the peer, and had certainly arrived before the device sent the
/// last of the frames. Two frames at most `crossing` apart may have crossed.
fn had_arrived<'t>(mut frames: impl DoubleEndedIterator<Item = &'t FrameSeen>, crossing: Duration) -> bool {
    let (last, first) = (frames.next_back(), frames.next());
    first
        .zip(last)
        .is_some_and(|(first, last)| !first.received && last.at.since(first.at).0 > crossing)
}

/// Connected queue pair of the device.
struct Pair {
    /// Number of the device's queue pair.
    dut: Qpn,
    /// Number of the peer's queue pair.
    own: Qpn,
    /// PSN of the first request that the queue pair expects.
    expects: Option<Psn>,
    /// Path MTU in bytes.
    path_mtu: Option<u32>,
    /// Number of outstanding READs and atomics that the queue pair accepts.
    answers: Option<u32>,
    /// Remote access rights of the peer.
    rights: Rights,
    /// First and last position of the connection in the record.
    places: (usize, usize),
}

/// Returns all connections of the device's RC queue pairs, each with its packets.
pub(super) fn connections(trace: &Trace) -> Vec<Connection> {
    let (pairs, regions) = (pairs(trace), Regions::of(trace));
    pairs.iter().map(|pair| connection(trace, pair, &regions)).collect()
}

fn pairs(trace: &Trace) -> Vec<Pair> {
    let commands = || trace.timeline.commands.iter().filter(|done| done.side == Side::Dut);
    let made: Vec<_> = commands()
        .filter_map(|done| match (&done.command, &done.answer) {
            (Command::CreateQp(of), Some((_, _, Reply::Qp(qp), _))) => Some((done, of.service(), qp)),
            _ => None,
        })
        .collect();
    let end = trace.timeline.order.len();
    let mut pairs = Vec::new();
    for (at, (created, service, qp)) in made.iter().enumerate() {
        let next = made.get(at + 1).map_or(end, |(next, ..)| next.place);
        let until = end_of(trace, created, next);
        for places in connections_of(trace, created, until) {
            // Commands for this connection may follow the creation of another queue pair. They always precede the
            // next connection of the same queue pair.
            let last = if places.1 == until { end } else { places.1 };
            let given = |done: &'_ VerbsDone| match &done.command {
                Command::ModifyQp(modify) if modify.qp == qp.qp && is_taken(done) => modify.attributes.clone(),
                _ => None,
            };
            // The range excludes its ends, but the command at the first position belongs to the connection.
            let its = trace
                .timeline
                .commands_between((places.0.saturating_sub(1), last))
                .iter();
            let its = || {
                its.clone()
                    .filter(|done| done.side == Side::Dut && done.place >= places.0)
            };
            let all: Vec<pb::QpAttributes> = its().filter_map(given).collect();
            let rights = its().filter_map(|done| {
                let since = done.answer.as_ref().map_or(usize::MAX, |(.., place)| *place);
                Some((given(done)?.access?, since))
            });
            let own = all.iter().find_map(|given| given.dest_qpn);
            if let (Some(own), pb::Service::Rc) = (own, service) {
                let path_mtu = all.iter().find_map(|given| given.path_mtu);
                let kept = || all.iter().filter_map(|given| given.max_dest_rd_atomic);
                pairs.push(Pair {
                    dut: Qpn(qp.qpn),
                    own: Qpn(own),
                    expects: all.iter().find_map(|given| given.rq_psn).map(Psn::new),
                    path_mtu: path_mtu.and_then(|code| Mtu(u8::try_from(code).ok()?).bytes()),
                    answers: kept().min(),
                    rights: Rights {
                        given: rights.collect(),
                        answers_none: kept().max() == Some(0),
                    },
                    places,
                });
            }
        }
    }
    pairs
}

fn connection(trace: &Trace, pair: &Pair, regions: &Regions<'_>) -> Connection {
    let mut connection = Connection::new(Loss::Possible);
    connection.know(TESTER, pair.expects, pair.path_mtu);
    connection.know_answers(TESTER, pair.answers.unwrap_or_default());
    let frames = trace.timeline.frames_between(pair.places).iter();
    let packets: Vec<(&FrameSeen, Packet<'_>)> = frames
        .filter_map(|frame| {
            let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
            let to = if frame.received { pair.own } else { pair.dut };
            let is_ours = packet.bth().dest_qp() == to && packet.opcode().service() == Service::Rc;
            is_ours.then_some((frame, packet))
        })
        .collect();
    let Some((_, of_dut)) = packets.iter().find(|(frame, _)| frame.received) else {
        return connection;
    };
    for (frame, packet) in &packets {
        if !frame.received && !reaches(packet, of_dut) {
            continue;
        }
        let event = Event {
            number: frame.number.into(),
            at: Some(frame.at.earliest),
            packet: *packet,
            is_cut: false,
        };
        connection.take(if frame.received { DUT } else { TESTER }, &event);
        if !frame.received {
            let allows = regions.allow(packet, frame.place, &pair.rights);
            connection.allow(TESTER, packet.bth().psn(), event.number, allows);
        }
    }
    connection
}
