//! The properties of an adapter, and the choices that the architecture leaves to its implementer.

use core::net::IpAddr;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use verbatim_wire::verbs::Gid;
use verbatim_wire::{Lid, MacAddress, Mtu, PKey, PortState, Qpn};

use super::timer::RetryTimer;
use crate::profile::below;

/// The attributes of an adapter's InfiniBand port. Subnet management sets most of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativePort {
    /// PortInfo:LID; 0 if no LID is assigned.
    pub lid: Lid,
    /// PortInfo:LMC.
    pub lmc: u8,
    /// PortInfo:PortState.
    pub state: PortState,
    /// PortInfo:NeighborMTU, the active MTU.
    pub mtu: Mtu,
    /// GID 0 of the port.
    pub gid: Gid,
    /// The P_Key table.
    pub p_keys: Vec<PKey>,
}

impl NativePort {
    /// Returns whether a LID is one of the port's LIDs.
    #[must_use]
    pub fn has(&self, lid: Lid) -> bool {
        let shift = self.lmc.min(7);
        self.lid.is_unicast() && lid.0 >> shift == self.lid.0 >> shift
    }
}

/// An adapter of one port, on Ethernet (RoCEv2) or InfiniBand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterProfile {
    /// The InfiniBand port; `None` on Ethernet. [`Adapter::set_port`](super::Adapter::set_port) sets it.
    pub infiniband: Option<NativePort>,
    /// Ethernet address.
    pub mac: MacAddress,
    /// IP addresses. Each address is an entry of the GID table, in this order.
    pub ips: Vec<IpAddr>,
    /// Active MTU, which is the largest path MTU of a queue pair.
    pub mtu: Mtu,
    /// The P_Key table.
    pub p_keys: Vec<PKey>,
    /// Maximum number of READs and atomics that a queue pair has outstanding as requester.
    pub max_rd_atomic: u8,
    /// Maximum number of READs and atomics that a queue pair accepts at a time as responder.
    pub max_dest_rd_atomic: u8,
    /// Whether the adapter supports atomics.
    pub atomics: bool,
    /// Whether the adapter supports SEND with Invalidate.
    pub invalidate: bool,
    /// Maximum number of queue pairs at a time.
    pub max_qps: u32,
    /// Maximum number of requests in a queue.
    pub max_depth: u32,
    /// Whether the adapter supports the state SQD.
    pub sqd: bool,
    /// Supported codes of the local ACK timeout; empty: all.
    pub timeouts: Vec<u8>,
    /// Supported codes of min_rnr_timer; empty: all.
    pub min_rnr_timers: Vec<u8>,
    /// Address of the first memory region.
    pub first_address: u64,
    /// Maximum length of a memory region in bytes; a value above 64 MiB counts as 64 MiB.
    pub max_memory: u32,
    /// Number of the first queue pair. Further queue pairs get the following numbers.
    pub first_qpn: Qpn,
    /// Time from the arrival of a packet, or the posting of a request, to the packets that the adapter sends in
    /// consequence.
    pub latency: Duration,
    /// Behaviour of the retry timer. The values other than `Plain` model real adapters, which need not conform.
    pub timer: RetryTimer,
    /// Choices that the architecture leaves to the implementer.
    pub choices: AdapterChoices,
}

/// Choices of an implementer. The default describes a plain adapter. Every combination conforms, except with
/// `places_ahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterChoices {
    /// Time for which an ACK waits, so that one ACK can acknowledge several requests. Zero: each request with the
    /// AckReq bit gets an ACK of its own.
    pub ack_delay: Duration,
    /// Whether ACKs report the number of posted receives as credits. Otherwise they set no limit.
    pub advertises_credits: bool,
    /// Whether the requester obeys the credits in the peer's ACKs. If a message that consumes a receive has no
    /// credit, the requester sends one packet at a time. Otherwise the requester ignores credits.
    pub obeys_credits: bool,
    /// Whether a READ advances the MSN on acceptance. Otherwise it advances the MSN with its last response.
    pub read_counts_on_acceptance: bool,
    /// Whether the responder stores the payload of a WRITE with Immediate packet even if the packet gets an RNR NAK.
    pub writes_before_rnr_nak: bool,
    /// Time until the retry timer fires, in quarters of the local ACK timeout: 4 to 16.
    pub timeout_quarters: u8,
    /// Extra wait after an RNR NAK, in percent of the interval of the NAK.
    pub rnr_extra_percent: u8,
    /// Whether a retried READ requests only the missing data. Otherwise it requests all data.
    pub read_retry_resumes: bool,
    /// Whether a READ response of wrong length fails with a bad response error. Otherwise it fails with a local length
    /// error.
    pub wrong_length_is_bad_response: bool,
    /// Whether a response with a reserved syndrome fails the request with a bad response error. Otherwise the requester
    /// ignores the response.
    pub reserved_syndrome_fails: bool,
    /// Maximum number of outstanding SEND and WRITE packets, at least 1.
    pub window: u16,
    /// Every how many packets within a message have the AckReq bit. The last packet always has it. 0: only the last
    /// packet.
    pub ack_request_every: u16,
    /// Whether READ requests and atomics carry the AckReq bit too, which has no effect on them.
    pub ack_request_on_reads: bool,
    /// Whether each queue pair sends from a UDP port of its own. Otherwise all queue pairs use the same port.
    pub udp_port_by_qp: bool,
    /// Whether the responder repeats the response to a duplicate READ with any R_Key. Otherwise the duplicate must
    /// have the R_Key of the original.
    pub repeats_read_without_r_key: bool,
    /// Whether a SEND with Invalidate invalidates the R_Key of a registered region. Otherwise the responder refuses it.
    pub invalidates_regions: bool,
    /// Whether the requester resends from the first packet of the message after a sequence NAK or an RNR NAK. Otherwise
    /// it resends from the packet with the PSN of the NAK.
    pub goes_back_to_message: bool,
    /// Whether the responder refuses a READ or atomic as an invalid request while max_dest_rd_atomic earlier READs and
    /// atomics wait for their responses. Otherwise the responder executes the request.
    pub refuses_beyond_resources: bool,
    /// Whether an RNR NAK carries the interval that is one step longer than min_rnr_timer. Otherwise the NAK
    /// carries min_rnr_timer itself.
    pub rnr_nak_asks_longer: bool,
    /// Whether the adapter sends a CNP to the sender of a packet that the network marked. Otherwise it sends none.
    pub notifies_congestion: bool,
    /// Whether each ACK leaves twice. Otherwise it leaves once.
    pub acknowledges_twice: bool,
    /// Whether the responder sends an ACK for a request without the AckReq bit. Otherwise it sends none.
    pub acknowledges_unasked: bool,
    /// Whether the adapter pads frames to Ethernet's minimum length. Otherwise the link pads them, unseen by the
    /// caller.
    pub pads_frames: bool,
    /// Whether a new queue pair gets the lowest free number, possibly that of a destroyed queue pair. Otherwise it gets
    /// the next number.
    pub reuses_numbers: bool,
    /// Whether the requester sends one packet after a sequence NAK, and waits for its ACK before the rest. Otherwise it
    /// fills its window.
    pub one_packet_after_nak: bool,
    /// Time from the acknowledgement of a message to the receive's completion at the host.
    pub receive_delay: Duration,
    /// Time from an asynchronous event to its report to the host.
    pub event_delay: Duration,
    /// Whether a NAK within a READ with missing responses makes the requester repeat the READ. Otherwise the NAK fails
    /// the READ.
    pub retries_read_below_nak: bool,
    /// Whether CNPs have a DSCP of their own, 48. Otherwise they have the DSCP of the queue pair.
    pub notices_apart: bool,
    /// Time from the end of a SEND, WRITE, READ or atomic to its completion at the host.
    pub send_delay: Duration,
    /// Time from the acknowledgement of a WRITE until the host sees its data in memory. The completion of a later
    /// receive makes the data visible earlier.
    pub write_delay: Duration,
    /// Whether the requester begins a request only after the preceding one is done. Otherwise it fills its window.
    pub one_message_at_a_time: bool,
    /// Whether a query of a queue pair in ERR returns PSNs of 0. Otherwise the query returns the last PSNs.
    pub psns_gone_in_err: bool,
    /// Whether the responder answers a READ or atomic with RNR NAKs for a moment after the first arrival, as if a
    /// resource were missing. Otherwise the responder executes the request at once.
    pub puts_reads_off: bool,
    /// Whether a failed receive, READ or atomic leaves arbitrary bytes in its memory. Otherwise the memory holds the
    /// received data.
    pub spoils_failed: bool,
    /// Minimum time from one frame to the next. Frames that reached the port before a request failed still leave.
    pub port_gap: Duration,
    /// Whether the responder stores the payload of a WRITE packet after a PSN gap at once, and again when the packet
    /// arrives in sequence. The architecture does not permit this behaviour, but adaptively routed networks need it.
    /// [`AdapterProfile::vary`] never draws this choice.
    pub places_ahead: bool,
}

impl Default for AdapterChoices {
    fn default() -> Self {
        Self {
            ack_delay: Duration::ZERO,
            advertises_credits: false,
            obeys_credits: false,
            read_counts_on_acceptance: false,
            writes_before_rnr_nak: false,
            timeout_quarters: 5,
            rnr_extra_percent: 0,
            read_retry_resumes: true,
            wrong_length_is_bad_response: false,
            reserved_syndrome_fails: false,
            window: 128,
            ack_request_every: 0,
            ack_request_on_reads: false,
            udp_port_by_qp: true,
            repeats_read_without_r_key: false,
            invalidates_regions: true,
            goes_back_to_message: false,
            refuses_beyond_resources: false,
            rnr_nak_asks_longer: false,
            notifies_congestion: false,
            acknowledges_twice: false,
            acknowledges_unasked: false,
            pads_frames: false,
            reuses_numbers: false,
            one_packet_after_nak: false,
            receive_delay: Duration::ZERO,
            event_delay: Duration::ZERO,
            notices_apart: false,
            retries_read_below_nak: false,
            send_delay: Duration::ZERO,
            write_delay: Duration::ZERO,
            one_message_at_a_time: false,
            psns_gone_in_err: false,
            puts_reads_off: false,
            spoils_failed: false,
            port_gap: Duration::ZERO,
            places_ahead: false,
        }
    }
}

impl AdapterChoices {
    /// Draws most choices from `rng`.
    fn drawn(rng: &mut ChaCha8Rng) -> Self {
        let mut draw = |bound: u64| below(rng, bound);
        Self {
            ack_delay: Duration::from_micros(draw(4)),
            advertises_credits: draw(2) == 1,
            read_counts_on_acceptance: draw(2) == 1,
            writes_before_rnr_nak: draw(2) == 1,
            timeout_quarters: 4 + draw(13) as u8,
            rnr_extra_percent: draw(26) as u8,
            read_retry_resumes: draw(2) == 1,
            wrong_length_is_bad_response: draw(2) == 1,
            reserved_syndrome_fails: draw(2) == 1,
            window: 8 << draw(5),
            ack_request_every: [0, 1, 2, 8, 16][draw(5) as usize],
            ack_request_on_reads: draw(2) == 1,
            udp_port_by_qp: draw(2) == 1,
            obeys_credits: draw(2) == 1,
            repeats_read_without_r_key: draw(2) == 1,
            invalidates_regions: draw(4) != 0,
            goes_back_to_message: draw(2) == 1,
            rnr_nak_asks_longer: draw(4) == 0,
            ..Self::default()
        }
    }
}

impl AdapterProfile {
    /// Creates an adapter with all operations and MTU 4096, full member of the default partition.
    #[must_use]
    pub fn new(mac: MacAddress, ips: &[IpAddr]) -> Self {
        Self {
            infiniband: None,
            mac,
            ips: ips.to_vec(),
            mtu: Mtu::B4096,
            p_keys: vec![PKey(0xFFFF)],
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            atomics: true,
            invalidate: true,
            max_qps: 256,
            max_depth: 4096,
            sqd: true,
            timeouts: Vec::new(),
            min_rnr_timers: Vec::new(),
            first_address: 0x7F01_0000_0000,
            max_memory: 16 << 20,
            first_qpn: Qpn(0x11),
            latency: Duration::from_micros(2),
            timer: RetryTimer::Plain,
            choices: AdapterChoices::default(),
        }
    }

    /// Returns the adapter with the retry timer of a ConnectX-6. If `conforming`, the timer has no minimum ACK
    /// timeout and no early retransmissions.
    #[must_use]
    pub fn connectx_6(self, conforming: bool) -> Self {
        let timer = if conforming {
            RetryTimer::ConnectX6Conforming
        } else {
            RetryTimer::ConnectX6
        };
        Self { timer, ..self }
    }

    /// Returns the adapter with the limits of a small core in an FPGA, such as LiteEth, SLAC's surf and ETH's HLS
    /// stack. It has one queue pair, fixed timers, memory from address 0 on, and one outstanding packet. It
    /// supports neither atomics nor SQD.
    #[must_use]
    pub fn small_fpga_core(self) -> Self {
        Self {
            mtu: Mtu::B1024,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            atomics: false,
            invalidate: false,
            max_qps: 1,
            sqd: false,
            timeouts: vec![16],
            min_rnr_timers: vec![20],
            first_address: 0,
            choices: AdapterChoices {
                window: 1,
                one_message_at_a_time: true,
                ..AdapterChoices::default()
            },
            ..self
        }
    }

    /// Returns another adapter of the same kind. The seed determines latency, queue pair numbers, choices and the
    /// membership in the partition. Addresses and capabilities stay.
    #[must_use]
    pub fn vary(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        self.latency = Duration::from_nanos(200 + below(rng, 4800));
        self.first_qpn = Qpn(2 + below(rng, 0x00FF_0000) as u32);
        self.choices = AdapterChoices::drawn(rng);
        if below(rng, 3) == 0 {
            // A limited member communicates only with full members.
            self.p_keys = vec![PKey(0x7FFF)];
        }
        // Draws new properties after the older ones, so that the older properties of a seed stay the same.
        self.choices.refuses_beyond_resources = below(rng, 2) == 1;
        self.choices.notifies_congestion = below(rng, 2) == 1;
        self.choices.acknowledges_twice = below(rng, 4) == 0;
        self.choices.acknowledges_unasked = below(rng, 4) == 0;
        self.choices.pads_frames = below(rng, 4) == 0;
        self.choices.reuses_numbers = below(rng, 4) == 0;
        self.choices.one_packet_after_nak = below(rng, 4) == 0;
        self.choices.receive_delay = [Duration::ZERO, Duration::from_micros(200)][usize::from(below(rng, 4) == 0)];
        self.choices.event_delay = [Duration::ZERO, Duration::from_millis(1)][usize::from(below(rng, 4) == 0)];
        self.choices.notices_apart = below(rng, 4) == 0;
        self.choices.retries_read_below_nak = below(rng, 2) == 1;
        self.choices.send_delay = [Duration::ZERO, Duration::from_micros(200)][usize::from(below(rng, 4) == 0)];
        self.choices.write_delay = [Duration::ZERO, Duration::from_micros(200)][usize::from(below(rng, 4) == 0)];
        // Does not draw `one_message_at_a_time`, because half of the requester's rules need two outstanding requests.
        self.choices.psns_gone_in_err = below(rng, 4) == 0;
        self.choices.puts_reads_off = below(rng, 8) == 0;
        if !self.choices.write_delay.is_zero() {
            let delays = [
                Duration::from_micros(200),
                Duration::from_millis(3),
                Duration::from_secs(1),
            ];
            self.choices.write_delay = delays[below(rng, 3) as usize];
        }
        if below(rng, 8) == 0 {
            self.choices.port_gap = Duration::from_micros(20);
        }
        if below(rng, 8) == 0 {
            self.choices.ack_delay = [Duration::from_millis(50), Duration::from_secs(1)][below(rng, 2) as usize];
        }
        self.choices.spoils_failed = below(rng, 4) == 0;
        self
    }

    /// Returns an adapter of any kind. The seed determines the capabilities too; [`AdapterProfile::vary`] draws the
    /// rest.
    #[must_use]
    pub fn any(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(!seed);
        self.mtu = Mtu(1 + below(rng, 5) as u8);
        self.max_rd_atomic = [1, 2, 4, 15, 16, 128][below(rng, 6) as usize];
        self.max_dest_rd_atomic = [1, 2, 4, 15, 16, 128][below(rng, 6) as usize];
        self.atomics = below(rng, 4) != 0;
        self.invalidate = below(rng, 2) == 1;
        self.max_qps = [16, 64, 256][below(rng, 3) as usize];
        self.max_depth = [64, 255, 4096][below(rng, 3) as usize];
        self.max_memory = [1 << 20, 4 << 20, 16 << 20][below(rng, 3) as usize];
        self = self.vary(seed).with_latency_of(rng);
        // Draws new properties after the older ones, so that the older properties of a seed stay the same.
        if below(rng, 3) == 0 { self.small(rng) } else { self }
    }

    /// Draws each property of a small device separately: one queue pair, one ACK timeout, one RNR timer, memory from
    /// address 0 on, no SQD. The ACK timeout can always be off. With a fixed timeout, requests without a response would
    /// fail, and many rules would stay untested.
    fn small(mut self, rng: &mut ChaCha8Rng) -> Self {
        let mut is = || below(rng, 2) == 0;
        if is() {
            self.max_qps = 1;
        }
        if is() {
            self.timeouts = vec![0, 14];
        }
        if is() {
            self.min_rnr_timers = vec![16];
        }
        if is() {
            self.first_address = 0;
        }
        self.sqd = is();
        self
    }

    /// Adds no latency, like hardware, or a random latency of up to 400 us, like software.
    fn with_latency_of(mut self, rng: &mut ChaCha8Rng) -> Self {
        let at_most = [Duration::ZERO, Duration::from_micros(400)][below(rng, 2) as usize];
        self.latency += Duration::from_nanos(below(rng, at_most.as_nanos() as u64 + 1));
        self
    }

    /// Returns Local CA ACK Delay: the code of the time 4.096 us * 2^code within which the adapter responds. The code
    /// is at least 15, as in most adapters.
    #[must_use]
    pub fn local_ca_ack_delay(&self) -> u8 {
        const LEAST: u8 = 15;
        let longest = self.latency + self.choices.ack_delay;
        let is_enough = |code: &u8| longest <= Duration::from_nanos(4096 << code);
        (LEAST..=31).find(is_enough).unwrap_or(31)
    }

    /// Returns the GID table: GID 0 of the InfiniBand port, or one RoCEv2 entry for each IP address.
    #[must_use]
    pub fn gids(&self) -> Vec<Gid> {
        let native = self.infiniband.iter().map(|port| port.gid);
        native.chain(self.ips.iter().map(|&ip| Gid::from(ip))).collect()
    }
}
