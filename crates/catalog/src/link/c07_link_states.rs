//! `c07-link-states`: in state Initialize a port accepts only SMPs on VL 15; in Armed and Active it accepts data too.
//!
//! Reading: Set(PortInfo) takes the port through Initialize, Armed and Active, and back to its original state. In
//! between, PortPhysicalState restarts the link training. A transition that skips Armed must fail with status
//! 0x001C. A public test suite also commands Armed in state Active; this test does not, because that command may
//! be illegal. The architecture does not define a counter for packets that a port discards because of its state.
//! False alarm: a subnet manager that brings the port up during the test.

use verbatim_record::{Exchange, Findings, Gap, Label, Trace};
use verbatim_tester::{Guarded, Need, Step, Test, Tester};
use verbatim_wire::{PhysState, PortInfo, PortState, Status};

use crate::link::native::{self, Link, Rule};

const FOUND: Label<PortInfo> = Label::new("port as found");
const SET: Label<PortInfo> = Label::new("set the state");
const LEAP: Label<PortInfo> = Label::new("set Active in Initialize");
const TRAIN: Label<PortInfo> = Label::new("set the physical state");
const STATEMENT: &str = "7.2 link states";
const STATES: Rule = Rule::new(STATEMENT);

pub(super) static TEST: Test = Test {
    id: "c07-link-states",
    aliases: &[],
    revision: 2,
    about: "In state Initialize a port accepts only SMPs on VL 15; in Armed and Active it accepts data too.",
    reading: "The specification names no counter for packets that the port's state excludes.",
    statements: &[STATEMENT],
    needs: &[Need::Link, Need::Mad, Need::OwnSubnet],
    parameters: &[],
    procedure,
    judge,
};

/// Each commanded state, and the state that the port reaches.
const STATES_UP: [(PortState, PortState); 3] = [
    (PortState::DOWN, PortState::INITIALIZE),
    (PortState::ARMED, PortState::ARMED),
    (PortState::ACTIVE, PortState::ACTIVE),
];

fn procedure(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let found = t.guard(FOUND, key)?;
    let mut link = Link::open(t)?;
    if !link.port.lid().is_unicast() {
        return Ok(());
    }
    for (command, _) in STATES_UP {
        if command == PortState::ARMED {
            command_state(&mut link, LEAP, &found, PortState::ACTIVE)?;
        }
        command_state(&mut link, SET, &found, command)?;
        let smp = link.smp();
        link.probe(&STATES, &smp)?;
        let gmp = link.gmp();
        link.probe(&STATES, &gmp)?;
    }
    for state in [PortState::NO_CHANGE, PortState::DOWN] {
        let training = |info: PortInfo| info.with_port_state(state).with_port_physical_state(PhysState::POLLING);
        link.t.set(TRAIN, &found, found.quiet().change(training))?;
        link.read()?;
    }
    for (command, reached) in STATES_UP {
        command_state(&mut link, SET, &found, command)?;
        if reached == found.found().port_state() {
            break;
        }
    }
    Ok(())
}

fn command_state(link: &mut Link<'_, '_>, label: Label<PortInfo>, found: &Guarded<PortInfo>, state: PortState) -> Step {
    let image = found.quiet().change(|info| info.with_port_state(state));
    link.t.set(label, found, image)?;
    link.read()
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    t.exchange(FOUND)?;
    for set in t.each(SET) {
        let asked = set.request.attribute::<PortInfo>().port_state();
        let reached = STATES_UP.iter().find(|(command, _)| *command == asked);
        reached.map_or(Ok(()), |(_, reached)| obeyed(t, f, set, (Status::OK, *reached)))?;
    }
    for set in t.each(TRAIN) {
        obeyed(t, f, set, (Status::OK, PortState::INITIALIZE))?;
    }
    for set in t.each(LEAP) {
        obeyed(t, f, set, (Status::INVALID_FIELD, PortState::INITIALIZE))?;
    }
    let reached = |wanted: &PortInfo, shown: &PortInfo| STATES_UP.contains(&(wanted.port_state(), shown.port_state()));
    native::took(t, f, (STATEMENT, "PortState as commanded"), SET, reached)?;
    native::judge(t, f, &[STATES], "the port has no LID")
}

/// Checks the response to a PortState command, and the state of the port after it. The port may refuse a Set whose
/// MasterSMLID is not a unicast LID.
fn obeyed(t: &Trace, f: &mut Findings<'_>, set: &Exchange, (status, state): (Status, PortState)) -> Result<(), Gap> {
    let asked: PortInfo = set.request.attribute();
    let Some(answer) = set.answer().filter(|_| !set.is_busy()) else {
        return Ok(());
    };
    if !asked.master_sm_lid().is_unicast() && answer.mad.status() == Status::INVALID_FIELD {
        return Ok(());
    }
    f.status(STATEMENT, set, &[status]);
    let shows = |read: &&Exchange| {
        let answer = read.answer();
        read.number > set.number && answer.is_some_and(|answer| answer.mad.status() == Status::OK)
    };
    let Some(read) = t.each(native::PORT).find(shows) else {
        return Ok(());
    };
    let shown: PortInfo = t.answered(read)?;
    f.claim(STATEMENT, "PortState after a command to the link")
        .by_all([set, read])
        .saw(shown.port_state())
        .is(state);
    Ok(())
}
