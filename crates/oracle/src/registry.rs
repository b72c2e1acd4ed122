//! Lists all rules, each with its name, layer, statement and demand. The tables of functions that check the rules are
//! next to the functions.

use core::fmt;

/// Part of an event that a rule checks, from the frame outwards. If one event breaks two rules, the finding of the
/// outer layer follows from the finding of the inner layer.
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

/// Table with a row for each rule: variant, layer, name in reports, statement of the registry, demand in our own
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
        "The ICRC is that of the packet.";
    Vcrc Frame "vcrc" "9.6.1 header validation"
        "The VCRC, where the capture has one, is that of the packet.";
    IpChecksum Frame "ip-checksum" "9.6.1 header validation"
        "The checksum of the IPv4 header is right.";
    UdpLength Frame "udp-length" "9.6.1 header validation"
        "UDP says of the packet's length what IP says.";
    UdpChecksum Frame "udp-checksum" "9.7.3 request generation"
        "The UDP checksum is 0, for none, or right.";
    Opcode Headers "opcode" "9.7.3 request generation"
        "The opcode has a meaning.";
    Tver Headers "tver" "9.6.1 header validation"
        "The transport version is 0.";
    Reserved Headers "reserved" "9.6.1 header validation"
        "Reserved bits of the BTH are 0.";
    Format Headers "format" "9.7.3 request generation"
        "The packet has the extended headers of its opcode, and a payload only where there may be one.";
    Padding Headers "padding" "9.7.3 request generation"
        "PadCnt fills the payload up to 4 bytes, and is 0 where the payload is a multiple of the path MTU or absent.";
    SolicitedEvent Headers "solicited-event" "9.7.3 request generation"
        "SE is set only where a message ends that takes a receive.";
    AckRequestOfResponse Headers "ack-request-of-response" "9.7.5.1 acknowledgement"
        "A response asks for no acknowledgement.";
    Syndrome Headers "syndrome" "9.7.5.1 acknowledgement"
        "The AETH's syndrome has a meaning for RC; with data it is an ACK.";
    Psn Order "psn" "9.7.3 request generation"
        "A new request has the PSN that follows those of the last one; a READ takes one for each response.";
    GoBack Order "go-back" "9.7.3 request generation"
        "What comes again comes in order: after it the next PSN, or one further back.";
    AcknowledgedAgain Reason "acknowledged-again" "9.7.3 request generation"
        "What was acknowledged does not come again.";
    SameAgain Content "same-again" "9.7.3 request generation"
        "What comes again is the same: opcode, extended headers, payload; a READ may go on from the response \
         that is missing.";
    OpcodeOrder Order "opcode-order" "9.7.3 request generation"
        "After First and Middle of a message comes its Middle or Last; after a message another begins.";
    PayloadLength Headers "payload-length" "9.7.3 request generation"
        "First and Middle carry the path MTU, Last 1 byte to that, Only up to that.";
    DmaLength Headers "dma-length" "9.7.3 request generation"
        "The packets of a WRITE carry as many bytes as DMALen says, at most 2^31.";
    RnrInterval Time "rnr-interval" "C9-130"
        "After an RNR NAK the request does not come again before the interval is over.";
    AnswersARequest Order "answers-a-request" "9.7.5.1 acknowledgement"
        "A response has the PSN of a request that was sent.";
    ResponseKind Order "response-kind" "9.7.5.1 acknowledgement"
        "READ responses answer READs, atomic acknowledgements atomics.";
    ResponsesInOrder Order "responses-in-order" "C9-27"
        "Nothing overtakes the responses to a READ or atomic, and none of them is left out or repeated unasked.";
    ReadResponseOpcode Headers "read-response-opcode" "9.7.5.1 acknowledgement"
        "The responses to a READ are First, Middle and Last, or one Only.";
    ReadResponseLength Headers "read-response-length" "9.7.5.1 acknowledgement"
        "READ responses carry the path MTU; the last one what is left.";
    AtomicAgain Content "atomic-again" "9.7.4.1.1 duplicate requests"
        "An atomic that comes again is answered with the result that it had.";
    AcknowledgementOrder Order "acknowledgement-order" "9.7.5.1 acknowledgement"
        "An acknowledgement is not of an older PSN than one before it, and what was acknowledged is not refused.";
    DamagedRequest Reason "damaged-request" "9.6.1 header validation"
        "A packet that a port discards is not acknowledged.";
    InvalidRequest Reason "invalid-request" "9.7.5.2.4 invalid request"
        "A request that is no part of a message as it should be, or that the queue pair does not allow, and \
         an atomic on an address that is no multiple of 8, is refused, not acknowledged.";
    RemoteAccess Reason "remote-access" "9.7.5.2.5 remote access"
        "A request that no region of memory allows is refused, not acknowledged, nor answered.";
    NakCode Reason "nak-code" "9.9.3 responder errors"
        "The NAK of a request that is no part of a message as it should be says invalid request, that of one \
         which memory does not allow remote access error.";
    RefusalReason Reason "refusal-reason" "9.9.3 responder errors"
        "A READ, WRITE or atomic in sequence that memory and queue pair allow is not refused for good.";
    AccessReason Reason "access-reason" "9.7.5.2.5 remote access"
        "A READ, WRITE or atomic that memory and queue pair allow gets no NAK of remote access.";
    Msn Count "msn" "9.7.7.1 MSN"
        "The MSN counts the messages that are complete; a READ counts from its acceptance on, or from its \
         last response on.";
    SequenceNak Reason "sequence-nak" "9.7.4.1.1 PSN sequence"
        "A sequence NAK has the PSN of a request that is missing, while a later one has come; what was put \
         off by an RNR NAK is none.";
    SequenceNakOnce Count "sequence-nak-once" "9.7.4.1.1 PSN sequence"
        "A gap is told of once, until the PSN that is missing comes.";
    RetryBeforeAck Reason "retry-before-ack" "9.7.5.1 acknowledgement"
        "After a sequence NAK or RNR NAK of a PSN nothing from that PSN on is acknowledged before the PSN has \
         come again.";
    AfterRefusal State "after-refusal" "9.9.3 responder errors"
        "After a NAK that ends the connection the responder says nothing more.";
    NakRetried Missing "nak-retried" "9.7.5.1.1 NAK handling"
        "After a sequence NAK, or an answer that skips a READ or atomic, what is missing comes again.";
    NakResendsAll Missing "nak-resends-all" "9.7.5.1.1 NAK handling"
        "After a sequence NAK all that was sent behind the missing packet comes again, too.";
    RnrRetried Missing "rnr-retried" "9.7.5.2.8 RNR retry"
        "After an RNR NAK the request comes again, while retries are left.";
    OutstandingEnds Missing "outstanding-ends" "C9-142"
        "What nobody answers any more comes again until its retries are spent, and fails then, whatever was \
         said of it before.";
    TimeoutRetried Missing "timeout-retried" "C9-142"
        "A request that nobody answers comes again, or fails in the end.";
    RequestAnswered Missing "request-answered" "9.7.5.1 acknowledgement"
        "A READ, an atomic, and whatever asks for an acknowledgement is answered: by a response, an \
         acknowledgement of it or of what came behind it, or a NAK.";
    RnrNakOwed Missing "rnr-nak-owed" "9.7.5.2.8 RNR NAK"
        "What lacks a receive is told so: by an RNR NAK of it, or of something before it.";
    AnsweredAtOnce Missing "answered-at-once" "9.7.5.1 acknowledgement"
        "Of the SENDs and WRITEs that ask for an acknowledgement, one at least is answered before it comes again.";
    DuplicateAnswered Missing "duplicate-answered" "9.7.4.1.1 duplicate requests"
        "A request that was executed and comes again is answered again, a READ or atomic while it is one of \
         the last max_dest_rd_atomic of them.";
    GapAnswered Missing "gap-answered" "9.7.4.1.1 PSN sequence"
        "The first request behind one that is missing gets the sequence NAK of that.";
    CompletedBy Completion "completed-by" "C9-60"
        "A request completes with success only after the peer has answered it: a SEND or WRITE by what \
         acknowledges its last packet, a READ by all of its responses, an atomic by its own.";
    ResponsesMissing Completion "responses-missing" "9.7.6.1.1 response data"
        "A READ does not complete with success when one of its responses was left out or had the wrong length.";
    ResponsesOdd Completion "responses-odd" "9.7.6.1.1 response data"
        "A READ that was sent once completes with success only by First, Middle and Last, or Only, each in \
         its place.";
    Skipped Completion "skipped" "9.7.5.1.1 NAK handling"
        "An answer to a later request does not complete a READ or atomic that was not answered.";
    CompletionOrder Completion "completion-order" "C9-60"
        "Requests complete once each, in the order in which they were posted.";
    CompletionFields Completion "completion-fields" "C9-60"
        "A completion with success says which operation it was, and of a READ or atomic how many bytes came.";
    Unsignalled Completion "unsignalled" "C9-60"
        "A request that is not signalled completes only when it fails, and then it does.";
    Cnp Headers "cnp" "A17.9 congestion notification"
        "A CNP has BECN set, SE, AckReq and the PSN 0, the P_Key of the packet that was marked, 16 bytes of \
         0, and a sound ICRC.";
    CnpCause Reason "cnp-cause" "A17.9 congestion notification"
        "A CNP is sent only where a packet came in that the network had marked, or can have.";
    CreditsThere Count "credits-there" "9.7.5.1 acknowledgement"
        "An acknowledgement tells of no more credits than there are receives that no message before it took.";
    MemoryContent Content "memory-content" "9.5 transaction ordering"
        "Memory to which no executed request wrote is as it was: each is executed once, in order, and nowhere else.";
    SendContent Content "send-content" "9.4.1 SEND and immediate"
        "What a SEND that was acknowledged brought stands in its receive.";
    WriteContent Content "write-content" "9.7.5.1 acknowledgement"
        "What a WRITE that was acknowledged brought stands where it said.";
    AtomicContent Content "atomic-content" "9.4.5 atomics"
        "What an atomic that was answered made of the 64 bits stands there.";
    RefusedContent Content "refused-content" "9.9.3 responder errors"
        "What was refused for good, and all behind it, has changed nothing.";
    ReadContent Content "read-content" "9.5 transaction ordering"
        "A READ returns what memory holds when all requests before it were executed.";
    AtomicOriginal Content "atomic-original" "9.4.5 atomics"
        "An atomic returns what the 64 bits held when all requests before it were executed.";
    RefusalStatus Completion "refusal-status" "9.7.5.1.1 NAK handling"
        "A request fails with the status of a NAK only if it got that NAK.";
    RnrError Completion "rnr-error" "9.7.5.2.8 RNR retry"
        "A request fails for spent RNR retries only after more than rnr_retry RNR NAKs; never with 7.";
    RetryError Completion "retry-error" "C9-143"
        "A request fails for spent retries only after it was sent 1 + retry_cnt times without an answer.";
    FlushStatus Completion "flush-status" "C9-60"
        "A request is flushed only after one before it failed, the queue pair has refused a request of its \
         peer, or was moved to the error state.";
    FlushOrder Completion "flush-order" "9.7.5.1.1 NAK handling"
        "What is flushed completes in the order in which it was posted.";
    EventAsNak State "event-as-nak" "11.6.3 asynchronous events"
        "A queue pair that has sent a NAK reports the error that the NAK names: access after remote access \
         error, request after invalid request.";
    DrainedWhenDone State "drained-when-done" "10.3.1 send queue drained"
        "A send queue is reported drained when all that was sent before SQD was answered.";
    RnrFails Missing "rnr-fails" "9.7.5.2.8 RNR error completion"
        "When the RNR retries are spent the request fails with IBV_WC_RNR_RETRY_EXC_ERR.";
    NakFails Missing "nak-fails" "9.7.5.1.1 NAK handling"
        "When sequence NAKs have spent the retries the request fails with IBV_WC_RETRY_EXC_ERR.";
    RetryFails Missing "retry-fails" "C9-143"
        "When the retries are spent the request fails with IBV_WC_RETRY_EXC_ERR.";
    RefusalFails Missing "refusal-fails" "9.7.5.1.1 NAK handling"
        "A request that is refused for good fails with the status of the NAK.";
    BadResponseFails Missing "bad-response-fails" "9.7.6.1.1 response data"
        "A READ response of wrong length ends its request with IBV_WC_LOC_LEN_ERR or IBV_WC_BAD_RESP_ERR.";
    Flushed State "flushed" "9.7.5.1.1 NAK handling"
        "When a request has failed, or the queue pair was moved to the error state, all that is outstanding \
         is flushed.";
    ErrorState State "error-state" "9.7.5.1.1 NAK handling"
        "When a request has failed the queue pair is in the error state.";
    LocalFault Completion "local-fault" "9.9.2 requester errors"
        "A request over memory that its own side may not use so fails with IBV_WC_LOC_PROT_ERR; what it would \
         carry is not sent.";
    LocalError Completion "local-error" "9.9.2 requester errors"
        "A request fails with an error of its own side only where its memory, or a response, gives a reason.";
    ResponseData Content "response-data" "9.7.6.1.1 response data"
        "What READs and atomics brought stands in memory where they said when they have completed, and the \
         rest is as it was.";
    AddressVector Headers "address-vector" "9.7.3 request generation"
        "Every packet but a CNP carries the hop limit, the traffic class and the flow label of the queue \
         pair's address vector.";
    Frame Frame "frame" "9.7.3 request generation"
        "Every packet goes from the queue pair's own address to its peer's, in a frame that holds it alone.";
    DestQp Headers "dest-qp" "9.7.5.1 acknowledgement"
        "A response goes to the queue pair that asked, to no other one and not to the responder's own.";
    MigrationState Headers "migration-state" "9.7.3 request generation"
        "The packets of a queue pair that no host gave another path all have the same MigReq, its requests \
         and its responses.";
    AnsweredOnce Count "answered-once" "9.7.5.1 acknowledgement"
        "A response with data, or an RNR NAK, comes as often as it was asked for.";
    AtomicUnknown Reason "atomic-unknown" "9.7.4.1.1 duplicate requests"
        "An atomic whose PSN lies before the first one of the connection is not answered: no result can be \
         kept of it.";
    NeverBack Order "never-back" "C9-27"
        "No response to a READ or atomic that was sent once comes behind one of a later PSN.";
    SentWhenPosted Missing "sent-when-posted" "9.7.3 request generation"
        "What is posted is sent, unless something before it holds it back.";
    GoesOn Missing "goes-on" "9.7.3 request generation"
        "When all before it was acknowledged, the next packet of what is posted is sent, whatever credits were told.";
    AnsweredCompletes Missing "answered-completes" "C9-60"
        "A request that was answered completes.";
    NakAcknowledges Missing "nak-acknowledges" "9.7.5.1.1 NAK handling"
        "A NAK completes what lies before it.";
    ReceiveThere Reason "receive-there" "9.7.5.2.8 RNR NAK"
        "A SEND, or a WRITE with Immediate, is acknowledged only when a receive was posted for it.";
    RnrTimer Headers "rnr-timer" "9.7.5.2.8 RNR NAK"
        "An RNR NAK asks for the interval of min_rnr_timer, or a longer one.";
    ReceiveCompletes Missing "receive-completes" "9.4.1 SEND and immediate"
        "When a message that takes a receive is acknowledged, a receive completes.";
    RnrReason Reason "rnr-reason" "9.7.5.2.8 RNR NAK"
        "An RNR NAK refuses a message that takes a receive, and for which none is there. On hardware another \
         resource may be lacking for a moment, not each time on three connections.";
    ReceiveOrder Completion "receive-order" "9.4.1 SEND and immediate"
        "Receives complete once each, in the order in which they were posted.";
    ReceiveFields Completion "receive-fields" "9.4.1 SEND and immediate"
        "A receive that completes with success says which operation of the peer filled it, how many bytes \
         came, and which immediate data.";
    ReceiveLast Completion "receive-last" "C9-60"
        "A receive completes with success no sooner than the last packet of a message for it was sent.";
    RefusedSilent State "refused-silent" "9.9.3 responder errors"
        "After a NAK that ends the connection no response comes on it.";
    RefusedState State "refused-state" "9.9.3 responder errors"
        "The queue pair whose NAK ended the connection is in the error state.";
    Posted Headers "posted" "9.7.3 request generation"
        "Each request packet is that of a request that was posted: opcode, headers, length and payload by its PSN.";
    InOrder Order "in-order" "9.7.3 request generation"
        "Packets are sent in the order of their PSNs, none is left out.";
    AckRequested Order "ack-requested" "9.7.3 request generation"
        "The last packet of a SEND or WRITE asks for an acknowledgement when nothing is sent behind it, and \
         one of those without an answer does when a message stops in the midst.";
    InFlight Reason "in-flight" "9.7.3 request generation"
        "No more READs and atomics are without an answer than max_rd_atomic allows.";
    Fence Reason "fence" "9.7.3 request generation"
        "A fenced request is not sent before the READs and atomics in front of it were answered.";
    AfterError State "after-error" "C9-143"
        "After a request has failed, or the step to ERR, nothing more is sent: no request, and no answer to \
         what comes then.";
    UnaskedRetry Reason "unasked-retry" "C9-142"
        "A request comes again only after a time-out, a NAK, or an answer to a later one that skips it.";
    TimeoutOff Reason "timeout-off" "C9-142"
        "With the local ACK timeout off what nobody answers never comes again.";
    RetryCount Count "retry-count" "C9-143"
        "Time-outs, sequence NAKs and answers that skip a READ together make a request come again retry_cnt \
         times at most, from one progress to the next.";
    NakCount Reason "nak-count" "9.7.5.1.1 NAK handling"
        "With the local ACK timeout off, sequence NAKs and answers that skip a READ make a request come again \
         retry_cnt times at most, from one progress to the next.";
    RnrCount Count "rnr-count" "9.7.5.2.8 RNR retry"
        "RNR NAKs make a request come again rnr_retry times at most, from one progress to the next.";
    AckTimeout Time "ack-timeout" "C9-142"
        "What nobody answers comes again between once and four times the local ACK timeout after it was sent last.";
    TimerRestarts Time "timer-restarts" "C9-142"
        "Progress begins the local ACK timeout anew, be it a response in the midst of a READ, and so does \
         what a NAK has sent again.";
    StepRefused State "step-refused" "11.2.5.2 modify queue pair"
        "A step that no queue pair has is refused, and so is one without an attribute that it needs, or with \
         one that it does not take.";
    StepTaken State "step-taken" "11.2.5.2 modify queue pair"
        "A step with all attributes that it needs is taken, with those that it may have.";
    State State "state" "11.2.5.2 modify queue pair"
        "A queue pair is in the state of its last step, with the PSNs that it was given, and in the one \
         before when that was refused.";
    WorkRefused State "work-refused" "11.4.1 work requests"
        "Send requests are refused before RTS, and receives in RESET.";
    WorkTaken State "work-taken" "11.4.1 work requests"
        "From RTS on send requests are taken, and from INIT on receives, as many as the queue was made for.";
    EventReason State "event-reason" "11.6.3 asynchronous events"
        "A queue pair reports only what has happened: that it was spoken to in RTR, once; that its send queue \
         is drained, once and in SQD; an error, after it was spoken to.";
    SilentState State "silent-state" "10.3.1 RESET"
        "A queue pair in RESET or INIT sends nothing and completes nothing, one in ERR sends nothing.";
    FlushedLate State "flushed-late" "10.3.1 ERR"
        "What is posted in ERR, or to be sent in SQE, is flushed.";
    DatagramCompletes State "datagram-completes" "11.4.1 work requests"
        "A datagram that is posted completes, in RTS at once, in SQD when the queue pair is in RTS again.";
    RnrWait Time "rnr-wait" "C9-130"
        "What comes again because of RNR NAKs alone comes when the interval of the last one is over.";
    Drained Time "drained" "10.3.1 send queue drained"
        "What is posted in SQD is not sent before the queue pair is in RTS again.";
    ReceiveFits Reason "receive-fits" "9.7.5.2.4 invalid request"
        "A SEND that is longer than its receive gets a NAK that says invalid request.";
    ReceiveFault Reason "receive-fault" "9.9.3 responder errors"
        "A SEND whose receive is memory that the device may not write gets a NAK that says remote operational error.";
    PutOff Reason "put-off" "9.7.5.2.8 RNR NAK"
        "A SEND without a receive is put off by an RNR NAK; no NAK says that it is invalid, or may not.";
    SendRefused Reason "send-refused" "9.9.3 responder errors"
        "A SEND that fits its receive is not refused as invalid, nor as what may not.";
    MKeyDrops Reason "m-key-drops" "C14-16"
        "A wrong-key Get at levels 2 and 3, and any other wrong-key SMP, gets no answer.";
    MKeyPasses Missing "m-key-passes" "C14-16"
        "A right-key SMP is answered, and so is a wrong-key Get at levels 0 and 1.";
    MKeyHidden Content "m-key-hidden" "C14-16"
        "At level 1 a wrong key is shown M_Key 0.";
    MKeyShows Content "m-key-shows" "C14-16"
        "What is shown to a wrong key, the M_Key apart, is what is shown to the right one.";
    MKeyObeyed Content "m-key-obeyed" "C14-16"
        "A wrong-key Set changes nothing.";
    IllegalKept Content "illegal-kept" "C13-24"
        "A value that is refused is not kept.";
    Status Headers "status" "C13-24"
        "What can be done is answered with 0x0000, what cannot with the status of its reason.";
    Kept Content "kept" "C14-24"
        "A field that can be Set holds what was Set last, and nothing else changes it.";
    Legal Content "legal" "C14-24"
        "An attribute shows what it may hold, and 0 in what a capability mask says is not there.";
    ReadOnly Content "read-only" "C14-27"
        "No Set changes a read-only field.";
    LeaseExpires Time "lease-expires" "C14-20"
        "A lease period after a violation the protect bits are 0, the key is kept.";
    LeaseStops Time "lease-stops" "C14-19"
        "A right-key SMP stops the lease timer.";
    LeaseEndless Time "lease-endless" "C14-21"
        "With lease period 0 the protect bits stay.";
    Violations Count "violations" "C14-29"
        "M_KeyViolations grows by one with each violation, and with nothing else.";
    Header Headers "header" "13.4.2 MAD header"
        "A response repeats the request's TransactionID, class, attribute, modifier and route.";
    Once Count "once" "13.4.2 MAD header"
        "A request is answered once.";
    NoRequest Reason "no-request" "13.4.2 MAD header"
        "A response is not answered, and nothing is answered that was not asked.";
    ReturnPath Headers "return-path" "13.4.2 MAD header"
        "At the end of a directed route the port writes its number into the return path, and sends the \
         response back by it.";
    Trap Content "trap" "14.2.5.1 traps"
        "A trap 256 tells of an SMP that came, as it came.";
}
