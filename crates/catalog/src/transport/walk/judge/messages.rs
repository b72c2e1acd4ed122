//! The peer's messages: each is answered, READs and atomics with what the memory held.

use verbatim_record::verbs::Command;
use verbatim_record::{Evidence, Findings, Passed, TRIES, Trace};
use verbatim_wire::packet::{Opcode, Psn};

use super::{ATOMICS, of, of_peer};
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, is_rnr_nak};
use crate::transport::rc::ask::{HALF, nak_of};
use crate::transport::rc::effect::differs;
use crate::transport::rc::{self, Case, Seen};
use crate::transport::walk::image::Image;
use crate::transport::walk::peer::labels;

/// A message of the peer.
struct Message<'t> {
    /// Its packets, each as it was sent first.
    packets: Vec<Seen<'t>>,
    /// Its last PSN.
    last: Psn,
    /// How often its last packet was sent.
    tries: usize,
}

impl Message<'_> {
    fn first(&self) -> &Seen<'_> {
        &self.packets[0]
    }

    /// Where it was sent first.
    fn place(&self) -> usize {
        self.packets
            .iter()
            .map(|seen| seen.frame.place)
            .min()
            .unwrap_or_default()
    }

    fn writes(&self) -> bool {
        self.first().packet.opcode() != Opcode::RC_READ_REQUEST
    }
}

/// The peer's messages in the order of their PSNs.
fn messages_of<'t>(case: &Case<'t>) -> Vec<Message<'t>> {
    let sent = of_peer(case, &[labels::REQUEST.name, labels::AGAIN.name]);
    let first = Psn::new(case.dialogue.attributes.rq_psn.unwrap_or_default());
    let mut packets: Vec<Seen<'_>> = Vec::new();
    for seen in &sent {
        if packets.iter().all(|known| known.psn() != seen.psn()) {
            packets.push(*seen);
        }
    }
    packets.sort_by_key(|seen| seen.psn().since(first));
    let mut messages: Vec<Message<'_>> = Vec::new();
    for seen in packets {
        let opcode = seen.packet.opcode();
        let psns = match seen.packet.reth() {
            Some(reth) if opcode == Opcode::RC_READ_REQUEST => reth.dma_len().div_ceil(case.mtu).max(1),
            _ => 1,
        };
        let last = seen.psn().plus(psns - 1);
        let tries = sent.iter().filter(|other| other.psn() == seen.psn()).count();
        let goes_on = matches!(opcode.0, 0x01..=0x03 | 0x07..=0x09);
        match messages.last_mut().filter(|_| goes_on) {
            Some(message) => {
                message.packets.push(seen);
                (message.last, message.tries) = (last, tries);
            }
            None => messages.push(Message {
                packets: vec![seen],
                last,
                tries,
            }),
        }
    }
    messages
}

/// Whether a packet says that SENDs and WRITEs up to a PSN were executed; one behind `last`, which was sent last, says nothing.
pub(super) fn acknowledges(seen: &Seen<'_>, psn: Psn, last: Psn) -> bool {
    let until = if nak_of(&seen.packet).is_some() {
        seen.psn().minus(1)
    } else {
        seen.psn()
    };
    seen.packet.opcode().is_response() && until.since(psn) < HALF && last.since(until) < HALF
}

/// Each message of the peer is answered, READs and atomics with what the memory held. Whether all were.
pub(super) fn judge(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, image: &mut Image) -> bool {
    for command in t.commands_between(labels::RECEIVE, case.dialogue.places) {
        if let Command::PostReceive(post) = &command.command {
            image.post(post.wr_id, post.local.unwrap_or_default().offset);
        }
    }
    let messages = messages_of(case);
    let responses: Vec<Seen<'_>> = case
        .dialogue
        .of_dut()
        .filter(|seen| seen.packet.opcode().is_response())
        .collect();
    let newest = messages.last().map_or(Psn::default(), |message| message.last);
    for (at, message) in messages.iter().enumerate() {
        let after = |seen: &&Seen<'_>| seen.place > message.place();
        let opcode = message.first().packet.opcode();
        let own = |psn: Psn| {
            let of_kind = move |seen: &&Seen<'_>| {
                let is_atomic = seen.packet.opcode() == Opcode::RC_ATOMIC_ACKNOWLEDGE;
                let is_read = matches!(seen.packet.opcode().0, 0x0D..=0x10);
                if opcode == Opcode::RC_READ_REQUEST {
                    is_read
                } else {
                    is_atomic
                }
            };
            responses
                .iter()
                .filter(after)
                .filter(of_kind)
                .find(move |seen| seen.psn() == psn)
        };
        let has_response = matches!(
            opcode,
            Opcode::RC_READ_REQUEST | Opcode::RC_COMPARE_SWAP | Opcode::RC_FETCH_ADD
        );
        let answers: Option<Vec<&Seen<'_>>> = if has_response {
            let psns = message.last.since(message.first().psn()) + 1;
            (0..psns).map(|at| own(message.first().psn().plus(at))).collect()
        } else {
            let answer = responses
                .iter()
                .filter(after)
                .find(|seen| acknowledges(seen, message.last, newest));
            answer.map(|answer| vec![answer])
        };
        let about = format!("message {} of the peer, {opcode}", at + 1);
        let Some(answers) = answers else {
            let evidence: Vec<Evidence<'_>> = message.packets.iter().map(|seen| seen.frame.into()).collect();
            let is_put_off = |seen: &&Seen<'_>| {
                is_rnr_nak(seen) && seen.psn().since(message.first().psn()) <= message.last.since(message.first().psn())
            };
            // An RNR NAK is no silence.
            let put_off = responses.iter().filter(is_put_off).count();
            let result = rc::alive(t, message.place(), message.tries >= put_off + TRIES as usize);
            f.prove(ACKNOWLEDGEMENT, &evidence, &about, ("an answer", "none"), result);
            return false;
        };
        let last = answers.last().map_or(0, |seen| seen.place);
        let changed = messages[at + 1..]
            .iter()
            .any(|later| later.writes() && later.place() < last);
        data(f, &about, message, &answers, (image, changed));
        message.packets.iter().for_each(|seen| image.take(&seen.packet));
    }
    let count = format!("{} of {}", messages.len(), messages.len());
    if !messages.is_empty() {
        let expected = ("all answered", count);
        f.prove(ACKNOWLEDGEMENT, &[], "messages of the peer", expected, Passed::Pass);
    }
    true
}

/// What the answer to a READ or atomic carries is what the memory held.
fn data(
    f: &mut Findings<'_>,
    about: &str,
    message: &Message<'_>,
    answers: &[&Seen<'_>],
    (image, changed): (&Image, bool),
) {
    let evidence: Vec<Evidence<'_>> = answers.iter().map(|seen| seen.frame.into()).collect();
    let request = message.first().packet;
    if let (Some(atomic), Some(answer)) = (request.atomic(), answers[0].packet.atomic_ack()) {
        let held = image.word(image.place(atomic.va().0));
        let words = |value: u64| format!("original {value:#018x}");
        let result = of(answer.original().0 == held);
        f.prove(
            ATOMICS,
            &evidence,
            about,
            (words(held), words(answer.original().0)),
            result,
        );
    }
    if let (Some(reth), Opcode::RC_READ_REQUEST, false) = (request.reth(), request.opcode(), changed) {
        let at = image.place(reth.va().0);
        let held = image.bytes.get(at..at + reth.dma_len() as usize).unwrap_or_default();
        let carried: Vec<u8> = answers.iter().flat_map(|seen| seen.packet.payload().to_vec()).collect();
        let words = (
            format!("the {} bytes of the memory", held.len()),
            differs(held, &carried),
        );
        f.prove(
            ACKNOWLEDGEMENT,
            &evidence,
            &format!("{about}: data"),
            words,
            of(held == carried),
        );
    }
}
