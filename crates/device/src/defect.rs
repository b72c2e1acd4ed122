//! Defects of the device. Each defect has a name and makes the device break one compliance statement.
//!
//! Defects serve to check the tests. Without defects the device conforms. With a defect, a test of the broken statement
//! must fail. The affected code queries a defect in one place: `if faults.has(Defect::X)`.

use crate::defects::defects;
use crate::profile::Profile;

defects! {
    /// A defect: one way to break one compliance statement.
    Defect, Faults;
    "C13-13" {
        RespTimeValueIllegal "resp-time-value-illegal" "PortInfo shows a RespTimeValue above 20."
    }
    "C13-14" {
        AnswersLate "answers-late" "Answers come later than RespTimeValue and two subnet time-outs allow."
        AnswersSetsLate "answers-sets-late" "Answers to Sets come later than RespTimeValue and two subnet time-outs allow."
    }
    "C13-24" {
        MethodLow4Bits "method-low-4-bits" "Of the method of an SMP only the low 4 bits are decoded, and whether it is a response."
        RefusedSetTakesLease "refused-set-takes-lease" "A Set of PortInfo of a port that does not exist is refused, and its lease period and protect bits are kept at the receiving port."
        VlArbitrationPart0Accepted "vl-arbitration-part-0-accepted" "Part 0 of the VLArbitrationTable is taken as part 1."
        VlArbitrationPart5Accepted "vl-arbitration-part-5-accepted" "Part 5 of the VLArbitrationTable is taken as part 3."
        VlArbitrationPartLow3Bits "vl-arbitration-part-low-3-bits" "Only the low 3 bits of a VLArbitrationTable part are decoded."
        VlArbitrationPartLow8Bits "vl-arbitration-part-low-8-bits" "Only the low 8 bits of a VLArbitrationTable part are decoded."
        VlArbitrationPart32769Accepted "vl-arbitration-part-32769-accepted" "Part 0x8001 of the VLArbitrationTable is taken as part 1."
        VlArbitrationPart65535Accepted "vl-arbitration-part-65535-accepted" "Part 0xFFFF of the VLArbitrationTable is taken as part 3."
        VlArbitrationBadPartSetAccepted "vl-arbitration-bad-part-set-accepted" "A Set of a VLArbitrationTable part that does not exist is answered with success, though nothing is stored."
        VlArbitrationBadPartWrongStatus "vl-arbitration-bad-part-wrong-status" "A VLArbitrationTable part that does not exist is refused as an unsupported attribute."
        VlArbitrationBadPartSilent "vl-arbitration-bad-part-silent" "A VLArbitrationTable part that does not exist gets no answer."
        VlArbitrationBadPartStored "vl-arbitration-bad-part-stored" "A Set of a VLArbitrationTable part that does not exist is refused, but stored in part 1."
        PortBeyondAccepted "port-beyond-accepted" "PortInfo of a port that does not exist is answered as that of the receiving port."
        GuidBlockBeyondAccepted "guid-block-beyond-accepted" "A GUIDInfo block beyond GUIDCap is answered with success and zeros."
        PKeyBlockBeyondAccepted "p-key-block-beyond-accepted" "A P_KeyTable block beyond PartitionCap is answered with success and zeros."
        IllegalNeighborMtuAccepted "illegal-neighbor-mtu-accepted" "A NeighborMTU beyond MTUCap is stored and answered with success."
        IllegalOperationalVlsAccepted "illegal-operational-vls-accepted" "OperationalVLs beyond VLCap are stored and answered with success."
        OperationalVlsLow3Bits "operational-vls-low-3-bits" "Of OperationalVLs only the low 3 bits are looked at: 9 is stored as 1 and answered with success."
        IllegalLidAccepted "illegal-lid-accepted" "A LID that is not a unicast one is stored and answered with success."
        IllegalLinkWidthAccepted "illegal-link-width-accepted" "A LinkWidthEnabled that is not supported is stored and answered with success."
        IllegalFieldWithoutStatus "illegal-field-without-status" "An illegal PortInfo field is left unchanged, but the Set is answered with success."
        IllegalLinkSpeedAccepted "illegal-link-speed-accepted" "A LinkSpeedEnabled that is not supported is stored and answered with success."
        IllegalSmLidAccepted "illegal-sm-lid-accepted" "A MasterSMLID that is not a unicast one is stored and answered with success."
        ExtSpeedsUnsupportedKept "ext-speeds-unsupported-kept" "A LinkSpeedExtEnabled that is not supported is stored and answered with success."
        IllegalLinkDownDefaultAccepted "illegal-link-down-default-accepted" "A LinkDownDefaultState that is none is stored and answered with success."
        NeighborMtu0Accepted "neighbor-mtu-0-accepted" "NeighborMTU 0 is stored and answered with success."
        PermissiveLidAccepted "permissive-lid-accepted" "The permissive LID is stored as the port's own and answered with success."
        UnsupportedMethodAccepted "unsupported-method-accepted" "A method that the class does not have is answered with success."
        UnsupportedMethodWrongStatus "unsupported-method-wrong-status" "A method that the class does not have is refused as an invalid field."
        UnsupportedAttributeAccepted "unsupported-attribute-accepted" "An attribute that the node does not have is answered with success."
        UnsupportedAttributeWrongStatus "unsupported-attribute-wrong-status" "An attribute that the node does not have is refused as an invalid field."
        AttributeIdLow8Bits "attribute-id-low-8-bits" "Of the AttributeID of a Get only the low 8 bits are looked at."
        UnsupportedAttributeSilent "unsupported-attribute-silent" "A combination of method and attribute that the node does not have gets no answer."
        SwitchInfoAnswered "switch-info-answered" "The channel adapter answers SwitchInfo with success and zeros."
        NodeInfoSetAccepted "node-info-set-accepted" "A Set of NodeInfo is answered with success, though nothing changes."
        NodeDescriptionSetAccepted "node-description-set-accepted" "A Set of a read-only NodeDescription is answered with success, though nothing changes."
        BaseVersionIgnored "base-version-ignored" "A base version that does not exist is answered with success."
        TrapAnswered "trap-answered" "A Trap that is sent to an adapter is answered."
        ClassVersionIgnored "class-version-ignored" "A class version that does not exist is answered with success."
    }
    "C14-9" {
        DirectedInTransitAnswered "directed-in-transit-answered" "An SMP on a directed route is answered wherever its HopPointer stands."
        DirectedLidPartAnswered "directed-lid-part-answered" "An SMP on a directed route with a part by LID behind it is answered."
    }
    "13.4.2 MAD header" {
        ResponseClassVersion2 "response-class-version-2" "Responses have class version 2."
        ResponseReservedSet "response-reserved-set" "A reserved byte of the MAD header is not 0 in responses."
        ResponseSmpReservedSet "response-smp-reserved-set" "A reserved byte behind the DrDLID is not 0 in responses on a directed route."
        ResponseStatusReservedSet "response-status-reserved-set" "A reserved bit of the status is set in responses to Gets of GUIDInfo."
        ResponseHopCountWrong "response-hop-count-wrong" "HopCount is one more in responses on a directed route."
        ResponseDrSlidLost "response-dr-slid-lost" "DrSLID is 0 in responses on a directed route."
        ResponseReservedEchoed "response-reserved-echoed" "Responses repeat the reserved bits of the request."
        ResponsePathLost "response-path-lost" "InitialPath is empty in responses on a directed route."
        ResponseToSetTwice "response-to-set-twice" "A Set is answered twice."
        ReturnPathNotWritten "return-path-not-written" "A port on a directed route does not write its number into the return path."
        ResponseModifierOfGuidInfoLost "response-modifier-of-guid-info-lost" "The AttributeModifier is 0 in responses to Gets of GUIDInfo."
    }
    "C14-15" {
        ZeroKeyChecksGets "zero-key-checks-gets" "With M_Key 0, a Get that carries a key is dropped at levels 2 and 3."
        ZeroKeyChecksSets "zero-key-checks-sets" "With M_Key 0, a Set that carries a key is dropped at levels 2 and 3."
        ZeroKeyChecksTrapRepress "zero-key-checks-trap-repress" "With M_Key 0, a TrapRepress that carries a key is a violation at levels 2 and 3."
        ZeroKeyCountsViolations "zero-key-counts-violations" "With M_Key 0, an SMP that carries a key is obeyed, but counted as a violation at levels 2 and 3."
        ZeroKeyStartsLease "zero-key-starts-lease" "With M_Key 0, an SMP that carries a key starts the lease timer at levels 2 and 3."
    }
    "C14-16" {
        FormerKeyOpensGets "former-key-opens-gets" "The M_Key that another has replaced still opens Gets."
        GetDroppedAtLevel0 "get-dropped-at-level-0" "A wrong-key Get at level 0 gets no answer."
        KeyHiddenAtLevel0 "key-hidden-at-level-0" "A wrong-key Get at level 0 is shown M_Key 0."
        KeyShownAtLevel1 "key-shown-at-level-1" "A wrong-key Get at level 1 is shown the M_Key."
        GetDroppedAtLevel1 "get-dropped-at-level-1" "A wrong-key Get at level 1 gets no answer."
        EverythingHiddenAtLevel1 "everything-hidden-at-level-1" "A wrong-key Get of PortInfo at level 1 is shown zeros throughout."
        GetAnsweredAtLevel2 "get-answered-at-level-2" "A wrong-key Get at level 2 is answered."
        GetAnsweredAtLevel3 "get-answered-at-level-3" "A wrong-key Get at level 3 is answered."
        Level3TakenAsLevel0 "level-3-taken-as-level-0" "Level 3 protects no more than level 0."
        MKeyIgnoredOnGet "m-key-ignored-on-get" "A Get is answered in full whatever key it carries."
        MKeyIgnoredOutsidePortInfo "m-key-ignored-outside-port-info" "A wrong-key Get of anything but PortInfo is answered at levels 2 and 3."
        WrongKeyGetRefusedAloud "wrong-key-get-refused-aloud" "A wrong-key Get at levels 2 and 3 is answered with an error status instead of silence."
        RightKeyGetDroppedAtLevel2 "right-key-get-dropped-at-level-2" "A right-key Get at level 2 gets no answer."
        RightKeyGetDroppedAtLevel3 "right-key-get-dropped-at-level-3" "A right-key Get at level 3 gets no answer."
        RightKeyHiddenAtLevel1 "right-key-hidden-at-level-1" "A right-key Get at level 1 is shown M_Key 0."
        ComparesLow32Bits "compares-low-32-bits" "Only the low 32 bits of the key are compared."
        ComparesHigh32Bits "compares-high-32-bits" "Only the high 32 bits of the key are compared."
        ComparesByteSwapped "compares-byte-swapped" "The key is compared with its bytes in reverse, so that the right key fails."
        KeyBit17NotCompared "key-bit-17-not-compared" "Bit 17 of the key is not compared."
        KeyBit62NotComparedOnSets "key-bit-62-not-compared-on-sets" "Bit 62 of the key is not compared when a Set carries it."
        NodeDescriptionShownToAll "node-description-shown-to-all" "NodeDescription is shown to a wrong key at levels 2 and 3."
        SlToVlShownAtLevel3 "sl-to-vl-shown-at-level-3" "SLtoVLMappingTable is shown to a wrong key at level 3."
        PKeyTableDroppedAtLevel1 "p-key-table-dropped-at-level-1" "A wrong-key Get of P_KeyTable at level 1 gets no answer."
        GuidInfoHiddenAtLevel0 "guid-info-hidden-at-level-0" "A wrong-key Get of GUIDInfo at level 0 is shown zeros."
        WrongKeySetOfPKeysObeyed "wrong-key-set-of-p-keys-obeyed" "A wrong-key Set of P_KeyTable is obeyed."
        WrongKeySetOfGuidsObeyed "wrong-key-set-of-guids-obeyed" "A wrong-key Set of GUIDInfo gets no answer, but is obeyed."
        WrongKeySetOfSlToVlObeyed "wrong-key-set-of-sl-to-vl-obeyed" "A wrong-key Set of SLtoVLMappingTable at level 0 is obeyed."
        WrongKeySetOfArbitrationObeyed "wrong-key-set-of-arbitration-obeyed" "A wrong-key Set of VLArbitrationTable at level 1 gets no answer, but is obeyed."
        ViolationClearsPKeys "violation-clears-p-keys" "A wrong-key SMP that is dropped zeroes the P_KeyTable but for its first entry."
        LedInfoShownToAll "led-info-shown-to-all" "LedInfo is shown to a wrong key at levels 2 and 3."
        SmInfoShownToAll "sm-info-shown-to-all" "SMInfo is answered with success and zeros to a wrong key at levels 2 and 3."
        WrongKeySetOfLedInfoObeyed "wrong-key-set-of-led-info-obeyed" "A wrong-key Set of LedInfo gets no answer, but is obeyed."
        WrongKeySetOfNodeInfoRefusedAloud "wrong-key-set-of-node-info-refused-aloud" "A wrong-key Set of NodeInfo is refused as unsupported, instead of dropped."
        ZeroIsMasterKey "zero-is-master-key" "An SMP that carries key 0 passes every check."
        WrongKeySetObeyedAtLevel0 "wrong-key-set-obeyed-at-level-0" "A wrong-key Set at level 0 is obeyed."
        WrongKeySetObeyedAtLevel1 "wrong-key-set-obeyed-at-level-1" "A wrong-key Set at level 1 is obeyed."
        WrongKeySetObeyedAtLevel2 "wrong-key-set-obeyed-at-level-2" "A wrong-key Set at level 2 is obeyed."
        WrongKeySetObeyedAtLevel3 "wrong-key-set-obeyed-at-level-3" "A wrong-key Set at level 3 is obeyed."
        WrongKeySetAnswered "wrong-key-set-answered" "A wrong-key Set is not obeyed, but answered as a Get would be."
        WrongKeySetRefusedAloud "wrong-key-set-refused-aloud" "A wrong-key Set is answered with an error status instead of silence."
        WrongKeySetObeyedSilently "wrong-key-set-obeyed-silently" "A wrong-key Set gets no answer, but is obeyed."
    }
    "C14-17" {
        LeaseNotStarted "lease-not-started" "A violation does not start the lease timer."
        LeaseStartedOnlyBySets "lease-started-only-by-sets" "Only a wrong-key Set starts the lease timer."
        LeaseNotStartedByTrapRepress "lease-not-started-by-trap-repress" "A wrong-key TrapRepress does not start the lease timer."
        LeaseStartedOnlyByGets "lease-started-only-by-gets" "Only a wrong-key Get starts the lease timer."
    }
    "C14-19" {
        LeaseNotStoppedByRightKey "lease-not-stopped-by-right-key" "A right-key SMP does not stop the running lease timer."
        LeaseNotStoppedByRightKeyGet "lease-not-stopped-by-right-key-get" "A right-key Get does not stop the running lease timer; a Set does."
        LeaseNotStoppedByRightKeySet "lease-not-stopped-by-right-key-set" "A right-key Set does not stop the running lease timer; a Get does."
        LeaseNotStoppedByTrapRepress "lease-not-stopped-by-trap-repress" "A right-key TrapRepress does not stop the running lease timer; Get and Set do."
        LeaseNotReloaded "lease-not-reloaded" "A right-key SMP stops the lease timer, but the next violation resumes it where it stood."
    }
    "C14-20" {
        LeaseNeverExpires "lease-never-expires" "The lease timer runs but never expires."
        LeaseExpiresEarly "lease-expires-early" "The lease expires after half its period."
        LeaseExpiresLate "lease-expires-late" "The lease expires after twice its period."
        LeaseExpiresTwoSecondsEarly "lease-expires-two-seconds-early" "The lease expires two seconds early."
        LeaseExpiresTwoSecondsLate "lease-expires-two-seconds-late" "The lease expires two seconds late."
        LeaseCountsLow8Bits "lease-counts-low-8-bits" "The lease timer counts only the low 8 bits of the period."
        LeaseCountsLow12Bits "lease-counts-low-12-bits" "The lease timer counts only the low 12 bits of the period."
        LeaseEndsAt32767 "lease-ends-at-32767" "The lease timer runs for 32767 s at most."
        LeaseRunsFast "lease-runs-fast" "The lease timer runs fast by one part in a thousand."
        LeaseStoppedAtAnotherPort "lease-stopped-at-another-port" "An SMP that passes the check at one port stops the running lease timers of the other ports."
        LeaseExpiryClearsKey "lease-expiry-clears-key" "Expiry zeroes the M_Key together with the protect bits."
        LeaseExpiryKeepsProtectBits "lease-expiry-keeps-protect-bits" "After expiry a wrong-key Get is answered, but PortInfo shows the protect bits as before."
        LeaseExpiryLowersToLevel1 "lease-expiry-lowers-to-level-1" "Expiry sets the protect bits to 1 instead of 0."
    }
    "C14-21" {
        ZeroLeaseExpiresAtOnce "zero-lease-expires-at-once" "With lease period 0 a violation zeroes the protect bits at once."
        ZeroLeaseExpiresAfter60Seconds "zero-lease-expires-after-60-seconds" "With lease period 0 the lease expires after 60 s."
        ZeroLeaseExpiresAfter65536Seconds "zero-lease-expires-after-65536-seconds" "With lease period 0 the lease expires after 65536 s."
    }
    "C14-24" {
        ExtSpeedsOffRefused "ext-speeds-off-refused" "LinkSpeedExtEnabled 30, no extended speed, is left as it was."
        MKeyNotKept "m-key-not-kept" "PortInfo:M_Key stays what it was when it is set."
        ProtectBitsNotKept "protect-bits-not-kept" "PortInfo:M_KeyProtectBits stay what they were when they are set."
        LeasePeriodNotKept "lease-period-not-kept" "PortInfo:M_KeyLeasePeriod stays what it was when it is set."
        LocalPhyErrorsNotKept "local-phy-errors-not-kept" "PortInfo:LocalPhyErrors stays what it was when it is set."
        OverrunErrorsNotKept "overrun-errors-not-kept" "PortInfo:OverrunErrors stays what it was when it is set."
        SubnetTimeoutAbove20Cut "subnet-timeout-above-20-cut" "PortInfo:SubnetTimeOut becomes 20 when more is set."
        SubnetTimeoutNotKept "subnet-timeout-not-kept" "PortInfo:SubnetTimeOut stays what it was when it is set."
        VlHighLimitNotKept "vl-high-limit-not-kept" "PortInfo:VLHighLimit stays what it was when it is set."
        MasterSmSlNotKept "master-sm-sl-not-kept" "PortInfo:MasterSMSL stays what it was when it is set."
        GidPrefixNotKept "gid-prefix-not-kept" "PortInfo:GidPrefix stays what it was when it is set."
        NeighborMtu256Refused "neighbor-mtu-256-refused" "A NeighborMTU of 256 bytes is refused."
        OperationalVls3StoredAs2 "operational-vls-3-stored-as-2" "OperationalVLs VL0-VL3 becomes VL0-VL1."
        NeighborMtuNotKept "neighbor-mtu-not-kept" "PortInfo:NeighborMTU stays what it was when it is set."
        OperationalVlsNotKept "operational-vls-not-kept" "PortInfo:OperationalVLs stay what they were when they are set."
        LinkWidthEnabledNotKept "link-width-enabled-not-kept" "PortInfo:LinkWidthEnabled stays what it was when it is set."
        LinkSpeedEnabledNotKept "link-speed-enabled-not-kept" "PortInfo:LinkSpeedEnabled stays what it was when it is set."
        LinkDownDefaultNotKept "link-down-default-not-kept" "PortInfo:LinkDownDefaultState stays what it was when it is set."
        LinkSpeedExtEnabledNotKept "link-speed-ext-enabled-not-kept" "PortInfo:LinkSpeedExtEnabled stays what it was when it is set."
        LmcLow2Bits "lmc-low-2-bits" "Of PortInfo:LMC only the low 2 bits are kept."
        LmcNotKept "lmc-not-kept" "PortInfo:LMC stays what it was when it is set."
        InitTypeNotKept "init-type-not-kept" "A Set does not change InitType, though the port says that it has it."
        TrapSuppressionNotKept "trap-suppression-not-kept" "A Set does not change McastPkeyTrapSuppressionEnabled, though the port says that it has it."
        AllWidthsKeptAsCode "all-widths-kept-as-code" "The code that stands for all widths is shown as it was Set, not as the widths that are supported."
        AllSpeedsKeptAsCode "all-speeds-kept-as-code" "The code that stands for all speeds is shown as it was Set, not as the speeds that are supported."
        LidNotKept "lid-not-kept" "PortInfo:LID stays what it was when it is set."
        MasterSmLidNotKept "master-sm-lid-not-kept" "PortInfo:MasterSMLID stays what it was when it is set."
        GuidSetClearsPKeys "guid-set-clears-p-keys" "A Set of GUIDInfo zeroes the P_KeyTable but for its first entry."
        PKeySetMovesGuids "p-key-set-moves-guids" "A Set of P_KeyTable writes its first bytes over the second GUID too."
        SlToVlSetMovesArbitration "sl-to-vl-set-moves-arbitration" "A Set of SLtoVLMappingTable changes the weight of the first entry of the VLArbitrationTable."
        ArbitrationSetMovesSlToVl "arbitration-set-moves-sl-to-vl" "A Set of VLArbitrationTable maps SL 15 to another VL."
        PortInfoSetMovesOverrunErrors "port-info-set-moves-overrun-errors" "A Set of PortInfo that changes LocalPhyErrors changes OverrunErrors too."
        SetResponseShowsOldState "set-response-shows-old-state" "The answer to a Set shows the state before it."
        ViolationsNotCleared "violations-not-cleared" "A Set that writes 0 does not zero the violation counters."
        NoChangeValueStored "no-change-value-stored" "A Set that carries the no-change value 0 in LinkWidthEnabled stores it."
        PortInfoLocalPortNumWrong "port-info-local-port-num-wrong" "PortInfo:LocalPortNum is one too high."
        OtherPortShowsItsOwnNumber "other-port-shows-its-own-number" "PortInfo of another port shows that port's number as LocalPortNum, not that of the receiving port."
        LinkWidthActiveNotSupported "link-width-active-not-supported" "PortInfo:LinkWidthActive is a width that the port does not support."
        LinkWidthActiveAllSupported "link-width-active-all-supported" "PortInfo:LinkWidthActive is all widths that the port supports, not the one in use."
        LinkSpeedActiveNotSupported "link-speed-active-not-supported" "PortInfo:LinkSpeedActive is 20 Gb/s a lane, which no port supports."
        ExtendedSpeedsWithoutCapability "extended-speeds-without-capability" "PortInfo shows LinkSpeedExtSupported though CapabilityMask has no extended speeds."
        PhysicalStateStale "physical-state-stale" "PortInfo:PortPhysicalState still shows Polling when the link is up."
        PortInfoReservedNotZero "port-info-reserved-not-zero" "PortInfo shows a bit in a reserved field."
        NodeDescriptionByPort "node-description-by-port" "What is Set in NodeDescription shows by the first port alone."
        NodeDescriptionLastByteLost "node-description-last-byte-lost" "A NodeDescription that is Set loses its 64th byte."
        NodeInfoReservedNotZero "node-info-reserved-not-zero" "NodeInfo shows a bit in a reserved field."
        SlToVlReservedNotZero "sl-to-vl-reserved-not-zero" "SLtoVLMappingTable shows a bit behind its 16 entries."
        VlArbitrationReservedNotZero "vl-arbitration-reserved-not-zero" "VLArbitrationTable shows a reserved bit of its first entry."
        LedInfoReservedNotZero "led-info-reserved-not-zero" "LedInfo shows a bit in a reserved field."
        NodeInfoLocalPortNumWrong "node-info-local-port-num-wrong" "NodeInfo:LocalPortNum is one too high."
        NodeInfoWrongNodeType "node-info-wrong-node-type" "NodeInfo says that the channel adapter is a switch."
        NodeInfoNodeGuidPerPort "node-info-node-guid-per-port" "NodeInfo:NodeGUID is another one at each port."
        NodeInfoSystemImageGuidPerPort "node-info-system-image-guid-per-port" "NodeInfo:SystemImageGUID is another one at each port."
        Guid0NotPortGuid "guid-0-not-port-guid" "Entry 0 of GUIDInfo is not NodeInfo:PortGUID."
        GuidInfoNotStored "guid-info-not-stored" "A Set of GUIDInfo is answered with success, but nothing is stored."
        PKeyTableNotStored "p-key-table-not-stored" "A Set of P_KeyTable is answered with success, but nothing is stored."
        PKeyEntry7Full "p-key-entry-7-full" "Entry 7 of P_KeyTable has bit 15 set, whatever is set there, unless it is free."
        PKeyMembershipLost "p-key-membership-lost" "P_KeyTable loses bit 15, the membership, of what is set."
        SlToVl15StoredAs0 "sl-to-vl-15-stored-as-0" "SLtoVLMappingTable has VL 0 where VL 15 was set."
        SlToVlNotStored "sl-to-vl-not-stored" "A Set of SLtoVLMappingTable is answered with success, but nothing is stored."
        SlToVlEntriesSwapped "sl-to-vl-entries-swapped" "SLtoVLMappingTable swaps the two entries of each byte that is set."
        OwnPortByNumberRefused "own-port-by-number-refused" "PortInfo is refused when the AttributeModifier names the receiving port by its number."
        OtherPortWritable "other-port-writable" "A Set of another port's PortInfo is obeyed, though it is read-only there."
        VlArbitrationNotStored "vl-arbitration-not-stored" "A Set of VLArbitrationTable is answered with success, but nothing is stored."
        VlArbitrationWeights7Bits "vl-arbitration-weights-7-bits" "VLArbitrationTable keeps only 7 bits of a weight."
        VlArbitrationEntriesShifted "vl-arbitration-entries-shifted" "VLArbitrationTable stores each entry one place further on."
        VlArbitrationHighAliasesLow "vl-arbitration-high-aliases-low" "The high-priority VLArbitrationTable is the low-priority one."
        VlArbitrationOnly16Entries "vl-arbitration-only-16-entries" "VLArbitrationTable stores only the first 16 entries of a part."
        VlArbitrationUpperPartAliasesLower "vl-arbitration-upper-part-aliases-lower" "Parts 2 and 4 of the VLArbitrationTable are parts 1 and 3."
        VlArbitrationLowerClearsUpper "vl-arbitration-lower-clears-upper" "A Set of part 1 or 3 of the VLArbitrationTable zeroes part 2 or 4."
        VlArbitrationVlLost "vl-arbitration-vl-lost" "VLArbitrationTable keeps the weights and stores VL 0 in every entry."
    }
    "C14-26" {
        RightKeySetDroppedAtLevel0 "right-key-set-dropped-at-level-0" "A right-key Set at level 0 gets no answer and does nothing."
        RightKeySetDroppedAtLevel2 "right-key-set-dropped-at-level-2" "A right-key Set at level 2 gets no answer and does nothing."
        RightKeySetDroppedAtLevel3 "right-key-set-dropped-at-level-3" "A right-key Set at level 3 gets no answer and does nothing."
        RightKeySetIgnoredAtLevel1 "right-key-set-ignored-at-level-1" "A right-key Set at level 1 is answered with success, but does nothing."
        RightKeySetRefusedAtLevel2 "right-key-set-refused-at-level-2" "A right-key Set at level 2 is answered with an error status and does nothing."
    }
    "C14-27" {
        CapabilityMaskWritable "capability-mask-writable" "A Set of PortInfo writes CapabilityMask."
        VlCapWritable "vl-cap-writable" "A Set of PortInfo writes VLCap."
        MtuCapWritable "mtu-cap-writable" "A Set of PortInfo writes MTUCap."
        RespTimeValueWritable "resp-time-value-writable" "A Set of PortInfo writes RespTimeValue."
        VlArbitrationCapsWritable "vl-arbitration-caps-writable" "A Set of PortInfo writes VLArbitrationHighCap and VLArbitrationLowCap."
        GuidCapWritable "guid-cap-writable" "A Set of PortInfo writes GUIDCap."
        LinkSupportWritable "link-support-writable" "A Set of PortInfo writes LinkWidthSupported and LinkSpeedSupported."
        DiagCodeWritable "diag-code-writable" "A Set of PortInfo writes DiagCode."
        NodeInfoWritable "node-info-writable" "A Set of NodeInfo is refused, but stored."
        NodeDescriptionWritable "node-description-writable" "A Set of a read-only NodeDescription is refused, but stored."
        Guid0Writable "guid-0-writable" "A Set of GUIDInfo writes entry 0."
    }
    "14.2.5.1 traps" {
        TrapOfRepressMissing "trap-of-repress-missing" "A TrapRepress with a wrong key raises no trap."
        TrapNumberWrong "trap-number-wrong" "The trap of a bad M_Key has the number of a bad P_Key."
        TrapTypeWrong "trap-type-wrong" "The trap of a bad M_Key is of type urgent."
        TrapProducerWrong "trap-producer-wrong" "The trap of a bad M_Key says that a switch sent it."
        TrapIssuerWrong "trap-issuer-wrong" "The trap of a bad M_Key names LID 0 as its issuer."
        TrapMethodWrong "trap-method-wrong" "The trap of a bad M_Key names method Set, whatever it was."
        TrapAttributeWrong "trap-attribute-wrong" "The trap of a bad M_Key names attribute PortInfo, whatever it was."
        TrapModifierLost "trap-modifier-lost" "The trap of a bad M_Key names AttributeModifier 0."
        TrapKeyIsOurs "trap-key-is-ours" "The trap of a bad M_Key names the port's own key."
        TrapHopsLost "trap-hops-lost" "The trap of a bad M_Key is silent about the directed route."
        TrapNeverSent "trap-never-sent" "No trap is ever sent, though IsTrapSupported is set."
        TrapSourceWrong "trap-source-wrong" "The trap of a bad M_Key names a LID that the SMP did not come from."
        TrapDrSlidLost "trap-dr-slid-lost" "The trap of a bad M_Key names DRSLID 0."
        TrapReturnPathWrong "trap-return-path-wrong" "The trap of a bad M_Key shows another return path than the SMP's."
        TrapReservedNotZero "trap-reserved-not-zero" "A reserved byte of the trap of a bad M_Key is not 0."
        TrapCarriesKey "trap-carries-key" "A trap carries the port's M_Key in its header."
        TrapModifierSet "trap-modifier-set" "The AttributeModifier of a trap is not 0."
        TrapStatusSet "trap-status-set" "The status of a trap is not 0."
        TrapHeaderReservedSet "trap-header-reserved-set" "A reserved byte of the header of a trap is not 0."
        TrapPathCut "trap-path-cut" "The trap of a bad M_Key says that its return path is cut off, though all of it is there."
        TrapWithoutCapability "trap-without-capability" "A trap is sent, though IsTrapSupported is not set."
        TrapKeyLow32Bits "trap-key-low-32-bits" "Trap 256 shows the low 32 bits of the M_Key that the SMP had."
        TrapsEndWithRepress "traps-end-with-repress" "After a TrapRepress no trap is sent any more."
        TrapNotRepressed "trap-not-repressed" "A trap is repeated though a TrapRepress named it."
        TrapRepeatedAsAnother "trap-repeated-as-another" "Each repetition of a trap has a TransactionID of its own."
        TrapNotHeldBack "trap-not-held-back" "A new trap is sent at once, whenever the one before it was."
        TrapRepeatedTooSoon "trap-repeated-too-soon" "A trap is repeated after half a SubnetTimeOut."
        TrapTimeoutAsFirst "trap-timeout-as-first" "Traps are apart by the SubnetTimeOut that the port had when it sent the first one."
    }
    "C14-29" {
        ViolationsStuckAtMost "violations-stuck-at-most" "M_KeyViolations that has come to 0xFFFF is not cleared by a Set to 0."
        ViolationsNotCountedOnPKeys "violations-not-counted-on-p-keys" "A wrong-key Get or Set of P_KeyTable is not counted."
        ViolationsNotCountedOnSetOfGuids "violations-not-counted-on-set-of-guids" "A wrong-key Set of GUIDInfo is not counted."
        ViolationsNotCounted "violations-not-counted" "No violation is counted."
        ViolationsNotCountedOnGet "violations-not-counted-on-get" "A wrong-key Get at levels 2 and 3 is not counted."
        ViolationsNotCountedOnSet "violations-not-counted-on-set" "A wrong-key Set is not counted."
        ViolationsNotCountedOnTrapRepress "violations-not-counted-on-trap-repress" "A wrong-key TrapRepress is not counted."
        ViolationsCountedTwice "violations-counted-twice" "A violation counts two."
        ViolationsCountedOnRightKey "violations-counted-on-right-key" "A right-key SMP is counted, as if it were a violation."
        ViolationsCountedAtLevel0 "violations-counted-at-level-0" "A wrong-key Get at level 0 is counted, though it is no violation."
        ViolationsCountedAtLevel1 "violations-counted-at-level-1" "A wrong-key Get at level 1 is counted, though it is no violation."
        ViolationsResetByGet "violations-reset-by-get" "A Get of PortInfo zeroes the counter after it was shown."
        ViolationsSaturateAt255 "violations-saturate-at-255" "The counter stops at 255."
        ViolationsWrap "violations-wrap" "The counter goes from 0xFFFF to 0."
        ViolationsCountedOnce "violations-counted-once" "Only the first violation after a right-key SMP is counted."
    }
    "7.6 SL to VL" {
        SlToVl15Sent "sl-to-vl-15-sent" "Packets of an SL that maps to VL 15 leave on VL 0."
    }
    "7.2 link states" {
        ArmedSkipped "armed-skipped" "A port in state Initialize obeys a Set of Active."
        ArmedRefused "armed-refused" "A port in state Initialize refuses a Set of Armed."
    }
    "16.1.3 PortCounters" {
        CounterSelectIgnored "counter-select-ignored" "A Set of PortCounters writes all counters, whatever CounterSelect names."
        PortCountersRefusedWritten "port-counters-refused-written" "A Set of counters of a port that is not there is refused, and writes those of the first port."
        RcvErrorDetailsClearErrors "rcv-error-details-clear-errors" "A Set of PortRcvErrorDetails makes PortRcvErrors 0."
        AllPortSelectClaimed "all-port-select-claimed" "ClassPortInfo says that PortSelect 255 stands for all ports, and it is refused."
        PortCountersNotWritten "port-counters-not-written" "A Set of PortCounters is answered with success, but nothing is written."
        PortSelectBeyondAccepted "port-select-beyond-accepted" "PortCounters of a port that does not exist are answered as those of port 1."
        CounterSelectLow8Bits "counter-select-low-8-bits" "Of CounterSelect only the low 8 bits are decoded."
        PerformanceClassVersion2 "performance-class-version-2" "ClassPortInfo of the performance class says class version 2."
        PerformanceResponseVersion2 "performance-response-version-2" "Responses of the performance class have class version 2."
        PerformanceResponseReservedSet "performance-response-reserved-set" "A reserved byte of the MAD header is not 0 in responses of the performance class."
        PerformanceResponseDataReservedSet "performance-response-data-reserved-set" "A reserved byte in front of the attribute is not 0 in responses of the performance class."
        SymbolErrorCounter8Bits "symbol-error-counter-8-bits" "SymbolErrorCounter has 8 bits."
        PortRcvErrors4Bits "port-rcv-errors-4-bits" "PortRcvErrors has 4 bits."
        Vl15Dropped8Bits "vl15-dropped-8-bits" "VL15Dropped has 8 bits."
        PortSelect0Accepted "port-select-0-accepted" "PortCounters of port 0, which an adapter does not have, are answered as those of port 1."
        PortSelect255Accepted "port-select-255-accepted" "PortCounters of all ports are answered, though ClassPortInfo has no AllPortSelect."
        PerformanceVersionIgnored "performance-version-ignored" "A class version of the performance class that does not exist is answered with success."
    }
}

impl Defect {
    /// Returns whether the defect changes the behaviour of a device with this profile. Some defects need a second port,
    /// an optional attribute or large tables.
    #[must_use]
    pub fn shows_on(self, profile: &Profile) -> bool {
        let two_tables = profile.has_vl_arbitration();
        let low = profile.vl_arbitration_low_cap;
        match self {
            Self::SlToVlNotStored | Self::SlToVlEntriesSwapped | Self::SlToVl15Sent => profile.has_sl_mapping(),
            Self::OtherPortWritable | Self::NodeInfoNodeGuidPerPort | Self::NodeInfoSystemImageGuidPerPort => {
                profile.num_ports > 1
            }
            Self::LeaseStoppedAtAnotherPort => profile.num_ports > 1,
            Self::NodeDescriptionLastByteLost => profile.can_set_node_description(),
            Self::NodeDescriptionByPort => profile.can_set_node_description() && profile.num_ports > 1,
            Self::NodeDescriptionSetAccepted | Self::NodeDescriptionWritable => !profile.can_set_node_description(),
            Self::WrongKeySetOfSlToVlObeyed | Self::SlToVlShownAtLevel3 | Self::SlToVlSetMovesArbitration => {
                profile.has_sl_mapping()
            }
            Self::WrongKeySetOfArbitrationObeyed | Self::ArbitrationSetMovesSlToVl => two_tables && low > 0,
            Self::SlToVlReservedNotZero => profile.has_sl_mapping(),
            Self::VlArbitrationReservedNotZero => two_tables && low > 0,
            Self::LinkSpeedExtEnabledNotKept => profile.has_extended_speeds(),
            Self::ExtendedSpeedsWithoutCapability => !profile.has_extended_speeds(),
            // Tests change PortState step by step only on a port with a LID.
            Self::ArmedSkipped | Self::ArmedRefused => profile.lid != verbatim_wire::Lid(0),
            Self::LedInfoShownToAll | Self::WrongKeySetOfLedInfoObeyed | Self::LedInfoReservedNotZero => {
                profile.has_led()
            }
            Self::OtherPortShowsItsOwnNumber => profile.num_ports > 1,
            Self::TrapWithoutCapability => !profile.has_traps(),
            defect if defect.statement() == "14.2.5.1 traps" => profile.has_traps(),
            Self::OperationalVlsNotKept | Self::OperationalVlsLow3Bits => profile.vl_cap.data_vls() > Some(1),
            Self::GuidInfoNotStored => profile.guid_cap > 1,
            Self::VlArbitrationVlLost => two_tables && profile.vl_cap.data_vls() > Some(1),
            Self::VlArbitrationOnly16Entries => two_tables && low > 16,
            Self::VlArbitrationUpperPartAliasesLower => two_tables && low > 32,
            defect if defect.name().starts_with("vl-arbitration-part") => two_tables,
            defect if defect.name().starts_with("vl-arbitration-bad") => two_tables,
            Self::VlArbitrationNotStored
            | Self::VlArbitrationWeights7Bits
            | Self::VlArbitrationEntriesShifted
            | Self::VlArbitrationHighAliasesLow => two_tables,
            _ => true,
        }
    }
}
