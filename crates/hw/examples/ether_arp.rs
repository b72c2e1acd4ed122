//! Asks for an Ethernet address by ARP, and shows when question and answer were on the wire.
//!
//! `ether_arp INTERFACE OWN_IP THEIR_IP` asks through a network interface, `ether_arp LOCAL REMOTE OWN_IP THEIR_IP`
//! through the two unix sockets of a machine that QEMU runs. OWN_IP should be configured on no kernel.

use std::{
    error::Error,
    net::Ipv4Addr,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use verbatim_hw::ether::{DatagramPair, EtherError, Frame, PacketSocket, Stamp};

const OWN_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0a];
const BOUND: Duration = Duration::from_secs(5);

enum Wire {
    Interface(PacketSocket),
    Sockets(DatagramPair),
}

impl Wire {
    fn send(&self, frame: &[u8]) -> Result<Stamp, EtherError> {
        match self {
            Wire::Interface(socket) => socket.send(frame),
            Wire::Sockets(pair) => pair.send(frame),
        }
    }

    fn receive(&self, timeout: Duration) -> Result<Option<Frame>, EtherError> {
        match self {
            Wire::Interface(socket) => socket.receive(timeout),
            Wire::Sockets(pair) => pair.receive(timeout),
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ether_arp: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (wire, own, theirs) = match arguments.as_slice() {
        [interface, own, theirs] => (Wire::Interface(PacketSocket::open(interface)?), own, theirs),
        [local, remote, own, theirs] => {
            let pair = DatagramPair::open(Path::new(local), Path::new(remote))?;
            (Wire::Sockets(pair), own, theirs)
        }
        _ => return Err("usage: ether_arp (INTERFACE | LOCAL REMOTE) OWN_IP THEIR_IP".into()),
    };
    let (own, theirs): (Ipv4Addr, Ipv4Addr) = (own.parse()?, theirs.parse()?);
    let question = question(own, theirs);
    let start = Instant::now();
    while start.elapsed() < BOUND {
        let sent = wire.send(&question)?;
        let asked = Instant::now();
        while let Some(frame) = wire.receive(Duration::from_millis(500).saturating_sub(asked.elapsed()))? {
            // An ARP reply, of the address that we asked for.
            let Frame { bytes, stamp } = frame;
            if bytes.get(12..14) == Some(&[0x08, 0x06])
                && bytes.get(20..22) == Some(&[0, 2])
                && bytes.get(28..32) == Some(&theirs.octets())
            {
                println!("{theirs} is at {:02x?}", &bytes[22..28]);
                println!("question {sent:?}\nanswer   {stamp:?}");
                println!(
                    "between {:?} and {:?}",
                    stamp.earliest.saturating_sub(sent.latest),
                    stamp.latest - sent.earliest
                );
                return Ok(());
            }
        }
    }
    Err(format!("{theirs} did not answer within {BOUND:?}").into())
}

/// An ARP request, padded to the shortest frame of Ethernet.
fn question(own: Ipv4Addr, theirs: Ipv4Addr) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &OWN_MAC, &[0x08, 0x06]].concat();
    frame.extend_from_slice(&[0, 1, 0x08, 0, 6, 4, 0, 1]); // Ethernet, IPv4, lengths, request.
    frame.extend_from_slice(&OWN_MAC);
    frame.extend_from_slice(&own.octets());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&theirs.octets());
    frame.resize(60, 0);
    frame
}
