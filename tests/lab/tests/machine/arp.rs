//! ARP by hand, RFC 826: requests and replies as the tester's end of the data cable sends and sees them.

use std::net::Ipv4Addr;

/// The tester's addresses: of no kernel, so nothing but the test answers for them.
pub(crate) const TESTER: ([u8; 6], Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 0x0a], Ipv4Addr::new(10, 0, 0, 2));
/// The machine's.
pub(crate) const MACHINE: ([u8; 6], Ipv4Addr) = ([0x52, 0x54, 0, 0, 0, 0x01], Ipv4Addr::new(10, 0, 0, 1));

/// What an ARP frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    /// 1 request, 2 reply.
    pub(crate) operation: u8,
    pub(crate) from: ([u8; 6], Ipv4Addr),
    pub(crate) to: ([u8; 6], Ipv4Addr),
}

impl Arp {
    /// The whole Ethernet frame, to `destination`.
    pub(crate) fn frame(&self, destination: [u8; 6]) -> Vec<u8> {
        let mut frame = destination.to_vec();
        frame.extend(self.from.0);
        // ARP; Ethernet, IPv4, their lengths.
        frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, self.operation]);
        for (mac, ip) in [self.from, self.to] {
            frame.extend(mac);
            frame.extend(ip.octets());
        }
        frame.resize(60, 0);
        frame
    }

    /// The ARP in a frame, if it is one.
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
