//! A valid packet, its port, and one fault for each check.

use verbatim_wire::packet::packet;
use verbatim_wire::values::Hex8;
use verbatim_wire::{
    Bth, Form, Grh, Lid, Lrh, Medium, Mtu, Network, Opcode, PKey, Packet, PortState, Psn, Qpn, Transport, edit,
};

use super::link::{Check, Delimiter, Kind, Port, Received};

/// Packet at a port, and the delimiter that ended it.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) port: Port,
    pub(crate) bytes: Vec<u8>,
    pub(crate) delimiter: Delimiter,
}

impl Arrival {
    pub(crate) fn received(&self) -> Received<'_> {
        Received {
            medium: Medium::InfiniBand,
            bytes: &self.bytes,
            delimiter: Some(self.delimiter),
            is_whole: true,
        }
    }
}

/// Returns the port that the packets are for: LIDs 8 to 11, MTU 256, VLs 0 to 7, one partition.
pub(crate) fn port(kind: Kind, is_destination: bool) -> Port {
    Port {
        kind,
        is_destination,
        lid: Some(Lid(8)),
        lmc: 2,
        mtu_cap: Mtu::B256,
        vls: 8,
        state: PortState::ACTIVE,
        p_keys: Some(vec![PKey(0x8001)]),
    }
}

/// Returns a valid packet for [`port`]: RC SEND Only, with a GRH or without, 16 bytes of payload.
pub(crate) fn sound(form: Form) -> Vec<u8> {
    made(form, 16)
}

fn made(form: Form, payload: usize) -> Vec<u8> {
    let lrh = Lrh::default().with_slid(Lid(3)).with_dlid(Lid(10)).with_vl(1);
    let network = Network::InfiniBand {
        lrh,
        grh: (form == Form::InfiniBandGlobal).then(|| Grh::default().with_hop_lmt(7)),
    };
    let bth = Bth::default()
        .with_opcode(Opcode::RC_SEND_ONLY)
        .with_p_key(PKey(0x0001))
        .with_dest_qp(Qpn(0x11))
        .with_psn(Psn(7));
    let payload = (0..payload).map(|at| at.to_le_bytes()[0]).collect();
    packet(
        &network,
        &Transport {
            bth,
            payload,
            ..Transport::default()
        },
    )
}

/// Returns a packet with a GRH that fails exactly these checks.
pub(crate) fn failing(checks: &[Check], mut port: Port) -> Arrival {
    let has = |check| checks.contains(&check);
    let mut bytes = made(Form::InfiniBandGlobal, if has(Check::Mtu) { 512 } else { 16 });
    let mut delimiter = Delimiter::Egp;
    let at = Packet::parse(Medium::InfiniBand, &bytes).unwrap().offsets();
    let (lrh, grh) = (at.lrh.unwrap(), at.grh.unwrap());
    for check in checks {
        match check {
            Check::Delimiter => delimiter = Delimiter::Ebp,
            // The CRCs are changed at the end, after all other fields. The long packet was built above.
            Check::Vcrc | Check::Icrc | Check::Mtu => {}
            Check::LinkVersion => edit(&mut bytes, lrh, |lrh: Lrh| lrh.with_lver(3)),
            Check::Length => edit(&mut bytes, lrh, |lrh: Lrh| lrh.with_pkt_len(lrh.pkt_len() + 1)),
            Check::VirtualLane => edit(&mut bytes, lrh, |lrh: Lrh| lrh.with_vl(9)),
            Check::PortState => port.state = PortState::INITIALIZE,
            // A packet to QP0 has no P_Key check. If the packet must also fail that check, it goes to another queue
            // pair, on VL 15.
            Check::ManagementLane if has(Check::PKey) => edit(&mut bytes, lrh, |lrh: Lrh| lrh.with_vl(15)),
            Check::ManagementLane => edit(&mut bytes, at.bth, |bth: Bth| bth.with_dest_qp(Qpn::SMI)),
            Check::Dlid => edit(&mut bytes, lrh, |lrh: Lrh| lrh.with_dlid(Lid(12))),
            Check::IpHeader => panic!("native InfiniBand has no IPv4 header"),
            Check::Grh => edit(&mut bytes, grh, |grh: Grh| grh.with_nxt_hdr(Hex8(17))),
            Check::TransportVersion => edit(&mut bytes, at.bth, |bth: Bth| bth.with_tver(1)),
            Check::PKey => edit(&mut bytes, at.bth, |bth: Bth| bth.with_p_key(PKey(0x8002))),
        }
    }
    at.mend_icrc(&mut bytes);
    if has(Check::Icrc) {
        bytes[at.icrc.unwrap()] ^= 1;
    }
    at.mend_vcrc(&mut bytes);
    if has(Check::Vcrc) {
        bytes[at.vcrc.unwrap()] ^= 1;
    }
    Arrival { port, bytes, delimiter }
}

/// Returns every check of native InfiniBand.
pub(crate) fn native() -> impl Iterator<Item = Check> + Clone {
    Check::ALL.into_iter().filter(|check| *check != Check::IpHeader)
}
