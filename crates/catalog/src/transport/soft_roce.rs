//! Linux rxe as the DUT: it computes the ICRC over the headers that an opcode should have, and its kernel panics over a packet
//! that is shorter, or whose opcode has none. No host is taken down unasked: which device and which kernel that is, stands in
//! `deviations/linux-rxe*.toml`.

use verbatim_record::Trace;
use verbatim_record::verbs::Reply;
use verbatim_tester::{Parameter, Tester};

use crate::deviations::{Deviation, Device, endangering};

const NAME: &str = "soft_roce";

/// Says that the host of a Linux rxe may go down.
pub(super) const PARAMETER: Parameter = Parameter {
    name: NAME,
    about: "1: try it on Linux rxe too, whose kernel panics over it",
    range: (0, 1),
    simulated: 0,
    default: 0,
};

fn danger(test: &str, opened: &Reply) -> Option<&'static Deviation> {
    match opened {
        Reply::Opened(facts) => endangering(test, &Device::of_host(facts.vendor_id, &facts.host)),
        _ => None,
    }
}

/// Whether what takes its host down is not to be sent to the device that answered Open with this.
pub(super) fn is_spared(t: &Tester<'_>, test: &str, opened: &Reply) -> bool {
    t.parameter(NAME) != 1 && danger(test, opened).is_some()
}

/// Why it was not sent, where it was not. `sent` says whether the record has it.
pub(super) fn spared(t: &Trace, test: &str, opened: Option<&Reply>, sent: bool) -> Option<String> {
    let Reply::Opened(facts) = opened? else { return None };
    if t.parameter(NAME) == Some(1) || sent {
        return None;
    }
    // Of old, any host with VendorID 0 was spared, whatever its agent.
    let by_number = || endangering(test, &Device::of_host(facts.vendor_id, "")).filter(|_| t.stopped.is_none());
    let danger = danger(test, opened?).or_else(by_number)?;
    let (is, of) = match facts.vendor_id {
        0 => ("may be", "0"),
        _ => ("is", "0xffffff"),
    };
    Some(format!(
        "the device {is} Linux rxe by its VendorID {of}, {}; where its host may go down, `--set soft_roce=1` tries it",
        danger.endangers.as_deref().unwrap_or_default()
    ))
}
