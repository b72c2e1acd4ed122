//! `c07-link-dlid`: a port accepts packets to each of its LIDs for LMC 0 to 7, and to no other LID. It accepts packets
//! to the permissive LID only on VL 15, and never packets to LID 0.
//!
//! Reading: the test sets the base LID to a multiple of 128, which is valid for each LMC. The architecture defines no
//! counter for packets to other LIDs. If the port has no LID, the test assigns none, because a LID cannot be removed
//! again. The port then accepts SMPs to the permissive LID only. False alarm: none known.

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
    about: "A port accepts packets to each of its LIDs for LMC 0 to 7, and to no other LID.",
    reading: "The base LID is a multiple of 128 during the test. The specification names no counter for packets to \
        other LIDs.",
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

/// Sends packets on a data VL that the port must not accept: to the permissive LID, and to a multicast LID without a
/// GRH.
fn data(link: &mut Link<'_, '_>, p_key: PKey) -> Step {
    for (rule, dlid) in [(&DLID, Lid::PERMISSIVE), (&GROUP, MULTICAST)] {
        let mad = link.get_class();
        link.probe(rule, &Wire::gmp(dlid, p_key, &mad))?;
    }
    // A GRH does not make the permissive LID valid on a data VL.
    let mad = link.get_class();
    link.probe(&DLID, &Wire::global((Lid::PERMISSIVE, link.gid), p_key, &mad))
}

fn configure(link: &mut Link<'_, '_>, found: &Guarded<PortInfo>, base: Lid, lmc: u8) -> Step {
    let wanted = found.quiet().change(|info| info.with_lid(base).with_lmc(lmc));
    link.t.set(SET, found, wanted)?;
    link.read()
}

/// Returns the first, a middle and the last LID of the range, and the two adjacent LIDs. Adds a LID that differs in its
/// high byte only.
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
