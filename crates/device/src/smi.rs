//! Directed routes at an adapter's port (architecture 14.2.2): what arrives there, and how the answer leaves.
//!
//! An SMP that a neighbour sends has HopPointer = HopCount: the end of its route. The adapter writes the port into the
//! return path. On the way back the answer's HopPointer is one more, and the adapter's own interface takes
//! it back by one before the answer leaves; the asker's interface does the last step.

use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, Mad};

use crate::defect::{Defect, Faults};

/// Hops that the path arrays hold.
const MAX_HOPS: u8 = 63;

/// The SMP as the agent gets it; `None` when an adapter discards it.
pub(crate) fn receive(mad: &Mad, port: u8, faults: &Faults) -> Option<Mad> {
    if !mad.is_directed() {
        return Some(*mad);
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    let at_the_end = smp.hop_pointer() == smp.hop_count();
    let on_the_way_back = smp.direction();
    // Nothing on this adapter asks, and an adapter does not forward.
    let is_passing = !at_the_end && !faults.has(Defect::DirectedInTransitAnswered);
    if on_the_way_back || is_passing || smp.hop_count() > MAX_HOPS {
        return None;
    }
    // A LID-routed part that follows would have to be forwarded.
    if smp.dr_dlid() != Lid::PERMISSIVE && !faults.has(Defect::DirectedLidPartAnswered) {
        return None;
    }
    if smp.hop_count() == 0 {
        return Some(*mad);
    }
    let smp = smp.with_return_path(smp.hop_pointer().min(MAX_HOPS).into(), port);
    Mad::try_from(smp.bytes()).ok()
}

/// The answer as it leaves: D is set; HopPointer, one more than HopCount at the agent, was taken back by one, and so is HopCount again.
pub(crate) fn send_back(answer: &Mad) -> Mad {
    if !answer.is_directed() {
        return *answer;
    }
    let smp = DrSmp::from_bytes(answer.bytes()).with_direction(true);
    let smp = smp.with_hop_pointer(smp.hop_count());
    Mad::try_from(smp.bytes()).unwrap_or(*answer)
}

/// The answer as a defective device spoils its header.
pub(crate) fn spoiled(answer: &Mad, faults: &Faults) -> Mad {
    let mut mad = *answer;
    let set = |mad: &mut Mad, at: usize, bit: u8| mad.bytes_mut()[at] |= bit;
    if faults.has(Defect::ResponseClassVersion2) {
        mad.bytes_mut()[2] = 2;
    }
    if faults.has(Defect::ResponseReservedSet) {
        set(&mut mad, 19, 1);
    }
    if faults.has(Defect::ResponseStatusReservedSet) && mad.attribute_id() == AttributeId::GUID_INFO {
        set(&mut mad, 5, 0x20);
    }
    if faults.has(Defect::ResponseModifierOfGuidInfoLost) && mad.attribute_id() == AttributeId::GUID_INFO {
        mad.bytes_mut()[20..24].fill(0);
    }
    if !mad.is_directed() {
        return mad;
    }
    if faults.has(Defect::ResponseSmpReservedSet) {
        set(&mut mad, 40, 0x80);
    }
    if faults.has(Defect::ResponseHopCountWrong) {
        mad.bytes_mut()[7] += 1;
    }
    if faults.has(Defect::ResponseDrSlidLost) {
        mad.bytes_mut()[32..34].fill(0);
    }
    if faults.has(Defect::ResponsePathLost) {
        mad.bytes_mut()[128..192].fill(0);
    }
    if faults.has(Defect::ReturnPathNotWritten) {
        mad.bytes_mut()[192..].fill(0);
    }
    mad
}

/// Where the answer goes: back along the route, or to the LID where the route began.
pub(crate) fn destination(request: &Mad, source: Lid) -> Lid {
    if !request.is_directed() {
        return source;
    }
    let smp = DrSmp::from_bytes(request.bytes());
    if smp.hop_count() == 0 {
        smp.dr_slid()
    } else {
        Lid::PERMISSIVE
    }
}
