//! Further kinds of steps, beyond messages, losses and packets without an effect.
//!
//! Each kind has its own streams of random numbers, so that removing a kind does not change the other steps.

use verbatim_record::verbs::pb::{self, Operation as O};
use verbatim_tester::peer::{ChannelOptions, Marks};
use verbatim_wire::packet::{AckTimeout, RnrTimer};

use super::draw::{Draw, POSTED};
use super::step::{Alteration, Fault, Illegal, Step, Want, Way};

/// Header fields of the peer's packets that have no effect.
const HEADERS: u64 = 1;
/// Regions and queue pairs without some rights; zero-length requests with an arbitrary R_Key.
const RIGHTS: u64 = 1 << 1;
/// Small retry limits, which steps exhaust, and connections without an ACK timeout.
const RETRIES: u64 = 1 << 2;
/// The states RTR, SQD and RESET.
const STATES: u64 = 1 << 3;
/// Receives that are missing for longer, or too short.
const RECEIVES: u64 = 1 << 4;
/// Responses of another connection.
const RESPONSES: u64 = 1 << 5;
/// Number of kinds.
const KINDS: u64 = 6;
/// Mask of all kinds.
pub(super) const ALL: u64 = (1 << KINDS) - 1;

/// Changes the options of a connection. Returns whether zero-length requests of the peer use an arbitrary R_Key.
pub(super) fn options(draw: &mut Draw, kinds: u64, options: &mut ChannelOptions) -> bool {
    let retries = (
        draw.one(&[7, 7, 7, 1, 2, 3]),
        draw.one(&[7, 7, 7, 1, 2, 5]),
        draw.one_in(6),
    );
    if kinds & RETRIES != 0 {
        options.retry_cnt = retries.0;
        options.rnr_retry = retries.1;
        if retries.2 {
            options.timeout = AckTimeout::OFF;
        }
    }
    let stays = draw.one_in(4);
    options.to_rts = !(kinds & STATES != 0 && stays);
    let (is_less, of_region, any_key) = (draw.one_in(4), draw.one_in(2), draw.one_in(2));
    let rights = pb::Access {
        local_write: true,
        remote_write: !draw.one_in(2),
        remote_read: !draw.one_in(2),
        remote_atomic: !draw.one_in(2),
    };
    if kinds & RIGHTS != 0 && is_less {
        if of_region {
            options.memory_access = rights;
        } else {
            options.qp_access = rights;
        }
    }
    kinds & RIGHTS != 0 && any_key
}

/// Returns whether the peer has the right to an operation on the DUT's memory.
pub(super) fn may(options: &ChannelOptions, operation: O) -> bool {
    [options.memory_access, options.qp_access]
        .iter()
        .all(|rights| match operation {
            O::Write | O::WriteImm => rights.remote_write,
            O::Read => rights.remote_read,
            O::CompareSwap | O::FetchAdd => rights.remote_atomic,
            _ => true,
        })
}

/// Draws a step of a further kind, or none in most calls.
pub(super) fn step(draw: &mut Draw, kinds: u64, (options, mtu): (&ChannelOptions, u32), is_last: bool) -> Option<Step> {
    let (is_one, kind) = (draw.one_in(3), 1 << draw.below(KINDS));
    if !is_one || kinds & kind == 0 {
        return None;
    }
    let post = |draw: &mut Draw, fault: Fault| {
        let wants = draw.wants(mtu, POSTED);
        let at = draw.below(wants.len() as u64) as usize;
        Step::Post(wants, at, fault)
    };
    Some(match kind {
        HEADERS => Step::Marks(marks(draw)),
        RIGHTS => rights(draw, options, is_last),
        RETRIES => {
            let fault = spent(draw, options, is_last);
            post(draw, fault)
        }
        STATES if draw.one_in(3) => Step::Reset(None),
        STATES => Step::Drain(draw.wants(mtu, POSTED)),
        RECEIVES if is_last => Step::Illegal(Illegal::Overlong(draw.small(1, 8))),
        RECEIVES => {
            let way = draw.one(&[Way::UnreadyTwice, Way::UnreadyAmid]);
            Step::Ask(draw.wants(mtu, &[O::Send, O::SendImm, O::WriteImm, O::Write]), way)
        }
        RESPONSES => {
            let fault = Fault::Altered(alteration(draw));
            post(draw, fault)
        }
        _ => return None,
    })
}

fn marks(draw: &mut Draw) -> Marks {
    let (any, few) = (draw.small(0, 255) as u8, draw.small(2, 63) as u8);
    let bits = draw.small(0, 63) as u8;
    Marks {
        traffic_class: draw.one(&[0, any, 3]),
        hop_limit: draw.one(&[64, 255, few]),
        reserved: draw.one(&[0, 0x3F, bits]),
    }
}

/// Draws a request that lacks a right, or a zero-length request, which needs no right.
fn rights(draw: &mut Draw, options: &ChannelOptions, is_last: bool) -> Step {
    let lacks = |of: &O| !may(options, *of);
    let lacking: Vec<O> = [O::Write, O::WriteImm, O::Read, O::CompareSwap, O::FetchAdd]
        .into_iter()
        .filter(lacks)
        .collect();
    if is_last && !lacking.is_empty() {
        return Step::Illegal(Illegal::Right(draw.one(&lacking)));
    }
    let none = Want {
        operation: draw.one(&[O::Write, O::WriteImm, O::Read]),
        length: 0,
        place: 8 * draw.small(0, 8),
        fence: false,
        solicited: false,
        value: None,
    };
    Step::Ask(vec![none], Way::Sound)
}

/// Draws a fault that consumes all retries. In the last step of a connection, the fault may exceed the retries by one.
fn spent(draw: &mut Draw, options: &ChannelOptions, is_last: bool) -> Fault {
    let more = u32::from(is_last && draw.one_in(2));
    if draw.one_in(2) {
        return Fault::Silent(u32::from(options.retry_cnt) + more);
    }
    let timer = RnrTimer(draw.one(&[1, 8, 12, 14]));
    let times = match options.rnr_retry {
        // The value 7 means retries without end.
        7 => 9,
        some => u32::from(some) + more,
    };
    Fault::Rnr(timer, times)
}

fn alteration(draw: &mut Draw) -> Alteration {
    match draw.below(5) {
        0 => Alteration::TVer(draw.small(1, 15) as u8),
        1 => Alteration::PKey(draw.small(0, 14)),
        2 => Alteration::OtherService,
        3 => Alteration::OtherQp,
        _ => Alteration::OtherSource,
    }
}

/// Replaces a loss by a sequence NAK if the ACK timeout is off: the DUT would not retransmit by itself.
pub(super) fn within(options: &ChannelOptions, step: Step) -> Step {
    match step {
        Step::Post(
            wants,
            at,
            Fault::RequestLost(_) | Fault::AnswerLost | Fault::ResponseLost(_) | Fault::Silent(_),
        ) if options.timeout == AckTimeout::OFF => Step::Post(wants, at, Fault::SequenceNak(0)),
        same => same,
    }
}
