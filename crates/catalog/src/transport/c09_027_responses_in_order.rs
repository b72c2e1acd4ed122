//! `c09-027-atomic-after-reads` (C09_027_05) and its siblings: responses leave in the order of their requests.
//!
//! The peer sends two READs of three packets and, at once, a request that could be answered sooner: a CmpSwap, a SEND, a
//! WRITE; and a FetchAdd before two READs. The PSNs of all responses, as they arrive, never go back.
//! Reading: by PSN alone, as the public page has it; what the responses carry is judged in `c09-060-*-responder`. An ACK
//! of a SEND or WRITE cannot speak for a READ before it whose responses have not all come.
//! On hardware two responses are out of order only where their spans do not overlap: where they do, the tester's adapter may
//! have swapped them, which is INCONCLUSIVE.
//! False alarm: a network that reorders packets between the DUT and the tester. The path is one link.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn};

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::{self, Turn};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Dialogue, Seen};

const ORDER: &str = "C9-27";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const REQUESTS: Label<Frames> = Label::new("requests, all at once");
const AFTER: Label<Wait> = Label::new("after the requests");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Bytes of the memory that are filled.
const FILLED: u32 = 32 * 1024;
/// Where the requests behind the READs go.
const TARGET: u32 = 48 * 1024;
const LENGTH: u32 = 64;

const READING: &str = "Requests sent at once; the PSNs of the responses never go back, as they arrive. Complete when a \
    response to every PSN that must have one is there; tried on three connections where it is not.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    AtomicAfterReads,
    SendAfterReads,
    WriteAfterReads,
    ReadsAfterAtomic,
}

macro_rules! tests {
    ($($name:ident $kind:ident $id:literal $aliases:expr, $about:literal)*) => {
        $(
            #[doc = $about]
            pub(super) static $name: Test = Test {
                id: $id,
                aliases: $aliases,
                revision: 1,
                about: $about,
                reading: READING,
                statements: &[ORDER, rc::GENERATION, rc::ICRC],
                needs: &[Need::Packets],
                parameters: &[],
                procedure: |t| procedure(t, Kind::$kind),
                judge: |t, f| judge(t, f, Kind::$kind),
            };
        )*
    };
}
tests! {
    ATOMIC_AFTER_READS AtomicAfterReads "c09-027-atomic-after-reads" &["C09_027_05"],
        "An atomic behind READs is answered after all their responses."
    SEND_AFTER_READS SendAfterReads "c09-027-send-after-reads" &[],
        "A SEND behind READs is acknowledged after all their responses."
    WRITE_AFTER_READS WriteAfterReads "c09-027-write-after-reads" &[],
        "A WRITE behind READs is acknowledged after all their responses."
    READS_AFTER_ATOMIC ReadsAfterAtomic "c09-027-reads-after-atomic" &[],
        "READs behind an atomic are answered after it, and one after the other."
}

impl Kind {
    fn has_atomic(self) -> bool {
        matches!(self, Self::AtomicAfterReads | Self::ReadsAfterAtomic)
    }

    /// How many READs there are: no more than the device answers at a time, beside the atomic.
    fn reads(self, max_dest_rd_atomic: u32) -> u32 {
        max_dest_rd_atomic.saturating_sub(self.has_atomic().into()).min(2)
    }

    fn messages(self, channel: &Channel, payload: &[u8]) -> Vec<Message> {
        let mut psn = channel.own_psn;
        let mut messages = Vec::new();
        let mut add = |make: &dyn Fn(Psn) -> Message| {
            let message = make(psn);
            psn = message.next();
            messages.push(message);
        };
        let length = 3 * ask::mtu(channel);
        if self == Self::ReadsAfterAtomic {
            add(&|psn| Message::fetch_add(channel, psn, TARGET, 1));
        }
        for at in 0..self.reads(channel.max_dest_rd_atomic.into()) {
            add(&|psn| Message::read(channel, psn, at * 4096, length));
        }
        match self {
            Self::AtomicAfterReads => add(&|psn| Message::compare_swap(channel, psn, TARGET, (0, 1))),
            Self::SendAfterReads => add(&|psn| Message::send(channel, psn, payload)),
            Self::WriteAfterReads => add(&|psn| Message::write(channel, psn, TARGET, payload)),
            Self::ReadsAfterAtomic => {}
        }
        messages
    }
}

fn procedure(t: &mut Tester<'_>, kind: Kind) -> Step {
    let mut last = None;
    for _ in 0..TRIES {
        let channel = t.open_channel(&ChannelOptions::default())?;
        last = Some(channel);
        if kind.reads(channel.max_dest_rd_atomic.into()) == 0 {
            break;
        }
        let bytes = ask::random_bytes(t, "memory", FILLED);
        ask::fill(t, &channel, FILL, 0, bytes)?;
        if kind == Kind::SendAfterReads {
            ask::post_receive(t, &channel, RECEIVE, 1, (TARGET, LENGTH))?;
        }
        let payload = ask::random_bytes(t, "payload", LENGTH);
        let messages = kind.messages(&channel, &payload);
        let mut wanted: Vec<Psn> = Vec::new();
        for message in &messages {
            wanted.extend((0..message.last().since(message.first()) + 1).map(|at| message.first().plus(at)));
            ask::put(t, &channel, REQUESTS, message)?;
        }
        let until = t.now().after(ask::SOON);
        while !wanted.is_empty()
            && let Some(received) = t.next_packet(until)?
        {
            let packet = received.packet();
            if packet.bth().dest_qp() == channel.own_qpn {
                wanted.retain(|psn| *psn != packet.bth().psn());
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    if let Some(channel) = last {
        ask::query(t, &channel, STATE)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, kind: Kind) -> Result<(), Gap> {
    let _ = (t.commands(FILL).count(), t.commands(RECEIVE).count());
    if kind.has_atomic() && !has_atomics(t) {
        f.not_applicable = Some("the device says that it has no atomics".into());
        return Ok(());
    }
    let all = rc::dialogues(t)?;
    let (_, _) = (t.waited(AFTER)?, t.command(STATE)?);
    let at_a_time = all.first().and_then(|dialogue| dialogue.attributes.max_dest_rd_atomic);
    if at_a_time.is_some_and(|most| kind.reads(most) == 0) {
        f.not_applicable = Some("the device answers one READ or atomic at a time, as it says".into());
        return Ok(());
    }
    let tried: Vec<&Dialogue<'_>> = all
        .iter()
        .filter(|dialogue| answer::turn(t, dialogue, REQUESTS).is_some())
        .collect();
    let complete = if t.begin.simulated { tried.first() } else { tried.last() };
    let complete = complete.ok_or(Gap::Missing(REQUESTS.name))?;
    let tried_again = tried.len() >= TRIES as usize && one_is_never_answered(t, &tried);
    for dialogue in &tried {
        rc::sound_packets(f, dialogue);
        in_order(t, f, dialogue, (core::ptr::eq(*dialogue, *complete), tried_again));
    }
    Ok(())
}

/// Whether one and the same response is missing on every connection: else packets of each were lost. A sequence NAK says
/// that a request was, and after an RNR NAK nothing must be answered.
fn one_is_never_answered(t: &Trace, tried: &[&Dialogue<'_>]) -> bool {
    let mut missing: Option<Vec<u32>> = None;
    for dialogue in tried {
        let Some(turn) = answer::turn(t, dialogue, REQUESTS) else {
            return false;
        };
        let excused = |seen: &Seen<'_>| ask::is_sequence_nak(&seen.packet) || answer::is_rnr_nak(seen);
        if turn.answers.iter().any(excused) {
            return false;
        }
        let (expected, (_, offsets)) = (expected(dialogue, &turn), responses(&turn));
        let here = |offset: &u32| !offsets.contains(offset);
        missing = Some(match missing {
            Some(before) => before.into_iter().filter(here).collect(),
            None => expected.into_iter().filter(here).collect(),
        });
    }
    missing.is_some_and(|missing| !missing.is_empty())
}

/// The responses as they arrived, and how far their PSNs lie behind the first request.
fn responses<'t>(turn: &Turn<'t>) -> (Vec<Seen<'t>>, Vec<u32>) {
    let first = turn.sent[0].psn();
    let is_response = |seen: &&Seen<'_>| answer::nak_in(seen).is_none();
    let mut responses: Vec<Seen<'_>> = turn.answers.iter().filter(is_response).copied().collect();
    responses.sort_by_key(|seen| seen.frame.place);
    let offsets = responses.iter().map(|seen| seen.psn().since(first)).collect();
    (responses, offsets)
}

/// How far the PSNs that must have a response lie behind the first request.
fn expected(dialogue: &Dialogue<'_>, turn: &Turn<'_>) -> Vec<u32> {
    let first = turn.sent[0].psn();
    let mut expected: Vec<u32> = Vec::new();
    for seen in &turn.sent {
        let psns = match seen.packet.reth() {
            Some(reth) if seen.packet.payload().is_empty() => {
                reth.dma_len().div_ceil(answer::mtu(dialogue)).clamp(1, 16)
            }
            _ => 1,
        };
        let from = seen.psn().since(first);
        expected.extend(from..from + psns);
    }
    expected
}

/// Whether a response came in before one of an earlier PSN, and then whether it surely was sent before it.
fn goes_back(t: &Trace, responses: &[Seen<'_>], offsets: &[u32]) -> Option<bool> {
    let pairs = (1..responses.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let back = pairs.filter(|(earlier, later)| offsets[*later] < offsets[*earlier]);
    back.map(|(earlier, later)| t.begin.simulated || responses[earlier].frame.at.is_before(responses[later].frame.at))
        .reduce(|one, other| one || other)
}

/// The PSNs never go back; where it counts, there is a response to each.
fn in_order(t: &Trace, f: &mut Findings<'_>, dialogue: &Dialogue<'_>, (counts, tried_again): (bool, bool)) {
    let Some(turn) = answer::turn(t, dialogue, REQUESTS) else {
        return;
    };
    let first = turn.sent[0].psn();
    let (expected, (responses, offsets)) = (expected(dialogue, &turn), responses(&turn));
    let back = goes_back(t, &responses, &offsets);
    let is_complete = expected.iter().all(|offset| offsets.contains(offset));
    let result = match (back, is_complete, counts) {
        (Some(true), ..) => Passed::Fail,
        (Some(false), ..) => Passed::Inconclusive,
        (None, true, _) => Passed::Pass,
        (None, false, true) => rc::alive(t, turn.places.0, tried_again),
        // Something was lost, and it was tried again.
        (None, false, false) => return,
    };
    let evidence: Vec<Evidence<'_>> = responses.iter().map(|seen| seen.frame.into()).collect();
    let list = |of: &[u32]| {
        of.iter()
            .map(|offset| first.plus(*offset).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let words = (
        format!("responses of PSN {}", list(&expected)),
        format!("PSN {}", list(&offsets)),
    );
    f.prove(ORDER, &evidence, "responses as they arrived", words, result);
}
