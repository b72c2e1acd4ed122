//! The shadow of a device: all attributes that it has, read before a procedure of management and after it.
//!
//! What changed meanwhile, though nothing was to change it, is for the judge to say.

use verbatim_wire::{AttributeId, Status};

use crate::stop::Step;
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

impl Tester<'_> {
    /// Reads all of them with the key in force, each once; ends at the first that stays unanswered.
    pub(crate) fn shadow(&mut self, label: &'static str) -> Step {
        let key = self.key();
        let has_led = self
            .shown
            .get(&0)
            .is_some_and(|port| port.capability_mask().has(LED_INFO));
        let led = has_led.then_some((AttributeId::LED_INFO, 0));
        let mut refused = Vec::new();
        for (attribute, modifier) in ATTRIBUTES.into_iter().chain(FURTHER).chain(led) {
            if refused.contains(&attribute) {
                continue;
            }
            let mad = self
                .mad_of(verbatim_wire::Method::GET, attribute, modifier)
                .with_m_key(key);
            match self.exchange_any(label, 0, &mad)? {
                None => return Ok(()),
                Some((answer, _)) if answer.status() != Status::OK => refused.push(attribute),
                Some(_) => {}
            }
        }
        Ok(())
    }
}
