//! Requests with memory that the device may not use fail locally, in order, and never complete with success.
//!
//! `c09-local-errors`: a fenced SEND waits for a READ. The host deregisters the SEND's memory, then the peer answers
//! the READ. The SEND fails with IBV_WC_LOC_PROT_ERR, the DUT sends no packet of it, and the SEND after it is flushed.
//! On another connection the DUT posts a READ between two SENDs, and the READ's buffer lies in memory that the device
//! may not write. The first SEND completes, and the READ fails with the same status. Then the DUT posts a WRITE with
//! Immediate and a receive in the error state; both are flushed.
//!
//! `c09-nak-operational`: the peer sends a SEND, and the receive lies in memory that the device may not write. The DUT
//! sends one NAK 0x63, fails the receive, and leaves the memory unchanged.
//!
//! `c09-local-errors` needs READs. If the device has none, a NAK moves the queue pair to error, and the test
//! checks only the requests posted in the error state.
//!
//! Reading: the DUT may send a READ before it checks the READ's memory.
//!
//! False alarm: a NAK may be lost. The test then tries another connection, three in all.

use verbatim_oracle::Rule;
use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, Frames, Gap, Label, Passed, Side, TRIES, Trace, Verbs, WcStatus};
use verbatim_tester::peer::{ChannelOptions, Memory};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{NakCode, RKey, Syndrome};

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::steps::FILL;
use crate::transport::rc::{self, Ask, Requester, offers};

const ERRORS: &str = "9.9.2 requester errors";
const STATE: &str = "10.3.1 ERR";
const RESPONDER: &str = "9.9.3 responder errors";

const OTHER: Label<Verbs> = Label::new("register other memory");
const GONE: Label<Verbs> = Label::new("deregister the other memory");
const ANSWER: Label<Frames> = Label::new("answer");
const AGAIN: Label<Frames> = Label::new("answer, again");
const LATE: Label<Verbs> = Label::new("post a receive in the error state");
const RECEIVE: Label<Verbs> = Label::new("post a receive where the device may not write");
const RESULT: Label<Verbs> = Label::new("read the memory");
const SEND: Label<Frames> = Label::new("SEND to that receive");

/// Length in bytes of the receive in memory that the device may not write.
const LENGTH: u32 = 64;
/// wr_id of the receive posted in the error state.
const IN_ERROR: u64 = 300;

pub(super) static TEST: Test = Test {
    id: "c09-local-errors",
    aliases: &[],
    revision: 3,
    about: "Requests with memory that the device may not use fail locally, in order.",
    reading: "A SEND from deregistered memory, of which the DUT sends no packet, and a READ into memory that the \
        device may not write end with IBV_WC_LOC_PROT_ERR. Earlier requests complete with success. Later requests are \
        flushed, as are requests posted in the error state.",
    statements: &[ERRORS, STATE, rc::NAKS, rc::GENERATION],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

pub(super) static RECEIVE_ERROR: Test = Test {
    id: "c09-nak-operational",
    aliases: &[],
    revision: 2,
    about: "A SEND gets one NAK 0x63, and its receive a local error, if the device may not write the receive's memory.",
    reading: "One NAK 0x63. The receive completes with IBV_WC_LOC_PROT_ERR or, because such a receive is malformed as \
        well, with IBV_WC_LOC_QP_OP_ERR. The memory stays unchanged. NOT_APPLICABLE if the host refuses such a \
        receive.",
    statements: &[RESPONDER],
    needs: &[Need::Packets],
    parameters: &[],
    procedure: receive,
    judge: judge_receive,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    if !deregistered(t)? {
        return Ok(());
    }
    let mut dut = Requester::open(t, &not_writable())?;
    let first = dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &first)? {
        let read = dut.post(t, Ask::new(pb::Operation::Read, 64))?;
        dut.post(t, Ask::send(64))?;
        let acks = dut.answers(t, &first);
        dut.answer(t, (ANSWER, AGAIN), &acks, 1)?;
        if dut.completions(t, 2)? == 0 && dut.see_all(t, &read)? {
            let responses = dut.answers(t, &read);
            dut.answer(t, (ANSWER, AGAIN), &responses, 2)?;
        }
        in_error(t, &mut dut)?;
    }
    dut.close(t)
}

/// Has the DUT post requests in the error state. Its host may refuse them.
fn in_error(t: &mut Tester<'_>, dut: &mut Requester) -> Step {
    let write = if t.offers(pb::Operation::WriteImm) {
        dut.try_post(t, Ask::new(pb::Operation::WriteImm, 64))?
    } else {
        None
    };
    let post = Command::PostReceive(pb::PostReceive {
        qp: dut.channel.qp,
        wr_id: IN_ERROR,
        local: Some(dut.channel.memory.slice(0, 0)),
    });
    let receive = t.verbs(LATE, Side::Dut, post)?;
    let posted = u32::from(write.is_some()) + u32::from(!matches!(receive, Reply::Refused(_)));
    dut.completions(t, posted).map(drop)
}

/// Returns the options of a connection whose memory the device may not write.
fn not_writable() -> ChannelOptions {
    ChannelOptions {
        memory_access: pb::Access {
            remote_read: true,
            ..pb::Access::default()
        },
        ..ChannelOptions::default()
    }
}

/// Deregisters the memory of a SEND that waits for a READ; another SEND follows. Returns whether the device has READs.
///
/// For a device without READs the peer refuses a SEND instead.
fn deregistered(t: &mut Tester<'_>) -> Step<bool> {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    if !t.offers(pb::Operation::Read) {
        let send = dut.post(t, Ask::send(64))?;
        if dut.see_all(t, &send)? {
            let nak = dut.nak(send.first, NakCode::REMOTE_ACCESS, 0);
            dut.answer(t, (ANSWER, AGAIN), &[nak], 1)?;
            in_error(t, &mut dut)?;
        }
        dut.close(t)?;
        return Ok(false);
    }
    let register = Command::RegisterMemory(pb::RegisterMemory {
        length: 4096,
        access: Some(pb::Access::default()),
    });
    let Reply::Memory(other) = t.verbs_must(OTHER, Side::Dut, register)? else {
        dut.close(t)?;
        return Ok(true);
    };
    let own = dut.channel.memory;
    let read = dut.post(t, Ask::new(pb::Operation::Read, 64))?;
    dut.channel.memory = Memory {
        handle: other.memory,
        address: other.address,
        r_key: RKey(other.r_key),
        length: 4096,
    };
    dut.post(
        t,
        Ask {
            fence: true,
            ..Ask::send(64)
        },
    )?;
    dut.channel.memory = own;
    dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &read)? {
        let deregister = Command::DeregisterMemory(pb::DeregisterMemory { memory: other.memory });
        // An agent may retain memory that a request still uses; the SEND is then valid.
        t.verbs(GONE, Side::Dut, deregister)?;
        let responses = dut.answers(t, &read);
        dut.answer(t, (ANSWER, AGAIN), &responses, 3)?;
        // Packets of the SEND may still be on their way.
        t.pause(ask::RESPONSE_WAIT)?;
    }
    dut.close(t)?;
    Ok(true)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !offers::posts(t, pb::Operation::Read) {
        f.goes_without(&["local-fault", "local-error", ERRORS], "the device has no READ");
    }
    f.exercises(&[Rule::LocalFault, Rule::LocalError, Rule::ErrorState, Rule::Flushed]);
    t.not_judged(OTHER);
    t.not_judged(GONE);
    for dialogue in &rc::dialogues(t)? {
        receive_in_error(t, f, dialogue);
    }
    offers::was_posted(t, pb::Operation::Read)?;
    rc::came_on_each(t, &[ANSWER])
}

/// Checks that a receive posted in the error state is flushed.
fn receive_in_error(t: &Trace, f: &mut Findings<'_>, dialogue: &rc::Dialogue<'_>) {
    for post in rc::answer::commands_in(t, dialogue, LATE) {
        let ends = if offers::posts(t, pb::Operation::Read) {
            WcStatus::LOC_PROT_ERR
        } else {
            WcStatus::REM_ACCESS_ERR
        };
        let failed = |done: &rc::Done<'_>| done.event.place < post.place && done.status() == ends;
        let was_taken = matches!(post.answer, Some((.., Reply::Done(_), _)));
        // Before this completion the queue pair need not be in the error state. A rule of the oracle judges the READ
        // itself.
        if !was_taken || !dialogue.completions.iter().any(failed) {
            continue;
        }
        let is_of_it = |done: &&rc::Done<'_>| done.completion.wr_id == IN_ERROR;
        let done: Vec<rc::Done<'_>> = dialogue.completions.iter().filter(is_of_it).cloned().collect();
        let result = match done.as_slice() {
            [only] if only.status() == WcStatus::WR_FLUSH_ERR => Passed::Pass,
            [] => rc::alive(t, post.place, true),
            _ => Passed::Fail,
        };
        let words = (
            format!("one completion with {}", WcStatus::WR_FLUSH_ERR),
            rc::completions_in_words(&done),
        );
        let shown: Vec<Evidence<'_>> = [post.into()].into_iter().chain(rc::evidence(&done)).collect();
        f.prove(STATE, &shown, LATE.name, words, result);
    }
}

fn receive(t: &mut Tester<'_>) -> Step {
    // The DUT sends only one NAK on a connection, and this NAK may be lost. Then try another connection.
    for _ in 0..TRIES {
        let dut = Requester::open(t, &not_writable())?;
        let post = Command::PostReceive(pb::PostReceive {
            qp: dut.channel.qp,
            wr_id: 100,
            local: Some(dut.channel.memory.slice(0, LENGTH)),
        });
        let mut goes_on = false;
        if !matches!(t.verbs(RECEIVE, Side::Dut, post)?, Reply::Refused(_)) {
            let send = Message::send(&dut.channel, dut.channel.own_psn, &[0x5A; 8]);
            goes_on = !ask::ask(t, &dut.channel, SEND, &send)?;
            t.pause(ask::RESPONSE_WAIT)?;
            ask::read_memory(t, &dut.channel, RESULT, LENGTH)?;
        }
        dut.close(t)?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

fn judge_receive(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.not_judged(RECEIVE);
    let _ = rc::cases(t)?;
    if t.frames(SEND).next().is_none() {
        f.not_applicable =
            Some("the host of the DUT's device refuses a receive in memory that the device may not write".into());
        return Ok(());
    }
    let all = rc::dialogues(t)?;
    let has_nak = |dialogue: &rc::Dialogue<'_>| dialogue.of_dut().any(|seen| ask::nak_of(&seen.packet).is_some());
    let is_heard = all.iter().any(has_nak);
    for dialogue in &all {
        let may_be_lost = is_heard && !t.begin.simulated && !has_nak(dialogue);
        if !may_be_lost {
            one_nak(t, f, dialogue, all.len() >= TRIES as usize)?;
        }
        receive_failed(t, f, dialogue, has_nak(dialogue))?;
        is_unchanged(t, f, dialogue);
    }
    Ok(())
}

/// Checks that memory that the device may not write is unchanged.
fn is_unchanged(t: &Trace, f: &mut Findings<'_>, dialogue: &rc::Dialogue<'_>) {
    let fill = rc::answer::commands_in(t, dialogue, FILL);
    let read = rc::answer::commands_in(t, dialogue, RESULT);
    let (Some(fill), Some(read)) = (fill.first(), read.first()) else {
        return;
    };
    let before = rc::effect::written(fill).get(..LENGTH as usize).unwrap_or_default();
    rc::effect::memory_is(f, (RESPONDER, "memory of the receive"), read, ("as before", before));
}

/// Returns the place of the first SEND of a connection.
fn sent(t: &Trace, dialogue: &rc::Dialogue<'_>) -> Result<usize, Gap> {
    let (after, before) = dialogue.places;
    let mut of_it = t.frames(SEND).filter(|send| send.place > after && send.place < before);
    of_it.next().map(|send| send.place).ok_or(Gap::Missing(SEND.name))
}

fn one_nak(t: &Trace, f: &mut Findings<'_>, dialogue: &rc::Dialogue<'_>, asked_again: bool) -> Result<(), Gap> {
    let naks: Vec<rc::Seen<'_>> = dialogue
        .of_dut()
        .filter(|seen| ask::nak_of(&seen.packet).is_some())
        .collect();
    let wanted = Syndrome::nak(NakCode::REMOTE_OPERATIONAL);
    let result = match naks.first() {
        Some(nak) if naks.len() == 1 && ask::nak_of(&nak.packet) == Some(wanted) => Passed::Pass,
        Some(_) => Passed::Fail,
        None => rc::alive(t, sent(t, dialogue)?, asked_again),
    };
    let shown: Vec<Evidence<'_>> = naks.iter().map(|seen| seen.frame.into()).collect();
    f.prove(
        RESPONDER,
        &shown,
        SEND.name,
        (wanted.to_string(), rc::in_words(&naks)),
        result,
    );
    Ok(())
}

fn receive_failed(t: &Trace, f: &mut Findings<'_>, dialogue: &rc::Dialogue<'_>, is_heard: bool) -> Result<(), Gap> {
    let done = &dialogue.completions;
    let allowed = [WcStatus::LOC_PROT_ERR, WcStatus::LOC_QP_OP_ERR];
    let is_so = |done: &rc::Done<'_>| done.completion.wr_id == 100 && allowed.contains(&done.status());
    let result = match done.as_slice() {
        [only] if is_so(only) => Passed::Pass,
        [] if !is_heard && !t.begin.simulated => return Ok(()),
        [] => rc::alive(t, sent(t, dialogue)?, is_heard),
        _ => Passed::Fail,
    };
    let expected = format!("wr_id 100 with {} or {}", allowed[0], allowed[1]);
    let words = (expected, rc::completions_in_words(done));
    f.prove(RESPONDER, &rc::evidence(done), "receive", words, result);
    Ok(())
}
