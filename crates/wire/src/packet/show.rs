//! The one-line text form of a packet.

use core::fmt;

use super::form::Form;
use super::parse::Packet;

impl fmt::Display for Packet<'_> {
    /// Prints source, destination, operation and header fields: `10.0.0.2 > 10.0.0.1 RC SEND Only DestQP 0x000011 PSN
    /// 0x000007 A, 1024 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.form(), self.ipv4(), self.ipv6(), self.grh(), self.lrh()) {
            (Form::RoceV2Ipv4, Some(ip), ..) => write!(f, "{} > {}", ip.src(), ip.dst())?,
            (Form::RoceV2Ipv6, _, Some(ip), ..) => write!(f, "{} > {}", ip.src(), ip.dst())?,
            (Form::RoceV1 | Form::InfiniBandGlobal, _, _, Some(grh), _) => write!(f, "{} > {}", grh.src(), grh.dst())?,
            (.., Some(lrh)) => write!(f, "LID {} > LID {}", lrh.slid(), lrh.dlid())?,
            _ => {}
        }
        let bth = self.bth();
        write!(f, " {} DestQP {} PSN {}", bth.opcode(), bth.dest_qp(), bth.psn())?;
        for (set, word) in [
            (bth.solicited_event(), " SE"),
            (bth.fecn(), " FECN"),
            (bth.becn(), " BECN"),
            (bth.ack_request(), " A"),
        ] {
            f.write_str(if set { word } else { "" })?;
        }
        if let Some(deth) = self.deth() {
            write!(f, " SrcQP {} Q_Key {}", deth.src_qp(), deth.q_key())?;
        }
        if let Some(reth) = self.reth() {
            write!(f, " VA {} R_Key {} DMALen {}", reth.va(), reth.r_key(), reth.dma_len())?;
        }
        if let Some(atomic) = self.atomic() {
            write!(
                f,
                " VA {} R_Key {} SwapDt {} CmpDt {}",
                atomic.va(),
                atomic.r_key(),
                atomic.swap_add(),
                atomic.compare()
            )?;
        }
        if let Some(aeth) = self.aeth() {
            write!(f, " {} MSN {}", aeth.syndrome(), aeth.msn())?;
        }
        if let Some(ack) = self.atomic_ack() {
            write!(f, " original {}", ack.original())?;
        }
        if let Some(imm) = self.imm() {
            write!(f, " ImmDt {}", imm.data())?;
        }
        if let Some(ieth) = self.ieth() {
            write!(f, " invalidates R_Key {}", ieth.r_key())?;
        }
        if let Some(name) = self.missing_header() {
            write!(f, ", too short for its {name}")?;
        }
        let payload = self.payload().len();
        if payload != 0 || bth.opcode().headers().payload_allowed() {
            write!(f, ", {payload} bytes")?;
        }
        if !self.icrc_is_right() {
            f.write_str(", ICRC wrong")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
