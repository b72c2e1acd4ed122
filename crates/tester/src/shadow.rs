//! The shadow of a device: all attributes that it has, read before a procedure of management and after it.
//!
//! What changed meanwhile, though nothing was to change it, is for the judge to say.

use verbatim_wire::{AttributeId, MKey, NodeInfo, Status};

use crate::rig::PortId;
use crate::stop::Step;
use crate::test::Need;
use crate::tester::Tester;

/// An attribute by its number, and an AttributeModifier.
pub type What = (AttributeId, u32);

/// What every adapter may be asked for, and answers: with success or a refusal.
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
/// What is read beside them, where the part before it is there.
const FURTHER: [What; 4] = [
    (AttributeId::GUID_INFO, 1),
    (AttributeId::P_KEY_TABLE, 1),
    (AttributeId::VL_ARBITRATION, 2 << 16),
    (AttributeId::VL_ARBITRATION, 4 << 16),
];
/// CapabilityMask: LedInfo is there. Where it is not, some leave it unanswered.
const LED_INFO: u32 = 1 << 9;

/// The rig's other port, cabled to another port of the device.
const SECOND: PortId = 1;

impl Tester<'_> {
    /// Reads all of them with the key in force, each once; ends at the first that stays unanswered. Where the whole device is
    /// at hand, other ports of it too: what is Set at one must not show there.
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
        // What the tester knows of the port under test, another port's answers do not change.
        let known = (self.shown.clone(), self.resp_time, self.subnet_timeout);
        let by_number = u32::from(node.local_port_num() % node.num_ports()) + 1;
        let by_number = self.read_each(label, key, [(AttributeId::PORT_INFO, by_number)].into_iter());
        self.reads_at = Some(SECOND);
        // The description is the node's: a Set at the first port may have changed it.
        let of_port = ATTRIBUTES.into_iter().chain(FURTHER);
        let of_port = of_port.filter(|(attribute, _)| *attribute != AttributeId::NODE_DESCRIPTION);
        let second = self.read_each(label, self.rig_key(), of_port);
        self.reads_at = None;
        (self.shown, self.resp_time, self.subnet_timeout) = known;
        by_number.and(second).map(|_| ())
    }

    /// Reads these, each once, but for what follows a part that is refused. NodeInfo, if all were answered, and blank if it was
    /// not among them.
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
