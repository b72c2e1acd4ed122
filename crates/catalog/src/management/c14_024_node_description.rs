//! `c14-024-node-description` (C14_024_02): NodeDescription can be read, and a Set of it is refused and changes nothing.
//!
//! Reading: the page is cut after the Set; it is refused with 0x000C (method and attribute), as its coverage of
//! C13-24 assertion 6 says. Newer devices may let it be set (CapabilityMask2 bit 0): then the Set is not judged.
//! False alarm: a host stack that rewrites the description meanwhile.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{NodeDescription, PortInfo, Status};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const FOUND: Label<NodeDescription> = Label::new("as found");
const SET: Label<NodeDescription> = Label::new("set another description");
const AFTER: Label<NodeDescription> = Label::new("after the Set");

/// NodeDescription is read-only unless the device says otherwise.
pub(super) static TEST: Test = Test {
    id: "c14-024-node-description",
    aliases: &["C14_024_02"],
    revision: 1,
    about: "NodeDescription can be read; a Set of it is refused with 0x000C and changes nothing.",
    reading: "Refused means status 0x000C. With CapabilityMask2 bit 0 (IsSetNodeDescriptionSupported) the Set is legal and not judged.",
    statements: &["C14-24", "C14-27", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    t.get(PORT, key)?;
    let description = t.guard(FOUND, key)?;
    let altered = description
        .quiet()
        .change(|d| d.with_octet(0, if d.octet(0) == b'V' { b'v' } else { b'V' }));
    t.set_with(SET, &description, (key, 0), altered)?;
    t.get(AFTER, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let found: NodeDescription = t.answer(FOUND)?;
    let set = t.exchange(SET)?;
    f.status("C14-24", t.exchange(FOUND)?, &[Status::OK]);
    t.answer(AFTER)?;
    if port.capability_mask().has(CapabilityMask::MASK2) && port.capability_mask_2().0 & 1 != 0 {
        f.observe(
            "the device lets its NodeDescription be set (CapabilityMask2 bit 0): the Set was not judged",
            &[set],
        );
        return Ok(());
    }
    f.status("C13-24", set, &[Status::METHOD_ATTRIBUTE_UNSUPPORTED]);
    f.same_fields("C14-27", t.exchange(AFTER)?, &["NodeString"], &found)?;
    Ok(())
}
