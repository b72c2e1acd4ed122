//! `c09-027-atomic-after-reads` (C09_027_05) and its siblings: the DUT responds in the order of the requests.
//!
//! The peer sends two READs of three packets and, at once, a request with a faster response: a CmpSwap, a SEND or a
//! WRITE. A fourth test sends a FetchAdd before two READs. In the order of arrival the PSNs of the responses never go
//! back.
//!
//! Reading: the test compares only PSNs, as the public description does. An ACK of a SEND or WRITE cannot
//! acknowledge an earlier READ whose responses have not all arrived. On hardware two responses are out of order
//! only if their times do not overlap: otherwise the tester's adapter may have swapped them.
//!
//! False alarm: a network that reorders packets between the DUT and the tester. The test assumes a path of one link.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, Psn, Syndrome, SyndromeKind};

use super::c09_060_atomic_responder::has_atomics;
use crate::transport::rc;
use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};

const ORDER: &str = "C9-27";

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const REQUESTS: Label<Frames> = Label::new("requests, all at once");
const AFTER: Label<Wait> = Label::new("after the requests");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Length of the filled memory in bytes.
const FILLED: u32 = 32 * 1024;
/// Offset of the memory that the requests other than READs access.
const TARGET: u32 = 48 * 1024;
const LENGTH: u32 = 64;

const READING: &str = "The peer sends all requests at once. In the order of arrival, the PSNs of the responses never \
    go back. If a PSN lacks its response, the test tries another connection, three in all.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    AtomicAfterReads,
    SendAfterReads,
    WriteAfterReads,
    ReadsAfterAtomic,
}

macro_rules! tests {
    ($($name:ident $kind:ident $id:literal $aliases:expr, $about:literal)*) => {
        $(
            #[doc = $about]
            pub(super) static $name: Test = Test {
                id: $id,
                aliases: $aliases,
                revision: 2,
                about: $about,
                reading: READING,
                statements: &[ORDER, ACKNOWLEDGEMENT, rc::GENERATION, rc::ICRC],
                needs: &[Need::Packets],
                parameters: &[],
                procedure: |t| procedure(t, Kind::$kind),
                judge: |t, f| judge(t, f, Kind::$kind),
            };
        )*
    };
}
tests! {
    ATOMIC_AFTER_READS AtomicAfterReads "c09-027-atomic-after-reads" &["C09_027_05"],
        "An atomic behind READs is answered after all their responses."
    SEND_AFTER_READS SendAfterReads "c09-027-send-after-reads" &[],
        "A SEND behind READs is acknowledged after all their responses."
    WRITE_AFTER_READS WriteAfterReads "c09-027-write-after-reads" &[],
        "A WRITE behind READs is acknowledged after all their responses."
    READS_AFTER_ATOMIC ReadsAfterAtomic "c09-027-reads-after-atomic" &[],
        "READs behind an atomic are answered after it, and one after the other."
}

impl Kind {
    fn has_atomic(self) -> bool {
        matches!(self, Self::AtomicAfterReads | Self::ReadsAfterAtomic)
    }

    /// Returns the number of READs: two at most, and no more than max_dest_rd_atomic allows beside the atomic.
    fn reads(self, max_dest_rd_atomic: u32) -> u32 {
        max_dest_rd_atomic.saturating_sub(self.has_atomic().into()).min(2)
    }

    fn messages(self, channel: &Channel, payload: &[u8]) -> Vec<Message> {
        let mut psn = channel.own_psn;
        let mut messages = Vec::new();
        let mut add = |make: &dyn Fn(Psn) -> Message| {
            // READs and atomics get a response without requesting an acknowledgement.
            let message = make(psn).changed(|packets| {
                let returns_data = packets[0].atomic.is_some() || packets[0].bth.opcode() == Opcode::RC_READ_REQUEST;
                packets[0].bth = packets[0].bth.with_ack_request(!returns_data);
            });
            psn = message.next();
            messages.push(message);
        };
        let length = 3 * ask::mtu(channel);
        if self == Self::ReadsAfterAtomic {
            add(&|psn| Message::fetch_add(channel, psn, TARGET, 1));
        }
        for at in 0..self.reads(channel.max_dest_rd_atomic.into()) {
            add(&|psn| Message::read(channel, psn, at * 4096, length));
        }
        match self {
            Self::AtomicAfterReads => add(&|psn| Message::compare_swap(channel, psn, TARGET, (0, 1))),
            Self::SendAfterReads => add(&|psn| Message::send(channel, psn, payload)),
            Self::WriteAfterReads => add(&|psn| Message::write(channel, psn, TARGET, payload)),
            Self::ReadsAfterAtomic => {}
        }
        messages
    }
}

fn procedure(t: &mut Tester<'_>, kind: Kind) -> Step {
    let mut last = None;
    for _ in 0..TRIES {
        let channel = t.open_channel(&ChannelOptions::default())?;
        last = Some(channel);
        if kind.reads(channel.max_dest_rd_atomic.into()) == 0 {
            break;
        }
        let bytes = ask::random_bytes(t, "memory", FILLED);
        ask::fill(t, &channel, FILL, 0, bytes)?;
        if kind == Kind::SendAfterReads {
            ask::post_receive(t, &channel, RECEIVE, 1, (TARGET, LENGTH))?;
        }
        let payload = ask::random_bytes(t, "payload", LENGTH);
        let messages = kind.messages(&channel, &payload);
        if all_answered(t, &channel, &messages)? {
            break;
        }
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    if let Some(channel) = last {
        ask::query(t, &channel, STATE)?;
    }
    Ok(())
}

/// Sends all requests at once. Returns whether the DUT responded to each of their PSNs.
///
/// After an RNR NAK the peer repeats the refused request and all requests after it, because the DUT may lack a
/// resource for a moment.
fn all_answered(t: &mut Tester<'_>, channel: &Channel, messages: &[Message]) -> Step<bool> {
    let mut wanted: Vec<Psn> = Vec::new();
    for message in messages {
        wanted.extend((0..message.last().since(message.first()) + 1).map(|at| message.first().plus(at)));
        ask::put(t, channel, REQUESTS, message)?;
    }
    let mut until = t.now().after(ask::soon(t));
    let mut put_off = 0;
    while !wanted.is_empty()
        && let Some(received) = t.next_packet(until)?
    {
        let packet = received.packet();
        let psn = packet.bth().psn();
        if packet.bth().dest_qp() != channel.own_qpn {
            continue;
        }
        let Some(SyndromeKind::RnrNak(timer)) = ask::nak_of(&packet).map(Syndrome::kind) else {
            wanted.retain(|one| *one != psn);
            continue;
        };
        put_off += 1;
        if put_off > messages.len() {
            break;
        }
        t.pause(timer.duration())?;
        for message in messages.iter().filter(|message| message.first().since(psn) < ask::HALF) {
            ask::put(t, channel, REQUESTS, message)?;
        }
        until = t.now().after(ask::soon(t));
    }
    Ok(wanted.is_empty())
}

fn judge(t: &Trace, f: &mut Findings<'_>, kind: Kind) -> Result<(), Gap> {
    let _ = (t.commands(FILL).count(), t.commands(RECEIVE).count());
    if kind.has_atomic() && !has_atomics(t) {
        f.not_applicable = Some("the device says that it has no atomics".into());
        return Ok(());
    }
    let all = rc::dialogues(t)?;
    let (_, _) = (t.waited(AFTER)?, t.command(STATE)?);
    let at_a_time = all.first().and_then(|dialogue| dialogue.attributes.max_dest_rd_atomic);
    if at_a_time.is_some_and(|most| kind.reads(most) == 0) {
        f.not_applicable = Some("the device's max_dest_rd_atomic leaves no room for the READs of this test".into());
        return Ok(());
    }
    f.exercises(&[Rule::RequestAnswered, Rule::NeverBack]);
    rc::answered(t, REQUESTS)
}
