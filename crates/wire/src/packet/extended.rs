//! The extended transport headers, which follow the BTH. The DETH is in the parent module.
//!
//! Source of the layouts: architecture 9.3 (RDETH, RETH, AtomicETH, XRCETH), 9.5 (AETH, AtomicAckETH, ImmDt, IETH);
//! `rxe_hdr.h` of Linux (RETH, AETH, AtomicETH, AtomicAckETH, ImmDt, IETH, FETH).

use crate::layout::layout;
use crate::packet::codes::Qpn;
use crate::packet::times::Syndrome;
use crate::value::{Reserved, hex};
use crate::values::{Hex32, Hex64};

hex!(
    /// A remote key of 32 bits, which grants the peer access to a memory region.
    RKey(u32), 10
);

layout! {
    /// RDMA extended transport header, 16 bytes: the memory of a WRITE or READ.
    pub struct Reth[16] "RETH" {
        /// VA: address of the first byte in the responder's memory.
        va, with_va: Hex64 = "VA" @ 0, 64;
        /// R_Key.
        r_key, with_r_key: RKey = "R_Key" @ 64, 32;
        /// DMALen in bytes, at most 2^31.
        dma_len, with_dma_len: u32 = "DMALen" @ 96, 32;
    }
}

layout! {
    /// ACK extended transport header, 4 bytes.
    pub struct Aeth[4] "AETH" {
        /// Syndrome: ACK, RNR NAK or NAK.
        syndrome, with_syndrome: Syndrome = "Syndrome" @ 0, 8;
        /// MSN: number of messages that the responder has completed, modulo 2^24.
        msn, with_msn: u32 = "MSN" @ 8, 24;
    }
}

layout! {
    /// Atomic extended transport header, 28 bytes.
    pub struct AtomicEth[28] "AtomicETH" {
        /// VA: address of the 8 bytes in the responder's memory.
        va, with_va: Hex64 = "VA" @ 0, 64;
        /// R_Key.
        r_key, with_r_key: RKey = "R_Key" @ 64, 32;
        /// SwapDt: the value that CmpSwap stores or FetchAdd adds.
        swap_add, with_swap_add: Hex64 = "SwapDt" @ 96, 64;
        /// CmpDt: the value that CmpSwap compares with the memory.
        compare, with_compare: Hex64 = "CmpDt" @ 160, 64;
    }
}

layout! {
    /// Atomic ACK extended transport header, 8 bytes.
    pub struct AtomicAckEth[8] "AtomicAckETH" {
        /// OrigRemDt: the value in the memory before the operation.
        original, with_original: Hex64 = "OrigRemDt" @ 0, 64;
    }
}

layout! {
    /// Immediate data, 4 bytes.
    pub struct ImmDt[4] "ImmDt" {
        /// The data.
        data, with_data: Hex32 = "ImmDt" @ 0, 32;
    }
}

layout! {
    /// Invalidate extended transport header, 4 bytes.
    pub struct Ieth[4] "IETH" {
        /// R_Key: the key to invalidate.
        r_key, with_r_key: RKey = "R_Key" @ 0, 32;
    }
}

layout! {
    /// Reliable datagram extended transport header, 4 bytes.
    pub struct Rdeth[4] "RDETH" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 8;
        /// EECnxt: number of the end-to-end context.
        ee_context, with_ee_context: Hex32 = "EECnxt" @ 8, 24;
    }
}

layout! {
    /// Extended reliable connection header, 4 bytes.
    pub struct Xrceth[4] "XRCETH" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 8;
        /// XRCSRQ: number of the shared receive queue.
        srq, with_srq: Qpn = "XRCSRQ" @ 8, 24;
    }
}

layout! {
    /// Flush extended transport header, 4 bytes. A RETH follows this header.
    pub struct Feth[4] "FETH" {
        /// Reserved.
        reserved_0, with_reserved_0: Reserved = "Reserved0" @ 0, 26;
        /// SEL: the selectivity, the extent of the flush.
        selectivity, with_selectivity: u8 = "SEL" @ 26, 2;
        /// PLT: the placement type, visibility or persistence, one bit each.
        placement, with_placement: u8 = "PLT" @ 28, 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::packet::{NakCode, RnrTimer};
    use proptest::prelude::*;

    #[test]
    fn extended_header_fields_match_layout() {
        let reth = Reth::default()
            .with_va(Hex64(0x0102_0304_0506_0708))
            .with_r_key(RKey(0x090A_0B0C))
            .with_dma_len(0x0D0E_0F10);
        assert_eq!(reth.bytes(), (1..=16).collect::<Vec<u8>>());

        let aeth = Aeth::default()
            .with_syndrome(Syndrome::rnr_nak(RnrTimer(31)))
            .with_msn(0x01_0203);
        assert_eq!(aeth.bytes(), [0x3F, 1, 2, 3]);
        let aeth = aeth.with_syndrome(Syndrome::nak(NakCode::REMOTE_ACCESS));
        assert_eq!(aeth.bytes()[0], 0x62);

        let atomic = AtomicEth::default()
            .with_va(Hex64(0x0102_0304_0506_0708))
            .with_r_key(RKey(0x090A_0B0C))
            .with_swap_add(Hex64(0x0D0E_0F10_1112_1314))
            .with_compare(Hex64(0x1516_1718_191A_1B1C));
        assert_eq!(atomic.bytes(), (1..=28).collect::<Vec<u8>>());

        assert_eq!(AtomicAckEth::default().with_original(Hex64(1)).bytes()[7], 1);
        assert_eq!(ImmDt::default().with_data(Hex32(0x0102_0304)).bytes(), [1, 2, 3, 4]);
        assert_eq!(Ieth::default().with_r_key(RKey(0x0102_0304)).bytes(), [1, 2, 3, 4]);
        assert_eq!(Rdeth::default().with_ee_context(Hex32(0x02_0304)).bytes(), [0, 2, 3, 4]);
        assert_eq!(Xrceth::default().with_srq(Qpn(0x02_0304)).bytes(), [0, 2, 3, 4]);
        assert_eq!(Feth::default().with_selectivity(2).with_placement(1).bytes()[3], 0x21);
    }

    proptest! {
        #[test]
        fn any_bytes_print_as_extended_headers(
            bytes in proptest::collection::vec(any::<u8>(), 0..32)
        ) {
            fn check<L: Layout>(bytes: &[u8]) -> Result<(), TestCaseError> {
                let header = L::from_bytes(bytes);
                prop_assert!(!header.to_string().is_empty());
                let kept = bytes.len().min(L::SIZE);
                prop_assert_eq!(&header.bytes()[..kept], &bytes[..kept]);
                let _ = header.validate();
                Ok(())
            }
            check::<Reth>(&bytes)?;
            check::<Aeth>(&bytes)?;
            check::<AtomicEth>(&bytes)?;
            check::<AtomicAckEth>(&bytes)?;
            check::<ImmDt>(&bytes)?;
            check::<Ieth>(&bytes)?;
            check::<Rdeth>(&bytes)?;
            check::<Xrceth>(&bytes)?;
            check::<Feth>(&bytes)?;
        }
    }
}
