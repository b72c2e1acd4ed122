//! `c14-024-port-info-ro` (C14_024_06_CA_02): a Set(PortInfo) changes no read-only component.
//!
//! One Set carries another value in every read-only component and the values found in all others; a Get shows them
//! unchanged; a second Set carries what was found. The other values offer more than the port has, where that is
//! possible, so that a device that writes them can be given back what was its own. Reading: such a Set may be answered with success or with 0x001C.
//! InitTypeReply, read-write in some revisions, and LinkRoundTripLatency, which some devices measure anew when it is
//! written, are left alone. Components that the device or its link moves by itself (DiagCode, the active width and
//! speeds, MaxCreditHint) fail only if they show what was written. False alarm: a capability that a host's software
//! switches meanwhile, such as IsSM.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::{CapabilityMask, Hex16};
use verbatim_wire::{Layout, LinkSpeedExt, LinkSpeeds, LinkWidths, Mtu, PortInfo, RespTime, Status, VlCap};

use crate::management::adapter::{self, NODE};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");
const SET: Label<PortInfo> = Label::new("set read-only components");
const AFTER: Label<PortInfo> = Label::new("after setting read-only components");
const BACK: Label<PortInfo> = Label::new("set the values found");

/// Read-only components are not written.
pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-ro",
    aliases: &["C14_024_06_CA_02"],
    revision: 1,
    about: "A Set(PortInfo) that carries other values in read-only components leaves them as they are.",
    reading: "Such a Set may be answered with success or 0x001C. InitTypeReply and LinkRoundTripLatency are left alone. \
        DiagCode, active width and speeds, and MaxCreditHint fail only if they show what was written.",
    statements: &["C14-27"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Read-only components that nothing moves.
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
/// Read-only components that the device or its link moves by itself.
const MOVING: [&str; 6] = [
    "DiagCode",
    "LinkWidthActive",
    "LinkSpeedActive",
    "MaxCreditHint",
    "LinkSpeedExtActive2",
    "LinkSpeedExtActive",
];

/// The value with one more of these bits, or without the highest when it has all.
fn another_bit(set: u8, of: &[u8]) -> u8 {
    let missing = of.iter().find(|bit| set & **bit == 0);
    missing.map_or_else(|| set ^ of.last().copied().unwrap_or(1), |bit| set | bit)
}

/// The next code of a scale, or the one before when it is the last.
fn neighbour(code: u8, last: u8) -> u8 {
    if code < last { code + 1 } else { last - 1 }
}

/// Other values in all read-only components. Where possible they offer more than the port has, so that the values of the
/// read-write components stay legal under them.
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
                format!("not what was written, {}", field.words(written.bytes())),
                bits(&after) != bits(&written) || bits(&after) == bits(&found),
            );
    }
    f.status("C14-27", t.exchange(BACK)?, &[Status::OK, Status::INVALID_FIELD]);
    Ok(())
}
