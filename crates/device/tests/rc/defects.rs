//! Every defect shows in the scenario that is about its subject, and its name finds it.

use std::collections::BTreeSet;

use crate::adapters::{A, Setup, profile};
use crate::peer::Peer;
use crate::scenarios::*;
use verbatim_device::rc::RcDefect::{self, *};

type Scenario = (&'static str, fn(&mut Peer), &'static [RcDefect]);

const SCENARIOS: &[Scenario] = &[
    (
        "rnr_intervals",
        rnr_intervals,
        &[
            RnrIntervalHalved,
            RnrIntervalIgnored,
            RnrCode31As10Us,
            RnrCode0AsZero,
            RnrCodeOffByOne,
            RnrCodes1To24Ignored,
            RnrCodeLow4Bits,
            RnrOwnTimerUsed,
            RnrIntervalFirstOnly,
        ],
    ),
    ("rnr_with_timeout", rnr_with_timeout, &[RnrIntervalYieldsToTimeout]),
    (
        "rnr_retries",
        rnr_retries,
        &[
            RnrRetryOneTooMany,
            RnrRetryOneTooFew,
            RnrRetry7Ends,
            RnrRetry0RetriesOnce,
            RnrRetryForever,
            RnrRetryNotReloaded,
            RnrSpendsRetryCnt,
            RnrRetryWrongPsn,
            RnrRetryWrongOpcode,
            RnrRetryWrongPayload,
            RnrRetryAfterError,
            RnrNakCompletes,
            RnrErrorAsRetryError,
            RnrErrorWithoutCompletion,
            RnrErrorKeepsQpUp,
            FlushMissing,
        ],
    ),
    (
        "messages_completed",
        messages_completed,
        &[
            SendCompletesOnTransmit,
            WriteCompletesOnTransmit,
            AckCompletesAll,
            AckOfFirstCompletesMessage,
            GhostAckCompletes,
            CoalescedAckCompletesOne,
            AckCompletesLate,
            CompletesTwice,
            CompletesInReverse,
            ReservedSyndromeCompletes,
        ],
    ),
    (
        "reads_completed",
        reads_completed,
        &[
            ReadCompletesOnTransmit,
            ReadCompletesAtFirst,
            ReadCompletesNext,
            ReadAcceptsAck,
            ReadDataMisplaced,
            ReadDataNotWritten,
            ReadGapIgnored,
            ReadLengthIgnored,
        ],
    ),
    (
        "atomics_completed",
        atomics_completed,
        &[
            AtomicCompletesOnTransmit,
            AtomicAckCompletesNext,
            AtomicAcceptsAck,
            AtomicResultLittleEndian,
            AtomicResultNotWritten,
            AtomicResultMisplaced,
            AtomicResultLow32Bits,
        ],
    ),
    (
        "naks_received",
        naks_received,
        &[
            NakCompletesWithSuccess,
            SequenceNakIgnored,
            SequenceNakRetriesNext,
            SequenceNakSpendsNothing,
            SequenceNakNotAnAck,
            ImpliedNakIgnored,
            FatalNakRetried,
            FatalNakWrongStatus,
            FatalNakKeepsQpUp,
            FlushInReverse,
        ],
    ),
    (
        "time_outs",
        time_outs,
        &[
            TimeoutEarly,
            TimeoutLate,
            TimeoutNever,
            Timeout0Fires,
            TimeoutRetryWrongPsn,
            TimeoutRetrySkipsOldest,
            RetryOneTooMany,
            RetryOneTooFew,
            RetryForever,
            Retry7Endless,
            RetryErrorAsRnrError,
            RetryErrorWithoutCompletion,
            RetryErrorTwice,
            RetryErrorKeepsQpUp,
        ],
    ),
    (
        "time_outs_with_progress",
        time_outs_with_progress,
        &[TimeoutNotRestarted, RetryCntNotReloaded],
    ),
    (
        "requests_sent",
        requests_sent,
        &[
            AckRequestMissing,
            PsnSkipsOne,
            PsnRepeatsInMessage,
            PsnWrapsAt16Bits,
            ReadReservesOnePsn,
            MiddleBelowPmtu,
            DmaLenOfPacket,
            MaxRdAtomicIgnored,
            FenceIgnored,
            PadCountZero,
            PadMissing,
            TVerSetOnSend,
            PKeyZeroOnSend,
            ReservedBitsSet,
            SolicitedEventIgnored,
            ImmediateSwapped,
            IcrcByteSwapped,
        ],
    ),
    ("traffic_class", traffic_class, &[IcrcCoversTrafficClass]),
    (
        "headers_validated",
        headers_validated,
        &[
            BadIcrcAccepted,
            TVerIgnored,
            PKeyIgnored,
            UnknownQpAnswered,
            OpcodeClassIgnored,
            SourceAddressIgnored,
            PadCountIgnored,
            QKeyIgnored,
        ],
    ),
    (
        "responses_in_order",
        responses_in_order,
        &[AtomicOvertakesReads, AckOvertakesReads, ReadsAnsweredInReverse],
    ),
    (
        "acknowledgements",
        acknowledgements,
        &[
            AckMissing,
            AckWithWrongPsn,
            AckWithFirstPsn,
            AckBeforeExecution,
            ResponseToWrongQp,
            ReadResponseShort,
            ReadResponseWrongData,
            ReadResponsePsnConstant,
            ReadResponseMiddleOnly,
            MsnNotAdvanced,
            MsnByTwo,
            MsnCountsPackets,
            SendMisplaced,
            ReceiveLengthOfLastPacket,
            ImmediateLost,
            WriteImmTakesNoReceive,
            WriteTakesReceive,
        ],
    ),
    ("zero_length", zero_length, &[ZeroLengthRKeyChecked]),
    (
        "not_ready",
        not_ready,
        &[
            AckWithoutReceive,
            RnrNakMissing,
            RnrNakWithWrongCode,
            RnrNakShortCodesAs1,
            RnrNakWithWrongPsn,
            RnrNakAsInvalidRequest,
            GapAfterRnrNaked,
            MsnAdvancedByNak,
        ],
    ),
    (
        "atomics_done",
        atomics_done,
        &[
            AtomicNotExecuted,
            AtomicOriginalIsNew,
            AtomicOriginalLittleEndian,
            AtomicOriginalZero,
            CompareIgnored,
            CompareLow32Bits,
            SwapNever,
            FetchAddLow32Bits,
            FetchAddStores,
        ],
    ),
    (
        "duplicates",
        duplicates,
        &[
            MsnAdvancedByDuplicate,
            DuplicateSendDelivered,
            DuplicateWriteExecuted,
            DuplicateAtomicExecuted,
            DuplicateAtomicShowsMemory,
            DuplicateAtomicDropped,
            DuplicateReadDropped,
            DuplicateNotAcknowledged,
            DuplicateNaked,
            DuplicateAckOldPsn,
        ],
    ),
    (
        "kept_atomics",
        kept_atomics,
        &[AtomicReplayNewestOnly, CompareSwapExecutedAgain],
    ),
    (
        "edges",
        edges,
        &[
            BoundsOffByOne,
            AddressLow32Bits,
            RKeyLowByteIgnored,
            ReadResponsePsnSkipsAtWrap,
        ],
    ),
    (
        "gaps",
        gaps,
        &[
            OutOfSequenceExecuted,
            GapNotNaked,
            GapNakedTwice,
            GapNakWithWrongPsn,
            GapNakWithWrongCode,
        ],
    ),
    (
        "refusals",
        refusals,
        &[
            QpRightIgnored,
            QpRightWrongNak,
            UnalignedAtomicAccepted,
            UnalignedAtomicWrongNak,
            OpcodeOrderIgnored,
            OpcodeOrderWrongNak,
            ReservedOpcodeIgnored,
            ReservedOpcodeWrongNak,
            OverlongSendTruncated,
            OverlongSendWrongNak,
            ShortMiddleAccepted,
            ShortMiddleWrongNak,
            DmaLenIgnored,
            DmaLenWrongNak,
            RKeyIgnored,
            RKeyWrongNak,
            BoundsIgnored,
            BoundsWrongNak,
            RegionRightIgnored,
            RegionRightWrongNak,
            FatalNakMissing,
            FatalNakWithWrongPsn,
            ResponderStaysUp,
            RefusedWriteExecuted,
            RnrNakOnWrite,
        ],
    ),
];

/// Defects of what no scenario here does: qualification alone shows that each of them is seen.
const WITHOUT_SCENARIO: &[RcDefect] = &[
    MigrationLostOnRetry,
    RightsOfReadsNotWithdrawn,
    InvalidateSparesReads,
    ReadBehindGapAnswered,
    FetchAddBehindGapExecuted,
    ReservedBitsOfNaksSet,
    DatagramIcrcWrong,
    DatagramIcrcIgnored,
    QKeyIgnoredWithImmediate,
    DatagramTailLost,
    DroppedDatagramWritten,
    PKeyBit14NotCompared,
    IpChecksumWrong,
    AckReqOnResponses,
    ReadResponseSyndromeReserved,
    GapAfterReadIgnored,
    ReceiveRearmsGapNak,
    ReadWithoutAckReqUnanswered,
    StaleAckRestartsTimer,
    ReadDataIndex8Bits,
    CoalescedAckTellsAll,
    KeptByMaxRdAtomic,
    DuplicateImmCompletes,
    RetryLiftsMaxRdAtomic,
    RnrTimerOfRtsIgnored,
    RefusalToldOnce,
    RefusalKeepsSends,
    OldQKeyOpens,
    RnrRetry7EndsAt255,
    TimeoutClearsRetryCnt,
    HearsInErr,
    PartOfReadStopsTimer,
    TimerShared,
    ReceivesStay,
    PayloadOffset16Bits,
    FenceLooksOneBack,
    DuplicateAckAtWrap,
    WriteOffset16Bits,
    SourceLow16Bits,
    RnrWaitEndedByOther,
    RnrNakNotAnAck,
    PostRestartsTimer,
    TimeoutCodesBeginAt12,
    RnrNakReloadsRetries,
    FenceForgetsEmpty,
    FlushedWrIdLow32Bits,
    ResetKeepsNakSent,
    ResetKeepsRetries,
    ResetKeepsAtomics,
    AccessOfInitIgnored,
    AccessOfRtrIgnored,
    UdpChecksumDropped,
    ReadResponsePsn8Bits,
    DuplicateAtomicOfAnyQp,
    DuplicateErrorNaked,
    DuplicateReadErrorNaked,
    DuplicateOverlongNaked,
    EmptyLastTaken,
    EmptyReceiveTooShort,
    DestroyedQpAnswers,
    DatagramBeyondMtu,
    DatagramReceiveVanishes,
    SqeStopsReceives,
    FlowLabelIgnored,
    LocalFaultWrongStatus,
    LocalFaultAtOnce,
    DatagramPsnConstant,
    DatagramWithoutHeader,
    ResetNotDone,
    ResetFlushes,
    ResetKeepsReceives,
    ResetKeepsMsn,
    DestQpLow16Bits,
    ReadKeptTwice,
    DuplicateUnansweredAfterRnrNak,
    AtomicReplayedOnce,
    ReceiveLength16Bits,
    HalfReceiveFlushedLast,
    SecondGapOfMessageIgnored,
    WritePlaceShared,
    WriteImmRightIgnored,
    DmaLenInWords,
    RnrNakMissingInRtr,
    RnrNakOnce,
    CreditsHoldSends,
    ResumesAsFirst,
    ReadResumedTwiceTooLong,
    CnpStopsTimer,
    StaleAckReloadsRetries,
    DrainedBeforeReads,
    ResetKeepsHalfWrite,
    AckOfLastOnly,
    RightsNotWithdrawn,
    InvalidatesBeforeRnrNak,
    DuplicateFirstRestartsWrite,
    CnpToOwnQpn,
    CreditsHoldAll,
    LimitedMessageStops,
    FencePassesAtomics,
    ReadRetryVaCarryLost,
    SolicitedLostInRnrRetry,
    NoTimeoutAfterRnrRetry,
    TimeoutCodesEndAt19,
    RnrRetryMissingInSqd,
    GhostRnrNakObeyed,
    DrainedReportedOnce,
    CnpWithoutBecn,
    CnpWithData,
    CnpWithPsn,
    CnpWithoutPartition,
    CnpWithoutCause,
    MarkedDropped,
    LastHopDropped,
    SourcePortPinned,
    ReservedBitsChecked,
    QKeyBit31NotCompared,
    ReadResponsePsnLosesBit23,
    ImmediateBit15OfLongLost,
    WriteVaLow48Bits,
    ResponsePKeyIgnored,
    ResponseSourceIgnored,
    SwapOf0Lost,
    MsnLow8Bits,
    MsnLow16Bits,
    OverlongSendWithinWord,
    TimeoutRetryWithoutCompare,
    RefusedStepTaken,
    LaterAttributesIgnored,
    SendQueueOneShort,
    UdpChecksumWrong,
    SourceAddressOther,
    DatagramInInit,
    DatagramStoredAnyway,
    DuplicateAtomicOtherExecuted,
    DuplicateRegionHalved,
    ReceiveOpcodeOfWrite,
    ReceivesNewestFirst,
    SqdSends,
    SqdDeaf,
    CommEstAlways,
    AccessErrorAsRequestError,
    MaxDestRdAtomic0Answers,
    InvalidateIgnored,
    ReceiveFaultAsInvalidRequest,
    RefusedReceiveWritten,
    LocalFaultSent,
    ZeroLengthReadFails,
    StaleNakObeyed,
    SequenceNakOutOfOrder,
    FlushWrongStatus,
    DeregisteredOpen,
    LateReceiveKept,
    RnrNakOfReadIgnored,
    AckOverWrapIgnored,
    StaleReadResponseStored,
    StaleRnrNakObeyed,
    StaleFatalNakObeyed,
    FenceEndsAtFirstResponse,
];

/// What an adapter with these defects shows in a scenario.
fn log(scenario: fn(&mut Peer), defects: &[RcDefect], seed: Option<u64>) -> Vec<String> {
    let mut profile = profile(A);
    if let Some(seed) = seed {
        profile = profile.vary(seed);
    }
    let mut peer = Peer::of(profile, defects, &Setup::default());
    scenario(&mut peer);
    peer.log
}

#[test]
fn every_defect_shows_in_the_scenario_about_its_subject() {
    let mut unseen = Vec::new();
    for &(name, scenario, defects) in SCENARIOS {
        let sound = log(scenario, &[], None);
        assert_eq!(log(scenario, &[], None), sound, "{name}: two runs are identical");
        for &defect in defects {
            if log(scenario, &[defect], None) == sound {
                unseen.push((name, defect));
            }
        }
    }
    assert_eq!(unseen, []);
}

#[test]
fn every_defect_shows_on_other_adapters_too() {
    for seed in 0..6 {
        let mut unseen = Vec::new();
        for &(name, scenario, defects) in SCENARIOS {
            let sound = log(scenario, &[], Some(seed));
            for &defect in defects {
                if log(scenario, &[defect], Some(seed)) == sound {
                    unseen.push((name, defect));
                }
            }
        }
        assert_eq!(unseen, [], "seed {seed}");
    }
}

#[test]
fn every_defect_has_one_scenario_or_is_named_as_one_without() {
    let shown = SCENARIOS.iter().flat_map(|(_, _, defects)| *defects);
    let mut listed: Vec<_> = shown.chain(WITHOUT_SCENARIO).collect();
    listed.sort();
    let all: BTreeSet<_> = RcDefect::ALL.iter().collect();
    assert_eq!(listed, all.into_iter().collect::<Vec<_>>());
    assert!(RcDefect::ALL.len() >= 60);
}

#[test]
fn names_are_kebab_case_and_find_their_defect() {
    let mut names: Vec<_> = RcDefect::ALL.iter().map(|defect| defect.name()).collect();
    for &defect in RcDefect::ALL {
        assert_eq!(defect.to_string().parse(), Ok(defect));
        assert!(defect.about().ends_with('.'));
        let statement = defect.statement();
        assert!(
            ["C9-", "7.", "9.", "10.", "11.", "A17."]
                .iter()
                .any(|start| statement.starts_with(start)),
            "{statement}"
        );
        assert!(
            !defect
                .name()
                .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
    let management: Vec<_> = verbatim_device::Defect::ALL
        .iter()
        .map(|defect| defect.name())
        .collect();
    assert!(
        names.iter().all(|name| !management.contains(name)),
        "one name, one defect"
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RcDefect::ALL.len());
    assert!("no-such-defect".parse::<RcDefect>().is_err());
}
