//! Descriptions of the steps of a walk, for reports.

use core::fmt;

use verbatim_record::verbs::pb::Operation as O;

use super::step::{Alteration, Fault, Illegal, Step, Stray, Want, Way};

fn operation(of: O) -> &'static str {
    match of {
        O::Send => "SEND",
        O::SendImm => "SEND with Immediate",
        O::SendInvalidate => "SEND with Invalidate",
        O::Write => "WRITE",
        O::WriteImm => "WRITE with Immediate",
        O::Read => "READ",
        O::CompareSwap => "CmpSwap",
        O::FetchAdd => "FetchAdd",
        O::Unspecified => "nothing",
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} at {}",
            operation(self.operation),
            bytes(self.length),
            self.place
        )?;
        f.write_str(if self.fence { ", fenced" } else { "" })
    }
}

/// Formats a number of bytes.
fn bytes(count: u32) -> String {
    if count == 1 {
        "1 byte".into()
    } else {
        format!("{count} bytes")
    }
}

fn list(wants: &[Want]) -> String {
    wants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => Ok(()),
            Self::Lost(at) => write!(f, "; packet {at} is lost"),
            Self::Damaged(at) => write!(f, "; packet {at} has a wrong ICRC"),
            Self::Overtakes(at) => write!(f, "; packet {at} overtakes the one before it"),
            Self::AnswersLost => f.write_str("; all responses are lost, and the peer repeats all messages"),
            Self::Unready => f.write_str("; the receives are missing at first"),
            Self::UnreadyTwice => f.write_str("; the receives are missing twice"),
            Self::UnreadyAmid => f.write_str("; the receives are missing, and the peer repeats an answered message"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("is answered"),
            Self::RequestLost(at) => write!(f, "loses its packet {at}"),
            Self::AnswerLost => f.write_str("loses its response"),
            Self::ResponseLost(at) => write!(f, "loses response {at}"),
            Self::Rnr(timer, 1) => write!(f, "gets an RNR NAK with code {}", timer.0),
            Self::Rnr(timer, times) => write!(f, "gets {times} RNR NAKs with code {}", timer.0),
            Self::SequenceNak(at) => write!(f, "gets a sequence NAK for its packet {at}"),
            Self::Stray(stray) => write!(f, "is answered after {stray}"),
            Self::Behind(stray) => write!(f, "is answered a moment after {stray}"),
            Self::Within(stray) => write!(f, "gets its first response, then {stray}, a moment later the rest"),
            Self::Unready(timer) => write!(f, "gets an RNR NAK with code {}, even if it needs no receive", timer.0),
            Self::AnswerTwice => f.write_str("is answered twice"),
            Self::AnswerDamaged => f.write_str("gets a response with a wrong ICRC, then the valid response"),
            Self::Coalesced => f.write_str("is the first of the requests that one ACK acknowledges"),
            Self::Each => f.write_str("has each of its packets acknowledged"),
            Self::RnrThenSilent(timer, times) => {
                write!(f, "gets an RNR NAK with code {}, then no answer {times} times", timer.0)
            }
            Self::NakThenSilent(times) => write!(f, "gets a sequence NAK, then no answer {times} times"),
            Self::Silent(times) => write!(f, "gets no response to {times} of its transmissions"),
            Self::Altered(alteration) => write!(f, "is answered a moment after a response with {alteration}"),
        }
    }
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadIcrc(bit) => write!(f, "a WRITE with bit {bit} of its payload flipped"),
            Self::Altered(alteration) => write!(f, "a WRITE with {alteration}"),
            Self::Ahead(by) => write!(f, "a WRITE with a PSN {by} ahead"),
            Self::Behind(by) => write!(f, "a SEND with a PSN {by} back"),
            Self::GhostAck(by) => write!(f, "an ACK of a PSN {by} ahead"),
            Self::StaleAck(by) => write!(f, "an ACK of a PSN {by} back"),
            Self::GhostNak(by) => write!(f, "a sequence NAK of a PSN {by} ahead"),
            Self::StaleNak(by) => write!(f, "a sequence NAK of a PSN {by} back"),
            Self::StaleRnr(by) => write!(f, "an RNR NAK of a PSN {by} back"),
            Self::StaleFatal(code, by) => write!(f, "a NAK of a PSN {by} back: {code}"),
            Self::StaleRead(by) => write!(f, "a READ response with a PSN {by} back"),
            Self::GhostRnr(by) => write!(f, "an RNR NAK of a PSN {by} ahead"),
            Self::GhostRead(by) => write!(f, "a READ response with a PSN {by} ahead"),
            Self::Cnp => f.write_str("a CNP"),
        }
    }
}

impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TVer(tver) => write!(f, "TVer {tver}"),
            Self::PKey(bit) => write!(f, "bit {bit} of its P_Key flipped"),
            Self::OtherService => f.write_str("an opcode of UC's"),
            Self::OtherQp => f.write_str("a queue pair that does not exist"),
            Self::OtherSource => f.write_str("another source address"),
        }
    }
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RKey(of, bit) => write!(f, "a {} with bit {bit} of its R_Key flipped", operation(*of)),
            Self::Beyond(of) => write!(f, "a {} that reaches a byte beyond the region", operation(*of)),
            Self::Before(of) => write!(f, "a {} that begins a byte before the region", operation(*of)),
            Self::Around(of) => write!(f, "a {} whose end wraps to address 0", operation(*of)),
            Self::Address(of, bit) => write!(f, "a {} with bit {bit} of its address flipped", operation(*of)),
            Self::TooLong(of, by) => write!(f, "a {} Only {} longer than the path MTU", operation(*of), bytes(*by)),
            Self::Unaligned(by) => write!(f, "a FetchAdd to an address {} after a multiple of 8", bytes(*by)),
            Self::NoFirst => f.write_str("a WRITE Middle without a First"),
            Self::ShortFirst(by) => write!(f, "a WRITE First {} shorter than the path MTU", bytes(*by)),
            Self::DmaLen => f.write_str("a WRITE Only 1 byte shorter than its DMALen"),
            Self::Overlong(by) => write!(f, "a SEND {} longer than its receive", bytes(*by)),
            Self::Right(of) => write!(f, "a {} without the right to it", operation(*of)),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(wants, way) => write!(f, "peer: {}{way}", list(wants)),
            Self::Again(back) => write!(f, "peer: repeats an answered message, {back} before the newest"),
            Self::Tail(back) => write!(
                f,
                "peer: the answered message {back} back, again without its first packet"
            ),
            Self::Stray(stray) => write!(f, "peer: {stray}"),
            Self::Post(wants, at, fault) => write!(f, "DUT: {}; request {at} {fault}", list(wants)),
            Self::Begin(wants, fault) => write!(f, "DUT: {}, left outstanding; request 0 {fault}", list(wants)),
            Self::Refuse(wants, at, code) => write!(f, "DUT: {}; request {at} gets a NAK: {code}", list(wants)),
            Self::Illegal(illegal) => write!(f, "peer: {illegal}"),
            Self::Malformed(malformed) => write!(f, "peer: a malformed {}", malformed.packet),
            Self::Marks(marks) => write!(
                f,
                "peer: from now on traffic class {:#04x}, hop limit {}, reserved bits {:#04x}",
                marks.traffic_class, marks.hop_limit, marks.reserved
            ),
            Self::Drain(wants) => write!(f, "DUT in SQD: {}", list(wants)),
            Self::Reset(_) => f.write_str("DUT: RESET, then a new connection"),
        }
    }
}
