//! `c09-duplicates`: the DUT answers a duplicate request again, but does not execute it again.
//!
//! The peer sends each request twice:
//! - A SEND is delivered once.
//! - The host changes the target of a WRITE before the duplicate comes: the host's bytes stay. The ACKs of SEND and
//!   WRITE carry the PSN of the latest request.
//! - The host changes the memory of a READ. Then the peer repeats the whole READ, and its part from the second
//!   packet on. The responses carry the current data.
//! - The response to a FetchAdd carries the original value of the first execution, and the memory stays unchanged.
//!
//! Duplicates do not advance the MSN, and the DUT never refuses them.
//!
//! Reading: a partial duplicate of a READ begins with one of its packets and reaches to its end. The test tries no
//! other parts: serving and dropping them both conform. The FetchAdd is the latest atomic, so the DUT still stores
//! its result. The DUT may answer or ignore a duplicate that has another R_Key, but must send no NAK. The test
//! leaves out READs and atomics if the device lacks them.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions, Memory};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Psn, RKey};

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::{self, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, effect, offers};

const DUPLICATES: &str = "9.7.4.1.1 duplicate requests";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SEND: [Label<Frames>; 3] = [
    Label::new("SEND"),
    Label::new("SEND, again"),
    Label::new("SEND, again, behind other requests"),
];
const WRITE: [Label<Frames>; 3] = [
    Label::new("WRITE"),
    Label::new("another WRITE"),
    Label::new("first WRITE, again"),
];
const CHANGE: [Label<Verbs>; 2] = [
    Label::new("change what the WRITE wrote"),
    Label::new("change what the READ read"),
];
const READ: [Label<Frames>; 4] = [
    Label::new("READ"),
    Label::new("READ, again"),
    Label::new("READ, again from its second packet on"),
    Label::new("READ, again with a wrong R_Key"),
];
const LAST: Label<Frames> = Label::new("WRITE behind all of them");
const RESULT: Label<Verbs> = Label::new("read the memory");

const OTHER: Label<Verbs> = Label::new("register other memory");
const GONE: Label<Verbs> = Label::new("deregister it");
const ELSEWHERE: [Label<Frames>; 2] = [
    Label::new("WRITE to other memory"),
    Label::new("WRITE to other memory, again, and it is gone"),
];
const OVERLONG: Label<Frames> = Label::new("WRITE, again with more data than the path MTU");
const BEHIND: Label<Frames> = Label::new("WRITE behind duplicates that are wrong");
const FILL_ATOMIC: Label<Verbs> = Label::new("fill the memory for atomics");
const ATOMIC: [Label<Frames>; 2] = [Label::new("FetchAdd"), Label::new("FetchAdd, again")];
const RESULT_ATOMIC: Label<Verbs> = Label::new("read the memory after the atomics");
const AFTER: Label<Wait> = Label::new("after all requests");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// MSN after a SEND, two WRITEs and the READ. Duplicates do not change it.
const MESSAGES: u32 = 4;
const LENGTH: u32 = 64;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 20 * 1024;
/// Offsets of the receives and of the WRITEs.
const RECEIVES: [u32; 2] = [8, 136];
const WRITES: [u32; 3] = [264, 392, 520];
/// Offset of the READ.
const FROM: u32 = 1024;
/// Offset, initial value and operand of the FetchAdd.
const PLACE: u32 = 64;
const NUMBER: u64 = 0x0123_4567_89AB_CDEF;
const ADDED: u64 = 0x1111_0000_2222_0001;

pub(super) static TEST: Test = Test {
    id: "c09-duplicates",
    aliases: &[],
    revision: 3,
    about: "A duplicate is not executed: SEND and WRITE are acknowledged, READ is answered anew, an atomic as before.",
    reading: "The ACK of a duplicate has the PSN of the latest request, and the MSN does not advance. A READ is repeated \
        whole, and from its second packet to its end. The repeated FetchAdd is the latest atomic. An error in a duplicate \
        gets no NAK.",
    statements: &[
        DUPLICATES,
        MSN,
        "9.4.1 SEND and immediate",
        "9.5 transaction ordering",
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
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    for (wr_id, place) in (1..).zip(RECEIVES) {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (place, LENGTH))?;
    }
    let psn = |n: u32| channel.own_psn.plus(n);
    let payload = |t: &Tester<'_>, label: Label<Frames>| ask::random_bytes(t, label.name, LENGTH);
    let send = Message::send(&channel, psn(0), &payload(t, SEND[0]));
    ask::ask(t, &channel, SEND[0], &send)?;
    ask::ask(t, &channel, SEND[1], &send)?;
    let writes = [0, 1].map(|n| Message::write(&channel, psn(n as u32 + 1), WRITES[n], &payload(t, WRITE[n])));
    ask::ask(t, &channel, WRITE[0], &writes[0])?;
    ask::ask(t, &channel, WRITE[1], &writes[1])?;
    let bytes = ask::random_bytes(t, CHANGE[0].name, LENGTH);
    ask::fill(t, &channel, CHANGE[0], WRITES[0], bytes)?;
    ask::ask(t, &channel, WRITE[2], &writes[0])?;
    ask::ask(t, &channel, SEND[2], &send)?;
    let next = if t.executes(Operation::Read) {
        reads(t, &channel, psn(3))?
    } else {
        psn(3)
    };
    let last = Message::write(&channel, next, WRITES[2], &payload(t, LAST));
    ask::ask(t, &channel, LAST, &last)?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;

    let beside = would_be_refused(t)?;
    let channel = if t.executes(Operation::FetchAdd) {
        atomics(t)?
    } else {
        beside
    };
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

/// Sends a READ, changes the memory, and repeats the READ whole and in part. Returns the PSN after the READ.
fn reads(t: &mut Tester<'_>, channel: &Channel, first: Psn) -> Step<Psn> {
    let mtu = ask::mtu(channel);
    let read = Message::read(channel, first, FROM, 3 * mtu);
    ask::ask(t, channel, READ[0], &read)?;
    let bytes = ask::random_bytes(t, CHANGE[1].name, 3 * mtu);
    ask::fill(t, channel, CHANGE[1], FROM, bytes)?;
    ask::ask(t, channel, READ[1], &read)?;
    let tail = Message::read(channel, first.next(), FROM + mtu, 2 * mtu);
    ask::ask(t, channel, READ[2], &tail)?;
    let wrong = read.clone().changed(|packets| {
        packets[0].reth = packets[0]
            .reth
            .map(|reth| reth.with_r_key(RKey(reth.r_key().0 ^ 0x0004_0040)));
    });
    t.skip_packets();
    ask::insist(t, READ[3], &wrong.frames(channel)[0])?;
    ask::listen(t, channel)?;
    // The DUT may answer in several packets, or not at all.
    ask::drain(t)?;
    Ok(read.next())
}

/// Sends duplicates of WRITEs that the DUT would refuse if they were new.
fn would_be_refused(t: &mut Tester<'_>) -> Step<Channel> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: LENGTH,
        access: Some(ChannelOptions::default().memory_access),
    });
    let Reply::Memory(other) = t.verbs_must(OTHER, Side::Dut, register)? else {
        return Ok(channel);
    };
    let there = Channel {
        memory: Memory {
            handle: other.memory,
            address: other.address,
            r_key: RKey(other.r_key),
            length: LENGTH,
        },
        ..channel
    };
    let payload = ask::random_bytes(t, ELSEWHERE[0].name, LENGTH);
    let write = Message::write(&there, channel.own_psn, 0, &payload);
    let is_done = ask::ask(t, &channel, ELSEWHERE[0], &write)?;
    let deregister = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
    t.verbs_must(GONE, Side::Dut, deregister)?;
    // If the DUT did not execute the first WRITE, it rightly refuses the second.
    if is_done {
        ask::ask(t, &channel, ELSEWHERE[1], &write)?;
        let long = ask::random_bytes(t, OVERLONG.name, ask::mtu(&channel) + 4);
        let overlong = Message::write(&channel, channel.own_psn, WRITES[0], &payload).changed(|packets| {
            packets[0].payload = long;
        });
        // The device may acknowledge or drop the overlong duplicate.
        t.skip_packets();
        t.send_frame(OVERLONG, &overlong.frames(&channel)[0])?;
        ask::listen(t, &channel)?;
    }
    let last = Message::write(&channel, write.next(), WRITES[1], &payload);
    ask::ask(t, &channel, BEHIND, &last)?;
    ask::query(t, &channel, STATE)?;
    Ok(channel)
}

/// Sends a FetchAdd twice, on its own connection.
fn atomics(t: &mut Tester<'_>) -> Step<Channel> {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mut bytes = ask::random_bytes(t, "memory", LENGTH * 4);
    bytes[PLACE as usize..PLACE as usize + 8].copy_from_slice(&NUMBER.to_le_bytes());
    ask::fill(t, &channel, FILL_ATOMIC, 0, bytes)?;
    let add = Message::fetch_add(&channel, channel.own_psn, PLACE, ADDED);
    ask::ask(t, &channel, ATOMIC[0], &add)?;
    ask::ask(t, &channel, ATOMIC[1], &add)?;
    ask::read_memory(t, &channel, RESULT_ATOMIC, LENGTH * 4)?;
    Ok(channel)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::DuplicateAnswered, Rule::MemoryContent, Rule::ReceiveCompletes]);
    for label in [FILL, RECEIVE, CHANGE[0], RESULT, OTHER, GONE, STATE] {
        t.not_judged(label);
    }
    rc::came(t, &[SEND, WRITE].concat())?;
    rc::came(t, &[LAST, BEHIND])?;
    not_refused(t, f)?;
    if offers::executes(t, Operation::Read) {
        f.exercises(&[Rule::ReadContent]);
        rc::came(t, &READ)?;
        tail(t, f)?;
    } else {
        f.observe(
            "the device executes no READ: the test checked no duplicates of READs",
            &[],
        );
    }
    if offers::executes(t, Operation::FetchAdd) {
        t.not_judged(FILL_ATOMIC);
        t.not_judged(RESULT_ATOMIC);
        rc::came(t, &ATOMIC)?;
    }
    if offers::executes(t, Operation::FetchAdd) && has_atomics(t) {
        f.exercises(&[Rule::AtomicAgain]);
    } else {
        f.observe(
            "the device executes no FetchAdd: the test checked no duplicates of atomics",
            &[],
        );
    }
    t.waited(AFTER).map(drop)
}

/// Checks that no NAK answers a duplicate that the DUT would refuse if it were new.
fn not_refused(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    for label in [READ[3], ELSEWHERE[1], OVERLONG] {
        let Some(turn) = all.iter().find_map(|dialogue| answer::turn(t, dialogue, label)) else {
            continue;
        };
        let naks: Vec<rc::Seen<'_>> = turn
            .answers
            .iter()
            .copied()
            .filter(|seen| answer::nak_in(seen).is_some())
            .collect();
        let result = if naks.is_empty() { Passed::Pass } else { Passed::Fail };
        let words = ("no NAK", rc::in_words(&naks));
        f.prove(DUPLICATES, &turn.evidence(&naks), label.name, words, result);
    }
    Ok(())
}

/// Checks that the DUT answers the tail of a READ as a separate READ, from First to Last.
///
/// A rule sees only packets, so it cannot distinguish this response from the rest of the first response.
fn tail(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let dialogue = all.first().ok_or(Gap::Missing(READ[2].name))?;
    let turn = answer::turn(t, dialogue, READ[2]).ok_or(Gap::Missing(READ[2].name))?;
    let changed = effect::written(t.command(CHANGE[1])?);
    let data = changed.get(answer::mtu(dialogue) as usize..);
    let data = data.ok_or(Gap::Missing(CHANGE[1].name))?;
    answer::read_answered(t, f, (DUPLICATES, READ[2].name), (dialogue, &turn), (data, MESSAGES));
    Ok(())
}
