//! Rules for datagram queue pairs: the datagrams that a queue pair sends, its completions, and its receives.
//!
//! Source: architecture 9.8.3 (unreliable datagrams), 9.6.1 (validation of headers), 10.2.5 (Q_Keys), 11.4.1 and 11.4.2
//! (work requests and completions); Linux rxe.
//!
//! A datagram may be lost in either direction. On a path with losses, a missing datagram proves nothing. A datagram
//! of the device that the tester received, and a receive that completed, count as evidence on every path.

mod memory;
mod received;
mod sent;

use core::time::Duration;

use verbatim_record::verbs::{Command, Event, Reply, pb};
use verbatim_record::{FrameSeen, HostEvent, Side, Time, Trace, VerbsDone};
use verbatim_wire::packet::{Medium, Packet};

use super::qp_history::{QpHistory, is_done};
use super::qp_trace::{EVENT_WAIT, SIMULATED_PATH};
use super::states::StatesRule;
use crate::rc;
use crate::rule::Rule;

pub(super) static RULES: &[(Rule, StatesRule)] = &[
    (Rule::Icrc, sent::icrc),
    (Rule::DatagramSent, sent::datagram_sent),
    (Rule::DatagramDone, sent::datagram_done),
    (Rule::DatagramReceived, received::datagram_received),
    (Rule::DatagramDropped, received::datagram_dropped),
    (Rule::DatagramStored, memory::datagram_stored),
];

/// Number of bytes before the payload in a receive: room for the network header.
const HEADER: u32 = 40;
/// Partition of the default P_Key, in the low 15 bits. The rules expect that pkey_index 0 has the default P_Key.
const PARTITION: u16 = 0x7FFF;

/// Known bytes of a memory; `None` for a byte that may have any value.
type Image = Vec<Option<u8>>;

fn is_of_datagrams(history: &QpHistory<'_>) -> bool {
    history.service == pb::Service::Ud
}

/// Returns whether the queue pair is of datagrams whose packets the tester sees. It does not see the packets between the
/// DUT and an adapter of its own.
fn is_seen(history: &QpHistory<'_>) -> bool {
    let all = history.trace.timeline.commands_between((0, usize::MAX));
    is_of_datagrams(history) && all.iter().all(|done| done.side == Side::Dut)
}

/// Returns the frames of the timeline within the life of the queue pair, with their packets.
fn frames<'t>(history: &QpHistory<'t>, received: bool) -> impl Iterator<Item = (&'t FrameSeen, Packet<'t>)> {
    let all = history
        .trace
        .timeline
        .frames_between((history.begin, history.end))
        .iter();
    all.filter(move |frame| frame.received == received)
        .filter_map(|frame| Some((frame, Packet::parse(Medium::Ethernet, &frame.bytes).ok()?)))
}

/// Returns whether the host answered a command about the queue pair that was sent at `due` or later. False if a step
/// of the queue pair after `place` was requested before `due`.
fn is_alive(history: &QpHistory<'_>, place: usize, due: Time) -> bool {
    let mut later = history.commands.iter().filter(|done| done.place > place);
    let mut steps = later
        .clone()
        .filter(|done| matches!(done.command, Command::ModifyQp(_)));
    let is_left = steps.next().is_none_or(|step| step.asked.earliest >= due);
    is_left && later.any(|later| later.asked.earliest >= due && later.answer.is_some())
}

/// Returns whether a frame to the device has certainly arrived before the queue pair's next receive or step.
fn is_settled(history: &QpHistory<'_>, frame: &FrameSeen) -> bool {
    let path = rc::path(history.trace).or_else(|| history.is_simulated().then_some(SIMULATED_PATH));
    let due = frame.at.latest.after(path.unwrap_or(EVENT_WAIT));
    let changes = |done: &&&VerbsDone| matches!(done.command, Command::ModifyQp(_) | Command::PostReceive(_));
    let mut later = history.commands.iter().filter(|done| done.place > frame.place);
    later.find(changes).is_none_or(|next| next.asked.earliest >= due)
}

/// Returns the completions of the queue pair, in order.
fn completions<'h, 't>(history: &'h QpHistory<'t>) -> impl Iterator<Item = (&'t HostEvent, &'t pb::Completion)> + 'h {
    history.events.iter().filter_map(|of| match &of.event {
        Event::Completion(completion) => Some((*of, completion)),
        Event::AsyncEvent(_) => None,
    })
}

/// Returns the bytes of a memory at a place of the record. A byte is unknown if a receive or a response may have
/// written it. Receives of the queue pair `own` are ignored.
fn image(trace: &Trace, memory: u32, own: Option<u32>, until: usize) -> Image {
    let mut image = Image::new();
    let forget = |image: &mut Image, local: Option<pb::Slice>| {
        if let Some(local) = local.filter(|local| local.memory == memory) {
            let from = (local.offset as usize).min(image.len());
            let end = (local.offset as usize + local.length as usize).min(image.len());
            image[from..end].fill(None);
        }
    };
    let commands = trace.timeline.commands_between((0, until)).iter();
    for done in commands.filter(|done| done.side == Side::Dut) {
        match (&done.command, &done.answer) {
            (Command::RegisterMemory(asked), Some((_, _, Reply::Memory(made), _))) if made.memory == memory => {
                image = vec![Some(0); asked.length as usize];
            }
            (Command::WriteMemory(write), _) if write.memory == memory && is_done(done) => {
                let bytes = write.bytes.iter().copied();
                for (place, byte) in image.iter_mut().skip(write.offset as usize).zip(bytes) {
                    *place = Some(byte);
                }
            }
            (Command::PostReceive(post), _) if own != Some(post.qp) => forget(&mut image, post.local),
            (Command::PostSend(post), _) if is_filled(post) => forget(&mut image, post.local),
            _ => {}
        }
    }
    image
}

/// Returns whether a response fills the local memory of a request.
fn is_filled(post: &pb::PostSend) -> bool {
    use pb::Operation::{CompareSwap, FetchAdd, Read};
    matches!(post.operation(), Read | CompareSwap | FetchAdd)
}

/// Returns the part of an image that a slice names; unknown bytes where the image ends.
fn part(image: &Image, local: Option<pb::Slice>) -> Image {
    let local = local.unwrap_or_default();
    let known = image.iter().skip(local.offset as usize).copied();
    known
        .chain(core::iter::repeat(None))
        .take(local.length as usize)
        .collect()
}

/// Time after which a missing completion counts as missing.
const DUE: Duration = EVENT_WAIT;
/// Time in simulations after which a packet that has not left counts as missing.
const LEFT: Duration = Duration::from_millis(1);
