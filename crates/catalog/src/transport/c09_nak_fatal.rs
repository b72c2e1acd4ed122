//! `c09-nak-fatal`: a NAK that refuses a request fails it, completes earlier requests, and flushes later requests.
//!
//! Three connections test one code each: invalid request, remote access error and remote operational error. Four SENDs
//! are outstanding; the second gets the NAK. The first completes with success, the second with the status of the code,
//! the others with IBV_WC_WR_FLUSH_ERR, in this order. Two receives are flushed, too. The DUT retransmits nothing. Its
//! queue pair is in error and does not respond to a WRITE.
//!
//! On a fourth connection all four SENDs are unsignaled: the failed SENDs complete nevertheless, the successful
//! first SEND does not. On a fifth connection a READ of three packets gets its first response, then the NAK
//! instead of the second. The fifth connection needs a device with READs.
//!
//! Reading: the specification is clear.
//!
//! False alarm: none known. The peer repeats the NAK if no completion comes.

use core::time::Duration;

use verbatim_oracle::Rule;
use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, NakCode};

use crate::transport::rc::ask::{self, Message};
use crate::transport::rc::{self, Ask, Requester, offers};

const COUNT: &str = "C9-143";
const COMPLETION: &str = "C9-60";

const NAK: Label<Frames> = Label::new("NAK of the second request");
const NAK_AGAIN: Label<Frames> = Label::new("NAK of the second request, again");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const BEHIND: Label<Frames> = Label::new("WRITE to the queue pair in error");
const AFTER: Label<Wait> = Label::new("after the NAK");

/// Codes of the NAKs that end a connection.
const CODES: [NakCode; 3] = [
    NakCode::INVALID_REQUEST,
    NakCode::REMOTE_ACCESS,
    NakCode::REMOTE_OPERATIONAL,
];
/// wr_ids of receives that no message consumes, and their offset.
const RECEIVES: [u64; 2] = [101, 102];
const SLOT: u32 = 8 * 1024;
/// Number of outstanding SENDs.
const REQUESTS: u32 = 4;

pub(super) static TEST: Test = Test {
    id: "c09-nak-fatal",
    aliases: &[],
    revision: 3,
    about: "A NAK that refuses a request fails it, completes earlier requests, and flushes later requests.",
    reading: "In order: success of the earlier request, the status of the NAK's code, IBV_WC_WR_FLUSH_ERR of the later \
        requests. No packet follows in two seconds, and the queue pair is in error. An unsignaled request completes \
        only if it fails.",
    statements: &[rc::NAKS, COMPLETION, COUNT, rc::GENERATION, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    for code in CODES {
        refused(t, code, false)?;
    }
    refused(t, NakCode::REMOTE_ACCESS, true)?;
    if t.offers(pb::Operation::Read) {
        within_read(t)?;
    }
    Ok(())
}

/// Has the DUT post four SENDs, and refuses the second.
fn refused(t: &mut Tester<'_>, code: NakCode, silent: bool) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    // No message consumes the receives: they are flushed with the rest.
    for wr_id in RECEIVES {
        ask::post_receive(t, &dut.channel, RECEIVE, wr_id, (SLOT, 64))?;
    }
    let mut sent = Vec::new();
    for at in 0..REQUESTS {
        let ask = Ask {
            silent,
            ..Ask::send(64).at(64 * at)
        };
        sent.push(dut.post(t, ask)?);
    }
    let mut all_seen = true;
    for sent in &sent {
        all_seen = all_seen && dut.see_all(t, sent)?;
    }
    if all_seen {
        let nak = dut.nak(sent[1].first, code, 1);
        // An unsignaled SEND that did not fail is not reported.
        let count = REQUESTS - u32::from(silent) + RECEIVES.len() as u32;
        dut.answer(t, (NAK, NAK_AGAIN), &[nak], count)?;
        // The queue pair is in error and must not respond to its peer.
        let write = Message::write(&dut.channel, dut.channel.own_psn, SLOT, &[0x5A; 8]);
        for _ in 0..TRIES {
            ask::put(t, &dut.channel, BEHIND, &write)?;
        }
        t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    }
    dut.close(t)
}

/// Refuses a READ at its second response; a SEND is posted after it.
fn within_read(t: &mut Tester<'_>) -> Step {
    let mut dut = Requester::open(t, &ChannelOptions::default())?;
    let read = dut.post(t, Ask::new(pb::Operation::Read, 3 * dut.mtu))?;
    dut.post(t, Ask::send(64))?;
    if dut.see_all(t, &read)? {
        let first = dut.answers(t, &read).swap_remove(0);
        let nak = dut.nak(read.first.next(), NakCode::REMOTE_ACCESS, 0);
        dut.answer(t, (NAK, NAK_AGAIN), &[first, nak], 2)?;
        t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    }
    dut.close(t)
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    f.exercises(&[
        Rule::RefusalFails,
        Rule::RefusalStatus,
        Rule::Flushed,
        Rule::AfterError,
        Rule::ErrorState,
        Rule::Unsignalled,
    ]);
    offers::was_posted(t, pb::Operation::Read)?;
    rc::came(t, &[BEHIND])?;
    rc::came_on_each(t, &[NAK])
}
