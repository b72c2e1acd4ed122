//! Sound models, and their variants by seed.

use verbatim_device::link::LinkChoices;
use verbatim_rig::{DeviceSeed, Disturbances, ProfileName, VirtualConfig};
use verbatim_tester::{Need, Test};
use verbatim_wire::MKey;

use super::defects::Part;

/// Name of the model for tests of the adapter.
const ADAPTER: &str = "adapter";
/// Name of the model for tests with two adapters on InfiniBand.
const PAIR: &str = "infiniband-pair";
/// Initial M_Key of devices; the seed is in the low bits.
const FOUND_KEY: u64 = 0x5EED_CA11_0B5E_0000;

/// A device model for qualification.
#[derive(Clone, Debug)]
pub struct Model {
    /// Name in reports.
    pub name: &'static str,
    /// Settings that do not depend on the seed.
    pub config: VirtualConfig,
}

/// Returns all sound models: devices of three profiles for tests of management and the link layer, an adapter, a pair
/// of adapters on InfiniBand, and a device for all tests. The seed selects the capabilities of the last device.
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
    models.push(model(PAIR, ProfileName::Full));
    models.push(model(ProfileName::Any.name(), ProfileName::Any));
    models
}

/// Returns the disturbances of a seed, for the rules of hardware. Some seeds have none, and some have all.
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
    /// Returns whether a test runs on this model.
    pub(crate) fn is_for(&self, test: &Test) -> bool {
        let needs = |need| test.needs.contains(&need);
        match self.name {
            _ if self.is_drawn() => true,
            ADAPTER => Part::of(test) == Part::Adapter && !needs(Need::NativePair),
            PAIR => needs(Need::Verbs) && !needs(Need::Packets),
            _ => Part::of(test) != Part::Adapter,
        }
    }

    /// Returns whether the seed selects the model's capabilities. Defects do not run on such a model, because it may
    /// lack the broken part.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        self.config.profile == ProfileName::Any
    }

    /// Returns the model for a test and a seed. For tests of management, every third seed gives the device an
    /// M_Key. For tests of the link, odd seeds select the other choices of the link layer. For tests of the
    /// adapter, odd seeds select IPv6, and seed 0 selects the unvaried adapter.
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
                model.infiniband = self.name == PAIR || self.is_drawn() && test.needs.contains(&Need::NativePair);
                model.ipv6 = other && !model.infiniband;
                if seed == 0 && !self.is_drawn() {
                    model.seed = DeviceSeed::None;
                }
            }
        }
        model
    }
}
