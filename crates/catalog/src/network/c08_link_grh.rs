//! `c08-link-grh`: a packet with a sound GRH is taken; one with another IPVer, NxtHdr or PayLen is not.
//!
//! Reading: no counter is laid down. A GRH on VL 15 is not settled and not sent. False alarm: none known.

use verbatim_record::{Findings, Gap, Trace};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::values::Hex8;

use crate::link::native::{self, Link, Rule};

const GRH: Rule = Rule::new("8.3 GRH");

/// The GRH's own fields.
pub(super) static TEST: Test = Test {
    id: "c08-link-grh",
    aliases: &[],
    revision: 1,
    about: "A packet with a sound GRH is taken; one with another IPVer, NxtHdr or PayLen is not.",
    reading: "No counter is laid down.",
    statements: &["8.3 GRH"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    if !link.takes_data() {
        return Ok(());
    }
    let sound = link.global();
    link.probe(&GRH, &sound)?;
    for version in [0, 4, 7, 15] {
        let wire = link.global().grh(|grh| grh.with_ip_ver(version)).mended();
        link.probe(&GRH, &wire)?;
    }
    for next in [0, 0x11, 0x1A, 0xFF] {
        let wire = link.global().grh(|grh| grh.with_nxt_hdr(Hex8(next))).mended();
        link.probe(&GRH, &wire)?;
    }
    for by in [4, -4, -40] {
        let wire = link
            .global()
            .grh(|grh| grh.with_pay_len(grh.pay_len().wrapping_add_signed(by)));
        link.probe(&GRH, &wire.mended())?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    native::judge(
        t,
        f,
        &[GRH],
        "the port takes no packets on data VLs: it has no LID, or is neither Armed nor Active",
    )
}
