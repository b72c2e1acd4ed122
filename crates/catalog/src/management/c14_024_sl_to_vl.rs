//! `c14-024-sl-to-vl` (C14_024_08_01, _02): the SLtoVLMappingTable of a channel adapter or router.
//!
//! A port with IsSLMappingSupported in its CapabilityMask stores the table. Two Sets, each followed by a Get, map
//! adjacent SLs to different VLs, and each SL to different VLs in the two Sets. One SL maps to VL 15, which drops its
//! packets. Reading: the test uses the operational VLs and VL 15; with one data VL it uses VL 0 and VL 15. A port
//! without the capability and with one data VL refuses the attribute with 0x000C, or with 0x0008, which is legal for an
//! absent attribute. A port without the capability but with more data VLs is not judged, because the public page does
//! not cover this case. The test does not Set an absent table, because a table that cannot be read cannot be restored.
//! If the original table has VLs that are not operational, the port may refuse or correct the table on a restore. The
//! test therefore first sets the original table, as a trial. If the port refuses or corrects it, the test sets no other
//! table, and the outcome is NOT_APPLICABLE. False alarm: another SM that writes the table during the test.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Stop, Stream, Test, Tester};
use verbatim_wire::values::CapabilityMask;
use verbatim_wire::{PortInfo, SlToVlMappingTable, Status, VlCap};

use crate::management::adapter::{self, NODE};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const ABSENT: Label<SlToVlMappingTable> = Label::new("the table of a port without SL mapping");
const FOUND: Label<SlToVlMappingTable> = Label::new("as found");
const BACK: Label<SlToVlMappingTable> = Label::new("set what was found");
const BACK_GET: Label<SlToVlMappingTable> = Label::new("after setting what was found");
const SETS: [(Label<SlToVlMappingTable>, Label<SlToVlMappingTable>); 2] = [
    (Label::new("set one mapping"), Label::new("after setting one mapping")),
    (
        Label::new("set another mapping"),
        Label::new("after setting another mapping"),
    ),
];

/// The number of service levels.
const SLS: usize = 16;
/// The VL that drops packets of an SL mapped to it.
const DROP: u8 = 15;

pub(super) static TEST: Test = Test {
    id: "c14-024-sl-to-vl",
    aliases: &["C14_024_08_01", "C14_024_08_02"],
    revision: 3,
    about: "The SLtoVLMappingTable keeps what is set; a port with one data VL and no SL mapping refuses it.",
    reading: "The tables use the operational VLs and VL 15; with one operational VL, VL 0 and VL 15. A port refuses an \
        absent table with 0x000C or 0x0008. More than one data VL without IsSLMappingSupported is not judged.",
    statements: &["C14-24", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

/// Returns the VLs to map to, at least two.
fn vls(port: &PortInfo) -> Vec<u8> {
    match port.operational_vls().data_vls() {
        Some(count) if count > 1 => (0..count).collect(),
        _ => vec![0, DROP],
    }
}

/// Returns two mappings. Adjacent SLs have different VLs, and each SL has different VLs in the two mappings.
fn mappings(random: &mut Stream, vls: &[u8]) -> [SlToVlMappingTable; 2] {
    let count = vls.len();
    let mut place = usize::from(random.byte()) % count;
    let mut tables = [SlToVlMappingTable::default(); 2];
    for sl in 0..SLS {
        for (more, table) in tables.iter_mut().enumerate() {
            *table = table.with_vl(sl, vls[(place + more) % count]);
        }
        place += 1 + usize::from(random.byte()) % (count - 1);
    }
    // An SL mapped to VL15 (drop) must read back like any other.
    let dropped = usize::from(random.byte()) % SLS;
    for (more, table) in tables.iter_mut().enumerate() {
        if vls.contains(&DROP) {
            break;
        }
        *table = table.with_vl((dropped + more) % SLS, DROP);
    }
    tables
}

fn has_mapping(port: &PortInfo) -> bool {
    port.capability_mask().has(CapabilityMask::SL_MAPPING)
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let port = t.get(PORT, key)?;
    if !has_mapping(&port) {
        t.ask_at(ABSENT, key, 0)?;
        return Ok(());
    }
    let tables = mappings(&mut t.random("mappings"), &vls(&port));
    let found = t.guard(FOUND, key)?;
    if let Some(why) = t.not_taken_back((BACK, BACK_GET), &found)? {
        return Err(Stop::NotOffered(why));
    }
    for ((set, get), table) in SETS.into_iter().zip(tables) {
        t.set(set, &found, found.quiet().change(|_| table))?;
        t.get(get, key)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let port: PortInfo = t.answer(PORT)?;
    if !has_mapping(&port) {
        let absent = t.exchange(ABSENT)?;
        if port.vl_cap() == VlCap::VL0 {
            let refused = [Status::METHOD_ATTRIBUTE_UNSUPPORTED, Status::METHOD_UNSUPPORTED];
            f.status("C13-24", absent, &refused);
        } else {
            f.observe_ambiguous("the port has more than one data VL, but no SL mapping", &[absent]);
            f.not_applicable = Some("the port has more than one data VL, but IsSLMappingSupported is not set".into());
        }
        return Ok(());
    }
    f.status("C14-24", t.exchange(FOUND)?, &[Status::OK]);
    t.not_judged(BACK);
    t.not_judged(BACK_GET);
    for (set, get) in SETS {
        f.status("C14-24", t.exchange(set)?, &[Status::OK]);
        let (_, wanted) = t.asked(set)?;
        let seen: SlToVlMappingTable = t.answer(get)?;
        let differs = (0..SLS).find(|sl| wanted.vl(*sl) != seen.vl(*sl));
        let words = |table: &SlToVlMappingTable| match differs {
            Some(sl) => format!("SL {sl} on VL {}", table.vl(sl)),
            None => "16 SLs as set".into(),
        };
        f.claim("C14-24", "VL of each SL")
            .on(set)
            .on(get)
            .saw(words(&seen))
            .must(words(&wanted), differs.is_none());
    }
    Ok(())
}
