//! Captures of the kinds in `cases`. Each kind is made from three generated dialogues.

use serde_json::Value;
use verbatim_tests::product::{Output, Place, run};
use verbatim_wire::packet::packet;
use verbatim_wire::values::Hex64;
use verbatim_wire::{
    Aeth, Bth, Lid, MacAddress, Network, Opcode, PKey, Psn, Qpn, RKey, Reth, Station, Syndrome, Transport,
};

use crate::inspect::{documents, pcap_header, pcap_packet};

const PMTU: usize = 1024;
const ETHERNET: usize = 14;

/// The operations of a dialogue. They also select the dialogue's network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dialogue {
    Sends,
    Writes,
    Reads,
}

const DIALOGUES: [Dialogue; 3] = [Dialogue::Sends, Dialogue::Writes, Dialogue::Reads];

/// A packet of a dialogue: whether the packet is a response, and its headers and payload.
pub(super) type Said = (bool, Transport);

impl Dialogue {
    /// Returns the packets of four messages.
    pub(super) fn said(self) -> Vec<Said> {
        (0..4).flat_map(|message| self.message(message)).collect()
    }

    fn message(self, message: u32) -> Vec<Said> {
        let bth = |qpn, opcode, n: u32| {
            Bth::default()
                .with_opcode(opcode)
                .with_dest_qp(Qpn(qpn))
                .with_p_key(PKey(0xFFFF))
                .with_psn(Psn(0xFF_FFFE).plus(n))
        };
        let ask = |opcode, n, bytes: usize, asks| {
            let transport = Transport {
                bth: bth(0x22, opcode, n).with_ack_request(asks),
                payload: vec![0x5A ^ n.to_le_bytes()[0]; bytes],
                ..Transport::default()
            };
            (false, transport)
        };
        let answer = |opcode, n, bytes: usize| {
            let transport = Transport {
                bth: bth(0x11, opcode, n),
                aeth: Some(Aeth::default().with_syndrome(Syndrome::ACK).with_msn(message + 1)),
                payload: vec![0xA5; bytes],
                ..Transport::default()
            };
            (true, transport)
        };
        let of_two = |(is_response, transport): Said| {
            let reth = Reth::default().with_va(Hex64(0x1000)).with_r_key(RKey(7));
            let reth = Some(reth.with_dma_len(PMTU as u32 + 40));
            (is_response, Transport { reth, ..transport })
        };
        let n = 2 * message;
        match self {
            Self::Sends => vec![
                ask(Opcode::RC_SEND_ONLY, message, 64, true),
                answer(Opcode::RC_ACKNOWLEDGE, message, 0),
            ],
            Self::Writes => vec![
                of_two(ask(Opcode::RC_WRITE_FIRST, n, PMTU, false)),
                ask(Opcode::RC_WRITE_LAST, n + 1, 40, true),
                answer(Opcode::RC_ACKNOWLEDGE, n + 1, 0),
            ],
            Self::Reads => vec![
                of_two(ask(Opcode::RC_READ_REQUEST, n, 0, true)),
                answer(Opcode::RC_READ_RESPONSE_FIRST, n, PMTU),
                answer(Opcode::RC_READ_RESPONSE_LAST, n + 1, 40),
            ],
        }
    }

    /// Returns the networks of requests and responses. WRITEs use IPv6.
    pub(super) fn networks(self) -> [Network; 2] {
        let station = |last: u8| Station {
            mac: MacAddress([2, 0, 0, 0, 0, last]),
            ip: match self {
                Self::Writes => std::net::IpAddr::from([0xFD00, 0, 0, 0, 0, 0, 0, last.into()]),
                Self::Sends | Self::Reads => std::net::IpAddr::from([10, 0, 0, last]),
            },
            udp_port: 0xC001,
        };
        let ends = [station(1), station(2)];
        [
            Network::roce_v2(&ends[0], &ends[1]),
            Network::roce_v2(&ends[1], &ends[0]),
        ]
    }
}

pub(super) fn frames(said: &[Said], networks: &[Network; 2]) -> Vec<Vec<u8>> {
    let written = |(is_response, transport): &Said| packet(&networks[usize::from(*is_response)], transport);
    said.iter().map(written).collect()
}

/// Returns a pcap file of these frames.
fn pcap(link_type: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let packets = frames.iter().map(|frame| pcap_packet(frame));
    std::iter::once(pcap_header(link_type))
        .chain(packets)
        .collect::<Vec<_>>()
        .concat()
}

fn inspected(capture: &[u8], options: &str) -> Output {
    let place = Place::new();
    place.write("capture", capture);
    run(&mut place.verbatim(&format!("inspect {options} capture")))
}

/// Checks that `inspect` and `inspect --rc` read all packets, as one connection without violations.
fn is_read(name: &str, dialogue: Dialogue, capture: &[u8]) {
    let shown = format!("{name}, {dialogue:?}");
    let count = dialogue.said().len();
    let output = inspected(capture, "--json");
    assert_eq!(output.code(), 0, "{shown}: {output}");
    assert_eq!(documents(&output).1["accepted"], count, "{shown}: {output}");
    let output = inspected(capture, "--rc --json");
    assert_eq!(output.code(), 0, "{shown}: {output}");
    let (connections, summary) = documents(&output);
    assert_eq!(connections.len(), 1, "{shown}: {output}");
    assert_eq!(summary["of_reliable_connections"], count, "{shown}: {output}");
    assert_eq!(
        (&summary["violations"], &summary["or_lost"]),
        (&0.into(), &0.into()),
        "{shown}: {output}"
    );
}

/// A container: its name, its link type, and the function that wraps an Ethernet frame.
type Form = (&'static str, u32, fn(&[u8]) -> Vec<u8>);

const FORMS: [Form; 12] = [
    ("two VLAN tags", 1, |frame| {
        tagged(frame, &[0x88, 0xA8, 0, 10, 0x81, 0, 0, 11])
    }),
    ("two VLAN tags of one kind", 1, |frame| {
        tagged(frame, &[0x81, 0, 0, 10, 0x81, 0, 0, 11])
    }),
    ("Linux cooked, version 1", 113, |frame| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &frame[ETHERNET - 2..]].concat()
    }),
    ("Linux cooked, version 2", 276, cooked),
    ("raw IP", 101, |frame| frame[ETHERNET..].to_vec()),
    ("VXLAN", 1, |frame| {
        udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], frame].concat())
    }),
    ("Geneve", 1, |frame| {
        udp(6081, &[&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], frame].concat())
    }),
    ("GRE", 1, |frame| {
        ip(47, &[&[0, 0][..], &frame[ETHERNET - 2..]].concat())
    }),
    ("ERSPAN, type II", 1, |frame| {
        ip(
            47,
            &[&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0][..], frame].concat(),
        )
    }),
    ("MPLS", 1, |frame| {
        ethernet([0x88, 0x47], &[&[0, 0x10, 1, 64][..], &frame[ETHERNET..]].concat())
    }),
    ("VXLAN in a cooked capture", 276, |frame| {
        cooked(&udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], frame].concat()))
    }),
    ("Ethernet in ERF", 0, |frame| {
        erf(2, &[&[0, 0][..], frame].concat(), frame.len())
    }),
];

fn cooked(frame: &[u8]) -> Vec<u8> {
    let rest = [0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    [&frame[ETHERNET - 2..ETHERNET], &rest, &frame[ETHERNET..]].concat()
}

fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], tags, &frame[12..]].concat()
}

fn ethernet(ethertype: [u8; 2], rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8][..], &ethertype, rest].concat()
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap().to_be_bytes()
}

fn ip(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = length(20 + rest.len());
    let header = [
        0x45, 0, high, low, 0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2,
    ];
    ethernet([8, 0], &[&header, rest].concat())
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let header = [[0xC3, 0x50], port.to_be_bytes(), length(8 + rest.len()), [0, 0]];
    ip(17, &[&header.concat(), rest].concat())
}

/// Returns an ERF record of type `kind`. `wire` is the packet's length in bytes.
fn erf(kind: u8, bytes: &[u8], wire: usize) -> Vec<u8> {
    let lengths = [length(16 + bytes.len()), [0, 0], length(wire)];
    [&[0, 0, 0, 0, 0, 0, 0, 0x60, kind, 4][..], &lengths.concat(), bytes].concat()
}

#[test]
fn reads_dialogues_in_all_containers() {
    for dialogue in DIALOGUES {
        let plain = frames(&dialogue.said(), &dialogue.networks());
        for (name, link_type, around) in FORMS {
            let around: Vec<Vec<u8>> = plain.iter().map(|frame| around(frame)).collect();
            let capture = if link_type == 0 {
                around.concat()
            } else {
                pcap(link_type, &around)
            };
            is_read(name, dialogue, &capture);
        }
        let lids = [1, 2].map(Lid);
        let native = [
            Network::infiniband(lids[0], lids[1]),
            Network::infiniband(lids[1], lids[0]),
        ];
        let records = frames(&dialogue.said(), &native)
            .into_iter()
            .map(|frame| erf(21, &frame, frame.len()));
        is_read("InfiniBand in ERF", dialogue, &records.collect::<Vec<_>>().concat());
    }
}

/// Returns the numbers of the packets that break `rule`, sorted. `list` is `violations` or `or_lost`.
fn breaking(connections: &[Value], list: &str, rule: &str) -> Vec<u64> {
    let findings = connections
        .iter()
        .flat_map(|connection| connection[list].as_array().unwrap());
    let of_rule = findings.filter(|finding| finding["rule"] == rule);
    let mut numbers: Vec<u64> = of_rule
        .map(|finding| finding["packets"].as_array().unwrap().last().unwrap().as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// A mistake in an end's ICRCs: its name, and the function that changes the correct ICRC.
type Mistake = (&'static str, fn([u8; 4]) -> [u8; 4]);

const MISTAKES: [Mistake; 4] = [
    ("zero", |_| [0; 4]),
    ("bytes reversed", |[a, b, c, d]| [d, c, b, a]),
    ("not inverted", |icrc| icrc.map(|byte| !byte)),
    ("computed over another header", |icrc| icrc.map(|byte| byte ^ 0x3C)),
];

#[test]
fn wrong_icrcs_name_end_and_packets() {
    for dialogue in DIALOGUES {
        let said = dialogue.said();
        for ends in [[true, false], [false, true], [true, true]] {
            for (name, mistake) in MISTAKES {
                let mut frames = frames(&said, &dialogue.networks());
                let mut wrong = Vec::new();
                for (number, (frame, (is_response, _))) in (1..).zip(frames.iter_mut().zip(&said)) {
                    if ends[usize::from(*is_response)] {
                        let icrc = frame.last_chunk_mut::<4>().unwrap();
                        *icrc = mistake(*icrc);
                        wrong.push(number);
                    }
                }
                let output = inspected(&pcap(1, &frames), "--rc --json");
                let shown = format!("{dialogue:?}, {ends:?}, {name}: {output}");
                assert_eq!(output.code(), 1, "{shown}");
                let (connections, summary) = documents(&output);
                assert_eq!(breaking(&connections, "violations", "icrc"), wrong, "{shown}");
                assert_eq!(summary["violations"], wrong.len(), "{shown}");
            }
        }
    }
}

#[test]
fn wrong_first_icrc_is_shown() {
    for dialogue in DIALOGUES {
        let mut frames = frames(&dialogue.said(), &dialogue.networks());
        *frames[0].last_mut().unwrap() ^= 1;
        let output = inspected(&pcap(1, &frames), "--rc --json");
        assert_eq!(output.code(), 4, "{dialogue:?}: {output}");
        let (connections, summary) = documents(&output);
        assert_eq!(breaking(&connections, "or_lost", "icrc"), [1], "{dialogue:?}: {output}");
        assert_eq!(summary["wrong_icrcs_by_end_or_way"], 1, "{dialogue:?}: {output}");
        // The response to the damaged request is reported too, except for a WRITE: its only ACK is for a later packet.
        let answered = breaking(&connections, "or_lost", "damaged-request");
        let is_answered_itself = !matches!(dialogue, Dialogue::Writes);
        assert_eq!(
            answered.len(),
            usize::from(is_answered_itself),
            "{dialogue:?}: {output}"
        );
    }
}

#[test]
fn wrong_msn_of_duplicate_ack_is_blamed() {
    for (dialogue, message) in [(Dialogue::Sends, 1), (Dialogue::Sends, 2), (Dialogue::Writes, 2)] {
        let mut said = dialogue.said();
        let per_message = said.len() / 4;
        let (from, to) = (message * per_message, (message + 1) * per_message);
        let mut repeated = said[from..to].to_vec();
        let last = &mut repeated[per_message - 1].1;
        last.aeth = last.aeth.map(|aeth| aeth.with_msn(aeth.msn() + 1));
        said.splice(to..to, repeated);
        let blamed = (to + per_message) as u64;
        let output = inspected(&pcap(1, &frames(&said, &dialogue.networks())), "--rc --json");
        let shown = format!("{dialogue:?}, message {message}: {output}");
        assert_eq!(output.code(), 1, "{shown}");
        let (connections, _) = documents(&output);
        assert_eq!(connections.len(), 1, "{shown}");
        assert_eq!(breaking(&connections, "violations", "msn"), [blamed], "{shown}");
    }
}
