//! Linux rxe as the DUT: some packets crash its kernel.
//!
//! Linux rxe computes the ICRC over the headers that an opcode should have. A shorter packet, or an opcode without
//! headers, makes its kernel panic. Without the operator's permission, a test sends no such packet. The files
//! `deviations/linux-rxe*.toml` name the device and the kernels.

use verbatim_record::Trace;
use verbatim_record::verbs::Reply;
use verbatim_tester::{Parameter, Tester};

use crate::deviations::{Deviation, Device, endangering};

const NAME: &str = "soft_roce";

/// Parameter that allows a test to crash the host of a Linux rxe.
pub(super) const PARAMETER: Parameter = Parameter {
    name: NAME,
    about: "1: run it on Linux rxe too, although its kernel may panic",
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

/// Returns whether the test must not send packets that crash the host of this device.
pub(super) fn is_spared(t: &Tester<'_>, test: &str, opened: &Reply) -> bool {
    t.parameter(NAME) != 1 && danger(test, opened).is_some()
}

/// Returns the reason why the test did not send the dangerous packets to this device. `sent` states whether the record
/// has these packets.
pub(super) fn spared(t: &Trace, test: &str, opened: Option<&Reply>, sent: bool) -> Option<String> {
    let Reply::Opened(facts) = opened? else { return None };
    if t.parameter(NAME) == Some(1) || sent {
        return None;
    }
    // Older versions of the test spared any host with VendorID 0, independent of its agent's report.
    let by_number = || endangering(test, &Device::of_host(facts.vendor_id, "")).filter(|_| t.stopped.is_none());
    let danger = danger(test, opened?).or_else(by_number)?;
    let (is, of) = match facts.vendor_id {
        0 => ("may be", "0"),
        _ => ("is", "0xffffff"),
    };
    Some(format!(
        "by its VendorID {of}, the device {is} Linux rxe, {}; if its host may crash, run this with `--set soft_roce=1`",
        danger.endangers.as_deref().unwrap_or_default()
    ))
}
