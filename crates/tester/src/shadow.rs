//! The shadow of a device: all its attributes, read before and after a management procedure.
//!
//! The judge reports each attribute that changed without a request to change it.

use verbatim_wire::{AttributeId, MKey, NodeInfo, Status};

use crate::rig::PortId;
use crate::stop::Step;
use crate::test::Need;
use crate::tester::Tester;

/// AttributeID and AttributeModifier.
pub type What = (AttributeId, u32);

/// Attributes for which every adapter must answer a Get, with success or an error status.
pub const ATTRIBUTES: [What; 8] = [
    (AttributeId::NODE_DESCRIPTION, 0),
    (AttributeId::NODE_INFO, 0),
    (AttributeId::PORT_INFO, 0),
    (AttributeId::GUID_INFO, 0),
    (AttributeId::P_KEY_TABLE, 0),
    (AttributeId::SL_TO_VL, 0),
    (AttributeId::VL_ARBITRATION, 1 << 16),
    (AttributeId::VL_ARBITRATION, 3 << 16),
];
/// Further parts of some of the [`ATTRIBUTES`]. A part is read only if the device did not refuse an earlier part
/// of the same attribute.
const FURTHER: [What; 4] = [
    (AttributeId::GUID_INFO, 1),
    (AttributeId::P_KEY_TABLE, 1),
    (AttributeId::VL_ARBITRATION, 2 << 16),
    (AttributeId::VL_ARBITRATION, 4 << 16),
];
/// Bit of CapabilityMask: the device supports LedInfo. Some devices without LedInfo do not answer a Get(LedInfo).
const LED_INFO: u32 = 1 << 9;

/// The rig's second port, cabled to another port of the device.
const SECOND: PortId = 1;

impl Tester<'_> {
    /// Reads all attributes once with the M_Key in force, and ends at the first unanswered Get. On a simulated rig with
    /// a second port, also reads the device's other port, because a Set at one port must not affect another.
    pub(crate) fn shadow(&mut self, label: &'static str) -> Step {
        let key = self.key();
        let has_led = self
            .shown
            .get(&0)
            .is_some_and(|port| port.capability_mask().has(LED_INFO));
        let led = has_led.then_some((AttributeId::LED_INFO, 0));
        let all = ATTRIBUTES.into_iter().chain(FURTHER).chain(led);
        let Some(node) = self.read_each(label, key, all)? else {
            return Ok(());
        };
        if !self.info.simulated || !self.info.offers.contains(&Need::SecondPort) || node.num_ports() < 2 {
            return Ok(());
        }
        // Responses about another port must not change the tester's data about the port under test.
        let known = (self.shown.clone(), self.resp_time, self.subnet_timeout);
        let by_number = u32::from(node.local_port_num() % node.num_ports()) + 1;
        let by_number = self.read_each(label, key, [(AttributeId::PORT_INFO, by_number)].into_iter());
        self.reads_at = Some(SECOND);
        // Skip NodeDescription: it belongs to the node, so a Set at the first port may have changed it.
        let of_port = ATTRIBUTES.into_iter().chain(FURTHER);
        let of_port = of_port.filter(|(attribute, _)| *attribute != AttributeId::NODE_DESCRIPTION);
        let second = self.read_each(label, self.rig_key(), of_port);
        self.reads_at = None;
        (self.shown, self.resp_time, self.subnet_timeout) = known;
        by_number.and(second).map(|_| ())
    }

    /// Reads each attribute once. Skips further parts of an attribute that the device refused. Returns `None` if a Get
    /// stays unanswered. Otherwise returns NodeInfo, which is all 0 if it was not read.
    fn read_each(&mut self, label: &'static str, key: MKey, all: impl Iterator<Item = What>) -> Step<Option<NodeInfo>> {
        let mut refused = Vec::new();
        let mut node = NodeInfo::default();
        for (attribute, modifier) in all {
            if refused.contains(&attribute) {
                continue;
            }
            let mad = self
                .mad_of(verbatim_wire::Method::GET, attribute, modifier)
                .with_m_key(key);
            match self.exchange_any(label, 0, &mad)? {
                None => return Ok(None),
                Some((answer, _)) if answer.status() != Status::OK => refused.push(attribute),
                Some((answer, _)) if attribute == AttributeId::NODE_INFO => node = answer.attribute(),
                Some(_) => {}
            }
        }
        Ok(Some(node))
    }
}
