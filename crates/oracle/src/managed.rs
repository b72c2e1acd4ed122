//! Parameters of a connection from the communication manager's messages.
//!
//! Source: architecture 12.6.5 (REQ), 12.6.8 (REP); annex A11 (service IDs of IP ports).

use core::fmt;

use verbatim_wire::packet::Psn;

/// Service ID: the application that a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceId(pub u64);

impl fmt::Display for ServiceId {
    /// Writes the number. For a service of the RDMA IP CM, also writes the port and the name of a well-known service.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)?;
        if self.0 >> 24 != 1 {
            return Ok(());
        }
        let port = self.0 & 0xFFFF;
        let space = match (self.0 >> 16) & 0xFF {
            0x06 => "TCP",
            0x11 => "UDP",
            _ => return Ok(()),
        };
        write!(f, " ({space} port {port}")?;
        match port {
            3260 => f.write_str(", iSER)"),
            4420 => f.write_str(", NVMe)"),
            20049 => f.write_str(", NFS)"),
            _ => f.write_str(")"),
        }
    }
}

/// Parameters of a connection. In each array, the value of end 0, which sent the REQ, comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Managed {
    /// Service ID from the REQ.
    pub service: ServiceId,
    /// PSN of the first request of each end.
    pub first_psns: [Psn; 2],
    /// Path MTU in bytes; `None` if the REQ has an undefined code.
    pub path_mtu: Option<u32>,
    /// Retries after a timeout, for both ends.
    pub retry_count: u8,
    /// Retries after RNR NAKs, for each end; 7: no limit.
    pub rnr_retry_counts: [u8; 2],
}
