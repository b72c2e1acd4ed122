//! The cable between tester and device. This module includes the handling of directed routes by the SMI of the tester's
//! port, and tampering with responses.

use core::time::Duration;

use verbatim_wire::{DrSmp, Layout, Mad};

/// The deliveries of one response: any number of MADs, each with its own delay.
pub type Delivery = Vec<(Duration, Mad)>;

/// A function that replaces each response by its deliveries, for tests of malformed input.
pub type Tamper = Box<dyn FnMut(&Mad) -> Delivery + Send>;

/// Returns a request after the first hop of its directed route, as it leaves the tester's port.
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

/// Returns a response after the last hop of its return route, as the tester's port passes it up.
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
