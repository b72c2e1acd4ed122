//! The subnet manager of the port's subnet.

use core::time::Duration;
use std::time::Instant;

use umad::{Destination, DevicePort, Port, SendError};
use verbatim_wire::values::SmState;
use verbatim_wire::{Lid, Mad, Method, SmInfo, Status};

/// Transaction IDs of this module's requests count up from this number. The top bit keeps them apart from the
/// tester's own transaction IDs.
const FIRST_ID: u32 = 0xFFFF_FD00;
/// Number of tries.
const TRIES: u32 = 3;
/// Timeout of each try.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// IsSM in the capability mask. The kernel sets it while a program has the port's `issm` file open.
const IS_SM: u32 = 1 << 1;

/// The place of the subnet manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manager {
    /// The port shows no unicast SMLID.
    None,
    /// The port shows this SMLID, but no subnet manager responds there.
    Left(u16),
    /// This port has the subnet manager.
    Ours,
    /// The subnet manager is at this LID.
    Elsewhere(u16),
}

impl Manager {
    /// Finds the subnet manager from the port's state and a SubnGet(SMInfo) to its SMLID. The request is needed because
    /// the SMLID stays when a subnet manager leaves.
    ///
    /// # Errors
    /// When the port is gone; the text is the reason.
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

    /// Describes the manager for the fingerprint.
    pub(super) fn in_words(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Left(lid) => format!("none: the port still shows LID {lid}, and no subnet manager answers there"),
            Self::Ours => "on this port".into(),
            Self::Elsewhere(lid) => format!("at LID {lid}"),
        }
    }

    pub(super) fn is_there(self) -> bool {
        matches!(self, Self::Ours | Self::Elsewhere(_))
    }
}

/// Returns whether a subnet manager responds at a LID. Ignores a subnet manager in the state NOT_ACTIVE.
fn answers(port: &mut Port, lid: u16) -> Result<bool, String> {
    for number in 1..=TRIES {
        let id = FIRST_ID + number;
        let ask =
            Mad::lid_routed(Method::GET, <SmInfo as verbatim_wire::Attribute>::ID, 0).with_transaction_id(id.into());
        match port.send(ask.bytes(), &Destination::Lid { dlid: lid, sl: 0 }, ANSWER_WITHIN) {
            Ok(()) => {}
            Err(SendError::PortGone(gone)) => return Err(gone.to_string()),
            // The request cannot be sent, for example without a MAD agent for class 0x01. Then trust the port's
            // SMLID.
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

/// Returns an error if the port's SMLID shows a subnet manager that was not there when the rig was opened.
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
         the rig was opened). It may change the values that tests set, so their results are not reliable. Stop it and \
         run again, or, to keep it, write `shared_subnet = true` into the rig file",
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
    fn reports_a_new_subnet_manager() {
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
                why.contains(&format!("at LID {sm_lid}")) && why.contains("Stop it"),
                "{why}"
            );
        }
    }

    #[test]
    fn only_active_manager_with_status_ok_counts() {
        let answer = |status: Status, state: SmState| {
            let info = SmInfo::default().with_sm_state(state);
            let mad = Mad::lid_routed(Method::GET_RESP, AttributeId::SM_INFO, 0).with_data(info.bytes());
            is_active(&mad.with_status(status))
        };
        assert!(answer(Status::OK, SmState::MASTER) && answer(Status::OK, SmState::STANDBY));
        assert!(!answer(Status::OK, SmState::NOT_ACTIVE));
        // Linux responds with this status if it runs no subnet manager.
        assert!(!answer(Status::METHOD_ATTRIBUTE_UNSUPPORTED, SmState::MASTER));
    }
}
