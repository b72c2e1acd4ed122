//! `c09-060-requester-verbs`, `c09-060-responder-verbs`: the weaker form of the C09_060 tests, with an adapter of the
//! tester as the peer.
//!
//! One side posts every operation once, between the DUT's memory and the tester's memory; the other side responds.
//! The test reads both memories back and compares them completely. If the DUT is the requester, the tester's queue
//! pair then moves to error and does not respond. One more request must stay outstanding, because the ACK timeout
//! is off. The test leaves out the case of a withheld ACK: an adapter always acknowledges a request that it
//! executed. The test leaves out atomics if one of the two adapters reports none.
//!
//! False alarm: none known. The DUT's ACK timeout is off, so a lost packet leaves its request incomplete, and the
//! result is INCONCLUSIVE.

use core::time::Duration;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, Findings, Gap, Label, Passed, Side, Trace, Verbs, Wait, WcStatus};
use verbatim_tester::peer::{ChannelOptions, Memory, Pair, labels};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, ask, effect, offers};

const COMPLETION: &str = "C9-60";
const DATA: &str = "9.7.6.1.1 response data";
const SEND: &str = "9.4.1 SEND and immediate";
const ATOMICS: &str = "9.4.5 atomics";
const ACKNOWLEDGEMENT: &str = "9.7.5.1 acknowledgement";

const FILL_DUT: Label<Verbs> = Label::new("fill the DUT's memory");
const FILL_OWN: Label<Verbs> = Label::new("fill the tester's memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const POST: Label<Verbs> = Label::new("post a request");
const DONE: Label<Wait> = Label::new("after all requests");
const READ_DUT: Label<Verbs> = Label::new("read the DUT's memory");
const READ_OWN: Label<Verbs> = Label::new("read the tester's memory");
const DEAF: Label<Verbs> = Label::new("move the tester's queue pair to error");
const UNANSWERED: Label<Verbs> = Label::new("post a request that nobody answers");
const SILENT: Label<Wait> = Label::new("while nobody answers");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of each memory in bytes.
const MEMORY: u32 = 32 * 1024;
/// Length of a message in bytes: several packets at every path MTU up to 1024, and no multiple of 4.
const LENGTH: u32 = 3001;
/// Returns the offset of request `n` in the requester's memory.
const fn local(n: u32) -> u32 {
    n * 4096
}
/// Returns the offset of request `n` in the responder's memory.
const fn remote(n: u32) -> u32 {
    n * 4096 + 512
}

/// wr_id and operation of the requests, in posting order.
static REQUESTS: [(u64, pb::Operation); 5] = [
    (1, pb::Operation::Send),
    (2, pb::Operation::Write),
    (3, pb::Operation::Read),
    (4, pb::Operation::CompareSwap),
    (5, pb::Operation::FetchAdd),
];
/// wr_id of the unanswered request.
const LAST: u64 = 6;
/// Operand of FetchAdd; the addition carries beyond 32 bits.
const ADDED: u64 = 0x0123_4567_FFFF_FFFF;
/// Value that CmpSwap stores.
const SWAPPED: u64 = 0xFF2D_B500_1E58_B3E7;

const READING: &str = "The weaker procedure of C09_060: the peer is an adapter of the tester. Each operation is \
    executed once, and the test compares both memories whole. One request to a peer that does not respond shows that a \
    request does not complete without its response.";

pub(super) static REQUESTER: Test = Test {
    id: "c09-060-requester-verbs",
    aliases: &[],
    revision: 1,
    about: "As requester the DUT does every operation, completes each once and in order, and none without a response.",
    reading: READING,
    statements: &[COMPLETION, DATA],
    needs: &[Need::Verbs],
    parameters: &[],
    procedure: |t| procedure(t, Side::Dut),
    judge: |t, f| judge(t, f, Side::Dut),
};

pub(super) static RESPONDER: Test = Test {
    id: "c09-060-responder-verbs",
    about: "As responder the DUT executes every operation, and its memory holds the results.",
    statements: &[ACKNOWLEDGEMENT, ATOMICS, SEND],
    procedure: |t| procedure(t, Side::Tester),
    judge: |t, f| judge(t, f, Side::Tester),
    ..REQUESTER
};

struct Roles {
    qp: u32,
    other_qp: u32,
    own: Memory,
    other: Memory,
}

fn roles(pair: &Pair, asking: Side) -> Roles {
    let (dut, own) = ((pair.dut_qp, pair.dut_memory), (pair.own_qp, pair.own_memory));
    let (asks, answers) = if asking == Side::Dut { (dut, own) } else { (own, dut) };
    Roles {
        qp: asks.0,
        other_qp: answers.0,
        own: asks.1,
        other: answers.1,
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Dut => Side::Tester,
        Side::Tester => Side::Dut,
    }
}

fn procedure(t: &mut Tester<'_>, asking: Side) -> Step {
    let options = ChannelOptions {
        memory: MEMORY,
        ..ChannelOptions::default()
    };
    // Only a time-out recovers a lost packet. A DUT as requester has its timeout off, because its last request must
    // stay outstanding. As requester, the tester's adapter tries a request for more than one second. If an ARP or
    // neighbour query of the tester's host is lost, the host repeats it after one second.
    let timeout = if asking == Side::Tester {
        AckTimeout(16)
    } else {
        AckTimeout::OFF
    };
    let own = ChannelOptions { timeout, ..options };
    let pair = t.open_pair(&options, &own)?;
    let mut atomics = true;
    for side in [Side::Dut, Side::Tester] {
        let opened = t.verbs_must(labels::OPEN, side, Command::Open(pb::Open {}))?;
        atomics &= matches!(opened, Reply::Opened(facts) if facts.atomics);
    }
    let roles = roles(&pair, asking);
    for (label, side, memory) in [
        (FILL_DUT, Side::Dut, pair.dut_memory),
        (FILL_OWN, Side::Tester, pair.own_memory),
    ] {
        let mut random = t.random(label.name);
        let fill = Command::WriteMemory(pb::WriteMemory {
            memory: memory.handle,
            offset: 0,
            bytes: (0..MEMORY).map(|_| random.byte()).collect(),
        });
        t.verbs_must(label, side, fill)?;
    }
    let receive = Command::PostReceive(pb::PostReceive {
        qp: roles.other_qp,
        wr_id: 100,
        local: Some(roles.other.slice(remote(1), LENGTH)),
    });
    t.verbs_must(RECEIVE, other(asking), receive)?;
    let compare = {
        // The comparison must succeed, so compare with the value that filled the memory.
        let label = if asking == Side::Dut { FILL_OWN } else { FILL_DUT };
        let mut random = t.random(label.name);
        let bytes: Vec<u8> = (0..MEMORY).map(|_| random.byte()).collect();
        number_at(&bytes, remote(4))
    };
    for &(wr_id, operation) in requests(atomics) {
        t.verbs_must(POST, asking, request(&roles, wr_id, operation, compare))?;
        t.next_completion(asking, roles.qp, t.now().after(Duration::from_secs(10)))?;
    }
    t.wait_for(DONE, ask::ON_ITS_WAY)?;
    for (label, side, memory) in [
        (READ_DUT, Side::Dut, pair.dut_memory),
        (READ_OWN, Side::Tester, pair.own_memory),
    ] {
        let read = Command::ReadMemory(pb::ReadMemory {
            from: Some(memory.slice(0, MEMORY)),
        });
        t.verbs_must(label, side, read)?;
    }
    if asking == Side::Dut {
        let deaf = Command::ModifyQp(pb::ModifyQp {
            qp: pair.own_qp,
            state: pb::QpState::Err.into(),
            attributes: None,
        });
        t.verbs_must(DEAF, Side::Tester, deaf)?;
        t.verbs_must(UNANSWERED, asking, request(&roles, LAST, pb::Operation::Write, 0))?;
        t.wait_for(SILENT, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
        t.verbs(STATE, Side::Dut, Command::QueryQp(pb::QueryQp { qp: pair.dut_qp }))?;
    }
    Ok(())
}

/// Returns the requests that both adapters support. The atomics are the last two requests.
fn requests(atomics: bool) -> &'static [(u64, pb::Operation)] {
    if atomics { &REQUESTS } else { &REQUESTS[..3] }
}

fn request(roles: &Roles, wr_id: u64, operation: pb::Operation, compare: u64) -> Command {
    let n = u32::try_from(wr_id.min(5)).unwrap_or(5);
    let length = match operation {
        pb::Operation::CompareSwap | pb::Operation::FetchAdd => 8,
        _ => LENGTH,
    };
    Command::PostSend(pb::PostSend {
        qp: roles.qp,
        wr_id,
        operation: operation.into(),
        local: Some(roles.own.slice(local(n), length)),
        signaled: true,
        remote_address: roles.other.address + u64::from(remote(n)),
        r_key: roles.other.r_key.0,
        compare,
        swap_add: if operation == pb::Operation::FetchAdd {
            ADDED
        } else {
            SWAPPED
        },
        ..pb::PostSend::default()
    })
}

/// Returns the number at an offset of a little-endian host's memory.
fn number_at(bytes: &[u8], at: u32) -> u64 {
    let at = at as usize;
    bytes
        .get(at..at + 8)
        .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

fn judge(t: &Trace, f: &mut Findings<'_>, asking: Side) -> Result<(), Gap> {
    let filled = |label| match &t.command(label)?.command {
        Command::WriteMemory(filled) => Ok(filled.bytes.clone()),
        _ => Err(Gap::Missing(label.name)),
    };
    let (dut, own) = (filled(FILL_DUT)?, filled(FILL_OWN)?);
    let _ = t.command(RECEIVE)?;
    let posts: Vec<_> = t.commands(POST).collect();
    let after = t.waited(DONE)?;
    let statement = if asking == Side::Dut {
        COMPLETION
    } else {
        ACKNOWLEDGEMENT
    };
    let begin = posts.first().map_or(0, |post| post.place);
    let done = rc::completions_of(t, asking, (begin, after.place));
    let mut opened = t.commands(labels::OPEN).filter_map(rc::reply);
    let atomics = opened.all(|reply| matches!(reply, Reply::Opened(facts) if facts.atomics));
    let requests = requests(atomics);
    let expected: Vec<String> = requests
        .iter()
        .map(|(wr_id, _)| format!("wr_id {wr_id} with {}", WcStatus::SUCCESS))
        .collect();
    let words = (expected.join(", "), rc::completions_in_words(&done));
    let as_asked = |(done, (wr_id, _)): (&rc::Done<'_>, &(u64, pb::Operation))| {
        done.completion.wr_id == *wr_id && done.status() == WcStatus::SUCCESS
    };
    let result = if words.0 == words.1 {
        Passed::Pass
    } else if done.len() < requests.len() && done.iter().zip(requests).all(as_asked) {
        rc::alive(t, after.place, false)
    } else {
        Passed::Fail
    };
    let complete = f.prove(statement, &rc::evidence(&done), "completions", words, result);
    let (dut_read, own_read) = (t.command(READ_DUT)?, t.command(READ_OWN)?);
    if complete {
        let (mut asks, mut answers) = if asking == Side::Dut { (dut, own) } else { (own, dut) };
        let sums = execute(requests, &mut asks, &mut answers);
        let (dut, own) = if asking == Side::Dut {
            (asks, answers)
        } else {
            (answers, asks)
        };
        let statements = if asking == Side::Dut {
            [DATA, COMPLETION]
        } else {
            [if atomics { ATOMICS } else { SEND }, ACKNOWLEDGEMENT]
        };
        memory(f, statements[0], (dut_read, &dut), ("the DUT's memory", &sums));
        memory(f, statements[1], (own_read, &own), ("the tester's memory", &sums));
        let received: Vec<_> = rc::completions_of(t, other(asking), (0, after.place));
        let words = (
            format!("wr_id 100 with IBV_WC_SUCCESS, {LENGTH} bytes"),
            received.first().map_or_else(
                || "none".into(),
                |one| format!("{}, {} bytes", one.in_words(), one.completion.byte_len),
            ),
        );
        let result = if words.0 == words.1 && received.len() == 1 {
            Passed::Pass
        } else {
            Passed::Fail
        };
        let statement = if asking == Side::Dut { COMPLETION } else { SEND };
        f.prove(
            statement,
            &rc::evidence(&received),
            "completion of the receive",
            words,
            result,
        );
    }
    if asking == Side::Dut {
        let (_, unanswered) = (t.command(DEAF)?, t.command(UNANSWERED)?);
        let (silent, _) = (t.waited(SILENT)?, t.command(STATE)?);
        let done = rc::completions_of(t, Side::Dut, (unanswered.place, silent.place));
        // A device that cannot switch off its ACK timeout fails the request after its retries.
        let gives_up = offers::given(t, Side::Dut, |given| given.timeout).is_some_and(|timeout| timeout != 0);
        let result = match done.as_slice() {
            [] if rc::is_alive_after(t, silent.place) => Passed::Pass,
            [] => Passed::Inconclusive,
            [only] if gives_up && only.status() == WcStatus::RETRY_EXC_ERR => Passed::Inconclusive,
            _ => Passed::Fail,
        };
        let words = ("none", rc::completions_in_words(&done));
        let mut evidence = rc::evidence(&done);
        evidence.push(Evidence::from(unanswered));
        f.prove(
            COMPLETION,
            &evidence,
            "completion of an unanswered request",
            words,
            result,
        );
    }
    if !atomics {
        f.observe(
            "one of the two adapters reports no atomics: the test left them out",
            &[],
        );
    }
    f.observe("weaker procedure: the tester saw no packets and withheld no ACK", &[]);
    Ok(())
}

/// Applies the requests to images of both memories. Returns the results of each atomic in words, with their offsets.
fn execute(requests: &[(u64, pb::Operation)], asks: &mut [u8], answers: &mut [u8]) -> Vec<(usize, String)> {
    let length = LENGTH as usize;
    let mut sums = Vec::new();
    for (n, _) in requests {
        let n = u32::try_from(*n).unwrap_or(0);
        let (here, there) = (local(n) as usize, remote(n) as usize);
        match n {
            1 | 2 => answers[there..there + length].copy_from_slice(&asks[here..here + length]),
            3 => asks[here..here + length].copy_from_slice(&answers[there..there + length]),
            _ => {
                let before = number_at(answers, remote(n));
                let then = if n == 4 { SWAPPED } else { before.wrapping_add(ADDED) };
                asks[here..here + 8].copy_from_slice(&before.to_le_bytes());
                answers[there..there + 8].copy_from_slice(&then.to_le_bytes());
                let how = if n == 4 {
                    format!("{then:#018x}, swapped for {before:#018x}")
                } else {
                    format!("{before:#018x} + {ADDED:#x} = {then:#018x}")
                };
                sums.push((there, how));
                sums.push((here, format!("the original value {before:#018x}")));
            }
        }
    }
    sums
}

fn memory(
    f: &mut Findings<'_>,
    statement: &str,
    (read, expected): (&verbatim_record::VerbsDone, &[u8]),
    (about, sums): (&str, &[(usize, String)]),
) {
    let found: &[u8] = match rc::reply(read) {
        Some(Reply::Bytes(found)) => &found.bytes,
        _ => &[],
    };
    let differs = expected.iter().zip(found).position(|(wanted, seen)| wanted != seen);
    let sum = sums
        .iter()
        .find(|(place, _)| differs.is_some_and(|at| (*place..place + 8).contains(&at)));
    if let Some((place, how)) = sum {
        let seen = number_at(found, u32::try_from(*place).unwrap_or(0));
        let words = (
            format!("{how}, at byte {place}"),
            format!("{seen:#018x} at byte {place}"),
        );
        f.prove(statement, &[read.into()], about, words, Passed::Fail);
        return;
    }
    effect::memory_is(f, (statement, about), read, ("the results of all operations", expected));
}
