//! ARP and neighbour discovery: replies to requests for the tester's MAC address, requests the DUT's MAC address, and
//! measures the round trip of the path.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use verbatim_record::{Entry, RoundTrips, Span};
use verbatim_wire::Layout;
use verbatim_wire::ether::{
    Arp, EtherType, Ethernet, IpProtocol, Ipv6, LinkLayerOption, MacAddress, NeighbourAdvertisement,
    NeighbourSolicitation,
};
use verbatim_wire::packet::Packet;

use crate::rig::FramePort;
use crate::stop::{Step, Stop};
use crate::tester::{TRIES, Tester};

/// Longest wait for a reply. Real hosts reply within milliseconds, emulated machines within tenths of a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the reply to a frame, if the frame requests the tester's MAC address.
pub(super) fn answer(own: &FramePort, frame: &[u8]) -> Option<Vec<u8>> {
    match (ethertype(frame)?, own.ip) {
        (EtherType::ARP, IpAddr::V4(ip)) => {
            let arp = Arp::from_bytes(frame.get(Ethernet::SIZE..Ethernet::SIZE + Arp::SIZE)?);
            let asks = arp.is_ipv4_over_ethernet() && arp.operation() == Arp::REQUEST && arp.target_ip() == ip;
            asks.then(|| ethernet(own.mac, arp.sender_mac(), EtherType::ARP, arp.reply(own.mac).bytes()))
        }
        (EtherType::IPV6, IpAddr::V6(ip)) => {
            let (from, solicitation) = neighbour_message(frame, NeighbourSolicitation::KIND)?;
            let asked = NeighbourSolicitation::from_bytes(solicitation);
            if asked.target() != ip || from.src().is_unspecified() {
                return None;
            }
            let message = NeighbourAdvertisement::default()
                .with_solicited(true)
                .with_override_stored(true)
                .with_target(ip)
                .message(ip, from.src(), LinkLayerOption::target(own.mac));
            let to = Ethernet::from_bytes(frame).src();
            Some(ethernet(own.mac, to, EtherType::IPV6, &icmp(ip, from.src(), &message)))
        }
        _ => None,
    }
}

/// Returns the IP address and MAC address that an ARP reply or a neighbour advertisement carries.
pub(super) fn told(frame: &[u8]) -> Option<(IpAddr, MacAddress)> {
    match ethertype(frame)? {
        EtherType::ARP => {
            let arp = Arp::from_bytes(frame.get(Ethernet::SIZE..Ethernet::SIZE + Arp::SIZE)?);
            let tells = arp.is_ipv4_over_ethernet() && arp.operation() == Arp::REPLY;
            tells.then(|| (arp.sender_ip().into(), arp.sender_mac()))
        }
        EtherType::IPV6 => {
            let (_, message) = neighbour_message(frame, NeighbourAdvertisement::KIND)?;
            let target = NeighbourAdvertisement::from_bytes(message).target();
            let option = message
                .get(NeighbourAdvertisement::SIZE..NeighbourAdvertisement::SIZE + LinkLayerOption::SIZE)
                .map(LinkLayerOption::from_bytes)
                .filter(|option| option.kind() == 2 && option.length() == 1);
            let mac = option.map_or_else(|| Ethernet::from_bytes(frame).src(), |option| option.mac());
            Some((target.into(), mac))
        }
        _ => None,
    }
}

/// Whether a packet is addressed to the tester.
pub(super) fn is_for(own: &FramePort, packet: &Packet<'_>) -> bool {
    match own.ip {
        IpAddr::V4(ip) => packet.ipv4().is_some_and(|header| header.dst() == ip),
        IpAddr::V6(ip) => packet.ipv6().is_some_and(|header| header.dst() == ip),
    }
}

fn question(own: &FramePort, whom: IpAddr) -> Result<Vec<u8>, Stop> {
    match (own.ip, whom) {
        (IpAddr::V4(ip), IpAddr::V4(whom)) => Ok(ethernet(
            own.mac,
            MacAddress::BROADCAST,
            EtherType::ARP,
            Arp::request(own.mac, ip, whom).bytes(),
        )),
        (IpAddr::V6(ip), IpAddr::V6(whom)) => {
            let [.., a, b, c] = whom.octets();
            // The request goes to the solicited-node multicast group of the address, at the group's MAC address (RFC
            // 4291, RFC 2464).
            let group = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | u16::from(a), u16::from_be_bytes([b, c]));
            let message =
                NeighbourSolicitation::default()
                    .with_target(whom)
                    .message(ip, group, LinkLayerOption::source(own.mac));
            Ok(ethernet(
                own.mac,
                MacAddress([0x33, 0x33, 0xFF, a, b, c]),
                EtherType::IPV6,
                &icmp(ip, group, &message),
            ))
        }
        (ip, whom) => Err(Stop::Tester(format!(
            "the tester's address {ip} and the DUT's {whom} are of different families: give ip and dut_ip of one family in \
             the rig file"
        ))),
    }
}

fn ethertype(frame: &[u8]) -> Option<EtherType> {
    (frame.len() >= Ethernet::SIZE).then(|| Ethernet::from_bytes(frame).ethertype())
}

/// Returns the IPv6 header and the ICMPv6 message of a frame, if the message is of type `kind`.
fn neighbour_message(frame: &[u8], kind: u8) -> Option<(Ipv6, &[u8])> {
    let rest = frame.get(Ethernet::SIZE..)?;
    let header = Ipv6::from_bytes(rest.get(..Ipv6::SIZE)?);
    let message = rest.get(Ipv6::SIZE..Ipv6::SIZE + usize::from(header.payload_length()))?;
    let is_it = header.next_header() == IpProtocol::ICMP_V6
        && message.len() >= NeighbourSolicitation::SIZE
        && message.first() == Some(&kind);
    is_it.then_some((header, message))
}

fn ethernet(src: MacAddress, dst: MacAddress, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let header = Ethernet::default()
        .with_dst(dst)
        .with_src(src)
        .with_ethertype(ethertype);
    [header.bytes(), payload].concat()
}

/// Returns an IPv6 packet with an ICMPv6 message. Neighbour discovery requires hop limit 255 (RFC 4861).
fn icmp(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let header = Ipv6::default()
        .with_version(6)
        .with_payload_length(message.len() as u16)
        .with_next_header(IpProtocol::ICMP_V6)
        .with_hop_limit(255)
        .with_src(src)
        .with_dst(dst);
    [header.bytes(), message].concat()
}

impl Tester<'_> {
    /// Requests the DUT's MAC address, up to three times, and stores both addresses.
    pub(crate) fn find_dut(&mut self, ip: IpAddr) -> Step<Option<MacAddress>> {
        self.peer.dut = Some((MacAddress::BROADCAST, ip));
        for _ in 0..TRIES {
            if let Some((_, _, mac)) = self.ask_neighbour(ip)? {
                self.peer.dut = Some((mac, ip));
                return Ok(Some(mac));
            }
        }
        Ok(None)
    }

    /// Sends one request for a MAC address. Returns the time of sending, the time of the reply, and the MAC address.
    fn ask_neighbour(&mut self, ip: IpAddr) -> Step<Option<(Span, Span, MacAddress)>> {
        let own = self.frame_port()?;
        self.peer.neighbour.clear();
        let sent = self.put_frame(0, &question(&own, ip)?)?;
        let answer = self.await_until(sent.latest.after(PATIENCE), |peer| peer.neighbour.pop_front())?;
        Ok(answer.map(|(at, mac)| (sent, at, mac)))
    }

    /// Whether the DUT's port replies to a request for its MAC address, in up to three tries.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn port_is_there(&mut self) -> Step<bool> {
        let Some((_, ip)) = self.peer.dut else {
            return Ok(false);
        };
        for _ in 0..TRIES {
            if self.ask_neighbour(ip)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Measures the round trip of the path by `exchanges` exchanges of ARP or neighbour discovery.
    ///
    /// # Errors
    /// When the run must stop.
    pub fn measure_path(&mut self, exchanges: u32) -> Step {
        let (_, ip) = self
            .peer
            .dut
            .ok_or_else(|| Stop::Tester("a test measures the path before it finds the DUT".into()))?;
        let mut trips = RoundTrips {
            shortest: Duration::MAX,
            of: if ip.is_ipv4() { "ARP" } else { "neighbour discovery" }.into(),
            ..RoundTrips::default()
        };
        for _ in 0..exchanges {
            match self.ask_neighbour(ip)? {
                Some((sent, answered, _)) => {
                    let (least, most) = answered.since(sent);
                    trips.answered += 1;
                    trips.shortest = trips.shortest.min(least);
                    trips.longest = trips.longest.max(most);
                }
                None => trips.lost += 1,
            }
        }
        if trips.answered == 0 {
            trips.shortest = Duration::ZERO;
        }
        self.peer.path = self.peer.path.max(trips.longest);
        self.sink.put(Entry::RoundTrips(trips));
        Ok(())
    }
}
