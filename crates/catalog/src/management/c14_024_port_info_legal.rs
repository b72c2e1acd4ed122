//! `c14-024-port-info-legal`: the original PortInfo has legal values that agree with each other.
//!
//! Subnet managers base routes on these values: states, capacities, and one active width and speed, both supported.
//! Reading: the test judges the active width and speed and the physical state from Initialize on. It judges NeighborMTU
//! and OperationalVLs, which the subnet manager writes, from Armed on. While an extended speed is active, it does not
//! judge LinkSpeedActive, whose value is then undefined. False alarm: a link that goes down between the Get and its
//! response.

use verbatim_record::{Findings, Gap, Label, Legal, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{PhysState, PortInfo, PortState};

use crate::management::adapter::{self, NODE};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");

/// The legal values in all states of the port.
const ALWAYS: [(&str, Legal); 9] = [
    ("PortState", Legal::Within(1, 4)),
    ("PortPhysicalState", Legal::Within(1, 7)),
    ("LinkDownDefaultState", Legal::Within(1, 2)),
    ("LinkWidthSupported", Legal::NotZero),
    ("MTUCap", Legal::Within(1, 5)),
    ("VLCap", Legal::Within(1, 5)),
    ("GUIDCap", Legal::AtLeast(1)),
    ("Reserved274", Legal::Is(0)),
    ("Reserved416", Legal::Is(0)),
];

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-legal",
    aliases: &[],
    revision: 1,
    about: "PortInfo holds legal values: one supported active width and speed, and MTU and VLs within the capacities.",
    reading: "Width and speed are judged from Initialize on, NeighborMTU and OperationalVLs from Armed on. \
        LinkSpeedActive is not judged where an extended speed is active.",
    statements: &["C14-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    t.get(NODE, key)?;
    t.get(FOUND, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    f.legal("C14-24", t.exchange(FOUND)?, &found, &ALWAYS);
    let state = found.port_state();
    if state >= PortState::INITIALIZE {
        link(f, &found);
    }
    if state >= PortState::ARMED {
        let (mtu, most) = (found.neighbor_mtu(), found.mtu_cap());
        f.claim("C14-24", "NeighborMTU")
            .on(FOUND)
            .saw(mtu)
            .must(format!("256 to MTUCap = {most}"), (1..=most.0).contains(&mtu.0));
        let (vls, most) = (found.operational_vls(), found.vl_cap());
        f.claim("C14-24", "OperationalVLs")
            .on(FOUND)
            .saw(vls)
            .must(format!("VL0 to VLCap = {most}"), (1..=most.0).contains(&vls.0));
    }
    Ok(())
}

/// Checks the fields of a link that is up.
fn link(f: &mut Findings<'_>, found: &PortInfo) {
    let physical = found.port_physical_state();
    f.claim("C14-24", "PortPhysicalState").on(FOUND).saw(physical).must(
        format!("LinkUp or LinkErrorRecovery in state {}", found.port_state()),
        matches!(physical, PhysState::LINK_UP | PhysState::ERROR_RECOVERY),
    );
    let (width, widths) = (found.link_width_active(), found.link_width_supported());
    f.claim("C14-24", "LinkWidthActive").on(FOUND).saw(width).must(
        format!("exactly one of the supported ones ({widths})"),
        one_of(width.0, widths.0),
    );
    let extended = found.link_speed_ext_active();
    if extended.0 != 0 {
        let speeds = found.link_speed_ext_supported();
        f.claim("C14-24", "LinkSpeedExtActive").on(FOUND).saw(extended).must(
            format!("exactly one of the supported ones ({speeds})"),
            one_of(extended.0, speeds.0),
        );
    } else if found.link_speed_ext_active_2() == 0 && !may_hide(found) {
        let (speed, speeds) = (found.link_speed_active(), found.link_speed_supported());
        f.claim("C14-24", "LinkSpeedActive").on(FOUND).saw(speed).must(
            format!("exactly one of the supported ones ({speeds})"),
            one_of(speed.0, speeds.0),
        );
    }
}

/// CapabilityMask: the port has extended speeds.
const EXTENDED_SPEEDS: u32 = 1 << 14;

/// Returns whether the port may hide an active extended speed, because the requester did not declare support for
/// extended speeds.
fn may_hide(found: &PortInfo) -> bool {
    found.capability_mask().has(EXTENDED_SPEEDS) && found.link_speed_active().0 == 0
}

fn one_of(active: u8, supported: u8) -> bool {
    active.is_power_of_two() && active & supported != 0
}
