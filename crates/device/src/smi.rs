//! Directed routes at an adapter's port (architecture 14.2.2): what arrives there, and how the answer leaves.
//!
//! An SMP that a neighbour sends has HopPointer = HopCount: the end of its route. The adapter writes the port into the
//! return path. On the way back the answer's HopPointer is one more, and the adapter's own interface takes
//! it back by one before the answer leaves; the asker's interface does the last step.

use verbatim_wire::{DrSmp, Layout, Lid, Mad};

/// Hops that the path arrays hold.
const MAX_HOPS: u8 = 63;

/// The SMP as the agent gets it; `None` when an adapter discards it.
pub(crate) fn receive(mad: &Mad, port: u8) -> Option<Mad> {
    if !mad.is_directed() {
        return Some(*mad);
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    let at_the_end = smp.hop_pointer() == smp.hop_count();
    let on_the_way_back = smp.direction();
    // Nothing on this adapter asks, and an adapter does not forward.
    if on_the_way_back || !at_the_end || smp.hop_count() > MAX_HOPS {
        return None;
    }
    // A LID-routed part that follows would have to be forwarded.
    if smp.dr_dlid() != Lid::PERMISSIVE {
        return None;
    }
    if smp.hop_count() == 0 {
        return Some(*mad);
    }
    let smp = smp.with_return_path(smp.hop_pointer().into(), port);
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
