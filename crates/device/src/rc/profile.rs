//! What an adapter is, and what the architecture leaves to its implementer.

use core::net::IpAddr;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use verbatim_wire::verbs::Gid;
use verbatim_wire::{MacAddress, Mtu, PKey, Qpn};

use super::timer::RetryTimer;
use crate::profile::below;

/// A RoCEv2 adapter of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterProfile {
    /// Ethernet address.
    pub mac: MacAddress,
    /// IP addresses. Each is an entry of the GID table, in this order.
    pub ips: Vec<IpAddr>,
    /// Active MTU: the largest path MTU that a queue pair can have.
    pub mtu: Mtu,
    /// The P_Key table.
    pub p_keys: Vec<PKey>,
    /// READs and atomics that a queue pair can have in flight at a time.
    pub max_rd_atomic: u8,
    /// READs and atomics that a queue pair can answer at a time.
    pub max_dest_rd_atomic: u8,
    /// Whether it has atomics.
    pub atomics: bool,
    /// Whether it has SEND with Invalidate.
    pub invalidate: bool,
    /// Queue pairs that it has at a time.
    pub max_qps: u32,
    /// Requests that a queue holds.
    pub max_depth: u32,
    /// Whether a queue pair can be taken to SQD.
    pub sqd: bool,
    /// The codes of the local ACK timeout that can be set; empty: all.
    pub timeouts: Vec<u8>,
    /// The codes of the interval of RNR NAKs that can be set; empty: all.
    pub min_rnr_timers: Vec<u8>,
    /// Address of the first memory region.
    pub first_address: u64,
    /// Bytes of the longest memory region; more than 64 MiB is taken as that.
    pub max_memory: u32,
    /// Number of the first queue pair; the others follow.
    pub first_qpn: Qpn,
    /// From a packet's arrival, or a request's posting, to what is sent for it.
    pub latency: Duration,
    /// How its retry timer runs, which no architecture leaves open: that of silicon as sold.
    pub timer: RetryTimer,
    /// What the architecture leaves to the implementer.
    pub choices: AdapterChoices,
}

/// Choices of an implementer: every combination conforms. The default is what a plain adapter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterChoices {
    /// How long an ACK waits for others that it can speak for; zero: every request that asks for an ACK gets its own.
    pub ack_delay: Duration,
    /// ACKs tell how many receives are posted; else they set no limit.
    pub advertises_credits: bool,
    /// Its own SENDs go one packet at a time while the other side's ACKs tell of no receive; else credits are ignored.
    pub obeys_credits: bool,
    /// A READ counts in the MSN as soon as it is accepted; else with its last response.
    pub read_counts_on_acceptance: bool,
    /// The payload of a WRITE with Immediate lands even when the packet gets an RNR NAK.
    pub writes_before_rnr_nak: bool,
    /// The retry timer fires after this many quarters of the local ACK timeout: 4 to 16.
    pub timeout_quarters: u8,
    /// How much longer than asked for it waits after an RNR NAK, in percent.
    pub rnr_extra_percent: u8,
    /// A retried READ asks only for what is missing; else for everything again.
    pub read_retry_resumes: bool,
    /// A READ response of wrong length is a bad response; else a local length error.
    pub wrong_length_is_bad_response: bool,
    /// A reserved syndrome fails the request with a bad response; else it is ignored.
    pub reserved_syndrome_fails: bool,
    /// SEND and WRITE packets in flight at a time, at least 1.
    pub window: u16,
    /// Every packet with this number in its message asks for an ACK, beside the last; 0: only the last.
    pub ack_request_every: u16,
    /// READ requests and atomics ask for an ACK too, which says nothing.
    pub ack_request_on_reads: bool,
    /// Each queue pair sends from a UDP port of its own; else all from one.
    pub udp_port_by_qp: bool,
    /// A READ that comes again is answered whatever R_Key it has now; else only with the one that it had.
    pub repeats_read_without_r_key: bool,
    /// A SEND with Invalidate takes a registered region's R_Key away; else it is refused.
    pub invalidates_regions: bool,
    /// After a sequence NAK or an RNR NAK it sends from the message's first packet on; else from the one that the NAK names.
    pub goes_back_to_message: bool,
    /// A READ or atomic that comes while max_dest_rd_atomic others have no response yet is refused as an invalid request; else it
    /// is answered all the same.
    pub refuses_beyond_resources: bool,
    /// An RNR NAK asks for the next longer interval than min_rnr_timer, which is the least; else for that one.
    pub rnr_nak_asks_longer: bool,
    /// Whoever sent a packet that the network marked gets a notice of congestion for it; else nobody hears of it.
    pub notifies_congestion: bool,
    /// Each ACK leaves twice; else once.
    pub acknowledges_twice: bool,
    /// A request that asks for no ACK gets one all the same; else none.
    pub acknowledges_unasked: bool,
    /// What is shorter than Ethernet's shortest frame is filled up; else the link does that, and nobody sees it.
    pub pads_frames: bool,
    /// A queue pair gets the lowest number that is free, be it that of the one before; else the next one.
    pub reuses_numbers: bool,
    /// After a sequence NAK it sends one packet, and the rest when that was acknowledged; else as many as its window has.
    pub one_packet_after_nak: bool,
    /// A host is told of a receive so long after its message was acknowledged.
    pub receive_delay: Duration,
    /// A host is told of an asynchronous event so long after it happened.
    pub event_delay: Duration,
    /// A NAK within a READ of which responses are missing makes the READ come again; else it is the NAK of the READ.
    pub retries_read_below_nak: bool,
    /// Notices of congestion have a DSCP of their own, 48; else that of the queue pair.
    pub notices_apart: bool,
    /// A host is told so long after its SEND, WRITE, READ or atomic was done.
    pub send_delay: Duration,
    /// What a WRITE brought is in memory so long after it was acknowledged, as far as the host sees, unless a receive tells of it.
    pub write_delay: Duration,
    /// A request is begun when the one before it is done; else as many as its window has.
    pub one_message_at_a_time: bool,
    /// A queue pair in ERR shows PSNs of 0; else those that it had.
    pub psns_gone_in_err: bool,
    /// A READ or atomic gets an RNR NAK when it comes first, and for a moment after that, for want of a resource; else none does.
    pub puts_reads_off: bool,
    /// A receive, READ or atomic that fails leaves anything in its memory; else what had come.
    pub spoils_failed: bool,
    /// Time from one frame that leaves to the next, at least: what was handed to the port before a request failed
    /// leaves all the same.
    pub port_gap: Duration,
    /// The payload of a WRITE packet behind a gap lands at once, and again in its turn. No architecture permits that;
    /// an adaptively routed network asks for it. It is not drawn.
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
    /// All drawn.
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
    /// An adapter with all operations, MTU 4096 and the default P_Key, full member.
    #[must_use]
    pub fn new(mac: MacAddress, ips: &[IpAddr]) -> Self {
        Self {
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

    /// ConnectX-6 as sold, or with the floor of its ACK timeout and its adaptive retransmission switched off.
    #[must_use]
    pub fn connectx_6(self, conforming: bool) -> Self {
        let timer = if conforming {
            RetryTimer::ConnectX6Conforming
        } else {
            RetryTimer::ConnectX6
        };
        Self { timer, ..self }
    }

    /// A small core in an FPGA, as those of LiteEth, SLAC's surf and ETH's HLS stack are: one queue pair, fixed timers,
    /// memory from address 0 on, one packet of one message outstanding, neither atomics nor SQD.
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

    /// The same adapter as another one of its kind may be: latency, queue pair numbers, every choice and whether it is a full
    /// member of its partition are drawn from the seed; addresses and what it can do stay.
    #[must_use]
    pub fn vary(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        self.latency = Duration::from_nanos(200 + below(rng, 4800));
        self.first_qpn = Qpn(2 + below(rng, 0x00FF_0000) as u32);
        self.choices = AdapterChoices::drawn(rng);
        if below(rng, 3) == 0 {
            // A limited member talks with full ones.
            self.p_keys = vec![PKey(0x7FFF)];
        }
        // Drawn after the older ones, so that a seed stands for what it stood for.
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
        // One message at a time is not drawn: half of what is asked of a requester needs two that are outstanding.
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

    /// An adapter of any kind: what it can do is drawn from the seed too, and then [`AdapterProfile::vary`] has its say.
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
        // Drawn after the older ones, so that a seed stands for what it stood for.
        if below(rng, 3) == 0 { self.small(rng) } else { self }
    }

    /// A small device: one queue pair, one ACK timeout or none, one RNR timer, memory from address 0 on, no SQD; each
    /// of them or not. A timeout that cannot be off is not drawn: what nobody answers fails, and leaves much open.
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

    /// The same in silicon, or in software.
    fn with_latency_of(mut self, rng: &mut ChaCha8Rng) -> Self {
        let at_most = [Duration::ZERO, Duration::from_micros(400)][below(rng, 2) as usize];
        self.latency += Duration::from_nanos(below(rng, at_most.as_nanos() as u64 + 1));
        self
    }

    /// Local CA ACK Delay: the code of 4.096 us * 2^code within which it answers; as most adapters it tells 15 at
    /// least.
    #[must_use]
    pub fn local_ca_ack_delay(&self) -> u8 {
        const LEAST: u8 = 15;
        let longest = self.latency + self.choices.ack_delay;
        let is_enough = |code: &u8| longest <= Duration::from_nanos(4096 << code);
        (LEAST..=31).find(is_enough).unwrap_or(31)
    }

    /// The GID table: one RoCEv2 entry for each address.
    #[must_use]
    pub fn gids(&self) -> Vec<Gid> {
        self.ips.iter().map(|&ip| Gid::from(ip)).collect()
    }
}
