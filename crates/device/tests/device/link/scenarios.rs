//! Scenarios. Each scenario sends packets that concern one rule. A port with a defect in this rule then differs from a
//! conforming port in its outcomes or counters.

use verbatim_device::link::{
    Arrival, Counters, Delimiter, LinkChoices, LinkDefect, LinkPort, LinkProfile, Outcome, PortKind,
};
use verbatim_wire::values::{Hex8, Hex32};
use verbatim_wire::{Grh, Lid, Lnh, Mtu, Opcode, PKey, PortState, Qpn, Reserved};

use super::lengths::of_units;
use super::packets::*;

/// The defects of all ports, and a log of the outcomes and counters.
pub(crate) struct Bench {
    pub(crate) defects: Vec<LinkDefect>,
    pub(crate) log: Vec<(Outcome, Counters)>,
}

impl Bench {
    fn see(&mut self, profile: &LinkProfile, wire: &Wire) {
        self.log.push(wire.at(profile, &self.defects));
    }

    fn ca(&mut self, wire: &Wire) {
        self.see(&ca(), wire);
    }
}

pub(crate) fn states(b: &mut Bench) {
    for state in 1..=4 {
        let profile = LinkProfile {
            state: PortState(state),
            ..ca()
        };
        b.see(&profile, &local(4));
        b.see(&profile, &smp(LID));
    }
}

pub(crate) fn delimiters(b: &mut Bench) {
    for delimiter in [Delimiter::Egp, Delimiter::Ebp, Delimiter::Other] {
        b.ca(&local(4).ended(delimiter));
        b.ca(&local(4).bad_vcrc().ended(delimiter));
    }
}

pub(crate) fn pairs_with_a_bad_crc(b: &mut Bench) {
    let bad = local(64).bad_vcrc();
    b.ca(&bad.clone().lrh(|lrh| lrh.with_vl(12)));
    b.ca(&bad.clone().lrh(|lrh| lrh.with_lver(1)));
    b.ca(&bad.clone().lrh(|lrh| lrh.with_pkt_len(1000)));
    b.ca(&bad.clone().with_p_key(0x1234).bad_vcrc());
    b.ca(&bad.ended(Delimiter::Ebp));
}

pub(crate) fn vcrcs(b: &mut Bench) {
    let sound = local(4);
    let bits = sound.bytes.len() * 8;
    b.ca(&sound);
    b.ca(&raw(24));
    for bit in [0, 70, bits - 40, bits - 16, bits - 9, bits - 8, bits - 1] {
        b.ca(&sound.clone().flip(bit));
    }
}

pub(crate) fn icrcs(b: &mut Bench) {
    for sound in [local(4), global(4)] {
        let bits = sound.bytes.len() * 8;
        b.ca(&sound);
        for bit in [bits - 17, bits - 24, bits - 33, bits - 48] {
            b.ca(&sound.clone().flip(bit).with_vcrc());
        }
        b.ca(&sound.clone().bth(|bth| bth.with_fecn(true)).with_vcrc());
        b.ca(&sound.lrh(|lrh| lrh.with_vl(3)).with_vcrc());
    }
    b.ca(&global(4).lrh(|lrh| lrh.with_sl(7)).with_vcrc());
    b.ca(&global(4).grh(|grh| grh.with_flow_label(Hex32(7))).with_vcrc());
    b.ca(&global(4).grh(|grh| grh.with_t_class(Hex8(7))).with_vcrc());
    b.ca(&global(4).grh(|grh| grh.with_hop_lmt(7)).with_vcrc());
    // These fields contain only ones, so masking them for the ICRC changes nothing.
    let flow = |grh: Grh| grh.with_flow_label(Hex32(0xF_FFFF)).with_t_class(Hex8(0xFF));
    b.ca(&global(4).grh(flow).with_vcrc());
    b.ca(&global(4).grh(|grh| grh.with_hop_lmt(255)).with_vcrc());
    b.ca(&raw(24));
}

pub(crate) fn versions(b: &mut Bench) {
    for lver in 0..16 {
        b.ca(&local(4).lrh(|lrh| lrh.with_lver(lver)).mended());
    }
    b.ca(&local(4).lrh(|lrh| lrh.with_reserved_12(Reserved(1))).mended());
    for tver in 0..16 {
        b.ca(&local(4).bth(|bth| bth.with_tver(tver)).mended());
    }
}

pub(crate) fn packet_lengths(b: &mut Bench) {
    for by in [-4, -1, 0, 1, 2, 3, 4, 8] {
        b.ca(&local(64).resized(by));
        b.ca(&raw(64).resized(by));
    }
    b.ca(&local(64).lrh(|lrh| lrh.with_pkt_len(256 + 22)).mended());
    b.ca(&local(64).lrh(|lrh| lrh.with_reserved_32(Reserved(0x11))).mended());
}

pub(crate) fn shortest(b: &mut Bench) {
    for units in 3..8 {
        b.ca(&of_units(Lnh::RAW, units));
    }
    for units in 3..6 {
        b.ca(&of_units(Lnh::IBA_LOCAL, units));
    }
    b.ca(&local(0));
}

pub(crate) fn longest(b: &mut Bench) {
    for mtu in [Mtu::B256, Mtu::B2048] {
        let profile = LinkProfile { mtu_cap: mtu, ..ca() };
        let longest = 124 + (128 << mtu.0);
        for length in [longest - 124, longest - 120, longest, longest + 4, longest + 64] {
            let mut wire = local(0).resized(length - 24);
            wire.fit();
            b.see(&profile, &wire);
        }
    }
}

pub(crate) fn lanes(b: &mut Bench) {
    for vl in 0..16 {
        for wire in [local(4), global(4), raw(24)] {
            b.ca(&wire.on_vl(vl));
        }
        b.ca(&smp(LID).on_vl(vl));
    }
    let mut long = smp(LID).resized(4);
    long.fit();
    b.ca(&long);
    b.ca(&smp(LID).bth(|bth| bth.with_dest_qp(Qpn::GSI)).mended());
    b.ca(&smp(LID).bth(|bth| bth.with_opcode(Opcode::UC_SEND_ONLY)).mended());
}

pub(crate) fn unicast(b: &mut Bench) {
    for lmc in [0, 1, 3, 7] {
        let base: u16 = 0x2580;
        let profile = LinkProfile {
            lid: Lid(base),
            lmc,
            ..ca()
        };
        let end = base + (1 << lmc);
        for dlid in [
            base,
            base - 1,
            base + 1,
            end - 1,
            end,
            base ^ 0x4000,
            base - 0x80,
            base + 0x100,
            0,
        ] {
            b.see(&profile, &local(4).to(dlid));
        }
    }
}

pub(crate) fn special_lids(b: &mut Bench) {
    for dlid in [0, 0xBFFF, 0xC000, 0xFFFE, 0xFFFF] {
        for wire in [local(4), global(4), raw(24), smp(LID)] {
            b.ca(&wire.clone().to(dlid));
            b.see(&LinkProfile::switch_in_transit(LID), &wire.to(dlid));
        }
    }
}

pub(crate) fn routes(b: &mut Bench) {
    b.ca(&global(4));
    b.ca(&global(4).grh(|grh| grh.with_ip_ver(4)).mended());
    b.ca(&global(4).grh(|grh| grh.with_nxt_hdr(Hex8(17))).mended());
    b.ca(&global(4).grh(|grh| grh.with_pay_len(16)).mended());
}

pub(crate) fn partitions(b: &mut Bench) {
    let keys = [0x8123, 0x0456, 0x8000, 0x8789];
    let profile = LinkProfile {
        p_keys: keys.map(PKey).to_vec(),
        ..ca()
    };
    for key in [0x8123, 0x0123, 0x0456, 0x8456, 0x7777, 0x8000, 0x8789] {
        b.see(&profile, &local(4).with_p_key(key));
        b.see(&profile, &smp(LID).with_p_key(key));
    }
    b.see(&profile, &local(4).with_p_key(0xFFFF));
    b.see(&profile, &global(4).with_p_key(0x7777));
}

pub(crate) fn filters(b: &mut Bench) {
    for kind in [PortKind::Switch, PortKind::Router, PortKind::ChannelAdapter] {
        let profile = LinkProfile {
            kind,
            filters_raw: true,
            enforces_partitions: true,
            ..LinkProfile::switch_in_transit(LID)
        };
        b.see(&profile, &raw(24));
        b.see(&profile, &local(4).with_p_key(0x1234));
    }
}

pub(crate) fn transit(b: &mut Bench) {
    for kind in [PortKind::Switch, PortKind::Router, PortKind::ChannelAdapter] {
        for is_destination in [false, true] {
            for corrupts_and_forwards in [false, true] {
                let profile = LinkProfile {
                    kind,
                    is_destination,
                    choices: LinkChoices {
                        corrupts_and_forwards,
                        ..LinkChoices::default()
                    },
                    ..ca()
                };
                b.see(&profile, &local(4));
                b.see(&profile, &local(4).bad_vcrc());
                b.see(&profile, &local(64).resized(4));
                b.see(&profile, &local(4).on_vl(12));
                b.see(&profile, &local(4).on_vl(12).bad_vcrc());
            }
        }
    }
}

pub(crate) fn counters_at_their_maximum(b: &mut Bench) {
    let full = Counters {
        port_rcv_errors: u16::MAX,
        port_malformed_pkt_errors: u16::MAX,
        ..Counters::default()
    };
    let mut port = LinkPort::new(ca(), &b.defects);
    port.set_counters(full);
    let wire = local(4).on_vl(12);
    let outcome = port.receive(&Arrival::good(&wire.bytes));
    b.log.push((outcome, *port.counters()));
}
