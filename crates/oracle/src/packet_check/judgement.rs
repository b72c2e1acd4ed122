//! Result of a check, and the action of a conforming port.

use super::check::{Certainty, Check, Checks, Counter};
use super::port::{Kind, Port};
use verbatim_wire::{Delimiter, PortState};

/// Checks that a packet failed.
pub type Failed = Checks;
/// Checks that were not made, because the capture lacks the bytes for them.
pub type Absent = Checks;

/// Reason for no judgement: no public source settles whether a packet on VL 15 may have a GRH.
pub const UNSETTLED_VL15_GRH: &str = "no public source says whether a packet on VL 15 may have a GRH";

/// Reason for no judgement: the packet is too short for the GRH and BTH that LNH announces, but has right length
/// fields. No public source says whether a port on the way detects this fault.
pub const UNSETTLED_SHORT: &str =
    "no public source says whether a switch detects a packet that is too short for its GRH and BTH";

/// Action of a port on a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The port accepts the packet, or passes it on.
    Accept,
    /// The port discards the packet.
    Discard,
    /// The port discards the packet, or passes it on with a wrong VCRC and EBP at its end.
    DiscardOrForward,
    /// The action is unknown, for this reason.
    NotJudged(&'static str),
}

/// Judgement of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// All checks that failed.
    pub failed: Failed,
    /// Failed check that ranks first, and the certainty of its rank.
    pub first: Option<(Check, Certainty)>,
    /// Action of a conforming port.
    pub action: Action,
    /// Counter that counts the packet, if the port reports the first failure. `None` if the packet is accepted, or no
    /// counter is specified.
    pub counter: Option<Counter>,
    /// Checks that were not made, because the capture lacks the bytes for them.
    pub absent: Absent,
    /// Checks that were not made, because the port's LID or P_Keys are unknown.
    pub untold: Checks,
    /// Whether this port may also pass the packet on unchanged, because only the ICRC failed. Only the packet's
    /// destination must check the ICRC.
    pub may_pass_unchecked: bool,
}

/// Failures after which a switch or router on the way may pass the packet on with a wrong VCRC and EBP.
const SPOILABLE: Checks = Checks::of(&[Check::Vcrc, Check::Icrc, Check::LinkVersion, Check::Length, Check::Mtu]);

impl Judgement {
    /// Returns a judgement without a result, for the reason `why`.
    #[must_use]
    pub const fn not_judged(why: &'static str) -> Self {
        Self {
            failed: Checks::NONE,
            first: None,
            action: Action::NotJudged(why),
            counter: None,
            absent: Checks::NONE,
            untold: Checks::NONE,
            may_pass_unchecked: false,
        }
    }

    /// Returns the judgement of these failures on native InfiniBand.
    pub(super) fn native(port: &Port, failed: Failed, delimiter: Option<Delimiter>) -> Self {
        let icrc_alone = failed == Checks::of(&[Check::Icrc]);
        let may_pass_unchecked = icrc_alone && !port.is_end();
        let action = if failed.is_empty() {
            Action::Accept
        } else if !port.is_end() && failed.is_within(SPOILABLE) {
            Action::DiscardOrForward
        } else {
            Action::Discard
        };
        let first = failed.first().map(|first| (first, Certainty::of(first, failed)));
        Self {
            first,
            action,
            counter: match first {
                Some((first, _)) if !may_pass_unchecked => counter(port, first, delimiter),
                _ => None,
            },
            failed,
            may_pass_unchecked,
            ..Self::not_judged("")
        }
    }

    /// Returns the judgement of these failures on Ethernet. There, no order of failures is specified, and no counter
    /// except that of P_Keys.
    pub(super) fn roce(failed: Failed) -> Self {
        let first = failed.first();
        let certainty = if failed.len() > 1 {
            Certainty::Assumed
        } else {
            Certainty::Certain
        };
        Self {
            first: first.map(|first| (first, certainty)),
            action: if failed.is_empty() {
                Action::Accept
            } else {
                Action::Discard
            },
            counter: (first == Some(Check::PKey)).then_some(Counter::PKeyViolations),
            failed,
            ..Self::not_judged("")
        }
    }

    /// Returns whether a conforming port may accept the packet, or pass it on unchanged.
    #[must_use]
    pub fn may_accept(&self) -> bool {
        matches!(self.action, Action::Accept | Action::NotJudged(_)) || self.may_pass_unchecked
    }

    /// Returns whether a conforming port may discard the packet.
    #[must_use]
    pub fn may_discard(&self) -> bool {
        self.action != Action::Accept
    }

    /// Returns whether a conforming port may pass the packet on with a wrong VCRC and EBP.
    #[must_use]
    pub fn may_forward_spoilt(&self) -> bool {
        matches!(self.action, Action::DiscardOrForward | Action::NotJudged(_))
    }
}

/// Returns the counter of a check that failed first.
fn counter(port: &Port, check: Check, delimiter: Option<Delimiter>) -> Option<Counter> {
    // A port that is down receives no packets and counts none.
    if port.state == PortState::DOWN {
        return None;
    }
    match check {
        Check::Delimiter if delimiter == Some(Delimiter::Ebp) => Some(Counter::PortRcvRemotePhysicalErrors),
        Check::Delimiter
        | Check::Vcrc
        | Check::Icrc
        | Check::LinkVersion
        | Check::Length
        | Check::Mtu
        | Check::VirtualLane => Some(Counter::PortRcvErrors),
        Check::PKey if !port.is_end() && port.kind != Kind::Ca => Some(Counter::PortRcvConstraintErrors),
        Check::PKey => Some(Counter::PKeyViolations),
        Check::PortState
        | Check::ManagementLane
        | Check::Dlid
        | Check::IpHeader
        | Check::Grh
        | Check::TransportVersion => None,
    }
}
