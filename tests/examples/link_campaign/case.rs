//! A case: a port, a sound packet for it, and the damage to the packet.

use verbatim_device::link::{Delimiter, LinkChoices, LinkProfile, PortKind};
use verbatim_wire::packet::packet;
use verbatim_wire::values::{Hex8, Hex32};
use verbatim_wire::{
    Bth, Deth, Grh, Layout, Lid, Lnh, Lrh, MAD_LENGTH, Mtu, Network, Opcode, PKey, PortState, Psn, Qpn, Transport,
};

use crate::damage::Step;
use verbatim_lab::campaign::Dice;

/// A case. The debug output shows how to make the case again.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) port: LinkProfile,
    pub(crate) packet: Sound,
    pub(crate) steps: Vec<Step>,
    pub(crate) delimiter: Delimiter,
}

/// A packet of a conforming sender.
#[derive(Clone, Debug)]
pub(crate) struct Sound {
    pub(crate) lnh: Lnh,
    pub(crate) vl: u8,
    pub(crate) sl: u8,
    pub(crate) dlid: Lid,
    pub(crate) opcode: Opcode,
    pub(crate) dest_qp: Qpn,
    pub(crate) p_key: PKey,
    /// Number of bytes after the BTH, or after the LRH of a raw packet. All these bytes are random, because the link
    /// layer does not read the extended headers of the opcode.
    pub(crate) payload: usize,
    /// Seed of the random contents.
    pub(crate) fill: u64,
}

const MANAGEMENT_LANE: u8 = 15;
/// Bytes of LRH, BTH and ICRC.
const AROUND_PAYLOAD: usize = 24;

impl Case {
    pub(crate) fn draw(seed: u64, number: u64) -> Self {
        let dice = &mut Dice::of(seed, number);
        let port = draw_port(dice);
        let packet = Sound::draw(dice, &port);
        let steps = (0..dice.pick(&[0, 1, 1, 1, 1, 2, 2, 3]))
            .map(|_| Step::draw(dice, &port))
            .collect();
        let delimiter = match dice.below(40) {
            0 => Delimiter::Ebp,
            1 => Delimiter::Other,
            _ => Delimiter::Egp,
        };
        Self {
            port,
            packet,
            steps,
            delimiter,
        }
    }

    /// Returns the bytes that arrive at the port.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.packet.bytes();
        for step in &self.steps {
            step.strike(&mut bytes);
        }
        bytes
    }
}

fn draw_port(dice: &mut Dice) -> LinkProfile {
    let lmc = dice.pick(&[0, 0, 1, 2, 3, 7]);
    let base = match dice.below(10) {
        0 => 1,
        1 => 0xBFFF,
        _ => 1 + dice.below(0xBFFF),
    };
    let lid = (base >> lmc << lmc).max(1 << lmc) as u16;
    let p_keys = (0..1 + dice.below(4))
        .map(|_| match dice.below(6) {
            0 => PKey(0xFFFF),
            1 => PKey(0x7FFF),
            2 => PKey(dice.pick(&[0x0000, 0x8000])),
            _ => PKey(dice.short()),
        })
        .collect();
    LinkProfile {
        kind: dice.pick(&[
            PortKind::ChannelAdapter,
            PortKind::ChannelAdapter,
            PortKind::Switch,
            PortKind::Router,
        ]),
        is_destination: dice.percent(50),
        lid: Lid(lid),
        lmc,
        mtu_cap: dice.pick(&[Mtu::B256, Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096]),
        data_vls: dice.pick(&[1, 2, 4, 8, 15]),
        state: dice.pick(&[
            PortState::ACTIVE,
            PortState::ACTIVE,
            PortState::ACTIVE,
            PortState::ACTIVE,
            PortState::ACTIVE,
            PortState::ACTIVE,
            PortState::ARMED,
            PortState::INITIALIZE,
            PortState::DOWN,
        ]),
        p_keys,
        filters_raw: false,
        enforces_partitions: dice.percent(50),
        choices: LinkChoices::default(),
    }
}

/// Draws a LID near the port's LIDs, or a special LID.
pub(crate) fn draw_dlid(dice: &mut Dice, port: &LinkProfile) -> Lid {
    let (base, range) = (usize::from(port.lid.0), 1 << port.lmc);
    Lid(match dice.below(20) {
        0 => 0,
        1 => 0xFFFF,
        2 => dice.pick(&[0xBFFF, 0xC000, 0xFFFE]),
        3 => 0xC000 + dice.below(0x3FFF),
        4 => base - 1,
        5 => base + range,
        6 => base ^ (1 << dice.below(16)),
        7 => dice.below(0x1_0000),
        _ => base + dice.below(range),
    } as u16)
}

/// Draws a P_Key equal to or near a P_Key of the port.
pub(crate) fn draw_p_key(dice: &mut Dice, port: &LinkProfile) -> PKey {
    let ours = dice.pick(&port.p_keys).0;
    PKey(match dice.below(8) {
        0 => dice.short(),
        1 => ours ^ 0x8000,
        2 => ours ^ (1 << dice.below(16)),
        _ => ours,
    })
}

impl Sound {
    /// Draws a packet. Without damage, the port accepts most of these packets.
    fn draw(dice: &mut Dice, port: &LinkProfile) -> Self {
        let mut packet = Self::draw_any(dice, port);
        if dice.percent(75) {
            packet.dlid = Lid(port.lid.0 + dice.below(1 << port.lmc) as u16);
            packet.vl = dice.below(port.data_vls.into()) as u8;
            packet.dest_qp = Qpn(1 + packet.dest_qp.0 / 2);
            let named = port.p_keys.iter().find(|key| key.0 & 0x7FFF != 0);
            packet.p_key = named.map_or(packet.p_key, |key| PKey(key.0 | 0x8000));
        }
        if dice.percent(10) {
            packet.vl = MANAGEMENT_LANE;
            packet.dest_qp = Qpn::SMI;
            packet.opcode = Opcode::UD_SEND_ONLY;
            packet.payload = Deth::SIZE + MAD_LENGTH;
            if dice.percent(90) {
                packet.lnh = Lnh::IBA_LOCAL;
            }
            if dice.percent(30) {
                packet.dlid = Lid::PERMISSIVE;
            }
        }
        packet
    }

    fn draw_any(dice: &mut Dice, port: &LinkProfile) -> Self {
        let mtu = port.mtu_cap.bytes().unwrap_or(256) as usize;
        Self {
            lnh: dice.pick(&[
                Lnh::RAW,
                Lnh::IPV6,
                Lnh::IBA_GLOBAL,
                Lnh::IBA_GLOBAL,
                Lnh::IBA_LOCAL,
                Lnh::IBA_LOCAL,
                Lnh::IBA_LOCAL,
            ]),
            vl: match dice.below(4) {
                0 => dice.below(16) as u8,
                1 => port.data_vls.min(MANAGEMENT_LANE - 1),
                _ => dice.below(port.data_vls.into()) as u8,
            },
            sl: dice.below(16) as u8,
            dlid: draw_dlid(dice, port),
            opcode: Opcode(dice.byte()),
            dest_qp: Qpn(match dice.below(8) {
                0 => dice.pick(&[0, 1, 0xFF_FFFF]),
                _ => dice.below(0x100_0000) as u32,
            }),
            p_key: draw_p_key(dice, port),
            payload: match dice.below(10) {
                0 => 0,
                1..=4 => dice.below(80),
                5..=7 => dice.below(mtu + 1),
                // Near the maximum length.
                8 => (mtu + 124 - AROUND_PAYLOAD + 12).saturating_sub(dice.below(64)),
                _ => dice.below(4400),
            },
            fill: dice.draw(),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut dice = Dice::of(self.fill, 0);
        let lrh = Lrh::default()
            .with_vl(self.vl)
            .with_sl(self.sl)
            .with_dlid(self.dlid)
            .with_slid(Lid(dice.short()));
        let grh = Grh::default()
            .with_t_class(Hex8(dice.byte()))
            .with_flow_label(Hex32(u32::from(dice.short())))
            .with_hop_lmt(dice.byte())
            .with_src(u128::from(dice.draw()).into())
            .with_dst(u128::from(dice.draw()).into());
        let mut payload = Vec::with_capacity(self.payload + 8);
        while payload.len() < self.payload {
            payload.extend(dice.draw().to_le_bytes());
        }
        payload.truncate(self.payload);
        if matches!(self.lnh, Lnh::RAW | Lnh::IPV6) {
            return raw(lrh.with_lnh(self.lnh), grh, &payload);
        }
        let transport = Transport {
            bth: Bth::default()
                .with_opcode(self.opcode)
                .with_p_key(self.p_key)
                .with_dest_qp(self.dest_qp)
                .with_psn(Psn::new(dice.short().into()))
                .with_fecn(dice.percent(20))
                .with_becn(dice.percent(20)),
            payload,
            ..Transport::default()
        };
        let grh = (self.lnh == Lnh::IBA_GLOBAL).then_some(grh);
        packet(&Network::InfiniBand { lrh, grh }, &transport)
    }
}

/// Returns a raw packet, whose payload follows an EtherType or an IPv6 header.
fn raw(lrh: Lrh, grh: Grh, payload: &[u8]) -> Vec<u8> {
    let length = payload.len().next_multiple_of(4).max(8);
    let mut body = payload.to_vec();
    body.resize(length, 0);
    let mut bytes = Vec::with_capacity(length + 64);
    let is_ipv6 = lrh.lnh() == Lnh::IPV6;
    let header = if is_ipv6 { Grh::SIZE } else { 4 };
    bytes.extend(lrh.with_pkt_len(((Lrh::SIZE + header + length) / 4) as u16).bytes());
    if is_ipv6 {
        let ip = grh.with_ip_ver(6).with_nxt_hdr(Hex8(59)).with_pay_len(length as u16);
        bytes.extend(ip.bytes());
    } else {
        bytes.extend([0, 0, 0x08, 0x00]);
    }
    bytes.extend(body);
    bytes.extend(verbatim_wire::crc::vcrc(&bytes));
    bytes
}
