//! Directed routes at an adapter's port (architecture 14.2.2): received requests and sent responses.
//!
//! When an SMP arrives at the end of its route, HopPointer equals HopCount. The adapter writes the port number into
//! the return path. In the agent's response, HopPointer would be HopCount + 1. The adapter's own interface
//! decrements HopPointer before the response leaves, and the requester's interface performs the last decrement.

use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, Mad};

use crate::defect::{Defect, Faults};

/// Maximum number of hops in the path arrays.
const MAX_HOPS: u8 = 63;

/// Returns the SMP for the agent, or `None` if the adapter discards the SMP.
pub(crate) fn receive(mad: &Mad, port: u8, faults: &Faults) -> Option<Mad> {
    if !mad.is_directed() {
        return Some(*mad);
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    let at_the_end = smp.hop_pointer() == smp.hop_count();
    let on_the_way_back = smp.direction();
    // No requester runs on this adapter, and an adapter does not forward SMPs.
    let is_passing = !at_the_end && !faults.has(Defect::DirectedInTransitAnswered);
    if on_the_way_back || is_passing || smp.hop_count() > MAX_HOPS {
        return None;
    }
    // The adapter would have to forward an SMP with a LID-routed part after the directed route.
    if smp.dr_dlid() != Lid::PERMISSIVE && !faults.has(Defect::DirectedLidPartAnswered) {
        return None;
    }
    if smp.hop_count() == 0 {
        return Some(*mad);
    }
    let smp = smp.with_return_path(smp.hop_pointer().min(MAX_HOPS).into(), port);
    Mad::try_from(smp.bytes()).ok()
}

/// Returns the response as it leaves the port: with D set and HopPointer = HopCount.
pub(crate) fn send_back(answer: &Mad) -> Mad {
    if !answer.is_directed() {
        return *answer;
    }
    let smp = DrSmp::from_bytes(answer.bytes()).with_direction(true);
    let smp = smp.with_hop_pointer(smp.hop_count());
    Mad::try_from(smp.bytes()).unwrap_or(*answer)
}

/// Returns the response with the header errors of a defective device.
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

/// Returns the DLID of the response: the source LID of a LID-routed request, DrSLID for HopCount 0, otherwise
/// permissive.
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
