//! `c09-q-key`: a queue pair drops a datagram with a wrong Q_Key, and sends no response.
//!
//! The DUT has a datagram queue pair with receives, whose Q_Key the host changed in RTS. The peer sends datagrams
//! with wrong Q_Keys, and a datagram to an address that the port does not have. It also sends a datagram that ends
//! before its immediate data. The peer sends each datagram three times, because a datagram may be lost. Then it
//! sends a datagram with the correct Q_Key and another, shorter payload. Only this datagram completes a receive,
//! with its payload after the 40 bytes of the network header. All other memory is unchanged.
//!
//! The datagram without immediate data makes the kernel of Linux rxe panic. The peer sends it to rxe only with `--set
//! soft_roce=1`.
//!
//! Reading: a dropped datagram consumes no receive and completes nothing. The test does not judge the 40 bytes.
//!
//! False alarm: none known. The peer sends the correct datagram up to three times, and each may complete a receive.

use core::time::Duration;

use verbatim_record::verbs::pb;
use verbatim_record::{Findings, Frames, Gap, Label, Side, TRIES, Trace, Verbs, Wait};
use verbatim_tester::peer::{Channel, ChannelOptions};
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, Opcode, Psn, QKey};

use super::c09_header_validation::elsewhere;
use super::datagrams::labels::OPEN;
use super::datagrams::{self, DATAGRAMS, Datagrams, HEADER, HEADERS, datagram};
use super::soft_roce;
use crate::transport::rc;
use crate::transport::rc::ask;
use verbatim_oracle::Rule;

const FILL: Label<Verbs> = Label::new("fill the memory");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const WRONG: Label<Frames> = Label::new("datagram with a wrong Q_Key");
const ELSEWHERE: Label<Frames> = Label::new("datagram to another address");
const CUT: Label<Frames> = Label::new("datagram that ends before its immediate data");
const RIGHT: Label<Frames> = Label::new("datagram with the right Q_Key");
const AFTER: Label<Wait> = Label::new("after all datagrams");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

const Q_KEY: QKey = QKey(0x1357_9BDF);
/// Q_Key of the queue pair before the change.
const OLD: QKey = QKey(0x2468_ACE0);
/// Wrong Q_Keys: 0, the Q_Key of QP1, and the old Q_Key. The test adds each Q_Key that differs from the right Q_Key in
/// one bit.
const OTHERS: [QKey; 3] = [QKey(0), QKey::GSI, OLD];
const LENGTH: u32 = 48;
/// Length in bytes of the correct datagram. It is shorter than a wrong datagram, so that it does not cover all bytes of
/// a wrongly accepted datagram.
const SOUND: u32 = 32;
/// Distance between receives in bytes.
const SLOT: u32 = 128;
/// Number of receives, as many as the queue holds: more than enough for wrongly accepted datagrams.
const RECEIVES: u32 = 16;

pub(super) static TEST: Test = Test {
    id: "c09-q-key",
    aliases: &[],
    revision: 5,
    about: "The DUT drops a datagram with a wrong Q_Key, another address or missing headers: it completes no receive.",
    reading: "The peer sends datagrams with 35 wrong Q_Keys: 32 differ in one bit, and one was right before it was \
        changed in RTS. It sends one datagram to another address, and one without immediate data. Each is sent three \
        times. The right datagram, which is shorter, follows up to three times. Only right datagrams complete \
        receives, with 40 bytes of header and their payload. The rest of the memory is unchanged.",
    statements: &[HEADERS, DATAGRAMS],
    needs: &[Need::Packets],
    parameters: &[soft_roce::PARAMETER],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, FILL.name, RECEIVES * SLOT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let of = datagrams::open(t, &channel, OLD, Psn(0))?;
    let other = pb::QpAttributes {
        qkey: Some(Q_KEY.0),
        ..pb::QpAttributes::default()
    };
    datagrams::step(t, &of, pb::QpState::Rts, other)?;
    let Datagrams {
        channel: ud,
        qpn,
        opened,
        ..
    } = of;
    for n in 0..RECEIVES {
        ask::post_receive(t, &ud, RECEIVE, u64::from(n) + 1, (n * SLOT, HEADER + LENGTH))?;
    }
    let one_bit = (0..u32::BITS).map(|bit| QKey(Q_KEY.0 ^ 1 << bit));
    for q_key in one_bit.chain(OTHERS) {
        let payload = ask::random_bytes(t, WRONG.name, LENGTH);
        let wrong = channel.frame(&datagram(&channel, qpn, q_key, payload));
        ask::insist(t, WRONG, &wrong)?;
    }
    let right = datagram(&channel, qpn, Q_KEY, ask::random_bytes(t, ELSEWHERE.name, LENGTH));
    ask::insist(t, ELSEWHERE, &to_nobody(&channel).frame(&right))?;
    if !soft_roce::is_spared(t, TEST.id, &opened) {
        let mut cut = datagram(&channel, qpn, Q_KEY, Vec::new());
        cut.bth = cut.bth.with_opcode(Opcode::UD_SEND_ONLY_IMM);
        ask::insist(t, CUT, &channel.frame(&cut))?;
    }
    let payload = ask::random_bytes(t, RIGHT.name, SOUND);
    for _ in 0..TRIES {
        t.send_frame(RIGHT, &channel.frame(&datagram(&channel, qpn, Q_KEY, payload.clone())))?;
        if t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?
            .is_some()
        {
            break;
        }
    }
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, RECEIVES * SLOT)?;
    ask::query(t, &ud, STATE)?;
    Ok(())
}

/// Returns the connection with a destination address that the DUT does not have.
pub(super) fn to_nobody(channel: &Channel) -> Channel {
    let mirrored = Channel {
        own: channel.dut,
        dut: channel.own,
        ..*channel
    };
    Channel {
        dut: elsewhere(&mirrored).own,
        ..*channel
    }
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    let sent = t.frames(CUT).next().is_some();
    if let Some(why) = soft_roce::spared(t, TEST.id, rc::reply(t.command(OPEN)?), sent) {
        f.observe(format!("no datagram without its immediate data was sent: {why}"), &[]);
    }
    datagrams::judged(
        t,
        f,
        &[Rule::DatagramDropped, Rule::DatagramReceived, Rule::DatagramStored],
    )
}
