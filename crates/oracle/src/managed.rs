//! Parameters of a connection from the communication manager's messages.
//!
//! Source: architecture 12.6.5 (REQ), 12.6.8 (REP); annex A11 (service IDs of IP ports).

use core::fmt;

use verbatim_wire::packet::Psn;

/// A service ID: the application that a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceId(pub u64);

impl fmt::Display for ServiceId {
    /// The number; of a service of the RDMA IP CM its port, too, and the name of a well-known one.
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

/// How the manager says that a connection begins. Of two values the first is of the end that asked for it, end 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Managed {
    /// The application.
    pub service: ServiceId,
    /// The PSNs of the first requests.
    pub first_psns: [Psn; 2],
    /// The path MTU in bytes, if its code has a meaning.
    pub path_mtu: Option<u32>,
    /// How often both ends repeat a request that is not answered.
    pub retry_count: u8,
    /// How often each end repeats a request after an RNR NAK; 7: without end.
    pub rnr_retry_counts: [u8; 2],
}
