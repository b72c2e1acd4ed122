//! Rules for receives: they complete in order, and each completion describes the message that filled it.
//!
//! Source: architecture 9.4.1 (SEND), 9.4.3 (WRITE), 10.8.3 and 11.4.2 (receive queue); Linux rxe and rdmavt. The
//! rules depend on packets that were sent, not on packets that must have arrived, so that they hold on every link.

use std::collections::BTreeSet;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Side, VerbsDone, WcStatus};
use verbatim_wire::verbs::WcOpcode;

use super::asking::{Asking, VerbsRule};
use super::qp_trace::{Asked, QpTrace};
use crate::parsed::{Part, RequestKind};
use crate::rule::Rule;
use crate::words::counted;

pub(super) static RULES: &[(Rule, VerbsRule)] = &[
    (Rule::ReceiveOrder, receive_order),
    (Rule::ReceiveFields, receive_fields),
    (Rule::ReceiveLast, receive_last),
];

/// Returns the commands to the device's host during this connection; `None` if one of them resets a queue pair,
/// which discards posted work.
pub(super) fn commands<'t>(qp: &QpTrace<'t>) -> Option<Vec<&'t VerbsDone>> {
    let all = qp.trace.timeline.commands_between(qp.dialogue.places).iter();
    let all: Vec<&VerbsDone> = all.filter(|done| done.side == Side::Dut).collect();
    let is_reset =
        |done: &&VerbsDone| matches!(&done.command, Command::ModifyQp(of) if of.state() == pb::QpState::Reset);
    (!all.iter().any(is_reset)).then_some(all)
}

fn is_refused(done: &VerbsDone) -> bool {
    matches!(done.answer, Some((_, _, Reply::Refused(_), _)))
}

/// Returns the receives of the connection's queue pair, in order.
pub(super) fn posted<'t>(qp: &QpTrace<'t>, commands: &[&'t VerbsDone]) -> Vec<(&'t VerbsDone, &'t pb::PostReceive)> {
    let handle = qp.dialogue.handle;
    let of_it = commands.iter().filter(|done| !is_refused(done));
    of_it
        .filter_map(|done| match &done.command {
            Command::PostReceive(post) if post.qp == handle => Some((*done, post)),
            _ => None,
        })
        .collect()
}

fn receive_order<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    let Some(commands) = commands(qp) else { return };
    let posted = posted(qp, &commands);
    for (at, done) in qp.received.iter().enumerate() {
        let wr_id = posted.get(at).map(|(_, post)| post.wr_id);
        asking.must(
            wr_id == Some(done.completion.wr_id),
            [Evidence::from(done.event)],
            || {
                let expected = wr_id.map_or("no further receive".into(), |wr_id| format!("wr_id {wr_id}"));
                ("receive".into(), expected, done.in_words())
            },
        );
    }
}

/// Message of the peer that fills a receive.
struct Message {
    /// Last PSN, counted from the first PSN that the device expects.
    last: u32,
    place: usize,
    opcode: WcOpcode,
    length: u32,
    imm: Option<u32>,
}

impl Message {
    fn in_words(&self) -> String {
        words(self.opcode, self.length, self.imm)
    }
}

fn words(opcode: WcOpcode, length: u32, imm: Option<u32>) -> String {
    let imm = imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
    format!("{opcode}, {length} bytes{imm}")
}

/// Returns the messages that may fill a receive, in the order of their PSNs.
fn messages(qp: &QpTrace<'_>) -> Vec<Message> {
    let asked: Vec<Asked<'_>> = qp.asked().collect();
    let mut messages: Vec<Message> = asked
        .iter()
        .filter_map(|(last, parsed, frame)| {
            let imm = parsed.packet.imm().map(|imm| imm.data().0);
            let opcode = match (RequestKind::of(parsed.opcode), imm) {
                (RequestKind::Send(Part::Last | Part::Only), _) => WcOpcode::RECV,
                (RequestKind::Write(Part::Last | Part::Only), Some(_)) => WcOpcode::RECV_RDMA_WITH_IMM,
                _ => return None,
            };
            let is_send = opcode == WcOpcode::RECV;
            let mut length = parsed.length;
            let mut part = RequestKind::of(parsed.opcode).part();
            let mut at = *last;
            while matches!(part, Part::Last | Part::Middle) {
                at = at.checked_sub(1)?;
                let before = asked.iter().rev().find(|(offset, parsed, _)| {
                    let is_of_kind = match RequestKind::of(parsed.opcode) {
                        RequestKind::Send(Part::First | Part::Middle) => is_send,
                        RequestKind::Write(Part::First | Part::Middle) => !is_send,
                        _ => false,
                    };
                    *offset == at && is_of_kind
                });
                let (_, before, _) = before?;
                length += before.length;
                part = RequestKind::of(before.opcode).part();
            }
            Some(Message {
                last: *last,
                place: frame.place,
                opcode,
                length,
                imm,
            })
        })
        .collect();
    messages.sort_by_key(|message| message.last);
    messages
}

fn receive_fields<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if commands(qp).is_none() || qp.received.is_empty() {
        return;
    }
    let messages = messages(qp);
    let mut next = 0;
    for done in &qp.received {
        if done.status() != WcStatus::SUCCESS {
            continue;
        }
        let of = done.completion;
        let is_it = |message: &&Message| {
            let is_same = message.opcode.0 == of.opcode && message.length == of.byte_len && message.imm == of.imm;
            message.last >= next && message.place < done.event.place && is_same
        };
        let found = messages.iter().find(is_it);
        asking.must(found.is_some(), [Evidence::from(done.event)], || {
            let mut later = messages.iter().filter(|message| message.last >= next);
            let expected = later.next().map_or("no message".into(), Message::in_words);
            let seen = words(WcOpcode(of.opcode), of.byte_len, of.imm);
            (format!("receive wr_id {}", of.wr_id), expected, seen)
        });
        next = found.map_or(next, |found| found.last + 1);
    }
}

fn receive_last<'t>(qp: &QpTrace<'t>, asking: &mut Asking<'_, 't>) {
    if commands(qp).is_none() || qp.received.is_empty() {
        return;
    }
    let messages = messages(qp);
    let successes = qp.received.iter().filter(|done| done.status() == WcStatus::SUCCESS);
    for (before, done) in successes.enumerate() {
        let ended: BTreeSet<u32> = messages
            .iter()
            .filter(|message| message.place < done.event.place)
            .map(|message| message.last)
            .collect();
        asking.must(ended.len() > before, [Evidence::from(done.event)], || {
            let expected = format!("the last packets of {} before it", counted(before + 1, "message"));
            (
                format!("receive wr_id {}", done.completion.wr_id),
                expected,
                format!("{}", ended.len()),
            )
        });
    }
}
