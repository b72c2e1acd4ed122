//! `c09-read-response`: the DUT repeats a READ with a missing response, and fails a READ with a response of wrong
//! length.
//!
//! On the first connection the peer leaves out the Middle of three responses. The READ must not complete. The DUT
//! repeats the READ from its first PSN, or from the missing PSN with advanced address and length. Further responses
//! complete the READ. The memory holds the data of the responses, and nothing else changed.
//!
//! On four other connections one response is 4 bytes too short or too long. The READ fails with a local length error or
//! a bad response error, and the queue pair is in error. On the last connections one full response has a wrong opcode:
//! the READ must not complete with success.
//!
//! Reading: both statuses conform. A repeated READ may resume at any packet, if no data is missing. After a response
//! with a wrong opcode the DUT may fail the READ or repeat it.
//!
//! False alarm: none known. The peer repeats the response after the gap if the DUT does not react.

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::Opcode;

use crate::transport::rc::{self, Ask, Requester, read_response, response_data};

const DATA: &str = "9.7.6.1.1 response data";

const PART: Label<Frames> = Label::new("first response");
const GAP: Label<Frames> = Label::new("last response, the one before is missing");
const GAP_AGAIN: Label<Frames> = Label::new("last response, the one before is missing, again");
const REST: Label<Frames> = Label::new("responses to the READ that came again");
const REST_AGAIN: Label<Frames> = Label::new("responses to the READ that came again, again");
const WRONG: Label<Frames> = Label::new("responses, one of wrong length");
const WRONG_AGAIN: Label<Frames> = Label::new("responses, one of wrong length, again");

/// Length of the last response in bytes.
const TAIL: u32 = 100;
/// Number of full responses before the last, index of the response of wrong length, difference in bytes, name.
const LENGTHS: [(u32, u32, i32, &str); 4] = [
    (1, 0, -4, "a First below the path MTU"),
    (1, 1, -4, "a Last that is too short"),
    (1, 1, 4, "a Last that is too long"),
    (0, 0, 4, "an Only that is too long"),
];

const ODD: Label<Frames> = Label::new("responses, one with another opcode");
const ODD_AGAIN: Label<Frames> = Label::new("responses, one with another opcode, again");

const FIRST: Opcode = Opcode::RC_READ_RESPONSE_FIRST;
const MIDDLE: Opcode = Opcode::RC_READ_RESPONSE_MIDDLE;
const LAST: Opcode = Opcode::RC_READ_RESPONSE_LAST;
const ONLY: Opcode = Opcode::RC_READ_RESPONSE_ONLY;
/// Opcodes of full responses. One opcode of each list is wrong at its position.
const OPCODES: [&[Opcode]; 9] = [
    &[MIDDLE, MIDDLE, LAST],
    &[ONLY, MIDDLE, LAST],
    &[LAST, MIDDLE, LAST],
    &[FIRST, FIRST, LAST],
    &[FIRST, LAST, LAST],
    &[FIRST, ONLY, LAST],
    &[FIRST, MIDDLE, MIDDLE],
    &[FIRST, MIDDLE, ONLY],
    &[LAST],
];

pub(super) static TEST: Test = Test {
    id: "c09-read-response",
    aliases: &[],
    revision: 3,
    about: "The DUT repeats an RDMA READ when a response is missing, and fails it when one has a wrong length or \
        opcode.",
    reading: "After a gap the DUT repeats the READ from its beginning or from the gap, and completes it with the \
        right data. A wrong length ends the READ with IBV_WC_LOC_LEN_ERR or IBV_WC_BAD_RESP_ERR. If a First, Middle, \
        Last or Only is in the wrong place, the READ does not complete with success.",
    statements: &[DATA, rc::NAKS, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    gap(t)?;
    for (before, at, by, _) in LENGTHS {
        let mut dut = Requester::open(t, &ChannelOptions::default())?;
        let sent = dut.post(t, Ask::new(pb::Operation::Read, before * dut.mtu + TAIL))?;
        if dut.see_all(t, &sent)? {
            let data = response_data(t, &sent);
            let responses: Vec<Vec<u8>> = (0..=before)
                .map(|part| {
                    let from = (part * dut.mtu) as usize;
                    let until = (from + dut.mtu as usize).min(data.len());
                    let mut payload = data[from..until].to_vec();
                    if part == at {
                        payload.resize(payload.len().saturating_add_signed(by as isize), 0xA5);
                    }
                    dut.response(&sent, part, read_response(part, before + 1), &payload)
                })
                .collect();
            dut.answer(t, (WRONG, WRONG_AGAIN), &responses, 1)?;
        }
        dut.close(t)?;
    }
    for opcodes in OPCODES {
        odd_opcodes(t, opcodes, opcodes.len() as u32)?;
    }
    odd_opcodes(t, &[FIRST, LAST], 3)?;
    Ok(())
}

/// Answers a READ with full responses that have these opcodes.
fn odd_opcodes(t: &mut Tester<'_>, opcodes: &[Opcode], count: u32) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = dut.post(t, Ask::new(pb::Operation::Read, count * dut.mtu))?;
    if dut.see_all(t, &sent)? {
        let data = response_data(t, &sent);
        let parts = (0..).zip(opcodes).zip(data.chunks(dut.mtu as usize));
        let responses: Vec<Vec<u8>> = parts
            .map(|((at, opcode), part)| dut.response(&sent, at, *opcode, part))
            .collect();
        dut.answer(t, (ODD, ODD_AGAIN), &responses, 1)?;
    }
    dut.close(t)
}

/// Leaves out the Middle of three responses, and answers the repeated READ.
fn gap(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let sent = dut.post(t, Ask::new(pb::Operation::Read, 2 * dut.mtu + TAIL))?;
    if dut.see_all(t, &sent)? {
        let responses = dut.answers(t, &sent);
        t.send_frame(PART, &responses[0])?;
        let mut again = None;
        for attempt in 0..verbatim_record::TRIES {
            if again.is_none() {
                t.send_frame(if attempt == 0 { GAP } else { GAP_AGAIN }, &responses[2])?;
                again = dut.next_psn(t)?;
            }
        }
        if let Some(psn) = again {
            // The repeated READ begins at its first packet, or at the packet where it resumed.
            let from = psn.since(sent.first).min(2);
            let data = response_data(t, &sent);
            let rest: Vec<Vec<u8>> = (from..3)
                .map(|at| {
                    let part = (at * dut.mtu) as usize;
                    let until = (part + dut.mtu as usize).min(data.len());
                    dut.response(&sent, at, read_response(at - from, 3 - from), &data[part..until])
                })
                .collect();
            dut.answer(t, (REST, REST_AGAIN), &rest, 1)?;
        }
        dut.read_memory(t)?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::NakRetried,
        Rule::BadResponseFails,
        Rule::ErrorState,
        Rule::ResponseData,
    ]);
    rc::came_on_each(t, &[WRONG, GAP, ODD])
}
