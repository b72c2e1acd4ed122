//! `c09-address-vector`: packets carry the hop limit, traffic class and flow label of their queue pair's address
//! vector.
//!
//! Each connection has a different address vector. On each connection the DUT sends a SEND and a READ, and answers a
//! WRITE and a READ.
//!
//! Reading: over IPv4 the traffic class is the type of service, and there is no flow label. Congestion control owns the
//! two ECN bits. With a flow label of 0 the device chooses the value. The test leaves out requests that the device
//! lacks. On a host the kernel sets the hop limit of the route, so the test judges the hop limit only on the virtual
//! rig.
//!
//! False alarm: a switch may rewrite the DSCP, so a different DSCP on a real path is INCONCLUSIVE.

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, offers};

const ANSWER: Label<Frames> = Label::new("answer");
const AGAIN: Label<Frames> = Label::new("answer, again");
const WRITE: Label<Frames> = Label::new("WRITE to the DUT");
const READ: Label<Frames> = Label::new("READ of the DUT");

/// Hop limit, traffic class and flow label. Each bit of the latter two, except ECN, is 0 in one vector and 1 in
/// another.
const VECTORS: [(u8, u8, u32); 3] = [(64, 0, 0), (255, 0x54, 0x5_A5A5), (2, 0xA8, 0xA_5A5A)];

pub(super) static TEST: Test = Test {
    id: "c09-address-vector",
    aliases: &[],
    revision: 1,
    about: "Requests and responses carry the hop limit, traffic class and flow label of their queue pair's address vector.",
    reading: "Three connections, each with another address vector. The test does not check ECN, a flow label of 0, or \
        a flow label over IPv4. On a real path another DSCP is INCONCLUSIVE, and the kernel sets the hop limit.",
    statements: &[rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for network in VECTORS {
        let options = ChannelOptions {
            network,
            ..ChannelOptions::default()
        };
        let mut dut = Requester::open(t, &options)?;
        let asks = [Ask::send(64), Ask::new(pb::Operation::Read, 64)];
        for ask in asks
            .into_iter()
            .filter(|ask| t.offers(ask.operation))
            .collect::<Vec<_>>()
        {
            let sent = dut.post(t, ask)?;
            let answers = dut.answers(t, &sent);
            if dut.see_all(t, &sent)? {
                dut.answer(t, (ANSWER, AGAIN), &answers, 1)?;
            }
        }
        let (channel, psn) = (dut.channel, dut.channel.own_psn);
        ask::ask(t, &channel, WRITE, &Message::write(&channel, psn, 0, &[1, 2, 3]))?;
        if t.executes(pb::Operation::Read) {
            ask::ask(t, &channel, READ, &Message::read(&channel, psn.next(), 0, 64))?;
        }
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::AddressVector, Rule::Posted]);
    offers::was_posted(t, pb::Operation::Read)?;
    if !offers::executes(t, pb::Operation::Read) {
        return rc::came(t, &[ANSWER, WRITE]);
    }
    rc::came(t, &[ANSWER, WRITE, READ])
}
