//! `c14-024-port-info-ro` (C14_024_06_CA_02): a Set(PortInfo) changes no read-only component.
//!
//! One Set has another value in every read-only component and the original values in all others. A Get must return the
//! read-only components unchanged. A second Set restores the original values. The other values exceed the port's
//! capabilities where possible, so that a device that stores them accepts the restore. Reading: the port may respond to
//! such a Set with success or with 0x001C. The test does not change InitTypeReply, which is read-write in some
//! revisions, or LinkRoundTripLatency, which some devices measure after a write. Components that the device or its link
//! changes (DiagCode, the active width and speeds, MaxCreditHint) fail only if they have the written value. False
//! alarm: a capability that the host's software changes during the test, such as IsSM.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{CapabilityMask, Hex16};
use verbatim_wire::{Layout, LinkSpeedExt, LinkSpeeds, LinkWidths, Mtu, PortInfo, RespTime, Status, VlCap};

use crate::management::adapter::{self, NODE};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set read-only components");
const AFTER: Label<PortInfo> = Label::new("after setting read-only components");
const BACK: Label<PortInfo> = Label::new("set the values found");

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-ro",
    aliases: &["C14_024_06_CA_02"],
    revision: 1,
    about: "A Set(PortInfo) with other values in read-only components does not change them.",
    reading: "Such a Set may get status 0 or 0x001C. InitTypeReply and LinkRoundTripLatency are not changed. \
        DiagCode, active width and speeds, and MaxCreditHint fail only if they show what was written.",
    statements: &["C14-27"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Read-only components that never change.
const STEADY: [&str; 13] = [
    "CapabilityMask",
    "LocalPortNum",
    "LinkWidthSupported",
    "LinkSpeedSupported",
    "VLCap",
    "VLArbitrationHighCap",
    "VLArbitrationLowCap",
    "MTUCap",
    "GUIDCap",
    "RespTimeValue",
    "LinkSpeedExtSupported2",
    "CapabilityMask2",
    "LinkSpeedExtSupported",
];
/// Read-only components that the device or its link changes.
const MOVING: [&str; 6] = [
    "DiagCode",
    "LinkWidthActive",
    "LinkSpeedActive",
    "MaxCreditHint",
    "LinkSpeedExtActive2",
    "LinkSpeedExtActive",
];

/// Returns the set with one more of these bits, or without the last of the bits if the set has all of them.
fn another_bit(set: u8, of: &[u8]) -> u8 {
    let missing = of.iter().find(|bit| set & **bit == 0);
    missing.map_or_else(|| set ^ of.last().copied().unwrap_or(1), |bit| set | bit)
}

/// Returns the next code of a scale, or the previous code for the last code.
fn neighbour(code: u8, last: u8) -> u8 {
    if code < last { code + 1 } else { last - 1 }
}

/// Returns other values of all read-only components. Where possible they exceed the port's capabilities, so that the
/// read-write components stay legal.
fn other(info: PortInfo) -> PortInfo {
    let flip = |hex: Hex16| Hex16(!hex.0);
    info.with_capability_mask(CapabilityMask(!info.capability_mask().0))
        .with_capability_mask_2(flip(info.capability_mask_2()))
        .with_diag_code(flip(info.diag_code()))
        .with_local_port_num(info.local_port_num() ^ 3)
        .with_link_width_supported(LinkWidths(another_bit(
            info.link_width_supported().0,
            &[1, 2, 4, 8, 16],
        )))
        .with_link_width_active(LinkWidths(if info.link_width_active().0 == 1 { 2 } else { 1 }))
        .with_link_speed_supported(LinkSpeeds(another_bit(info.link_speed_supported().0, &[1, 2, 4, 8])))
        .with_link_speed_active(LinkSpeeds(if info.link_speed_active().0 == 1 { 2 } else { 1 }))
        .with_link_speed_ext_supported(LinkSpeedExt(another_bit(
            info.link_speed_ext_supported().0,
            &[1, 2, 4, 8],
        )))
        .with_link_speed_ext_active(LinkSpeedExt(if info.link_speed_ext_active().0 == 1 { 2 } else { 1 }))
        .with_link_speed_ext_supported_2(info.link_speed_ext_supported_2() ^ 1)
        .with_link_speed_ext_active_2(info.link_speed_ext_active_2() ^ 1)
        .with_vl_cap(VlCap((info.vl_cap().0 + 1) & 0xF))
        .with_vl_arbitration_high_cap(neighbour(info.vl_arbitration_high_cap(), 64))
        .with_vl_arbitration_low_cap(neighbour(info.vl_arbitration_low_cap(), 64))
        .with_mtu_cap(Mtu((info.mtu_cap().0 + 1) & 0xF))
        .with_guid_cap(neighbour(info.guid_cap(), u8::MAX))
        .with_resp_time_value(RespTime(neighbour(info.resp_time_value().0, 20)))
        .with_max_credit_hint(flip(info.max_credit_hint()))
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let port = t.guard(FOUND, key)?;
    t.set(SET, &port, port.quiet().change(other))?;
    t.get(AFTER, key)?;
    t.set(BACK, &port, port.quiet())?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let (_, written) = t.asked(SET)?;
    let after: PortInfo = t.answer(AFTER)?;
    let (set, read) = (t.exchange(SET)?, t.exchange(AFTER)?);
    f.status("C14-27", set, &[Status::OK, Status::INVALID_FIELD]);
    f.same_fields("C14-27", read, &STEADY, &found)?;
    for name in MOVING {
        let field = PortInfo::field(name);
        let bits = |of: &PortInfo| field.bits(of.bytes(), 0);
        f.claim("C14-27", name)
            .by_all([set, read])
            .saw(field.words(after.bytes()))
            .must(
                format!("not the written value, {}", field.words(written.bytes())),
                bits(&after) != bits(&written) || bits(&after) == bits(&found),
            );
    }
    f.status("C14-27", t.exchange(BACK)?, &[Status::OK, Status::INVALID_FIELD]);
    Ok(())
}
