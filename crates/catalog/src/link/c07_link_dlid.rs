//! `c07-link-dlid`: a port takes packets to each of its LIDs for LMC 0 to 7, and to no other; to the permissive LID on
//! VL 15 alone; never to LID 0.
//!
//! Reading: the base LID is set to a multiple of 128, so that it is one for each LMC. No counter is laid down for what goes
//! elsewhere. A port without a LID is given none, since none could be
//! taken from it again: it takes SMPs to the permissive LID alone. False alarm: none known.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Step, Test, Tester};
use verbatim_wire::{Lid, PKey, PortInfo};

use crate::link::native::{self, Link, MULTICAST, Rule, Wire};

const FOUND: Label<PortInfo> = Label::new("port as found");
const SET: Label<PortInfo> = Label::new("set LID and LMC");
const DLID: Rule = Rule::new("7.11 DLID");
const GROUP: Rule = Rule::new("7.10 multicast");

pub(super) static TEST: Test = Test {
    id: "c07-link-dlid",
    aliases: &[],
    revision: 3,
    about: "A port takes packets to each of its LIDs for LMC 0 to 7, and to no other.",
    reading: "The base LID is a multiple of 128 during the test. No counter is laid down for what goes elsewhere.",
    statements: &["7.11 DLID", "7.10 multicast"],
    needs: &[Need::Link, Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let found = t.guard(FOUND, key)?;
    let mut link = Link::open(t)?;
    if !link.port.lid().is_unicast() {
        for dlid in [Lid(0), Lid(1), Lid::PERMISSIVE] {
            let mad = link.get_node();
            link.probe(&DLID, &Wire::smp(dlid, &mad))?;
        }
        return Ok(());
    }
    let base = Lid((link.port.lid().0 & !0x7F).clamp(0x80, 0xBE80));
    for lmc in 0..=7 {
        configure(&mut link, &found, base, lmc)?;
        for dlid in around(base, lmc) {
            let mad = link.get_node();
            link.probe(&DLID, &Wire::smp(dlid, &mad))?;
        }
    }
    for (rule, dlid) in [(&DLID, Lid(0)), (&DLID, Lid::PERMISSIVE), (&GROUP, MULTICAST)] {
        let mad = link.get_node();
        link.probe(rule, &Wire::smp(dlid, &mad))?;
    }
    if link.takes_data() {
        let p_key = link.p_key();
        let sound = link.gmp();
        link.probe(&DLID, &sound)?;
        data(&mut link, p_key)?;
    }
    Ok(())
}

/// Packets on a data VL that nobody may take: to the permissive LID, and to a group without a GRH.
fn data(link: &mut Link<'_, '_>, p_key: PKey) -> Step {
    for (rule, dlid) in [(&DLID, Lid::PERMISSIVE), (&GROUP, MULTICAST)] {
        let mad = link.get_class();
        link.probe(rule, &Wire::gmp(dlid, p_key, &mad))?;
    }
    // With a GRH it is no group's either.
    let mad = link.get_class();
    link.probe(&DLID, &Wire::global((Lid::PERMISSIVE, link.gid), p_key, &mad))
}

fn configure(link: &mut Link<'_, '_>, found: &Guarded<PortInfo>, base: Lid, lmc: u8) -> Step {
    let wanted = found.quiet().change(|info| info.with_lid(base).with_lmc(lmc));
    link.t.set(SET, found, wanted)?;
    link.read()
}

/// The first and last LIDs of the range, one in it, those beside it, and one that differs in the high byte alone.
fn around(base: Lid, lmc: u8) -> Vec<Lid> {
    let (base, size) = (base.0, 1 << lmc);
    let mut lids = vec![
        base - 1,
        base,
        base + size / 2,
        base + size - 1,
        base + size,
        base + 0x100,
    ];
    lids.dedup();
    lids.into_iter().map(Lid).collect()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.exchange(FOUND)?;
    let holds: [(&str, native::Holds); 2] = [
        ("LID as set", |wanted, shown| wanted.lid() == shown.lid()),
        ("LMC as set", |wanted, shown| wanted.lmc() == shown.lmc()),
    ];
    for (what, holds) in holds {
        native::took(t, f, (DLID.statement, what), SET, holds)?;
    }
    native::judge(t, f, &[DLID, GROUP], native::NOTHING_SENT)
}
