//! The management oracle: judges a port by every SMP that reaches it and every answer, whatever the test is for.
//!
//! A pure function of the record. [`Port`](port::Port) is the judge's own state of the port: each attribute, field by field,
//! as far as a Set or an answer has shown it; the M_Key, its level and its lease; the violation counter. Every request
//! moves it, every answer is compared with it whole, every silence is claimed.
//!
//! **What is left open is a set of values.** A Set that was refused, found the port busy or was not answered leaves the old
//! value and the new one; a lease that may have expired, the level and 0; a violation that may have been lost, a range of
//! the counter. An answer that shows none of them breaks a rule, and what it shows is what is known from then on, so that
//! one fault is one finding.
//!
//! **What somebody else may have done is no finding.** In real time a packet may be lost, a kernel may answer, a subnet
//! manager may Set what it likes unless a key of ours keeps it out: then it is an observation.
//!
//! `access` is what the architecture says of each field, `rules` what a broken one is called.

mod access;
mod answer;
mod image;
mod known;
mod legal;
mod lock;
mod port;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use verbatim_record::{Evidence, Exchange, Findings, Match, Passed, Time, Trace};
use verbatim_tester::{Need, Test};
use verbatim_wire::trap::{self, BadMKey};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{DrSmp, Layout, MKey, Mad, Method, Notice};

pub(crate) use port::Broken;
pub(crate) use rules::ALL as RULES;

use port::Port;

/// Findings of one rule in a record that become checks: what is broken once is broken again and again.
const EACH: usize = 2;

/// How many requests of a record the fabric may have made two responses of, where there is a fabric.
const EXCUSED_REPEATS: usize = 2;

/// What the rules say of a record.
pub(crate) struct Judged {
    /// What breaks a rule, in the order of the record.
    pub(crate) broken: Vec<Broken>,
    /// How often each rule was asked, by its name.
    pub(crate) asked: BTreeMap<&'static str, u64>,
}

/// States a failed check for each rule that the device breaks. In real time what loss, a kernel or somebody else may have done
/// is an observation; and so is, but in the walk, all that a device behind a kernel breaks: the other tests' tables of such
/// devices have not been argued by these rules yet.
pub(crate) fn judge(test: &Test, trace: &Trace, findings: &mut Findings<'_>) {
    let mut told: Vec<&str> = Vec::new();
    let only_observes = trace.begin.rig_kind == "umad" && test.id != super::walk::TEST.id;
    for broken in replay(test, trace).broken {
        let name = broken.rule.name;
        if told.iter().filter(|told| **told == name).count() == EACH {
            continue;
        }
        told.push(name);
        let shown: Vec<&Exchange> = broken
            .exchanges
            .iter()
            .filter_map(|number| trace.exchanges.get(*number as usize - 1))
            .collect();
        if !trace.begin.simulated && (broken.excusable || only_observes) {
            let Broken {
                about,
                expected,
                seen,
                rule,
                ..
            } = &broken;
            let text = format!(
                "{} {about}: expected {expected}, seen {seen} ({})",
                rule.statement, rule.says
            );
            findings.observe(text, &shown);
            continue;
        }
        findings
            .claim(broken.rule.statement, broken.about)
            .by_all(shown.into_iter().map(Evidence::from))
            .saw(broken.seen)
            .comes_to(broken.expected, Passed::Fail);
    }
}

/// Something that happened to the port's dialogue with the tester.
enum Event<'t> {
    Answered(&'t Exchange, &'t Mad),
    GivenUp(&'t Exchange),
    Sent(&'t Exchange),
}

/// Asks the rules of all that a record holds.
pub(crate) fn replay(test: &Test, trace: &Trace) -> Judged {
    let simulated = trace.begin.simulated;
    let ours = || {
        let all = trace.exchanges.iter();
        all.filter(move |exchange| is_of_the_port(exchange, simulated))
    };
    let mut events: Vec<((Time, usize), Event<'_>)> = Vec::new();
    for exchange in ours() {
        events.push(((exchange.sent.earliest, 2), Event::Sent(exchange)));
        if let Some(arrived) = exchange.answer() {
            // What a late answer tells of has long been overtaken by what was asked since.
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
    let alone = test.needs.contains(&Need::OwnSubnet) && !trace.begin.shared_subnet;
    let mut port = Port::new(&trace.begin, alone);
    for (_, event) in &events {
        match event {
            Event::Sent(exchange) => port.sent(exchange, last_answered > exchange.number),
            Event::GivenUp(exchange) => port.given_up(exchange),
            Event::Answered(exchange, mad) => port.answered(exchange, mad),
        }
    }
    let facts = port.facts();
    let Port {
        mut broken, mut asked, ..
    } = port;
    for exchange in ours().filter(|exchange| is_of_version_1(&exchange.request)) {
        header(exchange, &mut broken, &mut asked);
        once(exchange, &mut broken, &mut asked);
        no_request(exchange, &mut broken, &mut asked);
        if let Some(facts) = &facts {
            return_path(
                exchange,
                (facts.node.local_port_num(), simulated),
                &mut broken,
                &mut asked,
            );
        }
    }
    unasked(trace, &mut broken, &mut asked);
    let again = broken.iter().filter(|of| of.rule.name == rules::ONCE.name).count();
    for broken in broken.iter_mut().filter(|of| of.rule.name == rules::ONCE.name) {
        broken.excusable = again <= EXCUSED_REPEATS;
    }
    legal::judge(ours(), &mut broken, &mut asked);
    let sends_traps = facts.map(|facts| facts.port.capability_mask().has(CapabilityMask::TRAP));
    traps(trace, sends_traps, &mut broken, &mut asked);
    Judged { broken, asked }
}

/// Whether a request went to the port that the rig is for, by the way that the rig has; where no switch may lose it, by a LID.
fn is_of_the_port(exchange: &Exchange, simulated: bool) -> bool {
    exchange.port == 0
        && (simulated || exchange.dlid.is_none())
        && exchange.request.is_smp()
        && is_at_the_end(&exchange.request)
}

/// Whether an SMP ends its route at the port.
fn is_at_the_end(request: &Mad) -> bool {
    !request.is_directed() || DrSmp::from_bytes(request.bytes()).dr_dlid() == verbatim_wire::Lid::PERMISSIVE
}

fn is_of_version_1(request: &Mad) -> bool {
    let header = request.header();
    header.base_version() == 1 && header.class_version() == 1
}

/// What a response repeats of its request.
fn header(exchange: &Exchange, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    let responses = exchange
        .arrivals
        .iter()
        .filter(|arrived| matches!(arrived.how, Match::Answer | Match::Late | Match::Wrong));
    for arrived in responses {
        *asked.entry(rules::HEADER.name).or_default() += 1;
        let wrong = super::c13_response_header::differences(&exchange.request, &arrived.mad);
        // Reserved bits are judged in a test of their own, lest one vendor's marking fail all others.
        let wrong: Vec<_> = wrong
            .into_iter()
            .filter(|wrong| !wrong.starts_with("reserved"))
            .collect();
        if !wrong.is_empty() {
            broken.push(Broken {
                rule: &rules::HEADER,
                about: format!("header of the response to {}", exchange.request),
                expected: "what was asked".into(),
                seen: wrong.join(", "),
                exchanges: vec![exchange.number],
                excusable: false,
            });
        }
    }
}

/// A request is sent once under its TransactionID. In real time a frame may come twice on the way: what comes so now and then
/// is the fabric's, what comes so again and again is the port's.
fn once(exchange: &Exchange, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    let is_answer = |how| matches!(how, Match::Answer | Match::Late);
    if !exchange.arrivals.iter().any(|arrived| is_answer(arrived.how)) {
        return;
    }
    *asked.entry(rules::ONCE.name).or_default() += 1;
    let more = exchange.arrivals.iter().filter(|arrived| arrived.how == Match::Again);
    let more = more.count();
    if more > 0 {
        broken.push(Broken {
            rule: &rules::ONCE,
            about: format!("responses to {}", exchange.request),
            expected: "1".into(),
            seen: (more + 1).to_string(),
            exchanges: vec![exchange.number],
            excusable: true,
        });
    }
}

/// Nobody answers a response.
fn no_request(exchange: &Exchange, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    if !exchange.request.method().is_response() {
        return;
    }
    *asked.entry(rules::NO_REQUEST.name).or_default() += 1;
    if let Some(arrived) = exchange.arrivals.first() {
        broken.push(Broken {
            rule: &rules::NO_REQUEST,
            about: format!("answer to {}", exchange.request),
            expected: "no answer".into(),
            seen: arrived.mad.to_string(),
            exchanges: vec![exchange.number],
            excusable: true,
        });
    }
}

/// Where nobody else asks, whatever comes answers a request of ours, or is a trap.
fn unasked(trace: &Trace, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    if !trace.begin.simulated {
        return;
    }
    *asked.entry(rules::NO_REQUEST.name).or_default() += 1;
    let others = trace.unasked.iter().filter(|of| of.mad.method() != Method::TRAP);
    broken.extend(others.map(|arrived| Broken {
        rule: &rules::NO_REQUEST,
        about: "a MAD that belongs to no request".into(),
        expected: "none".into(),
        seen: format!("{}, TransactionID {:#x}", arrived.mad, arrived.mad.transaction_id()),
        exchanges: Vec::new(),
        excusable: true,
    }));
}

/// The last step of the return path is the adapter's own port; the others are of switches on the way.
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
    *asked.entry(rules::RETURN_PATH.name).or_default() += 1;
    let smp = DrSmp::from_bytes(answer.mad.bytes());
    // The tester's own interface took it back by one; what a real one makes of a wrong one is not known.
    if simulated && smp.hop_pointer() != hops - 1 {
        broken.push(Broken {
            rule: &rules::RETURN_PATH,
            about: format!("HopPointer of the response to {}", exchange.request),
            expected: format!("{hops}, the HopCount, as it leaves the port"),
            seen: (u16::from(smp.hop_pointer()) + 1).to_string(),
            exchanges: vec![exchange.number],
            excusable: false,
        });
    }
    let seen = smp.return_path(hops.into());
    if seen != own {
        broken.push(Broken {
            rule: &rules::RETURN_PATH,
            about: format!("ReturnPath[{hops}] of the response to {}", exchange.request),
            expected: format!("{own}, the port that the request came in by"),
            seen: seen.to_string(),
            exchanges: vec![exchange.number],
            excusable: false,
        });
    }
}

/// What a trap 256 tells of an SMP, but for its M_Key: method, AttributeID, AttributeModifier, and of one on a directed route
/// hop count and DrSLID.
type Told = (u8, u16, u32, Option<(u8, u16)>);

fn told_of(request: &Mad) -> Told {
    let route = request.is_directed().then(|| {
        let smp = DrSmp::from_bytes(request.bytes());
        (smp.hop_count(), smp.dr_slid().0)
    });
    (request.method().0, request.attribute_id().0, request.modifier(), route)
}

/// Numbers of the traps that an adapter or router sends: link integrity, buffer overrun, flow control, changes of its own, bad
/// M_Key, P_Key and Q_Key.
const OF_PORTS: [u16; 8] = [129, 130, 131, 144, 145, trap::BAD_M_KEY, 257, 258];

/// A trap 256 that names a key of ours tells of an SMP that carried it.
///
/// A port that says that it sends none, sends none.
fn traps(trace: &Trace, sends_traps: Option<bool>, broken: &mut Vec<Broken>, asked: &mut BTreeMap<&'static str, u64>) {
    // Looked up by key: a test may send 65,000 SMPs that each bring a trap.
    let mut carried: BTreeMap<u64, (BTreeSet<Told>, &Exchange)> = BTreeMap::new();
    for exchange in trace.exchanges.iter().filter(|of| of.request.is_smp()) {
        let (told, nearest) = carried
            .entry(exchange.request.m_key().0)
            .or_insert_with(|| (BTreeSet::new(), exchange));
        told.insert(told_of(&exchange.request));
        *nearest = exchange;
    }
    for arrived in trace.unasked.iter().filter(|of| of.mad.method() == Method::TRAP) {
        let notice: Notice = arrived.mad.attribute();
        if trace.begin.simulated {
            *asked.entry(rules::TRAP.name).or_default() += 1;
            let number = notice.trap_number();
            if !notice.is_generic() || !OF_PORTS.contains(&number) {
                broken.push(Broken {
                    rule: &rules::TRAP,
                    about: "a trap".into(),
                    expected: "a generic one, with a number that an adapter's traps have".into(),
                    seen: format!("{notice}").replace('\n', ";"),
                    exchanges: Vec::new(),
                    excusable: true,
                });
                continue;
            }
        }
        if !notice.is_generic() || notice.trap_number() != trap::BAD_M_KEY {
            continue;
        }
        let says = BadMKey::from_bytes(notice.details());
        let named = carried.get(&says.m_key().0).filter(|_| says.m_key() != MKey(0));
        let Some((told, nearest)) = named else { continue };
        *asked.entry(rules::TRAP.name).or_default() += 1;
        if sends_traps == Some(false) {
            broken.push(Broken {
                rule: &rules::TRAP,
                about: "trap 256 of a port whose IsTrapSupported is not set".into(),
                expected: "no trap".into(),
                seen: format!("{says}").replace('\n', ";"),
                exchanges: vec![nearest.number],
                excusable: trace.begin.shared_subnet,
            });
            continue;
        }
        let route = says.directed().then(|| (says.hop_count(), says.dr_slid().0));
        let says_of = (says.method().0, says.attribute().0, says.modifier().0, route);
        if !told.contains(&says_of) {
            broken.push(Broken {
                rule: &rules::TRAP,
                about: "what trap 256 says of the SMP".into(),
                expected: format!(
                    "an SMP that carried M_Key {}, such as {}",
                    says.m_key(),
                    nearest.request
                ),
                seen: format!("{says}").replace('\n', ";"),
                exchanges: vec![nearest.number],
                excusable: trace.begin.shared_subnet,
            });
        }
    }
}
