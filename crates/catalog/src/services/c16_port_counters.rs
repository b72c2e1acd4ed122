//! `c16-port-counters`: the performance agent writes the counters that CounterSelect selects, and no others.
//!
//! The test sets each counter of PortCounters and PortRcvErrorDetails alone. It also sends a Set that selects no
//! counter, sets all counters to their largest values, and restores all original values. The agent must refuse
//! port 0, a port beyond NumPorts, and all ports at once without AllPortSelect in ClassPortInfo. It must also
//! refuse methods of other classes, other versions, and an unknown attribute. It must not respond to a response, a
//! Trap or a TrapRepress. The counters of another port must not change.
//!
//! Reading: the port counts data and packets during the test, so the expected values are ranges. On the virtual
//! rig, each MAD is one packet, counted once from LRH to ICRC. A missing response to an unknown method or version
//! is only an observation. The counters of data and packets are optional; a counter that the device lacks is
//! always 0. The test runs only if the rig allows writing counters. A restore is not exact, because the port
//! counts packets meanwhile. An aborted run leaves the values of the test in the counters. A real port also counts
//! link errors and other traffic. On a real port a value above the expected range is inconclusive, and only a
//! value below it fails. False alarm: another program that resets counters, such as a performance manager. By
//! allowing the writes, the user rules out such a program.

use verbatim_record::{Exchange, Findings, Gap, Label, Legal, Passed, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{Hex8, Hex16};
use verbatim_wire::{
    AnyAttribute, Attribute, AttributeId, ClassPortInfo, Layout, Method, NodeInfo, PortCounters, PortInfo,
    PortRcvErrorDetails, PortState, Status,
};

use crate::management::adapter::refused_or_discarded;

const STATEMENT: &str = "16.1.3 PortCounters";
const PORT: Label<PortInfo> = Label::new("the port");
const NODE: Label<NodeInfo> = Label::new("the node");
const CLASS: Label<ClassPortInfo> = Label::new("ClassPortInfo");
const BEYOND: Label<PortCounters> = Label::new("counters of a port that does not exist");
const OF_0: Label<PortCounters> = Label::new("counters of port 0");
const OTHER: Label<PortCounters> = Label::new("counters of another port");
const OF_ALL: Label<PortCounters> = Label::new("counters of all ports together");
const METHODS: [(Label<PortCounters>, Method); 3] = [
    (Label::new("GetTable"), Method::GET_TABLE),
    (Label::new("GetMulti"), Method::GET_MULTI),
    (Label::new("method 0x1F"), Method(0x1F)),
];
/// Messages that get no response.
const NO_REQUESTS: [(Label<PortCounters>, Method); 3] = [
    (Label::new("a response"), Method::GET_RESP),
    (Label::new("a Trap, which goes to managers"), Method::TRAP),
    (Label::new("a TrapRepress of no trap"), Method::TRAP_REPRESS),
];
const VERSIONS: [(Label<PortCounters>, (u8, u8)); 2] = [
    (Label::new("class version 2"), (1, 2)),
    (Label::new("base version 2"), (2, 1)),
];
/// An AttributeID that the class does not define.
const UNKNOWN: (Label<AnyAttribute>, AttributeId) = (
    Label::new("an attribute that the class does not have"),
    AttributeId(0x00FE),
);
const COUNTERS: Labels<PortCounters> = Labels {
    get: Label::new("the counters"),
    set: Label::new("set counters"),
    refused: Label::new("set counters of a port that is not there"),
};
const DETAILS: Labels<PortRcvErrorDetails> = Labels {
    get: Label::new("the counters in detail"),
    set: Label::new("set counters in detail"),
    refused: Label::new("set counters in detail of a port that is not there"),
};
const AFTER_DETAILS: Label<PortCounters> = Label::new("the counters, after those in detail");

/// The labels of a read, of a Set, and of a Set for a port that does not exist.
struct Labels<A> {
    get: Label<A>,
    set: Label<A>,
    refused: Label<A>,
}

/// The counters by bit number of CounterSelect; PortXmitWait has bit 0 of CounterSelect2.
const NAMES: [&str; 17] = [
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
    "PortXmitData",
    "PortRcvData",
    "PortXmitPkts",
    "PortRcvPkts",
    "PortXmitWait",
];
/// The counters of PortRcvErrorDetails by bit number of CounterSelect.
const IN_DETAIL: [&str; 6] = [
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
    "PortVLMappingErrors",
    "PortLoopingErrors",
];
/// The counters that the reads themselves increment.
const MOVING: [&str; 4] = ["PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"];
/// The counters that change by themselves on a real link, through bit errors or waiting packets.
const OF_THE_LINK: [&str; 7] = [
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "LocalLinkIntegrityErrors",
    "PortXmitWait",
    "PortLocalPhysicalErrors",
];
/// ClassPortInfo:CapabilityMask of the performance class: PortSelect 0xFF selects all ports.
const ALL_PORT_SELECT: u16 = 1 << 8;
/// ClassPortInfo:CapabilityMask of the performance class: the port has PortXmitWait.
const XMIT_WAIT: u16 = 1 << 12;
/// The counters of relaying and filtering in switches: an adapter may return 0 after any write.
const OF_SWITCHES: [&str; 3] = [
    "PortRcvSwitchRelayErrors",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
];
/// The status with which an agent redirects requests to the port, queue pair and class in ClassPortInfo (architecture
/// 13.5.2). IBM's eHCA returns it.
const REDIRECT: Status = Status(0x0002);
/// The largest increment between a Set and the next read, with retries, on a port with other traffic.
const MOST: u64 = 20_000;
/// The counted length of a packet with a MAD, in units of 4 bytes: LRH, BTH, DETH, 256 bytes and ICRC.
const DWORDS: u64 = 72;

pub(super) static TEST: Test = Test {
    id: "c16-port-counters",
    aliases: &[],
    revision: 8,
    about: "The performance agent writes only the counters that CounterSelect names, and refuses unknown ports, \
        methods and attributes.",
    reading: "The test follows no redirection of the class. A Set for an absent port, and Sets of PortRcvErrorDetails, \
        leave PortCounters unchanged. Data and packets still count meanwhile; on hardware a count above the expected \
        one is inconclusive. PortRcvErrorDetails is optional; it is judged if the port has it. Silence to an unknown \
        method or class version is an observation.",
    statements: &[STATEMENT],
    needs: &[Need::Mad, Need::OwnSubnet, Need::Counters],
    parameters: &[],
    procedure,
    judge,
};

/// Returns the value for a Set of a counter. Two consecutive Sets write different values.
fn value(name: &str, round: usize) -> u64 {
    let place = NAMES.iter().chain(&IN_DETAIL).position(|of| *of == name);
    1 + (place.unwrap_or(0) as u64 + round as u64) % 14
}

fn with<A: Layout>(of: &A, name: &str, value: u64) -> A {
    let mut bytes = of.bytes().to_vec();
    let field = A::field(name);
    verbatim_wire::set_bits(&mut bytes, field.offset, field.width, value);
    A::from_bytes(&bytes)
}

/// Returns the attribute with the round's value in every counter.
fn others<A: Layout>(mut of: A, names: &[&str], round: usize) -> A {
    for name in names {
        of = with(&of, name, value(name, round));
    }
    of
}

/// Returns the attribute with every counter at its largest value.
fn full<A: Layout>(of: A, names: &[&str]) -> A {
    names
        .iter()
        .fold(of, |of, name| with(&of, name, end(A::field(name).width)))
}

/// Returns the largest value of a counter of `width` bits.
fn end(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    // A GMP needs a destination LID.
    if !t.get(PORT, t.rig_key())?.lid().is_unicast() {
        return Ok(());
    }
    let node = t.get(NODE, t.rig_key())?;
    let class = t.ask_with(CLASS, &ClassPortInfo::default())?;
    if class.is_some_and(|class| class.status == REDIRECT) {
        return Ok(());
    }
    let of = |port| PortCounters::default().with_port_select(port);
    let beyond = node.num_ports().checked_add(1).filter(|port| *port != 0xFF);
    if let Some(beyond) = beyond {
        t.ask_with(BEYOND, &of(beyond))?;
    }
    let other = Some(node.local_port_num() % node.num_ports().max(1) + 1).filter(|_| node.num_ports() > 1);
    if let Some(other) = other {
        t.ask_with(OTHER, &of(other))?;
    }
    t.ask_with(OF_0, &of(0))?;
    t.ask_with(OF_ALL, &of(0xFF))?;
    for (label, method) in METHODS {
        t.send_once(label, method, 0, t.rig_key())?;
    }
    for (label, version) in VERSIONS {
        t.get_as_version(label, version, t.rig_key())?;
    }
    t.ask_performance(UNKNOWN.0, UNKNOWN.1)?;
    // On a real rig, the host's kernel would handle these messages.
    for (label, method) in NO_REQUESTS.into_iter().filter(|_| t.is_simulated()).collect::<Vec<_>>() {
        t.send_once(label, method, 0, t.rig_key())?;
    }

    let asked = of(node.local_port_num());
    let Some(found) = t.ask_with(COUNTERS.get, &asked)? else {
        return Ok(());
    };
    let set = |t: &mut Tester<'_>, image: PortCounters, select: u32| -> Step {
        let image = image
            .with_port_select(node.local_port_num())
            .with_counter_select(Hex16(select as u16))
            .with_counter_select_2(Hex8((select >> 16) as u8));
        t.set_counters(COUNTERS.set, &image)?;
        t.ask_with(COUNTERS.get, &asked).map(|_| ())
    };
    for bit in 0..NAMES.len() {
        set(t, others(PortCounters::default(), &NAMES, bit), 1 << bit)?;
    }
    set(t, others(PortCounters::default(), &NAMES, 5), 0)?;
    if let Some(beyond) = beyond {
        // A counter never decreases by itself. These values are lower than the current values, so the next read
        // shows a port that stored them.
        let image = others(PortCounters::default(), &NAMES, NAMES.len() + 1)
            .with_port_select(beyond)
            .with_counter_select(Hex16(0xFFFF))
            .with_counter_select_2(Hex8(1));
        t.set_counters(COUNTERS.refused, &image)?;
        t.ask_with(COUNTERS.get, &asked)?;
    }
    set(t, full(PortCounters::default(), &NAMES), 0x1_FFFF)?;
    set(t, found.value, 0x1_FFFF)?;
    if let Some(other) = other {
        t.ask_with(OTHER, &of(other))?;
    }

    let counters = asked;
    let asked = PortRcvErrorDetails::default().with_port_select(node.local_port_num());
    let found = t.ask_with(DETAILS.get, &asked)?;
    let Some(found) = found.filter(|answer| answer.status == Status::OK) else {
        return Ok(());
    };
    let set = |t: &mut Tester<'_>, image: PortRcvErrorDetails, select: u16| -> Step {
        let image = image
            .with_port_select(node.local_port_num())
            .with_counter_select(Hex16(select));
        t.set_counters(DETAILS.set, &image)?;
        t.ask_with(DETAILS.get, &asked).map(|_| ())
    };
    for bit in 0..IN_DETAIL.len() {
        set(t, others(PortRcvErrorDetails::default(), &IN_DETAIL, bit), 1 << bit)?;
    }
    set(t, others(PortRcvErrorDetails::default(), &IN_DETAIL, 5), 0)?;
    if let Some(beyond) = beyond {
        let image = full(PortRcvErrorDetails::default(), &IN_DETAIL)
            .with_port_select(beyond)
            .with_counter_select(Hex16(0x3F));
        t.set_counters(DETAILS.refused, &image)?;
        t.ask_with(DETAILS.get, &asked)?;
    }
    set(t, full(PortRcvErrorDetails::default(), &IN_DETAIL), 0x3F)?;
    set(t, found.value, 0x3F)?;
    t.ask_with(AFTER_DETAILS, &counters).map(|_| ())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !t.answer(PORT)?.lid().is_unicast() {
        return Err(Gap::NoLid(t.exchange(PORT)?.number));
    }
    t.not_judged(NODE);
    let state = t.answer(PORT)?.port_state();
    let is_silent = t.each(CLASS).all(|asked| asked.response().is_none());
    if !t.begin.simulated && state < PortState::ARMED && is_silent {
        f.not_applicable = Some(format!(
            "the port is in {state}, which passes only SMPs, and its performance agent did not answer; let a subnet \
             manager bring the port to Active"
        ));
        return Ok(());
    }
    if t.each(CLASS)
        .filter_map(Exchange::answer)
        .any(|of| of.mad.status() == REDIRECT)
    {
        f.not_applicable = Some(
            "the port redirects requests of the performance class (status 0x0002), and the test does not follow".into(),
        );
        return Ok(());
    }
    let class: ClassPortInfo = t.answer(CLASS)?;
    let versions = [("BaseVersion", Legal::Is(1)), ("ClassVersion", Legal::Is(1))];
    f.legal(STATEMENT, t.exchange(CLASS)?, &class, &versions);
    if t.has(BEYOND) {
        f.status(STATEMENT, t.exchange(BEYOND)?, &[Status::INVALID_FIELD]);
    }
    for label in [OF_0, OF_ALL].into_iter().filter(|label| t.has(*label)) {
        let all = label.name == OF_ALL.name;
        if all && class.capability_mask().0 & ALL_PORT_SELECT != 0 {
            f.status(STATEMENT, t.exchange(label)?, &[Status::OK]);
        } else {
            f.status(STATEMENT, t.exchange(label)?, &[Status::INVALID_FIELD]);
        }
    }
    let answered = t.each(CLASS).chain(t.each(BEYOND)).chain(t.each(COUNTERS.get));
    for exchange in answered.chain(t.each(COUNTERS.set)) {
        header(f, exchange);
    }
    let unknown = [Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
    for (label, _) in METHODS {
        let what = format!("status of {} of PortCounters", label.name);
        refused_or_discarded(f, STATEMENT, t.exchange(label)?, &what, &unknown);
    }
    for (label, _) in VERSIONS.into_iter().filter(|(label, _)| t.has(*label)) {
        let what = format!("status of Get(PortCounters) of {}", label.name);
        refused_or_discarded(f, STATEMENT, t.exchange(label)?, &what, &[Status::BAD_VERSION]);
    }
    if t.has(UNKNOWN.0) {
        let (what, status) = ("status of an unknown attribute", [Status::METHOD_ATTRIBUTE_UNSUPPORTED]);
        refused_or_discarded(f, STATEMENT, t.exchange(UNKNOWN.0)?, what, &status);
    }
    for (label, _) in NO_REQUESTS {
        if t.has(label) {
            f.silent(STATEMENT, t.exchange(label)?);
        }
    }
    t.not_judged(OTHER);
    of_another(t, f)?;
    counts(t, f)?;
    written(t, f, &COUNTERS, &NAMES, |set| {
        u32::from(set.counter_select().0) | u32::from(set.counter_select_2().0) << 16
    })?;
    let details = t.each(DETAILS.get).next().ok_or(Gap::Missing(DETAILS.get.name))?;
    if t.each(DETAILS.set).next().is_none() {
        let absent = [Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED];
        f.status(STATEMENT, details, &absent);
        return Ok(());
    }
    written(t, f, &DETAILS, &IN_DETAIL, |set| set.counter_select().0.into())?;
    after_details(t, f)
}

/// Checks that Sets of PortRcvErrorDetails changed no counter of PortCounters.
fn after_details(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let before = t.each(COUNTERS.get).filter(answered).last();
    let after = t.each(AFTER_DETAILS).find(answered);
    let (Some(before), Some(after)) = (before, after) else {
        return Err(Gap::Missing(AFTER_DETAILS.name));
    };
    let (was, is): (PortCounters, PortCounters) = (t.answered(before)?, t.answered(after)?);
    for name in NAMES {
        let of = |counters: &PortCounters| PortCounters::field(name).bits(counters.bytes(), 0);
        // A counter that changes by itself never decreases.
        let goes_on = MOVING.contains(&name) || !t.begin.simulated && OF_THE_LINK.contains(&name);
        let holds = of(&is) == of(&was) || goes_on && of(&is) > of(&was);
        f.claim(STATEMENT, format!("{name} after Sets of counters in detail"))
            .by_all([before, after])
            .saw(of(&is))
            .must(format!("{}, as before", of(&was)), holds);
    }
    Ok(())
}

/// Checks that the port counted each packet between the first two reads once, unless the counter is at its largest
/// value. A real adapter may update its counters later, so on hardware the result is only an observation.
fn counts(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let mut reads = t.each(COUNTERS.get).filter(answered);
    let (Some(first), Some(second)) = (reads.next(), reads.next()) else {
        return Ok(());
    };
    let (before, after): (PortCounters, PortCounters) = (t.answered(first)?, t.answered(second)?);
    for name in MOVING {
        let of = |counters: &PortCounters| PortCounters::field(name).bits(counters.bytes(), 0);
        let (was, is) = (of(&before), of(&after));
        if is_absent(t, name) {
            f.observe(
                format!("{name} stays 0: the device does not count it, as the specification allows"),
                &[first, second],
            );
            continue;
        }
        if was == u64::from(u32::MAX) {
            continue;
        }
        if t.begin.simulated {
            let (least, most) = goes_on(t, name, was, (first, second));
            f.claim(STATEMENT, format!("{name} after a request and its response"))
                .by_all([first, second])
                .saw(is)
                .must(format!("{least} to {most}"), (least..=most).contains(&is));
            // All packets are MADs of one length.
            if name.ends_with("Data") && (was..u64::from(u32::MAX)).contains(&is) {
                f.claim(STATEMENT, format!("increase of {name}"))
                    .by_all([first, second])
                    .saw(is - was)
                    .must(
                        format!("a multiple of {DWORDS}, the length of a packet in 4-byte words"),
                        (is - was) % DWORDS == 0,
                    );
            }
        } else if is <= was {
            f.observe(
                format!("{name} went from {was} to {is}, though a request and its response passed in between"),
                &[first, second],
            );
        }
    }
    Ok(())
}

/// Returns whether the device lacks this optional counter of data or packets: it is 0 in all reads.
fn is_absent(t: &Trace, name: &str) -> bool {
    let reads = || t.each(COUNTERS.get).filter(answered);
    let shown = |read: &Exchange| read.answer().map(|answer| answer.mad.attribute::<PortCounters>());
    let is_zero = |counters: PortCounters| PortCounters::field(name).bits(counters.bytes(), 0) == 0;
    MOVING.contains(&name) && reads().count() > 1 && reads().filter_map(shown).all(is_zero)
}

fn answered(exchange: &&Exchange) -> bool {
    exchange
        .answer()
        .is_some_and(|answer| answer.mad.status() == Status::OK)
}

/// Returns the range of a counter of data or packets after two exchanges without other traffic. The port must have
/// counted the exchanges between the two, and may have counted the two themselves.
fn goes_on(t: &Trace, name: &str, was: u64, (from, to): (&Exchange, &Exchange)) -> (u64, u64) {
    let all = t.exchanges.iter();
    let all: Vec<_> = all
        .filter(|of| (from.number..=to.number).contains(&of.number))
        .collect();
    let between = |of: &&&Exchange| of.number != from.number && of.number != to.number && of.answer().is_some();
    let (least, most) = (all.iter().filter(between).count() as u64, all.len() as u64);
    let each = if name.ends_with("Data") { DWORDS } else { 1 };
    let end = end(PortCounters::field(name).width);
    (
        was.saturating_add(least * each).min(end),
        was.saturating_add(most * each).min(end),
    )
}

/// Checks that the Sets leave the counters of another, idle port unchanged. A node may report the counters of the
/// receiving port only.
fn of_another(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let mut reads = t.each(OTHER).filter(answered);
    let (Some(first), Some(last)) = (reads.next(), reads.last()) else {
        return Ok(());
    };
    let (was, is): (PortCounters, PortCounters) = (t.answered(first)?, t.answered(last)?);
    let asked: PortCounters = first.request.attribute();
    f.claim(STATEMENT, "PortSelect of another port")
        .by(first)
        .saw(was.port_select())
        .is(asked.port_select());
    if t.begin.simulated {
        let fields = PortCounters::FIELDS.iter();
        let moved: Vec<_> = fields
            .filter(|field| field.bits(was.bytes(), 0) != field.bits(is.bytes(), 0))
            .map(|field| {
                format!(
                    "{} {} / {}",
                    field.name,
                    field.words(was.bytes()),
                    field.words(is.bytes())
                )
            })
            .collect();
        f.claim(STATEMENT, "counters of another port, after these Sets")
            .by_all([first, last])
            .saw(if moved.is_empty() {
                "as before".into()
            } else {
                moved.join(", ")
            })
            .must("as before", moved.is_empty());
    }
    Ok(())
}

/// Checks the header of a response: versions and reserved fields. The tester has already matched it to its request.
fn header(f: &mut Findings<'_>, exchange: &Exchange) {
    let Some(answer) = exchange.answer() else { return };
    let seen = answer.mad.header();
    let mut wrong = Vec::new();
    if seen.base_version() != 1 || seen.class_version() != 1 {
        wrong.push(format!("versions {} and {}", seen.base_version(), seen.class_version()));
    }
    if !seen.is_zero_in("Reserved144") {
        wrong.push("reserved bytes of the MAD header".into());
    }
    if answer.mad.bytes()[24..64].iter().any(|byte| *byte != 0) {
        wrong.push("reserved bytes before the attribute".into());
    }
    let is_right = wrong.is_empty();
    f.claim(STATEMENT, "header of a response")
        .by(exchange)
        .saw(if is_right {
            "as expected".into()
        } else {
            wrong.join(", ")
        })
        .must("versions 1, and 0 in reserved bits", is_right);
}

/// Checks each Set by the reads before and after it.
fn written<A: Attribute>(
    t: &Trace,
    f: &mut Findings<'_>,
    labels: &Labels<A>,
    names: &[&str],
    select: impl Fn(&A) -> u32,
) -> Result<(), Gap> {
    let done = t.each(labels.set).map(|set| (set, true));
    let refused = t.each(labels.refused).map(|set| (set, false));
    for (set, is_there) in done
        .chain(refused)
        .filter(|(set, _)| set.answer().is_some() && !set.is_busy())
    {
        let image: A = set.request.attribute();
        let before = t
            .each(labels.get)
            .filter(|get| get.number < set.number && answered(get));
        let after = t.each(labels.get).find(|get| get.number > set.number && answered(get));
        let (Some(before), Some(after)) = (before.last(), after) else {
            return Err(Gap::Missing(labels.get.name));
        };
        let status = if is_there { Status::OK } else { Status::INVALID_FIELD };
        f.status(STATEMENT, set, &[status]);
        let (was, is): (A, A) = (t.answered(before)?, t.answered(after)?);
        let port = A::field("PortSelect");
        if is_there {
            f.claim(STATEMENT, "PortSelect")
                .by(after)
                .saw(port.words(is.bytes()))
                .is(port.words(image.bytes()));
        }
        let has_wait = t.each(CLASS).any(|exchange| {
            let class = exchange.answer().map(|answer| answer.mad.attribute::<ClassPortInfo>());
            class.is_some_and(|class| class.capability_mask().0 & XMIT_WAIT != 0)
        });
        for (bit, name) in names.iter().enumerate() {
            if *name == "PortXmitWait" && !has_wait || is_absent(t, name) {
                continue;
            }
            let bits = |of: &A| A::field(name).bits(of.bytes(), 0);
            let is_written = is_there && select(&image) >> bit & 1 == 1;
            let (least, from) = if is_written {
                (bits(&image), set)
            } else {
                (bits(&was), before)
            };
            // A counter stops at its largest value.
            let end = end(A::field(name).width);
            let (least, most) = match t.begin.simulated {
                true if MOVING.contains(name) => goes_on(t, name, least, (from, after)),
                false if MOVING.contains(name) || OF_THE_LINK.contains(name) => {
                    (least, least.saturating_add(MOST).min(end))
                }
                _ => (least, least),
            };
            let words = if is_written {
                "the Set value"
            } else {
                "unchanged, since not selected:"
            };
            let result = match bits(&is) {
                seen if (least..=most).contains(&seen) => Passed::Pass,
                0 if OF_SWITCHES.contains(name) && is_written && !t.begin.simulated => Passed::Pass,
                // Other programs on the device's host and other ports of the fabric also cause traffic.
                seen if seen > most && !t.begin.simulated => Passed::Inconclusive,
                _ => Passed::Fail,
            };
            f.claim(STATEMENT, format!("{name} after a Set"))
                .by_all([before, set, after])
                .saw(bits(&is))
                .comes_to(format!("{words} {least}"), result);
        }
    }
    Ok(())
}
