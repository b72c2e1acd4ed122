//! Where an agent listens, and what it takes to be let in.

use core::fmt;
use core::net::SocketAddr;
use std::path::PathBuf;

use crate::tls::ClientFiles;

/// Where an agent listens, and the certificates for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentAddress {
    /// Where.
    pub place: Place,
    /// For a TCP address; an agent takes no others from another host.
    pub tls: Option<AgentTls>,
}

/// Where an agent listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A unix socket of this host.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

/// The certificates for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentTls {
    /// Our certificate and key, and the CA of the agent's.
    pub files: ClientFiles,
    /// The name or address that the agent's certificate must be made for; the address that it is connected by when
    /// absent.
    pub server_name: Option<String>,
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp(address) => address.fmt(f),
        }
    }
}
