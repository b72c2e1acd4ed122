//! The error counters of a port for received packets.
//!
//! Source: PortCounters and PortRcvErrorDetails, architecture 16.1; P_KeyViolations, architecture 14.2.5.6.

use super::checks::Check;
use super::defect::{LinkDefect, LinkFaults};
use super::profile::{LinkProfile, PortKind};

/// The error counters of a port. Each counter stops at its maximum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// PortRcvErrors: packets with a physical error on this link, and malformed packets.
    pub port_rcv_errors: u16,
    /// PortRcvRemotePhysicalErrors: packets that another port marked as bad.
    pub port_rcv_remote_physical_errors: u16,
    /// PortRcvSwitchRelayErrors: packets that a switch cannot forward.
    pub port_rcv_switch_relay_errors: u16,
    /// PortRcvConstraintErrors, at a switch or router: raw packets that a filter stopped, and packets of a foreign
    /// partition.
    pub port_rcv_constraint_errors: u8,
    /// PortInfo:P_KeyViolations: packets of a foreign partition at their destination.
    pub p_key_violations: u16,
    /// PortLocalPhysicalErrors, a part of PortRcvErrors: VCRC and ICRC errors, and a delimiter that is neither EGP nor
    /// EBP.
    pub port_local_physical_errors: u16,
    /// PortMalformedPktErrors, a part of PortRcvErrors: LVer, length and VL errors.
    pub port_malformed_pkt_errors: u16,
    /// PortDLIDMappingErrors, a part of PortRcvSwitchRelayErrors: packets whose DLID belongs to no port.
    pub port_dlid_mapping_errors: u16,
}

/// The counter of a failed check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    Remote,
    Physical,
    Malformed,
    Constraint,
    PKey,
    Relay,
    Nothing,
}

impl Check {
    fn tells(self, profile: &LinkProfile) -> Tells {
        match self {
            Self::MarkedBad => Tells::Remote,
            Self::Delimiter | Self::Vcrc | Self::Icrc => Tells::Physical,
            Self::LVer | Self::PktLen | Self::TooShort | Self::OverMtu | Self::Vl => Tells::Malformed,
            Self::RawFilter | Self::Enforcement => Tells::Constraint,
            Self::PKey => Tells::PKey,
            Self::Dlid if profile.kind == PortKind::Switch && !profile.is_final() => Tells::Relay,
            Self::State | Self::Dlid | Self::Management | Self::Grh | Self::TVer => Tells::Nothing,
        }
    }
}

impl Counters {
    /// Counts one failed check of a packet.
    pub(super) fn count(&mut self, check: Check, profile: &LinkProfile, faults: &LinkFaults) {
        let mut tells = check.tells(profile);
        if tells == Tells::Remote && faults.has(LinkDefect::EbpCountedAsOwn) {
            tells = Tells::Physical;
        } else if check == Check::Delimiter && faults.has(LinkDefect::UnknownDelimiterCountedAsRemote) {
            tells = Tells::Remote;
        }
        let unseen = match tells {
            Tells::Remote => faults.has(LinkDefect::EbpNotCounted),
            Tells::Physical => faults.has(LinkDefect::PhysicalErrorNotCounted),
            Tells::Malformed => faults.has(LinkDefect::MalformedNotCounted),
            Tells::Constraint => faults.has(LinkDefect::ConstraintNotCounted),
            Tells::PKey => faults.has(LinkDefect::PKeyViolationNotCounted),
            Tells::Relay => faults.has(LinkDefect::RelayErrorNotCounted),
            Tells::Nothing => true,
        };
        if unseen {
            return;
        }
        let wraps = faults.has(LinkDefect::CountersWrap);
        match tells {
            Tells::Remote => up(&mut self.port_rcv_remote_physical_errors, wraps),
            Tells::Physical | Tells::Malformed => {
                up(&mut self.port_rcv_errors, wraps);
                if faults.has(LinkDefect::ErrorCountedTwice) {
                    up(&mut self.port_rcv_errors, wraps);
                }
                let swapped = faults.has(LinkDefect::ErrorDetailsSwapped);
                if (tells == Tells::Physical) == swapped {
                    up(&mut self.port_malformed_pkt_errors, wraps);
                } else {
                    up(&mut self.port_local_physical_errors, wraps);
                }
            }
            Tells::Constraint => {
                let count = &mut self.port_rcv_constraint_errors;
                *count = if wraps {
                    count.wrapping_add(1)
                } else {
                    count.saturating_add(1)
                };
            }
            Tells::PKey => up(&mut self.p_key_violations, wraps),
            Tells::Relay => {
                up(&mut self.port_rcv_switch_relay_errors, wraps);
                up(&mut self.port_dlid_mapping_errors, wraps);
            }
            Tells::Nothing => {}
        }
    }
}

fn up(count: &mut u16, wraps: bool) {
    *count = if wraps {
        count.wrapping_add(1)
    } else {
        count.saturating_add(1)
    };
}
