//! Trap 256, bad M_Key: what it says, how often it is repeated (architecture 13.4.9, 14.2.5.1, 14.3.9).

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
/// Bytes of the return path that a notice holds.
const PATH_LENGTH: u8 = 30;

/// A trap and when it is sent next.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    mad: Mad,
    due: Duration,
    /// How often it is sent yet.
    left: u8,
    /// Until it is repressed it keeps its place, sent or not.
    stays: bool,
}

/// The traps of a port: one at a time, the latest, or each in its turn.
#[derive(Clone, Debug)]
pub(crate) struct Traps {
    outstanding: Option<Outstanding>,
    /// Those whose turn has not come.
    waiting: VecDeque<Outstanding>,
    /// When the port may send a trap again.
    not_before: Duration,
    transaction: u64,
    /// The SubnetTimeOut when a trap was sent first; for a defective device.
    first_timeout: Option<Duration>,
    /// No trap is sent any more; only in a defective device.
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

    /// Sends this notice and repeats it so often, at most once in a subnet time-out; behind those before it, or in their place.
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

    /// The turn of the one that waits longest has come, when none is outstanding.
    fn next(&mut self) {
        if self.outstanding.is_none() {
            let next = self.waiting.pop_front();
            self.outstanding = next.map(|trap| Outstanding {
                due: trap.due.max(self.not_before),
                ..trap
            });
        }
    }

    /// A TrapRepress came: the trap of that transaction is known now.
    pub(crate) fn repress(&mut self, transaction: u64) {
        self.outstanding = self.outstanding.filter(|trap| trap.mad.transaction_id() != transaction);
        self.waiting.retain(|trap| trap.mad.transaction_id() != transaction);
        self.next();
    }

    /// When a trap is sent next.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.outstanding.filter(|trap| trap.left > 0).map(|trap| trap.due)
    }

    /// The trap to send now.
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

/// Whether the port has an address of its own and knows the subnet manager's.
pub(crate) fn can_send(info: &PortInfo) -> bool {
    info.master_sm_lid().is_unicast() && info.lid().is_unicast() && info.port_physical_state() == PhysState::LINK_UP
}

/// The trap as a defective device spoils its header.
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

/// The notice as a defective device sends it.
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

/// The notice of trap 256 for an SMP from `source`.
pub(crate) fn bad_m_key(issuer: Lid, source: Lid, smp: &Mad) -> Notice {
    let mut details = BadMKey::default()
        .with_lid(source)
        .with_method(smp.method())
        .with_attribute(smp.attribute_id())
        .with_modifier(Hex32(smp.modifier()))
        .with_m_key(smp.m_key());
    if smp.is_directed() {
        let route = DrSmp::from_bytes(smp.bytes());
        // The path as the SMP has it, its unused first byte too.
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
