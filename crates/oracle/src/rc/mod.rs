//! Reliable connections of a record: the dialogue of a queue pair, its posted requests, and what its host offers.

mod dialogue;
pub mod offers;
mod posted;

use core::time::Duration;

use verbatim_record::verbs::{Reply, pb};
use verbatim_record::{Trace, VerbsDone};
use verbatim_wire::packet::{NakCode, Opcode, Packet, Psn, Syndrome, SyndromeKind};

pub use dialogue::{Dialogue, Done, Seen, connections_of, dialogues, end_of, is_taken, whole_dialogues};
pub use posted::{Posted, seen_in_words};
pub use verbatim_record::labels::steps;

/// How long an answer may take before the request is sent again: ours is no test of the responder's speed.
pub const RESPONSE_WAIT: Duration = Duration::from_millis(500);
/// How long an acknowledged WRITE may be on its way to where the host sees it: the ACK says that it was done, and gives
/// no order with what the host reads. A receive that completes behind it does.
pub const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// Distance below which a PSN lies ahead of another one.
pub const HALF: u32 = Psn::COUNT / 2;

/// PSNs that a request takes: packets of a SEND or WRITE, responses to a READ, one for an atomic.
pub fn psns(operation: pb::Operation, length: u32, mtu: u32) -> u32 {
    match operation {
        pb::Operation::CompareSwap | pb::Operation::FetchAdd => 1,
        _ => length.div_ceil(mtu).max(1),
    }
}

/// The syndrome of a NAK or RNR NAK.
pub fn nak_of(packet: &Packet<'_>) -> Option<Syndrome> {
    let syndrome = packet.aeth()?.syndrome();
    (!matches!(syndrome.kind(), SyndromeKind::Ack(_))).then_some(syndrome)
}

/// Whether it is the NAK of a gap.
pub fn is_sequence_nak(packet: &Packet<'_>) -> bool {
    packet.opcode() == Opcode::RC_ACKNOWLEDGE
        && nak_of(packet).is_some_and(|syndrome| syndrome == Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR))
}

/// The reply of a command, if it was not refused.
pub fn reply(command: &VerbsDone) -> Option<&Reply> {
    command.answer.as_ref().map(|(_, _, reply, _)| reply)
}

/// Exchanges that a measurement of the path needs before its longest says anything.
const MEASURED: u32 = 100;

/// The longest round trip of the path, if it was measured before and after, each time by a hundred answers or more.
///
/// Without it a measured time may be the path's in part, so that no lower bound can be shown to hold.
pub fn path(trace: &Trace) -> Option<Duration> {
    let trips = &trace.timeline.round_trips;
    let measured = trips.len() >= 2 && trips.iter().all(|trips| trips.answered >= MEASURED);
    let longest = trips.iter().map(|trips| trips.longest).max();
    longest.filter(|_| measured)
}
