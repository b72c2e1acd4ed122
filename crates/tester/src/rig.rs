//! The interface between a procedure and its rig. A single method sends and a single method receives, so all events
//! have a total order.

use core::time::Duration;

use core::net::IpAddr;

use verbatim_record::verbs::{Command, Event, Reply};
use verbatim_record::{Delimiter, Side, Span, Time};
use verbatim_wire::ether::MacAddress;
use verbatim_wire::{Lid, MKey, Mad, SubnetTimeout};

use crate::stop::{Step, Stop};
use crate::test::Need;

/// Number of a port of the rig. A rig with a single port has port 0.
pub type PortId = u32;

/// Something that a procedure can send.
#[derive(Clone, Copy, Debug)]
pub enum Stimulus<'a> {
    /// A MAD. A MAD of class 0x81 (directed route) follows the path in its header; other classes go to the DUT's LID.
    Mad(PortId, &'a Mad),
    /// A LID-routed SMP to the given LID.
    MadTo(PortId, Lid, &'a Mad),
    /// A native packet, from the LRH to the VCRC, and its end delimiter; sent unchanged.
    Packet(PortId, &'a [u8], Delimiter),
    /// A frame, from the first byte of its link-layer header; sent unchanged.
    Frame(PortId, &'a [u8]),
    /// A verbs command to the host of a device, and its number. The reply carries the same number.
    Verbs(Side, u32, &'a Command),
}

/// The result of a wait.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrival {
    /// A MAD arrived within the time span.
    Mad(PortId, Span, Mad),
    /// The kernel of the tester's host returned a request unanswered, with an error number.
    Returned(PortId, Span, Mad, i32),
    /// A frame arrived within the time span.
    Frame(PortId, Span, Vec<u8>),
    /// A native packet arrived within the time span.
    Packet(PortId, Span, Vec<u8>, Delimiter),
    /// A host replied to the verbs command with this number. The second span is on the clock of that host. Completions
    /// that existed when the host executed the command are delivered before the reply.
    Verbs(Side, u32, Span, Span, Reply),
    /// The host of a device reported an event. The second span is on the clock of that host.
    Told(Side, Span, Span, Event),
    /// The wait reached its deadline.
    Deadline,
    /// The procedure must stop. The rig delivers this once for each cause.
    Stop(Stop),
}

/// The environment in which a procedure runs: simulated, or with real ports. On a simulated rig, time passes only in
/// these methods.
pub trait Rig {
    /// Returns the present time of the rig.
    fn now(&self) -> Time;

    /// Sends a stimulus and returns the time of sending.
    ///
    /// # Errors
    /// [`Stop::RigGone`] when the port is lost.
    fn send(&mut self, what: Stimulus<'_>) -> Step<Span>;

    /// Waits for the next arrival, until the time `until` at the latest.
    fn wait(&mut self, until: Time) -> Arrival;

    /// Sets how long the tester waits for responses from now on. The rig must not give up a request before that time.
    fn answers_within(&mut self, _how_long: Duration) {}

    /// Marks the end of the procedure. After this call the tester only restores the device.
    ///
    /// # Errors
    /// [`Stop::Disturbed`] when the record is not reliable, [`Stop::RigGone`] when the port is lost.
    fn procedure_ended(&mut self) -> Step {
        Ok(())
    }
}

/// How MADs reach the DUT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// A directed route: the egress port of each hop. The route has at least one hop, because a device does not check
    /// the M_Key of an SMP without hops.
    Directed(Vec<u8>),
    /// LID routing, to the DUT's LID.
    Lid(Lid),
}

/// The tester's own Ethernet port. Its addresses belong to no kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramePort {
    /// MAC address.
    pub mac: MacAddress,
    /// IP address.
    pub ip: IpAddr,
    /// The DUT's IP address from the rig file. If `None`, the tester uses the DUT's first RoCE v2 GID of the same
    /// address family and scope.
    pub dut_ip: Option<IpAddr>,
}

/// Properties of a rig that a procedure and its judge need.
#[derive(Clone, PartialEq, Debug)]
pub struct RigInfo {
    /// Kind of the rig, an element of [`crate::KINDS`].
    pub kind: String,
    /// Needs that the rig fulfils.
    pub offers: Vec<Need>,
    /// How MADs reach the DUT.
    pub route: Route,
    /// The M_Key of the DUT from the rig file.
    pub key: MKey,
    /// Longest measured delay of a MAD in the tester's host.
    pub host_bound: Duration,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether a foreign SM manages the subnet, according to the rig file.
    pub shared_subnet: bool,
    /// Maximum number of outstanding MADs, 1..=64.
    pub window: usize,
    /// SubnetTimeOut from the rig file, for a subnet where no SM sets the port's own value.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// LID that each test assigns to a device without a LID or without a MasterSMLID.
    pub assign_lid: Option<Lid>,
    /// The tester's own Ethernet port, if it has one.
    pub frames: Option<FramePort>,
    /// Factor by which the device's clock runs slower than the tester's clock: the largest factor and, if the factor
    /// varies, the smallest. The rig's time assumes the largest factor.
    pub time_scale: (u32, Option<u32>),
    /// GID indices of the DUT and of the tester from the rig file. If `None`, the tester selects a RoCE v2 GID.
    pub gid_indices: (Option<u32>, Option<u32>),
    /// Parameters of the DUT from the rig file: names from [`crate::OF_DEVICE`] and values. They apply to each test
    /// that connects to the DUT.
    pub of_device: Vec<(String, u64)>,
}
