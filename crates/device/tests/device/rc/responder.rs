//! Tests of a conforming responder: valid, invalid, duplicate and missing requests.

use verbatim_device::rc::{Access, AdapterChoices, EventKind, QpState, WcOpcode, WcStatus};
use verbatim_wire::values::Hex64;
use verbatim_wire::{AckTimeout, Mtu, Opcode, Psn, RKey, RnrTimer, Transport};

use super::adapters::{A, MEMORY, Setup, profile};
use super::peer::Peer;

const SEQUENCE: u8 = 0x60;
const INVALID: u8 = 0x61;
const ACCESS: u8 = 0x62;
const OPERATIONAL: u8 = 0x63;
const ACK: u8 = 0x1F;

fn setup() -> Setup {
    Setup {
        timeout: AckTimeout::OFF,
        mtu: Mtu::B256,
        psn: [Psn(100), Psn(200)],
        min_rnr_timer: RnrTimer(14),
        ..Setup::default()
    }
}

fn peer() -> Peer {
    Peer::new(&setup())
}

fn with_choices(change: impl Fn(&mut AdapterChoices)) -> Peer {
    let mut profile = profile(A);
    change(&mut profile.choices);
    Peer::of(profile, &[], &setup())
}

/// Sends a request. Checks the NAK and its PSN, the error state of the queue pair, and the event.
fn refused(peer: &mut Peer, packet: &Transport, syndrome: u8, why: &str) {
    peer.acks();
    peer.put(packet);
    assert_eq!(peer.acks(), [(syndrome, packet.bth.psn().0)], "{why}");
    assert_eq!(peer.state(), QpState::Err, "{why}");
    let kind = match syndrome {
        ACCESS => EventKind::QP_ACCESS_ERR,
        OPERATIONAL => EventKind::QP_FATAL,
        _ => EventKind::QP_REQ_ERR,
    };
    assert_eq!(peer.events.last().unwrap().kind, kind, "{why}");
}

#[test]
fn invalid_requests_get_right_nak() {
    let full = [7; 256];
    type Make = fn(&Peer) -> Transport;
    let cases: &[(&str, u8, Make)] = &[
        ("R_Key that does not exist", ACCESS, |p| {
            let mut packet = p.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 4, &[1; 4]);
            packet.reth = packet.reth.map(|reth| reth.with_r_key(RKey(3)));
            packet
        }),
        ("WRITE behind the end", ACCESS, |p| {
            p.ask_rdma(Opcode::RC_WRITE_ONLY, 0, MEMORY - 3, 4, &[1; 4])
        }),
        ("READ before the beginning", ACCESS, |p| {
            let mut packet = p.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 4, &[]);
            packet.reth = packet.reth.map(|reth| reth.with_va(Hex64(reth.va().0 - 1)));
            packet
        }),
        ("READ up to the end of all addresses", ACCESS, |p| {
            let mut packet = p.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 4, &[]);
            packet.reth = packet.reth.map(|reth| reth.with_va(Hex64(u64::MAX)));
            packet
        }),
        ("atomic on an odd address", INVALID, |p| {
            p.ask_atomic(Opcode::RC_FETCH_ADD, 0, 4, 1, 0)
        }),
        ("atomic with payload", INVALID, |p| Transport {
            payload: vec![1; 4],
            ..p.ask_atomic(Opcode::RC_FETCH_ADD, 0, 8, 1, 0)
        }),
        ("Middle without First", INVALID, |p| {
            p.ask(Opcode::RC_SEND_MIDDLE, 0, &[7; 256])
        }),
        ("Last without First", INVALID, |p| {
            p.ask(Opcode::RC_WRITE_LAST, 0, &[7; 4])
        }),
        ("First that is short", INVALID, |p| {
            p.ask(Opcode::RC_SEND_FIRST, 0, &[7; 252])
        }),
        ("Only that is long", INVALID, |p| {
            p.ask(Opcode::RC_SEND_ONLY, 0, &[7; 257])
        }),
        ("DMALen above the data", INVALID, |p| {
            p.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 5, &[1; 4])
        }),
        ("DMALen below the data", INVALID, |p| {
            p.ask_rdma(Opcode::RC_WRITE_ONLY, 0, 0, 3, &[1; 4])
        }),
        ("DMALen above 2^31", INVALID, |p| {
            p.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, (1 << 31) + 1, &[])
        }),
        ("SEND longer than the receive", INVALID, |p| {
            p.ask(Opcode::RC_SEND_ONLY, 0, &[7; 101])
        }),
        ("reserved opcode", INVALID, |p| p.ask(Opcode(0x15), 0, &[])),
        ("opcode that it does not have", INVALID, |p| {
            p.ask(Opcode(0x1F), 0, &[1; 4])
        }),
    ];
    for (why, syndrome, make) in cases {
        let mut peer = peer();
        peer.post_receive(1, 0, 100);
        let packet = make(&peer);
        refused(&mut peer, &packet, *syndrome, why);
    }
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::RC_SEND_FIRST, Opcode::RC_READ_REQUEST] {
        let mut peer = peer();
        peer.post_receive(1, 0, 1000);
        peer.put(&peer.ask(Opcode::RC_SEND_FIRST, 0, &full));
        let mut packet = peer.ask_rdma(
            opcode,
            1,
            0,
            4,
            if opcode == Opcode::RC_SEND_FIRST { &full } else { &[] },
        );
        if opcode != Opcode::RC_READ_REQUEST {
            packet.reth = None;
        }
        refused(&mut peer, &packet, INVALID, "a message within a message");
        assert_eq!(peer.completions[0].status, WcStatus::REM_INV_REQ_ERR);
    }
    let mut peer = peer();
    peer.put(&peer.ask_rdma(Opcode::RC_WRITE_FIRST, 0, 0, 300, &full));
    let last = peer.ask(Opcode::RC_WRITE_LAST, 1, &full[..43]);
    refused(&mut peer, &last, INVALID, "43 of 44 bytes");
}

trait Ask {
    fn at(&mut self, packet: &Transport) -> Vec<(u8, u32)>;
}

impl Ask for Peer {
    /// Sends a packet. Returns the syndrome and PSN of each response with an AETH.
    fn at(&mut self, packet: &Transport) -> Vec<(u8, u32)> {
        self.acks();
        self.put(packet);
        self.acks()
    }
}

#[test]
fn qp_rights_come_before_region_rights() {
    let ask = |peer: &Peer, opcode: Opcode| match opcode {
        Opcode::RC_WRITE_ONLY => peer.ask_rdma(opcode, 0, 0, 8, &[1; 8]),
        Opcode::RC_READ_REQUEST => peer.ask_rdma(opcode, 0, 0, 8, &[]),
        _ => peer.ask_atomic(opcode, 0, 0, 1, 1),
    };
    for opcode in [
        Opcode::RC_WRITE_ONLY,
        Opcode::RC_READ_REQUEST,
        Opcode::RC_COMPARE_SWAP,
        Opcode::RC_FETCH_ADD,
    ] {
        let mut peer = Peer::new(&Setup {
            access: Access::LOCAL,
            ..setup()
        });
        let packet = ask(&peer, opcode);
        refused(&mut peer, &packet, INVALID, "the queue pair lacks the right");

        let mut peer = Peer::new(&setup());
        peer.memory = peer.adapter.register(64, Access::LOCAL).unwrap();
        let packet = ask(&peer, opcode);
        refused(&mut peer, &packet, ACCESS, "the region lacks the right");
    }
}

#[test]
fn read_needs_responder_resources() {
    let mut peer = Peer::new(&Setup {
        max_dest_rd_atomic: 0,
        ..setup()
    });
    let packet = peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 8, &[]);
    refused(&mut peer, &packet, INVALID, "max_dest_rd_atomic is 0");
}

#[test]
fn read_beyond_resources_follows_choice() {
    // The default max_dest_rd_atomic is 4.
    let naks = |peer: &mut Peer| peer.acks().iter().filter(|(syndrome, _)| *syndrome == INVALID).count();
    for (refuses, at_once, expected) in [(true, true, 1), (true, false, 0), (false, true, 0)] {
        let mut peer = with_choices(|choices| choices.refuses_beyond_resources = refuses);
        for psn in 0..5 {
            let read = peer.ask_rdma(Opcode::RC_READ_REQUEST, psn, 0, 8, &[]);
            peer.send(&read);
            if !at_once {
                peer.moment();
            }
        }
        peer.moment();
        assert_eq!(naks(&mut peer), expected, "refuses {refuses}, at once {at_once}");
    }
}

#[test]
fn zero_length_r_key_is_not_checked() {
    for opcode in [Opcode::RC_WRITE_ONLY, Opcode::RC_READ_REQUEST] {
        let mut peer = peer();
        let mut packet = peer.ask_rdma(opcode, 0, 0, 0, &[]);
        packet.reth = packet.reth.map(|reth| reth.with_r_key(RKey(0)));
        assert_eq!(peer.at(&packet), [(ACK, 200)]);
    }
}

#[test]
fn deregistered_receive_is_operational_nak() {
    let mut peer = peer();
    peer.post_receive(1, 0, 100);
    peer.adapter.deregister(peer.memory.handle).unwrap();
    let packet = peer.ask(Opcode::RC_SEND_ONLY, 0, &[1; 4]);
    refused(&mut peer, &packet, OPERATIONAL, "the receive's memory is gone");
    assert_eq!(peer.completions[0].status, WcStatus::LOC_PROT_ERR);
}

#[test]
fn overlong_send_fails_its_receive() {
    let mut peer = peer();
    for wr_id in 1..3 {
        peer.post_receive(wr_id, 0, 300);
    }
    peer.put(&peer.ask(Opcode::RC_SEND_FIRST, 0, &[1; 256]));
    peer.put(&peer.ask(Opcode::RC_SEND_LAST, 1, &[1; 45]));
    let done: Vec<_> = peer.completions.iter().map(|done| (done.wr_id, done.status)).collect();
    assert_eq!(done, [(1, WcStatus::LOC_LEN_ERR), (2, WcStatus::WR_FLUSH_ERR)]);
}

#[test]
fn gap_gets_one_nak_until_filled() {
    let mut peer = peer();
    for wr_id in 0..5 {
        peer.post_receive(wr_id, 0, 100);
    }
    let ask = |peer: &Peer, psn: u32| peer.ask(Opcode::RC_SEND_ONLY, psn, &[psn as u8; 10]);
    for (psn, answers) in [
        (0, vec![(ACK, 200)]),
        (2, vec![(SEQUENCE, 201)]),
        (3, vec![]),
        (0, vec![(ACK, 200)]),
        (3, vec![]),
        (1, vec![(ACK, 201)]),
        (3, vec![(SEQUENCE, 202)]),
        (2, vec![(ACK, 202)]),
    ] {
        let packet = ask(&peer, psn);
        assert_eq!(peer.at(&packet), answers, "PSN {psn}");
    }
    assert_eq!(peer.completions.len(), 3);
}

#[test]
fn psn_regions_split_at_half_of_psns() {
    let mut peer = peer();
    peer.post_receive(1, 0, 100);
    let half = Psn::COUNT / 2;
    let far_ahead = peer.ask(Opcode::RC_SEND_ONLY, half - 1, &[1; 4]);
    assert_eq!(peer.at(&far_ahead), [(SEQUENCE, 200)]);
    let far_behind = peer.ask(Opcode::RC_SEND_ONLY, half, &[1; 4]);
    assert_eq!(peer.at(&far_behind), [(ACK, 199)], "a duplicate, 2^23 behind");
    assert!(peer.completions.is_empty());
}

#[test]
fn rnr_nak_carries_psn_and_timer() {
    let mut peer = peer();
    let first = peer.ask(Opcode::RC_SEND_FIRST, 0, &[1; 256]);
    let last = peer.ask(Opcode::RC_SEND_LAST, 1, &[2; 5]);
    assert_eq!(peer.at(&first), [(0x20 | 14, 200)]);
    assert_eq!(peer.seen.last().unwrap().1.aeth.unwrap().msn(), 0);
    assert_eq!(peer.at(&last), []);
    assert_eq!(peer.at(&first), [(0x20 | 14, 200)], "each time that it comes");
    peer.post_receive(1, 0, 1000);
    assert_eq!(peer.at(&first), [(ACK, 200)]);
    assert_eq!(peer.at(&last), [(ACK, 201)]);
    assert_eq!(peer.completions[0].byte_len, 261);
}

#[test]
fn write_needs_receive_for_immediate() {
    for writes in [false, true] {
        let mut peer = with_choices(|choices| choices.writes_before_rnr_nak = writes);
        let first = peer.ask_rdma(Opcode::RC_WRITE_FIRST, 0, 1000, 260, &[0xAA; 256]);
        let last = peer.ask(Opcode::RC_WRITE_LAST_IMM, 1, &[0xBB; 4]);
        assert_eq!(peer.at(&first), [(ACK, 200)]);
        assert_eq!(peer.at(&last), [(0x20 | 14, 201)]);
        assert_eq!(peer.bytes(1256, 1)[0] == 0xBB, writes);
        peer.post_receive(1, 0, 0);
        assert_eq!(peer.at(&last), [(ACK, 201)]);
        assert_eq!(peer.bytes(1000, 260), [[0xAA; 256].as_slice(), &[0xBB; 4]].concat());
        let got = peer.completions[0];
        assert_eq!(
            (got.opcode, got.byte_len, got.imm),
            (WcOpcode::RECV_RDMA_WITH_IMM, 260, Some(0x0A0B_0C0D))
        );
    }
}

#[test]
fn duplicates_are_acked_not_executed() {
    let mut peer = peer();
    for wr_id in 0..3 {
        peer.post_receive(wr_id, 0, 100);
    }
    let send = peer.ask(Opcode::RC_SEND_ONLY, 0, &[1; 4]);
    let write = peer.ask_rdma(Opcode::RC_WRITE_ONLY, 1, 1000, 4, &[2; 4]);
    peer.put(&send);
    peer.put(&write);
    peer.adapter.write_memory(peer.memory.handle, 1000, &[9; 4]).unwrap();
    assert_eq!(peer.at(&send), [(ACK, 201)]);
    assert_eq!(peer.at(&write), [(ACK, 201)]);
    assert_eq!(peer.bytes(1000, 4), [9; 4]);
    assert_eq!(peer.completions.len(), 1);
    let mut quiet = send.clone();
    quiet.bth = quiet.bth.with_ack_request(false);
    assert_eq!(peer.at(&quiet), []);
}

#[test]
fn duplicate_read_returns_current_data() {
    let mut peer = peer();
    let read = peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, 1000, 600, &[]);
    peer.put(&read);
    peer.adapter.write_memory(peer.memory.handle, 1000, &[9; 600]).unwrap();
    peer.take();
    peer.put(&read);
    let again = peer.take();
    assert_eq!(again.iter().map(|p| p.bth.psn().0).collect::<Vec<_>>(), [200, 201, 202]);
    assert!(again.iter().all(|p| p.payload.iter().all(|&byte| byte == 9)));
    peer.put(&peer.ask_rdma(Opcode::RC_READ_REQUEST, 1, 1256, 344, &[]));
    let tail = peer.take();
    let shown: Vec<_> = tail
        .iter()
        .map(|p| (p.bth.opcode(), p.bth.psn().0, p.payload.len()))
        .collect();
    assert_eq!(
        shown,
        [
            (Opcode::RC_READ_RESPONSE_FIRST, 201, 256),
            (Opcode::RC_READ_RESPONSE_LAST, 202, 88)
        ]
    );
    assert_eq!(peer.status().rq_psn, Psn(203));
    // The responder reports no error in a duplicate.
    let mut odd = read.clone();
    odd.reth = odd.reth.map(|reth| reth.with_r_key(RKey(1)));
    peer.put(&odd);
    assert!(peer.take().is_empty());
    assert_eq!(peer.state(), QpState::Rts);
}

#[test]
fn duplicate_atomic_returns_stored_result() {
    let mut peer = Peer::new(&Setup {
        max_dest_rd_atomic: 2,
        ..setup()
    });
    peer.set_number(0, 5);
    let originals = |peer: &mut Peer| -> Vec<u64> {
        peer.take()
            .iter()
            .filter_map(|p| Some(p.atomic_ack?.original().0))
            .collect()
    };
    let adds: Vec<_> = (0..3)
        .map(|psn| peer.ask_atomic(Opcode::RC_FETCH_ADD, psn, 0, 10, 0))
        .collect();
    for add in &adds {
        peer.put(add);
    }
    assert_eq!(originals(&mut peer), [5, 15, 25]);
    peer.put(&adds[2]);
    peer.put(&adds[1]);
    assert_eq!(originals(&mut peer), [25, 15]);
    peer.put(&adds[0]);
    assert!(peer.take().is_empty(), "no longer stored");
    assert_eq!(peer.number(0), 35);
}

#[test]
fn credits_do_not_exceed_receives() {
    let mut peer = with_choices(|choices| choices.advertises_credits = true);
    for posted in 0..20u32 {
        let write = peer.ask_rdma(Opcode::RC_WRITE_ONLY, posted, 0, 1, &[1]);
        let answers = peer.at(&write);
        let credits = verbatim_wire::CreditCode(answers[0].0).credits().unwrap();
        assert!(
            credits <= posted && 3 * credits + 3 >= 2 * posted,
            "{credits} of {posted}"
        );
        peer.post_receive(posted.into(), 0, 10);
    }
}

#[test]
fn delayed_ack_covers_later_requests() {
    let mut peer = with_choices(|choices| choices.ack_delay = std::time::Duration::from_micros(5));
    for psn in 0..3 {
        let write = peer.ask_rdma(Opcode::RC_WRITE_ONLY, psn, 0, 1, &[1]);
        peer.send(&write);
    }
    peer.moment();
    assert_eq!(peer.acks(), [(ACK, 202)]);
    assert_eq!(peer.seen.last().unwrap().1.aeth.unwrap().msn(), 3);
}

#[test]
fn responses_follow_request_order() {
    let mut peer = peer();
    peer.post_receive(1, 0, 100);
    let packets = [
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 0, 0, 600, &[]),
        peer.ask_rdma(Opcode::RC_READ_REQUEST, 3, 0, 100, &[]),
        peer.ask_atomic(Opcode::RC_COMPARE_SWAP, 4, 0, 1, 1),
        peer.ask(Opcode::RC_SEND_ONLY, 5, &[1; 4]),
    ];
    for packet in &packets {
        peer.send(packet);
    }
    peer.moment();
    let psns: Vec<_> = peer.take().iter().map(|p| p.bth.psn().0).collect();
    assert_eq!(psns, [200, 201, 202, 203, 204, 205]);
}
