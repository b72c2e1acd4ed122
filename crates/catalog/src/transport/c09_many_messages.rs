//! `c09-many-messages`: the MSN counts messages beyond 16 bits.
//!
//! The peer sends empty WRITEs, 64 at a time, up to the number in the parameter. Only the last WRITE of each 64
//! has AckReq set. A rule of the oracle judges the MSN of each acknowledgement.
//!
//! Reading: an empty WRITE is a message and counts. It needs no receive and touches no memory, so the peer can send
//! many quickly.
//!
//! False alarm: none known.

use verbatim_oracle::Rule;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Verbs};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Parameter, Step, Test, Tester};

use crate::transport::rc;
use crate::transport::rc::answer::{ACKNOWLEDGEMENT, MSN};
use crate::transport::rc::ask::{self, Message};

const SENT: Label<Frames> = Label::new("empty WRITEs");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Number of messages that the peer sends before it waits for their acknowledgement.
const AT_ONCE: u32 = 64;

pub(super) static TEST: Test = Test {
    id: "c09-many-messages",
    aliases: &[],
    revision: 1,
    about: "The MSN counts more messages than 16 bits hold.",
    reading: "Empty WRITEs, 64 at a time, the last of which asks for an acknowledgement: its MSN is the count of all.",
    statements: &[MSN, ACKNOWLEDGEMENT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[Parameter {
        name: "messages",
        about: "number of messages on the connection",
        range: (1, 200_000),
        simulated: (1 << 16) + 4,
        default: (1 << 16) + 4,
    }],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let count = t.parameter("messages") as u32;
    let channel = t.open_channel(&ChannelOptions::default())?;
    let mut sent = 0;
    while sent < count {
        let some = AT_ONCE.min(count - sent);
        let writes = (0..some).map(|n| Message::write(&channel, channel.own_psn.plus(sent + n), 0, &[]));
        if !ask::ask(t, &channel, SENT, &Message::several(writes))? {
            break;
        }
        sent += some;
    }
    ask::query(t, &channel, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::Msn]);
    rc::came(t, &[SENT])
}
