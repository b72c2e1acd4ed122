//! `c14-016-attributes-protect-N`: the M_Key check is one of all attributes, not of PortInfo alone.
//!
//! At each protect level every attribute that the port has is asked for with a wrong key: at levels 0 and 1 it is shown as
//! to the right key, apart from the M_Key at level 1; at levels 2 and 3 it is dropped and counted. Then each attribute that
//! we know how to give back is Set with a wrong key: dropped and counted at every level, and afterwards every attribute is
//! as it was. At levels 2 and 3 a number that no attribute has is asked for as well: it is dropped, or refused as unknown before anything looks at the key. At level 1 another port's PortInfo is asked for too: whether it gives away that port's M_Key, the oracle judges.
//! Reading: what must be dropped is sent three times, so that one lost packet neither fails a sound port nor
//! hides a defect. An attribute of the class that the right key is refused decides nothing: whether its absence or the wrong key is
//! found first is left open. False alarm: an SM of somebody else that writes or sends wrong keys meanwhile.

use verbatim_record::{Exchange, Findings, Gap, Label, Passed, Trace};
use verbatim_tester::{Judge, Need, Procedure, Settable, Step, Test, Tester};
use verbatim_wire::values::Hex32;
use verbatim_wire::{
    AnyAttribute, Attribute, AttributeId, Guid, GuidInfo, LedInfo, MKey, Method, NodeDescription, NodeInfo, PKey,
    PKeyTable, PortInfo, SlToVlMappingTable, Status, VlArbitrationTable,
};

use super::shadow;
use crate::management::keys::{self, BEFORE};

const RIGHT: Label<AnyAttribute> = Label::new("right key, every attribute");
const WRONG: Label<AnyAttribute> = Label::new("wrong key, every attribute");
/// Read after the SMPs of each attribute: what is not counted is known by name, and a lost packet from what is never counted.
const COUNTED: Label<PortInfo> = Label::new("right key, violations so far");
const RIGHT_AFTER: Label<AnyAttribute> = Label::new("right key, every attribute, after wrong-key Sets");
/// Sent at levels 2 and 3, whatever the right key would be told: a subnet manager on the node is asked by any key.
const SM_INFO: Label<AnyAttribute> = Label::new("wrong key, SMInfo");
/// Sent at levels 2 and 3: a number that no attribute has, and no vendor's.
const NO_ATTRIBUTE: Label<AnyAttribute> = Label::new("wrong key, attribute 0x0111");
const UNKNOWN: AttributeId = AttributeId(0x0111);
/// Sent at level 1, where the device has another port: what its M_Key is shown as is for the oracle.
const OTHER_PORT: Label<AnyAttribute> = Label::new("wrong key, PortInfo of another port");
/// Sent at level 1: the port itself, which 0 stands for elsewhere.
const BY_NUMBER: Label<AnyAttribute> = Label::new("wrong key, PortInfo of this port by its number");
/// Whether that one would drop it, by its own level.
const OTHER_LEVEL: Label<AnyAttribute> = Label::new("right key of this port, PortInfo of another port");
/// Sent at levels 2 and 3 of a simulated rig: on a fabric, what is sent to a LID may be lost on its way.
const BY_LID: Label<AnyAttribute> = Label::new("wrong key, NodeInfo by the port's LID");
/// CapabilityMask: a subnet manager sits at the port; LedInfo is there.
const IS_SM: u32 = 1 << 1;
const HAS_LED: u32 = 1 << 9;
/// There is no such method, or no such attribute.
const NO_SUCH: [Status; 2] = [Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
/// What must be dropped is sent that often.
const TIMES: usize = verbatim_record::TRIES as usize;

/// The labels of an attribute that is Set: as it was found, and its Sets.
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
        revision: 3,
        about,
        reading: "Attributes that the right key is refused are not judged, but for SMInfo and a number that no attribute \
            has, at levels 2 and 3. What must be dropped is sent three times, with a key that is off in all bits, in one of the high half, and in one of the low.",
        statements: &["C14-16", "C14-24", "C14-26", "C14-29"],
        needs,
        parameters: &[],
        procedure,
        judge,
    }
}

pub(super) static PROTECT_0: Test = test(
    "c14-016-attributes-protect-0",
    "At protect level 0 every attribute is shown to a wrong key, and none is Set by it.",
    // An SM reads the key at level 0, and may take it off.
    &[Need::Mad, Need::OwnSubnet],
    |t| procedure(t, 0),
    |t, f| judge(t, f, 0),
);
pub(super) static PROTECT_1: Test = Test {
    // It asks for PortInfo by this port's number, and for another port's, as well.
    revision: 5,
    ..test(
        "c14-016-attributes-protect-1",
        "At protect level 1 every attribute but the M_Key is shown to a wrong key, and none is Set by it.",
        &[Need::Mad],
        |t| procedure(t, 1),
        |t, f| judge(t, f, 1),
    )
};
pub(super) static PROTECT_2: Test = Test {
    // It asks for a number that no attribute has as well, and by LID.
    revision: 6,
    ..test(
        "c14-016-attributes-protect-2",
        "At protect level 2 no attribute is shown to a wrong key, and none is Set by it.",
        &[Need::Mad],
        |t| procedure(t, 2),
        |t, f| judge(t, f, 2),
    )
};
pub(super) static PROTECT_3: Test = Test {
    // It asks for a number that no attribute has as well, and by LID.
    revision: 6,
    ..test(
        "c14-016-attributes-protect-3",
        "At protect level 3 no attribute is shown to a wrong key, and none is Set by it.",
        &[Need::Mad],
        |t| procedure(t, 3),
        |t, f| judge(t, f, 3),
    )
};

fn procedure(t: &mut Tester<'_>, level: u8) -> Step {
    let (ours, [other, high, low, _]) = keys::keys(t);
    let wrong = [other, high, low];
    let silences = 2 * TIMES * (shadow::ALL.len() + 3);
    let lease = t.longer_than(silences);
    keys::lock(t, ours, level, lease, 100)?;
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
            // It has a key and a level of its own: where that level drops Gets each one would be a violation there.
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
            t.provoke(WRONG, &wrong.map(|key| (*attribute, *modifier, key)))?;
            t.get(COUNTED, ours)?;
        }
        for (label, attribute) in [(SM_INFO, AttributeId::SM_INFO), (NO_ATTRIBUTE, UNKNOWN)] {
            t.provoke(label, &wrong.map(|key| (attribute, 0, key)))?;
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
        // An operational VL, and another one than before.
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
    // The same by the port's LID, of which the oracle says what must come.
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

/// The number of another port, if there is one.
fn another_port(node: &NodeInfo) -> Option<u32> {
    let (own, ports) = (node.local_port_num(), node.num_ports());
    (ports > 1).then(|| u32::from(own % ports) + 1)
}

/// Sets one attribute with the wrong key, after it was put into the journal with the right one.
fn set<A: Settable>(
    t: &mut Tester<'_>,
    Sets(found, set): &Sets<A>,
    (ours, wrong): (MKey, [MKey; TIMES]),
    modifier: u32,
    change: impl FnOnce(A) -> A,
) -> Step {
    let guard = t.guard_parts(*found, ours, &[modifier])?;
    let value = guard.quiet_at(modifier).change(change);
    t.provoke_by_set(*set, &guard, modifier, value, &wrong)?;
    t.get(COUNTED, ours)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>, level: u8) -> Result<(), Gap> {
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
            .comes_to("as to the right key", result);
    }
    if !absent.is_empty() {
        let tried = right
            .values()
            .filter(|shown| !shadow::is_there(shown))
            .copied()
            .collect::<Vec<_>>();
        f.observe(
            format!("not there, and not asked for with a wrong key: {}", absent.join(", ")),
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

/// A number that no attribute has may be discarded, or refused, by what stands before the agent and knows no key.
fn unknown_attribute(t: &Trace, f: &mut Findings<'_>, all: &[&Exchange]) {
    let refused = |of: &&Exchange| {
        let status = of.response().map(|arrived| arrived.mad.status());
        status.is_none_or(|status| NO_SUCH.contains(&status) || of.is_busy())
    };
    if all.iter().any(|of| of.response().is_some()) && all.iter().all(refused) {
        let what = "a number that no attribute has was refused before its key was looked at";
        f.observe_ambiguous(what, all);
    } else {
        silent(t, f, "attribute 0x0111", "Get", all);
    }
}

/// SMInfo is dropped as all else is; a subnet manager at the port, or a kernel, may answer in its place.
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
            "SMInfo was answered to a wrong key, by a subnet manager or a kernel perhaps",
            &answered,
        );
    } else {
        silent(t, f, "SMInfo", "Get", &all);
    }
    Ok(())
}

/// All the SMPs between two reads of M_KeyViolations whose wrong key is a violation were counted.
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
    // What no attribute is may be discarded before anything looks at its key.
    let is_attribute = |of: &&Exchange| of.request.attribute_id() != UNKNOWN;
    if !t.begin.simulated && wrong.iter().any(is_sm_info) {
        // Whoever answers it may not look at the key.
        return Ok(());
    }
    // Whether a busy port looked at the key is open.
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
        // Somebody else on the subnet may have sent wrong keys too, or reset the counter.
        _ if t.begin.shared_subnet => Passed::Inconclusive,
        // VL 15 has no flow control: of several packets some may be lost, but not all.
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

/// The wrong-key Sets of one attribute were dropped.
fn sets<A: Attribute>(t: &Trace, f: &mut Findings<'_>, Sets(found, set): &Sets<A>) {
    t.not_judged(*found);
    let all: Vec<_> = t.each(*set).collect();
    if all.iter().any(|exchange| is_refused(exchange)) {
        let what = format!(
            "a Set of {} with a wrong key was refused as one that nobody may make",
            A::NAME
        );
        f.observe_ambiguous(what, &all);
    } else if !all.is_empty() {
        silent(t, f, A::NAME, "Set", &all);
    }
}

/// Whether it was answered that there is no such Set. NodeInfo is Set by nobody, NodeDescription at some ports: which is looked
/// at first, that or the key, is left open, and the kernel of a device's host may say it too.
fn is_refused(exchange: &Exchange) -> bool {
    const OPEN: [AttributeId; 2] = [AttributeId::NODE_INFO, AttributeId::NODE_DESCRIPTION];
    let status = exchange.response().map(|arrived| arrived.mad.status());
    OPEN.contains(&exchange.request.attribute_id()) && status.is_some_and(|status| NO_SUCH.contains(&status))
}

/// Judges that none of these was answered.
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
