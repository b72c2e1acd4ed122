//! `c09-inside-messages`: duplicates and CNPs in the middle of a message change nothing; each packet that requests an
//! ACK gets an ACK.
//!
//! After a valid WRITE the peer sends a WRITE of four packets and a SEND of three. Each packet requests an ACK, and the
//! peer waits for the response. After each packet except the last, the peer sends duplicates of the message's packets
//! so far. It also sends duplicates of the WRITE, a READ and a FetchAdd before the message, and a CNP. Then the tester
//! reads the memory.
//!
//! Reading: AckReq may be set in any packet of a message, and requires a response. The DUT answers a duplicate, which
//! changes nothing, even if another message is incomplete. The peer sends no request that the device lacks.
//!
//! False alarm: none known. The peer sends each packet until the DUT responds, three times at most.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Transport};

use crate::transport::rc;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};

const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const BEFORE: Label<Frames> = Label::new("request before the message");
const PACKET: Label<Frames> = Label::new("packet of a message");
const DUPLICATE: Label<Frames> = Label::new("duplicate within a message");
const CNP: Label<Frames> = Label::new("CNP within a message");
const AFTER: Label<Frames> = Label::new("WRITE behind the messages");
const SILENT: Label<Wait> = Label::new("behind a packet that was not answered");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 32 * 1024;
/// Offset of the receive, and offset of the WRITEs.
const RECEIVES: u32 = 16 * 1024;
const PLACE: u32 = 1024;
/// Offset of the number that the FetchAdd changes.
const NUMBER_AT: u32 = 64;

pub(super) static TEST: Test = Test {
    id: "c09-inside-messages",
    aliases: &[],
    revision: 1,
    about: "Each packet of a message that requests an ACK gets an ACK; duplicates and CNPs in between change nothing.",
    reading: "A WRITE of four packets and a SEND of three. Each packet requests an ACK, and duplicates of all earlier \
        packets follow it. The DUT answers every packet, and memory and receive hold the data of the messages.",
    statements: &[
        ACKNOWLEDGEMENT,
        MSN,
        DUPLICATES,
        "9.5 transaction ordering",
        "9.4.1 SEND and immediate",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mtu = ask::mtu(&channel);
    let filled = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, filled)?;
    let length = 2 * mtu + 40;
    ask::post_receive(t, &channel, RECEIVE, 1, (RECEIVES, length))?;
    let mut before = vec![Message::write(
        &channel,
        channel.own_psn,
        8,
        &ask::random_bytes(t, "before", 40),
    )];
    let next = |before: &[Message]| before.last().map_or(channel.own_psn, Message::next);
    if t.executes(Operation::Read) {
        before.push(Message::read(&channel, next(&before), 8, 2 * mtu));
    }
    if channel.atomics && t.executes(Operation::FetchAdd) {
        before.push(Message::fetch_add(&channel, next(&before), NUMBER_AT, 0x0101_0202));
    }
    for message in &before {
        ask::ask(t, &channel, BEFORE, message)?;
    }
    let data = ask::random_bytes(t, "data", 3 * mtu + 40);
    let write = Message::write(&channel, next(&before), PLACE, &data);
    let send = Message::send(&channel, write.next(), &data[..length as usize]);
    let after = Message::write(&channel, send.next(), PLACE + 4 * mtu, &data[..64]);
    let mut are_answered = true;
    for message in [&write, &send] {
        are_answered = are_answered && with_others_between(t, &channel, message, &before)?;
    }
    // After an unanswered packet the peer sends nothing: the next response would acknowledge that packet too.
    if are_answered {
        ask::ask(t, &channel, AFTER, &after)?;
    } else {
        t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    }
    // A host may report a receive after the DUT acknowledged the message.
    t.next_completion(Side::Dut, channel.qp, t.now().after(ask::RESPONSE_WAIT))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

/// Sends a message packet by packet, and other packets in between. Returns whether the DUT answered all its packets.
fn with_others_between(t: &mut Tester<'_>, channel: &Channel, message: &Message, before: &[Message]) -> Step<bool> {
    let earlier: Vec<&Transport> = before.iter().flat_map(|message| &message.packets).collect();
    for (at, packet) in message.packets.iter().enumerate() {
        if !is_answered(t, channel, PACKET, packet)? {
            return Ok(false);
        }
        if at + 1 == message.packets.len() {
            break;
        }
        for duplicate in message.packets[..=at].iter().chain(earlier.iter().copied()) {
            is_answered(t, channel, DUPLICATE, duplicate)?;
            ask::drain(t)?;
        }
        t.send_frame(CNP, &ask::cnp(channel))?;
    }
    Ok(true)
}

/// Sends a packet that requests an ACK until the DUT responds, three times at most. Returns whether it responded.
fn is_answered(t: &mut Tester<'_>, channel: &Channel, label: Label<Frames>, packet: &Transport) -> Step<bool> {
    let mut packet = packet.clone();
    packet.bth = packet.bth.with_ack_request(true);
    let frame = channel.frame(&packet);
    for _ in 0..TRIES {
        t.skip_packets();
        t.send_frame(label, &frame)?;
        if ask::listen(t, channel)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::RequestAnswered,
        Rule::DuplicateAnswered,
        Rule::MemoryContent,
        Rule::ReceiveFields,
        Rule::Msn,
    ]);
    for label in [FILL, RECEIVE, STATE, RESULT] {
        t.not_judged(label);
    }
    t.waits(SILENT).count();
    let _ = (t.frames(CNP).count(), t.frames(AFTER).count());
    rc::came(t, &[BEFORE, PACKET, DUPLICATE])
}
