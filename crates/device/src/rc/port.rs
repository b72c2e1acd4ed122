//! The port: transmission of packets; on Ethernet, also address resolution (RFC 826, RFC 4861).

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use verbatim_wire::ether::{Arp, IpProtocol, LinkLayerOption, NeighbourAdvertisement, NeighbourSolicitation};
use verbatim_wire::{EtherType, Ethernet, Ipv6, Layout, MacAddress, Transport};

use super::defect::RcFaults;
use super::frame::{self, Address, Path};
use super::profile::{AdapterProfile, NativePort};

/// Minimum length of an Ethernet frame in bytes, without its frame check sequence (IEEE 802.3, 3.2.8).
const LEAST_FRAME: usize = 60;
/// Time from an unanswered address request to the next one.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of address requests if no packet waits for the address.
const IDLE_QUESTIONS: u32 = 3;
/// Maximum numbers of waiting packets per address, and of cached addresses.
const MAX_WAITING: usize = 4096;
const MAX_NEIGHBOURS: usize = 1024;
/// Maximum number of pending frames. The port drops further frames, as a link may.
const MAX_DUE: usize = 1 << 18;
/// Hop limit of neighbour discovery messages, which proves that the message comes from the same link.
const ON_LINK: u8 = 255;

/// Packets to an unresolved address.
#[derive(Clone, Debug)]
struct Waiting {
    from: IpAddr,
    ask_at: Duration,
    /// Number of address requests sent.
    asked: u32,
    packets: Vec<(Duration, Path, Transport)>,
}

/// The port with its address cache.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    mac: MacAddress,
    ips: Vec<IpAddr>,
    /// The InfiniBand port; `None` on Ethernet.
    pub(crate) native: Option<NativePort>,
    faults: RcFaults,
    pads_frames: bool,
    /// Frames to send later, by time and serial number.
    due: BTreeMap<(Duration, u64), Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    serial: u64,
    gap: Duration,
    /// The earliest time of the next frame.
    busy_until: Duration,
    neighbours: BTreeMap<IpAddr, MacAddress>,
    waiting: BTreeMap<IpAddr, Waiting>,
}

impl Port {
    pub(crate) fn new(profile: &AdapterProfile, faults: &RcFaults) -> Self {
        Self {
            mac: profile.mac,
            ips: profile.ips.clone(),
            native: profile.infiniband.clone(),
            faults: *faults,
            pads_frames: profile.choices.pads_frames,
            due: BTreeMap::new(),
            ready: VecDeque::new(),
            serial: 0,
            gap: profile.choices.port_gap,
            busy_until: Duration::ZERO,
            neighbours: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    pub(crate) fn has(&self, address: Address) -> bool {
        match address {
            Address::Ip(ip) => self.ips.contains(&ip),
            Address::Lid(lid) => self.native.as_ref().is_some_and(|port| port.has(lid)),
        }
    }

    /// Sends a packet at the time `at`, or later when its address is resolved.
    pub(crate) fn send(&mut self, at: Duration, path: Path, transport: Transport) {
        let (from, to) = match (path.from, path.to) {
            (Address::Ip(from), Address::Ip(to)) => (from, to),
            (Address::Lid(slid), Address::Lid(dlid)) => {
                let bytes = frame::native(slid, dlid, &path, &transport, &self.faults);
                self.queue(at, bytes);
                return;
            }
            _ => return,
        };
        // A port knows its own address.
        let own = self.has(Address::Ip(to)).then_some(&self.mac);
        let Some(&mac) = own.or_else(|| self.neighbours.get(&to)) else {
            let waiting = self.wait_for(at, from, to);
            if waiting.packets.len() < MAX_WAITING {
                waiting.packets.push((at, path, transport));
            }
            return;
        };
        let frame = frame::build((self.mac, from), (mac, to), &path, &transport, &self.faults);
        self.queue(at, frame);
    }

    /// Queues a frame after earlier frames, at least `gap` apart. Frames of address resolution do not wait in this
    /// queue.
    fn queue(&mut self, at: Duration, frame: Vec<u8>) {
        let at = if self.gap.is_zero() {
            at
        } else {
            at.max(self.busy_until)
        };
        self.busy_until = at + self.gap;
        self.send_frame(at, frame);
    }

    /// Resolves the address of a connection before its first packet.
    pub(crate) fn resolve(&mut self, now: Duration, path: &Path) {
        if let (Address::Ip(from), Address::Ip(to)) = (path.from, path.to)
            && !self.has(Address::Ip(to))
            && !self.neighbours.contains_key(&to)
        {
            self.wait_for(now, from, to);
        }
    }

    fn wait_for(&mut self, at: Duration, from: IpAddr, to: IpAddr) -> &mut Waiting {
        self.waiting.entry(to).or_insert_with(|| Waiting {
            from,
            ask_at: at,
            asked: 0,
            packets: Vec::new(),
        })
    }

    /// Returns the time at which all queued frames have left.
    pub(crate) fn busy_until(&self) -> Duration {
        self.busy_until
    }

    fn send_frame(&mut self, at: Duration, mut frame: Vec<u8>) {
        if self.pads_frames && self.native.is_none() && frame.len() < LEAST_FRAME {
            frame.resize(LEAST_FRAME, 0);
        }
        if self.due.len() < MAX_DUE {
            self.serial += 1;
            self.due.insert((at, self.serial), frame);
        }
    }

    pub(crate) fn poll_at(&self) -> Option<Duration> {
        let asks = self.waiting.values().map(|waiting| waiting.ask_at).min();
        let due = self.due.keys().next().map(|&(at, _)| at);
        [asks, due].into_iter().flatten().min()
    }

    /// Moves the frames that are due to the ready queue, and repeats address requests.
    pub(crate) fn tick(&mut self, now: Duration) {
        // Gives up an address if no packet waits for it. The next packet to the address starts a new resolution.
        self.waiting
            .retain(|_, waiting| !waiting.packets.is_empty() || waiting.asked < IDLE_QUESTIONS || waiting.ask_at > now);
        let mut asked = Vec::new();
        for (&to, waiting) in &mut self.waiting {
            if waiting.ask_at <= now {
                asked.push((waiting.ask_at, waiting.from, to));
                waiting.ask_at = now + ASK_AGAIN;
                waiting.asked += 1;
            }
        }
        for (at, from, to) in asked {
            let question = self.question(from, to);
            self.send_frame(at, question);
        }
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// Drops the packets that wait for an address.
    pub(crate) fn forget(&mut self, to: Address) {
        if let Address::Ip(to) = to {
            self.waiting.remove(&to);
        }
    }

    pub(crate) fn receive_arp(&mut self, now: Duration, bytes: &[u8]) {
        if bytes.len() < Arp::SIZE {
            return;
        }
        let arp = Arp::from_bytes(bytes);
        if !arp.is_ipv4_over_ethernet() || !self.has(Address::Ip(arp.target_ip().into())) {
            return;
        }
        if !arp.sender_ip().is_unspecified() {
            self.learn(now, arp.sender_ip().into(), arp.sender_mac());
        }
        if arp.operation() == Arp::REQUEST {
            let reply = arp.reply(self.mac);
            let frame = self.frame(arp.sender_mac(), EtherType::ARP, reply.bytes());
            self.send_frame(now, frame);
        }
    }

    /// Handles an IPv6 packet with ICMPv6: a neighbour solicitation or advertisement.
    pub(crate) fn receive_icmp(&mut self, now: Duration, bytes: &[u8]) {
        let Some(message) = bytes.get(Ipv6::SIZE..) else {
            return;
        };
        let ip = Ipv6::from_bytes(bytes);
        let Some(message) = message.get(..usize::from(ip.payload_length())) else {
            return;
        };
        let sum = verbatim_wire::ether::pseudo_header_checksum(ip.src(), ip.dst(), IpProtocol::ICMP_V6, message);
        if ip.next_header() != IpProtocol::ICMP_V6
            || ip.hop_limit() != ON_LINK
            || sum != 0
            || message.len() < NeighbourSolicitation::SIZE
        {
            return;
        }
        match message[0] {
            NeighbourSolicitation::KIND => self.receive_solicitation(now, &ip, message),
            NeighbourAdvertisement::KIND => {
                let target = NeighbourAdvertisement::from_bytes(message).target();
                if let Some(mac) = link_layer_address(message, LinkLayerOption::target(self.mac).kind()) {
                    self.learn(now, target.into(), mac);
                }
            }
            _ => {}
        }
    }

    fn receive_solicitation(&mut self, now: Duration, ip: &Ipv6, message: &[u8]) {
        let target = NeighbourSolicitation::from_bytes(message).target();
        if !self.has(Address::Ip(target.into())) {
            return;
        }
        let asker = link_layer_address(message, LinkLayerOption::source(self.mac).kind());
        let anonymous = ip.src().is_unspecified();
        if let Some(mac) = asker.filter(|_| !anonymous) {
            self.learn(now, ip.src().into(), mac);
        }
        // A solicitation without a source address gets its advertisement on the all-nodes address.
        let all_nodes = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
        let (dst, mac) = match (anonymous, asker) {
            (false, Some(mac)) => (ip.src(), mac),
            (false, None) => match self.neighbours.get(&ip.src().into()) {
                Some(&mac) => (ip.src(), mac),
                None => return,
            },
            (true, _) => (all_nodes, multicast_mac(all_nodes)),
        };
        let answer = NeighbourAdvertisement::default()
            .with_solicited(!anonymous)
            .with_override_stored(true)
            .with_target(target)
            .message(target, dst, LinkLayerOption::target(self.mac));
        let frame = self.icmp_frame(mac, target, dst, &answer);
        self.send_frame(now, frame);
    }

    /// Stores the Ethernet address of an IP address, and sends the packets that waited for it.
    fn learn(&mut self, now: Duration, ip: IpAddr, mac: MacAddress) {
        if mac.is_multicast() || (self.neighbours.len() >= MAX_NEIGHBOURS && !self.neighbours.contains_key(&ip)) {
            return;
        }
        self.neighbours.insert(ip, mac);
        let Some(waiting) = self.waiting.remove(&ip) else {
            return;
        };
        for (at, path, transport) in waiting.packets {
            let Address::Ip(from) = path.from else { continue };
            let frame = frame::build((self.mac, from), (mac, ip), &path, &transport, &self.faults);
            self.queue(at.max(now), frame);
        }
    }

    fn question(&self, from: IpAddr, to: IpAddr) -> Vec<u8> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let question = Arp::request(self.mac, from, to);
                self.frame(MacAddress::BROADCAST, EtherType::ARP, question.bytes())
            }
            (from, to) => {
                let (from, to) = (v6(from), v6(to));
                let mut octets = [0; 16];
                octets[..2].copy_from_slice(&[0xFF, 0x02]);
                octets[11..13].copy_from_slice(&[1, 0xFF]);
                octets[13..].copy_from_slice(&to.octets()[13..]);
                let group = Ipv6Addr::from(octets);
                let question = NeighbourSolicitation::default().with_target(to);
                let message = question.message(from, group, LinkLayerOption::source(self.mac));
                self.icmp_frame(multicast_mac(group), from, group, &message)
            }
        }
    }

    fn icmp_frame(&self, mac: MacAddress, src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        #[allow(clippy::cast_possible_truncation)] // 32 bytes
        let ip = Ipv6::default()
            .with_version(6)
            .with_payload_length(message.len() as u16)
            .with_next_header(IpProtocol::ICMP_V6)
            .with_hop_limit(ON_LINK)
            .with_src(src)
            .with_dst(dst);
        self.frame(mac, EtherType::IPV6, &[ip.bytes(), message].concat())
    }

    fn frame(&self, to: MacAddress, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let header = Ethernet::default()
            .with_dst(to)
            .with_src(self.mac)
            .with_ethertype(ethertype);
        [header.bytes(), payload].concat()
    }
}

/// Returns the Ethernet address in the options of a neighbour discovery message.
fn link_layer_address(message: &[u8], kind: u8) -> Option<MacAddress> {
    let mut options = &message[NeighbourSolicitation::SIZE..];
    while let [found, length, ..] = options {
        let length = usize::from(*length) * 8;
        if length == 0 || options.len() < length {
            return None;
        }
        if *found == kind && length == LinkLayerOption::SIZE {
            return Some(LinkLayerOption::from_bytes(options).mac());
        }
        options = &options[length..];
    }
    None
}

/// Returns the Ethernet group address of an IPv6 group.
fn multicast_mac(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
