//! What the rig file says of rigs without MADs: the tester's own port, and the agent on the DUT's host.

use core::fmt;
use core::net::IpAddr;
use std::path::PathBuf;

use verbatim_wire::ether::MacAddress;

use verbatim_verbs::AgentAddress;

/// A rig of kind `packet`: frames of our own making, and verbs on the DUT's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// What carries the frames.
    pub wire: Wire,
    /// The tester's own MAC address; none for that of the interface.
    pub mac: Option<MacAddress>,
    /// The tester's own IP address, which no kernel has.
    pub ip: IpAddr,
    /// The DUT's IP address; none for the first of its RoCE v2 GIDs that fits.
    pub dut_ip: Option<IpAddr>,
    /// Index of the DUT's GID; none for the one of its IP address.
    pub dut_gid_index: Option<u32>,
    /// The agent on the DUT's host.
    pub agent: AgentConfig,
}

/// What carries frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wire {
    /// An Ethernet interface of this host, by its name.
    Interface(String),
    /// A pair of unix datagram sockets, a frame a datagram.
    Socket {
        /// The socket that we make.
        local: PathBuf,
        /// The socket that the machine makes.
        remote: PathBuf,
    },
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::Socket { local, .. } => write!(f, "socket {}", local.display()),
        }
    }
}

/// A rig of kind `verbs`: verbs on both hosts, between two adapters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsConfig {
    /// The tester's own adapter.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// Index of the tester's GID; none for the first RoCE v2 one that fits.
    pub gid_index: Option<u32>,
    /// The same of the DUT's.
    pub dut_gid_index: Option<u32>,
    /// The agent on the DUT's host.
    pub agent: AgentConfig,
}

/// The agent on the DUT's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentConfig {
    /// Where it listens, and the certificates for it.
    pub address: AgentAddress,
    /// The device that it must have open; none for any.
    pub device: Option<String>,
}
