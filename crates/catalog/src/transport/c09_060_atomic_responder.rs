//! `c09-060-fetch-add-responder`, `c09-060-compare-swap-responder` (C09_060_09_01): the DUT executes atomics.
//!
//! The peer sends five atomics, each after the response to the previous atomic. The operands reveal errors in carries
//! beyond 32 bits, in comparisons of the upper half, and in the byte order. The DUT answers each atomic with one ATOMIC
//! ACKNOWLEDGE, which carries the request's PSN, the original value, and the MSN of the message. The memory then holds
//! the results, and nothing else changed.
//!
//! Then the peer sends 64 more atomics to another address. The compare operand of each CmpSwap differs from the
//! stored value in one bit, so the CmpSwap stores nothing. The FetchAdds add random numbers.
//!
//! Reading: the public description of C09_060_09_01 does not show the operand of its second CmpSwap, so the test
//! tries both outcomes of a comparison. Numbers are big-endian on the wire and native in memory. The test reads
//! memory as little-endian, as on x86 and most Arm hosts. The test is NOT_APPLICABLE to a device without atomics.
//!
//! False alarm: a big-endian host fails "9.4.5 atomics", and the memory shows why.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::Reply;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions, labels};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, Psn};

use crate::transport::rc;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};

const ATOMICS: &str = "9.4.5 atomics";

const FILL: Label<Verbs> = Label::new("fill the memory");
const REQUESTS: [Label<Frames>; 5] = [
    Label::new("first atomic"),
    Label::new("second atomic"),
    Label::new("third atomic"),
    Label::new("fourth atomic"),
    Label::new("fifth atomic, on the place of the first"),
];
const MORE: Label<Frames> = Label::new("further atomics");
const AFTER: Label<Wait> = Label::new("after all atomics");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 1024;
/// Offsets of the atomics, with random bytes around them.
const PLACES: [u32; 5] = [64, 128, 192, 256, 64];
/// Values at the first four offsets before the atomics.
const NUMBERS: [u64; 4] = [
    0x0123_4567_FFFF_FFFF,
    0xFFFF_FFFF_FFFF_FFFE,
    0xFF2D_B500_1E58_B3E7,
    0x8000_0000_0000_0001,
];
/// Offset of the further atomics.
const PLACE_OF_MORE: u32 = 320;
/// Number of further atomics: one for each bit.
const BITS: u32 = u64::BITS;
/// Operands of FetchAdd: a carry into the upper half, a carry out of 64 bits, the upper half alone, and all bits. The
/// last operand is added to the first number again.
const ADDED: [u64; 5] = [1, 5, 0x0102_0304_0000_0000, 0x7FFF_FFFF_FFFF_FFFF, 0x10];
/// Compare and swap operands of CmpSwap: equal; upper half differs; lower half differs; equal, stores 0; equal to
/// the value that the first CmpSwap stored.
const SWAPPED: [(u64, u64); 5] = [
    (NUMBERS[0], 0x1122_3344_5566_7788),
    (NUMBERS[1] & 0xFFFF_FFFF, 1),
    (NUMBERS[2] ^ 0x10, 2),
    (NUMBERS[3], 0),
    (0x1122_3344_5566_7788, 0x0807_0605_0403_0201),
];

const READING: &str = "Five atomics and 64 more, each sent after the response to the one before. Each gets one ATOMIC \
    ACKNOWLEDGE with its PSN, the original value, and the MSN of the message. The test compares the whole memory, with \
    little-endian numbers. NOT_APPLICABLE to a device without atomics.";

pub(super) static FETCH_ADD: Test = Test {
    id: "c09-060-fetch-add-responder",
    aliases: &[],
    revision: 3,
    about: "The DUT executes FetchAdds of 64 bits, and returns the original value.",
    reading: READING,
    statements: &[
        ATOMICS,
        "9.5 transaction ordering",
        ACKNOWLEDGEMENT,
        MSN,
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: |t| procedure(t, Opcode::RC_FETCH_ADD),
    judge,
};

pub(super) static COMPARE_SWAP: Test = Test {
    id: "c09-060-compare-swap-responder",
    aliases: &["C09_060_09_01"],
    about: "The DUT swaps 64 bits when they compare equal, and returns the original value.",
    procedure: |t| procedure(t, Opcode::RC_COMPARE_SWAP),
    ..FETCH_ADD
};

fn request(channel: &Channel, opcode: Opcode, psn: Psn, n: usize) -> Message {
    if opcode == Opcode::RC_FETCH_ADD {
        Message::fetch_add(channel, psn, PLACES[n], ADDED[n])
    } else {
        Message::compare_swap(channel, psn, PLACES[n], SWAPPED[n])
    }
}

/// Builds one of the further atomics: a CmpSwap that differs from the stored value in one bit, or a FetchAdd.
fn further(channel: &Channel, opcode: Opcode, (bit, stands): (u32, u64), number: u64) -> Message {
    let psn = channel.own_psn.plus(REQUESTS.len() as u32 + bit);
    if opcode == Opcode::RC_FETCH_ADD {
        Message::fetch_add(channel, psn, PLACE_OF_MORE, number)
    } else {
        Message::compare_swap(channel, psn, PLACE_OF_MORE, (stands ^ 1 << bit, number))
    }
}

fn word(bytes: &[u8], place: u32) -> Option<u64> {
    let bytes = bytes.get(place as usize..place as usize + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn procedure(t: &mut Tester<'_>, opcode: Opcode) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mut bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    for (place, number) in PLACES.into_iter().zip(NUMBERS) {
        bytes[place as usize..place as usize + 8].copy_from_slice(&number.to_le_bytes());
    }
    let stands = word(&bytes, PLACE_OF_MORE).unwrap_or_default();
    ask::fill(t, &channel, FILL, 0, bytes)?;
    for (n, label) in REQUESTS.into_iter().enumerate() {
        let message = request(&channel, opcode, channel.own_psn.plus(n as u32), n);
        ask::ask(t, &channel, label, &message)?;
    }
    let numbers = ask::random_bytes(t, MORE.name, BITS * 8);
    for bit in 0..BITS {
        // The first FetchAdd adds 0.
        let number = word(&numbers, bit * 8).filter(|_| bit > 0).unwrap_or_default();
        let message = further(&channel, opcode, (bit, stands), number);
        ask::ask(t, &channel, MORE, &message)?;
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

/// Returns whether the device reports support for atomics.
pub(super) fn has_atomics(t: &Trace) -> bool {
    t.commands(labels::OPEN)
        .any(|open| matches!(rc::reply(open), Some(Reply::Opened(facts)) if facts.atomics))
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !has_atomics(t) {
        f.not_applicable = Some("the device says that it has no atomics".into());
        return Ok(());
    }
    f.exercises(&[
        Rule::RequestAnswered,
        Rule::AtomicOriginal,
        Rule::Msn,
        Rule::MemoryContent,
    ]);
    for label in [FILL, RESULT, STATE] {
        t.not_judged(label);
    }
    REQUESTS
        .into_iter()
        .chain([MORE])
        .try_for_each(|label| rc::answered(t, label))?;
    t.waited(AFTER).map(drop)
}
