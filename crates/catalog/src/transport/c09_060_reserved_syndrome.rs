//! `c09-060-reserved-syndrome`: an acknowledgement with a reserved syndrome does not complete a request with success.
//!
//! One connection tests reserved types of the AETH syndrome, another reserved NAK codes. A SEND is outstanding when
//! these acknowledgements arrive. The peer sends each acknowledgement three times, because a packet may be lost. Then
//! it acknowledges the SEND.
//!
//! Reading: the architecture leaves the effect of a reserved syndrome open. Ignoring the syndrome and failing the
//! request both conform; success does not. The test leaves out syndromes with the reserved top bit set: a receiver
//! that ignores that bit reads such a syndrome as an ACK.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Syndrome};

use crate::transport::rc::{self, Ask, Requester};

const COMPLETION: &str = "C9-60";

const RESERVED: Label<Frames> = Label::new("acknowledgement with a reserved syndrome");
const AFTER: Label<Wait> = Label::new("after the reserved syndromes");
const ACK: Label<Frames> = Label::new("ACK");
const ACK_AGAIN: Label<Frames> = Label::new("ACK, again");

/// Reserved syndromes: the reserved type, and NAK codes without a meaning for a reliable connection.
const SYNDROMES: [&[u8]; 2] = [&[0x40, 0x41, 0x5F], &[0x65, 0x70, 0x7F]];

pub(super) static TEST: Test = Test {
    id: "c09-060-reserved-syndrome",
    aliases: &[],
    revision: 1,
    about: "A reserved AETH syndrome does not complete a request with success.",
    reading: "The DUT may ignore the syndrome, retry the request, or complete it with an error. Success before the ACK \
        does not conform.",
    statements: &[COMPLETION, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for syndromes in SYNDROMES {
        let mut dut = Requester::open(t, &ChannelOptions::default())?;
        let sent = dut.post(t, Ask::send(64))?;
        if dut.see_all(t, &sent)? {
            for syndrome in syndromes {
                let reserved = dut.channel.acknowledge(sent.first, Syndrome(*syndrome), 0);
                rc::ask::insist(t, RESERVED, &reserved)?;
            }
            t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
            if dut.come(t)? == 0 {
                let ack = dut.answers(t, &sent);
                dut.answer(t, (ACK, ACK_AGAIN), &ack, 1)?;
            }
        }
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises_any();
    rc::came_on_each(t, &[RESERVED])
}
