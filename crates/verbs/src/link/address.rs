//! Address of an agent, and the certificates for connecting to it.

use core::fmt;
use core::net::SocketAddr;
use std::path::PathBuf;

use crate::tls::ClientFiles;

/// Address of an agent, and the certificates for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentAddress {
    /// The place where the agent listens.
    pub place: Place,
    /// Certificates, for a TCP address. An agent accepts TCP connections from another host only with certificates.
    pub tls: Option<AgentTls>,
}

/// The place where an agent listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A unix socket of this host.
    Unix(PathBuf),
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A host name and a port. The name is resolved anew for each connection. The name identifies the agent, so the
    /// address may change.
    Named {
        /// The name, in lower case and without a final dot, because other spellings denote the same name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Place {
    /// Parses a name and a port, such as `dut-host.example:7000`. Returns `None` if the text is malformed or resembles
    /// an IP address.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_of_letters = |label: &str| {
            let is_ldh = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
            (1..=63).contains(&label.len())
                && label.bytes().all(is_ldh)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A last label of digits means a mistyped IP address. A resolver could take it for a different address.
        let last = host.rsplit('.').next()?;
        if host.len() > 253 || !host.split('.').all(is_of_letters) || last.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let digits = port.bytes().all(|c| c.is_ascii_digit());
        let port: u16 = port.parse().ok().filter(|&port| port != 0 && digits)?;
        Some(Self::Named { host, port })
    }

    /// Whether the place is on this host, judged by its name or address alone. A name may still resolve to this host.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Named { host, .. } => host == "localhost" || host.ends_with(".localhost"),
        }
    }
}

/// The certificates for an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentTls {
    /// The client's certificate and key, and the CA of the agent's certificate.
    pub files: ClientFiles,
    /// The name or address in the agent's certificate. If `None`, the host of the agent's address is used.
    pub server_name: Option<String>,
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp(address) => address.fmt(f),
            Place::Named { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_rejects_mistyped_addresses() {
        for (text, host) in [
            ("dut-host:7000", "dut-host"),
            ("DUT-3.Lab.Example.:7000", "dut-3.lab.example"),
            ("3com.example:7000", "3com.example"),
            ("rack_7:7000", "rack_7"),
        ] {
            let expected = Place::Named {
                host: host.into(),
                port: 7000,
            };
            assert_eq!(Place::named(text), Some(expected), "{text}");
        }
        for text in [
            "10.1.2.3",
            "10.1.2:7000",
            "10.1.2.333:7000",
            "10.1.2.3:7000",
            "dut-host",
            "dut-host:",
            "dut-host:0",
            "dut-host:+7",
            "dut-host:70000",
            ":7000",
            "dut..host:7000",
            "-dut:7000",
            "[fd00::1]:7000",
            "fd00::1:7000",
            "dut host:7000",
            "https://dut-host:7000",
        ] {
            assert_eq!(Place::named(text), None, "{text}");
        }
    }
}
