//! The seam between a procedure and what it runs on: one door out, one door in, hence one order of events.

use core::time::Duration;

use core::net::IpAddr;

use verbatim_record::verbs::{Command, Event, Reply};
use verbatim_record::{Delimiter, Side, Span, Time};
use verbatim_wire::ether::MacAddress;
use verbatim_wire::{Lid, MKey, Mad, SubnetTimeout};

use crate::stop::{Step, Stop};
use crate::test::Need;

/// A port of the rig: 0 for the tester's only one.
pub type PortId = u32;

/// What can be sent.
#[derive(Clone, Copy, Debug)]
pub enum Stimulus<'a> {
    /// A MAD. Its class says how it travels: 0x81 along its own path, others to the DUT's LID.
    Mad(PortId, &'a Mad),
    /// A LID-routed SMP to any LID, be it the DUT's or not.
    MadTo(PortId, Lid, &'a Mad),
    /// A native packet, from the LRH to the VCRC, and what ends it; sent as it stands.
    Packet(PortId, &'a [u8], Delimiter),
    /// A frame, from the first byte of its link's header; sent as it stands.
    Frame(PortId, &'a [u8]),
    /// A verbs command to the host of a device; its number comes back with the answer.
    Verbs(Side, u32, &'a Command),
}

/// What can come of waiting.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrival {
    /// A MAD came in, with the instant bounded.
    Mad(PortId, Span, Mad),
    /// The host gave a MAD back unanswered, with its error number.
    Returned(PortId, Span, Mad, i32),
    /// A frame came in, with the instant bounded.
    Frame(PortId, Span, Vec<u8>),
    /// A native packet came in, with the instant bounded.
    Packet(PortId, Span, Vec<u8>, Delimiter),
    /// A verbs command was answered; the second span is on the clock of that host. Completions that were there when the
    /// command was done arrive before it.
    Verbs(Side, u32, Span, Span, Reply),
    /// The host of a device told of something; the second span is on the clock of that host.
    Told(Side, Span, Span, Event),
    /// The instant waited for is here.
    Deadline,
    /// The procedure must stop. Delivered once for each cause.
    Stop(Stop),
}

/// Where a procedure runs: simulated, or real ports. The only place in which time passes.
pub trait Rig {
    /// Now, in the rig's time.
    fn now(&self) -> Time;

    /// Sends, and says when it left.
    ///
    /// # Errors
    /// [`Stop::RigGone`] when the port is gone.
    fn send(&mut self, what: Stimulus<'_>) -> Step<Span>;

    /// Waits for the next arrival, until an instant at the latest.
    fn wait(&mut self, until: Time) -> Arrival;

    /// How long answers to what is sent from now on are waited for: no host may give a request up sooner.
    fn answers_within(&mut self, _how_long: Duration) {}

    /// The procedure is over, and nobody waits for answers to what it sent; what follows restores.
    ///
    /// # Errors
    /// [`Stop::Disturbed`] when the record cannot be relied on, [`Stop::RigGone`] when the port is gone.
    fn procedure_ended(&mut self) -> Step {
        Ok(())
    }
}

/// How MADs reach the DUT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// A directed route: the ports to leave by, at least one hop, or the M_Key is not checked.
    Directed(Vec<u8>),
    /// The DUT's LID.
    Lid(Lid),
}

/// The tester's own Ethernet port: its addresses belong to no kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramePort {
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its IP address.
    pub ip: IpAddr,
    /// The DUT's IP address by the rig file; else the first of its RoCE v2 GIDs of the same family.
    pub dut_ip: Option<IpAddr>,
}

/// What a rig is, as far as a procedure and its judge need to know.
#[derive(Clone, PartialEq, Debug)]
pub struct RigInfo {
    /// Its kind: "virtual", "umad", "model".
    pub kind: String,
    /// What it offers.
    pub offers: Vec<Need>,
    /// How MADs reach the DUT.
    pub route: Route,
    /// The M_Key that the rig file gives for the DUT.
    pub key: MKey,
    /// How long our own host may hold up a MAD, as measured.
    pub host_bound: Duration,
    /// Whether time is simulated.
    pub simulated: bool,
    /// Whether the rig file says that an SM of somebody else shares the subnet.
    pub shared_subnet: bool,
    /// MADs that may be outstanding at once, 1..=64.
    pub window: usize,
    /// SubnetTimeOut by the rig file, where no SM sets the port's own.
    pub subnet_timeout: Option<SubnetTimeout>,
    /// The LID that the device is given for each test when it is found without one or without an SM.
    pub assign_lid: Option<Lid>,
    /// The tester's own Ethernet port, if it has one.
    pub frames: Option<FramePort>,
    /// How many times slower than our own clock the device's runs, at most and, where that varies, at least: the rig's time
    /// is the device's, were it as slow as at most.
    pub time_scale: (u32, Option<u32>),
    /// GID indices by the rig file: the DUT's, the tester's; else the first RoCE v2 GID that fits, or the first at all.
    pub gid_indices: (Option<u32>, Option<u32>),
    /// Parameters of the DUT from the rig file that hold in each test of its connections, by the names of
    /// [`crate::OF_DEVICE`].
    pub of_device: Vec<(String, u64)>,
}
