//! The DUT's responses to the peer's requests, and checks of these responses.

use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Label, Passed, TRIES, Trace, Verbs, VerbsDone, WaitDone};
use verbatim_wire::packet::{Medium, NakCode, Opcode, Packet, Psn, Service, Syndrome, SyndromeKind};

use super::ask::{HALF, is_sequence_nak, nak_of};
use super::checks::{alive, in_words, is_alive_after};
use verbatim_oracle::rc::{Dialogue, Seen};

pub(crate) const ACKNOWLEDGEMENT: &str = "9.7.5.1 acknowledgement";
pub(crate) const MSN: &str = "9.7.7.1 MSN";

/// The peer's packets under one label, and the DUT's responses until the peer sent a packet under another label.
#[derive(Clone, Debug)]
pub(crate) struct Turn<'t> {
    /// The peer's packets of all tries of the message, in order.
    pub(crate) sent: Vec<Seen<'t>>,
    /// The DUT's responses on this connection, in order.
    pub(crate) answers: Vec<Seen<'t>>,
    /// First place of the turn in the record, and the place where the turn ends.
    pub(crate) places: (usize, usize),
}

/// Returns the turn of a label in a dialogue, or `None` if the peer sent nothing under that label.
pub(crate) fn turn<'t>(trace: &'t Trace, dialogue: &Dialogue<'t>, label: Label<Frames>) -> Option<Turn<'t>> {
    let all = trace.frames(label).count();
    let of_us = |seen: &&Seen<'t>| all > 0 && !seen.frame.received && seen.frame.label == label.name;
    let sent: Vec<Seen<'t>> = dialogue.packets.iter().filter(of_us).copied().collect();
    let first = sent.first()?.frame.place;
    let end = dialogue
        .packets
        .iter()
        .find(|seen| !seen.frame.received && seen.frame.place > first && seen.frame.label != label.name)
        .map_or(dialogue.places.1, |next| next.frame.place);
    let answers = dialogue.of_dut_between(first, end);
    let psn = sent.first()?.psn();
    let answers = answers
        .into_iter()
        .filter(|seen| seen.packet.opcode() != Opcode::CNP && !is_request(seen))
        .filter(|seen| seen.psn().since(psn) < HALF || !is_repeated(trace, seen.frame))
        .collect();
    Some(Turn {
        sent,
        answers,
        places: (first, end),
    })
}

/// Returns whether a packet repeats an earlier acknowledgement of the DUT.
///
/// A repeated acknowledgement may report new credits, but acknowledges nothing new.
pub(crate) fn is_repeated(trace: &Trace, frame: &FrameSeen) -> bool {
    let acknowledges = |frame: &FrameSeen| {
        let packet = Packet::parse(Medium::Ethernet, &frame.bytes).ok()?;
        let is_nak = packet.opcode() != Opcode::RC_ACKNOWLEDGE || nak_of(&packet).is_some();
        (frame.received && !is_nak).then(|| {
            (
                packet.bth().dest_qp(),
                packet.bth().psn(),
                packet.aeth().map(|aeth| aeth.msn()),
            )
        })
    };
    let Some(this) = acknowledges(frame) else { return false };
    let mut before = trace
        .timeline
        .frames
        .iter()
        .take_while(|other| other.place < frame.place);
    before.any(|other| acknowledges(other) == Some(this))
}

impl<'t> Turn<'t> {
    /// Returns the PSN of the last packet that the peer sent.
    pub(crate) fn last_sent(&self) -> Psn {
        self.sent.last().map_or(Psn(0), Seen::psn)
    }

    /// Returns how often the peer sent the whole message.
    pub(crate) fn tries(&self) -> usize {
        let last = self.last_sent();
        self.sent.iter().filter(|seen| seen.psn() == last).count()
    }

    /// Returns whether the peer sent the message `TRIES` times, so that lost packets cannot explain silence.
    ///
    /// After an RNR NAK the result is false: the DUT may lack a resource.
    pub(crate) fn asked_again(&self) -> bool {
        self.tries() >= TRIES as usize && !self.answers.iter().any(is_rnr_nak)
    }

    /// Returns the responses to judge: in simulation those to the first try, on hardware those to the last try.
    ///
    /// On hardware the function leaves out sequence NAKs, because they report a lost packet. It leaves out RNR NAKs
    /// too, because a real device may lack a resource for a moment.
    pub(crate) fn counted(&self, trace: &Trace) -> Vec<Seen<'t>> {
        let mut counted = self.counted_unready(trace);
        counted.retain(|seen| trace.begin.simulated || !is_rnr_nak(seen));
        counted
    }

    /// Returns the responses to judge for a message without a posted receive. An RNR NAK is a response to such a
    /// message.
    pub(crate) fn counted_unready(&self, trace: &Trace) -> Vec<Seen<'t>> {
        let last = self.last_sent();
        let ends: Vec<usize> = (0..self.sent.len()).filter(|at| self.sent[*at].psn() == last).collect();
        let place = |at: usize| self.sent.get(at).map(|seen| seen.frame.place);
        let (from, until) = if trace.begin.simulated {
            let second = ends.get(1).and_then(|end| place(*end));
            (self.places.0, second.unwrap_or(self.places.1))
        } else {
            let before = ends.len().checked_sub(2).and_then(|at| place(ends[at] + 1));
            (before.unwrap_or(self.places.0), self.places.1)
        };
        let counts = |seen: &&Seen<'t>| {
            let within = seen.place > from && seen.place < until;
            within && (trace.begin.simulated || !is_sequence_nak(&seen.packet))
        };
        self.answers.iter().filter(counts).copied().collect()
    }

    /// Returns how often a correct response may appear. On hardware the DUT may respond late to an earlier try.
    pub(crate) fn most(&self, trace: &Trace) -> usize {
        if trace.begin.simulated { 1 } else { self.tries() }
    }

    /// Returns whether a packet is a READ response or ATOMIC ACKNOWLEDGE to a request before the message.
    fn is_late(&self, seen: &Seen<'_>) -> bool {
        let is_refusal = nak_in(seen).is_some();
        !is_refusal && !is_ack(seen) && seen.psn().since(self.sent[0].psn()) >= HALF
    }

    /// Returns the payload of the message, each PSN once.
    pub(crate) fn payload(&self) -> Vec<u8> {
        payload_of(self.sent.iter())
    }

    /// Returns the evidence: the last try before the first response, and the responses.
    pub(crate) fn evidence(&self, answers: &[Seen<'t>]) -> Vec<Evidence<'t>> {
        let answered = answers.iter().map(|seen| seen.place).min().unwrap_or(usize::MAX);
        let before = self.sent.iter().rev().find(|seen| seen.place < answered);
        let request = before.into_iter().map(|seen| Evidence::from(seen.frame));
        request.chain(answers.iter().map(|seen| seen.frame.into())).collect()
    }
}

/// Returns the payloads of packets in the order of their first transmission, each PSN once.
pub(crate) fn payload_of<'s, 't: 's>(sent: impl Iterator<Item = &'s Seen<'t>>) -> Vec<u8> {
    let mut psns = Vec::new();
    let mut bytes = Vec::new();
    for seen in sent {
        if !psns.contains(&seen.psn()) {
            psns.push(seen.psn());
            bytes.extend(seen.packet.payload());
        }
    }
    bytes
}

pub(crate) fn is_ack(seen: &Seen<'_>) -> bool {
    seen.packet.opcode() == Opcode::RC_ACKNOWLEDGE && nak_of(&seen.packet).is_none()
}

pub(crate) fn msn_of(seen: &Seen<'_>) -> Option<u32> {
    seen.packet.aeth().map(|aeth| aeth.msn())
}

/// Returns whether the peer had sent a request that uses the response's PSN, before the DUT sent the response.
fn was_sent(dialogue: &Dialogue<'_>, answer: &Seen<'_>) -> bool {
    let before = |seen: &&Seen<'_>| !seen.frame.received && seen.frame.place < answer.frame.place;
    dialogue.packets.iter().filter(before).any(|seen| {
        let psns = match seen.packet.reth() {
            Some(reth) if seen.packet.opcode() == Opcode::RC_READ_REQUEST => {
                reth.dma_len().div_ceil(mtu(dialogue)).max(1)
            }
            _ => 1,
        };
        answer.psn().since(seen.psn()) < psns
    })
}

/// Returns the path MTU in bytes.
pub(crate) fn mtu(dialogue: &Dialogue<'_>) -> u32 {
    let code = dialogue.attributes.path_mtu.and_then(|code| u8::try_from(code).ok());
    code.and_then(|code| verbatim_wire::Mtu(code).bytes()).unwrap_or(256)
}

/// Checks that the DUT acknowledged the message: an ACK of `psn`, no NAK, no ACK of a PSN that was not sent.
///
/// Also checks the MSN of that ACK. Additional ACKs of earlier PSNs conform.
pub(crate) fn acknowledged(
    trace: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (dialogue, turn): (&Dialogue<'_>, &Turn<'_>),
    (psn, msn): (Psn, u32),
) -> bool {
    let mut answers = turn.counted(trace);
    if !trace.begin.simulated {
        // The DUT may still respond to earlier requests.
        answers.retain(|seen| !turn.is_late(seen) || !was_sent(dialogue, seen));
    }
    let wrong = answers.iter().find(|seen| !is_ack(seen) || !was_sent(dialogue, seen));
    let speaks = answers.iter().find(|seen| is_ack(seen) && seen.psn() == psn);
    let result = match (wrong, speaks) {
        (Some(_), _) => Passed::Fail,
        (None, Some(_)) => Passed::Pass,
        // The ACK of a duplicate must acknowledge all newer packets too, so an ACK of an older PSN is wrong.
        (None, None) if psn != turn.last_sent() && !answers.is_empty() => Passed::Fail,
        // A later duplicate may cause the same ACK, so a late ACK counts only if `psn` is the last PSN sent.
        (None, None) => missing(trace, dialogue, turn, turn.asked_again(), |seen| {
            is_ack(seen) && seen.psn() == psn && psn == turn.last_sent()
        }),
    };
    let words = (format!("ACK of PSN {psn}"), in_words(&answers));
    let passed = f.prove(statement, &turn.evidence(&answers), about, words, result);
    if let Some(ack) = speaks {
        counts(f, about, ack, &[msn]);
    }
    passed
}

/// Checks that the MSN of a response is one of the allowed values.
pub(crate) fn counts(f: &mut Findings<'_>, about: &str, seen: &Seen<'_>, allowed: &[u32]) {
    let Some(msn) = msn_of(seen) else { return };
    let result = if allowed.contains(&msn) {
        Passed::Pass
    } else {
        Passed::Fail
    };
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let words = (format!("MSN {}", allowed.join(" or ")), format!("MSN {msn}"));
    f.prove(MSN, &[seen.frame.into()], about, words, result);
}

/// Returns the result for a missing packet, as [`alive`] does, but inconclusive if the packet arrived later.
///
/// By then the tester may have sent other packets, or opened another connection.
pub(crate) fn missing(
    trace: &Trace,
    dialogue: &Dialogue<'_>,
    turn: &Turn<'_>,
    tried_again: bool,
    is_it: impl Fn(&Seen<'_>) -> bool,
) -> Passed {
    let result = alive(trace, turn.places.0, tried_again);
    if result != Passed::Fail || trace.begin.simulated {
        return result;
    }
    let later = trace.timeline.frames_between((turn.places.0, usize::MAX));
    let came = later.iter().filter(|frame| frame.received).any(|frame| {
        let Ok(packet) = Packet::parse(Medium::Ethernet, &frame.bytes) else {
            return false;
        };
        let seen = Seen {
            frame,
            packet,
            place: frame.place,
        };
        packet.bth().dest_qp() == dialogue.own_qpn && is_it(&seen)
    });
    if came { Passed::Inconclusive } else { result }
}

/// Formats opcode, PSN and length of packets, for "expected" and "seen".
fn parts_in_words(parts: &[(Opcode, Psn, usize)]) -> String {
    match parts {
        [] => "no response".into(),
        all => {
            let words = all
                .iter()
                .map(|(opcode, psn, length)| format!("{opcode} PSN {psn}, {length} bytes"));
            words.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Sorts packets by PSN from `first` on, unless their times prove another order.
fn in_order_of_psn(packets: Vec<Seen<'_>>, first: Psn) -> Vec<Seen<'_>> {
    let mut sorted = packets.clone();
    sorted.sort_by_key(|seen| seen.psn().since(first));
    let pairs = || (1..sorted.len()).flat_map(|at| (0..at).map(move |before| (before, at)));
    let is_otherwise = pairs().any(|(before, at)| sorted[at].frame.at.is_before(sorted[before].frame.at));
    if is_otherwise { packets } else { sorted }
}

/// Checks that the DUT answered the READ with this data in the correct packets.
///
/// The MSN may advance when the DUT accepts the READ or with its last response.
pub(crate) fn read_answered(
    trace: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (dialogue, turn): (&Dialogue<'_>, &Turn<'_>),
    (data, msn): (&[u8], u32),
) -> bool {
    let answers = turn.counted(trace);
    // The DUT may still acknowledge an earlier request.
    let earlier = |seen: &&Seen<'_>| is_ack(seen) && seen.psn() != turn.last_sent() && was_sent(dialogue, seen);
    // The DUT may still respond to an earlier READ.
    let late = |seen: &&Seen<'_>| !trace.begin.simulated && turn.is_late(seen) && was_sent(dialogue, seen);
    let of_it = answers.iter().filter(|seen| !earlier(seen) && !late(seen));
    let mut responses: Vec<Seen<'_>> = of_it.copied().collect();
    let size = mtu(dialogue) as usize;
    let count = data.len().div_ceil(size).max(1);
    let expected: Vec<(Opcode, Psn, usize)> = (0..count)
        .map(|at| {
            let opcode = match (at, at + 1 == count) {
                (0, true) => Opcode::RC_READ_RESPONSE_ONLY,
                (0, false) => Opcode::RC_READ_RESPONSE_FIRST,
                (_, true) => Opcode::RC_READ_RESPONSE_LAST,
                (_, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
            };
            let length = data.len().min((at + 1) * size) - at * size;
            (opcode, turn.last_sent().plus(at as u32), length)
        })
        .collect();
    let parts = |of: &[Seen<'_>]| -> Vec<(Opcode, Psn, usize)> {
        let part = |seen: &Seen<'_>| (seen.packet.opcode(), seen.psn(), seen.packet.payload().len());
        of.iter().map(part).collect()
    };
    if turn.most(trace) > 1 && parts(&responses).iter().all(|part| expected.contains(part)) {
        // Late responses to the previous try equal the responses to this try.
        responses.sort_by_key(|seen| seen.psn().since(turn.last_sent()));
        responses.dedup_by_key(|seen| seen.psn());
    }
    if !trace.begin.simulated {
        responses = in_order_of_psn(responses, turn.last_sent());
    }
    let seen = parts(&responses);
    let is_part = |part: &(Opcode, Psn, usize)| expected.contains(part);
    // Packets with overlapping times may be sorted by PSN. If the record has another order, the result is
    // inconclusive.
    let came_so = turn.most(trace) > 1 || responses.is_sorted_by_key(|seen| seen.frame.place);
    let result = if seen == expected && came_so {
        Passed::Pass
    } else if seen == expected {
        Passed::Inconclusive
    } else if seen.iter().all(is_part) && seen.len() < expected.len() {
        // A packet that arrived with another try, or later, is not missing: only the copy of this try was lost or late.
        let came = |part: &&(Opcode, Psn, usize)| {
            let is_it = |seen: &Seen<'_>| parts(core::slice::from_ref(seen)) == [**part];
            missing(trace, dialogue, turn, turn.asked_again(), is_it) != Passed::Fail
        };
        if expected.iter().all(|part| came(&part)) {
            Passed::Inconclusive
        } else {
            Passed::Fail
        }
    } else {
        Passed::Fail
    };
    let words = (parts_in_words(&expected), in_words(&responses));
    let passed = f.prove(statement, &turn.evidence(&responses), about, words, result);
    if passed {
        let carried: Vec<u8> = responses
            .iter()
            .flat_map(|seen| seen.packet.payload().to_vec())
            .collect();
        let words = (
            format!("the {} bytes of the memory", data.len()),
            super::effect::differs(data, &carried),
        );
        let result = if carried == data { Passed::Pass } else { Passed::Fail };
        f.prove(
            statement,
            &turn.evidence(&responses),
            &format!("{about}: data"),
            words,
            result,
        );
        let last = responses.len() - 1;
        for (at, response) in responses.iter().enumerate() {
            let both = [msn.wrapping_sub(1) & 0xFF_FFFF, msn];
            counts(f, about, response, if at == last { &both[1..] } else { &both });
        }
    }
    passed
}

/// Returns the verbs commands with a label within a dialogue.
pub(crate) fn commands_in<'t>(trace: &'t Trace, dialogue: &Dialogue<'_>, label: Label<Verbs>) -> Vec<&'t VerbsDone> {
    trace.commands_between(label, dialogue.places).collect()
}

/// Returns whether a wait was as long as the silence rule requires, with the host alive afterwards.
pub(crate) fn proves_silence(trace: &Trace, wait: &WaitDone) -> bool {
    let lasted = wait.until.since(wait.since);
    let rule =
        verbatim_record::silence::rc_lasts(core::time::Duration::ZERO, verbatim_wire::packet::AckTimeout::OFF, 0);
    lasted >= rule && is_alive_after(trace, wait.place)
}

/// Returns the syndrome of a NAK or RNR NAK in an Acknowledge packet.
pub(crate) fn nak_in(seen: &Seen<'_>) -> Option<Syndrome> {
    (seen.packet.opcode() == Opcode::RC_ACKNOWLEDGE)
        .then(|| nak_of(&seen.packet))
        .flatten()
}

/// Returns whether a packet is a request of the DUT. The DUT's requester is independent of its responder.
pub(crate) fn is_request(seen: &Seen<'_>) -> bool {
    let opcode = seen.packet.opcode();
    opcode.service() == Service::Rc && opcode.is_request()
}

/// Returns whether a packet is a NAK that ends the connection. RNR NAKs and sequence NAKs allow a retry.
pub(crate) fn is_refusal(seen: &Seen<'_>) -> bool {
    let sequence = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    !is_rnr_nak(seen) && nak_in(seen).is_some_and(|nak| nak != sequence)
}

pub(crate) fn is_rnr_nak(seen: &Seen<'_>) -> bool {
    nak_in(seen).is_some_and(|syndrome| matches!(syndrome.kind(), SyndromeKind::RnrNak(_)))
}

#[cfg(test)]
mod tests {
    use verbatim_archives::golden;
    use verbatim_record::{Entry, Time};

    use super::*;

    #[test]
    fn evidence_precedes_the_response() {
        const OLDEST: Label<Frames> = Label::new("WRITE with the oldest PSN of a duplicate");
        let mut entries = golden::entries("c09-psn-regions");
        let place = |entries: &[Entry], number: u32| {
            let is_it = |entry: &Entry| matches!(entry, Entry::Frame(frame) if frame.number == number);
            entries.iter().position(is_it).unwrap()
        };
        let numbers = |entries: &[Entry]| {
            let trace = Trace::new(entries.to_vec()).unwrap();
            let dialogues = crate::transport::rc::dialogues(&trace).unwrap();
            let turn = turn(&trace, &dialogues[0], OLDEST).unwrap();
            let sent: Vec<u32> = turn.sent.iter().map(|seen| seen.frame.number).collect();
            let shown = turn.evidence(&turn.answers);
            let shown = shown.iter().filter_map(|evidence| match evidence {
                Evidence::Frame(frame) => Some(frame.number),
                _ => None,
            });
            (sent, shown.collect::<Vec<u32>>())
        };
        let (sent, shown) = numbers(&entries);
        assert_eq!((sent.len(), shown.len()), (1, 2));
        // Repeat the request after its response.
        let (asked, answered) = (place(&entries, shown[0]), place(&entries, shown[1]));
        let mut again = entries[asked].clone();
        if let Entry::Frame(frame) = &mut again {
            frame.at.earliest = Time(frame.at.earliest.0 + 500_000_000);
            frame.at.latest = frame.at.earliest;
        }
        entries.insert(answered + 1, again);
        let mut number = 0;
        for entry in &mut entries {
            if let Entry::Frame(frame) = entry {
                number += 1;
                frame.number = number;
            }
        }
        let (sent, evidence) = numbers(&entries);
        assert_eq!((sent.len(), evidence), (2, shown));
    }
}
