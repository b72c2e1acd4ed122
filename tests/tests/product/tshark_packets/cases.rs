//! Packets of every form and opcode with random fields, and their headers.

use verbatim_tests::oracle::Random;
use verbatim_wire::packet::packet;
use verbatim_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ethernet, Field, Form, Grh, Ieth, ImmDt, Ipv4, Ipv6, Layout, Link, Lrh,
    Medium, Network, Opcode, Packet, Qpn, Reth, Transport, Udp, Vlan,
};

/// A header in a packet.
pub(crate) struct Object {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) bytes: Vec<u8>,
}

/// A packet, and the headers that tshark should find in it.
pub(crate) struct Case {
    pub(crate) medium: Medium,
    pub(crate) opcode: Opcode,
    pub(crate) bytes: Vec<u8>,
    pub(crate) before_bth: Vec<Object>,
    pub(crate) from_bth: Vec<Object>,
}

/// Returns a header of random bits.
fn any<L: Layout>(random: &mut Random) -> L {
    L::from_bytes(&random.bytes(L::SIZE))
}

/// Returns random headers before the BTH. Avoids values that make tshark take the packet for another protocol.
fn network(random: &mut Random, form: Form, tagged: bool) -> Network {
    let link = Link {
        ethernet: any::<Ethernet>(random),
        vlan: tagged.then(|| any::<Vlan>(random)),
    };
    // If tshark knows a protocol for the source port, it ignores the destination port.
    let udp = any::<Udp>(random);
    let udp = udp.with_src_port(udp.src_port() | 0xC000);
    match form {
        Form::InfiniBandLocal => Network::InfiniBand {
            lrh: any::<Lrh>(random),
            grh: None,
        },
        Form::InfiniBandGlobal => Network::InfiniBand {
            lrh: any::<Lrh>(random),
            grh: Some(any::<Grh>(random)),
        },
        Form::RoceV1 => Network::RoceV1 {
            link,
            grh: any::<Grh>(random),
        },
        Form::RoceV2Ipv4 => Network::RoceV2Ipv4 {
            link,
            ip: any::<Ipv4>(random),
            udp,
        },
        Form::RoceV2Ipv6 => Network::RoceV2Ipv6 {
            link,
            ip: any::<Ipv6>(random),
            udp,
        },
    }
}

fn transport(random: &mut Random, opcode: Opcode, length: usize) -> Transport {
    let there = opcode.headers();
    let bth = any::<Bth>(random).with_opcode(opcode);
    Transport {
        // Avoid management QPs: random bytes are not a MAD.
        bth: bth.with_dest_qp(Qpn(bth.dest_qp().0 | 0x10)),
        rdeth: there.rdeth().then(|| any(random)),
        deth: there.deth().then(|| any(random)),
        xrceth: there.xrceth().then(|| any(random)),
        feth: there.feth().then(|| any(random)),
        reth: there.reth().then(|| any(random)),
        atomic: there.atomic().then(|| any(random)),
        aeth: there.aeth().then(|| any(random)),
        atomic_ack: there.atomic_ack().then(|| any(random)),
        imm: there.imm().then(|| any(random)),
        ieth: there.ieth().then(|| any(random)),
        payload: match opcode {
            Opcode::CNP => vec![0; 16],
            _ if there.payload_allowed() => random.bytes(length),
            _ => Vec::new(),
        },
    }
}

fn put<L: Layout>(objects: &mut Vec<Object>, header: Option<L>) {
    objects.extend(header.map(|header| Object {
        name: L::NAME,
        fields: L::FIELDS,
        bytes: header.bytes().to_vec(),
    }));
}

fn case(network: &Network, transport: &Transport) -> Case {
    let bytes = packet(network, transport);
    let seen = Packet::parse(network.medium(), &bytes).unwrap();
    let mut before_bth = Vec::new();
    put(&mut before_bth, seen.ethernet());
    put(&mut before_bth, seen.vlan());
    put(&mut before_bth, seen.ipv4());
    put(&mut before_bth, seen.ipv6());
    put(&mut before_bth, seen.udp());
    put(&mut before_bth, seen.lrh());
    put(&mut before_bth, seen.grh());
    // Take the headers from the built packet instead of the parsed packet.
    let mut from_bth = Vec::new();
    put(&mut from_bth, Some(transport.fitted_bth()));
    put::<Deth>(&mut from_bth, transport.deth);
    put::<Reth>(&mut from_bth, transport.reth);
    put::<AtomicEth>(&mut from_bth, transport.atomic);
    put::<Aeth>(&mut from_bth, transport.aeth);
    put::<AtomicAckEth>(&mut from_bth, transport.atomic_ack);
    put::<ImmDt>(&mut from_bth, transport.imm);
    put::<Ieth>(&mut from_bth, transport.ieth);
    Case {
        medium: network.medium(),
        opcode: transport.bth.opcode(),
        bytes,
        before_bth,
        from_bth,
    }
}

/// Returns cases of every named opcode in every form, with and without a VLAN tag. The cases are the same in each run.
pub(crate) fn cases() -> Vec<Case> {
    let mut random = Random(0x0701_B5EE);
    let mut cases = Vec::new();
    for tagged in [false, true] {
        for form in Form::ALL {
            for opcode in (0..=255).map(Opcode).filter(|opcode| opcode.name().is_some()) {
                let length = cases.len() % 61;
                let network = network(&mut random, form, tagged);
                cases.push(case(&network, &transport(&mut random, opcode, length)));
            }
        }
    }
    cases
}
