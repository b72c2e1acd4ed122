//! `c14-003-methods-and-attributes` (C14_003): a port refuses methods, attributes and versions that the subnet
//! management class does not define.
//!
//! Reading: the public page is not known. A port refuses an undefined method with 0x0008, or with 0x000C, which
//! refuses a combination of method and attribute. It refuses attributes of switches and undefined AttributeIDs
//! with 0x000C; a port must compare all 16 bits of an AttributeID. It refuses other base and class versions with
//! 0x0004. Only a manager responds to a Trap, with TrapRepress. A port may discard a MAD with an unknown method or
//! version. A missing response to such a MAD or to an undefined AttributeID is therefore only an observation.
//! Error responses are optional for faults that are found before a MAD reaches the agent. A Get of a defined
//! attribute that the node lacks must get a response. The test does not Set such an attribute, because a value
//! that cannot be read cannot be restored. False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::{
    AnyAttribute, AttributeId, LinearForwardingTable, Method, MulticastForwardingTable, NodeInfo, Notice, Status,
};

use crate::management::adapter::{self, NODE};

/// Methods that differ from Get in one bit, methods of other classes, and an undefined method.
const METHODS: [(Label<NodeInfo>, Method); 7] = [
    (Label::new("method 0x11"), Method(0x11)),
    (Label::new("method 0x21"), Method(0x21)),
    (Label::new("method 0x41"), Method(0x41)),
    (Label::new("GetTable"), Method::GET_TABLE),
    (Label::new("GetTraceTable"), Method::GET_TRACE_TABLE),
    (Label::new("GetMulti"), Method::GET_MULTI),
    (Label::new("method 0x1F"), Method(0x1F)),
];
/// Base versions and class versions that do not exist.
const VERSIONS: [(Label<NodeInfo>, (u8, u8)); 6] = [
    (Label::new("class version 0"), (1, 0)),
    (Label::new("class version 2"), (1, 2)),
    (Label::new("class version 0x81"), (1, 0x81)),
    (Label::new("base version 0"), (0, 1)),
    (Label::new("base version 2"), (2, 1)),
    (Label::new("base version 0x81"), (0x81, 1)),
];
const TRAP: Label<NodeInfo> = Label::new("a Trap, which goes to managers");
const REPRESS: Label<Notice> = Label::new("a TrapRepress of class version 2, which nobody answers");
const LINEAR: Label<LinearForwardingTable> = Label::new("LinearForwardingTable");
const MULTICAST: Label<MulticastForwardingTable> = Label::new("MulticastForwardingTable");
/// Undefined AttributeIDs that differ from NodeInfo's in one bit.
const NUMBERS: [(Label<AnyAttribute>, AttributeId); 2] = [
    (Label::new("attribute 0x0111"), AttributeId(0x0111)),
    (Label::new("attribute 0x8011"), AttributeId(0x8011)),
];
const LAST: Label<NodeInfo> = Label::new("NodeInfo, after all that");

pub(super) static TEST: Test = Test {
    id: "c14-003-methods-and-attributes",
    aliases: &["C14_003"],
    revision: 6,
    about: "An adapter refuses unknown methods, attributes and versions of subnet management with 0x0008, 0x000C and \
        0x0004.",
    reading: "An unknown method may be refused with 0x000C too. Silence to an unknown method or version is an \
        observation: such MADs may be discarded before the agent sees them. Sets of unknown attributes are not tried.",
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
    for (label, method) in METHODS {
        t.send_once(label, method, 0, key)?;
    }
    for (label, version) in VERSIONS {
        t.get_as_version(label, version, key)?;
    }
    t.send_once(TRAP, Method::TRAP, 0, key)?;
    t.repress_as_version(REPRESS, (1, 2), key)?;
    t.ask_at(LINEAR, key, 0)?;
    t.ask_at(MULTICAST, key, 0)?;
    for (label, attribute) in NUMBERS {
        t.ask_any(label, (attribute, 0), key)?;
    }
    t.get(LAST, key)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let unknown = [Status::METHOD_UNSUPPORTED, Status::METHOD_ATTRIBUTE_UNSUPPORTED];
    for (label, _) in METHODS {
        let what = format!("status of {} of NodeInfo", label.name);
        adapter::refused_or_discarded(f, "C13-24", t.exchange(label)?, &what, &unknown);
    }
    for (label, _) in VERSIONS {
        let what = format!("status of Get(NodeInfo) of {}", label.name);
        adapter::refused_or_discarded(f, "C13-24", t.exchange(label)?, &what, &[Status::BAD_VERSION]);
    }
    f.silent("C13-24", t.exchange(TRAP)?);
    if t.has(REPRESS) {
        f.silent("C13-24", t.exchange(REPRESS)?);
    }
    f.status("C13-24", t.exchange(LINEAR)?, &unknown);
    f.status("C13-24", t.exchange(MULTICAST)?, &unknown);
    for (label, _) in NUMBERS {
        let what = format!("status of Get of {}", label.name);
        let unsupported = [Status::METHOD_ATTRIBUTE_UNSUPPORTED];
        adapter::refused_or_discarded(f, "C13-24", t.exchange(label)?, &what, &unsupported);
    }
    f.status("C13-24", t.exchange(LAST)?, &[Status::OK]);
    Ok(())
}
