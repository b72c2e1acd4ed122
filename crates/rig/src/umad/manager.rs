//! The subnet manager of our port's subnet: none, one that left, one of this host, one elsewhere.

use core::time::Duration;
use std::time::Instant;

use umad::{Destination, DevicePort, Port, SendError};
use verbatim_wire::values::SmState;
use verbatim_wire::{Lid, Mad, Method, SmInfo, Status};

/// Low half of the transaction ids of our questions; the tester's have the top bit clear.
const FIRST_ID: u32 = 0xFFFF_FD00;
/// Tries, and how long each waits.
const TRIES: u32 = 3;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// IsSM of a capability mask: the kernel sets it while a program has the port's `issm` file open.
const IS_SM: u32 = 1 << 1;

/// Who manages the subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manager {
    /// The port shows no SMLID.
    None,
    /// The port shows the LID of one that is there no more.
    Left(u16),
    /// One of this very port.
    Ours,
    /// One at that LID.
    Elsewhere(u16),
}

impl Manager {
    /// Looks at what the port shows, and asks at the LID of the subnet manager whether one is there: the SMLID stays when
    /// a subnet manager leaves.
    ///
    /// # Errors
    /// When the port is gone: why.
    pub(super) fn of(seen: &DevicePort, port: &mut Port) -> Result<Self, String> {
        if !Lid(seen.sm_lid).is_unicast() {
            return Ok(Self::None);
        }
        let ours = seen.sm_lid == seen.lid;
        if (ours && seen.capability_mask & IS_SM != 0) || answers(port, seen.sm_lid)? {
            return Ok(if ours { Self::Ours } else { Self::Elsewhere(seen.sm_lid) });
        }
        Ok(Self::Left(seen.sm_lid))
    }

    /// In words, for the fingerprint.
    pub(super) fn in_words(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Left(lid) => format!("none: the port still shows the LID {lid} of one that does not answer"),
            Self::Ours => "on this port".into(),
            Self::Elsewhere(lid) => format!("at LID {lid}"),
        }
    }

    /// Whether a subnet manager is there.
    pub(super) fn is_there(self) -> bool {
        matches!(self, Self::Ours | Self::Elsewhere(_))
    }
}

/// Whether a subnet manager answers at a LID. One that was never active is none.
fn answers(port: &mut Port, lid: u16) -> Result<bool, String> {
    for number in 1..=TRIES {
        let id = FIRST_ID + number;
        let ask =
            Mad::lid_routed(Method::GET, <SmInfo as verbatim_wire::Attribute>::ID, 0).with_transaction_id(id.into());
        match port.send(ask.bytes(), &Destination::Lid { dlid: lid, sl: 0 }, ANSWER_WITHIN) {
            Ok(()) => {}
            Err(SendError::PortGone(gone)) => return Err(gone.to_string()),
            // Without class 0x01 nobody can be asked: what the port shows is believed.
            Err(_) => return Ok(true),
        }
        let until = Instant::now() + ANSWER_WITHIN;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(received) = port.recv(left).map_err(|gone| gone.to_string())? else {
                break;
            };
            let mad = Mad::from(received.mad);
            if received.status == 0 && mad.transaction_id() as u32 == id && mad.method().is_response() {
                return Ok(is_active(&mad));
            }
        }
    }
    Ok(false)
}

fn is_active(answer: &Mad) -> bool {
    let info: SmInfo = answer.attribute();
    answer.status() == Status::OK && info.sm_state() != SmState::NOT_ACTIVE
}

/// What it means that the port shows this SMLID, where `opened_with` it did when the rig was opened.
pub(super) fn came_between(device: &str, port: &DevicePort, opened_with: Manager) -> Result<(), String> {
    let shown = match opened_with {
        Manager::None => 0,
        Manager::Left(lid) | Manager::Elsewhere(lid) => lid,
        Manager::Ours => port.lid,
    };
    if !Lid(port.sm_lid).is_unicast() || port.sm_lid == shown {
        return Ok(());
    }
    Err(format!(
        "a subnet manager at LID {} took over the subnet of {device}/{} in mid-run (the port showed SMLID {shown} when \
         the rig was opened): it sets what tests set, so what they saw cannot be relied on; stop it and run again, or, if it \
         is to stay, write `shared_subnet = true` into the rig file",
        port.sm_lid, port.number
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use verbatim_wire::{AttributeId, Layout as _};

    pub(crate) fn port(lid: u16, sm_lid: u16) -> DevicePort {
        DevicePort {
            number: 1,
            state: 4,
            physical_state: 5,
            lid,
            lmc: 0,
            sm_lid,
            rate_gbps: 100,
            capability_mask: 0,
            guid: 1,
            link_layer: "InfiniBand".into(),
        }
    }

    #[test]
    fn a_subnet_manager_that_takes_over_is_told_with_the_remedy_and_one_that_was_there_or_left_is_not() {
        let check = |sm_lid, opened_with| came_between("d", &port(5, sm_lid), opened_with);
        for (sm_lid, opened_with) in [
            (0, Manager::None),
            (3, Manager::Left(3)),
            (0, Manager::Left(3)),
            (0xFFFF, Manager::Left(3)),
            (5, Manager::Ours),
            (7, Manager::Elsewhere(7)),
            (0, Manager::Elsewhere(7)),
        ] {
            assert_eq!(check(sm_lid, opened_with), Ok(()), "{sm_lid} {opened_with:?}");
        }
        for (sm_lid, opened_with) in [(3, Manager::None), (4, Manager::Left(3)), (6, Manager::Ours)] {
            let why = check(sm_lid, opened_with).unwrap_err();
            assert!(
                why.contains(&format!("at LID {sm_lid}")) && why.contains("stop it"),
                "{why}"
            );
        }
    }

    #[test]
    fn only_an_answer_with_success_of_an_active_subnet_manager_counts() {
        let answer = |status: Status, state: SmState| {
            let info = SmInfo::default().with_sm_state(state);
            let mad = Mad::lid_routed(Method::GET_RESP, AttributeId::SM_INFO, 0).with_data(info.bytes());
            is_active(&mad.with_status(status))
        };
        assert!(answer(Status::OK, SmState::MASTER) && answer(Status::OK, SmState::STANDBY));
        assert!(!answer(Status::OK, SmState::NOT_ACTIVE));
        // What Linux says for whoever is not there.
        assert!(!answer(Status::METHOD_ATTRIBUTE_UNSUPPORTED, SmState::MASTER));
    }
}
