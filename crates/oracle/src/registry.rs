//! Lists all rules, each with its name, layer, statement and demand. The tables of functions that check the rules are
//! next to the functions.

use core::fmt;

/// Part of an event that a rule checks. The variants are in order, from the innermost layer, `Frame`, outwards. If
/// one event breaks two rules, the finding of the outer layer follows from the finding of the inner layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Layer {
    /// Checksums, addresses and lengths of the frame.
    Frame,
    /// Fields of the headers.
    Headers,
    /// PSNs and the order of packets.
    Order,
    /// Whether another event allowed or demanded the event.
    Reason,
    /// Time of the event.
    Time,
    /// Number of occurrences, and counters.
    Count,
    /// Payload, memory and fields of attributes.
    Content,
    /// Completions.
    Completion,
    /// States of the queue pair or port, and events.
    State,
    /// An expected event that did not occur.
    Missing,
}

/// Table with a row for each rule: variant, layer, name in reports, ID of the statement, and demand in our own
/// words.
macro_rules! rules {
    ($($rule:ident $layer:ident $name:literal $statement:literal $says:literal;)*) => {
        /// Rule of the architecture: one demand on one event.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Rule { $(#[doc = $says] $rule,)* }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            /// Returns the rule's name in reports, such as `msn`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }

            /// Returns the registry ID of the statement that the rule belongs to.
            #[must_use]
            pub const fn statement(self) -> &'static str {
                match self { $(Self::$rule => $statement,)* }
            }

            /// Returns the rule's demand, in our own words.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$rule => $says,)* }
            }

            /// Returns the part of an event that the rule checks.
            #[must_use]
            pub const fn layer(self) -> Layer {
                match self { $(Self::$rule => Layer::$layer,)* }
            }
        }
    };
}

impl Rule {
    /// Returns the rule with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl Rule {
    /// Returns the rules of ports about the M_Key, its protection level and its lease.
    #[must_use]
    pub const fn of_the_lock() -> &'static [Self] {
        &[
            Self::MKeyDrops,
            Self::MKeyPasses,
            Self::MKeyHidden,
            Self::MKeyShows,
            Self::MKeyObeyed,
            Self::LeaseExpires,
            Self::LeaseStops,
            Self::LeaseEndless,
            Self::Violations,
        ]
    }
}

impl From<Rule> for &'static str {
    fn from(rule: Rule) -> Self {
        rule.name()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

rules! {
    PKey Headers "p-key" "9.6.1 header validation"
        "All packets of a connection have the P_Key of its partition.";
    Icrc Frame "icrc" "7.8.1 ICRC"
        "The ICRC matches the packet.";
    Vcrc Frame "vcrc" "9.6.1 header validation"
        "The VCRC matches the packet, if the capture has the VCRC.";
    IpChecksum Frame "ip-checksum" "9.6.1 header validation"
        "The IPv4 header checksum is right.";
    UdpLength Frame "udp-length" "9.6.1 header validation"
        "The UDP length agrees with the IP length.";
    UdpChecksum Frame "udp-checksum" "9.7.3 request generation"
        "The UDP checksum is right, or 0 for no checksum.";
    Opcode Headers "opcode" "9.7.3 request generation"
        "The opcode is defined for RC.";
    Tver Headers "tver" "9.6.1 header validation"
        "The transport version is 0.";
    Reserved Headers "reserved" "9.6.1 header validation"
        "Reserved bits of the BTH are 0.";
    Format Headers "format" "9.7.3 request generation"
        "The packet has the extended headers of its opcode, and a payload only if the opcode allows one.";
    Padding Headers "padding" "9.7.3 request generation"
        "PadCnt pads the payload to a multiple of 4 bytes. It is 0 if the payload is a multiple of the path MTU, or \
         empty.";
    SolicitedEvent Headers "solicited-event" "9.7.3 request generation"
        "SE is set only in the last packet of a message that takes a receive.";
    AckRequestOfResponse Headers "ack-request-of-response" "9.7.5.1 acknowledgement"
        "A response has AckReq 0.";
    Syndrome Headers "syndrome" "9.7.5.1 acknowledgement"
        "The AETH's syndrome is defined for RC. In a response with data it is an ACK.";
    Psn Order "psn" "9.7.3 request generation"
        "A new request has the PSN after the last request's PSNs. A READ takes one PSN for each response packet.";
    GoBack Order "go-back" "9.7.3 request generation"
        "Retransmissions are in order. The requester may go back further, or skip acknowledged requests.";
    AcknowledgedAgain Reason "acknowledged-again" "9.7.3 request generation"
        "The requester does not retransmit an acknowledged request.";
    SameAgain Content "same-again" "9.7.3 request generation"
        "A retransmission equals the original in opcode, extended headers and payload. A READ may resume at the first \
         missing response.";
    OpcodeOrder Order "opcode-order" "9.7.3 request generation"
        "After a First or Middle comes a Middle or Last of the same message. After the end of a message another \
         message begins.";
    PayloadLength Headers "payload-length" "9.7.3 request generation"
        "A First or Middle carries one path MTU, a Last 1 byte to one path MTU, an Only at most one path MTU.";
    DmaLength Headers "dma-length" "9.7.3 request generation"
        "The packets of a WRITE carry DMALen bytes in total. DMALen is at most 2^31.";
    RnrInterval Time "rnr-interval" "C9-130"
        "After an RNR NAK, the requester waits for the interval of the NAK before it retransmits the request.";
    AnswersARequest Order "answers-a-request" "9.7.5.1 acknowledgement"
        "A response has the PSN of a request that was sent.";
    ResponseKind Order "response-kind" "9.7.5.1 acknowledgement"
        "READ responses answer READs, atomic acknowledgements atomics.";
    ResponsesInOrder Order "responses-in-order" "C9-27"
        "No later response overtakes the responses to a READ or atomic. The responder omits none of them, and repeats \
         one only after a retransmission of the request.";
    ReadResponseOpcode Headers "read-response-opcode" "9.7.5.1 acknowledgement"
        "The responses to a READ are First, Middle and Last, or one Only.";
    ReadResponseLength Headers "read-response-length" "9.7.5.1 acknowledgement"
        "Each READ response carries one path MTU, the last response the remaining bytes.";
    AtomicAgain Content "atomic-again" "9.7.4.1.1 duplicate requests"
        "The response to a repeated atomic returns the original result.";
    AcknowledgementOrder Order "acknowledgement-order" "9.7.5.1 acknowledgement"
        "The PSNs of acknowledgements never decrease. An acknowledged request is not refused.";
    DamagedRequest Reason "damaged-request" "9.6.1 header validation"
        "The responder does not acknowledge a packet that its port discards.";
    InvalidRequest Reason "invalid-request" "9.7.5.2.4 invalid request"
        "The responder refuses invalid requests. A request is invalid if it breaks the structure of its message, if \
         the queue pair does not allow it, or if the address of an atomic is not a multiple of 8.";
    RemoteAccess Reason "remote-access" "9.7.5.2.5 remote access"
        "The responder refuses a request that no memory region allows. It sends neither an ACK nor a response with \
         data.";
    NakCode Reason "nak-code" "9.9.3 responder errors"
        "The NAK of an invalid request has the code invalid request. The NAK of a request that no memory region allows \
         has the code remote access error.";
    RefusalReason Reason "refusal-reason" "9.9.3 responder errors"
        "A READ, WRITE or atomic in sequence gets no NAK that ends the connection, if memory and queue pair allow it.";
    AccessReason Reason "access-reason" "9.7.5.2.5 remote access"
        "A READ, WRITE or atomic that memory and queue pair allow gets no remote access error NAK.";
    Msn Count "msn" "9.7.7.1 MSN"
        "The MSN counts the completed messages. A READ counts from its acceptance on, or from its last response on.";
    SequenceNak Reason "sequence-nak" "9.7.4.1.1 PSN sequence"
        "A sequence NAK has the PSN of a missing request, after a later request arrived. A request that got an RNR NAK \
         is not missing.";
    SequenceNakOnce Count "sequence-nak-once" "9.7.4.1.1 PSN sequence"
        "The responder sends one sequence NAK for a gap, until the missing PSN arrives.";
    RetryBeforeAck Reason "retry-before-ack" "9.7.5.1 acknowledgement"
        "After a sequence NAK or RNR NAK, the responder acknowledges no request from the NAK's PSN on until that PSN \
         was sent again.";
    AfterRefusal State "after-refusal" "9.9.3 responder errors"
        "After a NAK that ends the connection, the responder sends no further response.";
    NakRetried Missing "nak-retried" "9.7.5.1.1 NAK handling"
        "After a sequence NAK, or a response that skips a READ or atomic, the requester retransmits the missing or \
         skipped request.";
    NakResendsAll Missing "nak-resends-all" "9.7.5.1.1 NAK handling"
        "After a sequence NAK, the requester also retransmits all packets that it had sent after the missing packet.";
    RnrRetried Missing "rnr-retried" "9.7.5.2.8 RNR retry"
        "After an RNR NAK, the requester retransmits the request while RNR retries are left.";
    OutstandingEnds Missing "outstanding-ends" "C9-142"
        "A request that gets no further response is retransmitted until its retries are spent. Then it fails, even if \
         it got a response before.";
    TimeoutRetried Missing "timeout-retried" "C9-142"
        "A request without a response is retransmitted, or fails.";
    RequestAnswered Missing "request-answered" "9.7.5.1 acknowledgement"
        "The responder answers each READ, each atomic, and each request with AckReq: with its response, with an ACK of \
         it or of a later request, or with a NAK.";
    RnrNakOwed Missing "rnr-nak-owed" "9.7.5.2.8 RNR NAK"
        "The responder sends an RNR NAK for a message that lacks a receive, or for an earlier request.";
    AnsweredAtOnce Missing "answered-at-once" "9.7.5.1 acknowledgement"
        "At least one of the SENDs and WRITEs with AckReq gets its response before it is retransmitted.";
    DuplicateAnswered Missing "duplicate-answered" "9.7.4.1.1 duplicate requests"
        "The responder answers the duplicate of an executed request. For READs and atomics, this applies to the last \
         max_dest_rd_atomic of them.";
    GapAnswered Missing "gap-answered" "9.7.4.1.1 PSN sequence"
        "The first request after a missing request gets a sequence NAK with the missing PSN.";
    CompletedBy Completion "completed-by" "C9-60"
        "A request completes with success only after its response. A SEND or WRITE needs an acknowledgement of its \
         last packet, a READ all of its responses, an atomic its ATOMIC ACKNOWLEDGE.";
    ResponsesMissing Completion "responses-missing" "9.7.6.1.1 response data"
        "A READ does not complete with success if one of its responses is missing or has the wrong length.";
    ResponsesOdd Completion "responses-odd" "9.7.6.1.1 response data"
        "A READ that was sent once completes with success only if its responses are First, Middle and Last, or Only, \
         in order.";
    Skipped Completion "skipped" "9.7.5.1.1 NAK handling"
        "A response to a later request does not complete an unanswered READ or atomic.";
    CompletionOrder Completion "completion-order" "C9-60"
        "Requests complete once each, in the order in which they were posted.";
    CompletionFields Completion "completion-fields" "C9-60"
        "A completion with success has the opcode of its work request, and for a READ or atomic the number of received \
         bytes.";
    Unsignalled Completion "unsignalled" "C9-60"
        "An unsignalled request completes only if it fails.";
    Cnp Headers "cnp" "A17.9 congestion notification"
        "A CNP has BECN 1, SE 0, AckReq 0, PSN 0, the P_Key of the marked packet, 16 payload bytes of 0, and a right \
         ICRC.";
    CnpCause Reason "cnp-cause" "A17.9 congestion notification"
        "A CNP is sent only after a packet arrived that the network marked, or could have marked.";
    CreditsThere Count "credits-there" "9.7.5.1 acknowledgement"
        "An ACK grants no more credits than there are posted receives that no earlier message took.";
    MemoryContent Content "memory-content" "9.5 transaction ordering"
        "Each request is executed once and in order. All other memory keeps its content.";
    SendContent Content "send-content" "9.4.1 SEND and immediate"
        "The payload of an acknowledged SEND is in the memory of its receive.";
    WriteContent Content "write-content" "9.7.5.1 acknowledgement"
        "The payload of an acknowledged WRITE is in memory at the WRITE's address.";
    AtomicContent Content "atomic-content" "9.4.5 atomics"
        "The result of an acknowledged atomic is in memory at the atomic's address.";
    RefusedContent Content "refused-content" "9.9.3 responder errors"
        "A request whose NAK ends the connection, and all later requests, change no memory.";
    ReadContent Content "read-content" "9.5 transaction ordering"
        "A READ returns the memory's content after the execution of all earlier requests.";
    AtomicOriginal Content "atomic-original" "9.4.5 atomics"
        "An atomic returns the content of its 64 bits after the execution of all earlier requests.";
    RefusalStatus Completion "refusal-status" "9.7.5.1.1 NAK handling"
        "A request fails with the status of a NAK only if it got that NAK.";
    RnrError Completion "rnr-error" "9.7.5.2.8 RNR retry"
        "A request fails for spent RNR retries only after more than rnr_retry RNR NAKs, and never with rnr_retry 7.";
    RetryError Completion "retry-error" "C9-143"
        "A request fails for spent retries only after it was sent 1 + retry_cnt times without a response.";
    FlushStatus Completion "flush-status" "C9-60"
        "A request is flushed only after an earlier request failed, the queue pair refused a request of its peer, or \
         the host moved the queue pair to the error state.";
    FlushOrder Completion "flush-order" "9.7.5.1.1 NAK handling"
        "Flushed requests complete in the order in which they were posted.";
    EventAsNak State "event-as-nak" "11.6.3 asynchronous events"
        "A queue pair that sent a NAK reports the matching event: an access error after a remote access error, a \
         request error after an invalid request.";
    DrainedWhenDone State "drained-when-done" "10.3.1 send queue drained"
        "A send queue is reported drained only after the responses to all requests that were sent before SQD.";
    RnrFails Missing "rnr-fails" "9.7.5.2.8 RNR error completion"
        "When the RNR retries are spent, the request fails with IBV_WC_RNR_RETRY_EXC_ERR.";
    NakFails Missing "nak-fails" "9.7.5.1.1 NAK handling"
        "When sequence NAKs have spent the retries, the request fails with IBV_WC_RETRY_EXC_ERR.";
    RetryFails Missing "retry-fails" "C9-143"
        "When the retries are spent, the request fails with IBV_WC_RETRY_EXC_ERR.";
    RefusalFails Missing "refusal-fails" "9.7.5.1.1 NAK handling"
        "A request whose NAK ends the connection fails with the status of that NAK.";
    BadResponseFails Missing "bad-response-fails" "9.7.6.1.1 response data"
        "A request whose READ response has the wrong length fails with IBV_WC_LOC_LEN_ERR or IBV_WC_BAD_RESP_ERR.";
    Flushed State "flushed" "9.7.5.1.1 NAK handling"
        "After a request failed, or the host moved the queue pair to the error state, all outstanding work requests \
         are flushed.";
    ErrorState State "error-state" "9.7.5.1.1 NAK handling"
        "After a request failed, the queue pair is in the error state.";
    LocalFault Completion "local-fault" "9.9.2 requester errors"
        "A request whose local memory does not allow the access fails with IBV_WC_LOC_PROT_ERR. Its data is not sent.";
    LocalError Completion "local-error" "9.9.2 requester errors"
        "A request fails with a local error only if its memory or a response gives a reason.";
    ResponseData Content "response-data" "9.7.6.1.1 response data"
        "When a READ or atomic completes, the data of its responses is in the memory of its work request. All other \
         memory keeps its content.";
    AddressVector Headers "address-vector" "9.7.3 request generation"
        "Every packet except a CNP carries the hop limit, the traffic class and the flow label of the queue pair's \
         address vector.";
    Frame Frame "frame" "9.7.3 request generation"
        "Every packet goes from the queue pair's own address to its peer's address. Its frame contains nothing else.";
    DestQp Headers "dest-qp" "9.7.5.1 acknowledgement"
        "A response goes to the requester's queue pair, and to no other.";
    MigrationState Headers "migration-state" "9.7.3 request generation"
        "All requests of a queue pair have the same MigReq, and so do all its responses, if no host set another path.";
    AnsweredOnce Count "answered-once" "9.7.5.1 acknowledgement"
        "The responder sends a response with data, or an RNR NAK, at most once for each transmission of the request.";
    AtomicUnknown Reason "atomic-unknown" "9.7.4.1.1 duplicate requests"
        "An atomic whose PSN lies before the connection's first PSN gets no response: the responder has no stored \
         result for it.";
    NeverBack Order "never-back" "C9-27"
        "No response to a later PSN precedes a response to a READ or atomic that was sent once.";
    SentWhenPosted Missing "sent-when-posted" "9.7.3 request generation"
        "A posted request is sent, unless an earlier request holds it back.";
    GoesOn Missing "goes-on" "9.7.3 request generation"
        "After all earlier packets were acknowledged, the requester sends the next posted packet, regardless of the \
         granted credits.";
    AnsweredCompletes Missing "answered-completes" "C9-60"
        "An answered request completes.";
    NakAcknowledges Missing "nak-acknowledges" "9.7.5.1.1 NAK handling"
        "A NAK completes all requests before its PSN.";
    ReceiveThere Reason "receive-there" "9.7.5.2.8 RNR NAK"
        "A SEND, or a WRITE with Immediate, is acknowledged only when a receive was posted for it.";
    RnrTimer Headers "rnr-timer" "9.7.5.2.8 RNR NAK"
        "An RNR NAK carries the interval of min_rnr_timer, or a longer one.";
    ReceiveCompletes Missing "receive-completes" "9.4.1 SEND and immediate"
        "When a message that takes a receive is acknowledged, a receive completes.";
    RnrReason Reason "rnr-reason" "9.7.5.2.8 RNR NAK"
        "An RNR NAK refuses a message that takes a receive, and for which none is posted. On hardware another resource \
         may be lacking for a moment, but not each time on three connections.";
    ReceiveOrder Completion "receive-order" "9.4.1 SEND and immediate"
        "Receives complete once each, in the order in which they were posted.";
    ReceiveFields Completion "receive-fields" "9.4.1 SEND and immediate"
        "A receive that completes with success has the opcode, the length and the immediate data of the message that \
         filled it.";
    ReceiveLast Completion "receive-last" "C9-60"
        "A receive completes with success only after the last packet of its message was sent.";
    RefusedSilent State "refused-silent" "9.9.3 responder errors"
        "After a NAK that ends the connection, the queue pair sends no response on it.";
    RefusedState State "refused-state" "9.9.3 responder errors"
        "The queue pair whose NAK ended the connection is in the error state.";
    Posted Headers "posted" "9.7.3 request generation"
        "Each request packet matches the work request of its PSN in opcode, headers, length and payload.";
    InOrder Order "in-order" "9.7.3 request generation"
        "Packets are sent in the order of their PSNs, without gaps.";
    AckRequested Order "ack-requested" "9.7.3 request generation"
        "The last packet of a SEND or WRITE has AckReq 1 if no packet follows it. If a message stops in the middle, \
         one of its unacknowledged packets has AckReq 1.";
    InFlight Reason "in-flight" "9.7.3 request generation"
        "At no time are more than max_rd_atomic READs and atomics unanswered.";
    Fence Reason "fence" "9.7.3 request generation"
        "A fenced request is sent only after all earlier READs and atomics were answered.";
    AfterError State "after-error" "C9-143"
        "After a request failed, or the host moved the queue pair to ERR, the queue pair sends no requests, and no \
         responses to later packets.";
    UnaskedRetry Reason "unasked-retry" "C9-142"
        "A request is retransmitted only after a timeout, a NAK, or a response to a later request that skips it.";
    TimeoutOff Reason "timeout-off" "C9-142"
        "With the local ACK timeout off, an unanswered request is never retransmitted.";
    RetryCount Count "retry-count" "C9-143"
        "Timeouts, sequence NAKs and responses that skip a READ together cause at most retry_cnt retransmissions of a \
         request without progress.";
    NakCount Reason "nak-count" "9.7.5.1.1 NAK handling"
        "With the local ACK timeout off, sequence NAKs and responses that skip a READ cause at most retry_cnt \
         retransmissions of a request without progress.";
    RnrCount Count "rnr-count" "9.7.5.2.8 RNR retry"
        "RNR NAKs cause at most rnr_retry retransmissions of a request without progress.";
    AckTimeout Time "ack-timeout" "C9-142"
        "An unanswered request is retransmitted between one and four times the local ACK timeout after its last \
         transmission.";
    TimerRestarts Time "timer-restarts" "C9-142"
        "Progress restarts the local ACK timeout, even a response in the middle of a READ. A retransmission after a \
         NAK restarts it, too.";
    StepRefused State "step-refused" "11.2.5.2 modify queue pair"
        "A transition is refused if no queue pair has it, if it lacks an attribute that it needs, or if it has one \
         that it does not take.";
    StepTaken State "step-taken" "11.2.5.2 modify queue pair"
        "A transition with all attributes that it needs is accepted, with or without those that it may have.";
    State State "state" "11.2.5.2 modify queue pair"
        "A queue pair has the state and the PSNs of its last accepted transition. A refused transition changes \
         neither.";
    WorkRefused State "work-refused" "11.4.1 work requests"
        "Send requests are refused before RTS, and receives in RESET.";
    WorkTaken State "work-taken" "11.4.1 work requests"
        "Send requests are accepted from RTS on, and receives from INIT on, up to the size of the queue.";
    EventReason State "event-reason" "11.6.3 asynchronous events"
        "A queue pair reports only events that happened: established communication once, after a packet in RTR; a \
         drained send queue once, in SQD; an error only after a packet arrived.";
    SilentState State "silent-state" "10.3.1 RESET"
        "A queue pair in RESET or INIT sends no packets and completes no work requests. A queue pair in ERR sends no \
         packets.";
    FlushedLate State "flushed-late" "10.3.1 ERR"
        "A work request that is posted in ERR is flushed, and so is a send request that is posted in SQE.";
    DatagramCompletes State "datagram-completes" "11.4.1 work requests"
        "A posted datagram completes: in RTS at once, in SQD when the queue pair is in RTS again.";
    DatagramSent Headers "datagram-sent" "9.8.3 datagrams"
        "Each datagram has the next PSN, and matches its work request in opcode, headers, length and payload. A request \
         that a datagram queue pair cannot send has no packet.";
    DatagramDone Completion "datagram-done" "9.8.3 datagrams"
        "A datagram that can be sent completes once, with success, in order.";
    DatagramReceived Completion "datagram-received" "9.8.3 datagrams"
        "A valid datagram completes the next receive, with its length and its immediate data. A receive that is too \
         short, or that the device may not write, does not complete with success. In ERR each receive completes.";
    DatagramDropped Reason "datagram-dropped" "9.6.1 header validation"
        "A datagram that is not valid for the queue pair, or that finds no receive, completes no receive.";
    DatagramStored Content "datagram-stored" "9.8.3 datagrams"
        "A receive holds the addresses of its datagram in the first 40 bytes, then the payload. The rest of the receive \
         does not change, and neither does a receive without a datagram.";
    RnrWait Time "rnr-wait" "C9-130"
        "A retransmission that only RNR NAKs caused comes after the interval of the last RNR NAK.";
    Drained Time "drained" "10.3.1 send queue drained"
        "A request that is posted in SQD is not sent before the queue pair is in RTS again.";
    ReceiveFits Reason "receive-fits" "9.7.5.2.4 invalid request"
        "A SEND that is longer than its receive gets an invalid request NAK.";
    ReceiveFault Reason "receive-fault" "9.9.3 responder errors"
        "A SEND into a receive whose memory the device may not write gets a remote operational error NAK.";
    PutOff Reason "put-off" "9.7.5.2.8 RNR NAK"
        "A SEND without a receive gets an RNR NAK. It gets no invalid request NAK and no remote access error NAK.";
    SendRefused Reason "send-refused" "9.9.3 responder errors"
        "A SEND that fits its receive gets no invalid request NAK and no remote access error NAK.";
    PairCompletes Missing "pair-completes" "C9-60"
        "Each signaled request between two adapters completes, and so does each request that fails.";
    PairOnce Completion "pair-once" "C9-60"
        "The work requests of a queue complete once each, in the order of the posts. A request that is not signaled \
         completes only if it fails.";
    PairDone Completion "pair-done" "C9-60"
        "A request that both ends allow completes with success.";
    PairRnrRetry Completion "pair-rnr-retry" "9.7.5.2.8 RNR retry"
        "A request whose receive is posted before rnr_retry intervals have passed completes with success. With \
         rnr_retry 7 it never fails for want of a receive.";
    PairRnrError Completion "pair-rnr-error" "9.7.5.2.8 RNR error completion"
        "A request that never finds a receive fails with IBV_WC_RNR_RETRY_EXC_ERR.";
    PairRnrWait Time "pair-rnr-wait" "C9-130"
        "A request that waits for a receive completes no earlier than the RNR intervals that it must wait.";
    PairRetryError Completion "pair-retry-error" "C9-143"
        "A request to a queue pair that does not hear it fails with IBV_WC_RETRY_EXC_ERR. If that queue pair is back \
         before the last retry, the request completes with success.";
    PairTimeout Time "pair-timeout" "C9-142"
        "A request that gets no response fails between one and four times 1 + retry_cnt ACK timeouts after its post.";
    PairSequence Completion "pair-sequence" "9.7.4.1.1 PSN sequence"
        "A request behind a gap in the PSNs is not executed: it fails when the retries are spent.";
    PairDuplicate Completion "pair-duplicate" "9.7.4.1.1 duplicate requests"
        "A SEND or WRITE before the expected PSN is acknowledged, and has no effect.";
    PairInvalid Completion "pair-invalid" "9.7.5.2.4 invalid request"
        "A request that is not valid for the other queue pair fails with IBV_WC_REM_INV_REQ_ERR.";
    PairAccess Completion "pair-access" "9.7.5.2.5 remote access"
        "A request that no region of the other end allows fails with IBV_WC_REM_ACCESS_ERR.";
    PairOperational Completion "pair-operational" "9.9.3 responder errors"
        "A SEND into a receive that the device may not write fails with IBV_WC_REM_OP_ERR. The receive fails too.";
    PairLocal Completion "pair-local" "9.9.2 requester errors"
        "A request whose local memory does not allow the access fails with IBV_WC_LOC_PROT_ERR.";
    PairFlushed Completion "pair-flushed" "9.7.5.1.1 NAK handling"
        "After a failed request all later requests and all receives of its queue pair are flushed, and the queue pair \
         is in ERR.";
    PairRefused State "pair-refused" "9.9.3 responder errors"
        "A queue pair that refused a request is in ERR, and its receives are flushed.";
    PairEvent State "pair-event" "11.6.3 asynchronous events"
        "A queue pair that refused a request reports the event of that refusal once.";
    PairReceive Completion "pair-receive" "9.4.1 SEND and immediate"
        "Each message that takes a receive completes the next one, with its length, its immediate data and its \
         opcode. No other message completes a receive.";
    PairExecuted Content "pair-executed" "9.7.5.1 acknowledgement"
        "The memory of the responder holds the results of all messages, and keeps all other bytes.";
    PairSent Content "pair-sent" "9.7.3 request generation"
        "The memory of the responder holds the bytes of the requester's messages, and keeps all other bytes.";
    PairReadData Content "pair-read-data" "9.7.6.1.1 response data"
        "The memory of the requester holds the results of its READs, and keeps all other bytes.";
    PairAtomic Content "pair-atomic" "9.4.5 atomics"
        "An atomic returns the value before it, and leaves the value after it.";
    MKeyDrops Reason "m-key-drops" "C14-16"
        "A wrong-key Get at levels 2 and 3, and any other wrong-key SMP, gets no response.";
    MKeyPasses Missing "m-key-passes" "C14-16"
        "A right-key SMP gets a response, and so does a wrong-key Get at levels 0 and 1.";
    MKeyHidden Content "m-key-hidden" "C14-16"
        "At level 1 the response to a wrong-key Get shows M_Key 0.";
    MKeyShows Content "m-key-shows" "C14-16"
        "The responses to a wrong-key Get and to a right-key Get show the same values, except for the M_Key.";
    MKeyObeyed Content "m-key-obeyed" "C14-16"
        "A wrong-key Set changes nothing.";
    IllegalKept Content "illegal-kept" "C13-24"
        "A refused value is not stored.";
    Status Headers "status" "C13-24"
        "A request that the port can execute gets status 0x0000. Any other request gets the status of its fault.";
    Kept Content "kept" "C14-24"
        "A writable field holds the value that was Set last, and nothing else changes it.";
    Legal Content "legal" "C14-24"
        "Each field of an attribute holds a legal value, or 0 if a capability mask says that the port lacks the field.";
    ReadOnly Content "read-only" "C14-27"
        "No Set changes a read-only field.";
    LeaseExpires Time "lease-expires" "C14-20"
        "One lease period after a violation, the protect bits are 0 and the M_Key is unchanged.";
    LeaseStops Time "lease-stops" "C14-19"
        "A right-key SMP stops the lease timer.";
    LeaseEndless Time "lease-endless" "C14-21"
        "With lease period 0, the protect bits do not expire.";
    Violations Count "violations" "C14-29"
        "M_KeyViolations grows by one with each violation, and with nothing else.";
    Header Headers "header" "13.4.2 MAD header"
        "A response repeats the request's TransactionID, class, attribute, modifier and route.";
    Once Count "once" "13.4.2 MAD header"
        "A request is answered once.";
    NoRequest Reason "no-request" "13.4.2 MAD header"
        "The port does not answer a response, and sends no response without a request.";
    ReturnPath Headers "return-path" "13.4.2 MAD header"
        "At the end of a directed route, the port writes its port number into the return path and sends the response \
         along that path.";
    Trap Content "trap" "14.2.5.1 traps"
        "A trap 256 reports an SMP that the port received, with the fields of that SMP.";
}
