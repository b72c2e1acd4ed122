//! Trap 256, bad M_Key: its contents and its repetition (architecture 13.4.9, 14.2.5.1, 14.3.9).

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_wire::trap::{BAD_M_KEY, BAD_P_KEY, BadMKey};
use verbatim_wire::values::Hex32;
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, MKey, Mad, Method, Notice, PhysState, PortInfo, Reserved};

use crate::defect::{Defect, Faults};

/// Notice:Type of a security trap.
const SECURITY: u8 = 2;
/// Notice:ProducerType of a channel adapter.
const CHANNEL_ADAPTER: u32 = 1;
/// Length of the return path in a notice, in bytes.
const PATH_LENGTH: u8 = 30;

/// A trap and the time of its next transmission.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    mad: Mad,
    due: Duration,
    /// Remaining number of transmissions.
    left: u8,
    /// Whether the trap stays outstanding until it is repressed, even after its last transmission.
    stays: bool,
}

/// The traps of a port. Depending on the profile, a new trap replaces the outstanding one or waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Traps {
    outstanding: Option<Outstanding>,
    /// Traps that wait for the outstanding one, oldest first.
    waiting: VecDeque<Outstanding>,
    /// The earliest time of the next trap.
    not_before: Duration,
    transaction: u64,
    /// The SubnetTimeOut at the first trap. Only a defective device uses it.
    first_timeout: Option<Duration>,
    /// Whether the port has stopped sending traps. Set only in a defective device.
    pub(crate) ended: bool,
}

impl Traps {
    pub(crate) fn new() -> Self {
        Self {
            outstanding: None,
            waiting: VecDeque::new(),
            not_before: Duration::ZERO,
            transaction: 0,
            first_timeout: None,
            ended: false,
        }
    }

    /// Raises a trap with this notice. The port sends the trap and repeats it `repeats` times, at most once in a
    /// SubnetTimeOut. With `queues` the trap waits for an outstanding trap; otherwise it replaces that trap.
    pub(crate) fn raise(&mut self, now: Duration, notice: &Notice, (repeats, queues): (u8, bool), faults: &Faults) {
        self.transaction += 1;
        let mad = Mad::lid_routed(Method::TRAP, AttributeId::NOTICE, 0)
            .with_transaction_id(self.transaction)
            .with_data(notice.bytes());
        let trap = Outstanding {
            mad,
            due: if faults.has(Defect::TrapNotHeldBack) {
                now
            } else {
                now.max(self.not_before)
            },
            left: repeats.saturating_add(1),
            stays: queues,
        };
        if queues && self.outstanding.is_some() {
            self.waiting.push_back(trap);
        } else {
            self.outstanding = Some(trap);
        }
    }

    /// Makes the oldest waiting trap the outstanding trap if no trap is outstanding.
    fn next(&mut self) {
        if self.outstanding.is_none() {
            let next = self.waiting.pop_front();
            self.outstanding = next.map(|trap| Outstanding {
                due: trap.due.max(self.not_before),
                ..trap
            });
        }
    }

    /// Handles a TrapRepress: removes the trap with this TransactionID.
    pub(crate) fn repress(&mut self, transaction: u64) {
        self.outstanding = self.outstanding.filter(|trap| trap.mad.transaction_id() != transaction);
        self.waiting.retain(|trap| trap.mad.transaction_id() != transaction);
        self.next();
    }

    /// Returns the time of the next transmission.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.outstanding.filter(|trap| trap.left > 0).map(|trap| trap.due)
    }

    /// Returns the trap to send at `now`, if any.
    pub(crate) fn take_due(&mut self, now: Duration, info: &PortInfo, faults: &Faults) -> Option<Mad> {
        let mut trap = self.outstanding.take_if(|trap| trap.left > 0 && trap.due <= now)?;
        if !can_send(info) {
            self.next();
            return None;
        }
        let mut apart = info.subnet_timeout().duration();
        if faults.has(Defect::TrapTimeoutAsFirst) {
            apart = *self.first_timeout.get_or_insert(apart);
        }
        self.not_before = now
            + if faults.has(Defect::TrapRepeatedTooSoon) {
                apart / 2
            } else {
                apart
            };
        trap.left -= 1;
        trap.due = self.not_before;
        let sent = trap.mad;
        if trap.left > 0 || trap.stays {
            if faults.has(Defect::TrapRepeatedAsAnother) {
                self.transaction += 1;
                trap.mad = trap.mad.with_transaction_id(self.transaction);
            }
            self.outstanding = Some(trap);
        }
        Some(sent)
    }
}

/// Returns whether the port has a LID, knows the LID of the subnet manager, and its link is up.
pub(crate) fn can_send(info: &PortInfo) -> bool {
    info.master_sm_lid().is_unicast() && info.lid().is_unicast() && info.port_physical_state() == PhysState::LINK_UP
}

/// Returns the trap with the header errors of a defective device.
pub(crate) fn spoiled(mut trap: Mad, own: MKey, faults: &Faults) -> Mad {
    if faults.has(Defect::TrapCarriesKey) {
        trap.bytes_mut()[24..32].copy_from_slice(&own.0.to_be_bytes());
    }
    if faults.has(Defect::TrapModifierSet) {
        trap.bytes_mut()[23] = 1;
    }
    if faults.has(Defect::TrapStatusSet) {
        trap.bytes_mut()[5] = 4;
    }
    if faults.has(Defect::TrapHeaderReservedSet) {
        trap.bytes_mut()[19] = 1;
    }
    trap
}

/// Returns the notice with the errors of a defective device.
pub(crate) fn misled(notice: Notice, own: MKey, faults: &Faults) -> Notice {
    let says = BadMKey::from_bytes(notice.details());
    let told = |says: BadMKey| notice.with_details(says.bytes());
    if faults.has(Defect::TrapNumberWrong) {
        notice.with_trap_number(BAD_P_KEY)
    } else if faults.has(Defect::TrapTypeWrong) {
        notice.with_notice_type(1)
    } else if faults.has(Defect::TrapProducerWrong) {
        notice.with_producer_type(Hex32(2))
    } else if faults.has(Defect::TrapIssuerWrong) {
        notice.with_issuer_lid(Lid(0))
    } else if faults.has(Defect::TrapMethodWrong) {
        told(says.with_method(Method::SET))
    } else if faults.has(Defect::TrapAttributeWrong) {
        told(says.with_attribute(AttributeId::PORT_INFO))
    } else if faults.has(Defect::TrapModifierLost) {
        told(says.with_modifier(Hex32(0)))
    } else if faults.has(Defect::TrapKeyIsOurs) {
        told(says.with_m_key(own))
    } else if faults.has(Defect::TrapKeyLow32Bits) {
        told(says.with_m_key(MKey(says.m_key().0 & 0xFFFF_FFFF)))
    } else if faults.has(Defect::TrapHopsLost) {
        told(says.with_directed(false).with_hop_count(0))
    } else if faults.has(Defect::TrapPathCut) {
        told(says.with_path_truncated(true))
    } else if faults.has(Defect::TrapSourceWrong) {
        told(says.with_lid(Lid(notice.issuer_lid().0 ^ 1)))
    } else if faults.has(Defect::TrapDrSlidLost) {
        told(says.with_dr_slid(Lid(0)))
    } else if faults.has(Defect::TrapReturnPathWrong) {
        told((0..PATH_LENGTH.into()).fold(says, |says, hop| says.with_return_path(hop, 0xEE)))
    } else if faults.has(Defect::TrapReservedNotZero) {
        told(says.with_reserved_176(Reserved(1)))
    } else {
        notice
    }
}

/// Creates the notice of trap 256 for an SMP from `source`.
pub(crate) fn bad_m_key(issuer: Lid, source: Lid, smp: &Mad) -> Notice {
    let mut details = BadMKey::default()
        .with_lid(source)
        .with_method(smp.method())
        .with_attribute(smp.attribute_id())
        .with_modifier(Hex32(smp.modifier()))
        .with_m_key(smp.m_key());
    if smp.is_directed() {
        let route = DrSmp::from_bytes(smp.bytes());
        // Copies the path with its unused first byte, as the SMP carries it.
        let shown = route.hop_count().saturating_add(1).min(PATH_LENGTH);
        details = details
            .with_dr_slid(route.dr_slid())
            .with_directed(true)
            .with_hop_count(route.hop_count())
            .with_path_truncated(route.hop_count() >= PATH_LENGTH);
        for hop in 0..usize::from(shown) {
            details = details.with_return_path(hop, route.return_path(hop));
        }
    }
    Notice::default()
        .with_is_generic(true)
        .with_notice_type(SECURITY)
        .with_producer_type(Hex32(CHANNEL_ADAPTER))
        .with_trap_number(BAD_M_KEY)
        .with_issuer_lid(issuer)
        .with_details(details.bytes())
}
