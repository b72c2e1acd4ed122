//! Connections with the device under test (DUT). The DUT's host creates and modifies the DUT's queue pair. The other
//! end is the tester's adapter or the packet peer: a queue pair that the tester emulates with its own frames.

use core::net::{IpAddr, Ipv6Addr};

use verbatim_record::verbs::pb;
use verbatim_record::verbs::{Command, Reply};
use verbatim_record::{Label, Role, Side, Verbs, labels};
use verbatim_wire::packet::{Aeth, Bth, Network, Opcode, Psn, Qpn, RKey, Station, Syndrome, Transport, packet};
use verbatim_wire::{Mtu, PKey, Reserved};

use super::options::{ChannelOptions, HOP_LIMIT, Marks, RightsBy};
use crate::stop::{Step, Stop};
use crate::tester::Tester;

/// Work requests that each queue of a connection can hold, if the device supports this depth.
pub const DEPTH: u32 = 16;

/// Registered memory of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Handle.
    pub handle: u32,
    /// Address.
    pub address: u64,
    /// R_Key.
    pub r_key: RKey,
    /// Length in bytes.
    pub length: u32,
}

impl Memory {
    /// Returns the slice of `length` bytes that begins `offset` bytes after the address.
    #[must_use]
    pub fn slice(&self, offset: u32, length: u32) -> pb::Slice {
        pb::Slice {
            memory: self.handle,
            offset,
            length,
        }
    }
}

/// A reliable connection between the DUT's queue pair and the packet peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel {
    /// Handle of the DUT's queue pair.
    pub qp: u32,
    /// The DUT's addresses.
    pub dut: Station,
    /// The packet peer's addresses.
    pub own: Station,
    /// Number of the DUT's queue pair.
    pub dut_qpn: Qpn,
    /// Number of the packet peer's queue pair.
    pub own_qpn: Qpn,
    /// First PSN of the DUT's requests.
    pub dut_psn: Psn,
    /// First PSN of the packet peer's requests.
    pub own_psn: Psn,
    /// Path MTU.
    pub mtu: Mtu,
    /// Maximum number of READs and atomics that the DUT has outstanding.
    pub max_rd_atomic: u8,
    /// Maximum number of outstanding READs and atomics that the DUT accepts as responder.
    pub max_dest_rd_atomic: u8,
    /// Number of queue pairs that the DUT reports it supports; 0 if it reports none.
    pub max_qp: u32,
    /// The DUT's memory.
    pub memory: Memory,
    /// Whether the DUT reports that it supports atomics.
    pub atomics: bool,
    /// Header fields in the packet peer's packets that must not affect the DUT.
    pub marks: Marks,
}

impl Channel {
    /// Returns a transport header for a packet to the DUT's queue pair.
    #[must_use]
    pub fn transport(&self, opcode: Opcode, psn: Psn) -> Transport {
        Transport {
            bth: Bth::default()
                .with_opcode(opcode)
                .with_migrated(true)
                .with_p_key(PKey(0xFFFF))
                .with_dest_qp(self.dut_qpn)
                .with_reserved_34(Reserved(self.marks.reserved.into()))
                .with_psn(psn),
            ..Transport::default()
        }
    }

    /// Returns a frame to the DUT with valid addresses, lengths and checksums.
    #[must_use]
    pub fn frame(&self, transport: &Transport) -> Vec<u8> {
        let Marks {
            traffic_class,
            hop_limit,
            ..
        } = self.marks;
        let network = Network::roce_v2(&self.own, &self.dut).with_class(traffic_class, hop_limit);
        packet(&network, transport)
    }

    /// Returns an Acknowledge packet: ACK, NAK or RNR NAK.
    #[must_use]
    pub fn acknowledge(&self, psn: Psn, syndrome: Syndrome, msn: u32) -> Vec<u8> {
        self.frame(&Transport {
            aeth: Some(Aeth::default().with_syndrome(syndrome).with_msn(msn)),
            ..self.transport(Opcode::RC_ACKNOWLEDGE, psn)
        })
    }
}

/// A reliable connection between a queue pair of the DUT and a queue pair of the tester's own adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Handle of the DUT's queue pair.
    pub dut_qp: u32,
    /// Handle of the tester's queue pair.
    pub own_qp: u32,
    /// The DUT's memory.
    pub dut_memory: Memory,
    /// The tester's memory.
    pub own_memory: Memory,
}

/// One end of a reliable connection between two adapters.
#[derive(Clone, PartialEq, Debug)]
pub struct PairEnd {
    /// Side of the queue pair.
    pub side: Side,
    /// Handle of the queue pair.
    pub qp: u32,
    /// Memory of the end.
    pub memory: Memory,
    setup: Setup,
}

/// Attributes that connect a queue pair.
#[derive(Clone, PartialEq, Debug)]
struct Setup {
    options: ChannelOptions,
    qpn: Qpn,
    /// Number of the other queue pair, the PSN that this end expects first, and its own first PSN.
    numbers: (Qpn, Psn, Psn),
    address: pb::AddressVector,
    port: u32,
}

/// One end of a connection during its setup.
struct End {
    side: Side,
    qp: u32,
    qpn: Qpn,
    memory: Memory,
}

impl Tester<'_> {
    /// Makes a reliable connection between a new queue pair of the DUT and the packet peer.
    ///
    /// # Errors
    /// When the DUT's host refuses a step, and when the run must stop.
    pub fn open_channel(&mut self, options: &ChannelOptions) -> Step<Channel> {
        self.open_channel_of(None, options)
    }

    /// Connects an existing queue pair of the DUT, which must be in RESET, with the packet peer again. The connection
    /// has a new peer queue pair number and new PSNs, but the same memory.
    ///
    /// # Errors
    /// When the DUT's host refuses a step, and when the run must stop.
    pub fn open_channel_again(&mut self, channel: &Channel, options: &ChannelOptions) -> Step<Channel> {
        let end = End {
            side: Side::Dut,
            qp: channel.qp,
            qpn: channel.dut_qpn,
            memory: channel.memory,
        };
        self.open_channel_of(Some(end), options)
    }

    /// Connects the given queue pair of the DUT, or else a new one.
    fn open_channel_of(&mut self, end: Option<End>, options: &ChannelOptions) -> Step<Channel> {
        let own = self.frame_port()?;
        let facts = self.open_device(Side::Dut)?;
        let Some((mac, ip)) = self.peer.dut else {
            return Err(Stop::Tester("a test opens a connection before it finds the DUT".into()));
        };
        let gid = self.gid_of(Side::Dut, &facts, Some(ip))?;
        let mut random = self.random(&format!("connection {}", self.peer.commands_made()));
        let own_qpn = Qpn(random.between(2, 0xFF_FFFE) as u32);
        let (dut_psn, own_psn) = (Psn::new(random.bits() as u32), Psn::new(random.bits() as u32));
        let (dut_psn, own_psn) = (options.psn.unwrap_or(dut_psn), options.own_psn.unwrap_or(own_psn));
        let options = &options.on(&facts);
        let end = match end {
            Some(end) => end,
            None => self.make_end(Side::Dut, options)?,
        };
        let address = address(own.ip, gid, options.network);
        self.connect(&end, options, (own_qpn, own_psn, dut_psn), address, facts.port)?;
        let station = |mac, ip| Station {
            mac,
            ip,
            udp_port: 0xC000 | (own_qpn.0 as u16 & 0x3FFF),
        };
        Ok(Channel {
            qp: end.qp,
            dut: station(mac, ip),
            own: station(own.mac, own.ip),
            dut_qpn: end.qpn,
            own_qpn,
            dut_psn,
            own_psn,
            mtu: options.mtu,
            max_rd_atomic: options.max_rd_atomic,
            max_dest_rd_atomic: options.max_dest_rd_atomic,
            max_qp: facts.max_qp,
            memory: end.memory,
            atomics: facts.atomics,
            marks: Marks::default(),
        })
    }

    /// Returns the address vector of the packet peer, for a SEND of the DUT without a connection.
    ///
    /// # Errors
    /// When the DUT has no GID that reaches the packet peer.
    pub fn address_of_peer(&self, facts: &pb::Opened) -> Step<pb::AddressVector> {
        let gid = self.gid_of(Side::Dut, facts, self.peer.dut.map(|(_, ip)| ip))?;
        Ok(address(self.frame_port()?.ip, gid, (HOP_LIMIT, 0, 0)))
    }

    /// Makes a reliable connection between the DUT and a queue pair of the tester's own adapter.
    ///
    /// # Errors
    /// When a host refuses a step, and when the run must stop.
    pub fn open_pair(&mut self, dut: &ChannelOptions, own: &ChannelOptions) -> Step<Pair> {
        let own = ChannelOptions { mtu: dut.mtu, ..*own };
        let [dut, own] = self.open_pair_of([(Side::Dut, dut), (Side::Tester, &own)])?;
        Ok(Pair {
            dut_qp: dut.qp,
            own_qp: own.qp,
            dut_memory: dut.memory,
            own_memory: own.memory,
        })
    }

    /// Makes a reliable connection between two new queue pairs. Both may be on the same side.
    ///
    /// # Errors
    /// When a host refuses a step, and when the run must stop.
    pub fn open_pair_of(&mut self, [one, other]: [(Side, &ChannelOptions); 2]) -> Step<[PairEnd; 2]> {
        let of = [one, other];
        let facts = [self.open_device(one.0)?, self.open_device(other.0)?];
        let gids = [
            self.gid_of(one.0, &facts[0], None)?,
            self.gid_of(other.0, &facts[1], None)?,
        ];
        let mut random = self.random(&format!("connection {}", self.peer.commands_made()));
        let psns = of.map(|(_, options)| {
            let drawn = Psn::new(random.bits() as u32);
            options.psn.unwrap_or(drawn)
        });
        let ends = [self.make_end(one.0, one.1)?, self.make_end(other.0, other.1)?];
        let can = [one.1.within(&facts[0]), other.1.within(&facts[1])];
        let setup = |at: usize| {
            let other = 1 - at;
            let reachable = of[at].1.within(&facts[other]).mtu;
            // A requester may have at most as many READs and atomics outstanding as the responder supports.
            let options = ChannelOptions {
                mtu: Mtu(can[at].mtu.0.min(reachable.0)),
                max_rd_atomic: can[at].max_rd_atomic.min(can[other].max_dest_rd_atomic),
                ..can[at]
            };
            let gid = facts[other].gids.iter().find(|gid| gid.index == gids[other]);
            // On InfiniBand within a subnet, packets need no GRH, and the address has none of its fields.
            let address = if facts[other].ethernet {
                pb::AddressVector {
                    dgid: gid.map(|gid| gid.gid.clone()).unwrap_or_default(),
                    sgid_index: gids[at],
                    hop_limit: HOP_LIMIT.into(),
                    ..pb::AddressVector::default()
                }
            } else {
                pb::AddressVector {
                    dlid: facts[other].lid,
                    ..pb::AddressVector::default()
                }
            };
            let expected = options.own_psn.unwrap_or(psns[other]);
            PairEnd {
                side: ends[at].side,
                qp: ends[at].qp,
                memory: ends[at].memory,
                setup: Setup {
                    options,
                    qpn: ends[at].qpn,
                    numbers: (ends[other].qpn, expected, psns[at]),
                    address,
                    port: facts[at].port,
                },
            }
        };
        let made = [setup(0), setup(1)];
        for end in &made {
            self.connect_end(end)?;
        }
        Ok(made)
    }

    /// Moves a queue pair from RESET to INIT, with the same attributes as before.
    ///
    /// # Errors
    /// When its host refuses, and when the run must stop.
    pub fn init_end(&mut self, end: &PairEnd) -> Step {
        let init = init(&end.setup.options, end.setup.port);
        self.modify(end.side, labels::INIT, end.qp, (pb::QpState::Init, init))
    }

    /// Connects a queue pair in RESET with the same attributes and PSNs as before.
    ///
    /// # Errors
    /// When a host refuses a step, and when the run must stop.
    pub fn connect_end(&mut self, end: &PairEnd) -> Step {
        let Setup {
            options,
            qpn,
            numbers,
            address,
            port,
        } = &end.setup;
        let of = End {
            side: end.side,
            qp: end.qp,
            qpn: *qpn,
            memory: end.memory,
        };
        self.connect(&of, options, *numbers, address.clone(), *port)
    }

    /// Returns the properties of a host's device. The host opens the device at the first call.
    pub(crate) fn open_device(&mut self, side: Side) -> Step<pb::Opened> {
        match self.must_as(Role::Runner, labels::OPEN, side, Command::Open(pb::Open {}))? {
            Reply::Opened(facts) => Ok(facts),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the GID index to use. The rig file may set it. The default on Ethernet is the index of the RoCE v2 GID
    /// with address `ip`. Without `ip`, it is the index of the first RoCE v2 GID, preferably with an IPv4 address. The
    /// default on InfiniBand is 0.
    pub(super) fn gid_of(&self, side: Side, facts: &pb::Opened, ip: Option<IpAddr>) -> Step<u32> {
        let (dut, tester) = self.info.gid_indices;
        let fixed = if side == Side::Dut { dut } else { tester };
        if let Some(index) = fixed {
            return if facts.gids.iter().any(|gid| gid.index == index) || !facts.ethernet {
                Ok(index)
            } else {
                Err(Stop::Refused(format!(
                    "the {side}'s device {} has no GID of index {index}; it has {}",
                    facts.device,
                    gids_in_words(facts)
                )))
            };
        }
        if !facts.ethernet {
            return Ok(0);
        }
        let fits = |gid: &&pb::Gid| match ip {
            Some(ip) => gid.gid == gid_bytes(ip),
            None => address_of(&gid.gid).is_some_and(|ip| ip.is_ipv4()),
        };
        let mut of_v2 = facts.gids.iter().filter(|gid| gid.kind == "RoCE v2");
        let found = of_v2.clone().find(fits);
        match (found, ip) {
            (Some(gid), _) => Ok(gid.index),
            (None, None) => of_v2.next().map(|gid| gid.index).ok_or_else(|| no_gid(side, facts)),
            (None, Some(_)) => Err(no_gid(side, facts)),
        }
    }

    /// Returns the DUT's IP address from the rig file. Without it, returns the address of the first RoCE v2 GID with
    /// the family and scope of the tester's address.
    pub(crate) fn dut_address(&self, facts: &pb::Opened) -> Step<IpAddr> {
        let own = self.frame_port()?;
        if let Some(ip) = own.dut_ip {
            return Ok(ip);
        }
        let scope = |ip: IpAddr| match ip {
            IpAddr::V4(_) => 0,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => 1,
            IpAddr::V6(_) => 2,
        };
        facts
            .gids
            .iter()
            .filter(|gid| gid.kind == "RoCE v2")
            .filter_map(|gid| address_of(&gid.gid))
            .find(|ip| scope(*ip) == scope(own.ip))
            .ok_or_else(|| no_gid(Side::Dut, facts))
    }

    fn make_end(&mut self, side: Side, options: &ChannelOptions) -> Step<End> {
        let register = Command::RegisterMemory(pb::RegisterMemory {
            length: options.memory,
            access: Some(options.memory_access),
        });
        let memory = match self.must_as(Role::Runner, labels::MEMORY, side, register)? {
            Reply::Memory(memory) => Memory {
                handle: memory.memory,
                address: memory.address,
                r_key: RKey(memory.r_key),
                length: options.memory,
            },
            other => return Err(unexpected(&other)),
        };
        let (send_depth, receive_depth) = self.peer.offered.depths(side, DEPTH);
        let create = Command::CreateQp(pb::CreateQp {
            service: pb::Service::Rc.into(),
            send_depth,
            receive_depth,
        });
        let Reply::Qp(qp) = self.must_as(Role::Runner, labels::CREATE, side, create)? else {
            return Err(Stop::Tester("a host answered CreateQp without a queue pair".into()));
        };
        Ok(End {
            side,
            qp: qp.qp,
            qpn: Qpn(qp.qpn),
            memory,
        })
    }

    /// Modifies the queue pair from RESET to RTS, or only to RTR if `options.to_rts` is false.
    fn connect(
        &mut self,
        end: &End,
        options: &ChannelOptions,
        (other_qpn, other_psn, psn): (Qpn, Psn, Psn),
        address: pb::AddressVector,
        port: u32,
    ) -> Step {
        let options = &self.nearest_of(end.side, options);
        let init = init(options, port);
        let rights = pb::QpAttributes {
            access: Some(options.qp_access),
            ..pb::QpAttributes::default()
        };
        let rtr = pb::QpAttributes {
            access: rights.access.filter(|_| options.rights_by == RightsBy::Rtr),
            path_mtu: Some(options.mtu.0.into()),
            dest_qpn: Some(other_qpn.0),
            rq_psn: Some(other_psn.0),
            max_dest_rd_atomic: Some(options.max_dest_rd_atomic.into()),
            min_rnr_timer: Some(options.min_rnr_timer.0.into()),
            address: Some(address),
            ..pb::QpAttributes::default()
        };
        self.modify(end.side, labels::INIT, end.qp, (pb::QpState::Init, init))?;
        if options.rights_by == RightsBy::InitAgain {
            self.modify(end.side, labels::INIT_AGAIN, end.qp, (pb::QpState::Init, rights))?;
        }
        self.modify(end.side, labels::RTR, end.qp, (pb::QpState::Rtr, rtr))?;
        if options.to_rts {
            self.ready_to_send((end.side, end.qp), options, psn)?;
        }
        Ok(())
    }

    /// Modifies the DUT's queue pair from RTR to RTS.
    ///
    /// # Errors
    /// When the DUT's host refuses, and when the run must stop.
    pub fn start_sending(&mut self, channel: &Channel, options: &ChannelOptions) -> Step {
        let options = ChannelOptions {
            max_rd_atomic: options.max_rd_atomic.min(channel.max_rd_atomic),
            ..*options
        };
        self.ready_to_send((Side::Dut, channel.qp), &options, channel.dut_psn)
    }

    fn ready_to_send(&mut self, (side, qp): (Side, u32), options: &ChannelOptions, psn: Psn) -> Step {
        let options = &self.nearest_of(side, options);
        let rts = pb::QpAttributes {
            sq_psn: Some(psn.0),
            timeout: Some(options.timeout.0.into()),
            retry_cnt: Some(options.retry_cnt.into()),
            rnr_retry: Some(options.rnr_retry.into()),
            max_rd_atomic: Some(options.max_rd_atomic.into()),
            ..pb::QpAttributes::default()
        };
        self.modify(side, labels::RTS, qp, (pb::QpState::Rts, rts))
    }

    fn modify(
        &mut self,
        side: Side,
        label: Label<Verbs>,
        qp: u32,
        (state, attributes): (pb::QpState, pb::QpAttributes),
    ) -> Step {
        let modify = Command::ModifyQp(pb::ModifyQp {
            qp,
            state: state.into(),
            attributes: Some(attributes),
        });
        self.must_as(Role::Runner, label, side, modify).map(drop)
    }
}

impl super::PeerState {
    pub(super) fn commands_made(&self) -> u32 {
        self.commands
    }
}

/// Returns the attributes of the step to INIT.
fn init(options: &ChannelOptions, port: u32) -> pb::QpAttributes {
    pb::QpAttributes {
        pkey_index: Some(0),
        port: Some(port),
        access: Some(if options.rights_by == RightsBy::Init {
            options.qp_access
        } else {
            pb::Access::default()
        }),
        ..pb::QpAttributes::default()
    }
}

fn address(to: IpAddr, gid: u32, (hop_limit, traffic_class, flow_label): (u8, u8, u32)) -> pb::AddressVector {
    pb::AddressVector {
        dgid: gid_bytes(to).to_vec(),
        sgid_index: gid,
        hop_limit: hop_limit.into(),
        traffic_class: traffic_class.into(),
        flow_label,
        ..pb::AddressVector::default()
    }
}

fn unexpected(reply: &Reply) -> Stop {
    Stop::Tester(format!(
        "the device's host answered a command with \"{}\", which is no reply to it: check the agent with `verbatim doctor --agent \
         ADDRESS`, and report this if the agent passes",
        verbatim_record::verbs::reply_words(reply)
    ))
}

fn no_gid(side: Side, facts: &pb::Opened) -> Stop {
    Stop::Refused(format!(
        "the {side}'s device {} has no RoCE v2 GID that fits the rig's addresses; it has {}: give its interface an address, \
         or write dut_ip or gid_index into the rig file",
        facts.device,
        gids_in_words(facts)
    ))
}

fn gids_in_words(facts: &pb::Opened) -> String {
    let words: Vec<String> = facts
        .gids
        .iter()
        .map(|gid| {
            let address = address_of(&gid.gid).map_or_else(|| "?".into(), |ip| ip.to_string());
            format!("{} {address} ({})", gid.index, gid.kind)
        })
        .collect();
    if words.is_empty() {
        "none".into()
    } else {
        words.join(", ")
    }
}

/// Converts a GID into an address. An IPv4-mapped GID gives an IPv4 address (RoCEv2 annex).
fn address_of(gid: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = gid.try_into().ok()?;
    Some(Ipv6Addr::from(octets).to_canonical())
}

fn gid_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stay_within_device_limits() {
        let facts = |active_mtu, max_qp_init_rd_atom, max_qp_rd_atom| pb::Opened {
            active_mtu,
            max_qp_init_rd_atom,
            max_qp_rd_atom,
            ..pb::Opened::default()
        };
        let asked = ChannelOptions::default();
        let few = asked.within(&facts(1, 1, 2));
        assert_eq!((few.mtu, few.max_rd_atomic, few.max_dest_rd_atomic), (Mtu(1), 1, 2));
        let none = asked.within(&facts(0, 0, 0));
        assert_eq!(
            (none.mtu, none.max_rd_atomic, none.max_dest_rd_atomic),
            (asked.mtu, 0, 0)
        );
        for facts in [facts(5, 16, 128), facts(5, 300, 1 << 20)] {
            assert_eq!(asked.within(&facts), asked, "{facts:?}");
        }
    }
}
