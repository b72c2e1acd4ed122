//! `c14-024-port-info-illegal` (C14_024_06_CA_03): a port refuses an illegal value in PortInfo with 0x001C and does not
//! store it.
//!
//! Up to thirteen Sets have one illegal value each. OperationalVLs: VLCap plus one, and two values with bit 3 set.
//! NeighborMTU: MTUCap plus one, and 0. LinkWidthEnabled and LinkSpeedEnabled: an unsupported width or speed added
//! to the supported values. LinkDownDefaultState: an undefined code. LID and MasterSMLID: multicast LIDs, the
//! permissive LID, and 0 if a unicast LID was assigned. The port responds with 0x001C, and the component does not
//! change.
//!
//! Reading: the page leaves open whether an illegal component invalidates the whole Set. The Set therefore changes
//! nothing else, and only the illegal component is judged. On a simulated rig the test also sets the first and the last
//! unicast LID, which the port must store. After each of these Sets it replaces the LID 1 by 0, which the port must
//! refuse. The test does not set the LID if the rig reaches the device by its LID. False alarm: another SM that writes
//! PortInfo during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{Layout, Lid, LinkDownDefault, LinkSpeeds, LinkWidths, Mtu, PortInfo, Status, VlCap};

use crate::management::adapter::{self, NODE};

const FOUND: Label<PortInfo> = Label::new("PortInfo as found");

/// The label, field and value of one illegal Set.
struct Case {
    field: &'static str,
    set: Label<PortInfo>,
    after: Label<PortInfo>,
    illegal: fn(PortInfo) -> PortInfo,
}

/// The cases of LID and MasterSMLID come last: if a device stores an illegal LID, the restore follows soon after.
const CASES: [Case; 11] = [
    Case {
        field: "OperationalVLs",
        set: Label::new("set OperationalVLs beyond VLCap"),
        after: Label::new("after OperationalVLs beyond VLCap"),
        illegal: |info| info.with_operational_vls(VlCap((info.vl_cap().0 + 1) & 0xF)),
    },
    Case {
        field: "NeighborMTU",
        set: Label::new("set NeighborMTU beyond MTUCap"),
        after: Label::new("after NeighborMTU beyond MTUCap"),
        illegal: |info| info.with_neighbor_mtu(Mtu((info.mtu_cap().0 + 1) & 0xF)),
    },
    Case {
        field: "LinkWidthEnabled",
        set: Label::new("set LinkWidthEnabled that is not supported"),
        after: Label::new("after LinkWidthEnabled that is not supported"),
        illegal: |info| info.with_link_width_enabled(with_another_width(info.link_width_supported())),
    },
    Case {
        field: "NeighborMTU",
        set: Label::new("set NeighborMTU 0"),
        after: Label::new("after NeighborMTU 0"),
        illegal: |info| info.with_neighbor_mtu(Mtu(0)),
    },
    Case {
        field: "LinkSpeedEnabled",
        set: Label::new("set LinkSpeedEnabled that is not supported"),
        after: Label::new("after LinkSpeedEnabled that is not supported"),
        // All 4 bits set would be the code for all supported speeds.
        illegal: |info| info.with_link_speed_enabled(LinkSpeeds((info.link_speed_supported().0 | 8) & 0xD)),
    },
    Case {
        field: "LinkDownDefaultState",
        set: Label::new("set LinkDownDefaultState 3"),
        after: Label::new("after LinkDownDefaultState 3"),
        illegal: |info| info.with_link_down_default_state(LinkDownDefault(3)),
    },
    Case {
        field: "MasterSMLID",
        set: Label::new("set a multicast MasterSMLID"),
        after: Label::new("after a multicast MasterSMLID"),
        illegal: |info| info.with_master_sm_lid(Lid(0xC000)),
    },
    Case {
        field: "LID",
        set: Label::new("set the permissive LID"),
        after: Label::new("after the permissive LID"),
        illegal: |info| info.with_lid(Lid(0xFFFF)),
    },
    Case {
        field: "LID",
        set: Label::new("set a multicast LID"),
        after: Label::new("after a multicast LID"),
        illegal: |info| info.with_lid(Lid(0xC000)),
    },
    Case {
        field: "MasterSMLID",
        set: Label::new("set MasterSMLID 0"),
        after: Label::new("after MasterSMLID 0"),
        illegal: |info| info.with_master_sm_lid(Lid(0)),
    },
    Case {
        field: "LID",
        set: Label::new("set LID 0"),
        after: Label::new("after LID 0"),
        illegal: |info| info.with_lid(Lid(0)),
    },
];

/// Values of OperationalVLs with bit 3 set: 9, whose lower bits alone are legal, and 15.
const HIGH: [Case; 2] = [
    Case {
        field: "OperationalVLs",
        set: Label::new("set OperationalVLs 9"),
        after: Label::new("after OperationalVLs 9"),
        illegal: |info| info.with_operational_vls(VlCap(9)),
    },
    Case {
        field: "OperationalVLs",
        set: Label::new("set OperationalVLs 15"),
        after: Label::new("after OperationalVLs 15"),
        illegal: |info| info.with_operational_vls(VlCap(15)),
    },
];

const EDGE: Label<PortInfo> = Label::new("set the first and the last of the unicast LIDs");
const AFTER_EDGE: Label<PortInfo> = Label::new("after the first and the last of the unicast LIDs");
const NONE: Label<PortInfo> = Label::new("set the first of the unicast LIDs to 0");
const AFTER_NONE: Label<PortInfo> = Label::new("after the first of the unicast LIDs was set to 0");
/// The smallest and the largest legal LID and MasterSMLID. The test changes them only without a real subnet.
const EDGES: [(Lid, Lid); 2] = [(Lid(1), Lid(0xBFFF)), (Lid(0xBFFF), Lid(1))];

impl Case {
    /// Returns whether the test sends this Set. The test sets no LID by which the rig reaches the device. If no
    /// unicast LID was assigned, the test sets neither 0 nor the current value. It sets no OperationalVLs within
    /// VLCap, because such a value is legal.
    fn is_tried(&self, by_lid: bool, found: &PortInfo) -> bool {
        let is_0 = |lid: fn(&PortInfo) -> Lid| {
            let (illegal, found) = (lid(&(self.illegal)(*found)), lid(found));
            [Lid(0), found].contains(&illegal) && !found.is_unicast()
        };
        match self.field {
            "LID" => !by_lid && !is_0(PortInfo::lid),
            "MasterSMLID" => !is_0(PortInfo::master_sm_lid),
            "OperationalVLs" => (self.illegal)(*found).operational_vls() > found.vl_cap(),
            _ => true,
        }
    }
}

/// Returns the supported widths and an unsupported width.
fn with_another_width(supported: LinkWidths) -> LinkWidths {
    let missing = (0..8).map(|bit| 1 << bit).find(|width| supported.0 & width == 0);
    LinkWidths(supported.0 | missing.unwrap_or(0))
}

pub(super) static TEST: Test = Test {
    id: "c14-024-port-info-illegal",
    aliases: &["C14_024_06_CA_03"],
    revision: 5,
    about: "A Set(PortInfo) with an illegal OperationalVLs, NeighborMTU, LinkWidthEnabled, LinkSpeedEnabled, \
        LinkDownDefaultState, MasterSMLID or LID is refused with 0x001C and does not change that component.",
    reading: "Whether the legal components of such a Set are applied is left open: only the illegal one is judged. The \
        LID is not tried on a LID-routed rig.",
    statements: &["C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let by_lid = t.is_lid_routed();
    let port = t.guard(FOUND, key)?;
    let found = *port.found();
    let tried = |case: &&Case| case.is_tried(by_lid, &found);
    for case in HIGH.iter().chain(&CASES).filter(tried) {
        t.set(case.set, &port, port.quiet().change(case.illegal))?;
        t.get(case.after, key)?;
    }
    if t.is_simulated() && !by_lid && found.lid().is_unicast() && found.master_sm_lid().is_unicast() {
        for (lid, sm_lid) in EDGES {
            let change = |info: PortInfo| info.with_lid(lid).with_lmc(0).with_master_sm_lid(sm_lid);
            t.set(EDGE, &port, port.quiet().change(change))?;
            t.get(AFTER_EDGE, key)?;
            let without = |info: PortInfo| match lid {
                Lid(1) => change(info).with_lid(Lid(0)),
                _ => change(info).with_master_sm_lid(Lid(0)),
            };
            t.set(NONE, &port, port.quiet().change(without))?;
            t.get(AFTER_NONE, key)?;
        }
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let found: PortInfo = t.answer(FOUND)?;
    let high = HIGH.iter().filter(|case| t.has(case.set));
    for case in high.chain(&CASES) {
        if matches!(case.field, "LID" | "MasterSMLID") && !t.has(case.set) {
            // A record of an older revision, or of a port without a LID, needs no observation.
            if !(case.illegal)(found).is_zero_in(case.field) {
                f.observe(
                    "the rig reaches the device by its LID, so an illegal LID was not tried",
                    &[],
                );
            }
            continue;
        }
        f.status("C13-24", t.exchange(case.set)?, &[Status::INVALID_FIELD]);
        f.same_fields("C13-24", t.exchange(case.after)?, &[case.field], &found)?;
    }
    let done = |label| t.each(label).filter(|of| !of.is_busy() && of.answer().is_some());
    for (set, after) in done(EDGE).zip(done(AFTER_EDGE)) {
        f.status("C13-24", set, &[Status::OK]);
        f.same_fields(
            "C13-24",
            after,
            &["LID", "LMC", "MasterSMLID"],
            &set.request.attribute::<PortInfo>(),
        )?;
    }
    for ((none, after), was) in done(NONE).zip(done(AFTER_NONE)).zip(done(EDGE)) {
        f.status("C13-24", none, &[Status::INVALID_FIELD]);
        f.same_fields(
            "C13-24",
            after,
            &["LID", "MasterSMLID"],
            &was.request.attribute::<PortInfo>(),
        )?;
    }
    Ok(())
}
