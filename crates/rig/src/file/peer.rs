//! Settings of rigs without MADs: the tester's own port, and the agent on the DUT's host.

use core::fmt;
use core::net::IpAddr;
use std::path::PathBuf;

use verbatim_wire::ether::MacAddress;

use verbatim_verbs::AgentAddress;

/// A rig of kind `packet`: raw frames from the tester, and verbs on the DUT's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Carrier of the frames.
    pub wire: Wire,
    /// The tester's MAC address; None for that of the interface.
    pub mac: Option<MacAddress>,
    /// The tester's IP address, which no host may have configured.
    pub ip: IpAddr,
    /// The DUT's IP address; None for the first of its RoCE v2 GIDs that fits.
    pub dut_ip: Option<IpAddr>,
    /// Index of the DUT's GID; None for the GID of its IP address.
    pub dut_gid_index: Option<u32>,
    /// The agent on the DUT's host.
    pub agent: AgentConfig,
}

/// A carrier of frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wire {
    /// An Ethernet interface of this host, by its name.
    Interface(String),
    /// A pair of unix datagram sockets, with one frame per datagram.
    Socket {
        /// Path of the socket that the tester creates.
        local: PathBuf,
        /// Path of the socket that the device's machine creates.
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

/// A rig of kind `verbs`: verbs on both hosts, between two RDMA devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerbsConfig {
    /// Name of the tester's RDMA device.
    pub device: String,
    /// Port number of the tester's device.
    pub port: u8,
    /// Index of the tester's GID; None for the first RoCE v2 GID that fits.
    pub gid_index: Option<u32>,
    /// Index of the DUT's GID; None for the first RoCE v2 GID that fits.
    pub dut_gid_index: Option<u32>,
    /// The agent on the DUT's host.
    pub agent: AgentConfig,
}

/// The agent on the DUT's host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentConfig {
    /// Address that the agent listens on, and the certificates for it.
    pub address: AgentAddress,
    /// The RDMA device that the agent must offer; None for any.
    pub device: Option<String>,
}
