//! What a test is: a procedure, a judge, and what both are about.

use verbatim_record::{Findings, Gap, OUT_OF_ORDER, Trace};

use crate::stop::Step;
use crate::tester::Tester;

/// Stimulates the device and records; never concludes.
pub type Procedure = fn(&mut Tester<'_>) -> Step;
/// States checks from the record; a pure function.
pub type Judge = fn(&Trace, &mut Findings<'_>) -> Result<(), Gap>;

/// What a test needs of its rig.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// To send MADs to the DUT.
    Mad,
    /// To send LID-routed SMPs to any LID, not the DUT's alone.
    AnyLid,
    /// A native link on which the tester makes bytes and delimiters itself.
    Link,
    /// A subnet without an SM of somebody else.
    OwnSubnet,
    /// Counters of the DUT that may be written: they go on by themselves, and no journal gives them back.
    Counters,
    /// A second port of the rig, cabled to a second port of the DUT.
    SecondPort,
    /// Frames of our own making, and an agent on the DUT's host.
    Packets,
    /// An adapter of the tester's own, and an agent on the DUT's host.
    Verbs,
}

/// The kinds of rig, as a rig file has them.
pub const KINDS: [&str; 5] = ["virtual", "model", "umad", "packet", "verbs"];

impl Need {
    /// The kinds of rig that can have it.
    #[must_use]
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Mad | Self::OwnSubnet | Self::Counters => &["virtual", "model", "umad"],
            Self::AnyLid => &["virtual", "umad"],
            Self::Link | Self::SecondPort => &["virtual"],
            Self::Packets => &["virtual", "packet"],
            Self::Verbs => &["virtual", "verbs"],
        }
    }

    /// The need in words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Mad => "a port that sends MADs (kind virtual, model or umad)",
            Self::AnyLid => "a port that sends MADs to any LID (kind virtual or umad)",
            Self::Link => "a native link on which the tester makes bytes and delimiters itself (kind virtual)",
            Self::OwnSubnet => "a subnet without an SM of somebody else",
            Self::Counters => "counters of the DUT that may be written (write_counters = true in the rig file)",
            Self::SecondPort => "a second port, cabled to a second port of the DUT (kind virtual)",
            Self::Packets => "an Ethernet port that sends packets of our own making (kind virtual or packet)",
            Self::Verbs => "an adapter of the tester's own (kind virtual or verbs)",
        }
    }
}

/// A typed parameter of a test, set by `--set name=value` and kept in the record.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, the unit last: `wait_s`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Smallest and largest value.
    pub range: (u64, u64),
    /// Its value on a simulated rig, where waiting costs nothing.
    pub simulated: u64,
    /// Its value on hardware.
    pub default: u64,
}

/// The least local ACK timeout that the device keeps to.
pub const ACK_TIMEOUT_LEAST: &str = "dut_ack_timeout_least";

/// Parameters of a device that hold in each test of its connections, by `--set` or by the rig file.
pub static OF_DEVICE: [Parameter; 2] = [
    Parameter {
        name: ACK_TIMEOUT_LEAST,
        about: "the least local ACK timeout that the DUT keeps to, as a code: none shorter is given to it; 0: any",
        range: (0, 31),
        simulated: 0,
        default: 0,
    },
    Parameter {
        name: OUT_OF_ORDER,
        about: "1: the DUT may put data into memory ahead of its turn (adaptive routing); 0: it may not",
        range: (0, 1),
        simulated: 0,
        default: 0,
    },
];

/// One test of the catalogue.
#[derive(Debug)]
pub struct Test {
    /// Statement first, then what it shows: `c14-016-get-protect-2`.
    pub id: &'static str,
    /// Names in public test suites.
    pub aliases: &'static [&'static str],
    /// Another set of labels is another revision.
    pub revision: u32,
    /// What a correct device does, in a sentence.
    pub about: &'static str,
    /// How unclear steps are read, and where a false alarm could come from.
    pub reading: &'static str,
    /// The statements that it judges.
    pub statements: &'static [&'static str],
    /// What it needs of the rig.
    pub needs: &'static [Need],
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// The procedure.
    pub procedure: Procedure,
    /// The judge.
    pub judge: Judge,
}

impl Test {
    /// Whether it works with the management agents of the device alone: no packets of our own making, no other LID.
    #[must_use]
    pub fn is_of_management(&self) -> bool {
        let others = [Need::AnyLid, Need::Link, Need::Packets, Need::Verbs];
        self.needs.contains(&Need::Mad) && !others.iter().any(|need| self.needs.contains(need))
    }

    /// All its parameters: its own, and of the device those that hold in tests of connections.
    pub fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        let connects = self.needs.contains(&Need::Packets) || self.needs.contains(&Need::Verbs);
        self.parameters
            .iter()
            .chain(if connects { &OF_DEVICE[..] } else { &[] })
    }

    /// A procedure that claims nothing: for what drives a device as a test does and is none, as reading it and putting it
    /// back.
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
