//! `c14-024-guid-info` (C14_024_05): GUIDInfo stores values within GUIDCap, and its first entry is the port's own GUID.
//!
//! The test sets every block to other GUIDs and reads all blocks after all Sets. The port must store the entries below
//! GUIDCap, except the first. It must ignore the entries of the last block beyond GUIDCap and return 0 for them. A Set
//! with another GUID in entry 0 leaves that entry unchanged, with a response of success or 0x001C. No table has blocks
//! from 32 on: the port refuses them with 0x001C and stores nothing. Reading: the port may refuse a block below 32
//! beyond GUIDCap, or return zeros. The page writes the complement of each block; this test writes random, locally
//! administered GUIDs, which identify no device. False alarm: another SM that assigns GUIDs during the test.

use verbatim_record::{Exchange, Findings, Gap, Label, Trace};
use verbatim_tester::{Need, Step, Stream, Test, Tester};
use verbatim_wire::{Guid, GuidInfo, PortInfo, Status};

use crate::management::adapter::{self, NODE, last};

const PORT: Label<PortInfo> = Label::new("PortInfo");
const FOUND: Label<GuidInfo> = Label::new("blocks as found");
const SET: Label<GuidInfo> = Label::new("set each block");
const GET: Label<GuidInfo> = Label::new("get each block after all Sets");
const SET_OWN: Label<GuidInfo> = Label::new("set entry 0 of block 0");
const AFTER_OWN: Label<GuidInfo> = Label::new("after setting entry 0");
const UNUSED: Label<GuidInfo> = Label::new("the first block beyond GUIDCap");
const BEYOND: Label<GuidInfo> = Label::new("blocks beyond any table");
const SET_BEYOND: Label<GuidInfo> = Label::new("set a block beyond any table");
const LAST: Label<GuidInfo> = Label::new("get each block after setting one beyond any table");

/// The number of entries in a block.
const ENTRIES: usize = 8;
/// The number of blocks of the largest GUIDCap.
const BLOCKS: u32 = 32;
/// Blocks that no table has. Some have the low bits of an existing block's number.
const NONE: [u32; 5] = [BLOCKS, 0xFFFF, 0x100, 0x1_0000, 0x2000_0000];

pub(super) static TEST: Test = Test {
    id: "c14-024-guid-info",
    aliases: &["C14_024_05"],
    revision: 2,
    about: "GUIDInfo keeps the GUIDs that are Set below GUIDCap and reads 0 beyond; entry 0 is read-only; blocks from \
        32 on are refused with 0x001C.",
    reading: "A block below 32 that GUIDCap does not reach is refused with 0x001C or reads as zeros: both conform. \
        Random locally administered GUIDs are written, not the complement.",
    statements: &["C14-24", "C14-27", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn blocks(port: &PortInfo) -> u32 {
    u32::from(port.guid_cap()).div_ceil(8).max(1)
}

/// Returns the number of the port's entries in a block.
fn entries(port: &PortInfo, block: u32) -> usize {
    let before = usize::try_from(block).unwrap_or(usize::MAX).saturating_mul(ENTRIES);
    usize::from(port.guid_cap().max(1)).saturating_sub(before).min(ENTRIES)
}

/// Returns the block with another GUID in every entry, including those beyond the capacity.
fn others(random: &mut Stream, found: &GuidInfo) -> GuidInfo {
    let mut info = *found;
    for entry in 0..ENTRIES {
        let guid = 0x0200_0000_0000_0000 | (random.bits() >> 8);
        let differs = if Guid(guid) == found.guid(entry) {
            guid ^ 1
        } else {
            guid
        };
        info = info.with_guid(entry, Guid(differs));
    }
    info
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let port = t.get(PORT, key)?;
    let mut random = t.random("GUIDs");
    let all: Vec<u32> = (0..blocks(&port)).collect();
    let guids = t.guard_parts(FOUND, key, &all)?;
    for block in &all {
        let value = guids.quiet_at(*block).change(|found| {
            let other = others(&mut random, &found);
            if *block == 0 {
                other.with_guid(0, found.guid(0))
            } else {
                other
            }
        });
        t.set_at(SET, &guids, *block, value)?;
    }
    for block in &all {
        t.ask_at(GET, key, *block)?;
    }
    let own = guids.quiet().change(|found| others(&mut random, &found));
    t.set(SET_OWN, &guids, own)?;
    t.get(AFTER_OWN, key)?;
    if blocks(&port) < BLOCKS {
        t.ask_at(UNUSED, key, blocks(&port))?;
    }
    for block in NONE {
        t.ask_at(BEYOND, key, block)?;
    }
    let blank = guids.quiet_at(BLOCKS).change(|none| others(&mut random, &none));
    t.set_at(SET_BEYOND, &guids, BLOCKS, blank)?;
    for block in &all {
        t.ask_at(LAST, key, *block)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    if adapter::adapter(t, f)?.is_none() {
        return Ok(());
    }
    let port: PortInfo = t.answer(PORT)?;
    for block in 0..blocks(&port) {
        let found: GuidInfo = t.answered(last(t, FOUND, block)?)?;
        let exchange = last(t, SET, block)?;
        let wanted: GuidInfo = exchange.request.attribute();
        let differs = (usize::from(block == 0)..ENTRIES).all(|entry| wanted.guid(entry) != found.guid(entry));
        t.require(SET, "other GUIDs than those found", differs)?;
        f.status("C14-24", exchange, &[Status::OK]);
        kept(t, f, &port, last(t, GET, block)?, &wanted)?;
    }
    own(t, f)?;
    if blocks(&port) < BLOCKS {
        adapter::unused_block::<GuidInfo>(t, f, t.exchange(UNUSED)?)?;
    }
    for block in NONE {
        f.status("C13-24", last(t, BEYOND, block)?, &[Status::INVALID_FIELD]);
    }
    f.status("C13-24", t.exchange(SET_BEYOND)?, &[Status::INVALID_FIELD]);
    let own_set: GuidInfo = t.answer(AFTER_OWN)?;
    for block in 0..blocks(&port) {
        let before: GuidInfo = if block == 0 {
            own_set
        } else {
            t.answered(last(t, GET, block)?)?
        };
        f.same_fields("C13-24", last(t, LAST, block)?, &["GUIDBlock"], &before)?;
    }
    Ok(())
}

/// Checks that the entries within GUIDCap have the set values, and that the entries beyond are 0.
fn kept(t: &Trace, f: &mut Findings<'_>, port: &PortInfo, exchange: &Exchange, wanted: &GuidInfo) -> Result<(), Gap> {
    if !f.status("C14-24", exchange, &[Status::OK]) {
        return Ok(());
    }
    let seen: GuidInfo = t.answered(exchange)?;
    let block = exchange.request.modifier();
    let first = usize::from(block == 0); // `own` checks entry 0
    for entry in first..ENTRIES {
        let beyond = entry >= entries(port, block);
        let suffix = if beyond { ", beyond GUIDCap" } else { "" };
        f.claim("C14-24", format!("block {block}, entry {entry}{suffix}"))
            .by(exchange)
            .saw(seen.guid(entry))
            .is(if beyond { Guid(0) } else { wanted.guid(entry) });
    }
    Ok(())
}

/// Checks that entry 0 is the port's own GUID, and that a Set does not change it.
fn own(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let found: GuidInfo = t.answered(last(t, FOUND, 0)?)?;
    let node = t.answer(NODE)?;
    f.claim("C14-24", "entry 0 of block 0")
        .on(NODE)
        .by(last(t, FOUND, 0)?)
        .saw(found.guid(0))
        .must(
            format!("{}, as NodeInfo says", node.port_guid()),
            found.guid(0) == node.port_guid(),
        );
    f.status("C14-27", t.exchange(SET_OWN)?, &[Status::OK, Status::INVALID_FIELD]);
    let after: GuidInfo = t.answer(AFTER_OWN)?;
    f.claim("C14-27", "entry 0 of block 0, after a Set of it")
        .on(AFTER_OWN)
        .saw(after.guid(0))
        .is(found.guid(0));
    Ok(())
}
