//! Requests that the DUT must refuse, each on its own connection, because the refusal ends the connection.
//!
//! The peer first sends a valid SEND, so that the MSN is 1 and stays 1. It then sends the request of the case, and a
//! valid SEND with the refused PSN, which the DUT must ignore. The DUT sends the NAK only once, and the NAK may be
//! lost. A case without any response is therefore tried again on a new connection.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, Reply, asks_for, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Passed, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions, Marks, Memory};
use verbatim_tester::{Step, Stop, Tester};
use verbatim_wire::ether::MacAddress;
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, Qpn, RKey, Station, Syndrome, SyndromeKind, Transport};

use super::answer::{self, Turn};
use super::ask::{self, HALF, Message};
use super::checks::in_words;
use super::offers;
use verbatim_oracle::rc::{Dialogue, Seen, dialogues};

pub(crate) const ERRORS: &str = "9.9.3 responder errors";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const OTHER: Label<Verbs> = Label::new("register memory that will go");
const GONE: Label<Verbs> = Label::new("deregister it");
const SOUND: Label<Frames> = Label::new("sound SEND before the request that is refused");
const AFTER: Label<Frames> = Label::new("sound SEND after the request that is refused");
pub(crate) const MEMORY: Label<Verbs> = Label::new("read the memory");
pub(crate) const STATE: Label<Verbs> = Label::new("state of the queue pair after the refusal");
const GIVEN_UP: Label<Verbs> = Label::new("destroy the queue pair of a try without an answer");
/// Number of queue pairs needed beside the retained ones: one for the next try, and one of the host.
const OTHERS: usize = 2;
pub(crate) const SILENT: Label<Wait> = Label::new("after all cases");
const END: Label<Verbs> = Label::new("is the host still there");

/// Offset of the memory that the WRITEs, READs and atomics of the cases access.
pub(crate) const TARGET: u32 = 32 * 1024;
/// Length of the valid SENDs in bytes. Their receive lies at the beginning of the memory.
pub(crate) const SOUND_LENGTH: u32 = 32;
/// Offset of the receives after the first.
const RECEIVES: u32 = 4096;
/// Bytes that hold a message of three packets at any path MTU.
pub(crate) const ROOM: u32 = 3 * 4096;
/// Pause between queries of the state after the NAK, and before a queue pair is destroyed.
const MOMENT: Duration = Duration::from_millis(100);

/// A request that the DUT must refuse.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Label of the request's frames.
    pub(crate) label: Label<Frames>,
    /// Sets the options of the request's connection.
    pub(crate) options: fn(&mut ChannelOptions),
    /// Length in bytes of the receive that a SEND would consume.
    pub(crate) receive: u32,
    /// Builds the request's packets, from a PSN on.
    pub(crate) request: fn(&Channel, Psn) -> Vec<Transport>,
    /// Index of the first packet that the DUT may refuse, from 0. The DUT may also refuse any later packet.
    pub(crate) refused: u32,
    /// NAK codes that conform.
    pub(crate) codes: &'static [NakCode],
    /// Whether only devices with atomics are judged.
    pub(crate) atomic: bool,
    /// Whether the request accesses other memory, which was deregistered before.
    pub(crate) deregistered: bool,
}

impl Refusal {
    /// Makes a case whose first packet the DUT may refuse, on a connection with default options.
    pub(crate) const fn new(
        label: &'static str,
        codes: &'static [NakCode],
        request: fn(&Channel, Psn) -> Vec<Transport>,
    ) -> Self {
        Self {
            label: Label::new(label),
            options: |_| {},
            receive: ROOM,
            request,
            refused: 0,
            codes,
            atomic: false,
            deregistered: false,
        }
    }

    /// Sets the options of the connection.
    pub(crate) const fn on(mut self, options: fn(&mut ChannelOptions)) -> Self {
        self.options = options;
        self
    }

    /// States that the first packet is valid, and that the DUT may refuse only later packets.
    pub(crate) const fn at_second(mut self) -> Self {
        self.refused = 1;
        self
    }

    /// Sets the length of the receive in bytes.
    pub(crate) const fn with_receive(mut self, bytes: u32) -> Self {
        self.receive = bytes;
        self
    }

    /// Restricts the case to devices with atomics.
    pub(crate) const fn atomic(mut self) -> Self {
        self.atomic = true;
        self
    }

    /// Directs the request at other memory of the same length and rights, which was deregistered before.
    pub(crate) const fn deregistered(mut self) -> Self {
        self.deregistered = true;
        self
    }
}

/// Runs all cases.
pub(crate) fn procedure(t: &mut Tester<'_>, cases: &[Refusal]) -> Step {
    let (mut kept, mut was_tried) = (Vec::new(), false);
    for case in cases {
        for attempt in 1..=TRIES {
            let Some((channel, answered)) = one(t, case)? else {
                break;
            };
            was_tried = true;
            if answered || attempt == TRIES {
                kept.push(channel);
                break;
            }
            // The host's number of queue pairs is limited, so destroy this one. The queue pair of the last try
            // stays, because silence of a destroyed queue pair proves nothing.
            give_up(t, &channel)?;
        }
        let is_full = kept
            .last()
            .is_some_and(|of| of.max_qp != 0 && kept.len() + OTHERS >= of.max_qp as usize);
        if is_full {
            silence(t, &kept)?;
            for channel in kept.drain(..) {
                give_up(t, &channel)?;
            }
        }
    }
    if !was_tried {
        let none = "the DUT's device lacks a capability for every case of this test, as its agent says";
        return Err(Stop::NotOffered(none.into()));
    }
    if !kept.is_empty() {
        silence(t, &kept)?;
    }
    Ok(())
}

fn give_up(t: &mut Tester<'_>, channel: &Channel) -> Step {
    // The next queue pair may reuse the number, and late packets must not reach that queue pair.
    t.pause(MOMENT)?;
    let destroy = Command::DestroyQp(pb::DestroyQp { qp: channel.qp });
    t.verbs(GIVEN_UP, Side::Dut, destroy).map(drop)
}

/// Waits, so that the judge sees whether all of these connections stay silent.
fn silence(t: &mut Tester<'_>, kept: &[Channel]) -> Step {
    t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    if let Some(channel) = kept.last() {
        ask::query(t, channel, END)?;
    }
    Ok(())
}

/// Runs one try of a case. Returns the connection, and whether the DUT responded.
///
/// Returns `None` if the device lacks a capability that the case needs.
fn one(t: &mut Tester<'_>, case: &Refusal) -> Step<Option<(Channel, bool)>> {
    let mut options = ChannelOptions::default();
    (case.options)(&mut options);
    if options.mtu != ChannelOptions::default().mtu && !t.offers_path_mtu(options.mtu) {
        return Ok(None);
    }
    let channel = t.open_channel(&options)?;
    let packets = (case.request)(&channel, channel.own_psn.next());
    if !packets.iter().all(|packet| t.executes_frame(&channel.frame(packet))) {
        give_up(t, &channel)?;
        return Ok(None);
    }
    ask::post_receive(t, &channel, RECEIVE, 1, (0, SOUND_LENGTH))?;
    ask::post_receive(t, &channel, RECEIVE, 2, (RECEIVES, case.receive))?;
    ask::post_receive(t, &channel, RECEIVE, 3, (RECEIVES + ROOM, SOUND_LENGTH))?;
    let psn = channel.own_psn;
    let sound = ask::random_bytes(t, "sound", SOUND_LENGTH);
    ask::ask(t, &channel, SOUND, &Message::send(&channel, psn, &sound))?;
    let over = if case.deregistered {
        Channel {
            memory: gone(t, &channel, &options)?,
            ..channel
        }
    } else {
        channel
    };
    let mut answered = false;
    for _ in 0..TRIES {
        for packet in (case.request)(&over, psn.next()) {
            t.send_frame(case.label, &channel.frame(&packet))?;
        }
        match hears_nak(t, &channel, psn.next())? {
            Heard::PutOff(interval) => t.pause(interval)?,
            heard => {
                answered = matches!(heard, Heard::Answered);
                break;
            }
        }
    }
    let again = Message::send(&channel, psn.plus(1 + case.refused), &sound);
    ask::put(t, &channel, AFTER, &again)?;
    ask::read_memory(t, &channel, MEMORY, channel.memory.length)?;
    for _ in 0..TRIES {
        let state = ask::query(t, &channel, STATE)?;
        if is_in_error(&state) {
            break;
        }
        t.pause(MOMENT)?;
    }
    Ok(Some((channel, answered)))
}

/// Registers memory like the connection's, and deregisters it.
fn gone(t: &mut Tester<'_>, channel: &Channel, options: &ChannelOptions) -> Step<Memory> {
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: channel.memory.length,
        access: Some(options.memory_access),
    });
    let Reply::Memory(other) = t.verbs_must(OTHER, Side::Dut, register)? else {
        return Ok(channel.memory);
    };
    let deregister = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
    t.verbs_must(GONE, Side::Dut, deregister)?;
    Ok(Memory {
        handle: other.memory,
        address: other.address,
        r_key: RKey(other.r_key),
        length: channel.memory.length,
    })
}

fn is_in_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Status(status) if status.state() == pb::QpState::Err)
}

/// The DUT's response to a request.
#[derive(Clone, Copy)]
enum Heard {
    /// A packet of any other kind.
    Answered,
    /// An RNR NAK with its interval: the DUT lacks a resource for a moment.
    PutOff(Duration),
    /// No packet, or a sequence NAK, which reports a lost packet.
    Nothing,
}

/// Waits for a NAK of the request that begins with PSN `first`.
fn hears_nak(t: &mut Tester<'_>, channel: &Channel, first: Psn) -> Step<Heard> {
    let until = t.now().after(ask::soon(t));
    let mut heard = Heard::Nothing;
    while let Some(received) = t.next_packet(until)? {
        let packet = received.packet();
        if packet.bth().dest_qp() != channel.own_qpn {
            continue;
        }
        match ask::nak_of(&packet).map(Syndrome::kind) {
            Some(SyndromeKind::RnrNak(timer)) => return Ok(Heard::PutOff(timer.duration())),
            Some(_) if ask::is_sequence_nak(&packet) => break,
            Some(_) => return Ok(Heard::Answered),
            // The DUT may repeat an ACK of an earlier packet.
            None if packet.bth().psn().since(first) >= HALF => {}
            None => heard = Heard::Answered,
        }
    }
    Ok(heard)
}

/// Marks the labels that this judge does not use.
pub(crate) fn not_judged(t: &Trace) {
    for label in [RECEIVE, OTHER, GONE, MEMORY, STATE, GIVEN_UP, END] {
        t.not_judged(label);
    }
    for label in [SOUND, AFTER] {
        t.not_judged(label);
    }
}

/// Returns whether the device supports a case, according to its host.
///
/// The procedure leaves out an unsupported case. If a supported case is missing, the judge reports a gap.
fn is_to_be_tried(t: &Trace, case: &Refusal) -> bool {
    let Some(has) = offers::capabilities(t) else {
        return true;
    };
    let mut options = ChannelOptions::default();
    (case.options)(&mut options);
    let has_mtu = has.path_mtus.is_empty() || has.path_mtus.contains(&options.mtu.0.into());
    let packets = (case.request)(&nowhere(&options), Psn::default());
    let executes = |packet: &Transport| {
        let asked = asks_for(packet.bth.opcode());
        asked.is_none_or(|operation| offers::executes(t, operation))
    };
    (has_mtu || options.mtu == ChannelOptions::default().mtu) && packets.iter().all(executes)
}

/// Returns whether the procedure rightly left a case out, and reports the omission.
pub(crate) fn is_left_out(t: &Trace, f: &mut Findings<'_>, case: &Refusal) -> bool {
    let is_left_out = t.frames(case.label).next().is_none() && !is_to_be_tried(t, case);
    if is_left_out {
        let name = case.label.name;
        let text = format!("\"{name}\" was not tried: the device lacks a capability for it, as its agent says");
        f.observe(text, &[]);
    }
    is_left_out
}

/// Returns a placeholder to build a case's packets: the capabilities that they need do not depend on the
/// connection.
fn nowhere(options: &ChannelOptions) -> Channel {
    let station = Station {
        mac: MacAddress::default(),
        ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        udp_port: 0,
    };
    Channel {
        qp: 0,
        dut: station,
        own: station,
        dut_qpn: Qpn(0),
        own_qpn: Qpn(0),
        dut_psn: Psn::default(),
        own_psn: Psn::default(),
        mtu: options.mtu,
        max_rd_atomic: options.max_rd_atomic,
        max_dest_rd_atomic: options.max_dest_rd_atomic,
        max_qp: 0,
        memory: Memory {
            handle: 0,
            address: 0,
            r_key: RKey(0),
            length: ChannelOptions::MEMORY,
        },
        atomics: true,
        marks: Marks::default(),
    }
}

/// Returns the connection to judge for a case, and the number of connections on which the case was tried.
///
/// In simulation, this is the first connection of the case; on hardware, the last.
///
/// # Errors
/// Returns an error when the case was not tried.
pub(crate) fn counted<'d, 't>(
    t: &'t Trace,
    all: &'d [Dialogue<'t>],
    case: &Refusal,
) -> Result<(&'d Dialogue<'t>, usize), Gap> {
    let tried: Vec<&Dialogue<'_>> = all
        .iter()
        .filter(|dialogue| answer::turn(t, dialogue, case.label).is_some())
        .collect();
    let counts = if t.begin.simulated { tried.first() } else { tried.last() };
    let dialogue = counts.ok_or(Gap::Missing(case.label.name))?;
    Ok((*dialogue, tried.len()))
}

/// Checks that each case got a NAK that ends its connection, with an allowed code. The rules judge the rest.
///
/// # Errors
/// Returns an error when a case was not tried.
pub(crate) fn judge(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    cases: &[Refusal],
    has_atomics: bool,
) -> Result<(), Gap> {
    f.exercises(&[Rule::RefusedSilent, Rule::RefusedState]);
    not_judged(t);
    let all = dialogues(t)?;
    for case in cases {
        if is_left_out(t, f, case) {
            continue;
        }
        let (dialogue, tries) = counted(t, &all, case)?;
        if case.atomic && !has_atomics {
            f.observe(
                format!("the device has no atomics: \"{}\" is not judged", case.label.name),
                &[],
            );
            continue;
        }
        let turns: Vec<Turn<'_>> = all
            .iter()
            .filter_map(|dialogue| answer::turn(t, dialogue, case.label))
            .collect();
        // Check every try, even if the DUT refused an earlier try.
        let refused = turns.iter().filter(|turn| is_refused(f, statement, case, turn)).count();
        if refused > 0 {
            continue;
        }
        let Some(turn) = answer::turn(t, dialogue, case.label) else {
            continue;
        };
        let is_put_off = turn.answers.iter().any(answer::is_rnr_nak) && !t.begin.simulated;
        let tried_again = tries >= TRIES as usize && !is_put_off;
        let refused = turn.sent[0].psn().plus(case.refused);
        let is_taken = |seen: &Seen<'_>| answer::is_ack(seen) && seen.psn().since(refused) < ask::HALF;
        let result = match turn.answers.iter().any(is_taken) {
            true => Passed::Fail,
            false => answer::missing(t, dialogue, &turn, tried_again, |seen| answer::nak_in(seen).is_some()),
        };
        let words = ("a NAK", in_words(&turn.answers));
        f.prove(statement, &turn.evidence(&turn.answers), case.label.name, words, result);
    }
    t.waits(SILENT).next().map(drop).ok_or(Gap::Missing(SILENT.name))
}

/// Returns whether a NAK ended the connection, and checks its code.
fn is_refused(f: &mut Findings<'_>, statement: &str, case: &Refusal, turn: &Turn<'_>) -> bool {
    // A sequence NAK may report a lost packet, so it is no refusal. Only a sequence NAK of the last packet is one:
    // no later packet could have shown a loss.
    let refused = turn.sent[0].psn().plus(case.refused);
    let is_last = |seen: &Seen<'_>| refused == turn.last_sent() && seen.psn() == refused;
    let mut naks = turn
        .answers
        .iter()
        .filter_map(|seen| match answer::nak_in(seen)?.kind() {
            SyndromeKind::Nak(code) if code != NakCode::PSN_SEQUENCE_ERROR || is_last(seen) => Some((*seen, code)),
            _ => None,
        });
    let Some((nak, code)) = naks.next() else {
        return false;
    };
    let words: Vec<String> = case.codes.iter().map(|code| format!("NAK {code}")).collect();
    let words = (words.join(" or "), format!("NAK {code}"));
    let result = if case.codes.contains(&code) {
        Passed::Pass
    } else {
        Passed::Fail
    };
    f.prove(statement, &turn.evidence(&[nak]), case.label.name, words, result);
    true
}
