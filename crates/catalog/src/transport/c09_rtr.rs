//! `c09-rtr`: a queue pair in RTR answers as one in RTS does.
//!
//! The DUT's queue pair stays in RTR. A WRITE is acknowledged, a READ answered; a SEND without a receive gets an RNR NAK, and is
//! delivered when it comes again behind a receive. Then the queue pair goes to RTS, and a WRITE is acknowledged there.
//! Reading: RTR is the state in which a queue pair receives; nothing of the responder waits for RTS.
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::verbs::pb::Operation;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};

use crate::transport::rc::answer::ACKNOWLEDGEMENT;
use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, offers};

const RNR: &str = "9.7.5.2.8 RNR NAK";

const WRITE: Label<Frames> = Label::new("WRITE in RTR");
const READ: Label<Frames> = Label::new("READ in RTR");
const UNREADY: Label<Frames> = Label::new("SEND in RTR, without a receive");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const READY: Label<Frames> = Label::new("SEND in RTR, again");
const LAST: Label<Frames> = Label::new("WRITE in RTS");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// How long an answer may be late.
const LATE: Duration = Duration::from_secs(4);
const LENGTH: u32 = 64;
/// Where WRITEs go, and the READ begins.
const PLACES: [u32; 3] = [16 * 1024, 20 * 1024, 24 * 1024];

/// RTR.
pub(super) static TEST: Test = Test {
    id: "c09-rtr",
    aliases: &[],
    revision: 1,
    about: "In RTR a queue pair takes requests and answers them, as in RTS.",
    reading: "In RTR a WRITE is acknowledged, a READ answered, a SEND without a receive gets an RNR NAK, and is delivered with one.",
    statements: &[RNR, ACKNOWLEDGEMENT, rc::GENERATION, rc::ICRC],
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
    let mut next = write.next();
    if t.executes(Operation::Read) {
        let read = Message::read(&channel, next, PLACES[1], 2 * ask::mtu(&channel));
        ask::ask(t, &channel, READ, &read)?;
        next = read.next();
    }
    let send = Message::send(&channel, next, &payload);
    if !ask::ask_unready(t, &channel, UNREADY, &send)? {
        // What comes later answers to what is sent later.
        t.pause(LATE)?;
    }
    ask::post_receive(t, &channel, RECEIVE, 1, (0, LENGTH))?;
    t.pause(options.min_rnr_timer.duration())?;
    ask::ask(t, &channel, READY, &send)?;
    t.start_sending(&channel, &options)?;
    ask::ask(
        t,
        &channel,
        LAST,
        &Message::write(&channel, send.next(), PLACES[2], &payload),
    )?;
    ask::query(t, &channel, STATE).map(drop)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&["request-answered", "rnr-timer"]);
    if offers::executes(t, Operation::Read) {
        rc::came(t, &[READ])?;
    }
    rc::came(t, &[WRITE, UNREADY, READY, LAST])
}
