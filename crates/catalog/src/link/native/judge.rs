//! Compares the effect of each packet on the port with its effect on a conforming port.

use std::collections::BTreeMap;

use verbatim_record::{Exchange, Findings, FrameSeen, Gap, Label, Passed, Trace, WaitDone, silence};
use verbatim_wire::packet::Qpn;
use verbatim_wire::{Attribute, Mad, Medium, Method, PKey, PKeyTable, PortInfo, RespTime, Status};

use super::counted::{COUNTED, MOST, Shown, expected, is_of_the_lanes, may_count};
use super::wire::{asks, has_foreign_q_key, headers, mad_in};
use super::{BLOCK, COUNTERS, DETAILS, NODE, P_KEYS, PORT, Rule, SILENCE, is_answer};
use verbatim_oracle::packet_check::{Action, Judgement, Kind, Port, Received, check, explain};

/// The reason why a test that sent no packet does not apply.
pub(crate) const NOTHING_SENT: &str = "the test sent no packets, though every port accepts SMPs";

/// Judges all packets of a test, each by the rule that it probes. If the test sent no packet, `without` is the reason
/// why it does not apply.
pub(crate) fn judge(t: &Trace, f: &mut Findings<'_>, rules: &[Rule], without: &str) -> Result<(), Gap> {
    t.exchange(NODE)?;
    let mut any = false;
    for rule in rules {
        for frame in t.frames(rule.label) {
            any = true;
            packet(t, f, rule.statement, frame)?;
        }
    }
    if !any {
        t.not_judged(PORT);
        f.not_applicable = Some(without.into());
    }
    came_to(t)
}

/// Requires that the procedure did not end at an unanswered or refused request for attributes. The packet rules do
/// not cover such requests, and the link may have lost all three tries.
fn came_to_its_end(t: &Trace) -> Result<(), Gap> {
    let Some(stopped) = &t.stopped else { return Ok(()) };
    let last = t.last_of_procedure();
    let refused = |exchange: &Exchange| {
        let status = exchange.answer()?.mad.status();
        (exchange.request.method() == Method::GET && status != Status::OK).then_some(status)
    };
    match last.map(|last| (last, refused(last))) {
        Some((last, Some(status))) => Err(Gap::Refused(last.number, status)),
        Some((last, None)) if last.answer().is_none() && !t.alive_after(last.number) => Err(Gap::NoAnswer(last.number)),
        _ => Err(Gap::Ended(format!(
            "the procedure ended early at the request \"{}\": the tester repeated it and got no answer with status 0; \
             packets may have been lost: run the test again",
            stopped.text
        ))),
    }
}

/// Marks the labels of attribute reads as judged, and requires that the procedure reached its end.
pub(crate) fn came_to(t: &Trace) -> Result<(), Gap> {
    t.exchange(NODE)?;
    // A record may lack these labels, because a port may lack data VLs or these counters.
    t.not_judged(DETAILS);
    t.not_judged(COUNTERS);
    t.not_judged(P_KEYS);
    t.not_judged(SILENCE);
    came_to_its_end(t)
}

/// Returns the response to a request that the tester sent in a packet.
pub(crate) fn answer_to<'t>(t: &'t Trace, frame: &FrameSeen, request: &Mad) -> Option<&'t FrameSeen> {
    let mut came = t.timeline.frames.iter().skip(frame.number as usize);
    came.find(|other| other.received && is_answer(request, &other.bytes))
}

/// Returns the wait after a packet, if it was long enough to prove silence.
pub(crate) fn wait_behind<'t>(t: &'t Trace, frame: &FrameSeen) -> Option<&'t WaitDone> {
    let wait = t.waits(SILENCE).find(|wait| wait.place > frame.place);
    wait.filter(|wait| is_waited_out(t, frame, wait))
}

/// Returns whether the port responded to a MAD that the tester sent after a packet.
pub(crate) fn is_alive_behind(t: &Trace, frame: &FrameSeen) -> bool {
    let mut later = t.exchanges.iter();
    later.any(|later| later.sent.earliest > frame.at.latest && is_success(later))
}

/// Checks that the port sent only responses: a channel adapter forwards no packets.
pub(crate) fn strays(t: &Trace, f: &mut Findings<'_>, statement: &str) {
    let requests: Vec<_> = t.timeline.frames.iter().filter(|frame| !frame.received).collect();
    let requests: Vec<_> = requests.iter().filter_map(|frame| mad_in(&frame.bytes)).collect();
    let is_known = |frame: &&FrameSeen| requests.iter().any(|request| is_answer(request, &frame.bytes));
    let came = t.timeline.frames.iter().filter(|frame| frame.received);
    let strays: Vec<&FrameSeen> = came.filter(|frame| !is_known(frame)).collect();
    let count = strays.len();
    f.claim(statement, "packets that the port sends")
        .by_all(strays)
        .saw(format!(
            "{count} other {}",
            if count == 1 { "packet" } else { "packets" }
        ))
        .must("only responses to the tester's packets", count == 0);
}

/// Returns whether the second PortInfo shows the value set by the first.
pub(crate) type Holds = fn(&PortInfo, &PortInfo) -> bool;

/// Checks that each Set took effect, as the next read shows. A Set without a response may not have arrived, so it is a
/// gap and no failure.
pub(crate) fn took(
    t: &Trace,
    f: &mut Findings<'_>,
    (statement, what): (&str, &str),
    label: Label<PortInfo>,
    holds: Holds,
) -> Result<(), Gap> {
    for set in t.each(label) {
        let next = t.each(PORT).find(|read| read.number > set.number && is_success(read));
        let Some(next) = next else {
            came_to_its_end(t)?;
            return Err(Gap::Missing(PORT.name));
        };
        let shown: PortInfo = t.answered(next)?;
        let asked: PortInfo = set.request.attribute();
        if holds(&asked, &shown) {
            continue;
        }
        let unassigned = !asked.lid().is_unicast() || !asked.master_sm_lid().is_unicast();
        let status = set
            .answer()
            .filter(|_| !set.is_busy())
            .map(|answer| answer.mad.status());
        match status {
            Some(Status::INVALID_FIELD) if unassigned => return Err(Gap::NoLid(set.number)),
            None => t.require(label, what, false)?,
            Some(status) => {
                f.claim(statement, what)
                    .by_all([set, next])
                    .saw(format!("PortInfo does not show it, though the Set got status {status}"))
                    .comes_to("shown in PortInfo", Passed::Fail);
            }
        }
    }
    Ok(())
}

/// A sent packet, and its effect on a conforming port.
struct Probe<'a> {
    /// The statement that the packet probes.
    statement: &'a str,
    frame: &'a FrameSeen,
    judgement: Judgement,
    /// A description of the packet's fault.
    why: String,
}

fn packet(t: &Trace, f: &mut Findings<'_>, statement: &str, frame: &FrameSeen) -> Result<(), Gap> {
    let before = Shown {
        port: last(t, PORT, frame)?,
        counters: last(t, COUNTERS, frame)?,
        details: last(t, DETAILS, frame).ok(),
    };
    let port = port(&before.port, p_keys(t, frame));
    let received = Received {
        medium: Medium::InfiniBand,
        bytes: &frame.bytes,
        delimiter: frame.delimiter,
        is_whole: true,
    };
    let judgement = check(&port, &received);
    let why = match judgement.first {
        Some((first, _)) => format!("{first}: {}", explain(first, &port, &received)),
        None => "sound packet".into(),
    };
    let probe = Probe {
        statement,
        frame,
        judgement,
        why,
    };
    probe.answered(t, f);
    let next = t
        .timeline
        .frames
        .iter()
        .skip(frame.number as usize)
        .find(|next| !next.received);
    if let (Ok(port), Ok(counters)) = (first(t, PORT, frame, next), first(t, COUNTERS, frame, next)) {
        let details = first(t, DETAILS, frame, next).ok();
        let after = Shown {
            port,
            counters,
            details,
        };
        probe.counted(t, f, &before, &after);
    }
    Ok(())
}

/// Returns the last response under a label before the frame was sent.
pub(crate) fn last<A: Attribute>(t: &Trace, label: Label<A>, frame: &FrameSeen) -> Result<A, Gap> {
    let is_before = |exchange: &&Exchange| exchange.sent.latest <= frame.at.earliest && is_success(exchange);
    let found = t.each(label).filter(is_before).last();
    t.answered(found.ok_or(Gap::Missing(label.name))?)
}

/// Returns the first response under a label after the frame was sent and before the next frame was.
fn first<A: Attribute>(t: &Trace, label: Label<A>, frame: &FrameSeen, next: Option<&FrameSeen>) -> Result<A, Gap> {
    let is_after = |exchange: &&Exchange| exchange.sent.earliest > frame.at.latest && is_success(exchange);
    let found = t.each(label).find(is_after);
    let in_time = found.filter(|exchange| next.is_none_or(|next| exchange.sent.latest < next.at.earliest));
    t.answered(in_time.ok_or(Gap::Missing(label.name))?)
}

fn is_success(exchange: &Exchange) -> bool {
    exchange
        .answer()
        .is_some_and(|answer| answer.mad.status() == Status::OK)
}

fn p_keys(t: &Trace, frame: &FrameSeen) -> Vec<PKey> {
    let mut blocks: BTreeMap<u32, PKeyTable> = BTreeMap::new();
    for exchange in t
        .each(P_KEYS)
        .filter(|exchange| exchange.sent.latest <= frame.at.earliest)
    {
        if let Ok(table) = t.answered(exchange) {
            blocks.insert(exchange.request.modifier(), table);
        }
    }
    let entries = blocks
        .values()
        .flat_map(|table| (0..BLOCK).map(|entry| table.p_key(entry)));
    entries.collect()
}

fn port(info: &PortInfo, p_keys: Vec<PKey>) -> Port {
    Port {
        kind: Kind::Ca,
        is_destination: true,
        lid: Some(info.lid()),
        lmc: info.lmc(),
        mtu_cap: info.mtu_cap(),
        vls: info.operational_vls().data_vls().unwrap_or(15),
        state: info.port_state(),
        p_keys: Some(p_keys),
    }
}

impl Probe<'_> {
    /// Checks that a discarded packet gets no response, and that an accepted request gets a response.
    fn answered(&self, t: &Trace, f: &mut Findings<'_>) {
        let frame = self.frame;
        let Some(request) = mad_in(&frame.bytes) else { return };
        let answer = answer_to(t, frame, &request);
        let seen = if answer.is_some() { "an answer" } else { "no answer" };
        if !self.judgement.may_accept() {
            let wait = wait_behind(t, frame);
            let result = match (answer, wait) {
                (Some(_), _) => Passed::Fail,
                (None, Some(_)) => Passed::Pass,
                (None, None) => Passed::Inconclusive,
            };
            f.claim(self.statement, format!("a packet that is discarded ({})", self.why))
                .by(frame)
                .by_all(answer)
                .by_all(wait.filter(|_| answer.is_none()))
                .saw(seen)
                .comes_to("no answer", result);
        } else if has_foreign_q_key(&frame.bytes) {
            let result = match answer {
                Some(_) => Passed::Fail,
                None if is_alive_behind(t, frame) => Passed::Pass,
                None => Passed::Inconclusive,
            };
            f.claim(self.statement, "a packet to QP1 with another Q_Key")
                .by(frame)
                .by_all(answer)
                .saw(seen)
                .comes_to("no answer", result);
        } else if self.judgement.action == Action::Accept && asks(&frame.bytes) {
            if let Some(answer) = answer {
                self.goes_back(f, answer);
            }
            let result = match answer {
                Some(_) => Passed::Pass,
                // The tester's native link loses no packets.
                None if is_alive_behind(t, frame) => Passed::Fail,
                None => Passed::Inconclusive,
            };
            f.claim(self.statement, "a sound packet")
                .by(frame)
                .by_all(answer)
                .saw(seen)
                .comes_to("an answer", result);
        }
    }

    /// Checks that the response's addresses are those of the request, swapped (13.5.4).
    fn goes_back(&self, f: &mut Findings<'_>, answer: &FrameSeen) {
        let ((lrh, bth, deth), (to, to_bth, to_deth)) = (headers(&self.frame.bytes), headers(&answer.bytes));
        let is_unicast = lrh.dlid().is_unicast();
        let is_gmp = bth.dest_qp() == Qpn::GSI;
        let fields = [
            ("SLID", is_unicast, to.slid().to_string(), lrh.dlid().to_string()),
            ("DLID", true, to.dlid().to_string(), lrh.slid().to_string()),
            // QP0 checks no Q_Key, and its VL does not depend on the SL.
            ("SL", is_gmp, to.sl().to_string(), lrh.sl().to_string()),
            ("DestQP", true, to_bth.dest_qp().to_string(), deth.src_qp().to_string()),
            (
                "source QP",
                true,
                to_deth.src_qp().to_string(),
                bth.dest_qp().to_string(),
            ),
            ("Q_Key", is_gmp, to_deth.q_key().to_string(), deth.q_key().to_string()),
        ];
        let is_wrong = |(_, is_judged, seen, wanted): &&(&str, bool, String, String)| *is_judged && seen != wanted;
        let wrong: Vec<_> = fields.iter().filter(is_wrong).collect();
        let list = |of: fn(&(&str, bool, String, String)) -> String| {
            let each: Vec<String> = wrong.iter().map(|field| format!("{} {}", field.0, of(field))).collect();
            each.join(", ")
        };
        let is_right = wrong.is_empty();
        let turned = "those of the request, with source and destination exchanged";
        let (seen, wanted) = match is_right {
            true => (turned.to_owned(), turned.to_owned()),
            false => (list(|field| field.2.clone()), list(|field| field.3.clone())),
        };
        f.claim(self.statement, "headers of the answer")
            .by(self.frame)
            .by(answer)
            .saw(seen)
            .must(wanted, is_right);
    }

    /// Checks that the right counters changed by the right amount, and, in simulated time, that no other field changed.
    fn counted(&self, t: &Trace, f: &mut Findings<'_>, before: &Shown, after: &Shown) {
        let counts = expected(&self.judgement, self.frame);
        if let Some(counts) = &counts {
            for (name, before, after) in before.counters(after) {
                f.claim(self.statement, format!("{name} ({})", self.why))
                    .by(self.frame)
                    .saw(after)
                    .is((before + u64::from(counts.contains(&name))).min(MOST));
            }
        }
        if !t.begin.simulated {
            return;
        }
        let is_of_q_key = has_foreign_q_key(&self.frame.bytes);
        let may = |name: &str| match &counts {
            _ if is_of_q_key && name == "Q_KeyViolations" => true,
            // The check above covers these counters.
            Some(_) if COUNTED.contains(&name) => true,
            Some(_) => is_of_the_lanes(name, &self.judgement),
            None => may_count(name, &self.judgement),
        };
        let moved = before.moved(after, may);
        f.claim(self.statement, format!("other values of the port ({})", self.why))
            .by(self.frame)
            .saw(if moved.is_empty() {
                "as before".into()
            } else {
                moved.join(", ")
            })
            .must("as before", moved.is_empty());
    }
}

/// Returns whether the wait after a packet was long enough to prove silence.
fn is_waited_out(t: &Trace, frame: &FrameSeen, wait: &WaitDone) -> bool {
    let Ok(port) = last(t, PORT, frame) else { return false };
    let subnet = t.begin.subnet_timeout.unwrap_or(port.subnet_timeout());
    let needed = silence::lasts(RespTime(port.resp_time_value().0), subnet, t.begin.host_bound);
    wait.until.since(frame.at.latest) >= needed
}
