//! `c09-060-OPERATION` (C09_060_01, _03, _05, _07, _09): a requester completes a request only when its own response has
//! come, and then it does.
//!
//! The DUT posts two requests. Without a response neither may complete; the response to the first completes the first
//! alone; the second stays outstanding, and is flushed when the queue pair is moved to error. A READ does not complete
//! before its last response. Original values of atomics land in the buffer as numbers of the host: big-endian on the
//! wire, native in memory; the test reads them as little-endian, as on x86 and most Arm hosts.
//! Reading: the public page's "Send First, Middle, Last" for atomics is a slip; the second request not seen before the
//! first is answered is legal (one request outstanding at a time), then nothing is claimed of it: INCONCLUSIVE.
//! The ACK timeout is off, so that nothing is sent again.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Aeth, AtomicAckEth, Opcode, Psn, Syndrome, Transport};
use verbatim_wire::values::Hex64;

use crate::transport::rc::{self, Dialogue, Seen, effect};

const COMPLETION: &str = "C9-60";
const DATA: &str = "9.7.6.1.1 response data";

const FILL: Label<Verbs> = Label::new("fill the memory");
const POST: [Label<Verbs>; 2] = [
    Label::new("post the first request"),
    Label::new("post the second request"),
];
const UNANSWERED: Label<Wait> = Label::new("before any response");
const PART: Label<Frames> = Label::new("all but the last response to the first");
const INCOMPLETE: Label<Wait> = Label::new("before the last response to the first");
const RESPONSE: Label<Frames> = Label::new("response to the first");
const AGAIN: Label<Frames> = Label::new("response to the first, again");
const SECOND: Label<Wait> = Label::new("the second stays outstanding");
const RESULT: Label<Verbs> = Label::new("read the memory");
const CLOSE: Label<Verbs> = Label::new("move the queue pair to error");
const FLUSHED: Label<Wait> = Label::new("after the queue pair was moved to error");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Packets of a message.
const PACKETS: u32 = 3;
/// Where results land, behind what is sent.
const RESULTS: u32 = 32 * 1024;
/// Bytes of the memory that are filled before, and looked at after.
const LOOKED_AT: u32 = 48 * 1024;
/// Where the tester's memory would be, for READ, WRITE and atomics; the tester has none, and needs none.
const REMOTE: u64 = 0x0099_9000;
const R_KEY: u32 = 0x0001_2345;
/// What an ATOMIC ACKNOWLEDGE says that the memory held.
const ORIGINAL: u64 = 0xFF2D_B500_1E58_B3E7;
/// How long a completion may take to be told.
const SOON: Duration = Duration::from_secs(5);

const READING: &str = "Two requests; the response to the first alone. Exactly one completion, of the first, with \
    success, after its last response and not before; none of the second until the queue pair is moved to error, then \
    IBV_WC_WR_FLUSH_ERR. No completion is proven by two seconds. A second request that is not seen is INCONCLUSIVE.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
    FetchAdd,
    CompareSwap,
}

macro_rules! tests {
    ($($name:ident $kind:ident $id:literal $alias:literal $about:literal)*) => {
        $(
            #[doc = $about]
            pub(super) static $name: Test = Test {
                id: $id,
                aliases: &[$alias],
                revision: 1,
                about: $about,
                reading: READING,
                statements: &[COMPLETION, DATA, rc::GENERATION, rc::ICRC],
                needs: &[Need::Packets],
                parameters: &[],
                procedure: |t| procedure(t, Kind::$kind),
                judge: |t, f| judge(t, f, Kind::$kind),
            };
        )*
    };
}
tests! {
    SEND Send "c09-060-send" "C09_060_01" "A SEND completes when its last packet is acknowledged, not before."
    WRITE Write "c09-060-write" "C09_060_03" "An RDMA WRITE completes when its last packet is acknowledged, not before."
    READ Read "c09-060-read" "C09_060_05" "An RDMA READ completes when its whole response has come, not before."
    FETCH_ADD FetchAdd "c09-060-fetch-add" "C09_060_07" "A FetchAdd completes when its ATOMIC ACKNOWLEDGE has come, not before."
    COMPARE_SWAP CompareSwap "c09-060-compare-swap" "C09_060_09" "A CmpSwap completes when its ATOMIC ACKNOWLEDGE has come, not before."
}

impl Kind {
    fn operation(self) -> pb::Operation {
        match self {
            Self::Send => pb::Operation::Send,
            Self::Write => pb::Operation::Write,
            Self::Read => pb::Operation::Read,
            Self::FetchAdd => pb::Operation::FetchAdd,
            Self::CompareSwap => pb::Operation::CompareSwap,
        }
    }

    fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    fn has_response_data(self) -> bool {
        self.is_atomic() || self == Self::Read
    }

    /// Bytes of each request.
    fn length(self, mtu: u32) -> u32 {
        if self.is_atomic() { 8 } else { PACKETS * mtu - 4 }
    }

    /// Opcodes of the packets of one request.
    fn opcodes(self) -> &'static [Opcode] {
        match self {
            Self::Send => &[Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST],
            Self::Write => &[Opcode::RC_WRITE_FIRST, Opcode::RC_WRITE_MIDDLE, Opcode::RC_WRITE_LAST],
            Self::Read => &[Opcode::RC_READ_REQUEST],
            Self::FetchAdd => &[Opcode::RC_FETCH_ADD],
            Self::CompareSwap => &[Opcode::RC_COMPARE_SWAP],
        }
    }

    /// PSNs that one request takes: a READ takes one for each response.
    fn psns(self) -> u32 {
        if self.is_atomic() { 1 } else { PACKETS }
    }
}

/// What the responses to a READ carry.
fn response_data(t: &Tester<'_>, length: u32) -> Vec<u8> {
    let mut random = t.random("response");
    (0..length).map(|_| random.byte()).collect()
}

fn procedure(t: &mut Tester<'_>, kind: Kind) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mtu = channel.mtu.bytes().unwrap_or(256);
    let mut random = t.random("memory");
    let fill = Command::WriteMemory(pb::WriteMemory {
        memory: channel.memory.handle,
        offset: 0,
        bytes: (0..LOOKED_AT).map(|_| random.byte()).collect(),
    });
    t.verbs_must(FILL, Side::Dut, fill)?;
    let length = kind.length(mtu);
    for (at, label) in (0u32..).zip(POST) {
        let offset = if kind.has_response_data() { RESULTS } else { 0 } + at * (length + 20);
        let post = Command::PostSend(pb::PostSend {
            qp: channel.qp,
            wr_id: u64::from(at) + 1,
            operation: kind.operation().into(),
            local: Some(channel.memory.slice(offset, length)),
            signaled: true,
            remote_address: REMOTE + u64::from(at) * 4096,
            r_key: R_KEY,
            compare: 1,
            swap_add: if kind == Kind::FetchAdd { 1 } else { 0 },
            ..pb::PostSend::default()
        });
        t.verbs_must(label, Side::Dut, post)?;
    }
    let silence = t.rc_silence(Duration::ZERO, verbatim_wire::packet::AckTimeout::OFF, 0);
    t.wait_for(UNANSWERED, silence)?;
    t.skip_packets();
    let responses = responses(&channel, kind, &response_data(t, length));
    let (last, before) = responses.split_last().expect("every request has a response");
    if !before.is_empty() {
        for frame in before {
            t.send_frame(PART, frame)?;
        }
        t.wait_for(INCOMPLETE, silence)?;
    }
    t.send_frame(RESPONSE, last)?;
    let mut done = t.next_completion(Side::Dut, channel.qp, t.now().after(SOON))?;
    // Several are sent once: when one of them was lost, the DUT may ask for the rest alone, and the old ones would no
    // longer be answers to that.
    let tries = if before.is_empty() { verbatim_record::TRIES } else { 1 };
    for _ in 1..tries {
        if done.is_none() {
            t.send_frame(AGAIN, last)?;
            done = t.next_completion(Side::Dut, channel.qp, t.now().after(SOON))?;
        }
    }
    t.wait_for(SECOND, silence)?;
    let read = Command::ReadMemory(pb::ReadMemory {
        from: Some(channel.memory.slice(0, LOOKED_AT)),
    });
    t.verbs(RESULT, Side::Dut, read)?;
    let close = Command::ModifyQp(pb::ModifyQp {
        qp: channel.qp,
        state: pb::QpState::Err.into(),
        attributes: None,
    });
    t.verbs_must(CLOSE, Side::Dut, close)?;
    t.wait_for(FLUSHED, Duration::from_millis(500))?;
    t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: channel.qp }))?;
    Ok(())
}

/// The frames that answer the first request.
fn responses(channel: &Channel, kind: Kind, data: &[u8]) -> Vec<Vec<u8>> {
    let mtu = channel.mtu.bytes().unwrap_or(256) as usize;
    let ack = Some(Aeth::default().with_syndrome(Syndrome::ACK).with_msn(1));
    let last = channel.dut_psn.plus(kind.psns() - 1);
    if kind == Kind::Read {
        let opcodes = [
            Opcode::RC_READ_RESPONSE_FIRST,
            Opcode::RC_READ_RESPONSE_MIDDLE,
            Opcode::RC_READ_RESPONSE_LAST,
        ];
        let parts = data.chunks(mtu).zip(opcodes).zip(0..);
        return parts
            .map(|((part, opcode), at)| {
                channel.frame(&Transport {
                    aeth: ack.filter(|_| opcode != Opcode::RC_READ_RESPONSE_MIDDLE),
                    payload: part.to_vec(),
                    ..channel.transport(opcode, channel.dut_psn.plus(at))
                })
            })
            .collect();
    }
    if kind.is_atomic() {
        return vec![channel.frame(&Transport {
            aeth: ack,
            atomic_ack: Some(AtomicAckEth::default().with_original(Hex64(ORIGINAL))),
            ..channel.transport(Opcode::RC_ATOMIC_ACKNOWLEDGE, last)
        })];
    }
    vec![channel.acknowledge(last, Syndrome::ACK, 1)]
}

fn judge(t: &Trace, f: &mut Findings<'_>, kind: Kind) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    let dialogue = &all[0];
    let Command::WriteMemory(filled) = &t.command(FILL)?.command else {
        return Err(Gap::Missing(FILL.name));
    };
    let posts = [t.command(POST[0])?, t.command(POST[1])?];
    let unanswered = t.waited(UNANSWERED)?;
    rc::sound_packets(f, dialogue);
    let sent = dialogue.of_dut_between(posts[0].place, unanswered.place);
    let second_seen = requests(t, f, kind, (dialogue, &sent), &filled.bytes);
    rc::no_completion(
        f,
        COMPLETION,
        "before any response",
        dialogue,
        (posts[0].place, unanswered.place),
    );
    let response = t.frame(RESPONSE)?;
    if t.frames(PART).count() > 0 {
        let incomplete = t.waited(INCOMPLETE)?;
        rc::no_completion(
            f,
            COMPLETION,
            "before the last response",
            dialogue,
            (unanswered.place, incomplete.place),
        );
    }
    let again = t.frames(AGAIN).count();
    let second = t.waited(SECOND)?;
    let done = dialogue.completions_between(response.place, second.place);
    let in_words = |done: &[rc::Done<'_>]| match done {
        [] => "none".to_string(),
        all => all.iter().map(rc::Done::in_words).collect::<Vec<_>>().join(", "),
    };
    let result = match done.as_slice() {
        [only] if only.completion.wr_id == 1 && only.status() == WcStatus::SUCCESS => Passed::Pass,
        [] => rc::alive(t, second.place, again > 0),
        _ => Passed::Fail,
    };
    let mut evidence: Vec<Evidence<'_>> = vec![response.into()];
    evidence.extend(done.iter().map(|done| Evidence::from(done.told)));
    let words = ("one completion, of wr_id 1 with IBV_WC_SUCCESS", in_words(&done));
    let completed = f.prove(COMPLETION, &evidence, "after the response to the first", words, result);
    if !second_seen {
        f.observe("the second request was not seen before the first was answered", &[]);
        let words = ("two requests outstanding", "one");
        f.prove(
            COMPLETION,
            &[unanswered.into()],
            "second request",
            words,
            Passed::Inconclusive,
        );
    }
    let read = t.command(RESULT)?;
    if completed {
        memory(t, f, kind, read, &filled.bytes);
    }
    let (closed, flushed) = (t.command(CLOSE)?, t.waited(FLUSHED)?);
    let _ = t.command(STATE)?;
    if completed {
        let allowed = [WcStatus::WR_FLUSH_ERR];
        rc::completion(
            t,
            f,
            COMPLETION,
            "after the queue pair was moved to error",
            (dialogue, second.place.min(closed.place), flushed.place),
            (2, &allowed),
        );
    }
    Ok(())
}

/// The packets are those of the requests that were posted. Whether both were seen.
fn requests(
    t: &Trace,
    f: &mut Findings<'_>,
    kind: Kind,
    (dialogue, sent): (&Dialogue<'_>, &[Seen<'_>]),
    filled: &[u8],
) -> bool {
    let opcodes = kind.opcodes();
    let expected: Vec<(usize, Opcode, Psn)> = (0..2usize)
        .flat_map(|message| {
            let first = dialogue.dut_psn.plus(message as u32 * kind.psns());
            opcodes
                .iter()
                .zip(0..)
                .map(move |(opcode, at)| (message, *opcode, first.plus(at)))
        })
        .collect();
    let mut came = vec![false; expected.len()];
    let mut next = 0;
    for seen in sent {
        let frame = [Evidence::from(seen.frame)];
        let at = expected.iter().position(|(.., psn)| *psn == seen.psn());
        let Some((at, (message, opcode, psn))) = at.map(|at| (at, expected[at])) else {
            let words = ("no further packet", seen.packet.to_string());
            f.prove(rc::GENERATION, &frame, "further packet", words, Passed::Fail);
            continue;
        };
        let result = |holds| if holds { Passed::Pass } else { Passed::Fail };
        let words = (opcode.to_string(), seen.packet.opcode().to_string());
        f.prove(
            rc::GENERATION,
            &frame,
            "opcode",
            words,
            result(opcode == seen.packet.opcode()),
        );
        // What is left out may have been lost, and what comes late was not lost; nothing may come twice.
        let in_order = match at.cmp(&next) {
            core::cmp::Ordering::Equal => Passed::Pass,
            core::cmp::Ordering::Less if came[at] => Passed::Fail,
            _ if t.begin.simulated => Passed::Fail,
            _ => Passed::Inconclusive,
        };
        let wanted = expected
            .get(next)
            .map_or_else(|| "no further packet".into(), |(.., psn)| psn.to_string());
        f.prove(rc::GENERATION, &frame, "PSN", (wanted, psn.to_string()), in_order);
        came[at] = true;
        next = next.max(at + 1);
        let length = kind.length(mtu(dialogue)) as usize;
        if kind.has_response_data() {
            continue;
        }
        let within = psn.since(dialogue.dut_psn) % kind.psns();
        let offset = message * (length + 20) + (within * mtu(dialogue)) as usize;
        let end = (offset + mtu(dialogue) as usize).min(message * (length + 20) + length);
        let same = filled.get(offset..end) == Some(seen.packet.payload());
        let words = (
            format!("bytes {offset}..{end} of the memory"),
            if same { "the same" } else { "other bytes" },
        );
        f.prove(rc::GENERATION, &frame, "payload", words, result(same));
    }
    let first = sent.iter().find(|seen| seen.psn() == dialogue.dut_psn);
    if let Some((first, reth)) = first.and_then(|seen| Some((seen, seen.packet.reth()?))) {
        let words = (
            format!(
                "VA {REMOTE:#x}, R_Key {R_KEY:#x}, DMALen {}",
                kind.length(mtu(dialogue))
            ),
            format!(
                "VA {:#x}, R_Key {:#x}, DMALen {}",
                reth.va().0,
                reth.r_key().0,
                reth.dma_len()
            ),
        );
        let result = if words.0 == words.1 { Passed::Pass } else { Passed::Fail };
        f.prove(rc::GENERATION, &[first.frame.into()], "RETH", words, result);
    }
    if let Some((first, atomic)) = first.and_then(|seen| Some((seen, seen.packet.atomic()?))) {
        let swap_add = if kind == Kind::FetchAdd { 1 } else { 0 };
        let compare = if kind == Kind::CompareSwap {
            1
        } else {
            atomic.compare().0
        };
        let words = (
            format!("VA {REMOTE:#x}, R_Key {R_KEY:#x}, SwapAdd {swap_add}, Compare {compare}"),
            format!(
                "VA {:#x}, R_Key {:#x}, SwapAdd {}, Compare {}",
                atomic.va().0,
                atomic.r_key().0,
                atomic.swap_add().0,
                atomic.compare().0
            ),
        );
        let result = if words.0 == words.1 { Passed::Pass } else { Passed::Fail };
        f.prove(rc::GENERATION, &[first.frame.into()], "AtomicETH", words, result);
    }
    let (of_first, of_second) = came.split_at(opcodes.len());
    if of_first.contains(&false) {
        let count = of_first.iter().filter(|came| **came).count();
        let words = (format!("{} packets", opcodes.len()), count.to_string());
        let evidence: Vec<Evidence<'_>> = sent.iter().map(|seen| seen.frame.into()).collect();
        let result = rc::alive(t, dialogue.places.0, false);
        f.prove(rc::GENERATION, &evidence, "packets of the first request", words, result);
    }
    !of_second.contains(&false)
}

fn mtu(dialogue: &Dialogue<'_>) -> u32 {
    let code = dialogue.attributes.path_mtu.and_then(|code| u8::try_from(code).ok());
    code.and_then(|code| verbatim_wire::Mtu(code).bytes()).unwrap_or(256)
}

/// The response's data are where they belong, and nothing else of the memory changed.
fn memory(t: &Trace, f: &mut Findings<'_>, kind: Kind, read: &verbatim_record::VerbsDone, before: &[u8]) {
    let mut expected = before.to_vec();
    let at = RESULTS as usize;
    if kind == Kind::Read {
        let parts = t.frames(PART).chain(t.frames(RESPONSE));
        let data: Vec<u8> = parts
            .filter_map(|frame| {
                verbatim_wire::packet::Packet::parse(verbatim_wire::packet::Medium::Ethernet, &frame.bytes).ok()
            })
            .flat_map(|packet| packet.payload().to_vec())
            .collect();
        expected[at..at + data.len()].copy_from_slice(&data);
    } else if kind.is_atomic() {
        expected[at..at + 8].copy_from_slice(&ORIGINAL.to_le_bytes());
    }
    let words = if kind.has_response_data() {
        format!("the response's data at byte {at}, the rest unchanged")
    } else {
        "unchanged".into()
    };
    effect::memory_is(f, (DATA, "memory of the DUT"), read, (&words, &expected));
}
