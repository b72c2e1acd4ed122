//! Requests that the DUT must refuse: each on a connection of its own, since the refusal ends it.
//!
//! A sound SEND comes first: the MSN is 1 then, and stays so. Then the case, then a sound SEND with the PSN that was
//! refused, which must find nobody. A NAK may be lost, and the DUT says it once: a case without any answer is tried again
//! on a new connection.

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

/// The statement on what a refusal is.
pub(crate) const ERRORS: &str = "9.9.3 responder errors";

const RECEIVE: Label<Verbs> = Label::new("post a receive");
const OTHER: Label<Verbs> = Label::new("register memory that will go");
const GONE: Label<Verbs> = Label::new("deregister it");
const SOUND: Label<Frames> = Label::new("sound SEND before the request that is refused");
const AFTER: Label<Frames> = Label::new("sound SEND after the request that is refused");
pub(crate) const MEMORY: Label<Verbs> = Label::new("read the memory");
pub(crate) const STATE: Label<Verbs> = Label::new("state of the queue pair after the refusal");
const GIVEN_UP: Label<Verbs> = Label::new("destroy the queue pair of a try without an answer");
/// Queue pairs beside those that are kept: that of the next try, and one of the host's own.
const OTHERS: usize = 2;
pub(crate) const SILENT: Label<Wait> = Label::new("after all cases");
const END: Label<Verbs> = Label::new("is the host still there");

/// Where WRITEs, READs and atomics of the cases go.
pub(crate) const TARGET: u32 = 32 * 1024;
/// Bytes of the sound SENDs, which lie at the beginning of the memory.
pub(crate) const SOUND_LENGTH: u32 = 32;
/// Where the receives after the first lie.
const RECEIVES: u32 = 4096;
/// Room for a message of three packets of any path MTU.
pub(crate) const ROOM: u32 = 3 * 4096;
/// How long the state may take to be told after the NAK.
const MOMENT: Duration = Duration::from_millis(100);

/// A request that must be refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Its frames.
    pub(crate) label: Label<Frames>,
    /// What the connection allows.
    pub(crate) options: fn(&mut ChannelOptions),
    /// Bytes of the receive that a SEND would take.
    pub(crate) receive: u32,
    /// Its packets, from this PSN on.
    pub(crate) request: fn(&Channel, Psn) -> Vec<Transport>,
    /// Number of the first packet that may be refused, from 0 on; the last one is the last that is sent.
    pub(crate) refused: u32,
    /// NAK codes that conform.
    pub(crate) codes: &'static [NakCode],
    /// Whether it is an atomic: a device without atomics is not asked.
    pub(crate) atomic: bool,
    /// Whether its memory is not that of the connection, but other memory that was deregistered before.
    pub(crate) deregistered: bool,
}

impl Refusal {
    /// A request of one packet, on a connection that allows everything.
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

    /// The same on another connection.
    pub(crate) const fn on(mut self, options: fn(&mut ChannelOptions)) -> Self {
        self.options = options;
        self
    }

    /// The same, but its first packet is sound.
    pub(crate) const fn at_second(mut self) -> Self {
        self.refused = 1;
        self
    }

    /// The same with a receive of so many bytes.
    pub(crate) const fn with_receive(mut self, bytes: u32) -> Self {
        self.receive = bytes;
        self
    }

    /// The same as a case for devices that have atomics.
    pub(crate) const fn atomic(mut self) -> Self {
        self.atomic = true;
        self
    }

    /// The same over other memory, of the same length and rights, that was deregistered before.
    pub(crate) const fn deregistered(mut self) -> Self {
        self.deregistered = true;
        self
    }
}

/// Tries all cases.
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
            // A host has room for so many queue pairs. The one that is judged stays: silence of what is gone shows nothing.
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
        let none = "the DUT's device has for no case of this test what it needs, as its agent says";
        return Err(Stop::NotOffered(none.into()));
    }
    if !kept.is_empty() {
        silence(t, &kept)?;
    }
    Ok(())
}

fn give_up(t: &mut Tester<'_>, channel: &Channel) -> Step {
    // The next queue pair may have its number: what is on its way to this one must not come to that.
    t.pause(MOMENT)?;
    let destroy = Command::DestroyQp(pb::DestroyQp { qp: channel.qp });
    t.verbs(GIVEN_UP, Side::Dut, destroy).map(drop)
}

/// Waits for what must not come on any of these connections.
fn silence(t: &mut Tester<'_>, kept: &[Channel]) -> Step {
    t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    if let Some(channel) = kept.last() {
        ask::query(t, channel, END)?;
    }
    Ok(())
}

/// One case. Whether anything was answered; none where the device has said that it has not what the case needs.
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

/// Memory that was registered as the connection's is, and deregistered.
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

/// What a request came to.
#[derive(Clone, Copy)]
enum Heard {
    /// Something that is neither of the others.
    Answered,
    /// An RNR NAK, with its interval: a resource was lacking for a moment.
    PutOff(Duration),
    /// Nothing, or a sequence NAK, which says that a packet was lost.
    Nothing,
}

/// Waits for a NAK of what begins with that PSN.
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
            // An ACK of what lies before it may come again.
            None if packet.bth().psn().since(first) >= HALF => {}
            None => heard = Heard::Answered,
        }
    }
    Ok(heard)
}

/// Labels that no judge goes by.
pub(crate) fn not_judged(t: &Trace) {
    for label in [RECEIVE, OTHER, GONE, MEMORY, STATE, GIVEN_UP, END] {
        t.not_judged(label);
    }
    for label in [SOUND, AFTER] {
        t.not_judged(label);
    }
}

/// Whether the device has what a case needs, as far as its host says: a case without that is left out, any other is a gap.
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

/// Whether a case was left out by right; that is told then.
pub(crate) fn is_left_out(t: &Trace, f: &mut Findings<'_>, case: &Refusal) -> bool {
    let is_left_out = t.frames(case.label).next().is_none() && !is_to_be_tried(t, case);
    if is_left_out {
        let name = case.label.name;
        let text = format!("\"{name}\" was not tried: the device has not what it needs, as its agent says");
        f.observe(text, &[]);
    }
    is_left_out
}

/// A connection that nobody makes: what a case asks for does not go by its numbers.
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

/// The connection of a case that counts, and on how many it was tried.
///
/// # Errors
/// When it was not.
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

/// Each case got a NAK that ends its connection, with one of its codes. The rules say what follows.
///
/// # Errors
/// When one was not tried.
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
            f.observe(format!("no atomics: \"{}\" says nothing", case.label.name), &[]);
            continue;
        }
        let turns: Vec<Turn<'_>> = all
            .iter()
            .filter_map(|dialogue| answer::turn(t, dialogue, case.label))
            .collect();
        // Each is looked at, whatever the one before came to.
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

/// Whether a NAK ended the connection, whose code is held against those of the case.
fn is_refused(f: &mut Findings<'_>, statement: &str, case: &Refusal, turn: &Turn<'_>) -> bool {
    // One that asks for a packet which may have been lost says nothing: behind the last none can be missing.
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
