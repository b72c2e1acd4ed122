//! Reliable connections of a record: dialogues, posted requests, and the capabilities of the DUT's host.

mod dialogue;
pub mod offers;
mod posted;

use core::time::Duration;

use verbatim_record::verbs::{Reply, pb};
use verbatim_record::{Trace, VerbsDone};
use verbatim_wire::packet::{NakCode, Opcode, Packet, Psn, Syndrome, SyndromeKind};

pub(crate) use dialogue::merge;
pub use dialogue::{Dialogue, Done, Seen, connections_of, dialogues, end_of, is_taken, whole_dialogues};
pub use posted::{Posted, seen_in_words};
pub use verbatim_record::labels::steps;

/// Time that a response may take before the tester repeats its request. The speed of the responder is not tested.
pub const RESPONSE_WAIT: Duration = Duration::from_millis(500);
/// Time within which the data of an acknowledged WRITE must be visible to the host. The ACK proves execution, but
/// does not order the WRITE before the host's reads. A later receive completion does.
pub const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// Half of all PSNs. A PSN that is less than this distance ahead of another PSN is later than that PSN.
pub const HALF: u32 = Psn::COUNT / 2;

/// Returns the number of PSNs that a request takes. A SEND or WRITE takes one PSN for each packet, a READ one for
/// each response packet, and an atomic one. `length` and `mtu` are in bytes.
pub fn psns(operation: pb::Operation, length: u32, mtu: u32) -> u32 {
    match operation {
        pb::Operation::CompareSwap | pb::Operation::FetchAdd => 1,
        _ => length.div_ceil(mtu).max(1),
    }
}

/// Returns the syndrome of a NAK or RNR NAK.
pub fn nak_of(packet: &Packet<'_>) -> Option<Syndrome> {
    let syndrome = packet.aeth()?.syndrome();
    (!matches!(syndrome.kind(), SyndromeKind::Ack(_))).then_some(syndrome)
}

/// Returns whether the packet is a PSN sequence error NAK.
pub fn is_sequence_nak(packet: &Packet<'_>) -> bool {
    packet.opcode() == Opcode::RC_ACKNOWLEDGE
        && nak_of(packet).is_some_and(|syndrome| syndrome == Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR))
}

/// Returns the reply to a command, if there is one.
pub fn reply(command: &VerbsDone) -> Option<&Reply> {
    command.answer.as_ref().map(|(_, _, reply, _)| reply)
}

/// Number of responses that a path measurement needs for a valid longest time.
const MEASURED: u32 = 100;

/// Returns the longest round trip of the path, if it was measured before and after the test, each time with 100
/// responses or more.
///
/// Without this value, no lower bound of a time can be checked, because the path may account for part of the time.
pub fn path(trace: &Trace) -> Option<Duration> {
    let trips = &trace.timeline.round_trips;
    let measured = trips.len() >= 2 && trips.iter().all(|trips| trips.answered >= MEASURED);
    let longest = trips.iter().map(|trips| trips.longest).max();
    longest.filter(|_| measured)
}
