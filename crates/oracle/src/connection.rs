//! State of one connection: the packets of both ends, as far as the rules need them.

use verbatim_wire::packet::Psn;

mod pairing;

use super::access::Allows;
use super::managed::Managed;
use super::parsed::{Event, Parsed, Part, RequestKind};
use super::partition::Partition;
use super::pmtu::Pmtu;
use super::request::Invalid;
use super::responses::{Offset, Refusal, Responses, is_up_to};
use super::rule::{Broken, Excuse, Finding, Outcome, Rule};
use super::rules::packet::{self, RULES as PACKET};
use super::rules::requester::{self, Asked, RULES as REQUESTER};
use super::rules::responder::{Answered, RULES as RESPONDER, ResponseKind};
use super::rules::{COUNT, msn};
use super::window::{Place, Source, Window};

/// Maximum number of findings that a connection stores. Further findings are only counted.
pub const KEPT: usize = 16;

/// Rules of message structure. If a request breaks one of these rules, it is unknown whether the responder counts
/// its message in the MSN.
const OF_MESSAGES: [Rule; 8] = [
    Rule::UdpLength,
    Rule::Opcode,
    Rule::Format,
    Rule::Padding,
    Rule::SameAgain,
    Rule::OpcodeOrder,
    Rule::PayloadLength,
    Rule::DmaLength,
];

/// Whether packets can be lost, repeated or reordered between a device and the capture point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loss {
    /// Loss is possible and excuses the violations that it explains.
    #[default]
    Possible,
    /// Loss is impossible and excuses nothing.
    Excluded,
}

/// Reasons why a request may begin another connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// Whether the request differs from the earlier request with the same PSN. Also true if no such request is known.
    pub(super) differs: bool,
    /// Whether the earlier request with the same PSN was acknowledged. Also true if no such request is known.
    pub(super) was_acknowledged: bool,
}

/// How often a rule was applied, and the outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Packets that the rule applied to.
    pub asked: u64,
    /// Violations without an excuse.
    pub broken: u64,
    /// Violations with an excuse.
    pub excused: u64,
    /// Number of the first packet of each end that obeyed the rule; 0: no packet did.
    pub shown: [u64; 2],
}

/// Requests of one end, and the other end's responses to them.
#[derive(Clone, Debug, Default)]
struct Flow {
    window: Window,
    responses: Responses,
    /// Whether the MSN of the last response contradicted `responses.offset`.
    doubts_offset: bool,
}

/// One reliable connection.
#[derive(Clone, Debug)]
pub struct Connection {
    loss: Loss,
    /// Requests and responses, indexed by the requesting end.
    flows: [Flow; 2],
    partition: Partition,
    /// Packets sent by each end.
    pub packets: [u64; 2],
    /// Number of packets of each end whose ICRC is wrong because of damage.
    damaged: [u64; 2],
    /// Parameters from the communication manager's messages, if the capture has them.
    pub managed: Option<Managed>,
    /// The first [`KEPT`] findings. Violations displace excused findings.
    pub findings: Vec<Finding>,
    counts: [Count; COUNT + 1],
    totals: (u64, u64),
    /// Excuse for all violations of the current packet, if the packet may belong to another connection.
    excuse: Option<Excuse>,
    /// Whether only a few responses so far suggest that the two directions are one connection.
    is_provisional: bool,
    /// Whether a violation needed [`Excuse::OtherPair`].
    needed_excuse: bool,
    /// Possible path MTUs before the two directions were paired.
    pmtu_before: Pmtu,
}

impl Connection {
    /// Returns a connection without packets.
    #[must_use]
    pub fn new(loss: Loss) -> Self {
        Self {
            loss,
            flows: Default::default(),
            partition: Partition::default(),
            packets: [0; 2],
            damaged: [0; 2],
            managed: None,
            findings: Vec::new(),
            counts: [Count::default(); COUNT + 1],
            totals: (0, 0),
            excuse: None,
            is_provisional: false,
            needed_excuse: false,
            pmtu_before: Pmtu::default(),
        }
    }

    /// Sets the PSN of the first request of `end`, and the path MTU in bytes, if they are known. The MSN of the other
    /// end then counts from that request.
    pub(super) fn know(&mut self, end: usize, first: Option<Psn>, path_mtu: Option<u32>) {
        if let Some(first) = first {
            let flow = &mut self.flows[end];
            flow.window.begin(first);
            flow.responses.offset = Some(Offset {
                is_sure: true,
                is_exact: true,
                ..Offset::default()
            });
        }
        let [flow, other] = &mut self.flows;
        if let Some(pmtu) = path_mtu.and_then(Pmtu::only) {
            for window in [&mut flow.window, &mut other.window] {
                window.set_pmtu(pmtu);
                window.pmtu_source = Source::Known;
            }
        }
    }

    /// Sets how many outstanding READs and atomics of `end` the other end accepts.
    pub(super) fn know_answers(&mut self, end: usize, answers: u32) {
        self.flows[end].window.answers = answers;
    }

    /// Stores whether the other end's memory and queue pair allow the last request of end `by`.
    pub(super) fn allow(&mut self, by: usize, psn: Psn, number: u64, allows: Allows) {
        self.flows[by].window.allow(psn, number, allows);
    }

    /// Returns each rule with its counts.
    pub fn counts(&self) -> impl Iterator<Item = (Rule, Count)> + '_ {
        super::rules::all().chain([Rule::PKey]).zip(self.counts)
    }

    /// Returns the number of violations without an excuse, and the number with an excuse.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Returns the path MTU in bytes, if the packets determine it.
    #[must_use]
    pub fn path_mtu(&self) -> Option<u32> {
        self.flows[0].window.pmtu.known()
    }

    /// Returns whether a request of the end `of` was seen.
    #[must_use]
    pub fn has_requests(&self, of: usize) -> bool {
        self.flows[of].window.len() > 0
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.flows.iter().map(|flow| flow.window.len()).sum()
    }

    /// Takes a packet of this connection, sent by end `by`.
    pub fn take(&mut self, by: usize, event: &Event<'_>) {
        let mut parsed = Parsed::of(event);
        self.packets[by] += 1;
        let is_damaged = !parsed.is_taken && !parsed.packet.icrc_is_right();
        let is_mistake = is_damaged && packet::mistake(&parsed).is_some();
        self.damaged[by] += u64::from(is_damaged && !is_mistake);
        let mut is_odd = false;
        for (at, (rule, asks)) in PACKET.iter().enumerate() {
            let is_broken = self.note(at, *rule, by, parsed.number, || match asks(&parsed) {
                held if is_damaged && !is_mistake => held.unless(Excuse::Damaged),
                held => held,
            });
            is_odd |= is_broken && OF_MESSAGES.contains(rule);
        }
        if parsed.is_taken {
            let is_stranger = self.is_stranger(by, &parsed);
            self.p_key(by, &parsed);
            // The peer drops a packet from another partition. The further rules do not apply to the packet.
            parsed.is_taken = !is_stranger;
        }
        if parsed.opcode.is_response() {
            if parsed.is_taken {
                self.response(by, &parsed);
            }
        } else if parsed.opcode.0 < 0x20 {
            self.request(by, &parsed, is_odd);
        }
    }

    /// Returns whether the peer drops a packet because of its P_Key; always false with [`Loss::Excluded`].
    fn is_stranger(&self, by: usize, parsed: &Parsed<'_>) -> bool {
        self.loss == Loss::Possible && self.partition.is_stranger(by, parsed)
    }

    fn p_key(&mut self, by: usize, parsed: &Parsed<'_>) {
        let held = match self.partition.held(by, parsed) {
            held if self.partition.is_first(by) && self.is_provisional => held.unless(Excuse::OtherPair),
            held => held,
        };
        let alone = self.partition.take(by, parsed);
        self.note(COUNT, Rule::PKey, by, parsed.number, || held);
        if let Some(alone) = alone {
            self.not_excused(COUNT, Rule::PKey, alone);
        }
    }

    fn request(&mut self, by: usize, parsed: &Parsed<'_>, mut is_odd: bool) {
        let mut invalid = requester::is_unaligned(parsed).then_some(Invalid::Unaligned);
        let place = self.flows[by].window.place(parsed.psn);
        // If the peer drops the packet, the requester rules do not apply, because damage may have changed any field.
        if parsed.is_taken {
            for (at, (rule, asks)) in REQUESTER.iter().enumerate() {
                let flow = &self.flows[by];
                let asked = Asked {
                    parsed,
                    place,
                    window: &flow.window,
                    responses: &flow.responses,
                };
                let held = asks(&asked);
                let is_broken = self.note(PACKET.len() + at, *rule, by, parsed.number, || held);
                let ends = invalid.is_none() && requester::leaves_nothing(parsed);
                is_odd |= is_broken && !ends && OF_MESSAGES.contains(rule);
                if is_broken && requester::OF_VALID_REQUESTS.contains(rule) {
                    invalid = Some(if ends {
                        Invalid::Ends
                    } else {
                        Invalid::Breaks(rule.name())
                    });
                }
            }
        }
        self.sent(by, parsed, place);
        if parsed.is_taken && matches!(place, Place::Beginning | Place::Next) && invalid.is_some() {
            self.flows[by].window.set_invalid(parsed.psn, invalid);
        }
        if is_odd && parsed.is_taken {
            let flow = &mut self.flows[by];
            flow.window.doubt(parsed.psn);
            flow.responses.odd = Some((parsed.psn, parsed.number));
        }
    }

    /// Updates the state after a request.
    fn sent(&mut self, by: usize, parsed: &Parsed<'_>, place: Place) {
        let (flow, other) = both_of(&mut self.flows, by);
        let window = &mut flow.window;
        let acknowledged = flow.responses.acknowledged.map(|(psn, _)| psn);
        match place {
            // The PSN of a damaged packet is trusted only if it is the expected PSN.
            _ if !parsed.is_taken => {
                if window.next == Some(parsed.psn) && place == Place::Next {
                    window.push_damaged(parsed, acknowledged);
                }
                if window.cursor == Some(parsed.psn) {
                    window.cursor = Some(parsed.psn.next());
                }
                // The responder may read the PSN of a packet whose other headers are incomplete.
                let is_cut = parsed.bth.tver() == 0 && parsed.packet.missing_header().is_some();
                if is_cut && parsed.packet.icrc_is_right() && matches!(place, Place::Ahead(_) | Place::Far) {
                    window.strayed(parsed.psn);
                }
                return;
            }
            Place::Beginning | Place::Next => window.push(parsed, false, acknowledged),
            Place::Ahead(_) => window.push(parsed, true, acknowledged),
            Place::Hole => window.fill(parsed, acknowledged),
            Place::Again(at, into) => window.again(at, into, parsed),
            Place::Far => return window.strayed(parsed.psn),
            Place::Old => return,
        }
        window.cursor = match window.find(parsed.psn) {
            Some((at, _)) if window.get(at).psns > 0 => Some(window.get(at).last().next()),
            _ => window.next,
        };
        // If a response to this PSN, or to a later one, was seen before this request, the capture lacks the first
        // transmission of the request. It may lack other requests too, so that a new message count starts.
        if matches!(place, Place::Next | Place::Ahead(_)) && flow.responses.was_answered_unseen(parsed.psn) {
            window.count_anew();
        }
        let asks = RequestKind::of(parsed.opcode);
        flow.responses.asked(parsed.psn);
        if matches!(asks, RequestKind::Send(_) | RequestKind::Write(_)) {
            let is_whole = matches!(asks.part(), Part::First | Part::Middle);
            learn(window, other, (parsed, is_whole), |size| {
                requester::fits(asks.part(), parsed.length, size)
            });
        }
    }

    fn response(&mut self, by: usize, parsed: &Parsed<'_>) {
        let says = ResponseKind::of(parsed);
        let found = self.flows[1 - by].window.find(parsed.psn);
        let (broken, excused) = self.totals();
        let excuse = self.excuse;
        if self.is_provisional {
            self.excuse = Some(Excuse::OtherPair);
        }
        let mut offset = None;
        for (at, (rule, asks)) in RESPONDER.iter().enumerate() {
            let flow = &self.flows[1 - by];
            let answered = Answered {
                parsed,
                says,
                found,
                window: &flow.window,
                responses: &flow.responses,
            };
            offset = msn::offset(&answered);
            let held = asks(&answered);
            let at = PACKET.len() + REQUESTER.len() + at;
            self.note(at, *rule, by, parsed.number, || held);
        }
        self.excuse = excuse;
        let is_sound = self.totals() == (broken, excused);
        // A First, Only or atomic response inside a READ of uncertain size may break rules because it answers a later
        // request that the capture lacks. Such a response is not stored as a response to the READ.
        let window = &self.flows[1 - by].window;
        let begins = matches!(
            says,
            ResponseKind::Read(Part::First | Part::Only) | ResponseKind::Atomic
        );
        let is_of_it = |&(at, into): &(usize, u32)| is_sound || !begins || into == 0 || !window.get(at).is_open();
        self.answered(by, parsed, says, found.filter(is_of_it));
        let flow = &mut self.flows[1 - by];
        // The requester may repeat a request after a wrong response.
        if let (Some((at, _)), false) = (found, is_sound) {
            flow.window.give_up(at);
        }
        if let Some(offset) = offset {
            flow.narrow(offset);
            let is_counted = |odd: &mut (Psn, u64)| is_up_to(odd.0, parsed.psn);
            if !flow.doubts_offset {
                flow.responses.odd.take_if(is_counted);
            }
        }
    }

    /// Updates the state after a response.
    fn answered(&mut self, by: usize, parsed: &Parsed<'_>, says: ResponseKind, found: Option<(usize, u32)>) {
        let (flow, other) = both_of(&mut self.flows, 1 - by);
        let (window, responses) = (&mut flow.window, &mut flow.responses);
        if found.is_none() && window.is_beyond(parsed.psn) && says != ResponseKind::Sequence {
            responses.answered_unseen = Some(parsed.psn);
            return;
        }
        let next = window.next;
        let refusal = || Refusal {
            psn: parsed.psn,
            // Every refusal has an AETH.
            syndrome: parsed.syndrome().unwrap_or_default(),
            number: parsed.number,
            at: parsed.at,
            ends: None,
            is_asked_again: false,
            was_newest: next == Some(parsed.psn.next()),
        };
        if let Some((at, _)) = found {
            window.give_up_before(at);
        }
        match says {
            ResponseKind::Ack => {
                if let Some((at, _)) = found {
                    window.give_up_before(at + 1);
                    window.acknowledged(at);
                }
                responses.acknowledge(parsed.psn, parsed.number);
            }
            ResponseKind::Read(part) => {
                if let Some((at, into)) = found {
                    let begins = matches!(part, Part::First | Part::Only);
                    window.answered(at, into, (begins, matches!(part, Part::Last | Part::Only)));
                }
                if matches!(part, Part::First | Part::Middle) {
                    learn(window, other, (parsed, true), |size| parsed.length == size);
                } else if found.is_some() {
                    learn(window, other, (parsed, false), |size| parsed.length <= size);
                }
                responses.acknowledge(parsed.psn, parsed.number);
            }
            ResponseKind::Atomic => {
                if let Some((at, into)) = found {
                    window.answered(at, into, (true, true));
                    let original = parsed.packet.atomic_ack().map(|ack| (ack.original().0, parsed.number));
                    let request = window.get_mut(at);
                    request.original = request.original.or(original);
                }
                responses.acknowledge(parsed.psn, parsed.number);
            }
            ResponseKind::Rnr => {
                responses.acknowledge(parsed.psn.minus(1), parsed.number);
                responses.put_off(refusal());
                responses.dropped_behind = Some((parsed.psn, parsed.number));
            }
            ResponseKind::Sequence => {
                window.stray_is_answered |= window.stray == Some(parsed.psn);
                responses.acknowledge(parsed.psn.minus(1), parsed.number);
                responses.sequence = Some(refusal());
                responses.dropped_behind = Some((parsed.psn, parsed.number));
            }
            ResponseKind::Fatal => {
                responses.acknowledge(parsed.psn.minus(1), parsed.number);
                responses.fatal.get_or_insert_with(refusal);
            }
            ResponseKind::Nothing => {}
        }
    }

    /// Drops the excuse [`Excuse::PartitionChanged`] of the finding about packet `number`, because later packets show
    /// that the partition did not change.
    fn not_excused(&mut self, at: usize, rule: Rule, number: u64) {
        let is_it = |of: &&mut Finding| {
            of.unless == Some(Excuse::PartitionChanged) && of.rule == rule && of.packets.last() == Some(&number)
        };
        if let Some(finding) = self.findings.iter_mut().find(is_it) {
            finding.unless = None;
            self.counts[at].excused -= 1;
            self.counts[at].broken += 1;
            (self.totals.0, self.totals.1) = (self.totals.0 + 1, self.totals.1 - 1);
        }
    }

    /// Counts the outcome of a rule, and stores a finding if the rule is broken. Returns whether the rule is broken
    /// without an excuse.
    fn note(&mut self, at: usize, rule: Rule, by: usize, number: u64, held: impl FnOnce() -> Outcome) -> bool {
        let count = &mut self.counts[at];
        let broken = match held() {
            Outcome::NotAsked => return false,
            Outcome::Holds => {
                count.asked += 1;
                if count.shown[by] == 0 {
                    count.shown[by] = number;
                }
                return false;
            }
            Outcome::Broken(broken) => *broken,
        };
        count.asked += 1;
        let Broken {
            expected,
            seen,
            with,
            unless,
        } = broken;
        let unless = unless.or_else(|| {
            self.needed_excuse |= self.excuse == Some(Excuse::OtherPair);
            self.excuse
        });
        let unless = unless.filter(|_| self.loss == Loss::Possible);
        if unless.is_some() {
            count.excused += 1;
            self.totals.1 += 1;
        } else {
            count.broken += 1;
            self.totals.0 += 1;
        }
        let is_violation = unless.is_none();
        // If the list is full, a violation displaces an excused finding.
        let excused = self.findings.iter().rposition(|finding| finding.unless.is_some());
        if self.findings.len() >= KEPT {
            match excused {
                Some(at) if unless.is_none() => drop(self.findings.remove(at)),
                _ => return is_violation,
            }
        }
        let packets = with.filter(|with| *with != 0 && *with != number);
        self.findings.push(Finding {
            rule,
            by,
            packets: packets.into_iter().chain([number]).collect(),
            expected,
            seen,
            unless,
        });
        is_violation
    }
}

impl Flow {
    /// Narrows the stored MSN offset with the offset that a response implies. A contradicting response replaces an
    /// offset that is not sure. A sure offset is replaced only by the second contradiction in a row, and moves to
    /// `offset_before`. A response that contradicts the new offset, but fits `offset_before`, restores the old offset.
    fn narrow(&mut self, later: Offset) {
        let of_it = |known: &Offset| known.epoch == later.epoch;
        let earlier = self.responses.offset.filter(of_it);
        let together = earlier.map(|earlier| msn::both(&earlier, &later));
        let contradicts = matches!(together, Some(None));
        let before = self.responses.offset_before.filter(of_it).filter(|_| contradicts);
        if let Some(before) = before.and_then(|before| msn::both(&before, &later)) {
            (self.responses.offset_before, self.responses.offset) = (earlier, Some(before));
            self.doubts_offset = false;
            return;
        }
        let is_sure = earlier.is_some_and(|earlier| earlier.is_sure);
        if !contradicts || self.doubts_offset || !is_sure {
            if contradicts && is_sure {
                self.responses.offset_before = earlier;
            }
            self.responses.offset = Some(together.flatten().unwrap_or(later));
        }
        self.doubts_offset = contradicts && !self.doubts_offset;
    }
}

/// Returns the flow of the requesting end `asks`, then the flow of the other end.
fn both_of(flows: &mut [Flow; 2], asks: usize) -> (&mut Flow, &mut Flow) {
    let [first, second] = flows;
    if asks == 0 { (first, second) } else { (second, first) }
}

/// Narrows the path MTU, which both directions share. `is_whole`: the packet's payload is one path MTU. If two whole
/// packets of the same size contradict the path MTU, their size replaces it: an earlier packet must have been altered.
fn learn(window: &mut Window, other: &mut Flow, (parsed, is_whole): (&Parsed<'_>, bool), fits: impl Fn(u32) -> bool) {
    let known: Pmtu = window.pmtu;
    let (pmtu, source) = match (known.kept(fits), window.pmtu_source) {
        (Some(pmtu), Source::Known) => (pmtu, Source::Known),
        (Some(pmtu), source) if pmtu == known && !is_whole => (pmtu, source),
        (Some(pmtu), Source::Packet(number, _)) if pmtu == known => (pmtu, Source::Packet(number, None)),
        (Some(pmtu), _) => (pmtu, Source::Packet(parsed.number, None)),
        (None, Source::Packet(number, doubt)) if is_whole && Pmtu::only(parsed.length).is_some() => {
            match Pmtu::only(parsed.length).filter(|_| doubt == Some(parsed.length)) {
                Some(pmtu) => (pmtu, Source::Packet(parsed.number, None)),
                None => (known, Source::Packet(number, Some(parsed.length))),
            }
        }
        (None, _) => return,
    };
    for window in [window, &mut other.window] {
        window.set_pmtu(pmtu);
        window.pmtu_source = source;
    }
}
