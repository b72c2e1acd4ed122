//! Fixed walks, for cases that random walks rarely reach.
//!
//! Each walk is a list of connections and steps, run and judged like a random walk.
//!
//! - `c09-atomic-replay`: the peer repeats as many atomics as the DUT stores, the oldest first. One connection has
//!   a max_rd_atomic of 1, which limits only the DUT's own requests. Without atomics, the test is NOT_APPLICABLE.
//! - `c09-region-edges`: requests have each bit of the R_Key flipped, or bits 32, 48 and 63 of an address. Requests
//!   reach a byte beyond the region or before it. Other requests use the region's last byte.
//! - `c09-psn-wrap`: each operation crosses the PSN wrap and PSN 0x800000, in both roles. One connection has more
//!   messages than one byte can count.
//! - `c09-loss-positions`: in both roles, each packet of a message of four packets is lost, refused or damaged
//!   once. Other messages precede and follow this message. The request or the response of the DUT's atomics is
//!   lost. The peer acknowledges each packet of long messages. On one connection, more READs or atomics than
//!   `retry_cnt` get one sequence NAK each.
//! - `c09-stale-responses`: the peer sends responses to completed requests while a request waits, and between the
//!   responses to a READ. Requests that need no receive get RNR NAKs.
//!
//! Reading: the DUT stores the results of `max_dest_rd_atomic` atomics. The test requires nothing for older atomics.
//!
//! False alarm: an R_Key with one flipped bit may belong to another region of the test, at another address. That
//! region refuses the request as well.

use verbatim_record::verbs::pb::Operation as O;
use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step as Done, Test, Tester};
use verbatim_wire::Mtu;
use verbatim_wire::packet::{AckTimeout, NakCode, Psn, RnrTimer};

use super::peer::{TARGET, labels};
use super::step::{Fault, Illegal, Step, Stray, WalkConnection, Want, Way, want};
use super::{ACCESS, ATOMICS, COMPLETION, DUPLICATES, ERRORS, IMMEDIATE, NAKS, RESPONSE_DATA, judge_shown, take};
use crate::transport::c09_060_atomic_responder::has_atomics;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::{GENERATION, came, offers};

/// Statement on time-outs: no request is retransmitted before its time-out.
pub(super) const TIMEOUT: &str = "C9-142";
/// Statement on RNR retries: a request is retried after an RNR NAK.
pub(super) const RNR: &str = "9.7.5.2.8 RNR retry";
/// Path MTU in bytes.
const MTU: u32 = 256;
/// Length in bytes of a message of four packets.
const FOUR: u32 = 3 * MTU + 5;

macro_rules! directed {
    (
        $name:ident $revision:literal $id:literal $about:literal $reading:literal
        $connections:path, $judge:path, [$($statement:path),*]
    ) => {
        #[doc = $about]
        pub(in crate::transport) static $name: Test = Test {
            id: $id,
            aliases: &[],
            revision: $revision,
            about: $about,
            reading: $reading,
            statements: &[ACKNOWLEDGEMENT, $($statement),*],
            needs: &[Need::Packets],
            parameters: &[],
            procedure: |t: &mut Tester<'_>| -> Done { take(t, &$connections(t)) },
            judge: $judge,
        };
    };
}

directed!(ATOMIC_REPLAY 3 "c09-atomic-replay"
    "The DUT answers each repeated atomic that it must keep with the original result, and does not execute it again."
    "The peer sends four atomics, because max_dest_rd_atomic is 4, then repeats each twice, from the oldest on. The \
    DUT returns the original results, and memory is unchanged. READs of several packets between the atomics take one \
    place each."
    atomic_replay, judge_atomics, [ATOMICS, DUPLICATES]);
directed!(REGION_EDGES 3 "c09-region-edges"
    "The DUT refuses an R_Key with a flipped bit, a byte outside the region, and an address with a flipped high bit. \
    It executes requests for the last byte."
    "Each case has its own connection: one NAK 0x62, ERR, and unchanged memory. An R_Key with a flipped bit may \
    belong to another region of the test, at another address. Atomics lie 8 bytes outside. All 64 bits of an address \
    count; a request whose end wraps to address 0 is outside. The DUT executes a request that ends with the region's \
    last byte or begins with its first."
    region_edges, judge, [ACCESS, ATOMICS, ERRORS]);
directed!(PSN_WRAP 3 "c09-psn-wrap"
    "Each operation works across the PSN wrap and across PSN 0x800000, in both roles; so do 260 messages on one \
    connection."
    "The first PSN lies two PSNs before the wrap or before PSN 0x800000; for atomics it lies one PSN before. The MSN \
    has 24 bits: the 260th message has MSN 260."
    psn_wrap, judge, [IMMEDIATE, MSN, ATOMICS, COMPLETION, GENERATION, RESPONSE_DATA]);
directed!(LOSS_POSITIONS 4 "c09-loss-positions"
    "If any one packet of a message is lost, damaged or temporarily refused, this message and its neighbors are \
    executed once."
    "Messages of four packets lie between other messages; the fault hits each packet in turn. RNR NAKs also come in \
    the middle of a message, where only a WRITE with Immediate can lack a receive."
    loss_positions, judge, [IMMEDIATE, COMPLETION, GENERATION, NAKS, RESPONSE_DATA]);
directed!(STALE_RESPONSES 3 "c09-stale-responses"
    "A response to a completed request does not affect a waiting request; a fence holds until the last response to a \
    READ; the DUT repeats any request after an RNR NAK."
    "Only the timer repeats a SEND that is left unanswered once. Each kind of response, with the PSN of a completed \
    request, comes while a SEND waits, and between the first response to a READ and the others. The valid response \
    comes 20 ms later. Until then the DUT repeats nothing, fails no request and sends no fenced request. A NAK of the \
    waiting request ends it. A SEND, a WRITE, a READ and an atomic get RNR NAKs while the ACK timeout is off."
    stale_responses, judge, [COMPLETION, GENERATION, NAKS, RESPONSE_DATA, TIMEOUT, RNR]);

/// Length in bytes of a message of many packets: more than most adapters keep in flight.
const LONG: u32 = 72 * MTU;

/// Number of messages on one connection: more than one byte can count.
const MESSAGES: u32 = 260;
/// Number of messages that the peer sends at once.
const TOGETHER: u32 = 20;

/// Builds connections, each from its first PSN and its steps.
fn numbered(of: impl IntoIterator<Item = (Option<Psn>, Vec<Step>)>) -> Vec<WalkConnection> {
    let connection = |(number, (psn, steps)): (u64, (Option<Psn>, Vec<Step>))| WalkConnection {
        number,
        options: ChannelOptions {
            mtu: Mtu(1),
            timeout: AckTimeout(14),
            psn,
            own_psn: psn,
            ..ChannelOptions::default()
        },
        counts_packets: false,
        any_key: false,
        beside: None,
        steps: (0..).zip(steps).collect(),
    };
    (1..).zip(of).map(connection).collect()
}

fn atomic_replay(_: &Tester<'_>) -> Vec<WalkConnection> {
    let replays = |operations: [O; 4]| {
        let length = |operation: O| if operation == O::Read { FOUR } else { 8 };
        let ask = operations.map(|operation| Step::Ask(vec![want(operation, length(operation))], Way::Sound));
        // Repeat each request twice, because the DUT must keep a result for more than one duplicate.
        let again = [3, 2, 1, 0, 3, 2, 1, 0].map(Step::Again);
        (None, ask.into_iter().chain(again).collect())
    };
    let mut all = numbered([
        replays([O::FetchAdd; 4]),
        replays([O::CompareSwap; 4]),
        replays([O::CompareSwap, O::FetchAdd, O::CompareSwap, O::FetchAdd]),
        replays([O::FetchAdd, O::Read, O::CompareSwap, O::Read]),
        replays([O::FetchAdd; 4]),
    ]);
    if let Some(last) = all.last_mut() {
        last.options.max_rd_atomic = 1;
    }
    all
}

/// Judges the atomics. Without atomics the peer sent nothing, and the test is NOT_APPLICABLE.
fn judge_atomics(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let executes = [O::CompareSwap, O::FetchAdd].map(|operation| offers::executes(t, operation));
    if !has_atomics(t) || executes == [false, false] {
        f.not_applicable = Some("the device says that it has no atomics".into());
        return Ok(());
    }
    came(t, &[labels::REQUEST])?;
    judge(t, f)
}

/// Judges a walk, without the statements whose operations the device lacks.
fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if !has_atomics(t) {
        f.goes_without(&[ATOMICS], "the device has no atomics");
    }
    if !offers::posts_with_response(t) {
        f.goes_without(&[RESPONSE_DATA], "the device has neither READs nor atomics");
    }
    judge_shown(t, f)
}

/// Length of the region in bytes.
const REGION: u32 = ChannelOptions::MEMORY;

fn region_edges(_: &Tester<'_>) -> Vec<WalkConnection> {
    let each = [O::Write, O::Read, O::FetchAdd].into_iter().cycle();
    let keys = (0..32).zip(each).map(|(bit, operation)| Illegal::RKey(operation, bit));
    let beyond = [O::Write, O::Read, O::CompareSwap, O::FetchAdd].map(Illegal::Beyond);
    let before = [O::Write, O::Read, O::CompareSwap, O::FetchAdd].map(Illegal::Before);
    let around = [O::Write, O::Read].map(Illegal::Around);
    // Adapters may cut addresses at 32 bits, at the 48 bits of a host's pages, or at the highest bit.
    let bits = [32, 48, 63].into_iter();
    let elsewhere =
        bits.flat_map(|bit| [O::Write, O::Read, O::FetchAdd].map(|operation| Illegal::Address(operation, bit)));
    let all = keys.chain(beyond).chain(before).chain(around).chain(elsewhere);
    let refused = all.map(|illegal| {
        let sound = Step::Ask(vec![want(O::Write, 8)], Way::Sound);
        (None, vec![sound, Step::Illegal(illegal)])
    });
    // A request that ends with the region's last byte, or begins with its first byte, lies within the region.
    let from_end = |operation: O, length: u32| Want {
        place: REGION - TARGET - length,
        ..want(operation, length)
    };
    let to_end = [(O::Write, 1), (O::Write, FOUR), (O::Read, 1), (O::Read, FOUR)];
    let atomics = [(O::FetchAdd, 8), (O::CompareSwap, 8)];
    let all = to_end.into_iter().chain(atomics);
    let within = all.map(|(operation, length)| Step::Ask(vec![from_end(operation, length)], Way::Sound));
    let whole = Want {
        place: 0u32.wrapping_sub(TARGET),
        ..want(O::Read, REGION)
    };
    let first = Want { length: 1, ..whole };
    let whole = [whole, first].map(|want| Step::Ask(vec![want], Way::Sound));
    numbered(refused.chain([(None, within.chain(whole).collect())]))
}

fn psn_wrap(_: &Tester<'_>) -> Vec<WalkConnection> {
    let asked = [
        O::Send,
        O::SendImm,
        O::Write,
        O::WriteImm,
        O::Read,
        O::FetchAdd,
        O::CompareSwap,
    ];
    // The PSN at which the highest bit changes must work like any other PSN.
    let tops = [0x00FF_FFFF, 0x007F_FFFF].into_iter();
    let each = tops.flat_map(|top| asked.map(|operation| (top, operation)));
    let connections = each.map(|(top, operation)| {
        let is_atomic = matches!(operation, O::FetchAdd | O::CompareSwap);
        let both = vec![want(operation, if is_atomic { 8 } else { FOUR }), want(O::Write, 8)];
        let steps = vec![
            Step::Ask(both.clone(), Way::Sound),
            Step::Again(1),
            Step::Post(both, 0, Fault::None),
        ];
        // An atomic has the PSN `top`. Of four packets, two have PSNs up to `top`.
        let first = if is_atomic { top } else { top - 1 };
        (Some(Psn::new(first)), steps)
    });
    // The peer repeats a request with the last PSN before the wrap, when its next PSN lies after the wrap.
    let again = [O::Write, O::Send, O::SendImm, O::WriteImm].map(|operation| {
        let asks = [want(operation, 8), want(O::Write, 8)].map(|want| Step::Ask(vec![want], Way::Sound));
        let [first, second] = asks;
        let steps = vec![first, Step::Again(0), second, Step::Again(1), Step::Again(0)];
        (Some(Psn::new(0x00FF_FFFF)), steps)
    });
    // Several requests are outstanding across the wrap when they time out, or when the first gets a sequence NAK.
    let outstanding = [Fault::Silent(1), Fault::SequenceNak(0)].map(|fault| {
        let steps = vec![Step::Post(vec![want(O::Write, 8); 4], 0, fault)];
        (Some(Psn::new(0x00FF_FFFE)), steps)
    });
    let connections = connections.chain(again).chain(outstanding);
    let many = (0..MESSAGES / TOGETHER).map(|_| Step::Ask(vec![want(O::Write, 8); TOGETHER as usize], Way::Sound));
    numbered(connections.chain([(None, many.collect())]))
}

fn stale_responses(_: &Tester<'_>) -> Vec<WalkConnection> {
    // The PSNs before each tested request belong to a SEND, to the responses to a READ, and to a SEND.
    let done = Step::Post(
        vec![want(O::Send, 8), want(O::Read, FOUR), want(O::Send, 8)],
        0,
        Fault::None,
    );
    let fatal = [
        NakCode::INVALID_REQUEST,
        NakCode::REMOTE_ACCESS,
        NakCode::REMOTE_OPERATIONAL,
    ];
    let strays = [1, 3].into_iter().flat_map(|by| {
        let others = [Stray::StaleAck(by), Stray::StaleNak(by), Stray::StaleRnr(by)];
        others.into_iter().chain(fatal.map(|code| Stray::StaleFatal(code, by)))
    });
    let strays = strays.chain([2, 5].map(Stray::StaleRead));
    let fenced = Want {
        fence: true,
        ..want(O::Send, 8)
    };
    let each = strays.map(|stray| {
        let waits = Step::Post(vec![want(O::Send, 8), want(O::Write, 8)], 0, Fault::Behind(stray));
        let amid = Step::Post(vec![want(O::Read, FOUR), fenced], 0, Fault::Within(stray));
        // A NAK of the outstanding request must take effect.
        let meant = Step::Refuse(vec![want(O::Send, 8)], 0, NakCode::REMOTE_OPERATIONAL);
        (None, vec![done.clone(), waits, done.clone(), amid, meant])
    });
    // This connection shows how soon the device's own timer retransmits.
    let silent = Step::Post(vec![want(O::Send, 8)], 0, Fault::Silent(1));
    let mut connections = numbered(core::iter::once((None, vec![silent])).chain(each));
    let unready = [O::Send, O::Write, O::Read, O::FetchAdd, O::CompareSwap].map(|operation| {
        let behind = vec![want(operation, 8), want(O::Send, 8)];
        Step::Post(behind, 0, Fault::Unready(RnrTimer(8)))
    });
    let mut last = WalkConnection {
        number: connections.len() as u64 + 1,
        steps: (0..).zip(unready).collect(),
        ..connections[0].clone()
    };
    last.options.timeout = AckTimeout(0);
    last.options.rnr_retry = 3;
    // With `rnr_retry` 7 (no limit), the peer sends more RNR NAKs than one byte can count.
    let patient = Step::Post(vec![want(O::Send, 8)], 0, Fault::Rnr(RnrTimer(1), 260));
    let mut patient = WalkConnection {
        number: last.number + 1,
        steps: vec![(0, patient)],
        ..last.clone()
    };
    patient.options.rnr_retry = 7;
    connections.extend([last, patient]);
    connections
}

fn loss_positions(t: &Tester<'_>) -> Vec<WalkConnection> {
    let between = |operation: O| vec![want(O::Send, 8), want(operation, FOUR), want(O::Read, FOUR)];
    let asked = [O::Send, O::WriteImm].into_iter().map(|operation| {
        let lost = (0..6).flat_map(|at| [Way::Lost(at), Way::Damaged(at)]);
        let steps = lost.map(|way| Step::Ask(between(operation), way));
        (None, steps.collect())
    });
    let posted = [O::Send, O::WriteImm, O::Read].into_iter().map(|operation| {
        let faults = (0..4).flat_map(|at| [Fault::RequestLost(at), Fault::SequenceNak(at), Fault::ResponseLost(at)]);
        let rnr = [Fault::Rnr(RnrTimer(8), 1), Fault::AnswerLost];
        let steps = faults.chain(rnr).map(|fault| Step::Post(between(operation), 1, fault));
        (None, steps.collect())
    });
    // Several requests with different data stay unanswered. Another request lies between a READ and a fenced
    // request. Then more READs than may be outstanding time out, one after the other.
    let fenced = Want {
        fence: true,
        ..want(O::Send, 8)
    };
    let unanswered = [
        vec![want(O::SendImm, 8), want(O::WriteImm, 8), want(O::SendImm, 8)],
        vec![want(O::Read, 8), want(O::Send, 8), fenced],
    ];
    let unanswered = unanswered.into_iter().flat_map(|wants| {
        let faults = [
            Fault::Silent(1),
            Fault::Silent(2),
            Fault::Rnr(RnrTimer(8), 1),
            Fault::SequenceNak(0),
        ];
        faults.map(|fault| Step::Post(wants.clone(), 0, fault))
    });
    let slots = (0..6).map(|_| Step::Post(vec![want(O::Read, 8)], 0, Fault::Silent(1)));
    let unanswered = (None, unanswered.chain(slots).collect());
    // The last packet of a WRITE with Immediate consumes the receive, which is missing once or twice.
    let unready = [Way::Unready, Way::UnreadyTwice].map(|way| Step::Ask(vec![want(O::WriteImm, FOUR)], way));
    let unready = (None, unready.into_iter().collect());
    // The DUT sends packets of the second message while the peer acknowledges the first.
    let long = [want(O::Send, LONG), want(O::Write, LONG)];
    let long = (0..2).map(|at| Step::Post(long.to_vec(), at, Fault::Each));
    // Each answered request reloads the retry counter.
    let refused = [O::Read, O::FetchAdd].into_iter().map(|operation| {
        let once = Step::Post(vec![want(operation, 8)], 0, Fault::SequenceNak(0));
        (None, vec![once; 9])
    });
    let atomics = [O::FetchAdd, O::CompareSwap].into_iter().map(|operation| {
        let faults = [Fault::RequestLost(0), Fault::AnswerLost, Fault::SequenceNak(0)];
        // No request follows the atomic. A response to a later request would imply that the atomic's response was
        // lost, and the DUT would retry before its timeout.
        let last = vec![want(O::Send, 8), want(operation, 8)];
        let steps = faults.map(|fault| Step::Post(last.clone(), 1, fault));
        (None, steps.into_iter().collect())
    });
    let one = [Fault::Silent(1), Fault::SequenceNak(0)].map(|fault| Step::Post(vec![want(O::Read, 8); 3], 0, fault));
    let one = (None, one.into_iter().collect());
    let mut connections = numbered(
        asked
            .chain(posted)
            .chain(atomics)
            .chain([unready, unanswered, (None, long.collect())])
            .chain(refused)
            .chain([one]),
    );
    if let Some(last) = connections.last_mut() {
        last.options.max_rd_atomic = 1;
    }
    connections
        .iter_mut()
        .for_each(|connection| connection.counts_packets = true);
    // A host that is busy for about 100 ms must not cause retries that no step intends.
    if !t.is_simulated() {
        connections
            .iter_mut()
            .for_each(|connection| connection.options.timeout = AckTimeout(17));
    }
    connections
}
