//! Defects of an adapter: each makes it break one statement, and is switched on by name.
//!
//! Statements are named by their number (`C9-130`) where that is publicly known, else by the section that holds the
//! rule and a few words.

use crate::defects::defects;

defects! {
    /// One way to break one statement.
    RcDefect, RcFaults;
    // The requester and RNR NAKs.
    "C9-130" {
        RnrIntervalHalved "rnr-interval-halved" "A request is retried after half the interval that the RNR NAK asks for."
        RnrIntervalIgnored "rnr-interval-ignored" "A request is retried as soon as the RNR NAK arrives."
        RnrIntervalYieldsToTimeout "rnr-interval-yields-to-timeout" "An ACK timeout shorter than the RNR interval fires, and the request is retried then."
        RnrCode31As10Us "rnr-code-31-as-10-us" "RNR code 31 is taken as 0.01 ms."
        RnrCode0AsZero "rnr-code-0-as-zero" "RNR code 0 is taken as 0 ms."
        RnrCodeOffByOne "rnr-code-off-by-one" "An RNR code is taken as the one below it."
        RnrCodes1To24Ignored "rnr-codes-1-to-24-ignored" "After an RNR NAK with a code from 1 to 24 a request is retried at once."
        RnrCodeLow4Bits "rnr-code-low-4-bits" "Only the low 4 bits of an RNR code are decoded."
        RnrOwnTimerUsed "rnr-own-timer-used" "The interval is that of the queue pair's own min_rnr_timer, not that of the RNR NAK."
        RnrWaitEndedByOther "rnr-wait-ended-by-other" "An ACK on any queue pair ends the wait after an RNR NAK on all of them."
        RnrIntervalFirstOnly "rnr-interval-first-only" "The interval is kept after the first RNR NAK of a request, not after the following ones."
    }
    "9.7.5.2.8 RNR retry" {
        RnrRetry7EndsAt255 "rnr-retry-7-ends-at-255" "rnr_retry 7 ends after 255 retries: they are counted in a byte."
        RnrRetryMissingInSqd "rnr-retry-missing-in-sqd" "In SQD nothing comes again after an RNR NAK."
        RnrRetryOneTooMany "rnr-retry-one-too-many" "A request is retried once more than rnr_retry says."
        RnrRetryOneTooFew "rnr-retry-one-too-few" "A request is retried once less than rnr_retry says."
        RnrRetry7Ends "rnr-retry-7-ends" "rnr_retry 7 ends after 7 retries."
        RnrRetry0RetriesOnce "rnr-retry-0-retries-once" "With rnr_retry 0 a request is retried once."
        RnrRetryForever "rnr-retry-forever" "A request is retried after every RNR NAK, whatever rnr_retry says."
        RnrRetryNotReloaded "rnr-retry-not-reloaded" "Progress does not reload the RNR retry counter."
        RnrSpendsRetryCnt "rnr-spends-retry-cnt" "An RNR NAK spends retry_cnt instead of rnr_retry."
        RnrRetryWrongPsn "rnr-retry-wrong-psn" "After an RNR NAK the request comes again with the next PSN."
        RnrRetryWrongOpcode "rnr-retry-wrong-opcode" "After an RNR NAK a SEND comes again as an RDMA WRITE."
        RnrRetryWrongPayload "rnr-retry-wrong-payload" "After an RNR NAK the request comes again with the first byte of its payload changed."
        RnrRetryAfterError "rnr-retry-after-error" "The request is sent once more after it completed with an error."
        RnrNakNotAnAck "rnr-nak-not-an-ack" "An RNR NAK does not acknowledge what lies before it."
        RnrNakOfReadIgnored "rnr-nak-of-read-ignored" "An RNR NAK of a READ is ignored."
        RnrNakCompletes "rnr-nak-completes" "An RNR NAK completes the request with success."
    }
    "9.7.5.2.8 RNR error completion" {
        RnrErrorAsRetryError "rnr-error-as-retry-error" "When the RNR retries are spent, the request completes with the status of the other counter."
        RnrErrorWithoutCompletion "rnr-error-without-completion" "When the RNR retries are spent, the request gets no completion."
        RnrErrorKeepsQpUp "rnr-error-keeps-qp-up" "When the RNR retries are spent, the queue pair stays ready to send."
    }
    // The requester and completions.
    "C9-60" {
        CoalescedAckTellsAll "coalesced-ack-tells-all" "An ACK of several requests tells of those that are not signalled, too."
        SendCompletesOnTransmit "send-completes-on-transmit" "A SEND completes when it was sent."
        WriteCompletesOnTransmit "write-completes-on-transmit" "An RDMA WRITE completes when it was sent."
        ReadCompletesOnTransmit "read-completes-on-transmit" "An RDMA READ completes when its request was sent."
        AtomicCompletesOnTransmit "atomic-completes-on-transmit" "An atomic completes when its request was sent."
        AckCompletesAll "ack-completes-all" "An ACK completes every SEND and WRITE that was sent, not only those up to its PSN."
        AckOfFirstCompletesMessage "ack-of-first-completes-message" "An ACK of a message's first packet completes the message."
        ReadCompletesAtFirst "read-completes-at-first" "An RDMA READ completes with its first response."
        ReadCompletesNext "read-completes-next" "The last response to a READ completes the READ behind it too."
        AtomicAckCompletesNext "atomic-ack-completes-next" "An ATOMIC ACKNOWLEDGE completes the atomic behind its own too."
        ReadAcceptsAck "read-accepts-ack" "An ACK completes an RDMA READ."
        AtomicAcceptsAck "atomic-accepts-ack" "An ACK completes an atomic."
        GhostAckCompletes "ghost-ack-completes" "An ACK with a PSN that was never sent completes what is outstanding."
        CoalescedAckCompletesOne "coalesced-ack-completes-one" "An ACK completes one request only, though it speaks for several."
        AckCompletesLate "ack-completes-late" "An ACK stops the retries of a SEND, but completes it only together with the next one."
        AckOverWrapIgnored "ack-over-wrap-ignored" "An ACK whose PSN is a smaller number than that of the oldest request is taken as old."
        CompletesTwice "completes-twice" "A request completes twice."
        CompletesInReverse "completes-in-reverse" "Requests that one ACK completes complete in reverse order."
        ReservedSyndromeCompletes "reserved-syndrome-completes" "A reserved AETH syndrome is taken as an ACK."
        NakCompletesWithSuccess "nak-completes-with-success" "A request that gets a NAK completes with success."
    }
    "9.7.6.1.1 response data" {
        ReadDataIndex8Bits "read-data-index-8-bits" "The data of READ responses behind the 256th are stored from the beginning on."
        AtomicResultLittleEndian "atomic-result-little-endian" "The original value of an atomic is stored with its bytes in reverse."
        AtomicResultNotWritten "atomic-result-not-written" "The original value of an atomic is not stored."
        AtomicResultMisplaced "atomic-result-misplaced" "The original value of an atomic is stored 8 bytes behind its place, or before it at the end of the memory."
        AtomicResultLow32Bits "atomic-result-low-32-bits" "Only the low 32 bits of the original value of an atomic are stored."
        ReadDataMisplaced "read-data-misplaced" "The data of READ responses behind the first are stored 4 bytes before their place."
        ReadDataNotWritten "read-data-not-written" "The data of the last READ response are not stored."
        ReadGapIgnored "read-gap-ignored" "A READ response that was lost is not missed."
        StaleReadResponseStored "stale-read-response-stored" "A response to a READ that is done is stored where the READ that waits has its data."
        ReadLengthIgnored "read-length-ignored" "A READ response of wrong length is taken as it is."
    }
    // The requester and retries.
    "C9-142" {
        StaleAckRestartsTimer "stale-ack-restarts-timer" "An ACK of what was acknowledged before restarts the retry timer."
        TimerShared "timer-shared" "An ACK on any queue pair restarts the ACK timers of all."
        PartOfReadStopsTimer "part-of-read-stops-timer" "Once a READ has had a response no ACK timer runs for the others."
        CnpStopsTimer "cnp-stops-timer" "A CNP that comes in stops the ACK timer."
        GhostRnrNakObeyed "ghost-rnr-nak-obeyed" "An RNR NAK of a PSN that was never sent makes what is outstanding come again."
        NoTimeoutAfterRnrRetry "no-timeout-after-rnr-retry" "What came again after an RNR NAK and is not answered stays for ever."
        TimeoutCodesBeginAt12 "timeout-codes-begin-at-12" "Codes of the ACK timeout below 12 are taken as 12."
        TimeoutCodesEndAt19 "timeout-codes-end-at-19" "Codes of the ACK timeout above 19 are taken as 19."
        TimeoutEarly "timeout-early" "A request is retried after half the local ACK timeout."
        TimeoutLate "timeout-late" "A request is retried after more than 4 times the local ACK timeout."
        TimeoutNever "timeout-never" "A request without an answer is never retried."
        Timeout0Fires "timeout-0-fires" "With the local ACK timeout off, a request is retried after 67 ms."
        TimeoutRetryWrongPsn "timeout-retry-wrong-psn" "After a time-out the request comes again with the next PSN."
        TimeoutRetrySkipsOldest "timeout-retry-skips-oldest" "After a time-out the retry begins with the second of the outstanding requests."
        StaleNakObeyed "stale-nak-obeyed" "A sequence NAK of what was acknowledged long ago makes all that is outstanding come again."
        StaleRnrNakObeyed "stale-rnr-nak-obeyed" "An RNR NAK of what was acknowledged makes all that is outstanding come again."
        PostRestartsTimer "post-restarts-timer" "A request that is posted restarts the timer of those before it."
        TimeoutNotRestarted "timeout-not-restarted" "Progress does not restart the retry timer."
    }
    "C9-143" {
        HearsInErr "hears-in-err" "In ERR a queue pair takes and answers the requests of its peer."
        TimeoutClearsRetryCnt "timeout-clears-retry-cnt" "A step that names the ACK timeout and not retry_cnt makes that 0."
        StaleAckReloadsRetries "stale-ack-reloads-retries" "An ACK of what was acknowledged before loads the retry counter again."
        RetryOneTooMany "retry-one-too-many" "A request without an answer is retried once more than retry_cnt says."
        RetryOneTooFew "retry-one-too-few" "A request without an answer is retried once less than retry_cnt says."
        RetryForever "retry-forever" "A request without an answer is retried for ever."
        Retry7Endless "retry-7-endless" "retry_cnt 7 retries for ever."
        RnrNakReloadsRetries "rnr-nak-reloads-retries" "An RNR NAK loads the retry counter of time-outs again."
        RetryCntNotReloaded "retry-cnt-not-reloaded" "Progress does not reload the retry counter."
        RetryErrorAsRnrError "retry-error-as-rnr-error" "When the retries are spent, the request completes with the status of the RNR counter."
        RetryErrorWithoutCompletion "retry-error-without-completion" "When the retries are spent, the request gets no completion."
        RetryErrorTwice "retry-error-twice" "When the retries are spent, the request completes twice."
        RetryErrorKeepsQpUp "retry-error-keeps-qp-up" "When the retries are spent, the queue pair stays ready to send."
    }
    "9.7.5.1.1 NAK handling" {
        RefusalKeepsSends "refusal-keeps-sends" "When a request of the other side is refused the receives are flushed, and what was posted to send is not."
        ReceivesStay "receives-stay" "When a request fails the receives stay: only the send queue is flushed."
        SequenceNakIgnored "sequence-nak-ignored" "A sequence NAK is ignored."
        SequenceNakRetriesNext "sequence-nak-retries-next" "A sequence NAK is answered from the PSN behind the one that is missing."
        SequenceNakOutOfOrder "sequence-nak-out-of-order" "After a sequence NAK the packet behind the missing one comes again first."
        SequenceNakSpendsNothing "sequence-nak-spends-nothing" "Sequence NAKs are answered for ever, whatever retry_cnt says."
        SequenceNakNotAnAck "sequence-nak-not-an-ack" "A sequence NAK does not acknowledge what lies before it."
        ImpliedNakIgnored "implied-nak-ignored" "An ACK behind a READ or atomic without an answer completes that one too."
        FatalNakRetried "fatal-nak-retried" "A request that was refused is retried."
        FatalNakWrongStatus "fatal-nak-wrong-status" "An invalid request completes as a remote access error, and the other way round."
        FatalNakKeepsQpUp "fatal-nak-keeps-qp-up" "After a request was refused the queue pair stays ready to send."
        StaleFatalNakObeyed "stale-fatal-nak-obeyed" "A NAK of what was acknowledged ends the oldest request that waits."
        FlushMissing "flush-missing" "Requests behind a failed one get no completion."
        FlushWrongStatus "flush-wrong-status" "Requests behind a failed one complete with a general error instead of being flushed."
        FlushedWrIdLow32Bits "flushed-wr-id-low-32-bits" "What is flushed is told with the low 32 bits of its wr_id."
        FlushInReverse "flush-in-reverse" "Requests behind a failed one are flushed in reverse order."
    }
    // The requester and what it sends.
    "9.7.3 request generation" {
        MigrationLostOnRetry "migration-lost-on-retry" "What comes again has MigReq 0."
        RetryLiftsMaxRdAtomic "retry-lifts-max-rd-atomic" "After a retry one READ or atomic more than max_rd_atomic is in flight."
        FenceLooksOneBack "fence-looks-one-back" "A fence holds only if the request right before it is a READ or an atomic."
        PayloadOffset16Bits "payload-offset-16-bits" "What a message carries beyond 65536 bytes is its beginning again."
        ResumesAsFirst "resumes-as-first" "After a time-out a message that was acknowledged in part goes on with a First or Only."
        ReadResumedTwiceTooLong "read-resumed-twice-too-long" "A READ that is resumed a second time asks for more than is left."
        CreditsHoldSends "credits-hold-sends" "A message that takes a receive waits until an ACK has told of a credit, though none will come by itself."
        CreditsHoldAll "credits-hold-all" "Where no credit is left RDMA WRITEs and READs wait, too."
        LimitedMessageStops "limited-message-stops" "Without a credit the first packet of a message is sent, and no other when that was acknowledged."
        FencePassesAtomics "fence-passes-atomics" "A fenced request waits for READs, not for atomics."
        ReadRetryVaCarryLost "read-retry-va-carry-lost" "Where a READ is resumed its address has no carry into the upper 32 bits."
        SolicitedLostInRnrRetry "solicited-lost-in-rnr-retry" "What comes again after an RNR NAK has lost its SE."
        TimeoutRetryWithoutCompare "timeout-retry-without-compare" "After a time-out an atomic comes again with 0 in place of what the memory must hold."
        AckRequestMissing "ack-request-missing" "No packet asks for an ACK."
        PsnSkipsOne "psn-skips-one" "A PSN is left out between two messages."
        PsnRepeatsInMessage "psn-repeats-in-message" "All packets of a message carry the PSN of the first."
        PsnWrapsAt16Bits "psn-wraps-at-16-bits" "Only the low 16 bits of the PSN are sent."
        ReadReservesOnePsn "read-reserves-one-psn" "A READ takes one PSN, however many responses it has."
        MiddleBelowPmtu "middle-below-pmtu" "First and Middle packets are 4 bytes shorter than the path MTU."
        WriteVaLow48Bits "write-va-low-48-bits" "RETH:VA of a WRITE has 48 bits of the remote address."
        DmaLenOfPacket "dma-len-of-packet" "RETH:DMALen of a WRITE is the length of its first packet."
        MaxRdAtomicIgnored "max-rd-atomic-ignored" "More READs and atomics are in flight than max_rd_atomic allows."
        FenceForgetsEmpty "fence-forgets-empty" "A fenced request without data does not wait for READs and atomics before it."
        FenceEndsAtFirstResponse "fence-ends-at-first-response" "A fence is over with the first response to a READ."
        FenceIgnored "fence-ignored" "A fenced request does not wait for READs and atomics before it."
        PadCountZero "pad-count-zero" "PadCnt is 0 whatever padding there is."
        PadMissing "pad-missing" "A payload is not padded to 4 bytes."
        TVerSetOnSend "tver-set-on-send" "Packets carry TVer 1."
        PKeyZeroOnSend "p-key-zero-on-send" "Packets carry P_Key 0."
        ReservedBitsSet "reserved-bits-set" "Packets carry ones in reserved bits of the BTH."
        SolicitedEventIgnored "solicited-event-ignored" "A solicited SEND carries SE 0."
        FlowLabelIgnored "flow-label-ignored" "Packets carry flow label 0 whatever the address vector says."
        UdpChecksumWrong "udp-checksum-wrong" "Packets carry a UDP checksum that is not theirs."
        SourceAddressOther "source-address-other" "Packets leave with a source address beside the queue pair's."
        ImmediateSwapped "immediate-swapped" "Immediate data are sent with their bytes in reverse."
    }
    "7.8.1 ICRC" {
        IcrcCoversTrafficClass "icrc-covers-traffic-class" "The ICRC is made over the type of service as it stands."
        IcrcByteSwapped "icrc-byte-swapped" "The ICRC is sent with its bytes in reverse."
        BadIcrcAccepted "bad-icrc-accepted" "A packet with a wrong ICRC is taken."
    }
    "9.9.2 requester errors" {
        ZeroLengthReadFails "zero-length-read-fails" "A READ of no bytes fails with a local length error when its response comes."
        LocalFaultWrongStatus "local-fault-wrong-status" "A request over memory that is gone fails as an error of the queue pair."
        LocalFaultAtOnce "local-fault-at-once" "A request over memory that is gone fails before those in front of it are done."
    }
    "9.8.3 datagrams" {
        DatagramPsnConstant "datagram-psn-constant" "All datagrams carry the same PSN."
        DatagramWithoutHeader "datagram-without-header" "A datagram's payload stands at the beginning of its receive."
        DatagramInInit "datagram-in-init" "A datagram is taken in INIT."
        DatagramBeyondMtu "datagram-beyond-mtu" "A datagram of more than the MTU is sent as one packet."
        SqeStopsReceives "sqe-stops-receives" "In SQE a datagram queue pair drops what comes to it."
        DatagramReceiveVanishes "datagram-receive-vanishes" "A receive that is too short for a datagram never completes."
        DatagramStoredAnyway "datagram-stored-anyway" "A datagram is stored where the device may not write."
    }
    // Queue pairs and their hosts.
    "10.3.1 ERR" {
        LateReceiveKept "late-receive-kept" "A receive that is posted in the error state is not flushed."
    }
    "10.3.1 RESET" {
        ResetKeepsHalfWrite "reset-keeps-half-write" "A WRITE that was begun before RESET is still being received after it."
        ResetKeepsRetries "reset-keeps-retries" "Retries that were spent before RESET are missing after it."
        ResetNotDone "reset-not-done" "A step to RESET is answered, and the queue pair goes on as it was."
        ResetFlushes "reset-flushes" "A step to RESET flushes what waits, as an error would, instead of forgetting it."
        ResetKeepsReceives "reset-keeps-receives" "Receives that were posted before RESET are there after it."
    }
    "11.2.5.2 modify queue pair" {
        RefusedStepTaken "refused-step-taken" "A step that is refused for its attributes takes the queue pair to its state all the same."
        AccessOfInitIgnored "access-of-init-ignored" "Rights that a step from INIT to INIT gives are not given."
        AccessOfRtrIgnored "access-of-rtr-ignored" "Rights that the step to RTR gives are not given."
        LaterAttributesIgnored "later-attributes-ignored" "Attributes that a step in RTS or SQD changes stay as they were."
    }
    "11.4.1 work requests" {
        SendQueueOneShort "send-queue-one-short" "A send queue takes one request less than it was made for."
    }
    "10.3.1 send queue drained" {
        DrainedBeforeReads "drained-before-reads" "A send queue is reported drained while READs or atomics are outstanding."
        DrainedReportedOnce "drained-reported-once" "That the send queue has drained is told the first time only."
        SqdSends "sqd-sends" "In SQD requests are begun as in RTS."
        SqdDeaf "sqd-deaf" "In SQD requests of the other side are ignored."
    }
    "11.6.3 asynchronous events" {
        RefusalToldOnce "refusal-told-once" "The event of a refused request is told once in the life of a queue pair, not after RESET again."
        CommEstAlways "comm-est-always" "Every packet in RTR is told of as the first one."
        AccessErrorAsRequestError "access-error-as-request-error" "A remote access error is told of as an invalid request."
    }
    // Validation of what arrives.
    "9.6.1 header validation" {
        OldQKeyOpens "old-q-key-opens" "After a step that names another Q_Key the old one still opens."
        SourceLow16Bits "source-low-16-bits" "Of the source address of a packet the low 16 bits alone are compared."
        TVerIgnored "tver-ignored" "A packet with another TVer is taken."
        PKeyIgnored "p-key-ignored" "A packet with another P_Key is taken."
        DestroyedQpAnswers "destroyed-qp-answers" "A queue pair that was destroyed goes on answering."
        UnknownQpAnswered "unknown-qp-answered" "A packet to a queue pair that does not exist gets a NAK."
        OpcodeClassIgnored "opcode-class-ignored" "An opcode of the unreliable connection is taken as that of the reliable one."
        ResponsePKeyIgnored "response-p-key-ignored" "A response with a P_Key of another partition is taken."
        ResponseSourceIgnored "response-source-ignored" "A response from another address than the connected one is taken."
        SourceAddressIgnored "source-address-ignored" "A packet from another address than the connected one is taken."
        PadCountIgnored "pad-count-ignored" "Padding that arrives is taken as payload."
        DestQpLow16Bits "dest-qp-low-16-bits" "Of DestQP only the low 16 bits are looked at."
        QKeyBit31NotCompared "q-key-bit-31-not-compared" "The highest bit of a Q_Key is not compared."
        QKeyIgnored "q-key-ignored" "A datagram with another Q_Key is taken."
    }
    // The responder.
    "C9-27" {
        AtomicOvertakesReads "atomic-overtakes-reads" "An atomic is answered before the READs that came before it."
        AckOvertakesReads "ack-overtakes-reads" "A SEND or WRITE is acknowledged before the READs that came before it are answered."
        ReadsAnsweredInReverse "reads-answered-in-reverse" "Of two READs that come together, the second is answered first."
    }
    "9.7.5.1 acknowledgement" {
        ReadWithoutAckReqUnanswered "read-without-ack-req-unanswered" "A READ or atomic with AckReq 0 is done and not answered."
        WriteOffset16Bits "write-offset-16-bits" "The bytes of a WRITE from 65536 on land at its beginning."
        DuplicateAckAtWrap "duplicate-ack-at-wrap" "When the expected PSN is 0 a duplicate is acknowledged with PSN 0."
        AckOfLastOnly "ack-of-last-only" "AckReq of the First and Middle packets of a message is ignored."
        MarkedDropped "marked-dropped" "A packet that says that congestion was met is dropped."
        UdpChecksumDropped "udp-checksum-dropped" "A packet whose UDP checksum over IPv4 is not 0 is dropped."
        LastHopDropped "last-hop-dropped" "A packet that has one hop left is dropped."
        SourcePortPinned "source-port-pinned" "A packet from a UDP port below 49152 is dropped."
        ReservedBitsChecked "reserved-bits-checked" "A packet with ones in reserved bits of the BTH is dropped."
        AckMissing "ack-missing" "A request that asks for an ACK gets none."
        WritePlaceShared "write-place-shared" "A WRITE goes on where the last packet of any queue pair's WRITE ended."
        AckWithWrongPsn "ack-with-wrong-psn" "An ACK carries the PSN behind that of the request."
        AckWithFirstPsn "ack-with-first-psn" "An ACK carries the PSN of the message's first packet."
        AckBeforeExecution "ack-before-execution" "A WRITE is acknowledged before its data are in memory: they get there with the next request."
        ResponseToWrongQp "response-to-wrong-qp" "Responses go to the queue pair beside the one that asked."
        ReadResponseShort "read-response-short" "READ responses are half as long as the path MTU."
        ReadResponseWrongData "read-response-wrong-data" "The second response to a READ carries the data of the first."
        ReadResponsePsnConstant "read-response-psn-constant" "All responses to a READ carry the PSN of the request."
        ReadResponsePsnSkipsAtWrap "read-response-psn-skips-at-wrap" "READ responses behind the wrap of the PSN are one further than they should be."
        ReadResponsePsnLosesBit23 "read-response-psn-loses-bit-23" "READ responses behind the half of all PSNs lose the highest bit of theirs."
        ReadResponsePsn8Bits "read-response-psn-8-bits" "The PSNs of a READ's responses behind the 256th begin anew."
        ReadResponseMiddleOnly "read-response-middle-only" "The first response to a READ is a Middle."
    }
    "9.7.7.1 MSN" {
        ResetKeepsMsn "reset-keeps-msn" "After RESET the MSN goes on from where it was."
        MsnNotAdvanced "msn-not-advanced" "The MSN stays 0."
        MsnLow8Bits "msn-low-8-bits" "The MSN that is told has 8 bits."
        MsnLow16Bits "msn-low-16-bits" "The MSN that is told has 16 bits."
        MsnByTwo "msn-by-two" "The MSN advances by two with each message."
        MsnCountsPackets "msn-counts-packets" "The MSN counts packets instead of messages."
        MsnAdvancedByNak "msn-advanced-by-nak" "A NAK, and an RNR NAK, advance the MSN."
        MsnAdvancedByDuplicate "msn-advanced-by-duplicate" "A duplicate advances the MSN."
    }
    "9.4.5 atomics" {
        AtomicNotExecuted "atomic-not-executed" "An atomic is answered, but the memory stays as it is."
        AtomicOriginalIsNew "atomic-original-is-new" "The value after an atomic is returned instead of the one before."
        AtomicOriginalLittleEndian "atomic-original-little-endian" "The original value goes on the wire with its bytes in reverse."
        AtomicOriginalZero "atomic-original-zero" "The original value that is returned is 0."
        CompareIgnored "compare-ignored" "CmpSwap swaps whatever the memory holds."
        CompareLow32Bits "compare-low-32-bits" "CmpSwap compares the low 32 bits only."
        SwapOf0Lost "swap-of-0-lost" "A CmpSwap that stores 0 stores nothing."
        SwapNever "swap-never" "CmpSwap never swaps."
        FetchAddLow32Bits "fetch-add-low-32-bits" "FetchAdd does not carry beyond 32 bits."
        FetchAddStores "fetch-add-stores" "FetchAdd stores what it is to add."
    }
    "9.7.4.1.1 duplicate requests" {
        KeptByMaxRdAtomic "kept-by-max-rd-atomic" "As many READs and atomics are kept as max_rd_atomic says, where that is less than max_dest_rd_atomic."
        ReadKeptTwice "read-kept-twice" "A READ of several responses takes two of the places that are kept for duplicates."
        DuplicateUnansweredAfterRnrNak "duplicate-unanswered-after-rnr-nak" "After an RNR NAK duplicates get no ACK before the request comes again."
        AtomicReplayedOnce "atomic-replayed-once" "The result of an atomic is kept for one duplicate only."
        DuplicateSendDelivered "duplicate-send-delivered" "A duplicate of a SEND is delivered again."
        DuplicateWriteExecuted "duplicate-write-executed" "A duplicate of a WRITE is executed again."
        AtomicReplayNewestOnly "atomic-replay-newest-only" "Of the atomics whose results are kept, only the newest is answered when it comes again."
        CompareSwapExecutedAgain "compare-swap-executed-again" "A duplicate of a CmpSwap is executed again; one of a FetchAdd is not."
        DuplicateAtomicExecuted "duplicate-atomic-executed" "A duplicate of an atomic is executed again."
        DuplicateAtomicShowsMemory "duplicate-atomic-shows-memory" "A duplicate of an atomic is answered with what the memory holds now."
        DuplicateAtomicDropped "duplicate-atomic-dropped" "A duplicate of an atomic gets no answer, though its result is stored."
        DuplicateReadDropped "duplicate-read-dropped" "A duplicate of a READ gets no answer."
        DuplicateNotAcknowledged "duplicate-not-acknowledged" "A duplicate of a SEND or WRITE gets no ACK."
        DuplicateNaked "duplicate-naked" "A duplicate gets a sequence NAK."
        DuplicateAckOldPsn "duplicate-ack-old-psn" "A duplicate is acknowledged with its own PSN, though more was received."
        DuplicateAtomicOtherExecuted "duplicate-atomic-other-executed" "An atomic with a PSN that was answered, and other operands, is executed."
        ResetKeepsAtomics "reset-keeps-atomics" "An atomic that was answered before RESET is answered again after it."
        DuplicateAtomicOfAnyQp "duplicate-atomic-of-any-qp" "A duplicate of an atomic is answered with the latest result of its PSN on any queue pair."
        DuplicateErrorNaked "duplicate-error-naked" "A duplicate of a WRITE to memory that was deregistered is refused."
        DuplicateReadErrorNaked "duplicate-read-error-naked" "A duplicate of a READ with a wrong R_Key is refused."
        DuplicateOverlongNaked "duplicate-overlong-naked" "A duplicate with more data than the path MTU is refused."
        DuplicateRegionHalved "duplicate-region-halved" "Requests more than 2^22 PSNs back are taken as out of sequence."
    }
    "9.7.4.1.1 PSN sequence" {
        ReceiveRearmsGapNak "receive-rearms-gap-nak" "A request behind one that got an RNR NAK gets a sequence NAK once a receive is posted."
        GapAfterReadIgnored "gap-after-read-ignored" "The gap behind one that a READ or atomic closed gets no NAK."
        SecondGapOfMessageIgnored "second-gap-of-message-ignored" "A second gap within a message gets no NAK."
        OutOfSequenceExecuted "out-of-sequence-executed" "A request behind a gap is executed."
        ResetKeepsNakSent "reset-keeps-nak-sent" "A gap that was told of before RESET keeps one after it from being told of."
        GapNotNaked "gap-not-naked" "A gap gets no NAK."
        GapNakedTwice "gap-naked-twice" "Every request behind a gap gets a NAK."
        GapNakWithWrongPsn "gap-nak-with-wrong-psn" "The NAK of a gap carries the PSN that arrived instead of the one that is missing."
        GapNakWithWrongCode "gap-nak-with-wrong-code" "The NAK of a gap says invalid request."
        GapAfterRnrNaked "gap-after-rnr-naked" "A request behind one that got an RNR NAK gets a sequence NAK."
    }
    "9.7.5.2.4 invalid request" {
        RightsNotWithdrawn "rights-not-withdrawn" "A right that the queue pair gave the other side cannot be taken away."
        WriteImmRightIgnored "write-imm-right-ignored" "A WRITE Only with Immediate is done on a queue pair that allows no WRITEs."
        DmaLenInWords "dma-len-in-words" "The last packet of a WRITE may have up to three bytes more or fewer than DMALen says."
        QpRightIgnored "qp-right-ignored" "What the queue pair does not allow is done."
        QpRightWrongNak "qp-right-wrong-nak" "What the queue pair does not allow gets a remote access NAK."
        MaxDestRdAtomic0Answers "max-dest-rd-atomic-0-answers" "A queue pair with max_dest_rd_atomic 0 answers READs."
        UnalignedAtomicAccepted "unaligned-atomic-accepted" "An atomic on an address that is no multiple of 8 is done."
        UnalignedAtomicWrongNak "unaligned-atomic-wrong-nak" "An atomic on an address that is no multiple of 8 gets a remote operational NAK."
        OpcodeOrderIgnored "opcode-order-ignored" "A Middle or Last without a First is dropped in silence."
        OpcodeOrderWrongNak "opcode-order-wrong-nak" "A Middle or Last without a First gets a sequence NAK."
        ReservedOpcodeIgnored "reserved-opcode-ignored" "A reserved opcode is acknowledged."
        ReservedOpcodeWrongNak "reserved-opcode-wrong-nak" "A reserved opcode gets a remote operational NAK."
        OverlongSendTruncated "overlong-send-truncated" "A SEND longer than the receive is cut and acknowledged."
        OverlongSendWithinWord "overlong-send-within-word" "A SEND that is longer than the receive, and no longer than the next multiple of 4, is cut and acknowledged."
        OverlongSendWrongNak "overlong-send-wrong-nak" "A SEND longer than the receive gets a remote operational NAK."
        ShortMiddleAccepted "short-middle-accepted" "A First or Middle shorter than the path MTU is taken."
        ShortMiddleWrongNak "short-middle-wrong-nak" "A First or Middle shorter than the path MTU gets a remote operational NAK."
        EmptyLastTaken "empty-last-taken" "The Last of a WRITE may be empty where DMALen is reached."
        DmaLenIgnored "dma-len-ignored" "A WRITE with less or more data than DMALen says is taken."
        DmaLenWrongNak "dma-len-wrong-nak" "A WRITE with less or more data than DMALen says gets a remote access NAK."
    }
    "9.7.5.2.5 remote access" {
        InvalidatesBeforeRnrNak "invalidates-before-rnr-nak" "A SEND with Invalidate takes the R_Key away, though it gets an RNR NAK."
        RKeyIgnored "r-key-ignored" "A wrong R_Key opens the memory at its address."
        DeregisteredOpen "deregistered-open" "The R_Key of memory that was deregistered still opens it."
        RKeyWrongNak "r-key-wrong-nak" "A wrong R_Key gets an invalid request NAK."
        BoundsIgnored "bounds-ignored" "A request that reaches beyond the region is done as far as it lies within."
        BoundsOffByOne "bounds-off-by-one" "A request may reach one byte beyond its region."
        AddressLow32Bits "address-low-32-bits" "Of the address of a request only the low 32 bits are looked at."
        RKeyLowByteIgnored "r-key-low-byte-ignored" "The low 8 bits of an R_Key are not compared."
        BoundsWrongNak "bounds-wrong-nak" "A request that reaches beyond the region gets an invalid request NAK."
        RegionRightIgnored "region-right-ignored" "What the region does not allow is done."
        RegionRightWrongNak "region-right-wrong-nak" "What the region does not allow gets an invalid request NAK."
        InvalidateIgnored "invalidate-ignored" "A SEND with Invalidate takes no R_Key away, and none is too wrong for it."
        ZeroLengthRKeyChecked "zero-length-r-key-checked" "The R_Key of a READ or WRITE of length 0 is checked."
    }
    "9.9.3 responder errors" {
        FatalNakMissing "fatal-nak-missing" "A request that is refused gets no NAK."
        ReceiveFaultAsInvalidRequest "receive-fault-as-invalid-request" "A receive where the device may not write makes the SEND an invalid request."
        FatalNakWithWrongPsn "fatal-nak-with-wrong-psn" "The NAK of a refused request carries the PSN before it."
        EmptyReceiveTooShort "empty-receive-too-short" "A SEND of no bytes does not fit a receive of no bytes."
        ResponderStaysUp "responder-stays-up" "After a request was refused the queue pair takes more."
        RefusedWriteExecuted "refused-write-executed" "A WRITE that is refused for its length is executed all the same."
    }
    "A17.9 congestion notification" {
        CnpToOwnQpn "cnp-to-own-qpn" "A CNP names the sender's own queue pair."
        CnpWithoutBecn "cnp-without-becn" "A notice of congestion says nothing: its BECN is 0."
        CnpWithData "cnp-with-data" "The reserved bytes of a notice of congestion are not 0."
        CnpWithPsn "cnp-with-psn" "A notice of congestion carries the PSN of the packet that was marked."
        CnpWithoutPartition "cnp-without-partition" "The P_Key of a notice of congestion is 0."
        CnpWithoutCause "cnp-without-cause" "Packets that the network has not marked get notices of congestion."
    }
    "9.5 transaction ordering" {
        DuplicateFirstRestartsWrite "duplicate-first-restarts-write" "A duplicate of the First of the WRITE that is being received makes it go on behind the First."
    }
    "9.7.5.2.8 RNR NAK" {
        RnrTimerOfRtsIgnored "rnr-timer-of-rts-ignored" "The min_rnr_timer that the step from RTR to RTS names is ignored."
        RnrNakMissing "rnr-nak-missing" "A SEND for which no receive is posted gets no RNR NAK."
        RnrNakOnce "rnr-nak-once" "A request gets one RNR NAK, and none when it comes again before a receive is there."
        RnrNakMissingInRtr "rnr-nak-missing-in-rtr" "In RTR a SEND for which no receive is posted gets no RNR NAK."
        AckWithoutReceive "ack-without-receive" "A SEND for which no receive is posted is acknowledged and lost."
        RnrNakWithWrongCode "rnr-nak-with-wrong-code" "An RNR NAK asks for the next shorter interval than min_rnr_timer."
        RnrNakShortCodesAs1 "rnr-nak-short-codes-as-1" "An RNR NAK for a min_rnr_timer below 1 ms asks for 0.01 ms."
        RnrNakWithWrongPsn "rnr-nak-with-wrong-psn" "An RNR NAK carries the PSN behind that of the request."
        RnrNakAsInvalidRequest "rnr-nak-as-invalid-request" "A SEND for which no receive is posted gets an invalid request NAK."
        RnrNakOnWrite "rnr-nak-on-write" "An RDMA WRITE without Immediate gets an RNR NAK when no receive is posted."
    }
    "9.4.1 SEND and immediate" {
        DuplicateImmCompletes "duplicate-imm-completes" "A duplicate of a WRITE with Immediate completes another receive."
        ReceiveLength16Bits "receive-length-16-bits" "A receive's byte count has 16 bits."
        HalfReceiveFlushedLast "half-receive-flushed-last" "A receive that a message has begun to fill is flushed behind those that were posted after it."
        SendMisplaced "send-misplaced" "The data of SEND packets behind the first are stored 4 bytes before their place."
        ReceiveLengthOfLastPacket "receive-length-of-last-packet" "A receive's byte count is that of the last packet."
        ReceiveOpcodeOfWrite "receive-opcode-of-write" "A receive that a SEND filled completes as that of a WRITE with Immediate."
        ReceivesNewestFirst "receives-newest-first" "A SEND takes the receive that was posted last."
        ImmediateLost "immediate-lost" "Immediate data do not reach the completion."
        ImmediateBit15OfLongLost "immediate-bit-15-of-long-lost" "Bit 15 of immediate data is 0 in completions of messages of more than 1024 bytes."
        WriteImmTakesNoReceive "write-imm-takes-no-receive" "An RDMA WRITE with Immediate completes no receive."
        WriteTakesReceive "write-takes-receive" "An RDMA WRITE without Immediate completes a receive."
    }
}
