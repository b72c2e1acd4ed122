//! One connection of a requester test with its posted requests, and recurring checks.

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, VerbsDone, WcStatus};
use verbatim_wire::packet::Opcode;

use super::checks::{alive, completions_in_words, evidence};
use verbatim_oracle::rc::steps;
use verbatim_oracle::rc::{Dialogue, Done, Seen, dialogues};
use verbatim_oracle::rc::{Posted, seen_in_words};

/// One connection of a requester test: its posted requests and its final state.
#[derive(Clone, Debug)]
pub(crate) struct Case<'t> {
    /// Packets and completions of the connection.
    pub(crate) dialogue: Dialogue<'t>,
    /// Requests that the DUT's host accepted, in posting order.
    pub(crate) posted: Vec<Posted<'t>>,
    /// Path MTU in bytes.
    pub(crate) mtu: u32,
    /// Query of the queue pair's state that ends the case.
    pub(crate) state: &'t VerbsDone,
}

/// Returns all connections of a requester test, in order.
///
/// # Errors
/// Returns an error when a connection was not established, or when the procedure stopped within a case.
pub(crate) fn cases(trace: &Trace) -> Result<Vec<Case<'_>>, Gap> {
    let _ = trace.commands(steps::DESTROY);
    dialogues(trace)?
        .into_iter()
        .map(|dialogue| case(trace, dialogue))
        .collect()
}

fn case<'t>(trace: &'t Trace, dialogue: Dialogue<'t>) -> Result<Case<'t>, Gap> {
    let (after, before) = dialogue.places;
    let within = |label| trace.commands_between(label, (after, before));
    let filled = within(steps::FILL).next().ok_or(Gap::Missing(steps::FILL.name))?;
    let Command::WriteMemory(filled) = &filled.command else {
        return Err(Gap::Missing(steps::FILL.name));
    };
    let code = dialogue.attributes.path_mtu.and_then(|code| u8::try_from(code).ok());
    let mtu = code.and_then(|code| verbatim_wire::Mtu(code).bytes()).unwrap_or(256);
    let mut next = dialogue.dut_psn;
    let mut posted = Vec::new();
    for command in within(steps::POST) {
        let Command::PostSend(post) = &command.command else {
            continue;
        };
        if matches!(command.answer, Some((_, _, Reply::Refused(_), _))) {
            continue;
        }
        let request = Posted::new((command, post), next, (local_of(post, &filled.bytes), mtu));
        next = request.last().next();
        posted.push(request);
    }
    let state = within(steps::STATE).next().ok_or(Gap::Missing(steps::STATE.name))?;
    let _ = trace.commands(steps::MEMORY);
    Ok(Case {
        dialogue,
        posted,
        mtu,
        state,
    })
}

/// Returns the local buffer of a request, as the tester filled it.
fn local_of<'t>(post: &pb::PostSend, filled: &'t [u8]) -> Option<&'t [u8]> {
    let local = post.local?;
    filled.get(local.offset as usize..local.offset as usize + local.length as usize)
}

impl<'t> Case<'t> {
    /// Returns the frames that the peer sent under a label during this case.
    pub(crate) fn frames(&self, trace: &'t Trace, label: Label<Frames>) -> Vec<&'t FrameSeen> {
        let (after, before) = self.dialogue.places;
        let all = trace.frames(label);
        all.filter(|frame| frame.place > after && frame.place < before)
            .collect()
    }

    /// Returns the place in the record where the case ends.
    pub(crate) fn end(&self) -> usize {
        self.state.place
    }

    /// Returns the place of the first posted request, or of the connection's start if the DUT posted none.
    pub(crate) fn start(&self) -> usize {
        self.posted
            .first()
            .map_or(self.dialogue.places.0, |posted| posted.command.place)
    }

    /// Returns the DUT's packets between two places, without congestion notification packets (CNPs).
    pub(crate) fn sent(&self, after: usize, before: usize) -> Vec<Seen<'t>> {
        let mut sent = self.dialogue.of_dut_between(after, before);
        sent.retain(|seen| seen.packet.opcode() != Opcode::CNP);
        sent
    }

    /// Checks that a packet of the DUT matches the posted request that owns its PSN.
    pub(crate) fn is_posted(&self, f: &mut Findings<'_>, statement: &str, about: &str, seen: &Seen<'_>) -> bool {
        let (posted, expected, found) = self.compared(seen);
        let about = posted.map_or_else(|| about.into(), |posted| format!("{about}, {}", posted.in_words()));
        let result = if expected == found { Passed::Pass } else { Passed::Fail };
        f.prove(statement, &[seen.frame.into()], &about, (expected, found), result)
    }

    /// Returns the request that owns a packet's PSN, with the expected packet and the observed packet in words.
    pub(crate) fn compared(&self, seen: &Seen<'_>) -> (Option<&Posted<'t>>, String, String) {
        let psn = seen.psn();
        let payload = seen.packet.payload();
        let of = self.posted.iter().find(|posted| psn.since(posted.first) < posted.psns);
        let Some(posted) = of.filter(|posted| posted.command.place < seen.place) else {
            return (None, "a PSN of a posted request".into(), seen.packet.to_string());
        };
        let (words, length, data) = posted.packet(psn.since(posted.first), self.mtu);
        let bytes = if data.is_none_or(|data| data == payload) {
            "as posted"
        } else {
            "with other contents"
        };
        let expected = format!("{words}, {length} bytes as posted");
        let found = format!("{}, {} bytes {bytes}", seen_in_words(&seen.packet), payload.len());
        (Some(posted), expected, found)
    }

    /// Checks that exactly these requests completed between two places, in this order, each with an allowed status.
    ///
    /// An expected element holds the wr_id, counted from 1, and the allowed statuses. [`alive`] decides the result for
    /// missing completions.
    pub(crate) fn completes(
        &self,
        trace: &Trace,
        f: &mut Findings<'_>,
        (statement, about): (&str, &str),
        (after, before): (usize, usize),
        (expected, asked_again): (&[(u64, &[WcStatus])], bool),
    ) -> bool {
        let done = self.dialogue.completions_between(after, before);
        let is_one = |(done, (wr_id, allowed)): (&Done<'_>, &(u64, &[WcStatus]))| {
            done.completion.wr_id == *wr_id && allowed.contains(&done.status())
        };
        let result = if done.len() > expected.len() || !done.iter().zip(expected).all(is_one) {
            Passed::Fail
        } else if done.len() < expected.len() {
            alive(trace, before.min(self.end()), asked_again)
        } else {
            Passed::Pass
        };
        let wanted: Vec<String> = expected
            .iter()
            .map(|(wr_id, allowed)| {
                let statuses: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                format!("wr_id {wr_id} with {}", statuses.join(" or "))
            })
            .collect();
        let wanted = if wanted.is_empty() {
            "none".into()
        } else {
            wanted.join(", ")
        };
        f.prove(
            statement,
            &evidence(&done),
            about,
            (wanted, completions_in_words(&done)),
            result,
        )
    }

    /// Checks that the queue pair was in this state at the end of the case.
    pub(crate) fn is_in(&self, f: &mut Findings<'_>, statement: &str, about: &str, state: pb::QpState) -> bool {
        let words = |state: pb::QpState| state.as_str_name().replace("QP_STATE_", "");
        let (seen, result) = match &self.state.answer {
            Some((_, _, Reply::Status(status), _)) if status.state() == state => (words(state), Passed::Pass),
            Some((_, _, Reply::Status(status), _)) => (words(status.state()), Passed::Fail),
            _ => ("no state".into(), Passed::Inconclusive),
        };
        let about = format!("{about}: state of the queue pair");
        f.prove(statement, &[self.state.into()], &about, (words(state), seen), result)
    }
}

/// Returns whether the peer sent its frames `TRIES` times, so that a packet loss cannot explain a missing effect.
pub(crate) fn asked_again(again: &[&FrameSeen], frames: usize) -> bool {
    again.len() >= (verbatim_record::TRIES as usize - 1) * frames.max(1)
}
