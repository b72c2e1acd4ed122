//! What the DUT answered to the peer's requests, and whether it is right.

use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Label, Passed, TRIES, Trace, Verbs, VerbsDone, WaitDone};
use verbatim_wire::packet::{Medium, NakCode, Opcode, Packet, Psn, Service, Syndrome, SyndromeKind};

use super::ask::{HALF, is_sequence_nak, nak_of};
use super::checks::{alive, in_words, is_alive_after};
use verbatim_oracle::rc::{Dialogue, Seen};

/// The statement on ACKs and responses.
pub(crate) const ACKNOWLEDGEMENT: &str = "9.7.5.1 acknowledgement";
/// The statement on the MSN.
pub(crate) const MSN: &str = "9.7.7.1 MSN";

/// What was sent under one label, and what the DUT sent from then on until something else was sent.
#[derive(Clone, Debug)]
pub(crate) struct Turn<'t> {
    /// The peer's packets; each try of the message, in order.
    pub(crate) sent: Vec<Seen<'t>>,
    /// The DUT's packets on this connection, in order.
    pub(crate) answers: Vec<Seen<'t>>,
    /// The first and the last place of the turn in the record.
    pub(crate) places: (usize, usize),
}

/// The turn of a label in a dialogue; none when nothing was sent under it there.
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

/// Whether it is an acknowledgement of what the DUT had acknowledged before: whoever sends one again, be it for its credits,
/// says nothing else.
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
    /// PSN of the last packet that was sent.
    pub(crate) fn last_sent(&self) -> Psn {
        self.sent.last().map_or(Psn(0), Seen::psn)
    }

    /// How often the message was sent.
    pub(crate) fn tries(&self) -> usize {
        let last = self.last_sent();
        self.sent.iter().filter(|seen| seen.psn() == last).count()
    }

    /// Whether it was sent as often as it takes to tell silence from a lost packet. A try that got an RNR NAK, or came
    /// after one, does not tell: the DUT may say by it that it lacks a resource.
    pub(crate) fn asked_again(&self) -> bool {
        self.tries() >= TRIES as usize && !self.answers.iter().any(is_rnr_nak)
    }

    /// The answers that count: those to the first try where nothing can be lost, else those to the last one. A sequence NAK
    /// says that a packet was lost on the way, so it is an answer only where none can be. An RNR NAK says that a resource was
    /// lacking for a moment: an adapter model never lacks one, a device may.
    pub(crate) fn counted(&self, trace: &Trace) -> Vec<Seen<'t>> {
        let mut counted = self.counted_unready(trace);
        counted.retain(|seen| trace.begin.simulated || !is_rnr_nak(seen));
        counted
    }

    /// The same of a message that lacks a receive: an RNR NAK is its answer.
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

    /// How often a right answer may be there: a try before the last may have been answered late.
    pub(crate) fn most(&self, trace: &Trace) -> usize {
        if trace.begin.simulated { 1 } else { self.tries() }
    }

    /// Whether it is a response, and no refusal, to what lies before the message.
    fn is_late(&self, seen: &Seen<'_>) -> bool {
        let is_refusal = nak_in(seen).is_some();
        !is_refusal && !is_ack(seen) && seen.psn().since(self.sent[0].psn()) >= HALF
    }

    /// What the message carries: the payloads of its packets, each once.
    pub(crate) fn payload(&self) -> Vec<u8> {
        payload_of(self.sent.iter())
    }

    /// Request and answers, for evidence: the last try before the first answer.
    pub(crate) fn evidence(&self, answers: &[Seen<'t>]) -> Vec<Evidence<'t>> {
        let answered = answers.iter().map(|seen| seen.place).min().unwrap_or(usize::MAX);
        let before = self.sent.iter().rev().find(|seen| seen.place < answered);
        let request = before.into_iter().map(|seen| Evidence::from(seen.frame));
        request.chain(answers.iter().map(|seen| seen.frame.into())).collect()
    }
}

/// The payloads of packets in the order of their first sending, each PSN once.
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

/// Whether it is an ACK.
pub(crate) fn is_ack(seen: &Seen<'_>) -> bool {
    seen.packet.opcode() == Opcode::RC_ACKNOWLEDGE && nak_of(&seen.packet).is_none()
}

/// The MSN that a packet carries.
pub(crate) fn msn_of(seen: &Seen<'_>) -> Option<u32> {
    seen.packet.aeth().map(|aeth| aeth.msn())
}

/// Whether a packet with this PSN had been sent before the answer: an ACK can speak for nothing else.
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

/// Bytes of a full packet.
pub(crate) fn mtu(dialogue: &Dialogue<'_>) -> u32 {
    let code = dialogue.attributes.path_mtu.and_then(|code| u8::try_from(code).ok());
    code.and_then(|code| verbatim_wire::Mtu(code).bytes()).unwrap_or(256)
}

/// The message is acknowledged: an ACK of `psn`, none of what was not sent, no NAK; its MSN is `msn`.
///
/// ACKs of earlier PSNs beside it conform.
pub(crate) fn acknowledged(
    trace: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (dialogue, turn): (&Dialogue<'_>, &Turn<'_>),
    (psn, msn): (Psn, u32),
) -> bool {
    let mut answers = turn.counted(trace);
    if !trace.begin.simulated {
        // What was asked before may be answered late.
        answers.retain(|seen| !turn.is_late(seen) || !was_sent(dialogue, seen));
    }
    let wrong = answers.iter().find(|seen| !is_ack(seen) || !was_sent(dialogue, seen));
    let speaks = answers.iter().find(|seen| is_ack(seen) && seen.psn() == psn);
    let result = match (wrong, speaks) {
        (Some(_), _) => Passed::Fail,
        (None, Some(_)) => Passed::Pass,
        // The ACK of a duplicate speaks for all that came since: one that does not is no lost packet.
        (None, None) if psn != turn.last_sent() && !answers.is_empty() => Passed::Fail,
        // The ACK of a duplicate is that of whatever else is asked again later.
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

/// The MSN of a response is one of these.
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

/// What is not there speaks against a device as in [`alive`], unless it came after all: too late for its turn, when the tester
/// had gone on to something else, or to another connection.
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

/// Opcode, PSN and length of packets, for "expected" and "seen".
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

/// The same packets in the order of their PSNs from `first` on, where no instants of theirs say that they came otherwise.
fn in_order_of_psn(packets: Vec<Seen<'_>>, first: Psn) -> Vec<Seen<'_>> {
    let mut sorted = packets.clone();
    sorted.sort_by_key(|seen| seen.psn().since(first));
    let pairs = || (1..sorted.len()).flat_map(|at| (0..at).map(move |before| (before, at)));
    let is_otherwise = pairs().any(|(before, at)| sorted[at].frame.at.is_before(sorted[before].frame.at));
    if is_otherwise { packets } else { sorted }
}

/// The READ is answered with these data, in the right packets. Its count may advance when it is accepted or at its end.
pub(crate) fn read_answered(
    trace: &Trace,
    f: &mut Findings<'_>,
    (statement, about): (&str, &str),
    (dialogue, turn): (&Dialogue<'_>, &Turn<'_>),
    (data, msn): (&[u8], u32),
) -> bool {
    let answers = turn.counted(trace);
    // An ACK of what was sent before may still be on its way.
    let earlier = |seen: &&Seen<'_>| is_ack(seen) && seen.psn() != turn.last_sent() && was_sent(dialogue, seen);
    // So may responses to a READ before it.
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
        // Late responses to the try before are the same ones.
        responses.sort_by_key(|seen| seen.psn().since(turn.last_sent()));
        responses.dedup_by_key(|seen| seen.psn());
    }
    if !trace.begin.simulated {
        responses = in_order_of_psn(responses, turn.last_sent());
    }
    let seen = parts(&responses);
    let is_part = |part: &(Opcode, Psn, usize)| expected.contains(part);
    // The dialogue has those that overlap in the order of their PSNs.
    let came_so = turn.most(trace) > 1 || responses.is_sorted_by_key(|seen| seen.frame.place);
    let result = if seen == expected && came_so {
        Passed::Pass
    } else if seen == expected {
        Passed::Inconclusive
    } else if seen.iter().all(is_part) && seen.len() < expected.len() {
        // What a try before had, or what comes later, was lost or is late: it is not missing.
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

/// The verbs commands of a label within a dialogue.
pub(crate) fn commands_in<'t>(trace: &'t Trace, dialogue: &Dialogue<'_>, label: Label<Verbs>) -> Vec<&'t VerbsDone> {
    trace.commands_between(label, dialogue.places).collect()
}

/// The wait for silence at the end of the procedure, when it was as long as the rule asks and the host was there after.
pub(crate) fn proves_silence(trace: &Trace, wait: &WaitDone) -> bool {
    let lasted = wait.until.since(wait.since);
    let rule =
        verbatim_record::silence::rc_lasts(core::time::Duration::ZERO, verbatim_wire::packet::AckTimeout::OFF, 0);
    lasted >= rule && is_alive_after(trace, wait.place)
}

/// The syndrome of a NAK or RNR NAK as an Acknowledge packet.
pub(crate) fn nak_in(seen: &Seen<'_>) -> Option<Syndrome> {
    (seen.packet.opcode() == Opcode::RC_ACKNOWLEDGE)
        .then(|| nak_of(&seen.packet))
        .flatten()
}

/// Whether it is a request of the DUT: its other half goes its own way, and says nothing of what it is asked.
pub(crate) fn is_request(seen: &Seen<'_>) -> bool {
    let opcode = seen.packet.opcode();
    opcode.service() == Service::Rc && opcode.is_request()
}

/// Whether it is a NAK that ends the queue pair: what is put off, or missing, may come again.
pub(crate) fn is_refusal(seen: &Seen<'_>) -> bool {
    let sequence = Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR);
    !is_rnr_nak(seen) && nak_in(seen).is_some_and(|nak| nak != sequence)
}

/// Whether it is an RNR NAK.
pub(crate) fn is_rnr_nak(seen: &Seen<'_>) -> bool {
    nak_in(seen).is_some_and(|syndrome| matches!(syndrome.kind(), SyndromeKind::RnrNak(_)))
}

#[cfg(test)]
mod tests {
    use verbatim_archives::golden;
    use verbatim_record::{Entry, Time};

    use super::*;

    #[test]
    fn evidence_is_a_request_that_came_before_its_answer() {
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
        // It is sent again when it was answered.
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
