//! `c14-016-attributes-protect-N`: the M_Key check applies to all attributes, not only to PortInfo.
//!
//! At each protect level the test requests every attribute of the port with a wrong key. At levels 0 and 1 the response
//! equals the response to the right key, except for the M_Key at level 1. At levels 2 and 3 the port drops and counts
//! the request. The test then Sets each restorable attribute with a wrong key: at every level the port drops and counts
//! the Set, and no attribute changes. At levels 2 and 3 the test also requests an undefined AttributeID: the port drops
//! it, or refuses it before it checks the key. At level 1 the test also requests another port's PortInfo; the oracle
//! judges whether the response discloses that port's M_Key.
//!
//! Reading: the test sends each request that the port must drop three times, each time with another wrong key. One
//! lost packet therefore neither fails a conforming port nor hides a defect. One silence period at the end proves that
//! the port dropped all of them. The test does not judge an attribute
//! that the port refuses even with the right key: the port may check the attribute first. False alarm: another SM
//! that writes, or sends wrong keys, during the test; a port that answers a request before it has counted the
//! violations of earlier requests.

use core::time::Duration;

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{HANDLED, Judge, Need, Procedure, Settable, Step, Test, Tester};
use verbatim_wire::values::Hex32;
use verbatim_wire::{
    AnyAttribute, Attribute, AttributeId, Guid, GuidInfo, LedInfo, MKey, Method, NodeDescription, NodeInfo, PKey,
    PKeyTable, PortInfo, SlToVlMappingTable, Status, VlArbitrationTable,
};

use super::shadow;
use crate::management::keys::{self, BEFORE};

const RIGHT: Label<AnyAttribute> = Label::new("right key, every attribute");
const WRONG: Label<AnyAttribute> = Label::new("wrong key, every attribute");
/// Read after the SMPs of each attribute. M_KeyViolations then shows for which attribute the port counts no violations,
/// and whether only a packet was lost.
const COUNTED: Label<PortInfo> = Label::new("right key, violations so far");
const RIGHT_AFTER: Label<AnyAttribute> = Label::new("right key, every attribute, after wrong-key Sets");
/// Sent at levels 2 and 3, even if the right key gets no SMInfo: a subnet manager on the node may respond to any key.
const SM_INFO: Label<AnyAttribute> = Label::new("wrong key, SMInfo");
/// Sent at levels 2 and 3: an AttributeID that neither the architecture nor a vendor defines.
const NO_ATTRIBUTE: Label<AnyAttribute> = Label::new("wrong key, attribute 0x0111");
const UNKNOWN: AttributeId = AttributeId(0x0111);
/// Sent at level 1 if the device has another port. The oracle judges the M_Key in the response.
const OTHER_PORT: Label<AnyAttribute> = Label::new("wrong key, PortInfo of another port");
/// Sent at level 1. Names the receiving port by its number; the other requests name it by 0.
const BY_NUMBER: Label<AnyAttribute> = Label::new("wrong key, PortInfo of this port by its number");
/// Read to learn whether the other port's protect level drops a wrong-key Get.
const OTHER_LEVEL: Label<AnyAttribute> = Label::new("right key of this port, PortInfo of another port");
/// Sent at levels 2 and 3 of a simulated rig. On a fabric, a LID-routed packet may be lost.
const BY_LID: Label<AnyAttribute> = Label::new("wrong key, NodeInfo by the port's LID");
/// CapabilityMask: the port has a subnet manager (IS_SM), or LedInfo (HAS_LED).
const IS_SM: u32 = 1 << 1;
const HAS_LED: u32 = 1 << 9;
/// The statuses for an undefined method or attribute.
const NO_SUCH: [Status; 2] = [Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
/// The number of times that the test sends a request that the port must drop.
const TIMES: usize = verbatim_record::TRIES as usize;

/// The labels of an attribute's original value and of its Sets.
struct Sets<A>(Label<A>, Label<A>);

const DESCRIPTION: Sets<NodeDescription> = Sets(
    Label::new("NodeDescription as found"),
    Label::new("wrong key, set NodeDescription"),
);
const NODE: Sets<NodeInfo> = Sets(Label::new("NodeInfo as found"), Label::new("wrong key, set NodeInfo"));
const GUIDS: Sets<GuidInfo> = Sets(Label::new("GUIDInfo as found"), Label::new("wrong key, set GUIDInfo"));
const P_KEYS: Sets<PKeyTable> = Sets(
    Label::new("P_KeyTable as found"),
    Label::new("wrong key, set P_KeyTable"),
);
const SL_TO_VL: Sets<SlToVlMappingTable> = Sets(
    Label::new("SLtoVLMappingTable as found"),
    Label::new("wrong key, set SLtoVLMappingTable"),
);
const LED: Sets<LedInfo> = Sets(Label::new("LedInfo as found"), Label::new("wrong key, set LedInfo"));
const ARBITRATION: Sets<VlArbitrationTable> = Sets(
    Label::new("VLArbitrationTable as found"),
    Label::new("wrong key, set VLArbitrationTable"),
);

const fn test(
    id: &'static str,
    about: &'static str,
    needs: &'static [Need],
    procedure: Procedure,
    judge: Judge,
) -> Test {
    Test {
        id,
        aliases: &[],
        // One silence period proves the silence of all requests.
        revision: 5,
        about,
        reading: "Attributes that the port refuses to the right key are not judged, except SMInfo and an unknown \
            attribute at levels 2 and 3. An SMP that must be dropped is sent three times: with a random key, with a \
            key that differs in one bit of the high half, and with one that differs in one bit of the low half.",
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs,
        parameters: &[],
        procedure,
        judge,
    }
}

pub(super) static PROTECT_0: Test = test(
    "c14-016-attributes-protect-0",
    "At protect level 0 a wrong key can Get every attribute, and Set none.",
    // Another SM reads the key at level 0 and may remove it.
    &[Need::Mad, Need::OwnSubnet],
    |t| procedure(t, 0),
    |t, f| judge(t, f, 0),
);
pub(super) static PROTECT_1: Test = Test {
    // Revision 7: as revision 5 at level 0.
    revision: 7,
    ..test(
        "c14-016-attributes-protect-1",
        "At protect level 1 a wrong key can Get every attribute except the M_Key, and Set none.",
        &[Need::Mad],
        |t| procedure(t, 1),
        |t, f| judge(t, f, 1),
    )
};
pub(super) static PROTECT_2: Test = Test {
    // Revision 8: as revision 5 at level 0.
    revision: 8,
    ..test(
        "c14-016-attributes-protect-2",
        "At protect level 2 a wrong key can neither Get nor Set any attribute.",
        &[Need::Mad],
        |t| procedure(t, 2),
        |t, f| judge(t, f, 2),
    )
};
pub(super) static PROTECT_3: Test = Test {
    // Revision 8: as revision 5 at level 0.
    revision: 8,
    ..test(
        "c14-016-attributes-protect-3",
        "At protect level 3 a wrong key can neither Get nor Set any attribute.",
        &[Need::Mad],
        |t| procedure(t, 3),
        |t, f| judge(t, f, 3),
    )
};

fn procedure(t: &mut Tester<'_>, level: u8) -> Step {
    let (ours, [other, high, low, _]) = keys::keys(t);
    let wrong = [other, high, low];
    // In the worst case, the rig sends only one request at a time.
    let silences = 2 * TIMES * (shadow::ALL.len() + 3);
    let lease = t.longer_than(silences);
    if level < 2 {
        keys::lock(t, ours, level, lease, 100)?;
        // The port must count each wrong-key Set. With several Sets outstanding, it might lose a Set for lack of
        // buffers.
        t.narrow(1);
    } else {
        keys::lock_with_room(t, (ours, other), level, lease, 100)?;
    }
    let mut there = Vec::new();
    let (mut another, mut own) = (None, None);
    let led = t
        .shown()
        .capability_mask()
        .has(HAS_LED)
        .then_some((AttributeId::LED_INFO, 0));
    for what in shadow::ALL.into_iter().chain(led) {
        let answer = t.ask_any(RIGHT, what, ours)?;
        if answer.is_some_and(|answer| answer.status() == verbatim_wire::Status::OK) {
            there.push(what);
        }
        if what.0 == AttributeId::NODE_INFO {
            own = answer.map(|answer| answer.attribute::<NodeInfo>().local_port_num());
            another = answer.and_then(|answer| another_port(&answer.attribute()));
        }
    }
    if level < 2 {
        for what in &there {
            t.ask_any(WRONG, *what, other)?;
        }
        if let Some(number) = own.filter(|_| level == 1) {
            t.ask_any(BY_NUMBER, (AttributeId::PORT_INFO, number.into()), other)?;
        }
        if let Some(number) = another.filter(|_| level == 1) {
            // The other port has its own key and level. If its level drops Gets, each wrong-key request would be a
            // violation at that port.
            let there = (AttributeId::PORT_INFO, number);
            let shown = t
                .ask_any(OTHER_LEVEL, there, ours)?
                .map(|answer| answer.attribute::<PortInfo>());
            if shown.is_some_and(|port| port.protect_bits().0 < 2) {
                t.ask_any(OTHER_PORT, there, other)?;
            }
        }
    } else {
        for (attribute, modifier) in &there {
            t.provoke_soon(WRONG, &wrong.map(|key| (*attribute, *modifier, key)))?;
            t.get(COUNTED, ours)?;
        }
        for (label, attribute) in [(SM_INFO, AttributeId::SM_INFO), (NO_ATTRIBUTE, UNKNOWN)] {
            t.provoke_soon(label, &wrong.map(|key| (attribute, 0, key)))?;
            t.get(COUNTED, ours)?;
        }
    }
    let has = |attribute| there.iter().any(|(of, _)| *of == attribute);
    let keys = (ours, wrong);
    set(t, &DESCRIPTION, keys, 0, |found| {
        found.with_octet(0, if found.octet(0) == b'V' { b'v' } else { b'V' })
    })?;
    set(t, &NODE, keys, 0, |found| {
        found.with_revision(Hex32(found.revision().0 ^ 1))
    })?;
    if has(AttributeId::GUID_INFO) {
        set(t, &GUIDS, keys, 0, |found| {
            found.with_guid(1, Guid(found.guid(1).0 ^ 0x0200_0000_0000_0001))
        })?;
    }
    if has(AttributeId::P_KEY_TABLE) {
        set(t, &P_KEYS, keys, 0, |found| {
            found.with_p_key(1, PKey(found.p_key(1).0 ^ 0x4321))
        })?;
    }
    if has(AttributeId::SL_TO_VL) {
        // The new VL must be operational and differ from the current one.
        set(t, &SL_TO_VL, keys, 0, |found| {
            let vl = if found.vl(1) == 0 { 15 } else { 0 };
            found.with_vl(1, vl)
        })?;
    }
    if has(AttributeId::VL_ARBITRATION) {
        set(t, &ARBITRATION, keys, 1 << 16, |found| {
            found.with_weight(0, found.weight(0) ^ 2)
        })?;
    }
    if has(AttributeId::LED_INFO) {
        set(t, &LED, keys, 0, |found| found.with_led_mask(!found.led_mask()))?;
    }
    t.wait_out(Duration::ZERO)?;
    // Request NodeInfo with a wrong key by the port's LID. The oracle judges the response.
    let lid = t.shown().lid();
    if level >= 2 && t.is_simulated() && lid.is_unicast() {
        t.ask_any_by_lid(lid, BY_LID, (AttributeId::NODE_INFO, 0), other)?;
    }
    shadow::read(t, RIGHT_AFTER, ours)?;
    if let Some(led) = led {
        t.ask_any(RIGHT_AFTER, led, ours)?;
    }
    Ok(())
}

/// Returns the number of another port, if there is one.
fn another_port(node: &NodeInfo) -> Option<u32> {
    let (own, ports) = (node.local_port_num(), node.num_ports());
    (ports > 1).then(|| u32::from(own % ports) + 1)
}

/// Sets an attribute with the wrong keys. Before that, reads its value with the right key and saves it in the journal.
fn set<A: Settable>(
    t: &mut Tester<'_>,
    Sets(found, set): &Sets<A>,
    (ours, wrong): (MKey, [MKey; TIMES]),
    modifier: u32,
    change: impl FnOnce(A) -> A,
) -> Step {
    let guard = t.guard_parts(*found, ours, &[modifier])?;
    let value = guard.quiet_at(modifier).change(change);
    t.provoke_by_set_soon(*set, &guard, modifier, value, &wrong)?;
    t.get(COUNTED, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, level: u8) -> Result<(), Gap> {
    t.not_judged(HANDLED);
    if !keys::locked(t, f)? {
        return Ok(());
    }
    let right = shadow::each(t, RIGHT);
    let mut absent = Vec::new();
    for (what, shown) in &right {
        if !shadow::is_there(shown) {
            absent.push(shadow::name(*what));
            continue;
        }
        let wrong: Vec<_> = t.each(WRONG).filter(|of| shadow::what(of) == *what).collect();
        let last = *wrong.last().ok_or(Gap::Missing(WRONG.name))?;
        if level >= 2 {
            silent(t, f, &shadow::name(*what), "Get", &wrong);
            continue;
        }
        let except: &[&str] = if level == 1 { &["M_Key"] } else { &[] };
        let differ = shadow::differences(shown, last, except);
        let result = match last.answer() {
            Some(_) if differ.is_empty() => Passed::Pass,
            Some(_) => Passed::Fail,
            None if last.is_waited_out(&t.begin) => f.silence_of(last),
            None => Passed::Inconclusive,
        };
        let seen = if differ.is_empty() {
            "the same".into()
        } else {
            differ.join("; ")
        };
        f.claim("C14-16", format!("{} as shown to a wrong key", shadow::name(*what)))
            .by_all([*shown, last])
            .saw(seen)
            .comes_to("as shown to the right key", result);
    }
    if !absent.is_empty() {
        let tried = right
            .values()
            .filter(|shown| !shadow::is_there(shown))
            .copied()
            .collect::<Vec<_>>();
        f.observe(
            format!(
                "the port lacks these attributes, so they were not tried with a wrong key: {}",
                absent.join(", ")
            ),
            &tried,
        );
    }
    sets(t, f, &DESCRIPTION);
    sets(t, f, &NODE);
    sets(t, f, &GUIDS);
    sets(t, f, &P_KEYS);
    sets(t, f, &SL_TO_VL);
    sets(t, f, &ARBITRATION);
    sets(t, f, &LED);
    if level >= 2 {
        sm_info(t, f)?;
        let unknown: Vec<_> = t.each(NO_ATTRIBUTE).collect();
        if !unknown.is_empty() {
            unknown_attribute(t, f, &unknown);
        }
    }
    for label in [OTHER_LEVEL, OTHER_PORT, BY_NUMBER, BY_LID]
        .into_iter()
        .filter(|label| t.has(*label))
    {
        t.not_judged(label);
    }
    let about = ("C14-16", "after wrong-key Sets");
    shadow::unchanged(t, f, about, (RIGHT, RIGHT_AFTER), &[])?;
    let mut from = t.exchange(BEFORE)?;
    for to in t
        .each(COUNTED)
        .filter(|read| read.answer().is_some_and(|_| !read.is_busy()))
    {
        counted(t, f, level, (from, to))?;
        from = to;
    }
    Ok(())
}

/// Checks requests for an undefined AttributeID. The port may discard or refuse them before it checks the key.
fn unknown_attribute(t: &Trace, f: &mut Findings<'_>, all: &[&Exchange]) {
    let refused = |of: &&Exchange| {
        let status = of.response().map(|arrived| arrived.mad.status());
        status.is_none_or(|status| NO_SUCH.contains(&status) || of.is_busy())
    };
    if all.iter().any(|of| of.response().is_some()) && all.iter().all(refused) {
        let what = "the port refused an unknown attribute before it checked the M_Key";
        f.observe_ambiguous(what, all);
    } else {
        silent(t, f, "attribute 0x0111", "Get", all);
    }
}

/// Checks wrong-key requests for SMInfo. The port must drop them, but a subnet manager at the port or a kernel may
/// respond.
fn sm_info(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all: Vec<_> = t.each(SM_INFO).collect();
    let is_sm = t.answer::<PortInfo>(BEFORE)?.capability_mask().has(IS_SM);
    let by_others = |exchange: &&Exchange| {
        let status = exchange.answer().map(|answer| answer.mad.status());
        !t.begin.simulated && (is_sm || status != Some(Status::OK))
    };
    let answered: Vec<_> = all.iter().copied().filter(|of| of.response().is_some()).collect();
    if !answered.is_empty() && answered.iter().all(by_others) {
        f.observe(
            "SMInfo with a wrong key got an answer, perhaps from a subnet manager or the kernel",
            &answered,
        );
    } else {
        silent(t, f, "SMInfo", "Get", &all);
    }
    Ok(())
}

/// Checks that M_KeyViolations counted all wrong-key SMPs between two reads.
fn counted(t: &Trace, f: &mut Findings<'_>, level: u8, (from, to): (&Exchange, &Exchange)) -> Result<(), Gap> {
    let (before, after): (PortInfo, PortInfo) = (t.answered(from)?, t.answered(to)?);
    let all = t
        .exchanges
        .iter()
        .filter(|of| (from.number..to.number).contains(&of.number));
    let wrong: Vec<_> = all
        .filter(|of| of.request.m_key() != before.m_key())
        .filter(|of| level >= 2 || of.request.method() == Method::SET)
        .collect();
    let is_sm_info = |of: &&Exchange| of.request.attribute_id() == AttributeId::SM_INFO;
    // The port may discard an undefined AttributeID before it checks the key.
    let is_attribute = |of: &&Exchange| of.request.attribute_id() != UNKNOWN;
    if !t.begin.simulated && wrong.iter().any(is_sm_info) {
        // A subnet manager or kernel that responds to SMInfo may not check the key.
        return Ok(());
    }
    // A busy port may or may not have checked the key.
    let most = wrong.len();
    let looked_at = wrong.iter().copied().filter(is_attribute);
    let sent = looked_at.filter(|of| !of.is_busy() && !is_refused(of)).count();
    t.require(
        BEFORE,
        "room in M_KeyViolations below 0xFFFF",
        usize::from(before.m_key_violations()) + most <= 0xFFFF,
    )?;
    let grown = usize::from(after.m_key_violations()).wrapping_sub(before.m_key_violations().into());
    let result = match grown {
        _ if (sent..=most).contains(&grown) => Passed::Pass,
        // Other nodes of the subnet may have sent wrong keys too, or reset the counter.
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        // VL 15 has no flow control, so some of several packets may be lost, but not all.
        1.. if !t.begin.simulated && grown < sent => Passed::Inconclusive,
        _ => Passed::Fail,
    };
    let what = wrong.first().map_or_else(String::new, |of| of.request.to_string());
    f.claim("C14-29", "M_KeyViolations")
        .by_all(wrong.first().copied().into_iter().chain([from, to]))
        .saw(after.m_key_violations())
        .comes_to(
            format!(
                "{} + {sent} wrong-key SMPs that had to be dropped, such as {what}",
                before.m_key_violations()
            ),
            result,
        );
    Ok(())
}

/// Checks that the port dropped the wrong-key Sets of one attribute.
fn sets<A: Attribute>(t: &Trace, f: &mut Findings<'_>, Sets(found, set): &Sets<A>) {
    t.not_judged(*found);
    let all: Vec<_> = t.each(*set).collect();
    if all.iter().any(|exchange| is_refused(exchange)) {
        let what = format!("the port refused a Set of {} with a wrong key as unsupported", A::NAME);
        f.observe_ambiguous(what, &all);
    } else if !all.is_empty() {
        silent(t, f, A::NAME, "Set", &all);
    }
}

/// Returns whether the port refused a Set of NodeInfo, or of NodeDescription, as undefined. The architecture leaves
/// open whether this check or the key check comes first. The kernel of a device's host may also refuse the Set.
fn is_refused(exchange: &Exchange) -> bool {
    const OPEN: [AttributeId; 2] = [AttributeId::NODE_INFO, AttributeId::NODE_DESCRIPTION];
    let status = exchange.response().map(|arrived| arrived.mad.status());
    OPEN.contains(&exchange.request.attribute_id()) && status.is_some_and(|status| NO_SUCH.contains(&status))
}

/// Checks that none of the exchanges got a response.
fn silent(t: &Trace, f: &mut Findings<'_>, name: &str, method: &str, all: &[&Exchange]) {
    let answered = all
        .iter()
        .copied()
        .find(|exchange| exchange.response().is_some() && !exchange.is_busy());
    let (result, seen) = match answered.and_then(Exchange::response) {
        Some(arrived) => (Passed::Fail, arrived.mad.to_string()),
        None if all
            .iter()
            .all(|exchange| exchange.is_busy() || exchange.is_silent(&t.begin)) =>
        {
            (Passed::Pass, "no answer".into())
        }
        None => (Passed::Inconclusive, "the wait was too short to prove silence".into()),
    };
    f.claim("C14-16", format!("{method} of {name} with a wrong key"))
        .by_all(answered)
        .saw(seen)
        .comes_to("no answer", result);
}
