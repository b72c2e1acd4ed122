//! `c09-reserved-bits`: the reserved bits of the BTH are 0 in all packets of the DUT.
//!
//! The DUT posts a SEND, a WRITE, a READ and an atomic, and the peer answers them. The SEND first gets an RNR NAK, and
//! is retried. The DUT answers a WRITE, a READ and a FetchAdd of the peer. It also answers a WRITE behind a gap, a SEND
//! without a receive, and finally a WRITE with a wrong R_Key. The test checks bits 34 to 39 after FECN and BECN, and
//! bits 65 to 71 after AckReq, in all packets. No other test checks these bits, so that a device that uses them for
//! vendor marks fails only this test. The test leaves out requests that the device lacks.
//!
//! Reading: FECN and BECN are not reserved. A packet with a wrong ICRC was damaged on the path and does not count.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{RKey, RnrTimer};
use verbatim_wire::{Bth, Reserved};

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, Seen, offers};

const PART: Label<Frames> = Label::new("ACK within a message");
const ANSWER: Label<Frames> = Label::new("answer");
const ANSWER_AGAIN: Label<Frames> = Label::new("answer, again");
const WRITE: Label<Frames> = Label::new("WRITE of the peer");
const READ: Label<Frames> = Label::new("READ of the peer");
const RNR: Label<Frames> = Label::new("RNR NAK");
const ATOMIC: Label<Frames> = Label::new("FetchAdd of the peer");
const GAP: Label<Frames> = Label::new("WRITE of the peer behind one that is missing");
const UNREADY: Label<Frames> = Label::new("SEND of the peer without a receive");
const REFUSED: Label<Frames> = Label::new("WRITE of the peer with a wrong R_Key");
/// RNR timer of the RNR NAK: 10 us.
const TIMER: RnrTimer = RnrTimer::SHORTEST;
/// Longest wait for the retry after the RNR NAK.
const PATIENCE: Duration = Duration::from_secs(1);

/// Name and value of a reserved field.
type Field = (&'static str, fn(Bth) -> Reserved);

const FIELDS: [Field; 2] = [
    ("BTH byte 4", |bth| bth.reserved_34()),
    ("BTH byte 8", |bth| bth.reserved_65()),
];

pub(super) static TEST: Test = Test {
    id: "c09-reserved-bits",
    aliases: &[],
    revision: 2,
    about: "The reserved bits of the BTH are 0 in requests and responses, including retries and NAKs.",
    reading: "The bits are 34 to 39 and 65 to 71. FECN and BECN are not reserved. No other test judges these bits.",
    statements: &[rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let length = 2 * dut.mtu;
    let operations = [
        pb::Operation::Send,
        pb::Operation::Write,
        pb::Operation::Read,
        pb::Operation::FetchAdd,
    ];
    for operation in operations {
        if !t.offers(operation) {
            continue;
        }
        let bytes = if operation == pb::Operation::FetchAdd {
            8
        } else {
            length
        };
        // A device need not have atomics.
        let Some(sent) = dut.try_post(t, Ask::new(operation, bytes))? else {
            continue;
        };
        if operation == pb::Operation::Send && dut.see_all(t, &sent)? {
            t.send_frame(RNR, &dut.rnr_nak(sent.first, TIMER, sent.msn - 1))?;
            dut.see(t, sent.first, PATIENCE)?;
        }
        dut.serve(t, PART, &sent)?;
        let answers = dut.answers(t, &sent);
        if !dut.answer(t, (ANSWER, ANSWER_AGAIN), &answers, 1)? {
            break;
        }
    }
    let channel = dut.channel;
    let payload = ask::random_bytes(t, WRITE.name, length);
    let write = Message::write(&channel, channel.own_psn, 0, &payload);
    ask::ask(t, &channel, WRITE, &write)?;
    let mut psn = write.next();
    if t.executes(pb::Operation::Read) {
        let read = Message::read(&channel, psn, 0, length);
        ask::ask(t, &channel, READ, &read)?;
        psn = read.next();
    }
    if channel.atomics && t.executes(pb::Operation::FetchAdd) {
        let add = Message::fetch_add(&channel, psn, 0, 1);
        ask::ask(t, &channel, ATOMIC, &add)?;
        psn = add.next();
    }
    ask::put(t, &channel, GAP, &Message::write(&channel, psn.next(), 0, &[1; 8]))?;
    ask::listen(t, &channel)?;
    let send = Message::send(&channel, psn, &[2; 8]);
    ask::ask_unready(t, &channel, UNREADY, &send)?;
    let wrong = Message::write(&channel, psn, 0, &[3; 8]).changed(|packets| {
        packets[0].reth = packets[0]
            .reth
            .map(|reth| reth.with_r_key(RKey(reth.r_key().0 ^ 0x0004_0040)));
    });
    ask::put(t, &channel, REFUSED, &wrong)?;
    ask::listen(t, &channel)?;
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for label in [
        PART,
        ANSWER,
        ANSWER_AGAIN,
        WRITE,
        READ,
        RNR,
        ATOMIC,
        GAP,
        UNREADY,
        REFUSED,
    ] {
        t.not_judged(label);
    }
    if offers::executes(t, pb::Operation::Read) {
        rc::came(t, &[READ])?;
    }
    offers::was_posted(t, pb::Operation::Read)?;
    let cases = rc::cases(t)?;
    let case = cases.first().ok_or(Gap::Missing("a connection"))?;
    rc::sound_packets(f, &case.dialogue);
    for (about, responses) in [("requests", false), ("responses", true)] {
        let counts = |seen: &Seen<'_>| seen.packet.opcode().is_response() == responses && seen.packet.icrc_is_right();
        let sent: Vec<Seen<'_>> = case.dialogue.of_dut().filter(counts).collect();
        for (name, field) in FIELDS {
            let set: Vec<&Seen<'_>> = sent.iter().filter(|seen| field(seen.packet.bth()).0 != 0).collect();
            let bits = set.iter().fold(0, |bits, seen| bits | field(seen.packet.bth()).0);
            let result = match (sent.is_empty(), set.is_empty()) {
                (true, _) => rc::alive(t, case.end(), false),
                (false, true) => Passed::Pass,
                (false, false) => Passed::Fail,
            };
            let seen = if set.is_empty() {
                format!("0 in {0} of {0} packets", sent.len())
            } else {
                format!("{bits:#x} in {} of {} packets", set.len(), sent.len())
            };
            let evidence: Vec<Evidence<'_>> = set.iter().map(|seen| seen.frame.into()).collect();
            let about = format!("{about}: reserved bits of {name}");
            f.prove(rc::GENERATION, &evidence, &about, ("0", seen), result);
        }
    }
    Ok(())
}
