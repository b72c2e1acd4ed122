//! Sound models, and the states of them that a seed stands for.

use verbatim_device::link::LinkChoices;
use verbatim_rig::{DeviceSeed, Disturbances, ProfileName, VirtualConfig};
use verbatim_tester::Test;
use verbatim_wire::MKey;

use super::defects::Part;

/// The name of the model that tests of the adapter run on.
const ADAPTER: &str = "adapter";
/// M_Keys that devices are found with, with the seed in the low bits.
const FOUND_KEY: u64 = 0x5EED_CA11_0B5E_0000;

/// A device model that tests are tried on.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name in reports.
    pub name: &'static str,
    /// The keys of its rig that no seed changes.
    pub config: VirtualConfig,
}

/// All sound models: each profile for the tests of management and of the link layer, an adapter, and a device for all tests
/// whose capabilities are drawn too.
#[must_use]
pub fn sound_models() -> Vec<Model> {
    let model = |name, profile| Model {
        name,
        config: VirtualConfig {
            profile,
            ..VirtualConfig::default()
        },
    };
    let profiles = [ProfileName::Full, ProfileName::Minimal, ProfileName::OneDataVl];
    let mut models: Vec<_> = profiles.map(|profile| model(profile.name(), profile)).into();
    models.push(model(ADAPTER, ProfileName::Full));
    models.push(model(ProfileName::Any.name(), ProfileName::Any));
    models
}

/// What the way to the model does with this seed, by the rules of hardware: nothing with some, all with others.
pub(super) fn disturbance(seed: u64) -> Disturbances {
    let kind = (seed + seed / 5) % 5;
    let is = |one| kind == one || kind == 4;
    Disturbances {
        loses: is(1),
        swaps: is(2),
        late: is(3),
    }
}

impl Model {
    /// Whether a test is tried on it.
    pub(crate) fn is_for(&self, test: &Test) -> bool {
        self.is_drawn() || (Part::of(test) == Part::Adapter) == (self.name == ADAPTER)
    }

    /// Whether what it can do is drawn from the seed. No defect is looked for on it: it may not have what is broken.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        self.config.profile == ProfileName::Any
    }

    /// The model for this test and this seed. Odd seeds make the other choices of the link layer, and go over IPv6; seed 0
    /// is the adapter as it is; every third device is found with an M_Key.
    pub(super) fn for_test(&self, test: &Test, seed: u64) -> VirtualConfig {
        let other = seed % 2 == 1;
        let mut model = self.config.clone();
        match Part::of(test) {
            Part::Agents => {
                if seed % 3 == 2 {
                    model.m_key = MKey(FOUND_KEY | seed);
                }
            }
            Part::Link => {
                model.link_choices = LinkChoices {
                    corrupts_and_forwards: other,
                    checks_icrc_in_transit: other,
                    forwards_short_packets: other,
                    takes_grh_on_vl15: other,
                };
            }
            Part::Adapter => {
                model.ipv6 = other;
                if seed == 0 && !self.is_drawn() {
                    model.seed = DeviceSeed::None;
                }
            }
        }
        model
    }
}
