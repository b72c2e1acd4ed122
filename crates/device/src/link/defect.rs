//! Defects of a link layer. Each defect has a name and makes the link layer break one rule.

use crate::defects::defects;

defects! {
    /// A defect: one way to break one rule.
    LinkDefect, LinkFaults;
    "7.2 link states" {
        TakenWhileDown "link-taken-while-down" "Packets come in while the port is down."
        DataTakenInInitialize "link-data-taken-in-initialize" "Packets on data VLs come in in state Initialize."
        SmpRefusedInInitialize "link-smp-refused-in-initialize" "Packets on VL15 are discarded in state Initialize."
        DataRefusedInArmed "link-data-refused-in-armed" "Packets on data VLs are discarded in state Armed."
    }
    "7.3 delimiters" {
        EbpAccepted "link-ebp-accepted" "A packet that ends with EBP is taken."
        EbpNotCounted "link-ebp-not-counted" "A packet that ends with EBP is not counted."
        EbpCountedAsOwn "link-ebp-counted-as-own" "A packet that ends with EBP counts in PortRcvErrors."
        UnknownDelimiterAccepted "link-unknown-delimiter-accepted" "A packet that ends with neither EGP nor EBP is taken."
        UnknownDelimiterCountedAsRemote "link-unknown-delimiter-counted-as-remote" "A packet that ends with neither EGP nor EBP counts in PortRcvRemotePhysicalErrors."
    }
    "7.4 precedence" {
        VlRanksBeforeCrc "link-vl-ranks-before-crc" "A packet with a wrong CRC and a wrong VL is reported for its VL."
        LVerRanksBeforeCrc "link-lver-ranks-before-crc" "A packet with a wrong CRC and a wrong LVer is reported for its LVer."
        LengthRanksBeforeCrc "link-length-ranks-before-crc" "A packet with a wrong CRC and a wrong PktLen is reported for its PktLen."
        PKeyRanksBeforeCrc "link-p-key-ranks-before-crc" "A packet with a wrong CRC and a foreign P_Key is reported for its P_Key."
        VcrcRanksBeforeEbp "link-vcrc-ranks-before-ebp" "A packet that ends with EBP is reported for its VCRC, which whoever marked it made wrong."
        EveryFailedCheckCounted "link-every-failed-check-counted" "A packet is counted once for each check that it fails."
    }
    "7.4 discard or corrupt" {
        DestinationForwards "link-destination-forwards" "A port sends a damaged packet on that ends there."
        DiscardOnlyForwarded "link-discard-only-forwarded" "A switch marks and sends on what it must discard."
        ForwardedUnmarked "link-forwarded-unmarked" "A switch sends a damaged packet on as a good one."
    }
    "7.8.2 VCRC" {
        BadVcrcAccepted "link-bad-vcrc-accepted" "A packet with a wrong VCRC is taken."
        VcrcFirstByteOnly "link-vcrc-first-byte-only" "Only the first byte of the VCRC is compared."
        VcrcByteSwapped "link-vcrc-byte-swapped" "The VCRC is expected with its bytes in reverse."
    }
    "7.8.1 ICRC" {
        BadIcrcAccepted "link-bad-icrc-accepted" "A packet with a wrong ICRC is taken."
        IcrcFirstHalfOnly "link-icrc-first-half-only" "Only the first two bytes of the ICRC are compared."
        IcrcCheckedOnRaw "link-icrc-checked-on-raw" "The last 4 bytes of a raw packet are taken as an ICRC."
        IcrcCoversVl "link-icrc-covers-vl" "The ICRC of a local packet is made over LRH:VL as it stands."
        IcrcLeavesOutLrh "link-icrc-leaves-out-lrh" "The ICRC of a local packet is made without the LRH."
        IcrcCoversLrhOfGlobal "link-icrc-covers-lrh-of-global" "The ICRC of a global packet is made over the LRH as it stands."
        IcrcCoversFlow "link-icrc-covers-flow" "The ICRC is made over GRH:TClass and FlowLabel as they stand."
        IcrcCoversHopLimit "link-icrc-covers-hop-limit" "The ICRC is made over GRH:HopLmt as it stands."
        IcrcCoversCongestion "link-icrc-covers-congestion" "The ICRC is made over FECN and BECN as they stand."
    }
    "7.7 LVer" {
        LrhReservedDropped "link-lrh-reserved-dropped" "A packet with a 1 in the reserved bits beside LNH is discarded."
        LVerIgnored "link-lver-ignored" "A packet with another LVer is taken."
        LVerLowBitIgnored "link-lver-low-bit-ignored" "A packet with LVer 1 is taken."
        LVerHighBitIgnored "link-lver-high-bit-ignored" "A packet with LVer 8 is taken."
    }
    "7.7 PktLen" {
        PktLenReservedBits "link-pkt-len-reserved-bits" "The reserved bits above PktLen are taken for a part of it."
        PktLenIgnored "link-pkt-len-ignored" "A packet is taken whatever its PktLen says."
        PktLenOneMoreAccepted "link-pkt-len-one-more-accepted" "A packet is taken whose PktLen is one too many."
        PktLenOneLessAccepted "link-pkt-len-one-less-accepted" "A packet is taken whose PktLen is one too few."
        PktLenLow8Bits "link-pkt-len-low-8-bits" "Only the low 8 bits of PktLen are compared."
        PktLenOddBytesIgnored "link-pkt-len-odd-bytes-ignored" "Up to 3 bytes more than PktLen says are overlooked."
        BytesBeyondPktLenIgnored "link-bytes-beyond-pkt-len-ignored" "Bytes beyond what PktLen says are overlooked."
    }
    "7.4 shortest packet" {
        IbaMinimumIgnored "link-iba-minimum-ignored" "An IBA packet below 24 bytes is taken."
        IbaMinimumOfRaw "link-iba-minimum-of-raw" "An IBA packet of 20 bytes is taken."
        RawMinimumIgnored "link-raw-minimum-ignored" "A raw packet below 20 bytes is taken."
        RawMinimumOfIba "link-raw-minimum-of-iba" "A raw packet of 20 bytes is discarded."
    }
    "7.4 MTU" {
        OverMtuAccepted "link-over-mtu-accepted" "A packet beyond MTUCap is taken."
        MtuOneUnitMore "link-mtu-one-unit-more" "A packet of 4 bytes more than MTUCap allows is taken."
        MtuOneUnitLess "link-mtu-one-unit-less" "A packet as long as MTUCap allows is discarded."
        MtuCountsHeaders "link-mtu-counts-headers" "A packet is discarded that is longer than MTUCap with its headers."
    }
    "7.6 VL" {
        UnconfiguredVlAccepted "link-unconfigured-vl-accepted" "A packet on a VL that is not configured is taken."
        VlOneMoreAccepted "link-vl-one-more-accepted" "A packet on the first VL that is not configured is taken."
        HighestVlRefused "link-highest-vl-refused" "A packet on the highest configured VL is discarded."
        Vl15Refused "link-vl15-refused" "A packet on VL15 is discarded."
        Vl15RawAccepted "link-vl15-raw-accepted" "A raw packet on VL15 is taken."
    }
    "14.2 QP0 and VL15" {
        OtherQpOnVl15Accepted "link-other-qp-on-vl15-accepted" "A packet on VL15 for another queue pair than QP0 is taken."
        SmpOpcodeIgnored "link-smp-opcode-ignored" "A packet on VL15 is taken that is no UD SEND Only."
        SmpLengthIgnored "link-smp-length-ignored" "A packet on VL15 is taken that holds no whole MAD, or more."
        Qp0OnDataVlAccepted "link-qp0-on-data-vl-accepted" "A packet on a data VL for QP0 is taken."
    }
    "7.11 DLID" {
        DlidIgnored "link-dlid-ignored" "A packet for another unicast LID is taken."
        DlidLowByteOnly "link-dlid-low-byte-only" "Only the low byte of the DLID is compared."
        LmcIgnored "link-lmc-ignored" "Only the base LID is taken, whatever LMC says."
        LmcMasksOneLess "link-lmc-masks-one-less" "One bit of the DLID less than LMC is masked."
        LmcMasksOneMore "link-lmc-masks-one-more" "One bit of the DLID more than LMC is masked."
        DlidBelowRangeAccepted "link-dlid-below-range-accepted" "A packet for the LID below the port's range is taken."
        DlidAboveRangeAccepted "link-dlid-above-range-accepted" "A packet for the LID above the port's range is taken."
        Dlid0Accepted "link-dlid-0-accepted" "A packet for LID 0 is taken."
        PermissiveRefused "link-permissive-refused" "A packet on VL15 for the permissive LID is discarded."
        PermissiveOnDataVlAccepted "link-permissive-on-data-vl-accepted" "A packet on a data VL for the permissive LID is taken."
        RelayErrorNotCounted "link-relay-error-not-counted" "A packet that a switch can send nowhere is not counted."
    }
    "7.10 multicast" {
        MulticastRefused "link-multicast-refused" "A packet for a multicast LID is discarded."
        MulticastWithoutGrhAccepted "link-multicast-without-grh-accepted" "An IBA packet without a GRH for a multicast LID is taken."
        MulticastOnVl15Accepted "link-multicast-on-vl15-accepted" "A packet on VL15 for a multicast LID is taken."
        RawMulticastRefused "link-raw-multicast-refused" "A raw packet for a multicast LID is discarded."
    }
    "8.3 GRH" {
        IpVerIgnored "link-ip-ver-ignored" "A GRH with another IPVer is taken."
        NxtHdrIgnored "link-nxt-hdr-ignored" "A GRH that announces something else than a BTH is taken."
        PayLenIgnored "link-pay-len-ignored" "A GRH with a PayLen that contradicts PktLen is taken."
        PayLenWithoutIcrc "link-pay-len-without-icrc" "GRH:PayLen is expected not to count the ICRC."
    }
    "9.6.1 TVer" {
        TVerIgnored "link-tver-ignored" "A packet with another TVer is taken."
    }
    "9.6.1 P_Key" {
        DefaultPKeyTaken "link-default-p-key-taken" "A packet of the default partition is taken though no entry of the table has it."
        PKeyOfGlobalNotCounted "link-p-key-of-global-not-counted" "A packet of a foreign partition is discarded and not counted when it has a GRH."
        PKeyHoleEndsTable "link-p-key-hole-ends-table" "Entries of the P_Key table behind one that is invalid match nothing."
        PKeyIgnored "link-p-key-ignored" "A packet of a foreign partition is taken."
        LimitedPairAccepted "link-limited-pair-accepted" "A limited member takes a packet of another limited member."
        PKeyComparesAllBits "link-p-key-compares-all-bits" "A full member takes no packet of a limited one, and the other way round."
        InvalidPKeyAccepted "link-invalid-p-key-accepted" "Keys whose low 15 bits are 0 match."
        PKeyFirstEntryOnly "link-p-key-first-entry-only" "Only the first entry of the P_Key table is looked at."
        PKeyCheckedOnQp0 "link-p-key-checked-on-qp0" "A packet for QP0 is discarded for its P_Key."
        PKeyViolationNotCounted "link-p-key-violation-not-counted" "A packet of a foreign partition is discarded, but not counted."
    }
    "14.2.5.6 inbound filters" {
        RawFilterIgnored "link-raw-filter-ignored" "Raw packets come in although FilterRawInbound is set."
        AdapterFiltersRaw "link-adapter-filters-raw" "A channel adapter obeys FilterRawInbound."
        PartitionEnforcementIgnored "link-partition-enforcement-ignored" "A packet of a foreign partition passes although PartitionEnforcementInbound is set."
        ConstraintNotCounted "link-constraint-not-counted" "A packet that a filter stops is not counted."
    }
    "16.1 counters" {
        PhysicalErrorNotCounted "link-physical-error-not-counted" "A packet with a wrong CRC or delimiter is not counted."
        MalformedNotCounted "link-malformed-not-counted" "A malformed packet is not counted."
        SoundPacketCounted "link-sound-packet-counted" "A sound packet counts as an error."
        ErrorCountedTwice "link-error-counted-twice" "A packet counts twice in PortRcvErrors."
        ErrorDetailsSwapped "link-error-details-swapped" "PortRcvErrorDetails shows physical errors as malformed packets, and the other way round."
        CountersWrap "link-counters-wrap" "A counter at its maximum goes on from 0."
    }
}
