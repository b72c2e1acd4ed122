//! Wireshark's names of our headers' fields. Lists the fields that Wireshark does not show, and the headers that it
//! does not decode.

use verbatim_wire::{Field, Opcode, Service, Style};

/// tshark's names of the fields of one of our layouts.
///
/// By default, tshark's name is a prefix and our name in lower case. `exceptions` lists the other fields.
#[derive(Debug)]
pub(crate) struct Names {
    /// Our name of the layout.
    pub(crate) object: &'static str,
    prefix: &'static str,
    exceptions: &'static [(&'static str, Shown)],
}

/// The form in which tshark 4.0 shows a field.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// Under this name.
    As(&'static str),
    /// Not shown, or shown with another value.
    Not,
}
use Shown::{As, Not};

impl Names {
    /// Returns tshark's name of our field, if tshark shows the field.
    pub(crate) fn theirs(&self, field: &Field) -> Option<String> {
        match self.exceptions.iter().find(|(name, _)| *name == field.name) {
            Some((_, As(theirs))) => Some((*theirs).to_string()),
            Some((_, Not)) => None,
            None if field.style == Style::Reserved => None,
            None => Some(format!("{}{}", self.prefix, field.name.to_lowercase())),
        }
    }
}

/// All layouts that a packet can have.
pub(crate) const NAMES: &[Names] = &[
    Names {
        object: "Ethernet",
        prefix: "eth.",
        exceptions: &[
            ("Destination", As("eth.dst")),
            ("Source", As("eth.src")),
            ("EtherType", As("eth.type")),
        ],
    },
    Names {
        object: "VLAN",
        prefix: "vlan.",
        exceptions: &[
            ("PCP", As("vlan.priority")),
            ("VID", As("vlan.id")),
            ("EtherType", As("vlan.etype")),
        ],
    },
    Names {
        object: "IPv4",
        prefix: "ip.",
        exceptions: &[
            ("IHL", Not), // shown as ip.hdr_len, in bytes
            ("DSCP", As("ip.dsfield.dscp")),
            ("ECN", As("ip.dsfield.ecn")),
            ("Total Length", As("ip.len")),
            ("Identification", As("ip.id")),
            ("Reserved48", As("ip.flags.rb")),
            ("DF", As("ip.flags.df")),
            ("MF", As("ip.flags.mf")),
            ("Fragment Offset", As("ip.frag_offset")),
            ("Time to Live", As("ip.ttl")),
            ("Protocol", As("ip.proto")),
            ("Header Checksum", As("ip.checksum")),
            ("Source Address", As("ip.src")),
            ("Destination Address", As("ip.dst")),
        ],
    },
    Names {
        object: "IPv6",
        prefix: "ipv6.",
        exceptions: &[
            ("DSCP", As("ipv6.tclass.dscp")),
            ("ECN", As("ipv6.tclass.ecn")),
            ("Flow Label", As("ipv6.flow")),
            ("Payload Length", As("ipv6.plen")),
            ("Next Header", As("ipv6.nxt")),
            ("Hop Limit", As("ipv6.hlim")),
            ("Source Address", As("ipv6.src")),
            ("Destination Address", As("ipv6.dst")),
        ],
    },
    Names {
        object: "UDP",
        prefix: "udp.",
        exceptions: &[
            ("Source Port", As("udp.srcport")),
            ("Destination Port", As("udp.dstport")),
        ],
    },
    Names {
        object: "LRH",
        prefix: "infiniband.lrh.",
        exceptions: &[
            ("Reserved12", As("infiniband.lrh.reserved2")),
            ("Reserved32", As("infiniband.lrh.reserved5")),
        ],
    },
    Names {
        object: "GRH",
        prefix: "infiniband.grh.",
        exceptions: &[],
    },
    Names {
        object: "BTH",
        prefix: "infiniband.bth.",
        exceptions: &[
            ("FECN", Not),
            ("BECN", Not), // tshark has no field for FECN and BECN
            ("Reserved65", As("infiniband.bth.reserved7")),
        ],
    },
    Names {
        object: "DETH",
        prefix: "infiniband.deth.",
        exceptions: &[],
    },
    Names {
        object: "RETH",
        prefix: "infiniband.reth.",
        exceptions: &[],
    },
    Names {
        object: "AtomicETH",
        prefix: "infiniband.atomiceth.",
        exceptions: &[("VA", As("infiniband.reth.va")), ("R_Key", As("infiniband.reth.r_key"))],
    },
    Names {
        object: "AETH",
        prefix: "infiniband.aeth.",
        exceptions: &[],
    },
    Names {
        object: "AtomicAckETH",
        prefix: "infiniband.atomicacketh.",
        exceptions: &[],
    },
    Names {
        object: "ImmDt",
        prefix: "infiniband.",
        exceptions: &[],
    },
    Names {
        object: "IETH",
        prefix: "infiniband.",
        exceptions: &[("R_Key", As("infiniband.ieth"))],
    },
];

/// Returns the reason why tshark 4.0 does not decode the headers after the BTH, or `None` if tshark decodes them.
pub(crate) fn not_understood(opcode: Opcode) -> Option<&'static str> {
    match (opcode.service(), opcode) {
        (Service::Rd, _) => Some("begins 8 bytes too late, of answers as of requests"),
        (Service::Xrc, _) => Some("unknown to it"),
        (_, Opcode::CNP | Opcode::RC_FLUSH | Opcode::RC_ATOMIC_WRITE) => Some("unknown to it"),
        _ => None,
    }
}

/// Protocols that tshark looks for in payloads, and sometimes wrongly finds in random payloads.
pub(crate) const GUESSES: &[&str] = &[
    "drbd",
    "ethertype",
    "fcoib",
    "infiniband.eoib",
    "infiniband_sdp",
    "iser",
    "lnet",
    "nvme-rdma",
    "rpcordma",
    "smb_direct",
    "smc",
];
