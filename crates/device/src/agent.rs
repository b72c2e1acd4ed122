//! The subnet management agent, which turns a request into a response (architecture 13.4.7, 14.2.3).
//!
//! The agent checks in this order: versions, M_Key, method, attribute, modifier, fields.

use core::time::Duration;

use verbatim_wire::values::{CapabilityMask, Hex16};
use verbatim_wire::{AttributeId, Lid, Mad, Method, Status};

use crate::defect::{Defect, Faults};
use crate::m_key::{Access, WrongReaction};
use crate::node::Node;
use crate::port::Port;
use crate::profile::Profile;
use crate::traps;

/// Range of the AttributeIDs of the subnet management classes.
const NUMBERS: core::ops::RangeInclusive<u16> = AttributeId::NOTICE.0..=AttributeId::LED_INFO.0;

/// The status of a response, and the bytes of the attribute if the response carries an attribute of its own.
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// `None`: the response carries the data of the request.
    pub(crate) data: Option<[u8; 64]>,
}

impl Reply {
    /// Creates a reply with a status and the current attribute.
    pub(crate) fn with(status: Status, data: &[u8]) -> Self {
        let mut bytes = [0; 64];
        let room = data.len().min(64);
        bytes[..room].copy_from_slice(&data[..room]);
        Self {
            status,
            data: Some(bytes),
        }
    }

    pub(crate) fn ok(data: &[u8]) -> Self {
        Self::with(Status::OK, data)
    }

    pub(crate) fn refused(status: Status) -> Self {
        Self { status, data: None }
    }
}

/// The agent of one port, for one request.
pub(crate) struct Agent<'d> {
    pub(crate) profile: &'d Profile,
    pub(crate) faults: &'d Faults,
    pub(crate) node: &'d mut Node,
    pub(crate) ports: &'d mut Vec<Port>,
    /// Index of the port that received the request, counted from 0.
    pub(crate) at: usize,
    pub(crate) now: Duration,
}

impl Agent<'_> {
    /// Returns the response to an SMP, if the agent sends one.
    pub(crate) fn serve(&mut self, request: &Mad, source: Lid) -> Option<Mad> {
        let masked = request.with_method(Method(request.method().0 & 0x8F));
        let request = if self.faults.has(Defect::MethodLow4Bits) {
            &masked
        } else {
            request
        };
        let method = request.method();
        let silent = matches!(method, Method::REPORT | Method::TRAP_REPRESS)
            || method == Method::TRAP && !self.faults.has(Defect::TrapAnswered);
        if method.is_response() {
            return None;
        }
        if let Some(refusal) = self.wrong_version(request) {
            return refusal.filter(|_| !silent);
        }
        if let Some(status) = self.refused_unseen(request) {
            return Some(refuse(request, status));
        }
        let choices = &self.profile.choices;
        let sends_traps = self.profile.capability_mask.has(CapabilityMask::TRAP);
        if method == Method::TRAP_REPRESS && choices.knows_no_repress && !sends_traps {
            return None;
        }
        let access = self.check_key(request, source);
        if method == Method::TRAP_REPRESS && access == Access::Full {
            self.repress(request);
        }
        if silent {
            return None;
        }
        match access {
            Access::Refused => return None,
            Access::WrongReaction(WrongReaction::RefusedAloud) => return Some(refuse(request, Status::INVALID_FIELD)),
            _ => {}
        }
        let reply = match method {
            Method::GET => self.get(request, access),
            Method::SET => self.set(request, access),
            _ => self.unsupported_method(),
        };
        let unwanted = access == Access::WrongReaction(WrongReaction::ObeyedOnly)
            || (self.faults.has(Defect::UnsupportedAttributeSilent) && reply.status == self.unsupported().status)
            || (self.faults.has(Defect::VlArbitrationBadPartSilent) && self.is_bad_arbitration_part(request));
        let answer = (!unwanted).then(|| answer(request, &reply))?;
        Some(if self.faults.has(Defect::ResponseReservedEchoed) {
            repeat_reserved(request, answer)
        } else {
            answer
        })
    }

    /// Returns the port that received the request.
    pub(crate) fn port(&mut self) -> &mut Port {
        &mut self.ports[self.at]
    }

    /// Returns the response to a request for an attribute that this node does not have.
    pub(crate) fn unsupported(&self) -> Reply {
        if self.faults.has(Defect::UnsupportedAttributeAccepted) {
            Reply::refused(Status::OK)
        } else if self.faults.has(Defect::UnsupportedAttributeWrongStatus) {
            Reply::refused(Status::INVALID_FIELD)
        } else {
            Reply::refused(Status::METHOD_ATTRIBUTE_UNSUPPORTED)
        }
    }

    fn unsupported_method(&self) -> Reply {
        if self.faults.has(Defect::UnsupportedMethodAccepted) {
            Reply::refused(Status::OK)
        } else if self.faults.has(Defect::UnsupportedMethodWrongStatus) {
            Reply::refused(Status::INVALID_FIELD)
        } else {
            Reply::refused(Status::METHOD_UNSUPPORTED)
        }
    }

    /// Checks the versions of an SMP. Returns `None` if both are right. Otherwise returns the bad-version response,
    /// or `Some(None)` if the agent drops the SMP.
    fn wrong_version(&self, request: &Mad) -> Option<Option<Mad>> {
        let header = request.header();
        let refusal = Some(refuse(request, Status::BAD_VERSION));
        if header.base_version() != 1 && !self.faults.has(Defect::BaseVersionIgnored) {
            return Some(refusal.filter(|_| self.profile.choices.bad_base_version_answered));
        }
        if header.class_version() != 1 && !self.faults.has(Defect::ClassVersionIgnored) {
            return Some(refusal);
        }
        None
    }

    /// Returns an error status if the agent refuses a Get for its AttributeID alone, before the M_Key check.
    fn refused_unseen(&self, request: &Mad) -> Option<Status> {
        let choices = &self.profile.choices;
        let attribute = request.attribute_id();
        let by_host = choices.sm_info_by_host && attribute == AttributeId::SM_INFO;
        let is_unknown = choices.refuses_unknown_first && !NUMBERS.contains(&attribute.0);
        let is_refused = request.method() == Method::GET && (by_host || is_unknown);
        is_refused.then(|| self.unsupported().status)
    }

    /// Checks the M_Key at the receiving port, and raises a trap on a violation.
    fn check_key(&mut self, request: &Mad, source: Lid) -> Access {
        let (profile, faults, now) = (self.profile, self.faults, self.now);
        let at = self.at;
        let port = self.port();
        let outcome = port.lock.check(now, request, &profile.choices, faults);
        if outcome.access == Access::Full && faults.has(Defect::LeaseStoppedAtAnotherPort) {
            let others = self.ports.iter_mut().enumerate().filter(|(index, _)| *index != at);
            others.for_each(|(_, other)| other.lock.stop_lease());
        }
        let port = self.port();
        let sends = profile.has_traps() || faults.has(Defect::TrapWithoutCapability);
        let sends = sends && !port.traps.ended;
        let is_repress = request.method() == Method::TRAP_REPRESS;
        let sends = sends && !(is_repress && faults.has(Defect::TrapOfRepressMissing));
        if outcome.violation && sends && !faults.has(Defect::TrapNeverSent) && traps::can_send(&port.info) {
            let notice = traps::bad_m_key(port.info.lid(), source, request);
            let notice = traps::misled(notice, port.lock.key, faults);
            let repeats = (profile.trap_repeats, profile.choices.queues_traps);
            port.traps.raise(now, &notice, repeats, faults);
        }
        if outcome.violation && faults.has(Defect::ViolationClearsPKeys) {
            port.p_keys[1..].fill(0);
        }
        outcome.access
    }

    fn repress(&mut self, request: &Mad) {
        if request.attribute_id() == AttributeId::NOTICE {
            let transaction = request.transaction_id();
            if self.faults.has(Defect::TrapsEndWithRepress) {
                self.port().traps.ended = true;
            }
            if !self.faults.has(Defect::TrapNotRepressed) {
                self.port().traps.repress(transaction);
            }
        }
    }

    fn get(&mut self, request: &Mad, access: Access) -> Reply {
        if access == Access::WrongReaction(WrongReaction::Blank) {
            return Reply::ok(&[]);
        }
        let modifier = request.modifier();
        let looked_at = if self.faults.has(Defect::AttributeIdLow8Bits) {
            0xFF
        } else {
            0xFFFF
        };
        match AttributeId(request.attribute_id().0 & looked_at) {
            AttributeId::NODE_DESCRIPTION if self.at > 0 && self.faults.has(Defect::NodeDescriptionByPort) => {
                self.unmodified(modifier, |agent| Reply::ok(&agent.node.found_description))
            }
            AttributeId::NODE_DESCRIPTION => self.unmodified(modifier, |agent| Reply::ok(&agent.node.description)),
            AttributeId::NODE_INFO => self.unmodified(modifier, |agent| Reply::ok(&agent.node_info())),
            AttributeId::GUID_INFO => self.get_guid_info(modifier),
            AttributeId::PORT_INFO => self.get_port_info(request, access),
            AttributeId::P_KEY_TABLE => self.get_p_key_table(modifier),
            AttributeId::SL_TO_VL => self.get_sl_to_vl(),
            AttributeId::VL_ARBITRATION => self.get_vl_arbitration(modifier),
            AttributeId::LED_INFO if self.profile.has_led() => self.get_led_info(),
            AttributeId::SM_INFO => self.sm_info(),
            AttributeId::SWITCH_INFO if self.faults.has(Defect::SwitchInfoAnswered) => Reply::ok(&[]),
            _ => self.unsupported(),
        }
    }

    fn set(&mut self, request: &Mad, access: Access) -> Reply {
        if access == Access::WrongReaction(WrongReaction::AnsweredOnly) {
            let key_shown = self.port().lock.opens_with(request.m_key());
            return self.get(request, Access::Read { key_shown });
        }
        let before = self
            .faults
            .has(Defect::SetResponseShowsOldState)
            .then(|| self.get(request, Access::Full));
        let modifier = request.modifier();
        let mut data = [0; 64];
        data.copy_from_slice(request.data());
        let mut reply = match request.attribute_id() {
            AttributeId::NODE_DESCRIPTION => self.set_node_description(&data),
            AttributeId::NODE_INFO => self.set_node_info(&data),
            AttributeId::GUID_INFO => self.set_guid_info(modifier, &data),
            AttributeId::PORT_INFO => self.set_port_info(request),
            AttributeId::P_KEY_TABLE => self.set_p_key_table(modifier, &data),
            AttributeId::SL_TO_VL => self.set_sl_to_vl(&data),
            AttributeId::VL_ARBITRATION => self.set_vl_arbitration(modifier, &data),
            AttributeId::LED_INFO if self.profile.has_led() => self.set_led_info(&data),
            AttributeId::SM_INFO => self.sm_info(),
            AttributeId::SWITCH_INFO if self.faults.has(Defect::SwitchInfoAnswered) => Reply::ok(&[]),
            _ => self.unsupported(),
        };
        self.side_effects(request.attribute_id(), &reply);
        if let Some(before) = before
            && reply.status == Status::OK
        {
            reply.data = before.data;
        }
        reply
    }

    /// Applies the side effects of a Set that only a defective device has.
    fn side_effects(&mut self, attribute: AttributeId, reply: &Reply) {
        let faults = self.faults;
        if reply.status != Status::OK {
            return;
        }
        let port = self.port();
        match attribute {
            AttributeId::GUID_INFO if faults.has(Defect::GuidSetClearsPKeys) => port.p_keys[1..].fill(0),
            AttributeId::P_KEY_TABLE if faults.has(Defect::PKeySetMovesGuids) => {
                let moved = u64::from(port.p_keys.get(1).copied().unwrap_or(1));
                port.guids
                    .iter_mut()
                    .skip(1)
                    .take(1)
                    .for_each(|guid| guid.0 ^= moved | 1);
            }
            AttributeId::SL_TO_VL if faults.has(Defect::SlToVlSetMovesArbitration) => port.arbitration.disturb(),
            AttributeId::VL_ARBITRATION if faults.has(Defect::ArbitrationSetMovesSlToVl) => port.sl_to_vl[15] ^= 1,
            AttributeId::PORT_INFO if faults.has(Defect::PortInfoSetMovesOverrunErrors) => {
                port.info = port.info.with_overrun_errors(port.info.local_phy_errors() ^ 0xF);
            }
            _ => {}
        }
    }

    /// Serves an attribute that does not use the AttributeModifier.
    fn unmodified(&mut self, modifier: u32, serve: impl FnOnce(&mut Self) -> Reply) -> Reply {
        if modifier != 0 && self.profile.choices.unused_modifier_refused {
            return Reply::refused(Status::INVALID_FIELD);
        }
        serve(self)
    }
}

/// Builds the response: it has the header and the route of the request, method GetResp, and the status and data of
/// `reply`.
fn answer(request: &Mad, reply: &Reply) -> Mad {
    let mut mad = *request;
    // Clears the reserved bytes. In a LID-routed SMP, the bytes after the data are reserved too. In a
    // directed-route SMP, these bytes contain the paths.
    mad.bytes_mut()[18..20].fill(0);
    if request.is_directed() {
        mad.bytes_mut()[36..64].fill(0);
    } else {
        mad.bytes_mut()[32..64].fill(0);
        mad.bytes_mut()[128..].fill(0);
    }
    let header = mad.header().with_status_word(Hex16(0));
    let mad = mad
        .with_header(&header)
        .with_method(Method::GET_RESP)
        .with_status(reply.status);
    match &reply.data {
        Some(data) => mad.with_data(data),
        None => mad,
    }
}

/// Copies the reserved bytes of the request's headers into the response.
fn repeat_reserved(request: &Mad, mut answer: Mad) -> Mad {
    let of_route = if request.is_directed() { 36..64 } else { 32..64 };
    for bytes in [18..20, of_route] {
        answer.bytes_mut()[bytes.clone()].copy_from_slice(&request.bytes()[bytes]);
    }
    answer
}

/// Builds the response that refuses a request. The response carries the data of the request.
pub(crate) fn refuse(request: &Mad, status: Status) -> Mad {
    answer(request, &Reply::refused(status))
}
