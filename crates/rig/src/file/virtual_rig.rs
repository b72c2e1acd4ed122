//! What the rig file says of rigs of kind `virtual`: which device model, and how it is reached and judged.

use core::time::Duration;
use std::str::FromStr;

use verbatim_device::link::{LinkChoices, LinkDefect};
use verbatim_device::rc::RcDefect;
use verbatim_device::{Defect, Profile};
use verbatim_record::Side;
use verbatim_sim::{Disturbance, VirtualRig};
use verbatim_wire::MKey;
use verbatim_wire::values::ProtectBits;

use super::hint;

/// The word for a device that no seed varies.
pub(super) const NO_SEED: &str = "none";

/// Names as people type them, and where each stands.
pub(super) type Names<T, const N: usize> = [(&'static str, fn(&mut T) -> &mut bool); N];

/// What the way between tester and device does.
pub(super) const DISTURBANCES: Names<Disturbances, 3> = [
    ("loses", |of| &mut of.loses),
    ("swaps", |of| &mut of.swaps),
    ("late", |of| &mut of.late),
];

/// The choices that the link layer leaves to an implementer.
pub(super) const LINK_CHOICES: Names<LinkChoices, 4> = [
    ("corrupts-and-forwards", |of| &mut of.corrupts_and_forwards),
    ("checks-icrc-in-transit", |of| &mut of.checks_icrc_in_transit),
    ("forwards-short-packets", |of| &mut of.forwards_short_packets),
    ("takes-grh-on-vl15", |of| &mut of.takes_grh_on_vl15),
];

/// What the way between tester and device does to frames and MADs, as a cable and a tester's host may.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbances {
    /// Two of a hundred are lost.
    pub loses: bool,
    /// Frames that come in within 20 us overtake one another in the tester's port, and their spans overlap.
    pub swaps: bool,
    /// Two of a hundred answers come when the tester has asked again.
    pub late: bool,
}

impl Disturbances {
    /// By the rules of hardware frames also take time, so that their spans say which was first.
    fn drawn(self, seed: u64, rules_of_hardware: bool) -> Disturbance {
        let share = |is: bool| if is { 20 } else { 0 };
        Disturbance {
            lost: share(self.loses),
            late: share(self.late),
            held: if self.swaps { HELD } else { Duration::ZERO },
            spacing: if rules_of_hardware { SPACING } else { Duration::ZERO },
            seed,
            ..Disturbance::default()
        }
    }
}

/// Time from frame to frame of a station: what 1250 bytes take at 10 Gb/s.
const SPACING: Duration = Duration::from_micros(1);
/// How long a port that swaps frames holds one.
const HELD: Duration = Duration::from_micros(20);

/// The names of those that are so.
pub(super) fn names<T: Copy, const N: usize>(of: T, all: &Names<T, N>) -> Vec<&'static str> {
    let mut of = of;
    let so = all.iter().filter(|(_, place)| *place(&mut of));
    so.map(|(name, _)| *name).collect()
}

/// Which device model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualConfig {
    /// What it can do.
    pub profile: ProfileName,
    /// Which device of that kind, and which adapter.
    pub seed: DeviceSeed,
    /// What its management agents do wrong.
    pub defects: Vec<Defect>,
    /// What its adapter does wrong.
    pub adapter_defects: Vec<RcDefect>,
    /// What the link layer of its ports does wrong.
    pub link_defects: Vec<LinkDefect>,
    /// What the link layer of its ports does where the architecture leaves a choice.
    pub link_choices: LinkChoices,
    /// What the way to it does.
    pub disturbance: Disturbances,
    /// Of 16 SMPs that many are answered with "busy", by chance; none: as the seed has it.
    pub busy: Option<u8>,
    /// Whether frames go over IPv6; else over IPv4.
    pub ipv6: bool,
    /// Whether it is judged by the rules that hold on hardware; else by those of simulated time.
    pub rules_of_hardware: bool,
    /// The M_Key that it is found with.
    pub m_key: MKey,
}

/// Which of the devices of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceSeed {
    /// The one of the run's seed.
    #[default]
    OfRun,
    /// The one of this seed.
    Is(u64),
    /// The profile as it is.
    None,
}

impl VirtualConfig {
    /// The names of all that it does wrong.
    #[must_use]
    pub fn defect_names(&self) -> Vec<&'static str> {
        let agents = self.defects.iter().map(|defect| defect.name());
        agents
            .chain(self.adapter_defects.iter().map(|defect| defect.name()))
            .chain(self.link_defects.iter().map(|defect| defect.name()))
            .collect()
    }

    /// The names of what it does where the link layer leaves a choice.
    #[must_use]
    pub fn link_choice_names(&self) -> Vec<&'static str> {
        names(self.link_choices, &LINK_CHOICES)
    }

    /// The names of what the way to it does.
    #[must_use]
    pub fn disturbance_names(&self) -> Vec<&'static str> {
        names(self.disturbance, &DISTURBANCES)
    }

    /// The seed that varies it; until the run is known, none where it is the run's.
    #[must_use]
    pub fn varied_by(&self) -> Option<u64> {
        match self.seed {
            DeviceSeed::Is(seed) => Some(seed),
            DeviceSeed::OfRun | DeviceSeed::None => None,
        }
    }

    /// The rig: a device as configured, its adapter varied by the same seed.
    #[must_use]
    pub fn rig(&self) -> VirtualRig {
        let adapter = VirtualRig::adapter_profile(Side::Dut);
        let adapter = match (self.profile, self.varied_by()) {
            (ProfileName::Any, seed) => adapter.any(seed.unwrap_or(0)),
            (ProfileName::ConnectX6, _) => adapter.connectx_6(false),
            (ProfileName::ConnectX6Conforming, _) => adapter.connectx_6(true),
            (ProfileName::SmallFpgaCore, _) => adapter.small_fpga_core(),
            (_, Some(seed)) => adapter.vary(seed),
            (_, None) => adapter,
        };
        let defects: Vec<Defect> = self.profile.defects().iter().chain(&self.defects).copied().collect();
        VirtualRig::new(self.profile(), &defects)
            .with_adapter(adapter, &self.adapter_defects)
            .with_link_defects(&self.link_defects)
            .with_link_choices(self.link_choices)
            .with_disturbance(
                self.disturbance
                    .drawn(self.varied_by().unwrap_or(0), self.rules_of_hardware),
            )
    }

    /// The profile, varied by the seed.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let mut profile = self.profile.profile(self.varied_by());
        profile.m_key = self.m_key;
        // Who has given it a key has given it a level too.
        if self.m_key != MKey(0) {
            profile.protect_bits = ProtectBits((self.varied_by().unwrap_or(0) & 3) as u8);
        }
        profile.choices.busy = self.busy.unwrap_or(profile.choices.busy);
        profile
    }
}

/// A profile of the device model, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProfileName {
    /// [`Profile::minimal`].
    Minimal,
    /// [`Profile::full`].
    #[default]
    Full,
    /// [`Profile::one_data_vl`].
    OneDataVl,
    /// [`Profile::any`] of the seed; without one, of seed 0.
    Any,
    /// ConnectX-6 at its defaults, by its published figures.
    ConnectX6,
    /// ConnectX-6 without the floor of its ACK timeout and without adaptive retransmission.
    ConnectX6Conforming,
    /// QLogic 7322 with the driver qib.
    Qib,
    /// A small RoCE core in an FPGA.
    SmallFpgaCore,
}

impl ProfileName {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Minimal,
        Self::Full,
        Self::OneDataVl,
        Self::Any,
        Self::ConnectX6,
        Self::ConnectX6Conforming,
        Self::Qib,
        Self::SmallFpgaCore,
    ];

    /// As people type it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Full => "full",
            Self::OneDataVl => "one-data-vl",
            Self::Any => "any",
            Self::ConnectX6 => "connectx-6",
            Self::ConnectX6Conforming => "connectx-6-conforming",
            Self::Qib => "qib",
            Self::SmallFpgaCore => "small-fpga-core",
        }
    }

    /// Known deviations of devices of this kind.
    fn defects(self) -> &'static [Defect] {
        match self {
            // Its answers begin as a copy of the request.
            Self::Qib => &[Defect::ResponseReservedEchoed],
            _ => &[],
        }
    }

    /// The profile, varied by the seed if there is one.
    #[must_use]
    pub fn profile(self, seed: Option<u64>) -> Profile {
        let profile = match self {
            Self::Minimal => Profile::minimal(),
            Self::Full => Profile::full(),
            Self::OneDataVl => Profile::one_data_vl(),
            Self::Any => return Profile::any(seed.unwrap_or(0)),
            // Silicon as sold does not vary.
            Self::ConnectX6 | Self::ConnectX6Conforming => return Profile::connectx_6(),
            Self::Qib => return Profile::qib(),
            Self::SmallFpgaCore => return Profile::minimal(),
        };
        match seed {
            Some(seed) => profile.vary(seed),
            None => profile,
        }
    }
}

impl FromStr for ProfileName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("no profile is called {name:?}{}", hint::hint(name, &names))
        })
    }
}
