//! The definition of a test: a procedure, a judge, and their descriptions.

use verbatim_record::{Findings, Gap, OUT_OF_ORDER, Trace};

use crate::stop::Step;
use crate::tester::Tester;

/// A function that sends stimuli to the device and records all events. It draws no conclusions.
pub type Procedure = fn(&mut Tester<'_>) -> Step;
/// A pure function that derives the findings of a test from its record.
pub type Judge = fn(&Trace, &mut Findings<'_>) -> Result<(), Gap>;

/// A requirement of a test on its rig.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// The rig can send MADs to the DUT.
    Mad,
    /// The rig can send LID-routed SMPs to any LID.
    AnyLid,
    /// The rig has a native InfiniBand link on which the tester makes bytes and delimiters itself.
    Link,
    /// The subnet has no foreign SM.
    OwnSubnet,
    /// The rig file permits writes to the DUT's counters. No journal restores counters, because they advance by
    /// themselves.
    Counters,
    /// The rig file permits tests that may crash the DUT's host.
    Crash,
    /// The rig has a second port, cabled to a second port of the DUT.
    SecondPort,
    /// The tester can send frames that it makes itself, and the DUT's host runs an agent.
    Packets,
    /// The tester has an adapter of its own, and the DUT's host runs an agent.
    Verbs,
    /// Both adapters are on one InfiniBand link, and the rig can send MADs to both ports.
    NativePair,
}

/// The kinds of rig in a rig file.
pub const KINDS: [&str; 5] = ["virtual", "model", "umad", "packet", "verbs"];

impl Need {
    /// Returns the kinds of rig that can fulfil the need.
    #[must_use]
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Mad | Self::OwnSubnet | Self::Counters => &["virtual", "model", "umad"],
            Self::AnyLid => &["virtual", "umad"],
            Self::Link | Self::SecondPort => &["virtual"],
            Self::Packets | Self::Crash => &["virtual", "packet"],
            Self::Verbs => &["virtual", "umad", "verbs"],
            Self::NativePair => &["virtual", "umad"],
        }
    }

    /// Returns the need in words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Mad => "a port that sends MADs (kind virtual, model or umad)",
            Self::AnyLid => "a port that sends MADs to any LID (kind virtual or umad)",
            Self::Link => "a native link on which the tester builds bytes and delimiters itself (kind virtual)",
            Self::OwnSubnet => "a subnet without another subnet manager",
            Self::Counters => "permission to write the DUT's counters (write_counters = true in the rig file)",
            Self::Crash => "permission to crash the DUT's host (may_crash = true in the rig file)",
            Self::SecondPort => "a second port, cabled to a second port of the DUT (kind virtual)",
            Self::Packets => "an Ethernet port that sends packets built by the tester (kind virtual or packet)",
            Self::Verbs => "an adapter of the tester's own (kind virtual or verbs, or kind umad with verbs = true)",
            Self::NativePair => {
                "two adapters on InfiniBand, with MADs and verbs (rig virtual-ib, or kind umad with verbs = true)"
            }
        }
    }
}

/// A typed parameter of a test, set by `--set name=value` and stored in the record.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name, with the unit last: `wait_s`.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Smallest and largest value.
    pub range: (u64, u64),
    /// Default value on a simulated rig, where waiting takes no real time.
    pub simulated: u64,
    /// Default value on hardware.
    pub default: u64,
}

/// Name of the parameter for the shortest local ACK timeout, as a code, that the device implements.
pub const ACK_TIMEOUT_LEAST: &str = "dut_ack_timeout_least";

/// Parameters of the DUT that apply to each test that connects to it. `--set` or the rig file sets them.
pub static OF_DEVICE: [Parameter; 2] = [
    Parameter {
        name: ACK_TIMEOUT_LEAST,
        about: "the shortest local ACK timeout that the DUT supports, as a code: tests set no shorter one; 0: no limit",
        range: (0, 31),
        simulated: 0,
        default: 0,
    },
    Parameter {
        name: OUT_OF_ORDER,
        about: "1: the DUT may write data to memory out of order (adaptive routing); 0: it may not",
        range: (0, 1),
        simulated: 0,
        default: 0,
    },
];

/// One test of the catalogue.
#[derive(Debug)]
pub struct Test {
    /// Identifier: the compliance statement, then the tested behaviour, as in `c14-016-get-protect-2`.
    pub id: &'static str,
    /// Names in public test suites.
    pub aliases: &'static [&'static str],
    /// Revision. A change of the test's labels requires a new revision.
    pub revision: u32,
    /// A sentence that describes the behaviour of a conforming device.
    pub about: &'static str,
    /// How the judge interprets unclear outcomes, and possible causes of a false alarm.
    pub reading: &'static str,
    /// The compliance statements that the test judges.
    pub statements: &'static [&'static str],
    /// Requirements on the rig.
    pub needs: &'static [Need],
    /// Parameters of this test alone.
    pub parameters: &'static [Parameter],
    /// The procedure.
    pub procedure: Procedure,
    /// The judge.
    pub judge: Judge,
}

impl Test {
    /// Whether the test uses only the management agents of the device, without tester-made packets, verbs, or other
    /// LIDs.
    #[must_use]
    pub fn is_of_management(&self) -> bool {
        let others = [Need::AnyLid, Need::Link, Need::Packets, Need::Verbs];
        self.needs.contains(&Need::Mad) && !others.iter().any(|need| self.needs.contains(need))
    }

    /// Returns words that name the needs of the test that `offers` lacks, or `None` if it lacks none.
    #[must_use]
    pub fn missing(&self, offers: &[Need]) -> Option<String> {
        let missing = self.needs.iter().filter(|need| !offers.contains(need));
        let missing: Vec<_> = missing.map(|need| need.about()).collect();
        (!missing.is_empty()).then(|| format!("the rig does not offer {}", missing.join(", nor ")))
    }

    /// Returns all parameters: the test's own, and also [`OF_DEVICE`] for a test that connects to the DUT.
    pub fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        let connects = self.needs.contains(&Need::Packets) || self.needs.contains(&Need::Verbs);
        self.parameters
            .iter()
            .chain(if connects { &OF_DEVICE[..] } else { &[] })
    }

    /// Makes a test that checks nothing. Use it for an operation that drives a device like a test, such as reading or
    /// restoring it.
    #[must_use]
    pub const fn of(id: &'static str, procedure: Procedure) -> Self {
        Self {
            id,
            aliases: &[],
            revision: 1,
            about: "",
            reading: "",
            statements: &[],
            needs: &[],
            parameters: &[],
            procedure,
            judge: |_, _| Ok(()),
        }
    }
}
