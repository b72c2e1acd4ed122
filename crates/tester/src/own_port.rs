//! The tester's own port: SMPs without a hop, which the agent of this port answers, and bringing up both ports of an
//! InfiniBand pair.

use verbatim_record::{Label, Stopped};
use verbatim_wire::{Lid, PortInfo, PortState, Status};

use crate::guard::Guarded;
use crate::stop::{Step, Stop};
use crate::tester::Tester;

const SEEN: Label<PortInfo> = Label::new("is the port of the pair up");
const BEFORE: Label<PortInfo> = Label::new("the port before it is brought up");
const ARM: Label<PortInfo> = Label::new("bringing the port up: LID and Armed");
const ACTIVATE: Label<PortInfo> = Label::new("bringing the port up: Active");

/// LIDs for the tester's own port. The second serves if the DUT has the first.
const OWN_LIDS: [Lid; 2] = [Lid(1), Lid(0xBFF0)];

impl Tester<'_> {
    /// Runs `act` with SMPs to the tester's own port, or to the DUT.
    pub fn at_port<R>(&mut self, own: bool, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = core::mem::replace(&mut self.own, own);
        let result = act(self);
        self.own = before;
        result
    }

    /// If the rig file has `assign_lid`, gives both ports of the pair the LIDs that they lack, and takes them to
    /// Active. The journal saves the old values first. A refusal is noted in the record.
    pub(crate) fn raise_pair(&mut self) -> Option<Stopped> {
        let given = self.info.assign_lid?;
        match self.raise_both(given) {
            Ok(()) => None,
            Err(stop) if stop.is_about_the_device() => {
                self.note(format!(
                    "the tester did not bring up the link: {}",
                    stop.to_entry().text
                ));
                None
            }
            Err(stop) => Some(stop.to_entry()),
        }
    }

    fn raise_both(&mut self, given: Lid) -> Step {
        let dut = self.get(SEEN, self.key())?;
        let lid = if dut.lid().is_unicast() { dut.lid() } else { given };
        let is_dut = |own: Lid| own.0 >> dut.lmc() == lid.0 >> dut.lmc();
        let own_lid = OWN_LIDS.into_iter().find(|own| !is_dut(*own)).unwrap_or(OWN_LIDS[1]);
        let ends = [(false, lid, own_lid), (true, own_lid, lid)];
        let mut raised = Vec::new();
        for (own, lid, other) in ends {
            let guard = self.at_port(own, |t| t.arm(lid, other))?;
            raised.extend(guard.map(|guard| (own, lid, other, guard)));
        }
        for (own, lid, other, guard) in raised {
            self.at_port(own, |t| t.raise(ACTIVATE, &guard, (lid, other), PortState::ACTIVE))?;
        }
        Ok(())
    }

    /// Gives the port a LID and takes it to Armed. Returns `None` if the port is up already.
    fn arm(&mut self, lid: Lid, other: Lid) -> Step<Option<Guarded<PortInfo>>> {
        let seen = self.get(SEEN, self.key())?;
        if seen.lid().is_unicast() && seen.port_state() == PortState::ACTIVE {
            return Ok(None);
        }
        let guard = self.guard(BEFORE, self.key())?;
        let state = match seen.port_state() {
            PortState::INITIALIZE => PortState::ARMED,
            _ => PortState::NO_CHANGE,
        };
        self.raise(ARM, &guard, (lid, other), state)?;
        Ok(Some(guard))
    }

    fn raise(
        &mut self,
        label: Label<PortInfo>,
        guard: &Guarded<PortInfo>,
        (lid, other): (Lid, Lid),
        state: PortState,
    ) -> Step {
        let image = guard.quiet().change(|info| {
            let lid = if info.lid().is_unicast() { info.lid() } else { lid };
            let sm_lid = if info.master_sm_lid().is_unicast() {
                info.master_sm_lid()
            } else {
                other
            };
            info.with_lid(lid).with_master_sm_lid(sm_lid).with_port_state(state)
        });
        match self.set(label, guard, image)? {
            Some(answer) if answer.status != Status::OK => {
                Err(Stop::Refused(format!("\"{}\": status {}", label.name, answer.status)))
            }
            _ => Ok(()),
        }
    }
}
