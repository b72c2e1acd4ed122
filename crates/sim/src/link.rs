//! The cable between tester and device, with what the SMI of the tester's own port does to directed routes,
//! and what can happen on the way.

use core::time::Duration;

use verbatim_wire::{DrSmp, Layout, Mad};

/// What becomes of an answer on its way: any number of MADs, each after a delay of its own.
pub type Delivery = Vec<(Duration, Mad)>;

/// Decides what becomes of each answer; for tests of bad input.
pub type Tamper = Box<dyn FnMut(&Mad) -> Delivery + Send>;

/// A request as it leaves the tester's port: the first hop of a directed route is behind it.
#[must_use]
pub fn smi_forward(mad: &Mad) -> Mad {
    if !mad.is_directed() {
        return *mad;
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    if smp.direction() || smp.hop_pointer() >= smp.hop_count() {
        return *mad;
    }
    to_mad(&smp.with_hop_pointer(smp.hop_pointer() + 1))
}

/// An answer as the tester's port hands it up: the last hop of the way back is behind it.
#[must_use]
pub fn smi_return(mad: &Mad) -> Mad {
    if !mad.is_directed() {
        return *mad;
    }
    let smp = DrSmp::from_bytes(mad.bytes());
    to_mad(&smp.with_hop_pointer(smp.hop_pointer().saturating_sub(1)))
}

fn to_mad(smp: &DrSmp) -> Mad {
    let mut mad = Mad::default();
    mad.bytes_mut().copy_from_slice(smp.bytes());
    mad
}
