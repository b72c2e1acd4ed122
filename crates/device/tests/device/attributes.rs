//! Tests of the conforming device's attributes: reported, stored and refused values.

use crate::bench::{Bench, KEY, NONE, quiet, seconds};
use verbatim_device::{Choices, CounterWrite, Profile, Unassigned};
use verbatim_wire::values::{Hex16, NodeType};
use verbatim_wire::{
    AttributeId, Guid, GuidInfo, Layout, Lid, LinkWidths, Mad, Method, Mtu, NodeDescription, NodeInfo, PKey, PKeyTable,
    PhysState, PortCounters, PortInfo, PortState, RespTime, SlToVlMappingTable, Status, VlArbitrationTable, VlCap,
};

fn status(bench: &mut Bench, attribute: AttributeId, modifier: u32) -> Status {
    bench.get(attribute, modifier, NONE).expect("answered").status()
}

/// Returns a part of VLArbitrationTable whose first `count` entries are distinct.
fn part(count: usize) -> VlArbitrationTable {
    (0..count).fold(VlArbitrationTable::default(), |table, entry| {
        table
            .with_vl(entry, entry as u8 % 8)
            .with_weight(entry, 255 - entry as u8)
    })
}

#[test]
fn node_info_differs_only_in_port_fields() {
    let mut bench = Bench::sound();
    let info = |bench: &mut Bench| -> NodeInfo {
        let answer = bench.get(AttributeId::NODE_INFO, 0, NONE);
        answer.expect("answered").attribute()
    };
    let first = info(&mut bench);
    bench.port = 2;
    let second = info(&mut bench);
    assert_eq!(first.node_type(), NodeType::CHANNEL_ADAPTER);
    assert_eq!((first.local_port_num(), second.local_port_num()), (1, 2));
    assert_ne!(first.port_guid(), second.port_guid());
    assert_eq!(first, second.with_local_port_num(1).with_port_guid(first.port_guid()));
    assert!(first.validate().is_ok());
}

#[test]
fn description_set_needs_capability() {
    let refused = Some(Status::METHOD_ATTRIBUTE_UNSUPPORTED);
    let text = NodeDescription::of("mine");
    for (profile, allowed) in [(Profile::minimal(), false), (Profile::full(), true)] {
        let mut bench = Bench::new(profile, &[]);
        let answer = bench.set(0, NONE, &NodeInfo::default());
        assert_eq!(answer.map(|mad| mad.status()), refused);
        let answer = bench.set(0, NONE, &text).expect("answered");
        assert_eq!(answer.status() == Status::OK, allowed);
        let now = bench.get(AttributeId::NODE_DESCRIPTION, 0, NONE);
        assert_eq!(now.unwrap().attribute::<NodeDescription>() == text, allowed);
    }
}

#[test]
fn only_guid_0_is_read_only() {
    let mut bench = Bench::sound();
    let block = (0..8).fold(GuidInfo::default(), |b, i| b.with_guid(i, Guid(i as u64 + 1)));
    let own = bench.get(AttributeId::GUID_INFO, 0, NONE).unwrap();
    let own = own.attribute::<GuidInfo>().guid(0);
    let shown: GuidInfo = bench.set(0, NONE, &block).unwrap().attribute();
    assert_eq!(shown, block.with_guid(0, own));
    let shown: GuidInfo = bench.set(3, NONE, &block).unwrap().attribute();
    assert_eq!(shown, block);
    for beyond in [4, 32, u32::MAX] {
        let refused = status(&mut bench, AttributeId::GUID_INFO, beyond);
        assert_eq!(refused, Status::INVALID_FIELD);
    }
}

#[test]
fn p_keys_and_vl_mapping_are_stored() {
    let mut bench = Bench::sound();
    let keys = (0..32).fold(PKeyTable::default(), |t, i| t.with_p_key(i, PKey(0x8000 | i as u16)));
    bench.set(1, NONE, &keys).unwrap();
    let shown = bench.get(AttributeId::P_KEY_TABLE, 1, NONE).unwrap();
    assert_eq!(shown.attribute::<PKeyTable>(), keys);
    let beyond = status(&mut bench, AttributeId::P_KEY_TABLE, 2);
    assert_eq!(beyond, Status::INVALID_FIELD);
    let map = (0..16).fold(SlToVlMappingTable::default(), |t, i| t.with_vl(i, i as u8 / 2));
    bench.set(0, NONE, &map).unwrap();
    let shown = bench.get(AttributeId::SL_TO_VL, 0, NONE).unwrap();
    assert_eq!(shown.attribute::<SlToVlMappingTable>(), map);
}

#[test]
fn arbitration_parts_are_independent() {
    let mut bench = Bench::sound();
    for number in 1..=4u32 {
        let table = part(32).with_weight(0, number as u8);
        let answer = bench.set(number << 16, NONE, &table).unwrap();
        assert_eq!(answer.status(), Status::OK);
        assert_eq!(answer.attribute::<VlArbitrationTable>(), table);
    }
    for number in 1..=4u32 {
        let shown = bench.get(AttributeId::VL_ARBITRATION, number << 16, NONE);
        let shown: VlArbitrationTable = shown.unwrap().attribute();
        assert_eq!(shown, part(32).with_weight(0, number as u8));
    }
}

#[test]
fn rejects_other_arbitration_parts() {
    let mut bench = Bench::sound();
    let legal = |bench: &mut Bench| -> Vec<_> {
        (1..=4)
            .map(|n| bench.get(AttributeId::VL_ARBITRATION, n << 16, NONE))
            .map(|mad| {
                *mad.unwrap()
                    .attribute::<VlArbitrationTable>()
                    .bytes()
                    .first_chunk::<64>()
                    .unwrap()
            })
            .collect()
    };
    let before = legal(&mut bench);
    for number in (0..=0xFFFFu32).filter(|n| !(1..=4).contains(n)) {
        let refused = status(&mut bench, AttributeId::VL_ARBITRATION, number << 16);
        assert_eq!(refused, Status::INVALID_FIELD, "part {number}");
        let answer = bench.set(number << 16, NONE, &part(32)).unwrap();
        assert_eq!(answer.status(), Status::INVALID_FIELD, "part {number}");
    }
    assert_eq!(legal(&mut bench), before);
}

#[test]
fn entries_beyond_capacity_follow_choice() {
    for kept in [false, true] {
        for refused in [false, true] {
            let mut profile = Profile::full();
            profile.vl_arbitration_low_cap = 8;
            profile.choices = Choices {
                entries_beyond_capacity_kept: kept,
                part_beyond_capacity_refused: refused,
                ..Choices::default()
            };
            let mut bench = Bench::new(profile, &[]);
            bench.set(1 << 16, NONE, &part(32)).unwrap();
            let beyond = bench.set(2 << 16, NONE, &part(32)).unwrap();
            assert_eq!(beyond.status() == Status::INVALID_FIELD, refused);
            let shown = bench.get(AttributeId::VL_ARBITRATION, 1 << 16, NONE);
            let shown: VlArbitrationTable = shown.unwrap().attribute();
            assert_eq!(shown, part(if kept { 32 } else { 8 }));
        }
    }
}

#[test]
fn foreign_vls_follow_choice() {
    for refused in [false, true] {
        let mut profile = Profile::minimal();
        profile.choices.foreign_vls_refused = refused;
        let mut bench = Bench::new(profile, &[]);
        let answer = bench.set(1 << 16, NONE, &part(8)).unwrap();
        let shown = bench.get(AttributeId::VL_ARBITRATION, 1 << 16, NONE);
        let stored = shown.unwrap().attribute::<VlArbitrationTable>() == part(8);
        assert_eq!((answer.status() == Status::OK, stored), (!refused, !refused));
    }
}

#[test]
fn one_data_vl_lacks_optional_tables() {
    for combination in [false, true] {
        let mut profile = Profile::one_data_vl();
        profile.choices.absent_attribute_as_combination = combination;
        let expected = Status(if combination { 0x0C } else { 0x08 });
        let mut bench = Bench::new(profile, &[]);
        for attribute in [AttributeId::VL_ARBITRATION, AttributeId::SL_TO_VL] {
            assert_eq!(status(&mut bench, attribute, 1 << 16), expected);
        }
    }
}

#[test]
fn set_changes_only_read_write_fields() {
    let mut bench = Bench::sound();
    let before = bench.port_info(NONE);
    let wanted = quiet(&before)
        .with_local_phy_errors(3)
        .with_overrun_errors(4)
        .with_subnet_timeout(verbatim_wire::SubnetTimeout(9))
        .with_vl_high_limit(77)
        .with_lmc(2)
        .with_neighbor_mtu(Mtu::B512)
        .with_operational_vls(VlCap::VL0_3)
        .with_link_width_enabled(LinkWidths(1))
        .with_master_sm_lid(Lid(9))
        .with_client_reregister(true);
    let read_only = wanted
        .with_capability_mask(verbatim_wire::values::CapabilityMask(!0))
        .with_vl_cap(VlCap(5))
        .with_mtu_cap(Mtu(1))
        .with_guid_cap(99)
        .with_local_port_num(7)
        .with_diag_code(Hex16(5))
        .with_vl_arbitration_low_cap(1)
        .with_hoq_life(5)
        .with_partition_enforcement_inbound(true)
        .with_resp_time_value(RespTime(1));
    let answer: PortInfo = bench.set(0, NONE, &read_only).unwrap().attribute();
    let after = bench.port_info(NONE);
    assert!(answer.client_reregister() && !after.client_reregister());
    assert_eq!(answer.with_client_reregister(false), after);
    let expected = wanted
        .with_port_state(before.port_state())
        .with_port_physical_state(before.port_physical_state())
        .with_link_down_default_state(before.link_down_default_state())
        .with_link_speed_enabled(before.link_speed_enabled())
        .with_link_speed_ext_enabled(before.link_speed_ext_enabled())
        .with_m_key_violations(before.m_key_violations())
        .with_p_key_violations(before.p_key_violations())
        .with_q_key_violations(before.q_key_violations())
        .with_client_reregister(false);
    assert_eq!(after.to_string(), expected.to_string());
    assert!(after.validate().is_ok());
}

#[test]
fn rejects_illegal_port_info_values() {
    for nothing in [false, true] {
        let mut profile = Profile::full();
        profile.choices.illegal_set_applies_nothing = nothing;
        let mut bench = Bench::new(profile, &[]);
        let before = bench.port_info(NONE);
        let base = quiet(&before).with_overrun_errors(before.overrun_errors() ^ 1);
        for illegal in [
            base.with_lid(Lid(0)),
            base.with_lid(Lid(0xC000)),
            base.with_master_sm_lid(Lid(0xFFFF)),
            base.with_neighbor_mtu(Mtu(0)),
            base.with_neighbor_mtu(Mtu(6)),
            base.with_operational_vls(VlCap(5)),
            base.with_link_width_enabled(LinkWidths(0x20)),
            base.with_link_down_default_state(verbatim_wire::LinkDownDefault(3)),
            base.with_port_state(PortState(5)),
            base.with_port_state(PortState::ARMED)
                .with_port_physical_state(PhysState::POLLING),
            base.with_port_physical_state(PhysState::LINK_UP),
        ] {
            let answer = bench.set(0, NONE, &illegal).unwrap();
            assert_eq!(answer.status(), Status::INVALID_FIELD);
            let after = bench.port_info(NONE);
            let applied = after.overrun_errors() != before.overrun_errors();
            assert_eq!(applied, !nothing);
            assert_eq!(after.with_overrun_errors(before.overrun_errors()), before);
            bench.set(0, NONE, &quiet(&before));
        }
    }
}

#[test]
fn set_without_lid_follows_choice() {
    for (choice, status, applied) in [
        (Unassigned::Obeyed, Status::OK, 2),
        (Unassigned::RefusedInPart, Status::INVALID_FIELD, 2),
        (Unassigned::Refused, Status::INVALID_FIELD, 8),
    ] {
        let mut profile = Profile::minimal();
        profile.choices.unassigned = choice;
        profile.choices.illegal_set_applies_nothing = true;
        let mut bench = Bench::new(profile, &[]);
        let wanted = quiet(&bench.port_info(NONE)).with_overrun_errors(2);
        let answer = bench.set(0, NONE, &wanted).unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(bench.port_info(NONE).overrun_errors(), applied);
        // With a LID and a MasterSMLID, the Set is legal.
        let assigned = wanted.with_lid(Lid(5)).with_master_sm_lid(Lid(1));
        assert_eq!(bench.set(0, NONE, &assigned).unwrap().status(), Status::OK);
        assert_eq!(bench.port_info(NONE).overrun_errors(), 2);
    }
}

#[test]
fn busy_requests_follow_choice() {
    for done in [false, true] {
        let mut profile = Profile::full();
        (profile.choices.busy, profile.choices.busy_and_done) = (4, done);
        let mut bench = Bench::new(profile, &[]);
        let mut sets = [(0, 0); 2];
        for entry in 0..160 {
            let table = PKeyTable::default().with_p_key(1, PKey(entry + 1));
            let is_busy = bench.set(0, NONE, &table).unwrap().status() == Status::BUSY;
            let shown = loop {
                let answer = bench.get(AttributeId::P_KEY_TABLE, 0, NONE).unwrap();
                if answer.status() == Status::OK {
                    break answer.attribute::<PKeyTable>().p_key(1);
                }
                assert_eq!(answer.status(), Status::BUSY);
            };
            let (count, stored) = &mut sets[usize::from(is_busy)];
            *count += 1;
            *stored += u32::from(shown == PKey(entry + 1));
        }
        let [(answered, stored), (busy, stored_all_the_same)] = sets;
        assert!((20..60).contains(&busy), "{busy} of 160");
        assert_eq!(stored, answered);
        assert_eq!(stored_all_the_same, if done { busy } else { 0 });
    }
}

#[test]
fn other_ports_port_info_is_read_only() {
    let mut bench = Bench::sound();
    let own = bench.port_info(NONE);
    let by_number = bench.get(AttributeId::PORT_INFO, 1, NONE).unwrap();
    assert_eq!(by_number.attribute::<PortInfo>(), own);
    let other: PortInfo = bench.get(AttributeId::PORT_INFO, 2, NONE).unwrap().attribute();
    assert_ne!(other.lid(), own.lid());
    assert_eq!(other.local_port_num(), 1, "the port that the SMP came in by");
    let answer = bench.set(2, NONE, &quiet(&other).with_overrun_errors(1)).unwrap();
    assert_eq!(answer.attribute::<PortInfo>(), other);
    for beyond in [3, 256, 0xFFFF] {
        let refused = status(&mut bench, AttributeId::PORT_INFO, beyond);
        assert_eq!(refused, Status::INVALID_FIELD);
    }
}

#[test]
fn disabled_port_sends_no_response() {
    let mut bench = Bench::sound();
    let go = |bench: &mut Bench, state| {
        let wanted = quiet(&bench.port_info(NONE)).with_port_state(state);
        bench.set(0, NONE, &wanted).unwrap().status()
    };
    assert_eq!(go(&mut bench, PortState::DOWN), Status::OK);
    assert_eq!(bench.port_info(NONE).port_state(), PortState::INITIALIZE);
    assert_eq!(go(&mut bench, PortState::ACTIVE), Status::INVALID_FIELD);
    assert_eq!(go(&mut bench, PortState::ARMED), Status::OK);
    assert_eq!(go(&mut bench, PortState::ACTIVE), Status::OK);
    let off = quiet(&bench.port_info(NONE)).with_port_physical_state(PhysState::DISABLED);
    assert!(bench.set(0, NONE, &off).is_none());
    assert!(bench.get(AttributeId::PORT_INFO, 0, NONE).is_none());
    bench.port = 2;
    let other = bench.get(AttributeId::PORT_INFO, 1, NONE).unwrap();
    assert_eq!(other.attribute::<PortInfo>().port_state(), PortState::DOWN);
}

#[test]
fn varied_devices_enforce_keys_and_tables() {
    for seed in 0..300 {
        for profile in [Profile::minimal(), Profile::full(), Profile::one_data_vl()] {
            let mut profile = profile.vary(seed);
            profile.choices = Choices {
                unassigned: Unassigned::RefusedInPart,
                counter_write: CounterWrite::Ignored,
                busy: 0,
                ..profile.choices
            };
            let has_tables = profile.has_vl_arbitration();
            let mut bench = Bench::new(profile, &[]);
            let found = bench.port_info(NONE);
            if has_tables {
                let vls = found.operational_vls().data_vls().unwrap();
                let caps = [
                    (1, found.vl_arbitration_low_cap()),
                    (3, found.vl_arbitration_high_cap()),
                ];
                for (part, cap) in caps {
                    let entries = 0..usize::from(cap.min(8));
                    let table = entries.fold(VlArbitrationTable::default(), |table, entry| {
                        table.with_vl(entry, entry as u8 % vls).with_weight(entry, 200)
                    });
                    bench.set(part << 16, NONE, &table).expect("answered");
                    let kept = bench.get(AttributeId::VL_ARBITRATION, part << 16, NONE);
                    assert_eq!(kept.unwrap().attribute::<VlArbitrationTable>(), table);
                }
            }
            bench.lock(KEY, 2, 20);
            assert!(bench.get(AttributeId::PORT_INFO, 0, NONE).is_none());
            let after = bench.port_info(KEY);
            assert_eq!(after.m_key(), KEY);
            assert_eq!(after.m_key_violations(), found.m_key_violations() + 1);
            assert!(bench.get(AttributeId::PORT_INFO, 0, NONE).is_none());
            bench.wait(seconds(20));
            let open = bench.port_info(NONE);
            assert_eq!((open.m_key(), open.protect_bits().0), (KEY, 0));
        }
    }
}

#[test]
fn traffic_counters_follow_choice() {
    for counts_traffic in [true, false] {
        let mut profile = Profile::full();
        profile.tables_seed = 7;
        profile.choices = Choices {
            counts_traffic,
            ..Choices::default()
        };
        let mut bench = Bench::new(profile, &[]);
        let counters = PortCounters::default()
            .with_port_select(1)
            .with_counter_select(Hex16(0xFFFF))
            .with_port_xmit_data(9)
            .with_port_rcv_pkts(9)
            .with_port_rcv_errors(9);
        let mad = |method| Mad::performance(method, AttributeId::PORT_COUNTERS, 0).with_data(counters.bytes());
        bench.send(&mad(Method::SET)).expect("answered");
        let shown: PortCounters = bench.send(&mad(Method::GET)).expect("answered").attribute();
        assert_eq!(shown.port_rcv_errors(), 9);
        for traffic in [
            shown.port_xmit_data(),
            shown.port_rcv_data(),
            shown.port_xmit_pkts(),
            shown.port_rcv_pkts(),
        ] {
            assert_eq!(traffic > 0, counts_traffic, "{shown:?}");
        }
    }
}

#[test]
fn init_type_and_latency_follow_choice() {
    for chosen in [false, true] {
        let mut profile = Profile::full();
        profile.choices = Choices {
            replies_to_init_type: chosen,
            measures_latency: chosen,
            ..Choices::default()
        };
        let mut bench = Bench::new(profile, &[]);
        let before = bench.port_info(NONE);
        bench.set(0, NONE, &quiet(&before).with_init_type(5));
        let after = bench.port_info(NONE);
        assert_eq!(after.init_type(), 5);
        assert_eq!(after.init_type_reply() == 5, chosen);
        assert_eq!(
            after.link_round_trip_latency() != before.link_round_trip_latency(),
            chosen
        );
    }
}

#[test]
fn diag_code_follows_choice() {
    for chosen in [false, true] {
        let mut profile = Profile::full();
        profile.choices = Choices {
            tests_itself: chosen,
            ..Choices::default()
        };
        let mut bench = Bench::new(profile, &[]);
        let before = bench.port_info(NONE);
        bench.wait(seconds(1));
        let after = bench.port_info(NONE);
        assert_eq!(before.diag_code() != after.diag_code(), chosen);
    }
}
