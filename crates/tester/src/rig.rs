//! The interface between a procedure and its rig: one method sends and one method receives, so all events have one
//! order.

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
    /// A MAD. A MAD of class 0x81 (directed route) takes its own path; other classes go to the DUT's LID.
    Mad(PortId, &'a Mad),
    /// A LID-routed SMP to any LID, the DUT's or another.
    MadTo(PortId, Lid, &'a Mad),
    /// A native packet, from the LRH to the VCRC, and its end delimiter; sent unchanged.
    Packet(PortId, &'a [u8], Delimiter),
    /// A frame, from the first byte of its link-layer header; sent unchanged.
    Frame(PortId, &'a [u8]),
    /// A verbs command to the host of a device, and a number that comes back with the reply.
    Verbs(Side, u32, &'a Command),
}

/// The result of a wait.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrival {
    /// A MAD arrived within the time span.
    Mad(PortId, Span, Mad),
    /// The host returned a request unanswered, with its error number.
    Returned(PortId, Span, Mad, i32),
    /// A frame arrived within the time span.
    Frame(PortId, Span, Vec<u8>),
    /// A native packet arrived within the time span.
    Packet(PortId, Span, Vec<u8>, Delimiter),
    /// A host replied to a verbs command, identified by its number. The second span is on the clock of that host.
    /// Completions that existed when the host executed the command arrive before the reply.
    Verbs(Side, u32, Span, Span, Reply),
    /// The host of a device reported an event. The second span is on the clock of that host.
    Told(Side, Span, Span, Event),
    /// The wait reached its end.
    Deadline,
    /// The procedure must stop. The rig delivers this once for each cause.
    Stop(Stop),
}

/// The place where a procedure runs: simulated, or on real ports. Time passes only in its methods.
pub trait Rig {
    /// Returns the present time of the rig.
    fn now(&self) -> Time;

    /// Sends a stimulus and returns when it left.
    ///
    /// # Errors
    /// [`Stop::RigGone`] when the port is lost.
    fn send(&mut self, what: Stimulus<'_>) -> Step<Span>;

    /// Waits for the next arrival, until the time `until` at the latest.
    fn wait(&mut self, until: Time) -> Arrival;

    /// Sets how long the tester waits for responses from now on. A host must not give up a request sooner.
    fn answers_within(&mut self, _how_long: Duration) {}

    /// Marks the end of the procedure: the tester no longer waits for responses to its requests, and only restores.
    ///
    /// # Errors
    /// [`Stop::Disturbed`] when the record is not reliable, [`Stop::RigGone`] when the port is lost.
    fn procedure_ended(&mut self) -> Step {
        Ok(())
    }
}

/// The way of MADs to the DUT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// A directed route: the ports to leave by. It has at least one hop, since without a hop the M_Key is not checked.
    Directed(Vec<u8>),
    /// LID routing, to the DUT's LID.
    Lid(Lid),
}

/// The tester's own Ethernet port. No kernel owns its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramePort {
    /// MAC address.
    pub mac: MacAddress,
    /// IP address.
    pub ip: IpAddr,
    /// The DUT's IP address from the rig file. If `None`, its first RoCE v2 GID of the same address family is used.
    pub dut_ip: Option<IpAddr>,
}

/// Properties of a rig that a procedure and its judge need.
#[derive(Clone, PartialEq, Debug)]
pub struct RigInfo {
    /// Kind of the rig, as in [`crate::KINDS`].
    pub kind: String,
    /// Needs that the rig fulfils.
    pub offers: Vec<Need>,
    /// The way of MADs to the DUT.
    pub route: Route,
    /// The M_Key of the DUT from the rig file.
    pub key: MKey,
    /// Longest delay of a MAD in our own host, as measured.
    pub host_bound: Duration,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether, according to the rig file, an SM of another party shares the subnet.
    pub shared_subnet: bool,
    /// MADs that may be outstanding at once, 1..=64.
    pub window: usize,
    /// SubnetTimeOut from the rig file, for a subnet where no SM sets the port's own value.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// LID that each test assigns to a device that is found without a LID or without an SM's LID.
    pub assign_lid: Option<Lid>,
    /// The tester's own Ethernet port, if it has one.
    pub frames: Option<FramePort>,
    /// How many times slower than our clock the device's clock runs: the largest factor and, if it varies, the
    /// smallest. The rig's time assumes the largest factor.
    pub time_scale: (u32, Option<u32>),
    /// GID indices of the DUT and of the tester from the rig file. If `None`, the first RoCE v2 GID that fits is used,
    /// or else the first RoCE v2 GID.
    pub gid_indices: (Option<u32>, Option<u32>),
    /// Parameters of the DUT from the rig file, by the names of [`crate::OF_DEVICE`]. They apply to each test of its
    /// connections.
    pub of_device: Vec<(String, u64)>,
}
