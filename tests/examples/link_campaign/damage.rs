//! Damage to a packet, and repairs that hide the damage from some checks.

use verbatim_device::link::LinkProfile;
use verbatim_wire::crc::{ICRC_LENGTH, VCRC_LENGTH, icrc, vcrc};
use verbatim_wire::values::Hex8;
use verbatim_wire::{Bth, Grh, Layout, Lid, Lnh, Lrh, PKey, Qpn, Reserved, edit};

use crate::case::{draw_dlid, draw_p_key};
use verbatim_lab::campaign::Dice;

/// One damage, and the repairs after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) damage: Damage,
    pub(crate) mends_length: bool,
    pub(crate) mends_icrc: bool,
    pub(crate) mends_vcrc: bool,
}

/// One damage. Offsets count from the front or from the end, and wrap around in shorter packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    Nothing,
    FlipBit(usize),
    FlipBitFromEnd(usize),
    SetByte(usize, u8),
    /// Removes the bytes after this length.
    CutTo(usize),
    CutFromEnd(usize),
    /// Appends bytes.
    Extend(usize),
    /// Inserts bytes before the CRCs.
    PutIn(usize),
    TakeOut(usize),
    Vl(u8),
    LVer(u8),
    Lnh(u8),
    Dlid(Lid),
    PktLen(u16),
    PktLenBy(i16),
    LrhReserved(u64),
    IpVer(u8),
    NxtHdr(u8),
    PayLen(u16),
    PayLenBy(i16),
    TVer(u8),
    PKey(PKey),
    DestQp(u32),
    BthByte4(u8),
    SwapCrcs,
}

impl Step {
    pub(crate) fn draw(dice: &mut Dice, port: &LinkProfile) -> Self {
        let damage = Damage::draw(dice, port);
        // A wrong CRC hides most damage from later checks, so most steps repair the CRCs.
        let mends = dice.below(10);
        Self {
            damage,
            mends_length: dice.percent(if damage.changes_length() { 50 } else { 3 }),
            mends_icrc: mends < 7,
            mends_vcrc: mends < 8,
        }
    }

    pub(crate) fn strike(&self, bytes: &mut Vec<u8>) {
        self.damage.strike(bytes);
        if self.mends_length {
            let units = bytes.len().saturating_sub(VCRC_LENGTH) / 4;
            edit::<Lrh>(bytes, 0, |lrh| lrh.with_pkt_len(units as u16));
            if global(bytes) {
                let behind = (4 * units).saturating_sub(Lrh::SIZE + Grh::SIZE);
                edit::<Grh>(bytes, Lrh::SIZE, |grh| grh.with_pay_len(behind as u16));
            }
        }
        if self.mends_icrc
            && let Some(at) = bytes.len().checked_sub(VCRC_LENGTH + ICRC_LENGTH)
            && let Some(right) = icrc(&bytes[..at])
        {
            bytes[at..at + ICRC_LENGTH].copy_from_slice(&right);
        }
        if self.mends_vcrc
            && let Some(at) = bytes.len().checked_sub(VCRC_LENGTH)
        {
            let right = vcrc(&bytes[..at]);
            bytes[at..].copy_from_slice(&right);
        }
    }
}

fn global(bytes: &[u8]) -> bool {
    bytes.get(..Lrh::SIZE).map(|lrh| Lrh::from_bytes(lrh).lnh()) == Some(Lnh::IBA_GLOBAL)
}

impl Damage {
    fn draw(dice: &mut Dice, port: &LinkProfile) -> Self {
        let near = dice.pick(&[-2, -1, 1, 2, 64, 256]);
        match dice.below(28) {
            0 => Self::Nothing,
            1..=3 => Self::FlipBit(dice.below(8 * 64)),
            4 => Self::FlipBit(dice.below(8 * 4400)),
            5 => Self::FlipBitFromEnd(dice.below(8 * 8)),
            6 => Self::SetByte(dice.below(64), dice.byte()),
            7 => Self::CutTo(dice.below(80)),
            8 => Self::CutFromEnd(1 + dice.below(8)),
            9 => Self::Extend(1 + dice.below(8)),
            10 => Self::PutIn(dice.pick(&[1, 2, 3, 4, 8, 64])),
            11 => Self::TakeOut(dice.pick(&[1, 2, 3, 4, 8, 64])),
            12 => Self::Vl(dice.byte()),
            13 => Self::LVer(dice.byte()),
            14 => Self::Lnh(dice.byte()),
            15 | 16 => Self::Dlid(draw_dlid(dice, port)),
            17 => Self::PktLen(dice.pick(&[0, 1, 2, 4, 5, 6, 7, 12, 15, 16, 0x7FF])),
            18 => Self::PktLenBy(near),
            19 => Self::LrhReserved(dice.draw()),
            20 => Self::IpVer(dice.byte()),
            21 => Self::NxtHdr(dice.byte()),
            22 => {
                let length = dice.short();
                dice.pick(&[Self::PayLen(length), Self::PayLenBy(near), Self::PayLenBy(4 * near)])
            }
            23 => Self::TVer(dice.byte()),
            24 => Self::PKey(draw_p_key(dice, port)),
            25 => Self::DestQp(dice.pick(&[0, 1, 2, 0xFF_FFFF])),
            26 => Self::BthByte4(dice.byte()),
            _ => Self::SwapCrcs,
        }
    }

    fn changes_length(self) -> bool {
        matches!(
            self,
            Self::CutTo(_) | Self::CutFromEnd(_) | Self::Extend(_) | Self::PutIn(_) | Self::TakeOut(_)
        )
    }

    fn strike(self, bytes: &mut Vec<u8>) {
        let bits = bytes.len() * 8;
        let trailer = VCRC_LENGTH + ICRC_LENGTH;
        match self {
            Self::Nothing => {}
            Self::FlipBit(bit) if bits > 0 => bytes[bit % bits / 8] ^= 0x80 >> (bit % 8),
            Self::FlipBitFromEnd(bit) if bits > 0 => bytes[(bits - 1 - bit % bits) / 8] ^= 1 << (bit % 8),
            Self::FlipBit(_) | Self::FlipBitFromEnd(_) => {}
            Self::SetByte(at, byte) => {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            Self::CutTo(length) => bytes.truncate(length),
            Self::CutFromEnd(count) => bytes.truncate(bytes.len().saturating_sub(count)),
            Self::Extend(count) => bytes.extend(vec![0xC3; count]),
            Self::PutIn(count) => {
                let at = bytes.len().saturating_sub(trailer);
                bytes.splice(at..at, vec![0x5A; count]);
            }
            Self::TakeOut(count) => {
                let end = bytes.len().saturating_sub(trailer);
                bytes.drain(end.saturating_sub(count)..end);
            }
            Self::Vl(vl) => edit::<Lrh>(bytes, 0, |lrh| lrh.with_vl(vl & 15)),
            Self::LVer(lver) => edit::<Lrh>(bytes, 0, |lrh| lrh.with_lver(lver & 15)),
            Self::Lnh(lnh) => edit::<Lrh>(bytes, 0, |lrh| lrh.with_lnh(Lnh(lnh & 3))),
            Self::Dlid(dlid) => edit::<Lrh>(bytes, 0, |lrh| lrh.with_dlid(dlid)),
            Self::PktLen(units) => edit::<Lrh>(bytes, 0, |lrh| lrh.with_pkt_len(units)),
            Self::PktLenBy(by) => edit::<Lrh>(bytes, 0, |lrh| {
                lrh.with_pkt_len(lrh.pkt_len().wrapping_add_signed(by) & 0x7FF)
            }),
            Self::LrhReserved(ones) => edit::<Lrh>(bytes, 0, |lrh| {
                lrh.with_reserved_12(Reserved(ones & 3))
                    .with_reserved_32(Reserved(ones >> 8 & 0x1F))
            }),
            Self::IpVer(version) => Self::grh(bytes, |grh| grh.with_ip_ver(version & 15)),
            Self::NxtHdr(next) => Self::grh(bytes, |grh| grh.with_nxt_hdr(Hex8(next))),
            Self::PayLen(length) => Self::grh(bytes, |grh| grh.with_pay_len(length)),
            Self::PayLenBy(by) => Self::grh(bytes, |grh| grh.with_pay_len(grh.pay_len().wrapping_add_signed(by))),
            Self::TVer(version) => Self::bth(bytes, |bth| bth.with_tver(version & 15)),
            Self::PKey(p_key) => Self::bth(bytes, |bth| bth.with_p_key(p_key)),
            Self::DestQp(qp) => Self::bth(bytes, |bth| bth.with_dest_qp(Qpn(qp))),
            Self::BthByte4(byte) => {
                let at = bth_at(bytes) + 4;
                Self::SetByte(at, byte).strike(bytes);
            }
            Self::SwapCrcs => {
                let at = bytes.len().saturating_sub(trailer);
                bytes[at..].reverse();
            }
        }
    }

    /// Changes the bytes after the LRH as if they were a GRH, for any LNH.
    fn grh(bytes: &mut [u8], change: impl FnOnce(Grh) -> Grh) {
        edit(bytes, Lrh::SIZE, change);
    }

    fn bth(bytes: &mut [u8], change: impl FnOnce(Bth) -> Bth) {
        edit(bytes, bth_at(bytes), change);
    }
}

fn bth_at(bytes: &[u8]) -> usize {
    Lrh::SIZE + if global(bytes) { Grh::SIZE } else { 0 }
}
