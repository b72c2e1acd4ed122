//! `c09-rtr`: a queue pair in RTR answers requests as in RTS.
//!
//! The DUT's queue pair stays in RTR. It acknowledges a WRITE and its duplicate, reports a PSN gap after the
//! WRITE, and answers a READ. A SEND without a receive gets an RNR NAK, and is delivered when the peer repeats it
//! with a receive. A WRITE of two packets begins. Then the queue pair moves to RTS, where the DUT acknowledges the
//! end of this WRITE and another WRITE.
//!
//! Reading: a queue pair receives in RTR. No function of the responder requires RTS.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};

use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

const RNR: &str = "9.7.5.2.8 RNR NAK";

const WRITE: Label<Frames> = Label::new("WRITE in RTR");
const DUPLICATE: Label<Frames> = Label::new("WRITE in RTR, again");
const GAP: Label<Frames> = Label::new("WRITE in RTR behind a gap");
const READ: Label<Frames> = Label::new("READ in RTR");
const UNREADY: Label<Frames> = Label::new("SEND in RTR, without a receive");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const READY: Label<Frames> = Label::new("SEND in RTR, again");
const BEGUN: Label<Frames> = Label::new("WRITE First in RTR");
const ENDED: Label<Frames> = Label::new("the same WRITE, in RTS");
const LAST: Label<Frames> = Label::new("WRITE in RTS");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Time that a late response may need.
const LATE: Duration = Duration::from_secs(4);
const LENGTH: u32 = 64;
/// Offsets of the WRITEs and of the READ.
const PLACES: [u32; 4] = [16 * 1024, 20 * 1024, 24 * 1024, 32 * 1024];

pub(super) static TEST: Test = Test {
    id: "c09-rtr",
    aliases: &[],
    revision: 2,
    about: "In RTR a queue pair executes and answers requests, as in RTS.",
    reading: "In RTR the DUT acknowledges a WRITE and its duplicate, reports a gap and answers a READ. A SEND without \
        a receive gets an RNR NAK, and is delivered when a receive is posted.",
    statements: &[
        RNR,
        ACKNOWLEDGEMENT,
        "9.7.4.1.1 duplicate requests",
        "9.7.4.1.1 PSN sequence",
        rc::GENERATION,
        rc::ICRC,
    ],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let options = ChannelOptions {
        to_rts: false,
        ..ChannelOptions::default()
    };
    let channel = t.open_channel(&options)?;
    let payload = ask::random_bytes(t, "payload", LENGTH);
    let write = Message::write(&channel, channel.own_psn, PLACES[0], &payload);
    ask::ask(t, &channel, WRITE, &write)?;
    ask::ask(t, &channel, DUPLICATE, &write)?;
    // The PSN is far enough ahead that no later request has it.
    let behind = Message::write(&channel, write.next().plus(1000), PLACES[2], &payload);
    ask::put(t, &channel, GAP, &behind)?;
    ask::listen(t, &channel)?;
    let mut next = write.next();
    if t.executes(Operation::Read) {
        let read = Message::read(&channel, next, PLACES[1], 2 * ask::mtu(&channel));
        ask::ask(t, &channel, READ, &read)?;
        next = read.next();
    }
    let send = Message::send(&channel, next, &payload);
    if !ask::ask_unready(t, &channel, UNREADY, &send)? {
        // A late response must not count for a later request.
        t.pause(LATE)?;
    }
    ask::post_receive(t, &channel, RECEIVE, 1, (0, LENGTH))?;
    t.pause(options.min_rnr_timer.duration())?;
    ask::ask(t, &channel, READY, &send)?;
    let bytes = ask::random_bytes(t, BEGUN.name, ask::mtu(&channel) + LENGTH);
    let two = Message::write(&channel, send.next(), PLACES[3], &bytes);
    t.send_frame(BEGUN, &two.frames(&channel)[0])?;
    t.start_sending(&channel, &options)?;
    ask::ask_from(t, &channel, ENDED, &two, 1)?;
    let last = Message::write(&channel, two.next(), PLACES[2], &payload);
    ask::ask(t, &channel, LAST, &last)?;
    ask::query(t, &channel, STATE).map(drop)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::RequestAnswered,
        Rule::DuplicateAnswered,
        Rule::GapAnswered,
        Rule::RnrNakOwed,
        Rule::RnrTimer,
    ]);
    if offers::executes(t, Operation::Read) {
        rc::came(t, &[READ])?;
    }
    rc::came(t, &[DUPLICATE, GAP, UNREADY, BEGUN])?;
    [WRITE, READY, ENDED, LAST]
        .into_iter()
        .try_for_each(|label| rc::answered(t, label))
}
