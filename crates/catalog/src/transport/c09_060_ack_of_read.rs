//! `c09-060-ack-of-read`: an ACK does not complete an RDMA READ or an atomic; only the response does.
//!
//! One connection carries a READ of three responses, another a FetchAdd. Instead of the response the peer sends an ACK
//! of the request's last PSN, three times because a packet may be lost. No request may complete with success. Then the
//! peer sends the response: the request completes, and its data is in memory.
//!
//! Reading: a DUT may ignore the ACK, retry the request, or fail it.
//!
//! False alarm: none known.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Trace, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::AckTimeout;

use crate::transport::rc::{self, Ask, Requester};

const COMPLETION: &str = "C9-60";
const DATA: &str = "9.7.6.1.1 response data";

const ACK: Label<Frames> = Label::new("ACK instead of the response");
const AFTER: Label<Wait> = Label::new("after the ACK");
const RESPONSE: Label<Frames> = Label::new("response");
const RESPONSE_AGAIN: Label<Frames> = Label::new("response, again");

pub(super) static TEST: Test = Test {
    id: "c09-060-ack-of-read",
    aliases: &[],
    revision: 1,
    about: "An ACK does not complete an RDMA READ or an atomic.",
    reading: "After the ACK: no completion, or one with an error; a retry is legal. After the response: success, and its data \
        where the request says.",
    statements: &[COMPLETION, DATA, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for is_read in [true, false] {
        let mut dut = Requester::open(t, &ChannelOptions::default())?;
        let ask = if is_read {
            Ask::new(pb::Operation::Read, 2 * dut.mtu + 20)
        } else {
            Ask::new(pb::Operation::FetchAdd, 8)
        };
        if let Some(sent) = dut.try_post(t, ask)?
            && dut.see_all(t, &sent)?
        {
            rc::ask::insist(t, ACK, &dut.ack(sent.last, sent.msn))?;
            t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
            if dut.come(t)? == 0 {
                let responses = dut.answers(t, &sent);
                dut.answer(t, (RESPONSE, RESPONSE_AGAIN), &responses, 1)?;
            }
            dut.read_memory(t)?;
        }
        dut.close(t)?;
    }
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[Rule::CompletedBy]);
    rc::came_on_each(t, &[ACK])
}
