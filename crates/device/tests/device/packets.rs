//! Tests of routes, versions, methods, traps, performance counters, and arbitrary bytes.

use crate::bench::{Bench, KEY, NONE, OTHER, seconds};
use proptest::prelude::*;
use verbatim_device::{Defect, Device, Profile};
use verbatim_wire::trap::BadMKey;
use verbatim_wire::values::{Hex16, Hex32};
use verbatim_wire::{AttributeId, DrSmp, Layout, Lid, Mad, Method, MgmtClass, Notice, PortCounters, Status};

#[test]
fn response_carries_return_route() {
    let mut bench = Bench::sound();
    bench.port = 2;
    let request = bench.request(Method::GET, AttributeId::PORT_INFO, 0);
    let answer = bench.send(&request).expect("answered");
    let smp = DrSmp::from_bytes(answer.bytes());
    assert!(smp.direction());
    assert_eq!((smp.hop_pointer(), smp.hop_count()), (1, 1));
    assert_eq!((smp.initial_path(1), smp.return_path(1)), (1, 2));
    assert_eq!(answer.method(), Method::GET_RESP);
    assert_eq!(answer.modifier(), request.modifier());
}

#[test]
fn discards_smps_to_forward() {
    let mut bench = Bench::sound();
    let request = bench.request(Method::GET, AttributeId::NODE_INFO, 0);
    let smp = DrSmp::from_bytes(request.bytes());
    for odd in [
        smp.with_hop_count(2),
        smp.with_hop_pointer(0),
        smp.with_hop_pointer(2),
        smp.with_hop_count(64).with_hop_pointer(64),
        smp.with_direction(true),
        smp.with_dr_dlid(Lid(7)),
        smp.with_method(Method::GET_RESP),
    ] {
        assert!(bench.send(&Mad::try_from(odd.bytes()).unwrap()).is_none());
    }
}

#[test]
fn lid_routed_response_goes_to_sender() {
    let mut device = Device::new(Profile::full(), &[]);
    let request = Mad::lid_routed(Method::GET, AttributeId::NODE_INFO, 0);
    device.handle_from(seconds(0), 1, Lid(17), request.bytes());
    assert!(device.poll_transmit().is_none(), "the answer takes its time");
    device.tick(device.poll_at().expect("an answer is under way"));
    let sent = device.poll_transmit().expect("answered");
    assert_eq!((sent.port, sent.slid, sent.dlid), (1, Lid(5), Lid(17)));
    assert_eq!(device.poll_at(), None);
}

#[test]
fn refusals_carry_right_status() {
    let mut bench = Bench::sound();
    let status = |bench: &mut Bench, mad: &Mad| bench.send(mad).map(|answer| answer.status());
    let get = bench.request(Method::GET, AttributeId::NODE_INFO, 0);
    let version = get.with_header(&get.header().with_class_version(2));
    assert_eq!(status(&mut bench, &version), Some(Status::BAD_VERSION));
    let base = get.with_header(&get.header().with_base_version(2));
    assert_eq!(status(&mut bench, &base), None);
    for method in [Method::GET_TABLE, Method::DELETE, Method(0x7F), Method::SEND] {
        let answer = status(&mut bench, &get.with_method(method));
        assert_eq!(answer, Some(Status::METHOD_UNSUPPORTED));
    }
    for silent in [Method::TRAP, Method::REPORT, Method::TRAP_REPRESS] {
        assert_eq!(status(&mut bench, &get.with_method(silent)), None);
    }
    for attribute in [0x12, 0x19, 0x1A, 0x1B, 0x02, 0x30, 0x00, 0xFF55] {
        for method in [Method::GET, Method::SET] {
            let mad = bench.request(method, AttributeId(attribute), 0);
            let refused = Some(Status::METHOD_ATTRIBUTE_UNSUPPORTED);
            assert_eq!(status(&mut bench, &mad), refused);
        }
    }
}

#[test]
fn trap_256_repeats_until_repressed() {
    let mut bench = Bench::sound();
    bench.lock(KEY, 2, 0);
    bench.get(AttributeId::NODE_INFO, 0x0102, OTHER);
    bench.wait(seconds(1));
    let (_, trap) = bench.traps[0];
    assert_eq!((trap.class(), trap.method()), (MgmtClass::SUBN_LID, Method::TRAP));
    let notice: Notice = trap.attribute();
    assert_eq!((notice.trap_number(), notice.issuer_lid()), (256, Lid(5)));
    let details = BadMKey::from_bytes(notice.details());
    assert_eq!((details.m_key(), details.method()), (OTHER, Method::GET));
    assert_eq!(details.attribute(), AttributeId::NODE_INFO);
    assert_eq!((details.modifier(), details.directed()), (Hex32(0x0102), true));
    assert_eq!((details.hop_count(), details.return_path(1)), (1, 1));

    bench.wait(seconds(1));
    assert_eq!(bench.traps.len(), 2, "repeated after a subnet time-out");
    let repress = bench
        .request(Method::TRAP_REPRESS, AttributeId::NOTICE, 0)
        .with_transaction_id(trap.transaction_id());
    bench.send(&repress.with_m_key(KEY));
    bench.wait(seconds(60));
    assert_eq!(bench.traps.len(), 2);
}

#[test]
fn unrepressed_trap_repeats_3_times() {
    let mut bench = Bench::sound();
    bench.lock(KEY, 2, 0);
    bench.get(AttributeId::NODE_INFO, 0, OTHER);
    bench.wait(seconds(60));
    assert_eq!(bench.traps.len(), 4);
    assert_eq!(bench.device.poll_at(), None);
}

#[test]
fn no_trap_without_sm_or_capability() {
    let mut no_sm = Profile::full();
    no_sm.sm_lid = Lid(0);
    for profile in [no_sm, Profile::minimal()] {
        let mut bench = Bench::new(profile, &[]);
        bench.lock(KEY, 2, 0);
        assert!(bench.get(AttributeId::NODE_INFO, 0, OTHER).is_none());
        bench.wait(seconds(60));
        assert!(bench.traps.is_empty());
    }
}

#[test]
fn set_writes_only_selected_counters() {
    let mut bench = Bench::sound();
    let ask = |bench: &mut Bench, method, counters: PortCounters| {
        let mad = Mad::performance(method, AttributeId::PORT_COUNTERS, 0);
        bench.send(&mad.with_data(counters.bytes())).expect("answered")
    };
    let select = PortCounters::default().with_port_select(2);
    let write = select
        .with_counter_select(Hex16(0x8001))
        .with_symbol_error_counter(7)
        .with_port_rcv_errors(9)
        .with_port_rcv_pkts(100);
    ask(&mut bench, Method::SET, write);
    let shown: PortCounters = ask(&mut bench, Method::GET, select).attribute();
    assert_eq!(shown.symbol_error_counter(), 7);
    assert_eq!((shown.port_rcv_errors(), shown.port_rcv_pkts()), (0, 100));
    let none = ask(&mut bench, Method::GET, select.with_port_select(3));
    assert_eq!(none.status(), Status::INVALID_FIELD);
    let own: PortCounters = ask(&mut bench, Method::GET, select.with_port_select(1)).attribute();
    assert!(own.port_rcv_pkts() > own.port_xmit_pkts());
}

#[test]
fn late_response_exceeds_allowed_time() {
    let profile = Profile::full();
    let allowed = profile.resp_time_value.duration() + 2 * profile.subnet_timeout.duration();
    let mut bench = Bench::with(Defect::AnswersLate);
    let request = bench.request(Method::GET, AttributeId::NODE_INFO, 0);
    assert!(bench.send_for(&request, allowed).is_none());
    let sound = Bench::sound().send(&request);
    assert!(sound.is_some());
}

#[test]
fn seed_determines_device() {
    let vary = |seed| Profile::full().vary(seed);
    assert_eq!(vary(7), vary(7));
    assert_ne!(vary(7), vary(8));
    for seed in 0..500 {
        for profile in [Profile::minimal(), Profile::full(), Profile::one_data_vl()] {
            let profile = profile.vary(seed);
            assert!(profile.latency <= profile.resp_time_value.duration());
            assert!(profile.resp_time_value.0 <= 20 && profile.m_key_violations <= 5);
            let mut bench = Bench::new(profile, &[]);
            assert!(bench.port_info(NONE).validate().is_ok());
        }
    }
}

fn any_profile() -> impl Strategy<Value = Profile> {
    (0..3, any::<u64>()).prop_map(|(which, seed)| match which {
        0 => Profile::minimal().vary(seed),
        1 => Profile::full().vary(seed),
        _ => Profile::one_data_vl().vary(seed),
    })
}

/// Generates a MAD with right versions and route, a common method and attribute, and any data.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec![1u8, 2, 2, 2, 7, 5, 0x81, 0x12]);
    let attribute = prop::sample::select(vec![
        0x02u16, 0x10, 0x11, 0x12, 0x14, 0x15, 0x15, 0x16, 0x17, 0x18, 0x20, 0x31,
    ]);
    let class = prop::sample::select(vec![MgmtClass::SUBN_DIRECTED, MgmtClass::SUBN_LID, MgmtClass::PERF]);
    let modifier = prop_oneof![0u32..4, (0u32..6).prop_map(|part| part << 16), any::<u32>()];
    let data = prop::collection::vec(any::<u8>(), 192);
    (method, attribute, class, modifier, any::<bool>(), data).prop_map(
        |(method, attribute, class, modifier, key, data)| {
            let method = Method(method);
            let mut mad = Mad::directed(method, AttributeId(attribute), modifier, &[1]);
            mad.bytes_mut()[1] = class.0;
            mad.bytes_mut()[6] = 1;
            if key {
                mad = mad.with_m_key(KEY);
            }
            mad.with_data(&data).bytes().to_vec()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_get_matching_responses(
        profile in any_profile(),
        mut defects in prop::collection::vec(prop::sample::select(Defect::ALL), 0..3),
        packets in prop::collection::vec(
            (0u8..4, 0u64..2_000_000, prop_oneof![
                plausible(), prop::collection::vec(any::<u8>(), 256), prop::collection::vec(any::<u8>(), 0..600),
            ]),
            1..40,
        ),
    ) {
        // With this defect, the device changes the AttributeModifier, so a response matches no request.
        defects.retain(|defect| *defect != Defect::ResponseModifierOfGuidInfoLost);
        let mut device = Device::new(profile, &defects);
        let mut now = seconds(0);
        let mut asked = Vec::new();
        for (port, micros, bytes) in packets {
            now += core::time::Duration::from_micros(micros);
            device.handle(now, port, &bytes);
            if let Ok(mad) = Mad::try_from(&bytes[..]) {
                asked.push((mad.transaction_id(), mad.attribute_id(), mad.modifier()));
            }
        }
        let mut rounds = 0;
        loop {
            while let Some(sent) = device.poll_transmit() {
                let mad = Mad::from(sent.bytes);
                let printed = format!("{sent:?}");
                prop_assert!(printed.len() > 10);
                if mad.method() == Method::TRAP {
                    continue;
                }
                prop_assert_eq!(mad.method(), Method::GET_RESP);
                let answered = (mad.transaction_id(), mad.attribute_id(), mad.modifier());
                prop_assert!(asked.contains(&answered));
            }
            let Some(at) = device.poll_at() else { break };
            device.tick(at);
            rounds += 1;
            prop_assert!(rounds < 1000, "it comes to rest");
        }
    }
}
