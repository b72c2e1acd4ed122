//! `c09-nak-remote-access`: a queue pair refuses a request that the memory region does not allow, and does not execute
//! it.
//!
//! Each case has its own connection, and follows a valid SEND. The cases are a wrong R_Key, an address outside the
//! region, a missing right, and a deregistered region, each with WRITE, READ and FetchAdd. The DUT answers each
//! request with one NAK 0x62, a remote access error.
//!
//! Reading: the R_Key of a WRITE or READ of no bytes is not checked, so the DUT executes these requests. The agent has
//! no command for a second protection domain, so the test does not try a region of another domain.
//!
//! False alarm: a wrong R_Key may by chance belong to another region of the same protection domain. The test flips two
//! bits, to avoid neighbours in the table of keys.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode, RKey, Transport};
use verbatim_wire::values::Hex64;

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message, mtu};
use crate::transport::rc::refusal::{self, ERRORS, Refusal, TARGET};
use crate::transport::rc::{self, offers};

pub(super) const ACCESS: &str = "9.7.5.2.5 remote access";

const NO_BYTES_WRITE: Label<Frames> = Label::new("WRITE of no bytes with a wrong R_Key");
const NO_BYTES_READ: Label<Frames> = Label::new("READ of no bytes with a wrong R_Key");
const SILENT: Label<Wait> = Label::new("after the requests of no bytes");
const STATE: Label<Verbs> = Label::new("state of the queue pair after the requests of no bytes");

const CODE: &[NakCode] = &[NakCode::REMOTE_ACCESS];
/// Length of the region in bytes.
const MEMORY: u32 = 64 * 1024;
/// Offset from which 64 bytes reach beyond the region.
const BEYOND: u32 = MEMORY - 32;
const LENGTH: u32 = 64;
/// Operand of FetchAdd.
const ADDED: u64 = 0x0101_0101_0101_0101;

fn payload() -> Vec<u8> {
    (1..=LENGTH as u8).collect()
}

/// Returns the packets with a wrong R_Key.
fn wrong_key(mut packets: Vec<Transport>) -> Vec<Transport> {
    let wrong = |key: RKey| RKey(key.0 ^ 0x0004_0040);
    for packet in &mut packets {
        packet.reth = packet.reth.map(|reth| reth.with_r_key(wrong(reth.r_key())));
        packet.atomic = packet.atomic.map(|atomic| atomic.with_r_key(wrong(atomic.r_key())));
    }
    packets
}

/// Sets DMALen of the first packet to the longest length that conforms.
fn longest(mut packets: Vec<Transport>) -> Vec<Transport> {
    packets[0].reth = packets[0].reth.map(|reth| reth.with_dma_len(1 << 31));
    packets
}

/// Returns the packets with an address this many bytes before the region.
fn before(channel: &Channel, mut packets: Vec<Transport>, bytes: u64) -> Vec<Transport> {
    let va = Hex64(channel.memory.address.wrapping_sub(bytes));
    for packet in &mut packets {
        packet.reth = packet.reth.map(|reth| reth.with_va(va));
        packet.atomic = packet.atomic.map(|atomic| atomic.with_va(va));
    }
    packets
}

static CASES: &[Refusal] = &[
    Refusal::new("WRITE with a wrong R_Key", CODE, |c, psn| {
        wrong_key(Message::write(c, psn, TARGET, &payload()).packets)
    }),
    Refusal::new("READ with a wrong R_Key", CODE, |c, psn| {
        wrong_key(Message::read(c, psn, TARGET, LENGTH).packets)
    }),
    Refusal::new("FetchAdd with a wrong R_Key", CODE, |c, psn| {
        wrong_key(Message::fetch_add(c, psn, TARGET, ADDED).packets)
    })
    .atomic(),
    Refusal::new("WRITE that reaches beyond the region", CODE, |c, psn| {
        Message::write(c, psn, BEYOND, &payload()).packets
    }),
    Refusal::new("READ that reaches beyond the region", CODE, |c, psn| {
        Message::read(c, psn, BEYOND, LENGTH).packets
    }),
    Refusal::new("FetchAdd behind the region", CODE, |c, psn| {
        Message::fetch_add(c, psn, MEMORY, ADDED).packets
    })
    .atomic(),
    // A message of the longest allowed length is no invalid request, so the DUT must report the access error.
    Refusal::new("WRITE First of 2^31 bytes, beyond the region", CODE, |c, psn| {
        let mut packets = Message::write(c, psn, BEYOND, &vec![0x5A; 2 * mtu(c) as usize]).packets;
        packets.truncate(1);
        longest(packets)
    }),
    Refusal::new("READ of 2^31 bytes, beyond the region", CODE, |c, psn| {
        longest(Message::read(c, psn, BEYOND, LENGTH).packets)
    }),
    Refusal::new("WRITE that begins before the region", CODE, |c, psn| {
        before(c, Message::write(c, psn, TARGET, &payload()).packets, 8)
    }),
    Refusal::new("READ that begins before the region", CODE, |c, psn| {
        before(c, Message::read(c, psn, TARGET, LENGTH).packets, 8)
    }),
    Refusal::new("WRITE to a region without that right", CODE, |c, psn| {
        Message::write(c, psn, TARGET, &payload()).packets
    })
    .on(|options| options.memory_access.remote_write = false),
    Refusal::new("READ of a region without that right", CODE, |c, psn| {
        Message::read(c, psn, TARGET, LENGTH).packets
    })
    .on(|options| options.memory_access.remote_read = false),
    Refusal::new("FetchAdd on a region without that right", CODE, |c, psn| {
        Message::fetch_add(c, psn, TARGET, ADDED).packets
    })
    .on(|options| options.memory_access.remote_atomic = false)
    .atomic(),
    Refusal::new("WRITE to a region that was deregistered", CODE, |c, psn| {
        Message::write(c, psn, TARGET, &payload()).packets
    })
    .deregistered(),
    Refusal::new("READ of a region that was deregistered", CODE, |c, psn| {
        Message::read(c, psn, TARGET, LENGTH).packets
    })
    .deregistered(),
    Refusal::new("FetchAdd on a region that was deregistered", CODE, |c, psn| {
        Message::fetch_add(c, psn, TARGET, ADDED).packets
    })
    .deregistered()
    .atomic(),
];

pub(super) static TEST: Test = Test {
    id: "c09-nak-remote-access",
    aliases: &[],
    revision: 4,
    about: "A request that a memory region does not allow gets one NAK 0x62, is not executed, and moves the queue pair \
        to error.",
    reading: "Each case on a connection of its own, behind a sound SEND: one NAK 0x62 with the PSN of the request and \
        MSN 1; then ERR, silence, and the memory as it was. The R_Key of a WRITE or READ of no bytes is not checked. \
        If no answer comes, the test tries again, three times in all.",
    statements: &[ACCESS, ERRORS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    refusal::procedure(t, CASES)?;
    let channel = t.open_channel(&ChannelOptions::default())?;
    let psn = channel.own_psn;
    let change = |packets: &mut Vec<Transport>| *packets = wrong_key(core::mem::take(packets));
    let write = Message::write(&channel, psn, TARGET, &[]).changed(change);
    ask::ask(t, &channel, NO_BYTES_WRITE, &write)?;
    if t.executes(Operation::Read) {
        let read = Message::read(&channel, psn.next(), TARGET, 0).changed(change);
        ask::ask(t, &channel, NO_BYTES_READ, &read)?;
    }
    t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::RemoteAccess, Rule::NakCode]);
    refusal::judge(t, f, ACCESS, CASES, has_atomics(t))?;
    rc::answered(t, NO_BYTES_WRITE)?;
    if offers::executes(t, Operation::Read) {
        rc::answered(t, NO_BYTES_READ)?;
    }
    t.command(STATE).map(drop)
}
