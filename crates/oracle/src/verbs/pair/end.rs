//! The state of both ends after the requests: completions of receives, states, events and memory.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, HostEvent, OUT_OF_ORDER, Side, VerbsDone, WcStatus};
use verbatim_wire::verbs::{EventKind, WcOpcode};

use super::ends::{End, Pair, Told};
use super::memory::{Images, difference};
use super::talk::{Taken, Talk};
use super::{By, EVENT_WAIT, Report};
use crate::rc::ON_ITS_WAY;
use crate::rule::Rule;

/// Checks the completions of the receives of both ends.
pub(super) fn receives<'t>(pair: &Pair<'t>, talks: &[Talk<'t>], report: &mut Report<'t>) {
    for (at, end) in pair.ends.iter().enumerate() {
        // The requests of the other end take the receives of this end.
        let (own, other) = (&talks[at], &talks[1 - at]);
        if !own.is_known || !other.is_known {
            continue;
        }
        let is_stopped = end.stopped().is_some();
        let refused = other.failed.as_ref().is_some_and(|(_, fate)| fate.is_refusal());
        let is_error = own.failed.is_some() || refused;
        let all: Vec<Told<'t>> = end.completions_of(true).collect();
        let mut told = all.iter().copied();
        for taken in &other.taken {
            if !received(pair, end, (taken, told.next()), report) {
                return;
            }
        }
        let left = end.receives.len().saturating_sub(other.taken.len());
        let rest: Vec<Told<'t>> = told.collect();
        // The receive of a refused request may complete with an error other than the flush error.
        let is_flushed = |told: &Told<'_>| match pair.trace.begin.simulated {
            true => told.status() == WcStatus::WR_FLUSH_ERR,
            false => told.status() != WcStatus::SUCCESS,
        };
        if let Some(wrong) = rest.iter().find(|told| !is_flushed(told) || !is_error && !is_stopped) {
            let expected = if is_error {
                "a flushed receive"
            } else {
                "no completion: no message took the receive"
            };
            let words = (
                format!("{} receive", end.side),
                expected.into(),
                received_in_words(wrong),
            );
            report.broken((Rule::PairReceive, By::Either), words, [Evidence::from(wrong.event)]);
            return;
        }
        // A move to RESET discards the receives.
        if is_error && !end.was_reset() {
            flushed(pair, end, (own, other), (left, &rest), report);
        }
    }
}

fn received<'t>(
    pair: &Pair<'t>,
    end: &End<'t>,
    (taken, told): (&Taken, Option<Told<'t>>),
    report: &mut Report<'t>,
) -> bool {
    let opcode = match taken.is_write {
        true => WcOpcode::RECV_RDMA_WITH_IMM,
        false => WcOpcode::RECV,
    };
    let imm = |imm: Option<u32>| imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
    let expected = match taken.status {
        WcStatus::SUCCESS => {
            let imm = imm(taken.imm);
            format!(
                "wr_id {} with {}: {opcode}, {} bytes{imm}",
                taken.wr_id, taken.status, taken.byte_len
            )
        }
        status => format!("wr_id {} with {status}", taken.wr_id),
    };
    let Some(told) = told else {
        let all = pair.ends.iter().flat_map(|end| &end.completions);
        let last = all.map(|told| told.event.at.latest).max();
        if !last.is_some_and(|last| end.is_alive_after(pair.trace, last.after(EVENT_WAIT))) {
            return false;
        }
        let words = (format!("{} receive", end.side), expected, "no completion".into());
        let posted = end.receives.iter().find(|(_, receive)| receive.wr_id == taken.wr_id);
        let evidence = posted.map(|(done, _)| Evidence::from(*done));
        report.broken((Rule::PairReceive, By::Either), words, evidence);
        return false;
    };
    let of = told.completion;
    let has_fields = of.byte_len == taken.byte_len && of.imm == taken.imm && of.opcode == opcode.0;
    let is_status = match taken.status {
        // For a receive that the device may not write, adapters report either of these statuses.
        WcStatus::LOC_PROT_ERR => [WcStatus::LOC_PROT_ERR, WcStatus::LOC_ACCESS_ERR].contains(&told.status()),
        status => told.status() == status,
    };
    let is_so = of.wr_id == taken.wr_id && is_status && (taken.status != WcStatus::SUCCESS || has_fields);
    let evidence = [Evidence::from(told.event)];
    match is_so {
        true => report.held(Rule::PairReceive, received_in_words(&told), evidence),
        false => {
            let words = (format!("{} receive", end.side), expected, received_in_words(&told));
            report.broken((Rule::PairReceive, By::Either), words, evidence);
        }
    }
    is_so
}

fn received_in_words(told: &Told<'_>) -> String {
    let of = told.completion;
    if told.status() != WcStatus::SUCCESS {
        return told.in_words();
    }
    let imm = of.imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
    format!(
        "{}: {}, {} bytes{imm}",
        told.in_words(),
        WcOpcode(of.opcode),
        of.byte_len
    )
}

/// Checks that all receives that no message took are flushed.
fn flushed<'t>(
    pair: &Pair<'t>,
    end: &End<'t>,
    (own, other): (&Talk<'t>, &Talk<'t>),
    (left, rest): (usize, &[Told<'t>]),
    report: &mut Report<'t>,
) {
    let Some((failed, fate)) = own.failed.as_ref().or(other.failed.as_ref()) else {
        return;
    };
    let (rule, by) = match own.failed.is_some() {
        true => (Rule::PairFlushed, By::End(end.side)),
        // The receive of this end must fail, which shows that this end refused the request.
        false if fate.receive.is_some() => (Rule::PairRefused, By::End(end.side)),
        false => (Rule::PairRefused, By::Either),
    };
    let due = failed.event.at.latest.after(EVENT_WAIT);
    if rest.len() < left && end.is_alive_after(pair.trace, due) {
        let words = (
            format!("{} receives later than {}", end.side, failed.in_words()),
            format!("{left} flushed receives"),
            rest.len().to_string(),
        );
        report.broken((rule, by), words, [Evidence::from(failed.event)]);
    } else if left > 0 && rest.len() == left {
        report.held(
            rule,
            format!("{left} receives flushed"),
            rest.iter().map(|told| Evidence::from(told.event)),
        );
    }
}

/// Checks the state of each end after a failed request, and the events of the end that refused it.
pub(super) fn failed<'t>(pair: &Pair<'t>, talks: &[Talk<'t>], report: &mut Report<'t>) {
    for (asker, talk) in talks.iter().enumerate() {
        let Some((told, fate)) = talk.failed.as_ref().filter(|_| talk.is_known) else {
            continue;
        };
        let (asks, answers) = (&pair.ends[asker], &pair.ends[1 - asker]);
        // A driver may report the state that its host set last.
        let of_state = |by| if pair.trace.begin.simulated { by } else { By::Choice };
        in_error(asks, *told, (Rule::PairFlushed, of_state(By::End(asks.side))), report);
        if !fate.is_refusal() || answers.was_reset() {
            continue;
        }
        let by = match fate.receive {
            Some(_) => By::End(answers.side),
            None => By::Either,
        };
        in_error(answers, *told, (Rule::PairRefused, of_state(by)), report);
        event(pair, answers, (*told, fate.rule), report);
    }
}

fn in_error<'t>(end: &End<'t>, told: Told<'t>, (rule, by): (Rule, By), report: &mut Report<'t>) {
    let due = told.event.at.latest.after(EVENT_WAIT);
    let Some((query, state)) = end.queries.iter().rev().find(|(query, _)| query.asked.earliest >= due) else {
        return;
    };
    let evidence = [Evidence::from(told.event), Evidence::from(*query)];
    let words = |state: pb::QpState| state.as_str_name().replace("QP_STATE_", "");
    if *state == pb::QpState::Err {
        report.held(
            rule,
            format!("{} queue pair in ERR after {}", end.side, told.in_words()),
            evidence,
        );
        return;
    }
    let about = format!("{} queue pair after {}", end.side, told.in_words());
    report.broken((rule, by), (about, "ERR".into(), words(*state)), evidence);
}

/// Checks the event of the end that refused a request.
fn event<'t>(pair: &Pair<'t>, end: &End<'t>, (told, rule): (Told<'t>, Rule), report: &mut Report<'t>) {
    let kind = match rule {
        Rule::PairInvalid => EventKind::QP_REQ_ERR,
        Rule::PairAccess => EventKind::QP_ACCESS_ERR,
        _ => return,
    };
    let is_error = |(_, name): &&(&HostEvent, &str)| *name != EventKind::COMM_EST.to_string();
    let seen: Vec<_> = end.events.iter().filter(is_error).collect();
    let names: Vec<&str> = seen.iter().map(|(_, name)| *name).collect();
    let evidence = [Evidence::from(told.event)].into_iter();
    let evidence = evidence.chain(seen.iter().map(|(event, _)| Evidence::from(*event)));
    let due = told.event.at.latest.after(EVENT_WAIT);
    if names == [kind.to_string().as_str()] {
        report.held(Rule::PairEvent, format!("{} {kind}", end.side), evidence);
    } else if !names.is_empty() || end.is_alive_after(pair.trace, due) {
        let seen = if names.is_empty() {
            "no event".into()
        } else {
            names.join(", ")
        };
        let about = format!("{} event of the refusal that ended {}", end.side, told.in_words());
        // Public sources do not agree on which adapters raise which of these events.
        let by = match pair.trace.begin.simulated {
            true => By::Either,
            false => By::Choice,
        };
        report.broken((Rule::PairEvent, by), (about, kind.to_string(), seen), evidence);
    }
}

/// Compares the memory that the hosts read at the end with the images.
pub(super) fn memory<'t>(pair: &Pair<'t>, talks: &[Talk<'t>], images: &Images, report: &mut Report<'t>) {
    let known = talks.iter().all(|talk| talk.is_known);
    let last = pair.ends.iter().flat_map(|end| &end.completions).map(|told| told.event);
    let Some(last) = last.max_by_key(|event| event.place).filter(|_| known) else {
        return;
    };
    let (first, until) = super::memory::extent(pair);
    for done in pair.trace.timeline.commands_between((last.place.max(first), until)) {
        let read = read_of(done);
        let Some((slice, bytes)) = read.filter(|_| done.asked.earliest >= last.at.latest.after(ON_ITS_WAY)) else {
            continue;
        };
        let is_its = |end: &End<'_>| end.side == done.side && end.memory == Some(slice.memory);
        if !pair.ends.iter().any(is_its) {
            continue;
        }
        let Some(image) = images.slice(done.side, slice) else {
            continue;
        };
        let asker = usize::from(pair.ends[0].sends.is_empty());
        let talk = &talks[asker];
        let is_asker = is_its(&pair.ends[asker]);
        let rule = match is_asker {
            true => Rule::PairReadData,
            // The device sends the messages, or else executes them.
            false if pair.ends[asker].side == Side::Dut => Rule::PairSent,
            false => Rule::PairExecuted,
        };
        let first = pair.ends[asker].sends.first().map(|(first, _)| Evidence::from(*first));
        let evidence: Vec<Evidence<'_>> = first.into_iter().chain([Evidence::from(done)]).collect();
        let Some((at, expected, seen)) = difference(&image, bytes) else {
            let compared = image.iter().flatten().count();
            let words = format!("{compared} of {} bytes as expected", image.len());
            if !talk.of_atomics.is_empty() {
                report.held(Rule::PairAtomic, format!("{}: {words}", done.side), evidence.clone());
            }
            if rule != Rule::PairReadData || talk.of_reads > 0 {
                report.held(rule, format!("{}: {words}", done.side), evidence);
            }
            continue;
        };
        // Where messages overlap, the last byte that the device writes is unknown.
        if pair.trace.parameter(OUT_OF_ORDER) == Some(1) {
            continue;
        }
        let rule = match talk.is_of_atomic(images, (done.side, slice), at) {
            true => Rule::PairAtomic,
            false => rule,
        };
        let words = (
            format!("{} memory, byte {}", done.side, slice.offset as usize + at),
            format!("{expected:#04x}"),
            format!("{seen:#04x}"),
        );
        report.broken((rule, By::Either), words, evidence);
    }
}

fn read_of(done: &VerbsDone) -> Option<(pb::Slice, &[u8])> {
    match (&done.command, &done.answer) {
        (Command::ReadMemory(read), Some((_, _, Reply::Bytes(found), _))) => Some((read.from?, &found.bytes)),
        _ => None,
    }
}
