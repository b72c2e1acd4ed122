//! `c14-024-node-description` (C14_024_02): a port returns NodeDescription, and refuses a Set of it without changing
//! it.
//!
//! Reading: the public page ends after the Set. The port refuses it with 0x000C (method and attribute), as the page's
//! coverage of C13-24 assertion 6 says. Newer devices may allow the Set (CapabilityMask2 bit 0). The test then sets all
//! 64 bytes to non-zero values other than the current values, and the oracle judges the result. False alarm: a host
//! stack that rewrites the description during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{NodeDescription, NodeInfo, PortInfo, Status};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const FOUND: Label<NodeDescription> = Label::new("as found");
const NODE: Label<NodeInfo> = Label::new("NodeInfo");
const SECOND: Label<NodeDescription> = Label::new("after the Set, by the second port");
const SET: Label<NodeDescription> = Label::new("set another description");
const AFTER: Label<NodeDescription> = Label::new("after the Set");

pub(super) static TEST: Test = Test {
    id: "c14-024-node-description",
    aliases: &["C14_024_02"],
    revision: 3,
    about: "NodeDescription can be read; a Set of it is refused with 0x000C and changes nothing.",
    reading: "Refused means status 0x000C. With CapabilityMask2 bit 0 (IsSetNodeDescriptionSupported) the Set is \
        legal, and changes all 64 bytes.",
    statements: &["C14-24", "C14-27", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let port = t.get(PORT, key)?;
    let description = t.guard(FOUND, key)?;
    let octets = if can_be_set(&port) { 64 } else { 1 };
    let altered = description.quiet().change(|d| (0..octets).fold(d, with_another));
    t.set_with(SET, &description, (key, 0), altered)?;
    t.get(AFTER, key)?;
    // The node has one description, which all its ports return.
    if t.rig_offers(Need::SecondPort) && t.get(NODE, key)?.num_ports() > 1 {
        t.ask_from(1, SECOND, key)?;
    }
    Ok(())
}

/// Returns whether CapabilityMask2 bit 0 allows a Set of NodeDescription.
fn can_be_set(port: &PortInfo) -> bool {
    port.capability_mask().has(CapabilityMask::MASK2) && port.capability_mask_2().0 & 1 != 0
}

/// Returns the description with another letter at `at`: V at the first octet, W at the next, and so on.
fn with_another(description: NodeDescription, at: usize) -> NodeDescription {
    let letter = b'A' + (21 + at % 26) as u8 % 26;
    let is_it = description.octet(at) == letter;
    description.with_octet(at, if is_it { letter.to_ascii_lowercase() } else { letter })
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let port: PortInfo = t.answer(PORT)?;
    let found: NodeDescription = t.answer(FOUND)?;
    let set = t.exchange(SET)?;
    f.status("C14-24", t.exchange(FOUND)?, &[Status::OK]);
    let after: NodeDescription = t.answer(AFTER)?;
    if t.has(NODE) {
        t.not_judged(NODE);
    }
    if t.has(SECOND) {
        f.same_fields("C14-24", t.exchange(SECOND)?, &["NodeString"], &after)?;
    }
    if can_be_set(&port) {
        f.observe(
            "the device supports Set(NodeDescription) (CapabilityMask2 bit 0), so its refusal was not judged",
            &[set],
        );
        return Ok(());
    }
    f.status("C13-24", set, &[Status::METHOD_ATTRIBUTE_UNSUPPORTED]);
    f.same_fields("C14-27", t.exchange(AFTER)?, &["NodeString"], &found)?;
    Ok(())
}
