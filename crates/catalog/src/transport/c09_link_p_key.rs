//! `c09-link-p-key`: a port accepts a packet whose P_Key matches any entry of the table; QP0 needs no P_Key.
//!
//! The test adds a full and a limited partition to the first block of the table. It sends packets of these and of
//! other partitions, some with a GRH. Then an invalid entry replaces the full partition, and the full partition
//! replaces the limited one. Finally the full partition replaces the default partition.
//!
//! Reading: two limited members do not match. An entry whose low 15 bits are 0 matches nothing.
//!
//! False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Step, Test, Tester};
use verbatim_wire::{PKey, PKeyTable};

use crate::link::native::{self, Link, Rule};

const FOUND: Label<PKeyTable> = Label::new("P_Keys as found");
const SET: Label<PKeyTable> = Label::new("add two partitions");
const P_KEY: Rule = Rule::new("9.6.1 P_Key");
/// Default partition, without the membership bit.
const DEFAULT: u16 = 0x7FFF;
/// Number of entries in a block.
const ENTRIES: usize = 32;
/// Bit 15 of a P_Key: full member.
const FULL: u16 = 0x8000;

pub(super) static TEST: Test = Test {
    id: "c09-link-p-key",
    aliases: &[],
    revision: 3,
    about: "A packet is accepted if its P_Key matches an entry of the table; others but SMPs are discarded and \
        counted.",
    reading: "Two limited members do not match; an entry whose low 15 bits are 0 matches nothing.",
    statements: &["9.6.1 P_Key"],
    needs: &[Need::Link, Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let found = t.guard(FOUND, key)?;
    let mut link = Link::open(t)?;
    let has = |base: &u16| link.p_keys.iter().any(|key| key.0 & !FULL == *base);
    let mut free = (0x1234..0x7FFF).filter(|base| !has(base));
    let (full, limited, foreign) = (free.next(), free.next(), free.next());
    let (Some(full), Some(limited), Some(foreign)) = (full, limited, foreign) else {
        return Ok(());
    };
    let table = found
        .quiet()
        .change(|table| table.with_p_key(1, PKey(full | FULL)).with_p_key(2, PKey(limited)));
    link.t.set(SET, &found, table)?;
    link.read_p_keys()?;
    link.probe_each(&P_KEY, [foreign, foreign | FULL], |link, p_key| {
        link.smp().bth(|bth| bth.with_p_key(PKey(p_key))).mended()
    })?;
    if !link.takes_data() {
        return Ok(());
    }
    let tried = [
        full | FULL,
        full,
        limited | FULL,
        limited,
        foreign | FULL,
        foreign,
        FULL,
        0,
    ];
    link.probe_each(&P_KEY, tried, |link, p_key| {
        link.gmp().bth(|bth| bth.with_p_key(PKey(p_key))).mended()
    })?;
    link.probe_each(&P_KEY, [full, foreign | FULL, foreign], |link, p_key| {
        link.global().bth(|bth| bth.with_p_key(PKey(p_key))).mended()
    })?;
    // An entry after an invalid entry is as valid as any other.
    let table = found
        .quiet()
        .change(|table| table.with_p_key(1, PKey(0)).with_p_key(2, PKey(full | FULL)));
    link.t.set(SET, &found, table)?;
    link.read_p_keys()?;
    link.probe_each(&P_KEY, [full | FULL, limited | FULL], |link, p_key| {
        link.gmp().bth(|bth| bth.with_p_key(PKey(p_key))).mended()
    })?;
    without_default(&mut link, &found, full)
}

/// Replaces the default partition: without its entry, packets of that partition do not match.
///
/// The tester restores the entry before it reads the counters, because its requests belong to that partition.
fn without_default(link: &mut Link<'_, '_>, found: &Guarded<PKeyTable>, full: u16) -> Step {
    let is_default = |key: PKey| key.0 & !FULL == DEFAULT;
    if link.p_keys.iter().skip(ENTRIES).any(|key| is_default(*key)) {
        return Ok(());
    }
    let table = found.quiet().change(|table| {
        let others = |table: PKeyTable, at| match is_default(table.p_key(at)) {
            true => table.with_p_key(at, PKey(0)),
            false => table,
        };
        (0..ENTRIES).fold(table, others).with_p_key(0, PKey(full | FULL))
    });
    for p_key in [full | FULL, DEFAULT | FULL, DEFAULT] {
        link.t.set(SET, found, table)?;
        link.read_p_keys()?;
        let wire = link.gmp().bth(|bth| bth.with_p_key(PKey(p_key))).mended();
        link.send(&P_KEY, &wire)?;
        link.t.set(SET, found, found.quiet())?;
        link.read_p_keys()?;
        link.read()?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.exchange(FOUND)?;
    t.not_judged(SET); // The table as read back decides which P_Keys match.
    native::judge(t, f, &[P_KEY], native::NOTHING_SENT)
}
