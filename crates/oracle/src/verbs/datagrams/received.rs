//! Rule for the receives of a datagram queue pair: a valid datagram completes the next receive, and nothing else does.

use std::collections::VecDeque;
use std::net::Ipv6Addr;

use verbatim_record::verbs::{Command, Reply, pb};
use verbatim_record::{Evidence, FrameSeen, HostEvent, Passed, Side, TRIES, VerbsDone, WcStatus};
use verbatim_wire::packet::{Opcode, Packet};
use verbatim_wire::verbs::WcOpcode;

use super::super::asking::Asking;
use super::super::network::ends;
use super::super::qp_history::{QpHistory, is_refused};
use super::super::states::is_in_memory;
use super::super::steps::state_in_words;
use super::{DUE, HEADER, PARTITION, completions, frames, is_alive, is_done, is_seen, is_settled};
use crate::rule::Rule;

/// The least MTU of a path, in bytes.
const LEAST_MTU: u32 = 256;

/// Receive of a datagram queue pair.
pub(super) struct Receive<'t> {
    pub(super) done: &'t VerbsDone,
    pub(super) post: &'t pb::PostReceive,
    pub(super) is_writable: bool,
    pub(super) fate: Fate,
}

/// End of a receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The receive has not completed.
    Waiting,
    /// The receive completed at the place `at`. One of the datagrams `by` filled it.
    Filled { at: usize, by: Vec<usize> },
    /// The receive completed with an error, or with an unknown datagram.
    Over,
    /// RESET discarded the receive. A completion may still come late.
    Discarded,
}

/// Datagram to the queue pair.
pub(super) struct Datagram<'t> {
    pub(super) frame: &'t FrameSeen,
    pub(super) packet: Packet<'t>,
    /// Reason why the device drops the datagram; `None` for a valid datagram that finds a receive.
    dropped: Option<String>,
    /// Whether the datagram may have arrived after the next command, or may have found the receive of a lost
    /// datagram.
    is_early: bool,
    /// Whether the datagram is valid, and arrived before the next command unless it was lost.
    is_sure: bool,
    /// Whether the datagram cannot fill a receive any more, because it or a later datagram filled one.
    pub(super) is_over: bool,
}

impl Datagram<'_> {
    pub(super) fn may_fill(&self) -> bool {
        self.dropped.is_none() || self.is_early
    }

    fn length(&self) -> u32 {
        HEADER + self.packet.payload().len() as u32
    }

    fn fits(&self, receive: &Receive<'_>) -> bool {
        receive.is_writable && self.length() <= receive.post.local.map_or(0, |local| local.length)
    }

    fn completion(&self, wr_id: u64) -> String {
        let imm = self.packet.imm().map(|imm| imm.data().0);
        words(wr_id, WcStatus::SUCCESS.0, WcOpcode::RECV.0, self.length(), imm)
    }
}

fn words(wr_id: u64, status: u32, opcode: u32, bytes: u32, imm: Option<u32>) -> String {
    if status != WcStatus::SUCCESS.0 {
        return format!("wr_id {wr_id} with {}", WcStatus(status));
    }
    let imm = imm.map_or(String::new(), |imm| format!(", immediate {imm:#010x}"));
    format!(
        "wr_id {wr_id} with {}, {}, {bytes} bytes{imm}",
        WcStatus(status),
        WcOpcode(opcode)
    )
}

/// Outcome of a rule for one event.
struct Outcome<'t> {
    rule: Rule,
    result: Passed,
    evidence: Vec<Evidence<'t>>,
    expected: String,
    seen: String,
}

/// Receives of a queue pair, and the datagrams to it.
pub(super) struct Reception<'h, 't> {
    history: &'h QpHistory<'t>,
    gids: Vec<Ipv6Addr>,
    state: pb::QpState,
    q_key: u32,
    pub(super) receives: Vec<Receive<'t>>,
    pub(super) datagrams: Vec<Datagram<'t>>,
    /// Indices of receives without a completion, in order.
    waiting: VecDeque<usize>,
    /// Indices of datagrams that may still fill a receive, in order.
    pending: VecDeque<usize>,
    outcomes: Vec<Outcome<'t>>,
    /// From this place on, a datagram may fill any receive, or none.
    pub(super) until: usize,
}

/// Event at a datagram queue pair.
enum Event<'t> {
    Command(&'t VerbsDone),
    Datagram(&'t FrameSeen, Packet<'t>),
    Completion(&'t HostEvent, &'t pb::Completion),
}

impl<'h, 't> Reception<'h, 't> {
    /// Follows the receives of a queue pair.
    pub(super) fn of(history: &'h QpHistory<'t>) -> Self {
        let commands = history
            .trace
            .timeline
            .commands
            .iter()
            .filter(|done| done.side == Side::Dut);
        let opened = commands.filter_map(|done| match &done.answer {
            Some((_, _, Reply::Opened(facts), _)) => Some(facts),
            _ => None,
        });
        let gid = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from);
        let gids = opened
            .flat_map(|facts| &facts.gids)
            .filter_map(|of| gid(&of.gid))
            .collect();
        let mut of = Self {
            history,
            gids,
            state: pb::QpState::Reset,
            q_key: 0,
            receives: Vec::new(),
            datagrams: Vec::new(),
            waiting: VecDeque::new(),
            pending: VecDeque::new(),
            outcomes: Vec::new(),
            until: usize::MAX,
        };
        for (place, event) in events(history) {
            let is_known = match event {
                Event::Command(done) => {
                    of.command(done);
                    !of.has_failed(done)
                }
                Event::Datagram(frame, packet) => {
                    of.datagram(frame, packet);
                    true
                }
                Event::Completion(happened, completion) if of.until < place => {
                    of.forget(happened, completion);
                    true
                }
                Event::Completion(happened, completion) => of.completion(happened, completion),
            };
            if !is_known {
                of.until = of.until.min(place);
            }
        }
        if of.state == pb::QpState::Err {
            of.not_flushed();
        } else if of.until == usize::MAX {
            of.missing();
        }
        of
    }

    /// Returns whether the host reported ERR, though no command led there.
    fn has_failed(&self, done: &VerbsDone) -> bool {
        let is_error =
            matches!(&done.answer, Some((_, _, Reply::Status(status), _)) if status.state() == pb::QpState::Err);
        is_error && self.state != pb::QpState::Err
    }

    fn command(&mut self, done: &'t VerbsDone) {
        match &done.command {
            Command::ModifyQp(modify) if is_done(done) => {
                let given = modify.attributes.as_ref().and_then(|given| given.qkey);
                self.q_key = given.unwrap_or(self.q_key);
                self.state = modify.state();
                if self.state == pb::QpState::Reset {
                    for at in self.waiting.drain(..) {
                        self.receives[at].fate = Fate::Discarded;
                    }
                    self.pending.clear();
                }
            }
            Command::PostReceive(post) if !is_refused(done) => {
                self.waiting.push_back(self.receives.len());
                self.receives.push(Receive {
                    done,
                    post,
                    is_writable: is_in_memory(&self.history.memory, post.local, done.place),
                    fate: Fate::Waiting,
                });
            }
            _ => {}
        }
    }

    fn datagram(&mut self, frame: &'t FrameSeen, packet: Packet<'t>) {
        use pb::QpState::{Rtr, Rts, Sqd, Sqe};
        let has_receive = self.waiting.len() > self.pending.len();
        let no_receive = (!has_receive).then(|| "no receive is left".to_owned());
        let is_up = matches!(self.state, Rtr | Rts | Sqd | Sqe);
        let down = (!is_up).then(|| format!("the queue pair is in {}", state_in_words(self.state)));
        let invalid = self.invalid(&packet);
        let is_settled = is_settled(self.history, frame) && !self.gids.is_empty();
        // On hardware, a pending datagram may be lost, so a receive may still be free for this one.
        let may_find_one = is_up && !has_receive && !self.waiting.is_empty() && !self.history.is_simulated();
        let is_early = self.until < frame.place || invalid.is_none() && (!is_settled || may_find_one);
        let is_sure = invalid.is_none() && is_up && is_settled;
        let dropped = invalid.or(down).or(no_receive);
        let datagram = Datagram {
            frame,
            packet,
            dropped,
            is_early,
            is_sure,
            is_over: false,
        };
        if datagram.may_fill() {
            self.pending.push_back(self.datagrams.len());
        }
        self.datagrams.push(datagram);
    }

    /// Notes that a receive is over. The datagram that filled it is unknown.
    fn forget(&mut self, happened: &'t HostEvent, completion: &pb::Completion) {
        let is_it = |receive: &Receive<'_>| receive.post.wr_id == completion.wr_id;
        let its: Vec<usize> = (0..self.receives.len())
            .filter(|at| is_it(&self.receives[*at]))
            .collect();
        let waiting = its.iter().find(|at| self.receives[**at].fate == Fate::Waiting);
        let Some(at) = waiting.or(its.first()).copied().filter(|_| !self.is_shared(completion)) else {
            return;
        };
        let receive = &mut self.receives[at];
        let is_success = completion.status == WcStatus::SUCCESS.0;
        let expected = match receive.fate {
            Fate::Waiting if receive.is_writable || !is_success => None,
            Fate::Waiting => Some("no success: the device may not write the receive"),
            Fate::Discarded => None,
            Fate::Filled { .. } | Fate::Over => Some("one completion of each receive"),
        };
        if receive.fate == Fate::Waiting {
            receive.fate = Fate::Over;
            self.waiting.retain(|of| *of != at);
        }
        if let Some(expected) = expected {
            let evidence = vec![self.receives[at].done.into(), happened.into()];
            let seen = format!("wr_id {} with {}", completion.wr_id, WcStatus(completion.status));
            self.fails(evidence, expected.into(), seen);
        }
    }

    /// Returns whether a send request has the completion's wr_id too.
    fn is_shared(&self, completion: &pb::Completion) -> bool {
        let is_it = |post: &pb::PostSend| post.wr_id == completion.wr_id;
        let mut commands = self.history.commands.iter();
        commands.any(|done| matches!(&done.command, Command::PostSend(post) if is_it(post)))
    }

    /// Returns whether the rules found a violation, after which the receives are unknown.
    pub(super) fn is_broken(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.result == Passed::Fail)
    }

    /// Returns the reason why the queue pair drops a packet in every state; `None` for a valid packet.
    fn invalid(&self, packet: &Packet<'_>) -> Option<String> {
        let (bth, deth) = (packet.bth(), packet.deth());
        let is_datagram = matches!(packet.opcode(), Opcode::UD_SEND_ONLY | Opcode::UD_SEND_ONLY_IMM);
        let destination = ends(packet).map(|[_, to]| to);
        let is_elsewhere = destination.is_some_and(|to| !self.gids.is_empty() && !self.gids.contains(&to));
        let q_key = deth.map(|deth| deth.q_key().0);
        let reasons = [
            (!packet.icrc_is_right(), "its ICRC is wrong".to_owned()),
            (is_elsewhere, "it has another destination".into()),
            (bth.tver() != 0, format!("its TVer is {}", bth.tver())),
            (!is_datagram, format!("its opcode is {}", packet.opcode())),
            (packet.missing_header().is_some(), "a header is missing".into()),
            (
                bth.p_key().0 & 0x7FFF != PARTITION,
                format!("its P_Key is {}", bth.p_key()),
            ),
            (
                q_key != Some(self.q_key),
                format!("its Q_Key is not {:#010x}", self.q_key),
            ),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
    }

    /// Judges a completion. Returns whether the receives are still known.
    fn completion(&mut self, happened: &'t HostEvent, completion: &'t pb::Completion) -> bool {
        let is_it = |receive: &Receive<'_>| receive.post.wr_id == completion.wr_id;
        let mut its = self.receives.iter().filter(|receive| is_it(receive)).peekable();
        if its.peek().is_none() || its.any(|receive| receive.fate == Fate::Discarded) {
            return true;
        }
        if self.is_shared(completion) {
            self.forget(happened, completion);
            return false;
        }
        let seen = words(
            completion.wr_id,
            completion.status,
            completion.opcode,
            completion.byte_len,
            completion.imm,
        );
        let is_flushed = completion.status == WcStatus::WR_FLUSH_ERR.0 && self.state == pb::QpState::Err;
        let front = self.waiting.front().copied();
        let Some(at) = front.filter(|at| is_it(&self.receives[*at])) else {
            let expected = front.map_or("no completion of a receive".into(), |at| {
                format!("wr_id {} first", self.receives[at].post.wr_id)
            });
            let posted = self.receives.iter().rfind(|receive| is_it(receive));
            let evidence = posted
                .map(|receive| receive.done.into())
                .into_iter()
                .chain([happened.into()]);
            self.fails(evidence.collect(), expected, seen);
            return false;
        };
        self.waiting.pop_front();
        let receive = &self.receives[at];
        let mut evidence = vec![Evidence::from(receive.done)];
        if is_flushed {
            evidence.push(happened.into());
            self.holds(evidence, format!("{seen}, in ERR"));
            self.receives[at].fate = Fate::Over;
            return true;
        }
        if completion.status != WcStatus::SUCCESS.0 {
            let mut pending = self.pending.iter().map(|of| &self.datagrams[*of]);
            let unfit = pending.find(|of| !of.fits(receive));
            let is_up = self.state != pb::QpState::Err;
            let unfit = unfit.filter(|_| is_up).map(|of| of.frame);
            evidence.extend(unfit.map(Evidence::from));
            evidence.push(happened.into());
            self.receives[at].fate = Fate::Over;
            match unfit {
                Some(_) => self.holds(evidence, format!("{seen}: the datagram does not fit")),
                // After a failed receive, the state of the queue pair is unknown.
                None if self.state == pb::QpState::Err => {}
                None => self.fails(evidence, "no error".into(), seen),
            }
            return false;
        }
        let by: Vec<usize> = self
            .fillers(at)
            .filter(|of| self.datagrams[*of].completion(completion.wr_id) == seen)
            .collect();
        let Some(first) = by.first().copied() else {
            let mut overtaken = self.overtaken();
            let late = overtaken
                .find(|of| of.completion(completion.wr_id) == seen)
                .map(|of| of.frame);
            drop(overtaken);
            if let Some(late) = late {
                evidence.extend([Evidence::from(late), happened.into()]);
                let expected = "no completion of a datagram that a later one overtook".into();
                self.outcomes.push(Outcome {
                    rule: Rule::DatagramReceived,
                    result: Passed::Inconclusive,
                    evidence,
                    expected,
                    seen: format!("{seen}: the path may have changed the order"),
                });
                return false;
            }
            // A datagram that looks like the completion, and either is dropped or does not fit.
            let is_alike = |of: &&Datagram<'_>| !of.is_over && of.completion(completion.wr_id) == seen;
            let mut alike = self.datagrams.iter().filter(is_alike);
            let alike = alike.clone().find(|of| of.dropped.is_none()).or_else(|| alike.next());
            let next = self
                .fillers(at)
                .next()
                .map(|of| self.datagrams[of].completion(completion.wr_id));
            let why = alike.and_then(|of| of.dropped.clone());
            let (rule, expected) = match (why, alike, next) {
                (Some(why), _, next) => {
                    let next = next.unwrap_or_else(|| "no completion".into());
                    (
                        Rule::DatagramDropped,
                        format!("{next}: the datagram is dropped, since {why}"),
                    )
                }
                (None, Some(of), _) if !of.fits(&self.receives[at]) => {
                    let expected = "no success: the receive is too short, or the device may not write it";
                    (Rule::DatagramReceived, expected.into())
                }
                (None, _, next) => {
                    let expected = next.unwrap_or_else(|| "no completion without a datagram".into());
                    (Rule::DatagramReceived, expected)
                }
            };
            evidence.extend(alike.map(|of| Evidence::from(of.frame)));
            evidence.push(happened.into());
            self.fails_by(rule, evidence, expected, seen);
            return false;
        };
        evidence.extend([Evidence::from(self.datagrams[first].frame), happened.into()]);
        self.holds(evidence, seen);
        while let Some(of) = self.pending.pop_front() {
            self.datagrams[of].is_over = true;
            if of == first {
                break;
            }
        }
        self.receives[at].fate = Fate::Filled { at: happened.place, by };
        true
    }

    /// Returns the datagrams that filled no receive before a later datagram filled one. On hardware, the path may
    /// change the order of datagrams.
    fn overtaken(&self) -> impl Iterator<Item = &Datagram<'t>> {
        let fills = |at: usize| {
            let mut fates = self.receives.iter().map(|receive| &receive.fate);
            fates.any(|fate| matches!(fate, Fate::Filled { by, .. } if by.contains(&at)))
        };
        let all = self.datagrams.iter().enumerate();
        all.filter(move |(at, of)| !self.history.is_simulated() && of.is_over && !fills(*at))
            .map(|(_, of)| of)
    }

    /// Returns the pending datagrams that may have filled a receive. In simulations no datagram is lost. There, the
    /// list ends with the first datagram that is not early (`is_early`).
    fn fillers(&self, receive: usize) -> impl Iterator<Item = usize> + '_ {
        let is_sure = |of: &usize| !self.datagrams[*of].is_early;
        let sure = self.pending.iter().position(is_sure);
        let most = match sure.filter(|_| self.history.is_simulated()) {
            Some(at) => at + 1,
            None => self.pending.len(),
        };
        let pending = self.pending.iter().copied().take(most);
        pending.filter(move |of| self.datagrams[*of].fits(&self.receives[receive]))
    }

    /// Judges the receives that did not complete.
    fn missing(&mut self) {
        let Some(receive) = self.waiting.front() else { return };
        let is_late = |of: &&usize| {
            let datagram = &self.datagrams[**of];
            let due = datagram.frame.at.latest.after(DUE);
            let receive = &self.receives[*receive];
            datagram.is_sure
                && receive.done.place < datagram.frame.place
                && datagram.fits(receive)
                && is_alive(self.history, datagram.frame.place, due)
        };
        // On hardware, a datagram may be lost. Three lost datagrams in a row are ruled out, but a switch with a smaller
        // MTU drops all long ones.
        let filled = self.receives.iter().filter_map(|receive| match &receive.fate {
            Fate::Filled { by, .. } => by.first(),
            _ => None,
        });
        let longest = filled.map(|at| self.datagrams[*at].length()).max();
        let longest = longest.unwrap_or_default().max(HEADER + LEAST_MTU);
        let may_pass = |of: &&usize| self.history.is_simulated() || self.datagrams[**of].length() <= longest;
        let late: Vec<&usize> = self.pending.iter().filter(is_late).filter(may_pass).collect();
        let enough = if self.history.is_simulated() { 1 } else { TRIES as usize };
        let Some(of) = late.first().filter(|_| late.len() >= enough) else {
            self.lost();
            return;
        };
        let (receive, datagram) = (&self.receives[*receive], &self.datagrams[**of]);
        let evidence = vec![receive.done.into(), datagram.frame.into()];
        let expected = datagram.completion(receive.post.wr_id);
        self.fails(evidence, expected, "no completion".into());
    }

    /// Notes a datagram that may have been lost, unless the peer repeated it and the repetition arrived.
    fn lost(&mut self) {
        let filled = self.receives.iter().filter_map(|receive| match &receive.fate {
            Fate::Filled { by, .. } => by.first(),
            _ => None,
        });
        let filled: Vec<&Datagram<'_>> = filled.map(|at| &self.datagrams[*at]).collect();
        let is_filled = |of: &Datagram<'_>| filled.iter().any(|by| by.frame.bytes == of.frame.bytes);
        let fits = |of: &Datagram<'_>| self.receives.iter().any(|receive| of.fits(receive));
        let mut datagrams = self.datagrams.iter();
        let lost = datagrams.find(|of| of.dropped.is_none() && !of.is_early && !is_filled(of) && fits(of));
        if let Some(of) = lost.filter(|_| !self.history.is_simulated()) {
            let evidence = vec![of.frame.into()];
            self.outcomes.push(Outcome {
                rule: Rule::DatagramReceived,
                result: Passed::Inconclusive,
                evidence,
                expected: "a completion".into(),
                seen: "none: the datagram may have been lost".into(),
            });
        }
    }

    /// Judges the receives without a completion in ERR.
    fn not_flushed(&mut self) {
        let steps = self.history.commands.iter().rev();
        let mut steps = steps.filter(|done| matches!(done.command, Command::ModifyQp(_)));
        let Some((step, (known, ..))) = steps.next().and_then(|step| Some((*step, step.answer.as_ref()?))) else {
            return;
        };
        let due = known.latest.after(DUE);
        let posted = |at: usize| &self.receives[at];
        let late = self
            .waiting
            .iter()
            .copied()
            .find(|at| posted(*at).done.place < step.place);
        if let Some(at) = late.filter(|_| is_alive(self.history, step.place, due)) {
            let receive = posted(at);
            let expected = words(receive.post.wr_id, WcStatus::WR_FLUSH_ERR.0, 0, 0, None);
            let evidence = vec![receive.done.into(), step.into()];
            self.fails(evidence, expected, "no completion".into());
        }
    }

    fn fails(&mut self, evidence: Vec<Evidence<'t>>, expected: String, seen: String) {
        self.fails_by(Rule::DatagramReceived, evidence, expected, seen);
    }

    fn fails_by(&mut self, rule: Rule, evidence: Vec<Evidence<'t>>, expected: String, seen: String) {
        self.outcomes.push(Outcome {
            rule,
            result: Passed::Fail,
            evidence,
            expected,
            seen,
        });
    }

    fn holds(&mut self, evidence: Vec<Evidence<'t>>, seen: String) {
        self.outcomes.push(Outcome {
            rule: Rule::DatagramReceived,
            result: Passed::Pass,
            evidence,
            expected: String::new(),
            seen,
        });
    }
}

/// Returns the events of a queue pair, in order.
fn events<'t>(history: &QpHistory<'t>) -> Vec<(usize, Event<'t>)> {
    let commands = history.commands.iter().map(|done| (done.place, Event::Command(done)));
    let to_it = frames(history, false).filter(|(_, packet)| packet.bth().dest_qp().0 == history.qpn);
    let datagrams = to_it.map(|(frame, packet)| (frame.place, Event::Datagram(frame, packet)));
    let completions = completions(history).map(|(of, completion)| (of.place, Event::Completion(of, completion)));
    let mut all: Vec<_> = commands.chain(datagrams).chain(completions).collect();
    all.sort_by_key(|(place, _)| *place);
    all
}

pub(super) fn datagram_received<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if is_seen(history) {
        tell(asking, Reception::of(history).outcomes);
    }
}

/// Notes the outcomes of the rule that is being applied.
fn tell<'t>(asking: &mut Asking<'_, 't>, outcomes: Vec<Outcome<'t>>) {
    let rule = asking.rule;
    for outcome in outcomes.into_iter().filter(|outcome| outcome.rule == rule) {
        match outcome.result {
            Passed::Pass => asking.held(outcome.seen, outcome.evidence),
            result => asking.say(result, outcome.evidence, || {
                ("receive".into(), outcome.expected, outcome.seen)
            }),
        }
    }
}

pub(super) fn datagram_dropped<'t>(history: &QpHistory<'t>, asking: &mut Asking<'_, 't>) {
    if !is_seen(history) {
        return;
    }
    let reception = Reception::of(history);
    for datagram in reception.datagrams.iter().filter(|of| of.frame.place < reception.until) {
        let mut later = history.commands.iter().filter(|done| done.place > datagram.frame.place);
        let is_known = !datagram.may_fill() && later.any(|done| done.answer.is_some());
        if let Some(why) = datagram.dropped.as_ref().filter(|_| is_known) {
            asking.held(format!("no completion: {why}"), [datagram.frame.into()]);
        }
    }
    tell(asking, reception.outcomes);
}
