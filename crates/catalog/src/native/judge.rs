//! What the packets came to, against what a conforming port makes of them.

use std::collections::BTreeMap;

use verbatim_record::{Evidence, Exchange, Findings, FrameSeen, Gap, Label, Passed, Trace, WaitDone, silence};
use verbatim_wire::{
    Attribute, Medium, PKey, PKeyTable, PortCounters, PortInfo, PortRcvErrorDetails, RespTime, Status,
};

use super::wire::{asks, is_marked, mad_in};
use super::{BLOCK, COUNTERS, DETAILS, NODE, P_KEYS, PORT, Rule, SILENCE, is_answer};
use crate::link::{Action, Certainty, Check, Counter, Judgement, Kind, Port, Received, check, explain};

/// Which packets a test is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The rules, each with packets of its own.
    pub(crate) rules: &'static [Rule],
    /// Why the test does not apply when no packet could be sent.
    pub(crate) without: &'static str,
}

/// Judges all packets of a test, each by the rule that it probes.
pub(crate) fn judge(t: &Trace, f: &mut Findings<'_>, reading: Reading) -> Result<(), Gap> {
    t.exchange(NODE)?;
    let mut any = false;
    for rule in reading.rules {
        for frame in t.frames(rule.label) {
            any = true;
            packet(t, f, rule.statement, frame)?;
        }
    }
    // Labels that a port without data lanes never comes to.
    t.waits(SILENCE).for_each(drop);
    t.each(DETAILS).for_each(drop);
    t.each(COUNTERS).for_each(drop);
    t.each(P_KEYS).for_each(drop);
    if !any {
        t.each(PORT).for_each(drop);
        f.not_applicable = Some(reading.without.into());
    }
    Ok(())
}

/// Judges that nothing came in but answers: no port sends on what ends there.
pub(crate) fn strays(t: &Trace, f: &mut Findings<'_>, statement: &str) {
    let requests: Vec<_> = t.timeline.frames.iter().filter(|frame| !frame.received).collect();
    let requests: Vec<_> = requests.iter().filter_map(|frame| mad_in(&frame.bytes)).collect();
    let is_known = |frame: &&FrameSeen| requests.iter().any(|request| is_answer(request, &frame.bytes));
    let came = t.timeline.frames.iter().filter(|frame| frame.received);
    let strays: Vec<Evidence<'_>> = came.filter(|frame| !is_known(frame)).map(Evidence::from).collect();
    let result = if strays.is_empty() { Passed::Pass } else { Passed::Fail };
    let words = ("answers alone", format!("{} other packets", strays.len()));
    f.prove(statement, &strays, "packets that the port sends", words, result);
}

/// Demands that each Set of the port took, as the next read shows it.
pub(crate) fn took(
    t: &Trace,
    label: Label<PortInfo>,
    what: &str,
    holds: impl Fn(&PortInfo, &PortInfo) -> bool,
) -> Result<(), Gap> {
    for set in t.each(label) {
        let next = t.each(PORT).find(|read| read.number > set.number && is_success(read));
        let shown: PortInfo = t.answered(next.ok_or(Gap::Missing(PORT.name))?)?;
        t.require(label, what, holds(&set.request.attribute(), &shown))?;
    }
    Ok(())
}

/// The port and its counters at one time.
struct Shown {
    port: PortInfo,
    counters: PortCounters,
    details: Option<PortRcvErrorDetails>,
}

/// Judges one packet.
fn packet(t: &Trace, f: &mut Findings<'_>, statement: &str, frame: &FrameSeen) -> Result<(), Gap> {
    let before = Shown {
        port: last(t, PORT, frame)?,
        counters: last(t, COUNTERS, frame)?,
        details: last(t, DETAILS, frame).ok(),
    };
    let port = port(&before.port, p_keys(t, frame));
    let received = Received {
        medium: Medium::InfiniBand,
        bytes: &frame.bytes,
        delimiter: frame.delimiter,
        is_whole: true,
    };
    let judgement = check(&port, &received);
    let why = match judgement.first {
        Some((first, _)) => format!("{first}: {}", explain(first, &port, &received)),
        None => "nothing is wrong with it".into(),
    };
    answered(t, f, (statement, frame), &judgement, &why);
    let next = t
        .timeline
        .frames
        .iter()
        .skip(frame.number as usize)
        .find(|next| !next.received);
    if let (Ok(port), Ok(counters)) = (first(t, PORT, frame, next), first(t, COUNTERS, frame, next)) {
        let details = first(t, DETAILS, frame, next).ok();
        let after = Shown {
            port,
            counters,
            details,
        };
        counted(f, (statement, frame), &judgement, &why, (&before, &after));
    }
    Ok(())
}

/// The last answer under a label before a frame left.
fn last<A: Attribute>(t: &Trace, label: Label<A>, frame: &FrameSeen) -> Result<A, Gap> {
    let is_before = |exchange: &&Exchange| exchange.sent.latest <= frame.at.earliest && is_success(exchange);
    let found = t.each(label).filter(is_before).last();
    t.answered(found.ok_or(Gap::Missing(label.name))?)
}

/// The first answer under a label after a frame left, and before the next one did.
fn first<A: Attribute>(t: &Trace, label: Label<A>, frame: &FrameSeen, next: Option<&FrameSeen>) -> Result<A, Gap> {
    let is_after = |exchange: &&Exchange| exchange.sent.earliest > frame.at.latest && is_success(exchange);
    let found = t.each(label).find(is_after);
    let in_time = found.filter(|exchange| next.is_none_or(|next| exchange.sent.latest < next.at.earliest));
    t.answered(in_time.ok_or(Gap::Missing(label.name))?)
}

fn is_success(exchange: &Exchange) -> bool {
    exchange
        .answer()
        .is_some_and(|answer| answer.mad.status() == Status::OK)
}

fn p_keys(t: &Trace, frame: &FrameSeen) -> Vec<PKey> {
    let mut blocks: BTreeMap<u32, PKeyTable> = BTreeMap::new();
    for exchange in t
        .each(P_KEYS)
        .filter(|exchange| exchange.sent.latest <= frame.at.earliest)
    {
        if let Ok(table) = t.answered(exchange) {
            blocks.insert(exchange.request.modifier(), table);
        }
    }
    let entries = blocks
        .values()
        .flat_map(|table| (0..BLOCK).map(|entry| table.p_key(entry)));
    entries.collect()
}

fn port(info: &PortInfo, p_keys: Vec<PKey>) -> Port {
    Port {
        kind: Kind::Ca,
        is_destination: true,
        lid: Some(info.lid()),
        lmc: info.lmc(),
        mtu_cap: info.mtu_cap(),
        vls: info.operational_vls().data_vls().unwrap_or(15),
        state: info.port_state(),
        p_keys: Some(p_keys),
    }
}

/// A packet that is discarded stays unanswered; a request that is accepted is answered.
fn answered(t: &Trace, f: &mut Findings<'_>, (statement, frame): (&str, &FrameSeen), judgement: &Judgement, why: &str) {
    let Some(request) = mad_in(&frame.bytes) else { return };
    let mut came = t.timeline.frames.iter().skip(frame.number as usize);
    let answer = came.find(|other| other.received && is_answer(&request, &other.bytes));
    let mut evidence = vec![Evidence::from(frame)];
    evidence.extend(answer.map(Evidence::from));
    let seen = if answer.is_some() { "an answer" } else { "no answer" };
    if !judgement.may_accept() {
        let wait = t.waits(SILENCE).find(|wait| wait.place > frame.place);
        let result = match (answer, wait) {
            (Some(_), _) => Passed::Fail,
            (None, Some(wait)) if is_waited_out(t, frame, wait) => Passed::Pass,
            (None, _) => Passed::Inconclusive,
        };
        evidence.extend(wait.filter(|_| answer.is_none()).map(Evidence::from));
        let about = format!("a packet that is discarded ({why})");
        f.prove(statement, &evidence, &about, ("no answer", seen), result);
    } else if judgement.action == Action::Accept && asks(&frame.bytes) {
        let is_alive = t
            .exchanges
            .iter()
            .any(|later| later.sent.earliest > frame.at.latest && is_success(later));
        let result = match answer {
            Some(_) => Passed::Pass,
            // On a native link of the tester's own nothing is lost.
            None if is_alive => Passed::Fail,
            None => Passed::Inconclusive,
        };
        f.prove(statement, &evidence, "a sound packet", ("an answer", seen), result);
    }
}

/// Whether the wait after a packet was as long as the rule of silence asks.
fn is_waited_out(t: &Trace, frame: &FrameSeen, wait: &WaitDone) -> bool {
    let Ok(port) = last(t, PORT, frame) else { return false };
    let subnet = t.begin.subnet_timeout.unwrap_or(port.subnet_timeout());
    let needed = silence::lasts(RespTime(port.resp_time_value().0), subnet, t.begin.host_bound);
    wait.until.since(frame.at.latest) >= needed
}

/// What a counter that may not have moved, or had to, shows.
fn counted(
    f: &mut Findings<'_>,
    (statement, frame): (&str, &FrameSeen),
    judgement: &Judgement,
    why: &str,
    (before, after): (&Shown, &Shown),
) {
    let Some(counts) = expected(judgement, frame) else {
        return;
    };
    let mut shown = vec![
        (
            Counter::PortRcvErrors.name(),
            before.counters.port_rcv_errors(),
            after.counters.port_rcv_errors(),
        ),
        (
            Counter::PortRcvRemotePhysicalErrors.name(),
            before.counters.port_rcv_remote_physical_errors(),
            after.counters.port_rcv_remote_physical_errors(),
        ),
        (
            Counter::PKeyViolations.name(),
            before.port.p_key_violations(),
            after.port.p_key_violations(),
        ),
    ];
    if let (Some(before), Some(after)) = (&before.details, &after.details) {
        shown.extend([
            (
                "PortLocalPhysicalErrors",
                before.port_local_physical_errors(),
                after.port_local_physical_errors(),
            ),
            (
                "PortMalformedPktErrors",
                before.port_malformed_pkt_errors(),
                after.port_malformed_pkt_errors(),
            ),
        ]);
    }
    for (name, before, after) in shown {
        let wanted = before.saturating_add(u16::from(counts.contains(&name)));
        let result = if after == wanted { Passed::Pass } else { Passed::Fail };
        let about = format!("{name} ({why})");
        let words = (wanted.to_string(), after.to_string());
        f.prove(statement, &[Evidence::from(frame)], &about, words, result);
    }
}

/// The counters that count a packet; `None` when that is not laid down, or when it is not certain which check ranks first.
fn expected(judgement: &Judgement, frame: &FrameSeen) -> Option<Vec<&'static str>> {
    if judgement.action == Action::Accept {
        return Some(Vec::new());
    }
    let (first, certainty) = judgement.first?;
    // Whoever marks a packet spoils its VCRC: if that ranked first, no packet would ever be counted as marked.
    let is_marked = frame
        .delimiter
        .is_some_and(|delimiter| is_marked(&frame.bytes, delimiter));
    let alone = judgement
        .failed
        .without(crate::link::Checks::of(&[Check::Delimiter, Check::Vcrc]));
    let is_settled = certainty == Certainty::Certain || (is_marked && alone.is_empty());
    let counter = judgement.counter.filter(|_| is_settled)?;
    let detail = match first {
        Check::Delimiter if counter == Counter::PortRcvErrors => Some("PortLocalPhysicalErrors"),
        Check::Delimiter => None,
        other => other.detail(),
    };
    let mut counts = vec![counter.name()];
    counts.extend(detail.filter(|_| counter == Counter::PortRcvErrors));
    Some(counts)
}
