//! `c09-events`: a queue pair reports to its host the first packet in RTR, once, and the error that ended it.
//!
//! On one connection a WRITE of two packets comes while the DUT's queue pair is in RTR, and another WRITE when it is in
//! RTS. A READ with a wrong R_Key follows, or a WRITE if the device has no READs. On another connection a WRITE comes
//! in RTS, then a WRITE longer than its DMALen. The third connection gets the same WRITEs in RTR, and again after
//! RESET.
//!
//! Reading: a queue pair accepts requests in RTR as in RTS. The first request in RTR causes IBV_EVENT_COMM_EST, no
//! later request does. A remote access error causes IBV_EVENT_QP_ACCESS_ERR, an invalid request IBV_EVENT_QP_REQ_ERR. A
//! missing event is INCONCLUSIVE: no public source says that every adapter raises these events. An adapter that raised
//! the error events on three connections must raise them after RESET, too.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::pb::{self, Operation};
use verbatim_record::verbs::{Command, Event};
use verbatim_record::{Evidence, Findings, Frames, Gap, HostEvent, Label, Passed, Side, Trace, Verbs};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::RKey;
use verbatim_wire::verbs::EventKind;

use crate::transport::rc::answer::{self, ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

const EVENTS: &str = "11.6.3 asynchronous events";

const EARLY: Label<Frames> = Label::new("WRITE in RTR");
const LATER: Label<Frames> = Label::new("WRITE behind it");
const DENIED: Label<Frames> = Label::new("READ with a wrong R_Key");
const DENIED_WRITE: Label<Frames> = Label::new("WRITE with a wrong R_Key");
const INVALID: Label<Frames> = Label::new("WRITE longer than DMALen");
const STATE: Label<Verbs> = Label::new("state of the queue pair at the end");
const RESET: Label<Verbs> = Label::new("modify to RESET");
const TARGET: u32 = 4096;
/// Time that a host may need to report an error of a queue pair, before the queue pair moves to RESET.
const LATE: Duration = Duration::from_secs(2);

pub(super) static TEST: Test = Test {
    id: "c09-events",
    aliases: &[],
    revision: 5,
    about: "A queue pair accepts requests in RTR, reports the first of them once, and reports the error that ended it.",
    reading: "IBV_EVENT_COMM_EST at most once, for a packet in RTR; QP_ACCESS_ERR after a remote access error, \
        QP_REQ_ERR after an invalid request, and no other. A missing event is INCONCLUSIVE, except after RESET if the \
        error events came on the three connections before.",
    statements: &[EVENTS, ACKNOWLEDGEMENT, MSN, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for (to_rts, stays) in [(false, false), (true, false), (false, true)] {
        let options = ChannelOptions {
            to_rts,
            max_dest_rd_atomic: 1,
            ..ChannelOptions::default()
        };
        let channel = t.open_channel(&options)?;
        let mut psn = channel.own_psn;
        let write = |psn| Message::write(&channel, psn, TARGET, &[0xA5; 64]);
        if !to_rts {
            let two = vec![0x5A; ask::mtu(&channel) as usize + 1];
            let early = Message::write(&channel, psn, TARGET, &two);
            ask::ask(t, &channel, EARLY, &early)?;
            psn = early.next();
            if !stays {
                t.start_sending(&channel, &options)?;
            }
        }
        ask::ask(t, &channel, LATER, &write(psn))?;
        psn = psn.next();
        if to_rts || stays {
            ask::ask(t, &channel, INVALID, &longer(write(psn)))?;
        } else {
            let wrong = |key: RKey| RKey(key.0 ^ 0x0004_0040);
            let (label, denied) = if t.executes(Operation::Read) {
                (DENIED, Message::read(&channel, psn, TARGET, 64))
            } else {
                (DENIED_WRITE, write(psn))
            };
            let denied = denied
                .changed(|packets| packets[0].reth = packets[0].reth.map(|reth| reth.with_r_key(wrong(reth.r_key()))));
            ask::ask(t, &channel, label, &denied)?;
        }
        t.pause(if stays { LATE } else { ask::RESPONSE_WAIT })?;
        ask::query(t, &channel, STATE)?;
        if stays {
            refused_again(t, &channel)?;
        }
    }
    Ok(())
}

/// Resets the queue pair, and makes it refuse a request again. The host must report the new error as before.
fn refused_again(t: &mut Tester<'_>, channel: &Channel) -> Step {
    let reset = pb::ModifyQp {
        qp: channel.qp,
        state: pb::QpState::Reset.into(),
        attributes: Some(pb::QpAttributes::default()),
    };
    t.verbs_must(RESET, Side::Dut, Command::ModifyQp(reset))?;
    let options = ChannelOptions {
        max_dest_rd_atomic: 1,
        ..ChannelOptions::default()
    };
    let channel = t.open_channel_again(channel, &options)?;
    let write = |psn| Message::write(&channel, psn, TARGET, &[0xA5; 64]);
    ask::ask(t, &channel, LATER, &write(channel.own_psn))?;
    ask::ask(t, &channel, INVALID, &longer(write(channel.own_psn.next())))?;
    t.pause(LATE)?;
    ask::query(t, &channel, STATE).map(drop)
}

/// Builds a WRITE of 64 bytes whose DMALen is 63.
fn longer(write: Message) -> Message {
    write.changed(|packets| packets[0].reth = packets[0].reth.map(|reth| reth.with_dma_len(63)))
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let all = rc::dialogues(t)?;
    t.not_judged(RESET);
    // Number of reported errors on the connections so far.
    let mut told_of = 0;
    let [in_rtr, in_rts, stays, again] = all.as_slice() else {
        return Err(Gap::Missing(LATER.name));
    };
    t.commands(STATE).count();
    let denied = if offers::executes(t, Operation::Read) {
        DENIED
    } else {
        DENIED_WRITE
    };
    for (dialogue, ends, kind) in [
        (in_rtr, denied, EventKind::QP_ACCESS_ERR),
        (in_rts, INVALID, EventKind::QP_REQ_ERR),
        (stays, INVALID, EventKind::QP_REQ_ERR),
        (again, INVALID, EventKind::QP_REQ_ERR),
    ] {
        rc::sound_packets(f, dialogue);
        let turn = |label: Label<Frames>| answer::turn(t, dialogue, label);
        for (label, msn) in [EARLY, LATER]
            .into_iter()
            .filter(|label| turn(*label).is_some())
            .zip(1..)
        {
            let turn = turn(label).ok_or(Gap::Missing(label.name))?;
            let expected = (turn.last_sent(), msn);
            answer::acknowledged(t, f, (ACKNOWLEDGEMENT, label.name), (dialogue, &turn), expected);
        }
        let end = turn(ends).ok_or(Gap::Missing(ends.name))?;
        let (after, _) = dialogue.places;
        // Late events count too, until another connection uses the same queue pair.
        let again = all.iter().filter(|other| other.handle == dialogue.handle);
        let next = again.map(|other| other.places.0).filter(|place| *place > after).min();
        let before = next.unwrap_or(usize::MAX);
        let of_it = |told: &&HostEvent| told.side == Side::Dut && told.place > after && told.place < before;
        let events: Vec<(&HostEvent, &str)> = t
            .timeline
            .told
            .iter()
            .filter(of_it)
            .filter_map(|told| match &told.event {
                Event::AsyncEvent(event) if event.qp == dialogue.handle && is_of_queue_pair(&event.name) => {
                    Some((told, event.name.as_str()))
                }
                _ => None,
            })
            .collect();
        let names: Vec<&str> = events.iter().map(|(_, name)| *name).collect();
        let seen = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        let shown: Vec<Evidence<'_>> = events.iter().map(|(told, _)| (*told).into()).collect();
        let count = |kind: EventKind| names.iter().filter(|name| **name == kind.to_string()).count();
        let (established, ending) = (count(EventKind::COMM_EST), count(kind));
        told_of += ending;
        let wanted = usize::from(turn(EARLY).is_some());
        let expected = match wanted {
            0 => kind.to_string(),
            _ => format!("{}, {kind}", EventKind::COMM_EST),
        };
        let result = match (established, ending) {
            (established, 1) if established == wanted && names.len() == wanted + 1 => Passed::Pass,
            // An adapter that reported errors on three connections must report a refusal on the fourth.
            (_, 0) if told_of == 3 && end.answers.iter().any(answer::is_refusal) => Passed::Fail,
            // The host may report the error from before RESET late.
            (0..=1, 2) if told_of == 4 && names.len() == established + ending => Passed::Inconclusive,
            (0..=1, 0..=1) if names.len() == established + ending => Passed::Inconclusive,
            _ => Passed::Fail,
        };
        let about = format!("events of a queue pair that ends with a {}", ends.name);
        f.prove(EVENTS, &shown, &about, (expected, seen), result);
    }
    Ok(())
}

/// Returns whether an event belongs to a queue pair, not to the port or the device.
fn is_of_queue_pair(name: &str) -> bool {
    let of_states = [EventKind::COMM_EST, EventKind::SQ_DRAINED];
    name.starts_with("IBV_EVENT_QP_") || of_states.iter().any(|kind| kind.to_string() == name)
}
