//! The arguments of `verbatim inspect`, among them the properties of the port.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use verbatim_oracle::packet_check::{Kind, Port};
use verbatim_wire::{Lid, Mtu, PKey, PortState};

use crate::exit::Usage;

/// Judge the packets of a capture.
#[derive(clap::Args)]
#[command(
    after_help = "Reads pcap, pcapng and ERF, plain or compressed by gzip or zstd: Ethernet, Linux cooked \
captures and raw IP (RoCEv1, RoCEv2, also in VXLAN, Geneve, GRE, ERSPAN or MPLS), and native InfiniBand.\n\
Exit codes: 0 all judged packets are accepted; 1 at least one would be discarded, or with --rc breaks a rule; 2 \
usage, or no capture; 3 the capture ends within a packet or is damaged (earlier packets are judged); 4 no packet was \
judged; or, with --rc, a packet has a wrong ICRC that the network may have caused, and nothing breaks a rule."
)]
pub(crate) struct Arguments {
    /// The capture; `-` reads a pipe: tcpdump -w - | verbatim inspect -
    #[arg(required_unless_present = "interface")]
    file: Option<PathBuf>,
    /// Capture on this network interface, both directions, until Ctrl-C; needs CAP_NET_RAW
    #[arg(long, value_name = "IF", conflicts_with = "file")]
    pub(super) interface: Option<String>,
    /// Kind of node that the port belongs to
    #[arg(long, value_enum, default_value_t = KindName::Ca)]
    kind: KindName,
    /// The packets pass through the switch or router, and are not addressed to it
    #[arg(long)]
    not_destination: bool,
    /// The port's LID, such as 0x8; without it DLIDs of unicast packets are not checked
    #[arg(long, value_parser = lid)]
    lid: Option<u16>,
    /// The port's LMC: it has 2^LMC LIDs
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: u8,
    /// The port's MTUCap in bytes
    #[arg(long, default_value_t = 4096, value_parser = mtu)]
    mtu_cap: u32,
    /// Data VLs in operation, from VL 0 on
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: u8,
    /// The port's P_Keys, such as 0xffff,0x8001; without them P_Keys are not checked
    #[arg(long, value_name = "P_KEY", value_delimiter = ',', value_parser = number)]
    p_keys: Vec<u16>,
    /// The last two bytes of InfiniBand packets are no VCRC: some adapters capture zeros there
    #[arg(long)]
    pub(super) ignore_vcrc: bool,
    /// Show only these packets; all are judged and counted
    #[arg(long, value_enum)]
    pub(super) only: Option<Only>,
    /// Judge reliable connections by the packets of both ends, instead of each packet alone
    #[arg(long, conflicts_with_all = ["only", "kind", "not_destination", "lid", "lmc", "mtu_cap", "vls", "p_keys"])]
    pub(super) rc: bool,
    /// With --rc: neither the network nor the capture lost, repeated or reordered a packet, so every broken rule is a
    /// violation
    #[arg(long, requires = "rc")]
    pub(super) lossless: bool,
    /// Print one JSON document per packet or connection, one per line, and a summary
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// A channel adapter
    Ca,
    Router,
    Switch,
}

/// Packets by their verdict.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Only {
    /// Discarded, or forwarded as bad
    Discarded,
    Accepted,
    NotJudged,
}

impl Arguments {
    /// Returns the capture file or the interface.
    pub(super) fn place(&self) -> &Path {
        let interface = || self.interface.as_deref().map(Path::new);
        self.file.as_deref().or_else(interface).unwrap_or(Path::new("-"))
    }

    /// Returns the port for which packets are judged.
    pub(super) fn port(&self) -> anyhow::Result<Port> {
        let kind = match self.kind {
            KindName::Ca => Kind::Ca,
            KindName::Router => Kind::Router,
            KindName::Switch => Kind::Switch,
        };
        if kind == Kind::Ca && self.not_destination {
            let why = "--not-destination is for switches and routers: a channel adapter forwards no packets; add \
                       --kind switch or --kind router, or remove --not-destination";
            return Err(Usage(why.into()).into());
        }
        let lids = 1_u16 << self.lmc;
        if let Some(lid) = self.lid.filter(|lid| lid % lids != 0) {
            let why = format!(
                "--lid {lid:#06x} --lmc {}: a port with that LMC has {lids} LIDs, the first a multiple of {lids}; expected --lid {:#06x}, or \
                 another LMC",
                self.lmc,
                (lid & !(lids - 1)).max(lids)
            );
            return Err(Usage(why).into());
        }
        Ok(Port {
            kind,
            is_destination: !self.not_destination,
            lid: self.lid.map(Lid),
            lmc: self.lmc,
            mtu_cap: ALL_MTUS
                .into_iter()
                .find(|mtu| mtu.bytes() == Some(self.mtu_cap))
                .unwrap_or(Mtu::B4096),
            vls: self.vls,
            state: PortState::ACTIVE,
            p_keys: (!self.p_keys.is_empty()).then(|| self.p_keys.iter().copied().map(PKey).collect()),
        })
    }
}

const ALL_MTUS: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

fn number(text: &str) -> Result<u16, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number of 16 bits, such as 0x8001 or 32769".into())
}

fn lid(text: &str) -> Result<u16, String> {
    let lid = number(text)?;
    if (1..0xC000).contains(&lid) {
        Ok(lid)
    } else {
        Err("expected a port's LID, 0x0001 to 0xbfff".into())
    }
}

fn mtu(text: &str) -> Result<u32, String> {
    let bytes = text.parse().ok();
    bytes
        .filter(|bytes| ALL_MTUS.into_iter().any(|mtu| mtu.bytes() == Some(*bytes)))
        .ok_or_else(|| "expected 256, 512, 1024, 2048 or 4096".into())
}
