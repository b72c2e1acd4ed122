//! `c09-receives`: the peer's messages fill receives in order, and each completion describes its message.
//!
//! No other memory changes. On one connection the peer sends SENDs of no byte, one byte, one packet and three
//! packets, with and without immediate data. Between them it sends WRITEs with Immediate, and one WRITE without
//! immediate data. The order of the receives in memory differs from their posting order. Then the peer sends SENDs
//! and WRITEs to addresses of all eight alignments modulo 8; the WRITEs cross the end of a page. Last comes an
//! empty SEND for an empty receive. The rules of the oracle judge receives and memory, in simulation and on
//! hardware.
//!
//! Reading: a WRITE with Immediate leaves the buffer of its receive unchanged.
//!
//! False alarm: none known.

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};

use crate::transport::rc;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::refusal::ERRORS;

const IMMEDIATE: &str = "9.4.1 SEND and immediate";
const ORDER: &str = "9.5 transaction ordering";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("message of the peer");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of a receive in bytes, and the slots of the receives in posting order.
const SLOT: u32 = 4096;
const PLACES: [u32; 9] = [3, 1, 6, 0, 5, 2, 7, 4, 8];
/// Offset of the WRITEs.
const TARGET: u32 = 40 * 1024;
/// Number of receives that complete.
const RECEIVES: usize = PLACES.len() + PLACES_IN_WORD as usize + 1;
/// Number of alignments, for hosts and devices that move eight bytes at a time.
const PLACES_IN_WORD: u32 = 8;
/// Offset within a slot of the receives at each alignment, after the data of the slot's first receive.
const BEHIND: u32 = 3200;
/// Length of the messages to these receives, in bytes.
const LENGTH: u32 = 61;

pub(super) static TEST: Test = Test {
    id: "c09-receives",
    aliases: &[],
    revision: 3,
    about: "Messages fill receives in order, each completion describes its message, and all other memory is unchanged.",
    reading: "The test checks opcode, length and immediate data of each receive. Memory outside the messages stays as \
        the host wrote it, to the end of the region.",
    statements: &[IMMEDIATE, ORDER, ERRORS, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", channel.memory.length);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    for (wr_id, place) in (1..).zip(PLACES) {
        ask::post_receive(t, &channel, RECEIVE, wr_id, (place * SLOT, SLOT))?;
    }
    let mtu = ask::mtu(&channel);
    let mut psn = channel.own_psn;
    // Length in bytes, whether it is a WRITE, immediate data.
    let messages = [
        (64, false, None),
        (0, false, None),
        (2 * mtu + 5, false, Some(0x0102_0304)),
        (mtu, true, None),
        (1, true, Some(0xFFFF_FFFF)),
        (mtu, false, None),
        (0, true, Some(0)),
        (3 * mtu, true, Some(0x8000_0001)),
        (SLOT.min(3 * mtu), false, None),
        (1, false, Some(0x7FFF_FFFE)),
    ];
    for (length, is_write, imm) in messages {
        let payload = ask::random_bytes(t, &format!("{length} bytes"), length);
        let message = if is_write {
            Message::write(&channel, psn, TARGET, &payload)
        } else {
            Message::send(&channel, psn, &payload)
        };
        let message = match imm {
            Some(imm) => message.with_imm(imm),
            None => message,
        };
        ask::ask(t, &channel, SENT, &message)?;
        psn = message.next();
    }
    // The order is ascending, so that no WRITE covers the beginning of an earlier WRITE.
    for place in 0..PLACES_IN_WORD {
        let receive = place * SLOT + BEHIND + place;
        ask::post_receive(
            t,
            &channel,
            RECEIVE,
            (PLACES.len() as u32 + place + 1).into(),
            (receive, LENGTH),
        )?;
        let payload = ask::random_bytes(t, &format!("place {place}"), 2 * LENGTH);
        let (sent, written) = payload.split_at(LENGTH as usize);
        let send = Message::send(&channel, psn, sent);
        ask::ask(t, &channel, SENT, &send)?;
        let across = TARGET + SLOT - PLACES_IN_WORD + place;
        let write = Message::write(&channel, send.next(), across, written);
        ask::ask(t, &channel, SENT, &write)?;
        psn = write.next();
    }
    // An empty receive holds an empty message.
    ask::post_receive(t, &channel, RECEIVE, RECEIVES as u64, (0, 0))?;
    let empty = Message::send(&channel, psn, &[]).with_imm(0x0000_0100);
    ask::ask(t, &channel, SENT, &empty)?;
    // A host may report a completion after the DUT acknowledged the message.
    for _ in 0..RECEIVES {
        if t.next_completion(Side::Dut, channel.qp, t.now().after(ask::RESPONSE_WAIT))?
            .is_none()
        {
            break;
        }
    }
    ask::read_memory(t, &channel, RESULT, channel.memory.length)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::ReceiveOrder,
        Rule::ReceiveFields,
        Rule::SendRefused,
        Rule::MemoryContent,
        Rule::Frame,
        Rule::UdpChecksum,
    ]);
    for label in [FILL, RECEIVE, STATE] {
        t.not_judged(label);
    }
    let all = rc::dialogues(t)?;
    let (dialogue, read) = (all.first().ok_or(Gap::Missing(SENT.name))?, t.command(RESULT)?);
    let done = dialogue.completions_between(dialogue.places.0, read.place);
    let result = match done.len() == RECEIVES {
        true => Passed::Pass,
        false if t.begin.simulated => rc::alive(t, read.place, true),
        // A message may have been lost.
        false => Passed::Inconclusive,
    };
    let words = (format!("{RECEIVES} completed"), format!("{} completed", done.len()));
    f.prove(IMMEDIATE, &rc::evidence(&done), "receives", words, result);
    rc::came(t, &[SENT])
}
