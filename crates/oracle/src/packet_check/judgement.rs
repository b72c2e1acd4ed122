//! What was found, and what a conforming port does about it.

use super::check::{Certainty, Check, Checks, Counter};
use super::port::{Kind, Port};
use verbatim_wire::{Delimiter, PortState};

/// The checks that a packet failed.
pub type Failed = Checks;
/// The checks that could not be made, because the capture lacks what they look at.
pub type Absent = Checks;

/// Whether VL 15 may carry a GRH: nothing public settles it.
pub const UNSETTLED_VL15_GRH: &str = "whether a packet on VL 15 may have a GRH is not settled";

/// Whether a port on the way notices that a packet is too short for the GRH and BTH that LNH promises, although its
/// lengths agree: nothing public settles it.
pub const UNSETTLED_SHORT: &str =
    "whether a switch on the way looks for the GRH and BTH that a packet promises and is too short for is not settled";

/// What a port does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It takes it, or passes it on.
    Accept,
    /// It discards it.
    Discard,
    /// It discards it, or passes it on spoilt: a wrong VCRC, and EBP at its end.
    DiscardOrForward,
    /// Nothing can be said, and why.
    NotJudged(&'static str),
}

/// What came of judging a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// The checks that failed, all of them.
    pub failed: Failed,
    /// The one that ranks first, and how sure that is.
    pub first: Option<(Check, Certainty)>,
    /// What a conforming port does.
    pub action: Action,
    /// What counts the packet, when the first failure is the one that is reported. `None` when it is accepted, and where
    /// no counter is laid down.
    pub counter: Option<Counter>,
    /// Checks that were not made because the capture lacks their bytes.
    pub absent: Absent,
    /// Checks that were not made because the port's LID or P_Keys are not known.
    pub untold: Checks,
    /// Whether this port may also pass the packet on as it is: all that failed is the ICRC, which only the packet's
    /// destination must check.
    pub may_pass_unchecked: bool,
}

/// Failures after which a switch or router on the way may pass the packet on, spoilt.
const SPOILABLE: Checks = Checks::of(&[Check::Vcrc, Check::Icrc, Check::LinkVersion, Check::Length, Check::Mtu]);

impl Judgement {
    /// Nothing is said of a packet, for this reason.
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

    /// The judgement of these failures on native InfiniBand.
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

    /// The judgement of these failures on Ethernet, where no counter is laid down but that of P_Keys, and no order.
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

    /// Whether a conforming port may take the packet, or pass it on unspoilt.
    #[must_use]
    pub fn may_accept(&self) -> bool {
        matches!(self.action, Action::Accept | Action::NotJudged(_)) || self.may_pass_unchecked
    }

    /// Whether a conforming port may discard the packet.
    #[must_use]
    pub fn may_discard(&self) -> bool {
        self.action != Action::Accept
    }

    /// Whether a conforming port may pass the packet on spoilt.
    #[must_use]
    pub fn may_forward_spoilt(&self) -> bool {
        matches!(self.action, Action::DiscardOrForward | Action::NotJudged(_))
    }
}

/// The counter of a check that failed first.
fn counter(port: &Port, check: Check, delimiter: Option<Delimiter>) -> Option<Counter> {
    // To a port that is down nothing arrives that it could count.
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
