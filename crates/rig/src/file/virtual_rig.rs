//! Settings of rigs of kind `virtual`: the device model, its connection, and the rules that apply.

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

/// The value of `seed` for the unvaried profile.
pub(super) const NO_SEED: &str = "none";

/// Names in the rig file, each with the field that it sets.
pub(super) type Names<T, const N: usize> = [(&'static str, fn(&mut T) -> &mut bool); N];

/// Names of the disturbances.
pub(super) const DISTURBANCES: Names<Disturbances, 3> = [
    ("loses", |of| &mut of.loses),
    ("swaps", |of| &mut of.swaps),
    ("late", |of| &mut of.late),
];

/// Names of the choices that the architecture leaves to a link layer.
pub(super) const LINK_CHOICES: Names<LinkChoices, 4> = [
    ("corrupts-and-forwards", |of| &mut of.corrupts_and_forwards),
    ("checks-icrc-in-transit", |of| &mut of.checks_icrc_in_transit),
    ("forwards-short-packets", |of| &mut of.forwards_short_packets),
    ("takes-grh-on-vl15", |of| &mut of.takes_grh_on_vl15),
];

/// Disturbances between tester and device, as a cable and a tester's host may cause them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disturbances {
    /// 2 % of the packets are lost.
    pub loses: bool,
    /// Frames that arrive within 20 us of each other overtake each other in the tester's port, and their spans overlap.
    pub swaps: bool,
    /// 2 % of the responses arrive after the tester has sent the request again.
    pub late: bool,
}

impl Disturbances {
    /// Returns the disturbance for a seed. With the rules of hardware, the frames of a station also have a minimum
    /// distance in time, so that their spans show their order.
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

/// Time between two frames of a station: 1250 bytes at 10 Gb/s.
const SPACING: Duration = Duration::from_micros(1);
/// Time for which a port that swaps frames holds back a frame.
const HELD: Duration = Duration::from_micros(20);

/// Returns the names of the fields that are set.
pub(super) fn names<T: Copy, const N: usize>(of: T, all: &Names<T, N>) -> Vec<&'static str> {
    let mut of = of;
    let so = all.iter().filter(|(_, place)| *place(&mut of));
    so.map(|(name, _)| *name).collect()
}

/// Settings of a device model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualConfig {
    /// Capabilities of the device.
    pub profile: ProfileName,
    /// Seed that varies the device and its adapter.
    pub seed: DeviceSeed,
    /// Defects of the device's management agents.
    pub defects: Vec<Defect>,
    /// Defects of the device's adapter.
    pub adapter_defects: Vec<RcDefect>,
    /// Defects of the link layer of the device's ports.
    pub link_defects: Vec<LinkDefect>,
    /// The link layer's behavior where the architecture leaves a choice.
    pub link_choices: LinkChoices,
    /// Disturbances between tester and device.
    pub disturbance: Disturbances,
    /// How many of 16 SMPs get a response with the status "busy", at random; None if the seed decides.
    pub busy: Option<u8>,
    /// Whether the adapters of tester and device are on InfiniBand; else on Ethernet.
    pub infiniband: bool,
    /// Whether frames use IPv6; else IPv4.
    pub ipv6: bool,
    /// Whether the rules for hardware apply; else those for simulated time.
    pub rules_of_hardware: bool,
    /// The M_Key of the device at the start of a test.
    pub m_key: MKey,
}

/// The seed that varies a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceSeed {
    /// The seed of the run.
    #[default]
    OfRun,
    /// This seed.
    Is(u64),
    /// No seed: the unvaried profile.
    None,
}

impl VirtualConfig {
    /// Returns the names of all defects.
    #[must_use]
    pub fn defect_names(&self) -> Vec<&'static str> {
        let agents = self.defects.iter().map(|defect| defect.name());
        agents
            .chain(self.adapter_defects.iter().map(|defect| defect.name()))
            .chain(self.link_defects.iter().map(|defect| defect.name()))
            .collect()
    }

    /// Returns the names of the link layer's choices.
    #[must_use]
    pub fn link_choice_names(&self) -> Vec<&'static str> {
        names(self.link_choices, &LINK_CHOICES)
    }

    /// Returns the names of the disturbances.
    #[must_use]
    pub fn disturbance_names(&self) -> Vec<&'static str> {
        names(self.disturbance, &DISTURBANCES)
    }

    /// Returns the seed that varies the device. Returns None for the unvaried profile, and before
    /// `RigConfig::in_run` has set the seed of the run.
    #[must_use]
    pub fn varied_by(&self) -> Option<u64> {
        match self.seed {
            DeviceSeed::Is(seed) => Some(seed),
            DeviceSeed::OfRun | DeviceSeed::None => None,
        }
    }

    /// Creates the virtual rig. The same seed varies the device and its adapter.
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
        let rig = VirtualRig::new(self.profile(), &defects)
            .with_adapter(adapter, &self.adapter_defects)
            .with_link_defects(&self.link_defects)
            .with_link_choices(self.link_choices)
            .with_disturbance(
                self.disturbance
                    .drawn(self.varied_by().unwrap_or(0), self.rules_of_hardware),
            );
        if self.infiniband { rig.on_infiniband() } else { rig }
    }

    /// Returns the device's profile, varied by the seed.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let mut profile = self.profile.profile(self.varied_by());
        profile.m_key = self.m_key;
        // A device with an M_Key also gets protection bits.
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
    /// The profile [`Profile::minimal`].
    Minimal,
    /// The profile [`Profile::full`].
    #[default]
    Full,
    /// The profile [`Profile::one_data_vl`].
    OneDataVl,
    /// The profile [`Profile::any`] of the seed, or of seed 0 if there is no seed.
    Any,
    /// ConnectX-6 with its default settings, from its published data.
    ConnectX6,
    /// ConnectX-6 without its lower limit of the ACK timeout and without adaptive retransmission.
    ConnectX6Conforming,
    /// QLogic 7322 with the driver qib.
    Qib,
    /// A small RoCE core in an FPGA.
    SmallFpgaCore,
}

impl ProfileName {
    /// All profile names.
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

    /// Returns the value of `profile` in the rig file.
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

    /// Returns the known deviations of devices with this profile.
    fn defects(self) -> &'static [Defect] {
        match self {
            // The device builds its responses from a copy of the request, and so echoes reserved fields.
            Self::Qib => &[Defect::ResponseReservedEchoed],
            _ => &[],
        }
    }

    /// Returns the profile, varied by the seed if there is one. The seed never varies the profile of a real device.
    #[must_use]
    pub fn profile(self, seed: Option<u64>) -> Profile {
        let profile = match self {
            Self::Minimal => Profile::minimal(),
            Self::Full => Profile::full(),
            Self::OneDataVl => Profile::one_data_vl(),
            Self::Any => return Profile::any(seed.unwrap_or(0)),
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
