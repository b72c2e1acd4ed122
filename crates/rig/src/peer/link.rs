//! Links that carry frames: an interface of this host, or the socket pair of an emulated machine.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use verbatim_hw::ether::{DatagramPair, EtherError, Frame, PacketSocket, Stamp};
use verbatim_wire::Layout;
use verbatim_wire::ether::{EtherType, Ethernet, Ipv4, Ipv6, MacAddress, Vlan};

use super::{FrameLink, Taken};
use crate::port::NotSent;

/// Converts a send error. A faulty frame or a full queue does not end the link.
fn not_sent(error: &EtherError) -> NotSent {
    match error {
        EtherError::TooLong { .. } | EtherError::TooShort { .. } => NotSent::Refused(error.to_string()),
        EtherError::Full { .. } => NotSent::NoRoom(format!(
            "{error}; check that the device's host runs and that its link is up, and run the test again"
        )),
        _ => NotSent::Gone(gone(error)),
    }
}

fn gone(error: &EtherError) -> String {
    format!("the link to the device is gone: {error}")
}

/// An interface of this host. Frames for other stations are ignored.
pub(super) struct OfInterface {
    pub(super) socket: PacketSocket,
    pub(super) own: Own,
}

impl FrameLink for OfInterface {
    fn send(&mut self, frame: &[u8]) -> Result<Stamp, NotSent> {
        self.socket.send(frame).map_err(|error| not_sent(&error))
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Taken>, String> {
        let frame = self.socket.receive(timeout).map_err(|error| gone(&error))?;
        Ok(frame.map(|Frame { bytes, stamp }| Taken {
            at: stamp,
            frame: self.own.concerns(&bytes).then_some(bytes),
        }))
    }

    fn lost(&mut self) -> u64 {
        self.socket.dropped()
    }

    /// The kernel reports when an interface goes down or disappears, so no probe is needed.
    fn probe(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The tester's own addresses on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) mac: MacAddress,
    pub(super) ip: IpAddr,
    /// Whether the MAC address is the interface's. Then packets for the host itself arrive too.
    pub(super) shared: bool,
}

impl Own {
    /// Returns whether a frame is for the tester or for all stations. The record leaves out other traffic of the host.
    fn concerns(&self, frame: &[u8]) -> bool {
        let Some(header) = frame.get(..Ethernet::SIZE).map(Ethernet::from_bytes) else {
            return false;
        };
        if !header.dst().is_multicast() && header.dst() != self.mac {
            return false;
        }
        if !self.shared || header.dst().is_multicast() {
            return true;
        }
        let rest = &frame[Ethernet::SIZE..];
        let (ethertype, packet) = match rest.get(..Vlan::SIZE).map(Vlan::from_bytes) {
            Some(tag) if header.ethertype() == EtherType::VLAN => (tag.ethertype(), &rest[Vlan::SIZE..]),
            _ => (header.ethertype(), rest),
        };
        let to: Option<IpAddr> = match ethertype {
            EtherType::IPV4 => packet
                .get(..Ipv4::SIZE)
                .map(|header| Ipv4::from_bytes(header).dst().into()),
            EtherType::IPV6 => packet
                .get(..Ipv6::SIZE)
                .map(|header| Ipv6::from_bytes(header).dst().into()),
            _ => return true,
        };
        to.is_none_or(|to| to == self.ip)
    }
}

/// The socket pair of an emulated machine. All its frames are for the tester.
pub(super) struct OfMachine {
    pub(super) pair: DatagramPair,
    pub(super) remote: PathBuf,
}

impl FrameLink for OfMachine {
    fn send(&mut self, frame: &[u8]) -> Result<Stamp, NotSent> {
        self.pair.send(frame).map_err(|error| match error {
            EtherError::PeerAbsent { .. } => NotSent::Gone(self.gone(&error)),
            _ => not_sent(&error),
        })
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<Taken>, String> {
        let frame = self.pair.receive(timeout).map_err(|error| gone(&error))?;
        Ok(frame.map(|Frame { bytes, stamp }| Taken {
            at: stamp,
            frame: Some(bytes),
        }))
    }

    fn lost(&mut self) -> u64 {
        self.pair.dropped()
    }

    fn probe(&mut self) -> Result<(), String> {
        machine_is_there(&self.remote).map_err(|error| self.gone(&error))
    }
}

impl OfMachine {
    fn gone(&self, error: &dyn core::fmt::Display) -> String {
        format!(
            "the machine behind {} is gone ({error}): start it again, then run again",
            self.remote.display()
        )
    }
}

/// Checks that a process has the socket open. Sends nothing, because QEMU takes an empty datagram as the end of the
/// link.
pub(crate) fn machine_is_there(remote: &Path) -> io::Result<()> {
    match UnixDatagram::unbound()?.connect(remote) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Err(error),
        // Any other error shows that the socket exists. For example, a socket that is connected to another sender
        // refuses us.
        _ => Ok(()),
    }
}

/// Returns the IPv6 link-local address that a station derives from its MAC address (RFC 4291, appendix A).
pub(super) fn link_local(mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let halves = [[a ^ 2, b], [c, 0xFF], [0xFE, d], [e, f]].map(u16::from_be_bytes);
    Ipv6Addr::new(0xFE80, 0, 0, 0, halves[0], halves[1], halves[2], halves[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn own(shared: bool) -> Own {
        Own {
            mac: MAC,
            ip: "10.0.0.2".parse().unwrap(),
            shared,
        }
    }

    fn frame(to: MacAddress, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
        let header = Ethernet::default().with_dst(to).with_ethertype(ethertype);
        [header.bytes(), packet].concat()
    }

    fn ipv4(to: &str) -> Ipv4 {
        Ipv4::default().with_dst(to.parse().unwrap())
    }

    #[test]
    fn ignores_frames_for_other_stations() {
        let to = |mac| frame(mac, EtherType::ARP, &[0; 28]);
        assert!(own(false).concerns(&to(MAC)) && own(true).concerns(&to(MAC)));
        assert!(own(true).concerns(&to(MacAddress::BROADCAST)));
        assert!(!own(false).concerns(&to(MacAddress([2, 0, 0, 0, 0, 3]))));
        assert!(!own(false).concerns(&[0xFF; 13]), "no header");
    }

    #[test]
    fn ignores_packets_for_the_host_itself() {
        let ours = frame(MAC, EtherType::IPV4, ipv4("10.0.0.2").bytes());
        let its = frame(MAC, EtherType::IPV4, ipv4("10.0.0.9").bytes());
        assert!(own(true).concerns(&ours) && !own(true).concerns(&its));
        assert!(
            own(false).concerns(&its),
            "sent to our own MAC address, it is for us whatever it says"
        );
        let tag = Vlan::default().with_ethertype(EtherType::IPV4);
        let tagged = frame(MAC, EtherType::VLAN, &[tag.bytes(), ipv4("10.0.0.9").bytes()].concat());
        assert!(!own(true).concerns(&tagged));
        let six = frame(MAC, EtherType::IPV6, Ipv6::default().bytes());
        assert!(!own(true).concerns(&six));
        assert!(
            own(true).concerns(&frame(MAC, EtherType::IPV4, &[0x45])),
            "broken packets are looked at"
        );
    }

    #[test]
    fn derives_link_local_address_from_mac() {
        let ip = link_local(MacAddress([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]));
        assert_eq!(ip.to_string(), "fe80::11:22ff:fe33:4455");
    }

    #[test]
    fn machine_exists_while_its_socket_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.sock");
        assert!(machine_is_there(&path).is_err(), "no file");
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(machine_is_there(&path).is_ok());
        drop(socket);
        assert!(machine_is_there(&path).is_err(), "a file, and nobody behind it");
    }
}
