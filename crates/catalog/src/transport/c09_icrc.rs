//! `c09-icrc`: the DUT drops a packet with a wrong ICRC silently; fields that the ICRC does not cover may change.
//!
//! For every byte that the ICRC covers, and for the ICRC itself, the peer sends a WRITE with one flipped bit, three
//! times. The DUT sends no response. Then the DUT acknowledges a valid WRITE with the same PSN and other data, and its
//! memory shows only that WRITE. Then the peer flips bits that may change on the path: in DSCP, ECN, hop limit, flow
//! label, FECN, BECN and the adjacent reserved bits. The DUT acknowledges each of these WRITEs.
//!
//! Reading: the peer corrects the IPv4 checksum after each flip, so that only the ICRC is wrong. The ICRC does not
//! cover the IPv4 and UDP checksums either. The test does not flip their bits, because another layer drops packets with
//! a wrong checksum. The test does not try a hop limit of 0. CNPs are no responses.
//!
//! False alarm: a switch may drop packets by DSCP or ECN. Then WRITEs with a flipped uncovered bit stay unacknowledged.

use core::time::Duration;

use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Parameter, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Medium, Offsets, Opcode, Packet, Psn, Service};

use crate::transport::rc;
use crate::transport::rc::answer;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::effect;

const FILL: Label<Verbs> = Label::new("fill the memory");
const COVERED: Label<Frames> = Label::new("WRITE with one bit flipped that the ICRC covers");
const LATE: Label<Wait> = Label::new("after the packets with a wrong ICRC");
const SOUND: Label<Frames> = Label::new("sound WRITE");
const MASKED: Label<Frames> = Label::new("WRITE with one bit flipped that the ICRC does not cover");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

const LENGTH: u32 = 16;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 4096;
/// Wait for a response after each flip, so that the packet that caused a response is known.
const MOMENT: Duration = Duration::from_millis(1);

const fn place(n: u32) -> u32 {
    n * 32 + 8
}

const PARAMETERS: &[Parameter] = &[Parameter {
    name: "bits",
    about: "bits that are flipped in each byte, one at a time",
    range: (1, 8),
    simulated: 8,
    default: 1,
}];

pub(super) static TEST: Test = Test {
    id: "c09-icrc",
    aliases: &[],
    revision: 1,
    about: "A packet with one flipped bit is dropped in silence if the ICRC covers the bit, and accepted otherwise.",
    reading: "Every covered byte, `bits` bits of each: no answer, and memory unchanged. Masked bits of the IP header \
        and of the BTH: acknowledged. The peer corrects the IPv4 checksum after each flip.",
    statements: &[rc::ICRC, answer::MSN, rc::GENERATION],
    needs: &[Need::Packets],
    parameters: PARAMETERS,
    procedure,
    judge,
};

/// Builds a valid frame. Returns it with the offsets of its headers.
fn sound(channel: &Channel, psn: Psn, n: u32, payload: &[u8]) -> Option<(Vec<u8>, Offsets)> {
    let message = Message::write(channel, psn, place(n), payload);
    let frame = message.frames(channel).pop()?;
    let offsets = Packet::parse(Medium::Ethernet, &frame).ok()?.offsets();
    Some((frame, offsets))
}

/// Returns the frame with one bit flipped and the IPv4 checksum corrected.
fn flipped(frame: &[u8], offsets: &Offsets, (byte, bit): (usize, u32)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[byte] ^= 1 << bit;
    offsets.mend_ip_checksum(&mut frame);
    frame
}

/// Returns whether the ICRC covers this bit.
fn is_covered(frame: &[u8], offsets: &Offsets, at: (usize, u32)) -> bool {
    let Some(icrc) = offsets.icrc else { return false };
    let mut mended = flipped(frame, offsets, at);
    offsets.mend_icrc(&mut mended);
    at.0 >= icrc || mended[icrc..icrc + 4] != frame[icrc..icrc + 4]
}

/// Returns whether flipping this bit makes a reserved opcode of the RC class.
///
/// The DUT would drop a packet with this opcode for its opcode, not for its ICRC. A reserved opcode also makes the
/// kernel of Linux rxe panic; see `c09-nak-reserved-opcode`. The peer then flips the bit in a SEND Only, whose
/// opcode stays defined.
fn gives_reserved_opcode(frame: &[u8], offsets: &Offsets, (byte, bit): (usize, u32)) -> bool {
    let opcode = Opcode(frame[byte] ^ (1 << bit));
    byte == offsets.bth && opcode.service() == Service::Rc && !opcode.is_request() && !opcode.is_response()
}

/// Returns whether a byte belongs to a checksum of another layer.
fn is_checksum(offsets: &Offsets, byte: usize) -> bool {
    let ip = offsets.ipv4.is_some_and(|at| (at + 10..at + 12).contains(&byte));
    ip || offsets.udp.is_some_and(|at| (at + 6..at + 8).contains(&byte))
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let bits = t.parameter("bits") as u32;
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let mut psn = channel.own_psn;
    let payload = ask::random_bytes(t, COVERED.name, LENGTH);
    let Some((frame, offsets)) = sound(&channel, psn, 0, &payload) else {
        return Ok(());
    };
    let Some(send) = Message::send(&channel, psn, &payload).frames(&channel).pop() else {
        return Ok(());
    };
    let start = offsets.ipv4.or(offsets.ipv6).unwrap_or(offsets.bth);
    let mut random = t.random("bits");
    let mut masked = Vec::new();
    for byte in start..offsets.end {
        let from = if bits == 8 { 0 } else { random.between(0, 7) as u32 };
        let chosen = (0..8).map(|at| (byte, (from + at) % 8));
        let (covered, other): (Vec<_>, Vec<_>) = chosen.partition(|at| is_covered(&frame, &offsets, *at));
        for at in covered.into_iter().take(bits as usize) {
            let of = if gives_reserved_opcode(&frame, &offsets, at) {
                &send
            } else {
                &frame
            };
            let wrong = flipped(of, &offsets, at);
            if !t.executes_frame(&wrong) {
                // The flipped bit gives the opcode of an operation that the device lacks.
                continue;
            }
            ask::insist(t, COVERED, &wrong)?;
            t.next_packet(t.now().after(MOMENT))?;
        }
        if !is_checksum(&offsets, byte) {
            masked.extend(other.into_iter().take(bits as usize));
        }
    }
    t.wait_for(LATE, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    let payload = ask::random_bytes(t, SOUND.name, LENGTH);
    ask::ask(t, &channel, SOUND, &Message::write(&channel, psn, place(0), &payload))?;
    for (n, at) in (1u32..).zip(masked) {
        psn = psn.next();
        let payload = ask::random_bytes(t, MASKED.name, LENGTH);
        let Some((frame, offsets)) = sound(&channel, psn, n, &payload) else {
            continue;
        };
        let frame = flipped(&frame, &offsets, at);
        let hops = offsets
            .ipv4
            .map_or_else(|| offsets.ipv6.map(|at| at + 7), |at| Some(at + 8));
        if hops.is_some_and(|hops| frame[hops] == 0) {
            psn = psn.minus(1);
            continue;
        }
        for _ in 0..verbatim_record::TRIES {
            t.skip_packets();
            t.send_frame(MASKED, &frame)?;
            if acknowledged(t, &channel, psn)? {
                break;
            }
        }
    }
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn acknowledged(t: &mut Tester<'_>, channel: &Channel, psn: Psn) -> Step<bool> {
    let until = t.now().after(ask::soon(t));
    while let Some(received) = t.next_packet(until)? {
        let bth = received.packet().bth();
        if bth.dest_qp() == channel.own_qpn && bth.opcode() == Opcode::RC_ACKNOWLEDGE && bth.psn() == psn {
            return Ok(true);
        }
    }
    Ok(false)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let dialogue = &all[0];
    rc::sound_packets(f, dialogue);
    let (wait, _) = (t.waited(LATE)?, t.command(STATE)?);
    let wrong: Vec<&FrameSeen> = t.frames(COVERED).collect();
    let first = wrong.first().ok_or(Gap::Missing(COVERED.name))?;
    let answers = dialogue.of_dut_between(first.place, wait.place);
    let answer = answers.iter().find(|seen| seen.packet.opcode() != Opcode::CNP);
    let mut evidence = Vec::new();
    let (seen, result) = match answer {
        Some(answer) => {
            // A response comes within `MOMENT`, so the last packet before it is the cause.
            let cause = wrong.iter().rev().find(|frame| frame.place < answer.frame.place);
            evidence.extend(cause.map(|frame| Evidence::from(*frame)));
            evidence.push(answer.frame.into());
            (answer.packet.to_string(), Passed::Fail)
        }
        None if answer::proves_silence(t, wait) => ("no answer".into(), Passed::Pass),
        None => (
            "no answer, but the record does not show that the DUT was alive".into(),
            Passed::Inconclusive,
        ),
    };
    let about = format!("{} packets with a wrong ICRC", wrong.len());
    let silent = f.prove(rc::ICRC, &evidence, &about, ("no answer", seen), result);
    let turn = answer::turn(t, dialogue, SOUND).ok_or(Gap::Missing(SOUND.name))?;
    let mut memory = effect::written(t.command(FILL)?).to_vec();
    effect::put(&mut memory, place(0), &turn.payload());
    let taken = answer::acknowledged(t, f, (rc::ICRC, SOUND.name), (dialogue, &turn), (turn.last_sent(), 1));
    let masked: Vec<rc::Seen<'_>> = {
        t.not_judged(MASKED);
        let is_masked = |seen: &&rc::Seen<'_>| !seen.frame.received && seen.frame.label == MASKED.name;
        dialogue.packets.iter().filter(is_masked).copied().collect()
    };
    if !(silent && taken) {
        let _ = t.command(RESULT)?;
        return Ok(());
    }
    let mut all_taken = true;
    for n in 1..=masked.last().map_or(0, |last| last.psn().since(turn.last_sent())) {
        let psn = turn.last_sent().plus(n);
        let tries: Vec<&rc::Seen<'_>> = masked.iter().filter(|seen| seen.psn() == psn).collect();
        let Some(first) = tries.first() else { continue };
        // The offsets of the WRITEs count all chosen bits, including the bits that the peer did not try.
        if let Some(reth) = first.packet.reth() {
            let at = reth.va().0.wrapping_sub(dialogue.memory.0);
            effect::put(
                &mut memory,
                u32::try_from(at).unwrap_or(u32::MAX),
                first.packet.payload(),
            );
        }
        let ack = dialogue
            .of_dut()
            .find(|seen| seen.frame.place > first.frame.place && answer::is_ack(seen) && seen.psn() == psn);
        let result = match ack {
            Some(_) => Passed::Pass,
            None => rc::alive(t, first.frame.place, tries.len() >= verbatim_record::TRIES as usize),
        };
        let mut evidence: Vec<Evidence<'_>> = vec![first.frame.into()];
        evidence.extend(ack.map(|ack| Evidence::from(ack.frame)));
        let words = (
            format!("ACK of PSN {psn}"),
            if ack.is_some() { "the ACK" } else { "no ACK" },
        );
        all_taken &= f.prove(rc::ICRC, &evidence, MASKED.name, words, result);
        if !all_taken {
            break;
        }
    }
    let read = t.command(RESULT)?;
    if all_taken {
        let words = (
            "the payload of each valid WRITE at its address, all other bytes unchanged",
            memory.as_slice(),
        );
        effect::memory_is(f, (rc::ICRC, "memory of the DUT"), read, words);
    }
    Ok(())
}
