//! Linux rxe as the DUT: it computes the ICRC over the headers that an opcode should have, and its kernel panics over a packet
//! that is shorter, or whose opcode has none. No host is taken down unasked.

use verbatim_record::Trace;
use verbatim_record::verbs::Reply;
use verbatim_tester::{Parameter, Tester};

/// VendorID of Linux rxe (the kernel's `rxe_param.h`), and of older ones: no vendor's.
const VENDOR_IDS: [u32; 2] = [0xff_ffff, 0];

const NAME: &str = "soft_roce";

/// Says that the host of a Linux rxe may go down.
pub(super) const PARAMETER: Parameter = Parameter {
    name: NAME,
    about: "1: try it on Linux rxe too, whose kernel panics over it",
    range: (0, 1),
    simulated: 0,
    default: 0,
};

fn is_one(opened: &Reply) -> bool {
    matches!(opened, Reply::Opened(facts) if VENDOR_IDS.contains(&facts.vendor_id))
}

/// Whether what takes rxe down is not to be sent to the device that answered Open with this.
pub(super) fn is_spared(t: &Tester<'_>, opened: &Reply) -> bool {
    is_one(opened) && t.parameter(NAME) != 1
}

/// Whether it was not sent.
pub(super) fn was_spared(t: &Trace, opened: Option<&Reply>) -> bool {
    opened.is_some_and(is_one) && t.parameter(NAME) != Some(1)
}
