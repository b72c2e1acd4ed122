//! `c07-link-states`: in state Initialize only SMPs on VL 15 come in; in Armed and Active data does too.
//!
//! Reading: the port is taken through Initialize, Armed and Active by Set(PortInfo), and back to the state it was found
//! in. What counts a packet that its state keeps out is left open. False alarm: a manager that brings the port up meanwhile.

use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Step, Test, Tester};
use verbatim_wire::{Lid, PortInfo, PortState};

use crate::link::native::{self, Link, Rule};

const FOUND: Label<PortInfo> = Label::new("port as found");
const SET: Label<PortInfo> = Label::new("set the state");
const STATES: Rule = Rule::new("7.2 link states");

/// Initialize, Armed and Active.
pub(super) static TEST: Test = Test {
    id: "c07-link-states",
    aliases: &[],
    revision: 1,
    about: "In state Initialize only SMPs on VL 15 come in; in Armed and Active data does too.",
    reading: "What counts a packet that its state keeps out is left open.",
    statements: &["7.2 link states"],
    needs: &[Need::Link, Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// The way up.
const STATES_UP: [(PortState, PortState); 3] = [
    (PortState::DOWN, PortState::INITIALIZE),
    (PortState::ARMED, PortState::ARMED),
    (PortState::ACTIVE, PortState::ACTIVE),
];

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let found = t.guard(FOUND, key)?;
    let mut link = Link::open(t)?;
    if link.port.lid() == Lid(0) {
        return Ok(());
    }
    for (command, _) in STATES_UP {
        command_state(&mut link, &found, command)?;
        let smp = link.smp();
        link.probe(&STATES, &smp)?;
        let gmp = link.gmp();
        link.probe(&STATES, &gmp)?;
    }
    for (command, reached) in STATES_UP {
        command_state(&mut link, &found, command)?;
        if reached == found.found().port_state() {
            break;
        }
    }
    Ok(())
}

fn command_state(link: &mut Link<'_, '_>, found: &Guarded<PortInfo>, state: PortState) -> Step {
    link.t
        .set(SET, found, found.quiet().change(|info| info.with_port_state(state)))?;
    link.read()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.exchange(FOUND)?;
    let reached = |wanted: &PortInfo, shown: &PortInfo| STATES_UP.contains(&(wanted.port_state(), shown.port_state()));
    native::took(t, SET, "the state that was commanded", reached)?;
    native::judge(t, f, &[STATES], "the port has no LID")
}
