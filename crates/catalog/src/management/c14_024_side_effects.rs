//! `c14-024-side-effects`: a Set of one attribute changes no other attribute.
//!
//! The test reads every attribute. It then sets GUIDInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable and
//! PortInfo to other values. After each Set it reads every attribute: only the set attribute may have changed. Reading:
//! other tests check that the port stores the set value. False alarm: another SM that writes the port's attributes
//! during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Settable, Step, Stop, Test, Tester};
use verbatim_wire::{
    AnyAttribute, Attribute, AttributeId, Guid, GuidInfo, PKey, PKeyTable, PortInfo, SlToVlMappingTable,
    VlArbitrationTable,
};

use super::shadow;

/// The labels of an attribute's original value, of its Set, and of the reads of all attributes after it.
struct Change<A>(Label<A>, Label<A>, Label<AnyAttribute>);

const BEFORE: Label<AnyAttribute> = Label::new("every attribute, before");
const GUIDS: Change<GuidInfo> = Change(
    Label::new("GUIDInfo as found"),
    Label::new("set GUIDInfo"),
    Label::new("every attribute, after a Set of GUIDInfo"),
);
const P_KEYS: Change<PKeyTable> = Change(
    Label::new("P_KeyTable as found"),
    Label::new("set P_KeyTable"),
    Label::new("every attribute, after a Set of P_KeyTable"),
);
const SL_TO_VL: Change<SlToVlMappingTable> = Change(
    Label::new("SLtoVLMappingTable as found"),
    Label::new("set SLtoVLMappingTable"),
    Label::new("every attribute, after a Set of SLtoVLMappingTable"),
);
const ARBITRATION: Change<VlArbitrationTable> = Change(
    Label::new("VLArbitrationTable as found"),
    Label::new("set VLArbitrationTable"),
    Label::new("every attribute, after a Set of VLArbitrationTable"),
);
const PORT: Change<PortInfo> = Change(
    Label::new("PortInfo as found"),
    Label::new("set LocalPhyErrors"),
    Label::new("every attribute, after a Set of PortInfo"),
);

pub(super) static TEST: Test = Test {
    id: "c14-024-side-effects",
    aliases: &[],
    revision: 2,
    about: "A Set of GUIDInfo, P_KeyTable, SLtoVLMappingTable, VLArbitrationTable or PortInfo leaves every other \
        attribute as it was.",
    reading: "Other tests judge whether the attribute keeps the Set value.",
    statements: &["C14-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    shadow::read(t, BEFORE, key)?;
    set(t, &GUIDS, 0, |found| {
        found.with_guid(1, Guid(found.guid(1).0 ^ 0x0200_0000_0000_0001))
    })?;
    set(t, &P_KEYS, 0, |found| {
        found.with_p_key(1, PKey(found.p_key(1).0 ^ 0x4321))
    })?;
    set(t, &SL_TO_VL, 0, |found| {
        let vl = if found.vl(1) == 0 { 15 } else { 0 };
        found.with_vl(1, vl)
    })?;
    set(t, &ARBITRATION, 1 << 16, |found| {
        found.with_weight(0, found.weight(0) ^ 2)
    })?;
    set(t, &PORT, 0, |found| {
        found.with_local_phy_errors(found.local_phy_errors() ^ 1)
    })
}

/// Sets one attribute, if the port has it, and reads all attributes.
fn set<A: Settable>(
    t: &mut Tester<'_>,
    Change(found, set, after): &Change<A>,
    modifier: u32,
    change: impl FnOnce(A) -> A,
) -> Step {
    let key = t.rig_key();
    let guard = match t.guard_parts(*found, key, &[modifier]) {
        Ok(guard) => guard,
        Err(Stop::Refused(_)) => return Ok(()), // the port lacks the attribute
        Err(stop) => return Err(stop),
    };
    // Skip an attribute whose original value the port would refuse on the restore.
    if t.not_taken_back((*set, *found), &guard)?.is_none() {
        t.set_at(*set, &guard, modifier, guard.quiet_at(modifier).change(change))?;
    }
    shadow::read(t, *after, key)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let mut last = BEFORE;
    one(
        t,
        f,
        &mut last,
        &GUIDS,
        &[((AttributeId::GUID_INFO, 0), &["GUIDBlock"])],
    )?;
    one(
        t,
        f,
        &mut last,
        &P_KEYS,
        &[((AttributeId::P_KEY_TABLE, 0), &["P_KeyTableBlock"])],
    )?;
    one(t, f, &mut last, &SL_TO_VL, &[((AttributeId::SL_TO_VL, 0), &["SLtoVL"])])?;
    let parts: &[(shadow::What, &[&'static str])] = &[((AttributeId::VL_ARBITRATION, 1 << 16), &["VL", "Weight"])];
    one(t, f, &mut last, &ARBITRATION, parts)?;
    one(
        t,
        f,
        &mut last,
        &PORT,
        &[((AttributeId::PORT_INFO, 0), &["LocalPhyErrors"])],
    )
}

/// Checks that one Set changed no fields except those in `own`.
fn one<A: Attribute>(
    t: &Trace,
    f: &mut Findings<'_>,
    last: &mut Label<AnyAttribute>,
    Change(found, set, after): &Change<A>,
    own: &[(shadow::What, &[&'static str])],
) -> Result<(), Gap> {
    t.not_judged(*found);
    t.not_judged(*set);
    if !t.has(*after) {
        return Ok(());
    }
    let about = format!("after a Set of {}", A::NAME);
    shadow::unchanged(t, f, ("C14-24", &about), (*last, *after), own)?;
    *last = *after;
    Ok(())
}
