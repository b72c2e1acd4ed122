//! Tests of the packets that a conforming adapter accepts, and of its address resolution.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;
use verbatim_device::rc::{Adapter, Operation, RcDefect};
use verbatim_wire::ether::{Arp, IpProtocol, LinkLayerOption, NeighbourAdvertisement, NeighbourSolicitation};
use verbatim_wire::{
    EtherType, Ethernet, Ipv6, Layout, MacAddress, Medium, Mtu, Opcode, PKey, Packet, Qpn, edit, mend_icrc,
};

use super::adapters::{A, B, Pair, Setup, address, mac, profile};
use super::peer::Peer;

fn peer() -> Peer {
    let mut peer = Peer::new(&Setup::default());
    for wr_id in 0..8 {
        peer.post_receive(wr_id, 0, 1000);
    }
    peer
}

/// Returns whether the adapter sends an ACK for a frame and completes a receive.
fn is_taken(peer: &mut Peer, frame: &[u8]) -> bool {
    let before = (peer.seen.len(), peer.completions.len());
    peer.send_frame(frame);
    peer.moment();
    let after = (peer.seen.len(), peer.completions.len());
    assert_eq!(before.0 == after.0, before.1 == after.1, "both or none");
    before != after
}

#[test]
fn any_bit_flip_is_detected() {
    let mut peer = peer();
    let frame = peer.frame(&peer.ask(Opcode::RC_SEND_ONLY, 0, &[1, 2, 3, 4, 5]));
    let bth = 14 + 20 + 8;
    for byte in bth..frame.len() {
        let mut odd = frame.clone();
        odd[byte] ^= 0x10;
        // The ICRC does not cover this byte of the BTH, because switches may change it.
        if byte != bth + 4 {
            assert!(!is_taken(&mut peer, &odd), "byte {byte}");
        }
    }
    assert!(is_taken(&mut peer, &frame));
}

#[test]
fn drops_invalid_headers_silently() {
    let mut peer = peer();
    let sound = peer.ask(Opcode::RC_SEND_ONLY, 0, &[1, 2, 3, 4]);
    for bth in [
        sound.bth.with_tver(1),
        sound.bth.with_tver(15),
        sound.bth.with_opcode(Opcode::UC_SEND_ONLY),
        sound.bth.with_opcode(Opcode(0xE4)),
        sound.bth.with_dest_qp(Qpn(0)),
        sound.bth.with_dest_qp(Qpn(peer.qpn.0 ^ 0x80_0000)),
        sound.bth.with_p_key(PKey(0x8000)),
        sound.bth.with_p_key(PKey(0xFFFE)),
    ] {
        let mut odd = sound.clone();
        odd.bth = bth;
        let frame = peer.frame(&odd);
        assert!(!is_taken(&mut peer, &frame), "{bth}");
    }
    assert_eq!(peer.adapter.pkey_violations(), 2);
    let stranger = peer.frame_from([10, 0, 0, 9].into(), &sound);
    assert!(!is_taken(&mut peer, &stranger));
    let mut limited = sound.clone();
    limited.bth = limited.bth.with_p_key(PKey(0x7FFF));
    let frame = peer.frame(&limited);
    assert!(is_taken(&mut peer, &frame), "a limited member may talk to a full one");
    assert_eq!(peer.adapter.pkey_violations(), 2);
}

#[test]
fn limited_members_cannot_communicate() {
    let mut limited = profile(A);
    limited.p_keys = vec![PKey(0x7FFF)];
    let mut peer = Peer::of(limited, &[], &Setup::default());
    peer.post_receive(1, 0, 100);
    for (p_key, taken) in [(0x7FFF, false), (0xFFFF, true)] {
        let mut packet = peer.ask(Opcode::RC_SEND_ONLY, 0, &[1]);
        packet.bth = packet.bth.with_p_key(PKey(p_key));
        let frame = peer.frame(&packet);
        assert_eq!(is_taken(&mut peer, &frame), taken);
    }
    assert_eq!(peer.adapter.pkey_violations(), 1);
}

#[test]
fn accepts_changed_variant_fields() {
    let mut peer = peer();
    let frame = peer.frame(&peer.ask(Opcode::RC_SEND_ONLY, 0, &[1, 2, 3, 4, 5]));
    let mut marked = frame.clone();
    let at = 14;
    marked[at + 1] = 0xFF; // type of service
    marked[at + 8] = 3; // TTL
    marked[at + 20 + 8 + 4] = 0xC0; // FECN and BECN
    verbatim_wire::mend_ip_checksum(Medium::Ethernet, &mut marked).unwrap();
    assert!(is_taken(&mut peer, &marked));
    // Ethernet pads short frames.
    let mut padded = peer.frame(&peer.ask(Opcode::RC_SEND_ONLY, 1, &[]));
    padded.resize(80, 0xEE);
    assert!(is_taken(&mut peer, &padded));
}

#[test]
fn ignores_frames_to_other_addresses() {
    let mut peer = peer();
    let frame = peer.frame(&peer.ask(Opcode::RC_SEND_ONLY, 0, &[1, 2, 3, 4]));
    let mut other_mac = frame.clone();
    edit::<Ethernet>(&mut other_mac, 0, |header| header.with_dst(mac(7)));
    assert!(!is_taken(&mut peer, &other_mac));
    let mut other_ip = frame.clone();
    edit::<verbatim_wire::Ipv4>(&mut other_ip, 14, |ip| ip.with_dst([10, 0, 0, 99].into()));
    verbatim_wire::mend_ip_checksum(Medium::Ethernet, &mut other_ip).unwrap();
    mend_icrc(Medium::Ethernet, &mut other_ip).unwrap();
    assert!(!is_taken(&mut peer, &other_ip));
}

#[test]
fn padding_is_not_payload() {
    let mut peer = peer();
    for length in 0..8u32 {
        let payload = vec![0xAB; length as usize];
        peer.put(&peer.ask(Opcode::RC_SEND_ONLY, length, &payload));
        assert_eq!(peer.completions.last().unwrap().byte_len, length);
    }
}

fn ethernet(to: MacAddress, ethertype: EtherType) -> Ethernet {
    Ethernet::default()
        .with_dst(to)
        .with_src(mac(B))
        .with_ethertype(ethertype)
}

fn v6(end: usize) -> Ipv6Addr {
    match address(end, true) {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!(),
    }
}

#[test]
fn answers_arp_for_own_address() {
    let mut adapter = Adapter::new(profile(A), &[]);
    let mut ask = |target: [u8; 4]| {
        let question = Arp::request(mac(B), [10, 0, 0, 2].into(), target.into());
        let header = ethernet(MacAddress::BROADCAST, EtherType::ARP);
        adapter.handle(Duration::ZERO, &[header.bytes(), question.bytes()].concat());
        adapter.poll_transmit()
    };
    let answer = ask([10, 0, 0, 1]).unwrap();
    let arp = Arp::from_bytes(&answer[14..]);
    assert_eq!(Ethernet::from_bytes(&answer).dst(), mac(B));
    assert_eq!((arp.operation(), arp.sender_mac()), (Arp::REPLY, mac(A)));
    assert_eq!(ask([10, 0, 0, 3]), None);
}

fn solicitation(target: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
    let question = NeighbourSolicitation::default().with_target(target);
    let message = question.message(v6(B), target, LinkLayerOption::source(mac(B)));
    let ip = Ipv6::default()
        .with_version(6)
        .with_payload_length(message.len() as u16)
        .with_next_header(IpProtocol::ICMP_V6)
        .with_hop_limit(hop_limit)
        .with_src(v6(B))
        .with_dst(target);
    let header = ethernet(mac(A), EtherType::IPV6);
    [header.bytes(), ip.bytes(), &message].concat()
}

#[test]
fn answers_neighbour_solicitation() {
    let mut adapter = Adapter::new(profile(A), &[]);
    adapter.handle(Duration::ZERO, &solicitation(v6(A), 255));
    let answer = adapter.poll_transmit().unwrap();
    let ip = Ipv6::from_bytes(&answer[14..]);
    let advertisement = NeighbourAdvertisement::from_bytes(&answer[54..]);
    assert_eq!((ip.src(), ip.dst(), ip.hop_limit()), (v6(A), v6(B), 255));
    assert_eq!((advertisement.kind(), advertisement.target()), (136, v6(A)));
    assert!(advertisement.solicited());
    assert_eq!(LinkLayerOption::from_bytes(&answer[78..]).mac(), mac(A));
    assert_eq!(
        verbatim_wire::ether::pseudo_header_checksum(ip.src(), ip.dst(), IpProtocol::ICMP_V6, &answer[54..]),
        0
    );
    let mut broken = solicitation(v6(A), 255);
    broken[60] ^= 1;
    for frame in [solicitation(v6(B), 255), solicitation(v6(A), 64), broken] {
        adapter.handle(Duration::ZERO, &frame);
        assert_eq!(adapter.poll_transmit(), None);
    }
}

#[test]
fn requests_address_once_a_second() {
    for v6 in [false, true] {
        let mut pair = Pair::new(&Setup {
            v6,
            timeout: verbatim_wire::AckTimeout::OFF,
            ..Setup::default()
        });
        let mut deaf = true;
        pair.fate = Box::new(move |now, _, _| {
            deaf &= now < Duration::from_secs(5);
            if deaf { vec![] } else { vec![Duration::from_micros(1)] }
        });
        let write = pair.request(1, Operation::Write, 0, 0, 10);
        pair.post(&write);
        pair.run_for(Duration::from_millis(4500));
        assert!(pair.packets(A).is_empty());
        let asked = |end| -> Vec<_> {
            let by = pair.sent.iter().filter(|(_, from, _)| *from == end);
            by.map(|(at, _, _)| at.as_secs()).collect()
        };
        assert_eq!(asked(A), [0, 1, 2, 3, 4]);
        assert_eq!(asked(B), [0, 1, 2], "it has nothing to send");
        pair.run_until_completions(1);
        assert_eq!(pair.completions[A].len(), 1);
    }
}

#[test]
fn frames_of_every_size_have_right_icrc() {
    let mut pair = Pair::new(&Setup {
        mtu: Mtu::B256,
        ..Setup::default()
    });
    for size in [0, 1, 2, 3, 255, 257, 1000] {
        for operation in [Operation::Write, Operation::Read] {
            let request = pair.request(1, operation, 0, 0, size);
            pair.post(&request);
        }
    }
    pair.run_until_completions(14);
    for end in [A, B] {
        for (_, packet) in pair.packets(end) {
            assert!(packet.icrc_is_right());
            assert!(packet.bth().validate().is_ok());
        }
    }
}

/// Generates a selector and random bytes.
fn bytes() -> impl Strategy<Value = (u8, Vec<u8>)> {
    (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..400))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_bytes_at_any_time_never_panic(
        frames in proptest::collection::vec((0u64..10_000_000, bytes()), 1..40),
        defect in proptest::option::of(proptest::sample::select(RcDefect::ALL)),
        seed: u64,
    ) {
        let defects: Vec<_> = defect.into_iter().collect();
        let mut peer = Peer::of(profile(A).vary(seed), &defects, &Setup::default());
        peer.post_receive(1, 0, 1000);
        for operation in [Operation::Read, Operation::FetchAdd, Operation::Send] {
            peer.post(1, operation, 600);
        }
        for (wait, (kind, bytes)) in frames {
            peer.run(Duration::from_nanos(wait));
            let transport = peer.ask(Opcode(kind & 0x1F), u32::from(kind >> 5), &[]);
            let mut frame = peer.frame(&transport);
            match kind % 4 {
                0 => frame.clone_from(&bytes),
                1 => frame.extend(&bytes),
                _ => {
                    // Make the ICRC right, so that the adapter does not drop the packet at the ICRC check.
                    let mut transport = transport;
                    transport.payload.clone_from(&bytes);
                    frame = peer.frame(&transport);
                    let _ = mend_icrc(Medium::Ethernet, &mut frame);
                }
            }
            peer.send_frame(&frame);
            let _ = Packet::parse(Medium::Ethernet, &frame);
        }
        peer.run(Duration::from_millis(1));
    }
}
