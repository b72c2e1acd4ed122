//! `c09-read-response`: a READ whose response is missing is asked for again, one of wrong length fails it.
//!
//! On the first connection the Middle of three responses is left out: the READ must not complete, but come again, from its
//! first PSN or from the missing one with address and length advanced; what is then answered completes it, and the memory
//! holds the data of the responses and nothing else has changed. On four others a response is 4 bytes too short or too
//! long: the READ fails with a local length or a bad response error, and the queue pair is in error.
//! Reading: both statuses conform; where a resumed READ begins is open, as long as nothing is left out.
//! False alarm: none known; responses are sent again when nothing happens.

use verbatim_record::verbs::pb;
use verbatim_record::{Evidence, Findings, FrameSeen, Frames, Gap, Label, Passed, Trace, WcStatus};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{Medium, Packet, Psn};

use crate::transport::rc::{self, Ask, Case, RESULTS, Requester, read_response, response_data};

const DATA: &str = "9.7.6.1.1 response data";

const PART: Label<Frames> = Label::new("first response");
const GAP: Label<Frames> = Label::new("last response, the one before is missing");
const GAP_AGAIN: Label<Frames> = Label::new("last response, the one before is missing, again");
const REST: Label<Frames> = Label::new("responses to the READ that came again");
const REST_AGAIN: Label<Frames> = Label::new("responses to the READ that came again, again");
const WRONG: Label<Frames> = Label::new("responses, one of wrong length");
const WRONG_AGAIN: Label<Frames> = Label::new("responses, one of wrong length, again");

/// Bytes of the last response.
const TAIL: u32 = 100;
/// Full responses before the last one, which of them all is of wrong length, and by how many bytes.
const LENGTHS: [(u32, u32, i32, &str); 4] = [
    (1, 0, -4, "a First below the path MTU"),
    (1, 1, -4, "a Last that is too short"),
    (1, 1, 4, "a Last that is too long"),
    (0, 0, 4, "an Only that is too long"),
];

/// Responses that are missing or of wrong length.
pub(super) static TEST: Test = Test {
    id: "c09-read-response",
    aliases: &[],
    revision: 1,
    about: "An RDMA READ comes again when a response is missing, and fails when one has the wrong length.",
    reading: "A gap makes the READ come again, from its beginning or from the gap; then it completes with the right data. A \
        wrong length ends it with IBV_WC_LOC_LEN_ERR or IBV_WC_BAD_RESP_ERR.",
    statements: &[DATA, rc::GENERATION, rc::ICRC],
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
    Ok(())
}

/// The Middle of three responses is left out.
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
            // Answered as it was asked: from its beginning, or from where it resumed.
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
    for (at, case) in rc::cases(t)?.iter().enumerate() {
        rc::sound_packets(f, &case.dialogue);
        if at == 0 {
            judge_gap(t, f, case)?;
        } else {
            judge_length(t, f, case, LENGTHS[at - 1].3)?;
        }
    }
    Ok(())
}

fn judge_gap(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>) -> Result<(), Gap> {
    let (parts, gaps) = (case.frames(t, PART), case.frames(t, GAP));
    let (_, again) = (case.frames(t, GAP_AGAIN), case.frames(t, REST_AGAIN));
    let rest = case.frames(t, REST);
    let (Some(part), Some(gap)) = (parts.first().copied(), gaps.first().copied()) else {
        return rc::not_sent(t, f, case, 0);
    };
    case.packets_are_those_posted(f, rc::GENERATION, "first transmission", (case.start(), part.place));
    let until = rest.first().map_or(case.end(), |rest| rest.place);
    let about = "a READ whose second response is missing";
    let retries = case.sent(part.place, until);
    case.packets_are_those_posted(f, DATA, about, (part.place, case.end()));
    let missing = case.dialogue.dut_psn.next();
    let result = match retries.first() {
        Some(retry) if missing.since(retry.psn()) <= 1 => Passed::Pass,
        Some(_) => Passed::Fail,
        // A DUT may act on the first gap alone, so that asking again shows nothing.
        None => rc::alive(t, case.end(), false),
    };
    let seen = retries
        .first()
        .map_or_else(|| "none".into(), |retry| retry.packet.to_string());
    let wanted = format!("a READ Request with PSN {} or {missing}", case.dialogue.dut_psn);
    let mut evidence = vec![Evidence::from(part), gap.into()];
    evidence.extend(retries.iter().map(|seen| Evidence::from(seen.frame)));
    f.prove(DATA, &evidence, &format!("{about}: retry"), (wanted, seen), result);
    let clean = rc::no_completion(
        f,
        DATA,
        &format!("{about}: before it came again"),
        &case.dialogue,
        (case.start(), until),
    );
    if !rest.is_empty() && clean {
        let expected: [(u64, &[WcStatus]); 1] = [(1, &[WcStatus::SUCCESS])];
        let asked_again = rc::asked_again(&again, rest.len());
        if case.completes(t, f, (DATA, about), (until, case.end()), (&expected, asked_again)) {
            let mut data = rc::response_bytes(&[part]);
            data.truncate(if resumes(rest[0], missing) {
                case.mtu as usize
            } else {
                0
            });
            data.extend(rc::response_bytes(&rest));
            case.memory_is(f, (DATA, about), &[(RESULTS as usize, data)])?;
        }
    }
    Ok(())
}

/// Whether the answer begins at the missing response, not at the first one.
fn resumes(frame: &FrameSeen, missing: Psn) -> bool {
    Packet::parse(Medium::Ethernet, &frame.bytes).is_ok_and(|packet| packet.bth().psn() == missing)
}

fn judge_length(t: &Trace, f: &mut Findings<'_>, case: &Case<'_>, what: &str) -> Result<(), Gap> {
    let (wrong, again) = (case.frames(t, WRONG), case.frames(t, WRONG_AGAIN));
    let Some(first) = wrong.first() else {
        return rc::not_sent(t, f, case, 0);
    };
    case.packets_are_those_posted(f, rc::GENERATION, "request", (case.start(), first.place));
    let expected: [(u64, &[WcStatus]); 1] = [(1, &[WcStatus::LOC_LEN_ERR, WcStatus::BAD_RESP_ERR])];
    let about = format!("a READ that gets {what}");
    let asked_again = rc::asked_again(&again, wrong.len());
    if case.completes(
        t,
        f,
        (DATA, &about),
        (case.start(), case.end()),
        (&expected, asked_again),
    ) {
        case.is_in_error(f, DATA, &about);
    }
    Ok(())
}
