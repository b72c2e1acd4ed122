//! `c09-requests`: the DUT sends each operation, with each kind of length, in the packets that the architecture
//! requires.
//!
//! The DUT posts SEND, SEND with Immediate, SEND with Invalidate, RDMA WRITE, WRITE with Immediate, RDMA READ and
//! both atomics, one after the other. Lengths are 0 bytes, 1 byte, around the path MTU, and several packets. The
//! peer answers each request. The rules compare opcode, PSN, length, padding, headers and payload of every packet.
//! The last packet of a SEND or WRITE must request an ACK. At the end the DUT's memory must hold the data of the
//! responses. The PSNs pass the end of their range, 2^16 and 2^23.
//!
//! Reading: a packet in the middle of a message may request an ACK too, and then gets an ACK. SE is set in the last
//! packet of a solicited SEND or WRITE with Immediate, and in no packet of a WRITE or READ. Except for SEND, WRITE and
//! READ, the test leaves out an operation that the device lacks or the host refuses; the report says so.
//!
//! False alarm: a packet lost on the way to the tester is INCONCLUSIVE on hardware.

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::Psn;

use crate::transport::rc::{self, Ask, RESULTS, Requester, offers};

const COMPLETION: &str = "C9-60";
const DATA: &str = "9.7.6.1.1 response data";
const ERRORS: &str = "9.9.2 requester errors";

const PART: Label<Frames> = Label::new("ACK within a message");
const ANSWER: Label<Frames> = Label::new("answer");
const ANSWER_AGAIN: Label<Frames> = Label::new("answer, again");

/// First PSNs: one connection passes the end of the PSN range, the others pass 2^16 and 2^23.
const PSNS: [Psn; 3] = [Psn(0xFF_FFFA), Psn(0x00_FFFE), Psn(0x7F_FFFE)];
/// Operations tried at all sizes.
const OPERATIONS: [pb::Operation; 6] = [
    pb::Operation::Send,
    pb::Operation::SendImm,
    pb::Operation::SendInvalidate,
    pb::Operation::Write,
    pb::Operation::WriteImm,
    pb::Operation::Read,
];
/// Offset of the results of atomics, after the results of READs.
const ATOMICS: u32 = RESULTS + 15 * 1024;

pub(super) static TEST: Test = Test {
    id: "c09-requests",
    aliases: &[],
    revision: 2,
    about: "Requests of every operation and size have the right opcodes, PSNs, headers, lengths and padding.",
    reading: "The test compares every packet with the packet that belongs to its PSN. The last packet of a SEND or \
        WRITE requests an ACK, because no packet follows it.",
    statements: &[rc::GENERATION, COMPLETION, DATA, ERRORS, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

/// Returns the requests of a connection, in posting order.
fn asks(mtu: u32, all: bool) -> Vec<Ask> {
    let long = 3 * mtu + 5;
    if !all {
        let operations = [pb::Operation::Send, pb::Operation::Read, pb::Operation::Write];
        return operations.map(|operation| Ask::new(operation, long)).to_vec();
    }
    let sizes = [0, 1, mtu - 1, mtu, mtu + 1, long];
    let mut asks = Vec::new();
    for operation in OPERATIONS {
        let mut offset = Ask::new(operation, 0).offset;
        for (at, length) in (0u32..).zip(sizes) {
            asks.push(Ask {
                solicited: at % 2 == 1,
                ..Ask::new(operation, length).at(offset)
            });
            // Buffers begin at any alignment. Those of WRITEs and READs do not overlap.
            let is_rdma = matches!(operation, pb::Operation::Write | pb::Operation::Read);
            offset += if is_rdma { length + 1 } else { 7 };
        }
    }
    asks.push(Ask::new(pb::Operation::CompareSwap, 8).at(ATOMICS));
    asks.push(Ask::new(pb::Operation::FetchAdd, 8).at(ATOMICS + 16));
    asks
}

fn procedure(t: &mut Tester<'_>) -> Step {
    for (at, psn) in PSNS.into_iter().enumerate() {
        let options = ChannelOptions {
            psn: Some(psn),
            ..ChannelOptions::default()
        };
        let mut dut = Requester::open(t, &options)?;
        for ask in asks(dut.mtu, at == 0) {
            if !t.offers(ask.operation) {
                continue;
            }
            let Some(sent) = dut.try_post(t, ask)? else {
                continue;
            };
            dut.serve(t, PART, &sent)?;
            let answers = dut.answers(t, &sent);
            if !dut.answer(t, (ANSWER, ANSWER_AGAIN), &answers, 1)? {
                break;
            }
        }
        dut.read_memory(t)?;
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    for operation in OPERATIONS.into_iter().filter(|operation| !offers::posts(t, *operation)) {
        let name = operation.as_str_name().replace("OPERATION_", "");
        f.observe(
            format!("no {name} was posted: the device has none, as its agent says"),
            &[],
        );
    }
    if !offers::posts_with_response(t) {
        f.goes_without(&["response-data", DATA], "the device has neither READs nor atomics");
    }
    // No request fails here, so the statement on errors is not exercised.
    f.goes_without.push(ERRORS);
    f.exercises(&[
        Rule::Posted,
        Rule::InOrder,
        Rule::AckRequested,
        Rule::AnsweredCompletes,
        Rule::CompletedBy,
        Rule::CompletionFields,
        Rule::ResponseData,
    ]);
    let atomics = [pb::Operation::CompareSwap, pb::Operation::FetchAdd];
    for operation in OPERATIONS.into_iter().chain(atomics) {
        offers::was_posted(t, operation)?;
    }
    rc::came_on_each(t, &[ANSWER])
}
