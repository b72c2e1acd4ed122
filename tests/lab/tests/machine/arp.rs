//! ARP (RFC 826) frames that the test itself sends and receives at its end of the data cable.

use std::net::Ipv4Addr;

/// The tester's addresses. Only the test responds for these addresses, because no kernel has them.
pub(crate) const TESTER: ([u8; 6], Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 0x0a], Ipv4Addr::new(10, 0, 0, 2));
/// The machine's addresses.
pub(crate) const MACHINE: ([u8; 6], Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 0x01], Ipv4Addr::new(10, 0, 0, 1));

/// The contents of an ARP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    /// The operation: 1 is a request, 2 a reply.
    pub(crate) operation: u8,
    pub(crate) from: ([u8; 6], Ipv4Addr),
    pub(crate) to: ([u8; 6], Ipv4Addr),
}

impl Arp {
    /// Returns the whole Ethernet frame to `destination`.
    pub(crate) fn frame(&self, destination: [u8; 6]) -> Vec<u8> {
        let mut frame = destination.to_vec();
        frame.extend(self.from.0);
        // EtherType ARP, then hardware type Ethernet, protocol type IPv4, the lengths of both addresses, and the
        // operation.
        frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, self.operation]);
        for (mac, ip) in [self.from, self.to] {
            frame.extend(mac);
            frame.extend(ip.octets());
        }
        frame.resize(60, 0);
        frame
    }

    /// Parses a frame as ARP.
    pub(crate) fn of(frame: &[u8]) -> Option<Arp> {
        let body = frame.get(12..42)?.strip_prefix(&[0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0])?;
        let station = |at: usize| {
            let ip: [u8; 4] = body[at + 6..at + 10].try_into().unwrap();
            (body[at..at + 6].try_into().unwrap(), Ipv4Addr::from(ip))
        };
        Some(Arp {
            operation: body[0],
            from: station(1),
            to: station(11),
        })
    }
}
