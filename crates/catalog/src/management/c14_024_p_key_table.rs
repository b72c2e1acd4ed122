//! `c14-024-p-key-table` (C14_024_07): the P_KeyTable stores values in its free entries.
//!
//! In up to four blocks the test sets each free entry to a P_Key, with full and limited membership in turn. It
//! then sets these entries to the values with all 16 bits inverted. It rewrites all other entries of these blocks
//! with their original values, always including entry 0 of block 0. After all Sets of one kind, each block must
//! return the set values in the entries within PartitionCap. Reading: the public page is not known. The port may
//! refuse a block beyond PartitionCap with 0x001C, or return zeros. No table has blocks from 2048 on: the port
//! refuses them with 0x001C on Get and Set, and stores nothing. If no entry is free, the test only reads the
//! table. False alarm: another SM that assigns P_Keys during the test.

use verbatim_record::{Exchange, Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Step, Stream, Test, Tester};
use verbatim_wire::{NodeInfo, PKey, PKeyTable, Status};

use crate::management::adapter::{self, NODE, last};

const FOUND: Label<PKeyTable> = Label::new("blocks as found");
const SET: Label<PKeyTable> = Label::new("set free entries");
const GET: Label<PKeyTable> = Label::new("get each block after all Sets");
const SET_INVERTED: Label<PKeyTable> = Label::new("set free entries, each bit inverted");
const GET_INVERTED: Label<PKeyTable> = Label::new("get each block after all Sets of inverted bits");
const UNUSED: Label<PKeyTable> = Label::new("the first block beyond PartitionCap");
const BEYOND: Label<PKeyTable> = Label::new("blocks beyond any table");
const SET_BEYOND: Label<PKeyTable> = Label::new("set a block beyond any table");
const LAST: Label<PKeyTable> = Label::new("get each block after setting one beyond any table");

/// The number of entries in a block.
const ENTRIES: usize = 32;
/// The number of blocks of the largest PartitionCap.
const BLOCKS: u32 = 2048;
/// Blocks that no table has.
const NONE: [u32; 2] = [BLOCKS, 0xFFFF];
/// The bit of full membership.
const FULL: u16 = 0x8000;

pub(super) static TEST: Test = Test {
    id: "c14-024-p-key-table",
    aliases: &["C14_024_07"],
    revision: 3,
    about: "The P_KeyTable keeps each bit of the P_Keys that are Set; blocks from 2048 on are refused with 0x001C.",
    reading: "Only free entries are Set, in up to four blocks. A block below 2048 that PartitionCap does not reach is \
        refused with 0x001C or reads as zeros: both conform.",
    statements: &["C14-24", "C13-24"],
    needs: &[Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn blocks(node: &NodeInfo) -> u32 {
    u32::from(node.partition_cap()).div_ceil(32).max(1)
}

/// Returns the tested blocks: the first three and the last.
fn chosen(node: &NodeInfo) -> Vec<u32> {
    let last = blocks(node) - 1;
    (0..3).filter(|block| *block < last).chain([last]).collect()
}

/// Returns the number of the port's entries in a block.
fn entries(node: &NodeInfo, block: u32) -> usize {
    let before = usize::try_from(block).unwrap_or(usize::MAX).saturating_mul(ENTRIES);
    usize::from(node.partition_cap()).saturating_sub(before).min(ENTRIES)
}

/// Returns the block with a new P_Key in each free entry, with full and limited membership in turn. Returns `None` if
/// no entry is free.
fn filled(
    random: &mut Stream,
    taken: &mut Vec<u16>,
    block: u32,
    found: PKeyTable,
    entries: usize,
) -> Option<PKeyTable> {
    let first = usize::from(block == 0);
    let free: Vec<usize> = (first..entries)
        .filter(|entry| found.p_key(*entry) == PKey(0))
        .collect();
    let mut table = found;
    for (entry, member) in free.into_iter().zip([FULL, 0].into_iter().cycle()) {
        let mut base = 0;
        while base == 0 || taken.contains(&base) {
            base = u16::try_from(random.between(1, 0x7FFE)).unwrap_or(1);
        }
        // Also reserve the inverted key, so that no other entry uses it.
        taken.extend([base, base ^ !FULL]);
        table = table.with_p_key(entry, PKey(base | member));
    }
    (table != found).then_some(table)
}

/// Inverts all bits of the P_Keys that the test has set in a block.
fn inverted(found: &PKeyTable, table: &PKeyTable) -> PKeyTable {
    (0..ENTRIES).fold(*table, |inverted, entry| match table.p_key(entry) {
        p_key if p_key == found.p_key(entry) => inverted,
        p_key => inverted.with_p_key(entry, PKey(!p_key.0)),
    })
}

/// Returns the table's P_Keys without their membership bit, each with its inverted value.
fn bases(keys: &Guarded<PKeyTable>, blocks: &[u32]) -> Vec<u16> {
    let tables = blocks.iter().filter_map(|block| keys.found_at(*block));
    tables
        .flat_map(|table| (0..ENTRIES).map(|entry| table.p_key(entry).0 & !FULL))
        .flat_map(|base| [base, base ^ !FULL])
        .collect()
}

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let node = t.get(NODE, key)?;
    if !adapter::is_adapter(&node) {
        return Ok(());
    }
    let mut random = t.random("P_Keys");
    let chosen = chosen(&node);
    let keys = t.guard_parts(FOUND, key, &chosen)?;
    let mut taken = bases(&keys, &chosen);
    let mut tables = Vec::new();
    for block in &chosen {
        let Some(found) = keys.found_at(*block) else { continue };
        if let Some(table) = filled(&mut random, &mut taken, *block, *found, entries(&node, *block)) {
            tables.push((*block, table, inverted(found, &table)));
        }
    }
    for (block, table, _) in &tables {
        t.set_at(SET, &keys, *block, keys.quiet_at(*block).change(|_| *table))?;
    }
    for block in &chosen {
        t.ask_at(GET, key, *block)?;
    }
    for (block, _, inverted) in &tables {
        t.set_at(SET_INVERTED, &keys, *block, keys.quiet_at(*block).change(|_| *inverted))?;
    }
    for block in &chosen {
        t.ask_at(GET_INVERTED, key, *block)?;
    }
    if blocks(&node) < BLOCKS {
        t.ask_at(UNUSED, key, blocks(&node))?;
    }
    for block in NONE {
        t.ask_at(BEYOND, key, block)?;
    }
    let image = filled(&mut random, &mut taken, 0, *keys.found(), ENTRIES).unwrap_or(*keys.found());
    t.set_at(SET_BEYOND, &keys, BLOCKS, keys.quiet_at(BLOCKS).change(|_| image))?;
    for block in &chosen {
        t.ask_at(LAST, key, *block)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let Some(node) = adapter::adapter(t, f)? else {
        return Ok(());
    };
    for (set, get) in [(SET, GET), (SET_INVERTED, GET_INVERTED)] {
        for block in chosen(&node) {
            let found: PKeyTable = t.answered(last(t, FOUND, block)?)?;
            let wanted = match t.keyed(set, block) {
                Some(set) => {
                    f.status("C14-24", set, &[Status::OK]);
                    set.request.attribute()
                }
                None => found,
            };
            same(t, f, "C14-24", last(t, get, block)?, entries(&node, block), &wanted)?;
        }
    }
    for block in chosen(&node).into_iter().filter(|block| t.keyed(SET, *block).is_none()) {
        f.observe(
            format!("block {block} has no free entry, so the test did not Set it"),
            &[],
        );
    }
    if blocks(&node) < BLOCKS {
        adapter::unused_block::<PKeyTable>(t, f, t.exchange(UNUSED)?)?;
    }
    for block in NONE {
        f.status("C13-24", last(t, BEYOND, block)?, &[Status::INVALID_FIELD]);
    }
    f.status("C13-24", t.exchange(SET_BEYOND)?, &[Status::INVALID_FIELD]);
    for block in chosen(&node) {
        let before: PKeyTable = t.answered(last(t, GET_INVERTED, block)?)?;
        let after = last(t, LAST, block)?;
        same(t, f, "C13-24", after, entries(&node, block), &before)?;
    }
    Ok(())
}

/// Checks that the port's entries equal `wanted`. The check names the first entry that differs.
fn same(
    t: &Trace,
    f: &mut Findings<'_>,
    statement: &str,
    exchange: &Exchange,
    entries: usize,
    wanted: &PKeyTable,
) -> Result<(), Gap> {
    if !f.status(statement, exchange, &[Status::OK]) {
        return Ok(());
    }
    let seen: PKeyTable = t.answered(exchange)?;
    let differs = (0..entries).find(|entry| wanted.p_key(*entry) != seen.p_key(*entry));
    let words = |table: &PKeyTable| match differs {
        Some(entry) => format!("entry {entry}: {}", table.p_key(entry)),
        None => format!("{entries} entries as they were written"),
    };
    f.claim(statement, format!("block {}", exchange.request.modifier()))
        .by(exchange)
        .saw(words(&seen))
        .must(words(wanted), differs.is_none());
    Ok(())
}
