//! Compares the verdicts of judge and device on a case.

use std::fmt;

use verbatim_device::link::{Arrival, Counters, Delimiter, LinkChoices, LinkDefect, LinkPort, Outcome, PortKind};
use verbatim_oracle::packet_check::{self as judge, Action, Counter, Judgement, Kind};
use verbatim_wire::Medium;

use crate::case::Case;

/// The possible outcomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct May {
    /// The port accepts or forwards the packet unchanged.
    pub(crate) pass: bool,
    pub(crate) discard: bool,
    pub(crate) forward_corrupt: bool,
}

/// The verdicts of judge and device on one packet.
#[derive(Clone, Debug)]
pub(crate) struct Opinions {
    pub(crate) judgement: Judgement,
    pub(crate) judge: May,
    pub(crate) device: May,
    /// Counters of the ports that discarded the packet or forwarded it as corrupt.
    counted: Vec<Counters>,
    /// Counters of the ports that accepted or forwarded the packet.
    counted_sound: Vec<Counters>,
}

/// The reason why a case counts as a disagreement.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Disagreement(String);

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for May {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.pass, "accept"),
            (self.discard, "discard"),
            (self.forward_corrupt, "corrupt and forward"),
        ];
        let words: Vec<&str> = words.iter().filter(|(may, _)| *may).map(|(_, word)| *word).collect();
        f.write_str(&words.join(" or "))
    }
}

impl Opinions {
    /// Judges the bytes of a case, and receives them on a device with these defects.
    pub(crate) fn of(case: &Case, bytes: &[u8], defects: &[LinkDefect]) -> Self {
        let (port, received) = (port_of(case), received(case, bytes));
        let judgement = judge::check(&port, &received);
        let skips_icrc = is_in_transit(case) && judgement.failed.first() == Some(judge::Check::Icrc);
        let mut device = May::default();
        let (mut counted, mut counted_sound) = (Vec::new(), Vec::new());
        for choices in choices(case) {
            let mut profile = case.port.clone();
            profile.choices = choices;
            let mut port = LinkPort::new(profile, defects);
            let outcome = port.receive(&Arrival {
                bytes,
                delimiter: case.delimiter,
            });
            match outcome {
                Outcome::Accepted(_) | Outcome::Forwarded => device.pass = true,
                Outcome::Discarded => device.discard = true,
                Outcome::ForwardedCorrupt => device.forward_corrupt = true,
            }
            // The judge ranks the ICRC check first, although a port in transit need not check the ICRC. If the ICRC is
            // wrong, compare only the counters of ports that check the ICRC.
            let looks = !skips_icrc || choices.checks_icrc_in_transit;
            if looks && matches!(outcome, Outcome::Discarded | Outcome::ForwardedCorrupt) {
                counted.push(*port.counters());
            } else if matches!(outcome, Outcome::Accepted(_) | Outcome::Forwarded) {
                counted_sound.push(*port.counters());
            }
        }
        let judge = May {
            pass: judgement.may_accept(),
            discard: judgement.may_discard(),
            forward_corrupt: judgement.may_forward_spoilt(),
        };
        Self {
            judgement,
            judge,
            device,
            counted,
            counted_sound,
        }
    }

    /// Returns whether the judge leaves the packet unjudged.
    pub(crate) fn is_not_judged(&self) -> bool {
        matches!(self.judgement.action, Action::NotJudged(_))
    }

    /// Returns the reason why judge and device disagree about the packet's outcome or counter, or `None` if they agree.
    pub(crate) fn disagreement(&self) -> Option<Disagreement> {
        if self.is_not_judged() {
            return None;
        }
        // Name only the first check that fails, so that each check has one kind of disagreement.
        let first = self.judgement.failed.first().map_or("none", judge::Check::name);
        if self.judge != self.device {
            return Some(Disagreement(format!(
                "judge: {}; device: {} (the first check that fails: {first})",
                self.judge, self.device
            )));
        }
        if let Some(wrong) = self.counted_sound.iter().find(|seen| **seen != Counters::default()) {
            return Some(Disagreement(format!(
                "both let it pass; device: {} (the first check that fails: {first})",
                moved(wrong)
            )));
        }
        let counter = self.judgement.counter?;
        let wrong = self.counted.iter().find(|seen| !is_told_by(counter, seen))?;
        Some(Disagreement(format!(
            "judge: {} moves; device: {} (the first check that fails: {first})",
            counter.name(),
            moved(wrong)
        )))
    }

    /// Returns the names of the checks that fail according to the judge.
    pub(crate) fn failed(&self) -> String {
        let names: Vec<&str> = self.judgement.failed.iter().map(judge::Check::name).collect();
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// Returns the port in the judge's types.
fn port_of(case: &Case) -> judge::Port {
    judge::Port {
        kind: match case.port.kind {
            PortKind::ChannelAdapter => Kind::Ca,
            PortKind::Switch => Kind::Switch,
            PortKind::Router => Kind::Router,
        },
        is_destination: !is_in_transit(case),
        lid: Some(case.port.lid),
        lmc: case.port.lmc,
        mtu_cap: case.port.mtu_cap,
        vls: case.port.data_vls,
        state: case.port.state,
        p_keys: checks_p_keys(case).then(|| case.port.p_keys.clone()),
    }
}

/// Returns the packet in the judge's types.
fn received<'a>(case: &Case, bytes: &'a [u8]) -> judge::Received<'a> {
    judge::Received {
        medium: Medium::InfiniBand,
        bytes,
        delimiter: Some(match case.delimiter {
            Delimiter::Egp => judge::Delimiter::Egp,
            Delimiter::Ebp => judge::Delimiter::Ebp,
            Delimiter::Other => judge::Delimiter::Other,
        }),
        is_whole: true,
    }
}

/// Returns the judge's explanation of each check that fails.
pub(crate) fn reasons(case: &Case, bytes: &[u8], opinions: &Opinions) -> String {
    let (port, received) = (port_of(case), received(case, bytes));
    let explain = |check| judge::explain(check, &port, &received).to_string();
    let words: Vec<String> = opinions.judgement.failed.iter().map(explain).collect();
    words.join("; ")
}

fn is_in_transit(case: &Case) -> bool {
    !case.port.is_destination && case.port.kind != PortKind::ChannelAdapter
}

/// Returns whether the port checks the P_Key. A switch or router checks packets in transit only with partition
/// enforcement. Without partition enforcement, the judge's port gets no P_Key table.
fn checks_p_keys(case: &Case) -> bool {
    !is_in_transit(case) || case.port.enforces_partitions
}

/// Returns each combination of choices that affects the outcome. The choices concern packets in transit. The judge
/// has no check of a GRH on VL15, so the device always accepts a GRH on VL15.
fn choices(case: &Case) -> Vec<LinkChoices> {
    let takes_grh_on_vl15 = true;
    if !is_in_transit(case) {
        // A choice about packets in transit must not affect a destination port.
        return vec![LinkChoices {
            corrupts_and_forwards: true,
            takes_grh_on_vl15,
            ..LinkChoices::default()
        }];
    }
    let of = |bits: u8| LinkChoices {
        corrupts_and_forwards: bits & 1 != 0,
        checks_icrc_in_transit: bits & 2 != 0,
        forwards_short_packets: bits & 4 != 0,
        takes_grh_on_vl15,
    };
    (0..8).filter(|bits| bits & 5 != 4).map(of).collect()
}

/// Returns the counters that both judge and device know.
fn known(seen: &Counters) -> [(Counter, u16); 4] {
    [
        (Counter::PortRcvErrors, seen.port_rcv_errors),
        (
            Counter::PortRcvRemotePhysicalErrors,
            seen.port_rcv_remote_physical_errors,
        ),
        (Counter::PortRcvConstraintErrors, seen.port_rcv_constraint_errors.into()),
        (Counter::PKeyViolations, seen.p_key_violations),
    ]
}

/// Returns whether `counter` has increased by one, and the other counters of [`known`] are unchanged.
fn is_told_by(counter: Counter, seen: &Counters) -> bool {
    known(seen)
        .iter()
        .all(|&(which, count)| count == u16::from(which == counter))
}

/// Describes the counters that have increased.
fn moved(seen: &Counters) -> String {
    let moved = known(seen).into_iter().filter(|&(_, count)| count > 0);
    let words: Vec<String> = moved
        .map(|(which, count)| format!("{} by {count}", which.name()))
        .collect();
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}
