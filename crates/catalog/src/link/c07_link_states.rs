//! `c07-link-states`: in state Initialize only SMPs on VL 15 come in; in Armed and Active data does too.
//!
//! Reading: the port is taken through Initialize, Armed and Active by Set(PortInfo), and back to the state it was found
//! in; in between its link is trained anew by PortPhysicalState, and a step that leaves Armed out is refused with 0x001C.
//! Armed is not commanded in Active: a public suite takes a port there so, and whether that is still legal is not certain.
//! What counts a packet that its state keeps out is left open. False alarm: a manager that brings the port up meanwhile.

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
    about: "In state Initialize only SMPs on VL 15 come in; in Armed and Active data does too.",
    reading: "What counts a packet that its state keeps out is left open.",
    statements: &[STATEMENT],
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
    native::took(t, SET, "the state that was commanded", reached)?;
    native::judge(t, f, &[STATES], "the port has no LID")
}

/// Judges how a command to the link was answered, and which state the port shows after it. A port without SM may refuse
/// every Set that gives it none.
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
