//! Management rules. In every test, they check a port with every SMP that reaches the port and every response.
//!
//! The checks are a pure function of the record. `Port` models the state of the port: each attribute, field by field,
//! as far as a Set or a response has shown it. The state also has the M_Key, its level and its lease, and the violation
//! counter. Every request changes the model, every response is compared with the model, and every missing response is
//! checked.
//!
//! **Open values are sets.** If a Set got the status invalid field, found the port busy or got no response, the old
//! and the new value stay possible. A lease that may have expired leaves both the old protection level and 0
//! possible. If an SMP that violates the M_Key check may have been lost, a range of counter values is possible. A
//! response that shows none of the possible values breaks a rule. The shown value then becomes the known value, so
//! that one fault makes one finding.
//!
//! **Effects of others are no findings.** In real time a packet may be lost, and a kernel may respond instead of
//! the port. A subnet manager may Set any field unless the test's M_Key prevents it. A violation that one of these
//! effects explains is reported as an observation.
//!
//! `access` has the architecture's rules for each field.

mod access;
mod answer;
mod image;
mod known;
mod legal;
mod lock;
mod port;
mod traps;

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::labels::is_restoring;
use verbatim_record::{Check, Evidence, Exchange, Findings, Match, OWN_PORT, Passed, Time, Trace};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{DrSmp, Layout, Lid, LidSmp, MKey, Mad, Method};

pub use access::sends_no_traps;
pub use lock::accuracy;
pub use port::Broken;

use access::is_of_version_1;

use crate::registry::Rule;
use port::Port;

/// All rules of ports.
pub const RULES: &[Rule] = Rule::ALL.split_at(Rule::MKeyDrops as usize).1;

/// Maximum number of failed checks for one rule, because one fault may break the rule many times in one record.
const EACH: usize = 2;

/// Defined bits of the status: busy, redirect, and the code of an invalid field.
const STATUS: u16 = 0x1F;

/// If at most this many requests have a second response, the fabric may be the cause.
const EXCUSED_REPEATS: usize = 2;

/// Outcome of the rules for a record.
#[derive(Debug)]
pub struct Judged {
    /// Violations, in the order of the record.
    pub broken: Vec<Broken>,
    /// Number of times that each rule was applied, by its name.
    pub asked: BTreeMap<&'static str, u64>,
}

/// Adds up to two failed checks for each rule that the device breaks. In real time, a violation that loss, a kernel
/// or another manager may have caused is only an observation. `alone`: whether no other subnet manager is present.
pub fn judge(alone: bool, trace: &Trace, findings: &mut Findings<'_>) {
    tell(trace, replay(alone, trace).broken, findings);
}

/// Checks only the exchanges that restore the device, for a test whose procedure changes more of a port than the model
/// covers. Drops findings with other exchanges in their evidence.
pub fn judge_restore(alone: bool, trace: &Trace, findings: &mut Findings<'_>) {
    let mut broken = replay(alone, trace).broken;
    let is_of_restore = |number: &u32| {
        let exchange = trace.exchanges.get(*number as usize - 1);
        exchange.is_some_and(|exchange| is_restoring(&exchange.label))
    };
    broken.retain(|broken| broken.exchanges.iter().all(is_of_restore));
    tell(trace, broken, findings);
}

fn tell(trace: &Trace, broken: Vec<Broken>, findings: &mut Findings<'_>) {
    let mut told: Vec<&str> = Vec::new();
    let all = broken.clone();
    let mut elsewhere: Vec<String> = Vec::new();
    for broken in broken {
        let name = broken.rule.name();
        if let Some(home) = legal::judged_in(trace, &all, &broken) {
            if !elsewhere.contains(&broken.about) {
                let Broken {
                    about, expected, seen, ..
                } = &broken;
                let text = format!("{about}: expected {expected}, seen {seen}; the test {home} judges this field");
                findings.observe(text, &[]);
                elsewhere.push(broken.about);
            }
            continue;
        }
        if told.iter().filter(|told| **told == name).count() == EACH {
            continue;
        }
        told.push(name);
        let shown: Vec<&Exchange> = broken
            .exchanges
            .iter()
            .filter_map(|number| trace.exchanges.get(*number as usize - 1))
            .collect();
        if !trace.begin.simulated && (broken.excusable || is_told(findings, &broken, &shown)) {
            let Broken {
                about,
                expected,
                seen,
                rule,
                ..
            } = &broken;
            let text = format!(
                "{} {about}: expected {expected}, seen {seen} ({})",
                rule.statement(),
                rule.says()
            );
            findings.observe(text, &shown);
            continue;
        }
        findings
            .claim(broken.rule.statement(), broken.about)
            .rule(broken.rule.name())
            .given(broken.given)
            .by_all(shown.into_iter().map(Evidence::from))
            .saw(broken.seen)
            .comes_to(broken.expected, Passed::Fail);
    }
}

/// Returns whether a check of the test itself failed for the same value in the same response or field. The rule's
/// finding would repeat that check. A simulation reports both: qualification counts which of the two checks detects a
/// fault.
fn is_told(findings: &Findings<'_>, broken: &Broken, shown: &[&Exchange]) -> bool {
    let is_it = |check: &Check| {
        let in_it = shown.last().is_some_and(|last| check.exchanges.contains(&last.number));
        let of_it = broken.about.split(' ').next_back() == Some(check.about.as_str());
        check.result() == Passed::Fail && check.seen == broken.seen && (in_it || of_it)
    };
    findings.checks.iter().any(is_it)
}

/// Event between the tester and the port.
enum Event<'t> {
    Answered(&'t Exchange, &'t Mad),
    GivenUp(&'t Exchange),
    Sent(&'t Exchange),
}

/// Applies the rules to the port under test and, in a simulation, to each other port in the record.
pub fn replay(alone: bool, trace: &Trace) -> Judged {
    let mut judged = replay_at(alone, trace, 0);
    let others: BTreeSet<u32> = trace.exchanges.iter().map(|exchange| exchange.port).collect();
    let of_dut = |port: &u32| !matches!(*port, 0 | OWN_PORT);
    for port in others.into_iter().filter(|port| of_dut(port) && trace.begin.simulated) {
        let other = replay_at(alone, trace, port);
        judged.broken.extend(other.broken);
        for (rule, times) in other.asked {
            *judged.asked.entry(rule).or_default() += times;
        }
    }
    judged
}

fn replay_at(alone: bool, trace: &Trace, at: u32) -> Judged {
    let simulated = trace.begin.simulated;
    let ours = || {
        let all = trace.exchanges.iter();
        all.filter(move |exchange| is_of_the_port(exchange, at, simulated))
    };
    let mut events: Vec<((Time, usize), Event<'_>)> = Vec::new();
    for exchange in ours() {
        events.push(((exchange.sent.earliest, 2), Event::Sent(exchange)));
        if let Some(arrived) = exchange.answer() {
            // A late response is not compared with the model, because later requests may have changed the model.
            let event = match arrived.how {
                Match::Late => Event::GivenUp(exchange),
                _ => Event::Answered(exchange, &arrived.mad),
            };
            events.push(((arrived.at.latest, 0), event));
        } else if let Some((at, ..)) = exchange.silence {
            events.push(((at.latest, 1), Event::GivenUp(exchange)));
        }
    }
    events.sort_by_key(|(at, _)| *at);
    let last_answered = trace
        .exchanges
        .iter()
        .rev()
        .find(|exchange| exchange.answer().is_some());
    let last_answered = last_answered.map_or(0, |exchange| exchange.number);
    let mut port = Port::new(&trace.begin, alone && !trace.begin.shared_subnet);
    for (_, event) in &events {
        match event {
            Event::Sent(exchange) => port.sent(exchange, last_answered > exchange.number),
            Event::GivenUp(exchange) => port.given_up(exchange),
            Event::Answered(exchange, mad) => port.answered(exchange, mad),
        }
    }
    let facts = port.facts();
    let Port {
        mut broken,
        mut asked,
        mut violations,
        ..
    } = port;
    for exchange in ours() {
        no_request(exchange, &mut broken, &mut asked);
    }
    for exchange in ours().filter(|exchange| is_of_version_1(&exchange.request)) {
        header(exchange, simulated, &mut broken, &mut asked);
        once(exchange, &mut broken, &mut asked);
        if let Some(facts) = &facts {
            return_path(
                exchange,
                (facts.node.local_port_num(), simulated),
                &mut broken,
                &mut asked,
            );
        }
    }
    if at == 0 {
        unasked(trace, &mut broken, &mut asked);
    }
    let again = broken.iter().filter(|of| of.rule == Rule::Once).count();
    for broken in broken.iter_mut().filter(|of| of.rule == Rule::Once) {
        broken.excusable = again <= EXCUSED_REPEATS;
    }
    let is_other_port = |exchange: &Exchange| {
        let asked = (exchange.request.attribute_id(), exchange.request.modifier() & 0xFF);
        let (_, port) = facts.map_or(asked, |facts| facts.place(&exchange.request));
        !simulated && port != 0
    };
    legal::judge(ours(), is_other_port, simulated, &mut broken, &mut asked);
    if at != 0 {
        return Judged { broken, asked };
    }
    let others = trace.exchanges.iter().filter(|of| !is_of_the_port(of, at, simulated));
    violations.extend(others.map(|of| of.number));
    let sender = traps::Sender {
        sends: facts.map(|facts| facts.port.capability_mask().has(CapabilityMask::TRAP)),
        node: facts.map(|facts| facts.node.node_type()),
        violations: &violations,
    };
    traps::judge(trace, &sender, &mut broken, &mut asked);
    Judged { broken, asked }
}

/// Returns whether an SMP was sent to port `at` over the rig's own path. In a simulation, where no switch loses
/// packets, an SMP to another DLID counts, too.
fn is_of_the_port(exchange: &Exchange, at: u32, simulated: bool) -> bool {
    exchange.port == at
        && (simulated || exchange.dlid.is_none())
        && exchange.request.is_smp()
        && is_at_the_end(&exchange.request)
}

/// Returns whether an SMP ends its route at the port.
fn is_at_the_end(request: &Mad) -> bool {
    !request.is_directed() || DrSmp::from_bytes(request.bytes()).dr_dlid() == verbatim_wire::Lid::PERMISSIVE
}

/// Checks the fields that a response repeats from its request. In a simulation, also checks that the M_Key of the
/// response is 0 or the request's.
fn header(exchange: &Exchange, simulated: bool, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    let responses = exchange
        .arrivals
        .iter()
        .filter(|arrived| matches!(arrived.how, Match::Answer | Match::Late | Match::Wrong));
    for arrived in responses {
        *asked.entry(Rule::Header.name()).or_default() += 1;
        let wrong = differences(&exchange.request, &arrived.mad);
        // A separate test checks reserved bits, so that a vendor's use of them does not fail all other tests.
        let mut wrong: Vec<_> = wrong
            .into_iter()
            .filter(|wrong| !wrong.starts_with("reserved"))
            .collect();
        let (key, carried) = (arrived.mad.m_key(), exchange.request.m_key());
        if simulated && key != MKey(0) && key != carried {
            wrong.push(format!("M_Key {key}"));
        }
        // Checked only in a simulation: on a host, the kernel uses the upper half of the TransactionID.
        let (id, of_it) = (arrived.mad.transaction_id(), exchange.request.transaction_id());
        if simulated && id != of_it {
            wrong.push(format!("TransactionID {id:#018x}, not {of_it:#018x}"));
        }
        if !wrong.is_empty() {
            broken.push(Broken {
                rule: Rule::Header,
                about: format!("header of the response to {}", exchange.request),
                expected: "versions 1, and the fields of the request".into(),
                seen: wrong.join(", "),
                exchanges: vec![exchange.number],
                excusable: false,
                given: None,
            });
        }
    }
}

/// Checks that a request gets one response. In real time, a few second responses are excused, because the fabric
/// may repeat a frame.
fn once(exchange: &Exchange, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    let is_answer = |how| matches!(how, Match::Answer | Match::Late);
    if !exchange.arrivals.iter().any(|arrived| is_answer(arrived.how)) {
        return;
    }
    *asked.entry(Rule::Once.name()).or_default() += 1;
    let more = exchange.arrivals.iter().filter(|arrived| arrived.how == Match::Again);
    let more = more.count();
    if more > 0 {
        broken.push(Broken {
            rule: Rule::Once,
            about: format!("responses to {}", exchange.request),
            expected: "1".into(),
            seen: (more + 1).to_string(),
            exchanges: vec![exchange.number],
            excusable: true,
            given: None,
        });
    }
}

/// Checks that the port does not respond to a response, to a Trap, or to a TrapRepress of another version.
fn no_request(exchange: &Exchange, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    let method = exchange.request.method();
    let is_repress = method == Method::TRAP_REPRESS && !is_of_version_1(&exchange.request);
    if !method.is_response() && method != Method::TRAP && !is_repress {
        return;
    }
    *asked.entry(Rule::NoRequest.name()).or_default() += 1;
    if let Some(arrived) = exchange.arrivals.first() {
        broken.push(Broken {
            rule: Rule::NoRequest,
            about: format!("answer to {}", exchange.request),
            expected: "no answer".into(),
            seen: arrived.mad.to_string(),
            exchanges: vec![exchange.number],
            excusable: true,
            given: None,
        });
    }
}

/// In a simulation, which has no other requesters, checks that each received MAD answers a request or is a trap.
fn unasked(trace: &Trace, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    if !trace.begin.simulated {
        return;
    }
    *asked.entry(Rule::NoRequest.name()).or_default() += 1;
    let others = trace.unasked.iter().filter(|of| of.mad.method() != Method::TRAP);
    broken.extend(others.map(|arrived| Broken {
        rule: Rule::NoRequest,
        about: "MADs that belong to no request".into(),
        expected: "none".into(),
        seen: format!("{}, TransactionID {:#x}", arrived.mad, arrived.mad.transaction_id()),
        exchanges: Vec::new(),
        excusable: true,
        given: None,
    }));
}

/// Checks the last entry of the return path, which the adapter's own port writes. Switches on the way write the other
/// entries.
fn return_path(
    exchange: &Exchange,
    (own, simulated): (u8, bool),
    broken: &mut Vec<Broken>,
    asked: &mut BTreeMap<&'static str, u64>,
) {
    let hops = DrSmp::from_bytes(exchange.request.bytes()).hop_count();
    if !exchange.request.is_directed() || !(1..64).contains(&hops) {
        return;
    }
    let Some(answer) = exchange.answer() else { return };
    *asked.entry(Rule::ReturnPath.name()).or_default() += 1;
    let smp = DrSmp::from_bytes(answer.mad.bytes());
    // The tester's interface has decremented HopPointer before the record. Only a simulation is checked, because the
    // reaction of a real interface to a wrong value is unknown.
    if simulated && smp.hop_pointer() != hops - 1 {
        broken.push(Broken {
            rule: Rule::ReturnPath,
            about: format!("HopPointer of the response to {}", exchange.request),
            expected: format!("{hops}, equal to HopCount when the response leaves the port"),
            seen: (u16::from(smp.hop_pointer()) + 1).to_string(),
            exchanges: vec![exchange.number],
            excusable: false,
            given: None,
        });
    }
    let seen = smp.return_path(hops.into());
    if seen != own {
        broken.push(Broken {
            rule: Rule::ReturnPath,
            about: format!("ReturnPath[{hops}] of the response to {}", exchange.request),
            expected: format!("{own}, the port that received the request"),
            seen: seen.to_string(),
            exchanges: vec![exchange.number],
            excusable: false,
            given: None,
        });
    }
}

/// Returns the wrong fields in the header of a response.
pub fn differences(request: &Mad, response: &Mad) -> Vec<String> {
    let (asked, seen) = (request.header(), response.header());
    let mut wrong = Vec::new();
    let mut must = |name: &str, holds: bool, seen: String| {
        if !holds {
            wrong.push(format!("{name} {seen}"));
        }
    };
    must("BaseVersion", seen.base_version() == 1, seen.base_version().to_string());
    must("MgmtClass", seen.class() == asked.class(), seen.class().to_string());
    must(
        "ClassVersion",
        seen.class_version() == 1,
        seen.class_version().to_string(),
    );
    must(
        "AttributeID",
        seen.attribute() == asked.attribute(),
        seen.attribute().to_string(),
    );
    must(
        "AttributeModifier",
        seen.modifier() == asked.modifier(),
        seen.modifier().to_string(),
    );
    let status = response.status().0;
    must("Status", status & !STATUS == 0, format!("{status:#06x}"));
    must(
        "reserved bytes of the MAD header",
        seen.is_zero_in("Reserved144"),
        "not 0".into(),
    );
    if !request.is_directed() {
        let smp = LidSmp::from_bytes(response.bytes());
        let zero = smp.is_zero_in("Reserved256") && smp.is_zero_in("Reserved1024");
        must("reserved bytes of the SMP", zero, "not 0".into());
        return wrong;
    }
    let (asked, seen) = (DrSmp::from_bytes(request.bytes()), DrSmp::from_bytes(response.bytes()));
    must("D bit", seen.direction(), seen.direction().to_string());
    must(
        "HopCount",
        seen.hop_count() == asked.hop_count(),
        seen.hop_count().to_string(),
    );
    let lids: [(&str, Lid, Lid); 2] = [
        ("DrSLID", seen.dr_slid(), asked.dr_slid()),
        ("DrDLID", seen.dr_dlid(), asked.dr_dlid()),
    ];
    for (name, seen, asked) in lids {
        must(name, seen == asked, seen.to_string());
    }
    let path = |smp: &DrSmp| (0..64).map(|hop| smp.initial_path(hop)).collect::<Vec<_>>();
    must("InitialPath", path(&seen) == path(&asked), "of another route".into());
    must(
        "reserved bytes of the SMP",
        seen.is_zero_in("Reserved288"),
        "not 0".into(),
    );
    wrong
}
