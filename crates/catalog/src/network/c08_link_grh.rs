//! `c08-link-grh`: a port accepts a packet with a valid GRH, and discards a packet with a wrong IPVer, NxtHdr or
//! PayLen.
//!
//! Reading: the architecture defines no counter for these faults. The effect of a GRH on VL 15 is unclear, so the test
//! sends no GRH there. False alarm: none known.

use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::Grh;
use verbatim_wire::values::Hex8;

use crate::link::native::{self, Link, Rule};

const GRH: Rule = Rule::new("8.3 GRH");
const NO_DATA: &str = "the port accepts no packets on data VLs: it has no LID, or is neither Armed nor Active";

pub(super) static TEST: Test = Test {
    id: "c08-link-grh",
    aliases: &[],
    revision: 1,
    about: "A port accepts a packet with a sound GRH, and discards one with a wrong IPVer, NxtHdr or PayLen.",
    reading: "The specification names no counter.",
    statements: &["8.3 GRH"],
    needs: &[Need::Link, Need::Mad],
    parameters: &[],
    procedure,
    judge: |t, f| native::judge(t, f, &[GRH], NO_DATA),
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let mut link = Link::open(t)?;
    if !link.takes_data() {
        return Ok(());
    }
    let sound = link.global();
    link.probe(&GRH, &sound)?;
    link.probe_each(&GRH, [0, 4, 7, 15], |link, version| {
        link.global().grh(|grh| grh.with_ip_ver(version)).mended()
    })?;
    link.probe_each(&GRH, [0, 0x11, 0x1A, 0xFF], |link, next| {
        link.global().grh(|grh| grh.with_nxt_hdr(Hex8(next))).mended()
    })?;
    link.probe_each(&GRH, [4, -4, -40], |link, by| {
        let other = |grh: Grh| grh.with_pay_len(grh.pay_len().wrapping_add_signed(by));
        link.global().grh(other).mended()
    })
}
