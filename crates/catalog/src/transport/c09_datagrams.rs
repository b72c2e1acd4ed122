//! `c09-datagrams`: a datagram queue pair sends posted datagrams, and accepts datagrams that fit, with its Q_Key.
//!
//! The DUT posts datagrams of several lengths, with and without immediate data and solicited event, with its own Q_Key
//! and with another Q_Key. It must send each datagram as one packet with the next PSN, and complete each request once.
//! Then the peer sends datagrams of several lengths to the DUT. A receive holds the network header in its first 40
//! bytes, and the payload after it. A datagram longer than its receive must not complete with success.
//!
//! Reading: a Q_Key with the highest bit set stands for the queue pair's own Q_Key. Of the 40 bytes, the test
//! compares only the addresses, in the IPv6 header or in an IPv4 header in the last 20 bytes. The host must not
//! report a datagram longer than its receive as received; the test leaves its other effects open.
//!
//! False alarm: a datagram may be lost in either direction, so a missing datagram proves nothing on a real path.

use core::time::Duration;

use verbatim_record::verbs::{Command, pb};
use verbatim_record::{Findings, Frames, Gap, Label, Side, Trace, Verbs, Wait};
use verbatim_tester::peer::ChannelOptions;
use verbatim_tester::{Need, Step, Test, Tester};
use verbatim_wire::packet::{AckTimeout, ImmDt, Opcode, Psn, QKey};
use verbatim_wire::values::Hex32;

use super::datagrams::{self, DATAGRAMS, HEADER, datagram};
use crate::transport::rc;
use crate::transport::rc::ask;
use verbatim_oracle::Rule;

const FILL: Label<Verbs> = Label::new("fill the memory");
const POST: Label<Verbs> = Label::new("post a datagram");
const RECEIVE: Label<Verbs> = Label::new("post a receive");
const SENT: Label<Frames> = Label::new("datagram to the DUT");
const LONG: Label<Frames> = Label::new("datagram longer than its receive");
const AFTER: Label<Wait> = Label::new("after all datagrams");
const RESULT: Label<Verbs> = Label::new("read the memory");
const STATE: Label<Verbs> = Label::new("is the host still there");

/// Q_Key of the DUT's queue pair, and another Q_Key.
const Q_KEY: QKey = QKey(0x1357_9BDF);
const OTHER: QKey = QKey(0x0246_8ACE);
/// First PSN of the DUT, so that the PSNs wrap.
const FIRST: Psn = Psn(0xFF_FFFE);
/// The DUT's datagrams: length in bytes, immediate data, solicited event, Q_Key.
const POSTS: [(u32, bool, bool, QKey); 5] = [
    (0, false, false, OTHER),
    (1, true, false, OTHER),
    (63, false, true, OTHER),
    (256, true, true, QKey(0x8000_0001)),
    (64, false, false, OTHER),
];
/// Traffic class of each datagram. The two ECN bits are 0: congestion control owns them.
const CLASSES: [u32; 5] = [0, 0x54, 0xA8, 0, 0x54];

/// The peer's datagrams: length in bytes, immediate data.
const SENDS: [(u32, bool); 4] = [(0, false), (5, true), (256, false), (64, true)];
/// Length of a receive in bytes, and distance between receives.
const SLOT: u32 = HEADER + 256;
/// Offset of the receives, after the data to send.
const SLOTS: u32 = 4096;
/// Length in bytes of the receive that is too short for the last datagram.
const SHORT: u32 = HEADER + 63;
/// wr_id of the first receive.
const RECEIVES: u64 = 100;
const IMMEDIATE: u32 = 0xC0DE_0001;
/// Length of the memory that is filled before and compared afterwards, in bytes.
const LOOKED_AT: u32 = 8192;

pub(super) static TEST: Test = Test {
    id: "c09-datagrams",
    aliases: &[],
    revision: 3,
    about: "A datagram queue pair sends each datagram in one packet, and accepts the datagrams that fit its receives.",
    reading: "Each datagram of the DUT has the next PSN and completes once. It has the Q_Key of its request, or the \
        queue pair's own if the request's Q_Key has its highest bit set. A receive holds the addresses in its first 40 \
        bytes, then the payload; a receive that is too short does not complete with success.",
    statements: &[DATAGRAMS, rc::ICRC],
    needs: &[Need::Packets],
    parameters: &[],
    procedure,
    judge,
};

fn procedure(t: &mut Tester<'_>) -> Step {
    let channel = t.open_channel(&ChannelOptions::default())?;
    let bytes = ask::random_bytes(t, "memory", LOOKED_AT);
    ask::fill(t, &channel, FILL, 0, bytes)?;
    let of_dut = datagrams::open(t, &channel, Q_KEY, FIRST)?;
    let (ud, qpn) = (of_dut.channel, of_dut.qpn);
    t.skip_packets();
    for (at, (length, has_imm, solicited, q_key)) in (1u64..).zip(POSTS) {
        let operation = if has_imm {
            pb::Operation::SendImm
        } else {
            pb::Operation::Send
        };
        let post = Command::PostSend(pb::PostSend {
            qp: ud.qp,
            wr_id: at,
            operation: operation.into(),
            local: Some(channel.memory.slice(at as u32 * 3, length)),
            signaled: true,
            solicited,
            imm: IMMEDIATE,
            address: Some(pb::AddressVector {
                traffic_class: CLASSES[at as usize - 1],
                ..of_dut.peer.clone()
            }),
            remote_qpn: channel.own_qpn.0,
            remote_qkey: q_key.0,
            ..pb::PostSend::default()
        });
        t.verbs_must(POST, Side::Dut, post)?;
        t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    let count = SENDS.len() as u32;
    for at in 0..=count {
        let length = if at == count { SHORT } else { SLOT };
        ask::post_receive(t, &ud, RECEIVE, RECEIVES + u64::from(at), (SLOTS + at * SLOT, length))?;
    }
    for (length, has_imm) in SENDS {
        let payload = ask::random_bytes(t, &format!("{length} bytes"), length);
        let mut packet = datagram(&channel, qpn, Q_KEY, payload);
        if has_imm {
            packet.bth = packet.bth.with_opcode(Opcode::UD_SEND_ONLY_IMM);
            packet.imm = Some(ImmDt::default().with_data(Hex32(IMMEDIATE)));
        }
        t.send_frame(SENT, &channel.frame(&packet))?;
        t.next_completion(Side::Dut, ud.qp, t.now().after(ask::RESPONSE_WAIT))?;
    }
    let payload = ask::random_bytes(t, LONG.name, SHORT - HEADER + 1);
    t.send_frame(LONG, &channel.frame(&datagram(&channel, qpn, Q_KEY, payload)))?;
    t.wait_for(AFTER, t.rc_silence(Duration::ZERO, AckTimeout::OFF, 0))?;
    ask::read_memory(t, &channel, RESULT, LOOKED_AT)?;
    ask::query(t, &ud, STATE)?;
    Ok(())
}

fn judge(t: &Trace, f: &mut Findings<'_>) -> Result<(), Gap> {
    datagrams::judged(
        t,
        f,
        &[
            Rule::DatagramSent,
            Rule::DatagramDone,
            Rule::DatagramReceived,
            Rule::DatagramStored,
        ],
    )
}
