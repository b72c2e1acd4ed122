//! Feeds arbitrary frames, verbs and times to the adapter model. The model must not panic. It must send only frames
//! with a valid ICRC and BTH, and each tick must run all expired timers.
#![no_main]

use core::time::Duration;
use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use verbatim_device::rc::{
    Access, Adapter, AdapterProfile, AddressVector, Gid, Operation, QpAttributes, QpState, ReceiveRequest, SendRequest,
    Service, Slice,
};
use verbatim_wire::packet::packet;
use verbatim_wire::values::Hex64;
use verbatim_wire::{
    AckTimeout, Aeth, Bth, Layout, MacAddress, Medium, Mtu, Network, Opcode, PKey, Packet, Psn, Qpn, Reth, RnrTimer,
    Station, Syndrome, Transport, mend_icrc,
};

const OPERATIONS: [Operation; 8] = [
    Operation::Send,
    Operation::SendImm,
    Operation::SendInvalidate,
    Operation::Write,
    Operation::WriteImm,
    Operation::Read,
    Operation::CompareSwap,
    Operation::FetchAdd,
];

fn station(last: u8, v6: bool) -> Station {
    let ip = if v6 {
        IpAddr::from([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
    } else {
        IpAddr::from([10, 0, 0, last])
    };
    Station {
        mac: MacAddress([2, 0, 0, 0, 0, last]),
        ip,
        udp_port: 0xC000,
    }
}

fuzz_target!(|input: (u8, bool, Vec<(u8, u8, u16, Vec<u8>)>)| {
    let (seed, v6, steps) = input;
    let (own, peer) = (station(1, v6), station(2, v6));
    let profile = AdapterProfile::new(own.mac, &[own.ip]).vary(seed.into());
    let mut adapter = Adapter::new(profile, &[]);
    let memory = adapter.register(8192, Access::ALL).expect("there is room");
    let (qp, qpn) = adapter.create_qp(Service::Rc, 16, 16).expect("there is room");
    let init = QpAttributes {
        pkey_index: Some(0),
        port: Some(1),
        access: Some(Access::ALL),
        ..QpAttributes::default()
    };
    let rtr = QpAttributes {
        path_mtu: Some(Mtu::B256),
        dest_qpn: Some(Qpn(7)),
        rq_psn: Some(Psn(0xFF_FFF0)),
        max_dest_rd_atomic: Some(2),
        min_rnr_timer: Some(RnrTimer(1)),
        address: Some(AddressVector {
            dgid: Some(Gid::from(peer.ip)),
            ..AddressVector::default()
        }),
        ..QpAttributes::default()
    };
    let rts = QpAttributes {
        sq_psn: Some(Psn(0xFF_FFF8)),
        timeout: Some(AckTimeout(8)),
        retry_cnt: Some(3),
        rnr_retry: Some(3),
        max_rd_atomic: Some(2),
        ..QpAttributes::default()
    };
    for (state, attributes) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        adapter.modify(qp, state, &attributes).expect("a step that there is");
    }
    let mut now = Duration::ZERO;
    for (kind, which, number, bytes) in steps.into_iter().take(64) {
        let slice = Slice {
            memory: memory.handle,
            offset: u32::from(number),
            length: bytes.len() as u32 * 8,
        };
        match kind % 8 {
            0 => adapter.handle(now, &bytes),
            1 => now += Duration::from_micros(number.into()),
            2 => {
                let operation = OPERATIONS[usize::from(which) % OPERATIONS.len()];
                let request = SendRequest::new(1, operation, slice).at(memory.address, memory.r_key);
                let _ = adapter.post_send(now, qp, &request);
            }
            3 => {
                let _ = adapter.post_receive(now, qp, &ReceiveRequest { wr_id: 2, local: slice });
            }
            _ => {
                // Make a packet with a valid ICRC and a PSN near the expected PSNs. Often the packet has the extended
                // header of its opcode.
                let from = if kind & 8 == 0 { 0xFF_FFF0 } else { 0xFF_FFF8 };
                let bth = Bth::default()
                    .with_opcode(Opcode(which & 0x1F))
                    .with_p_key(PKey(0xFFFF))
                    .with_dest_qp(qpn)
                    .with_ack_request(kind & 16 != 0)
                    .with_psn(Psn::new(from + u32::from(number & 0x1F)));
                let headers = bth.opcode().headers();
                let reth = Reth::default()
                    .with_va(Hex64(memory.address + u64::from(number >> 4)))
                    .with_r_key(memory.r_key)
                    .with_dma_len(u32::from(number >> 5));
                let transport = Transport {
                    bth,
                    reth: headers.reth().then_some(reth),
                    aeth: headers
                        .aeth()
                        .then(|| Aeth::default().with_syndrome(Syndrome((number >> 8) as u8))),
                    payload: bytes,
                    ..Transport::default()
                };
                let mut frame = packet(&Network::roce_v2(&peer, &own), &transport);
                let _ = mend_icrc(Medium::Ethernet, &mut frame);
                adapter.handle(now, &frame);
            }
        }
        while let Some(at) = adapter.poll_at().filter(|&at| at <= now) {
            adapter.tick(at);
            assert!(adapter.poll_at().is_none_or(|next| next > at), "what was due is done");
        }
        while let Some(frame) = adapter.poll_transmit() {
            if let Ok(sent) = Packet::parse(Medium::Ethernet, &frame) {
                assert!(sent.icrc_is_right());
                assert!(sent.bth().validate().is_ok());
            }
        }
        while adapter.poll_completion().is_some() {}
        while adapter.poll_async().is_some() {}
    }
});
