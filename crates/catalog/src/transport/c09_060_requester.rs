//! `c09-060-OPERATION` (C09_060_01, _03, _05, _07, _09): a request completes when its own response arrived, not before.
//!
//! The DUT posts two requests. Without a response neither may complete. The response to the first completes the first
//! alone. The second stays outstanding until the queue pair moves to error, which flushes it. A READ does not complete
//! before its last response. Original values of atomics are big-endian on the wire and native in memory. The test reads
//! them as little-endian, as on x86 and most Arm hosts. The ACK timeout is off, so that the DUT retransmits nothing.
//!
//! Reading: the public description's "Send First, Middle, Last" for atomics is a slip. A DUT may have only one
//! request outstanding, so the tester may not see the second before it answers the first. The result for the
//! second is then INCONCLUSIVE.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Aeth, AtomicAckEth, Opcode, Syndrome, Transport};
use verbatim_wire::values::Hex64;

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc;

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

/// Number of packets of a SEND or WRITE, or of a READ response.
const PACKETS: u32 = 3;
/// Offset of the results, after the data to send.
const RESULTS: u32 = 32 * 1024;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 48 * 1024;
/// Remote address of READs, WRITEs and atomics. The tester answers them without memory at this address.
const REMOTE: u64 = 0x0099_9000;
const R_KEY: u32 = 0x0001_2345;
/// Original value that the tester's ATOMIC ACKNOWLEDGE carries.
const ORIGINAL: u64 = 0xFF2D_B500_1E58_B3E7;
/// Longest wait for a completion.
const COMPLETION_WAIT: Duration = Duration::from_secs(5);

const READING: &str = "The DUT sends two requests; the peer responds only to the first. The first completes exactly \
    once, with success, after its last response and not before. The second completes only when the queue pair is moved \
    to error, with IBV_WC_WR_FLUSH_ERR. The test waits two seconds to prove that nothing completes. If the peer does \
    not see the second request, the result is INCONCLUSIVE.";

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
                statements: &[COMPLETION, DATA, rc::NAKS, rc::GENERATION, rc::ICRC],
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

    /// Returns the length of each request in bytes.
    fn length(self, mtu: u32) -> u32 {
        if self.is_atomic() { 8 } else { PACKETS * mtu - 4 }
    }

    /// Returns the number of PSNs of a request; a READ uses one for each response packet.
    fn psns(self) -> u32 {
        if self.is_atomic() { 1 } else { PACKETS }
    }
}

/// Returns the payload of all responses to a READ.
fn response_data(t: &Tester<'_>, length: u32) -> Vec<u8> {
    let mut random = t.random("response");
    (0..length).map(|_| random.byte()).collect()
}

fn procedure(t: &mut Tester<'_>, kind: Kind) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    if kind.is_atomic() && !channel.atomics {
        return Ok(());
    }
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
    let mut done = t.next_completion(Side::Dut, channel.qp, t.now().after(COMPLETION_WAIT))?;
    // The tester sends the responses to a READ only once. After a loss the DUT may request only the rest, and the old
    // responses would not match that request.
    let tries = if before.is_empty() { verbatim_record::TRIES } else { 1 };
    for _ in 1..tries {
        if done.is_none() {
            t.send_frame(AGAIN, last)?;
            done = t.next_completion(Side::Dut, channel.qp, t.now().after(COMPLETION_WAIT))?;
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

/// Builds the frames that answer the first request.
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
    if kind.is_atomic() && !has_atomics(t) {
        f.not_applicable = Some("the device says that it has no atomics".into());
        return Ok(());
    }
    f.exercises(&[Rule::Posted, Rule::CompletedBy, Rule::AnsweredCompletes, Rule::Flushed]);
    if kind.has_response_data() {
        f.exercises(&[Rule::ResponseData]);
    }
    rc::came(t, &[RESPONSE])
}
