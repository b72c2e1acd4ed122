//! Every defect shows on a device that it fits, and its name finds it.

mod common;

use std::time::Duration;

use common::{Bench, KEY, NONE, OTHER, quiet, seconds};
use verbatim_device::Defect::{self, *};
use verbatim_device::Profile;
use verbatim_wire::{
    AttributeId, Guid, GuidInfo, Layout, LedInfo, Lid, LinkDownDefault, LinkSpeedExt, LinkSpeeds, LinkWidths, MKey,
    Mad, Method, Mtu, NodeDescription, NodeInfo, PKey, PKeyTable, PortInfo, SlToVlMappingTable, Status,
    VlArbitrationTable, VlCap,
};

/// All that a long talk with a device shows; without the time but where it is very late.
struct Talk {
    bench: Bench,
    seen: Vec<Option<Mad>>,
}

impl Talk {
    fn get(&mut self, attribute: AttributeId, modifier: u32, key: verbatim_wire::MKey) {
        let answer = self.bench.get(attribute, modifier, key);
        self.seen.push(answer);
    }

    fn set<A: verbatim_wire::Attribute>(&mut self, modifier: u32, key: verbatim_wire::MKey, to: &A) {
        let answer = self.bench.set(modifier, key, to);
        self.seen.push(answer);
    }

    fn port_info(&mut self, key: verbatim_wire::MKey) -> PortInfo {
        self.get(AttributeId::PORT_INFO, 0, key);
        let last = self.seen.last().copied().flatten();
        last.unwrap_or_default().attribute()
    }

    fn send(&mut self, method: Method, attribute: AttributeId, key: verbatim_wire::MKey) {
        let mad = self.bench.request(method, attribute, 0).with_m_key(key);
        let answer = self.bench.send(&mad);
        self.seen.push(answer);
    }

    fn everything(&mut self) {
        for port in [1, 2] {
            self.bench.port = port;
            for attribute in 0x10..0x22 {
                for modifier in [0, 1, 2, 3, 4, 32, 1 << 16, 2 << 16, 3 << 16, 4 << 16] {
                    self.get(AttributeId(attribute), modifier, NONE);
                }
            }
        }
        self.bench.port = 1;
    }
}

/// Reads and writes everything, without a key and with one at every level, with leases.
fn talk(profile: &Profile, defects: &[Defect]) -> (Vec<Option<Mad>>, Vec<(Duration, Mad)>) {
    let bench = Bench::new(profile.clone(), defects);
    let mut talk = Talk {
        bench,
        seen: Vec::new(),
    };
    let t = &mut talk;
    t.everything();
    let pattern: Vec<u8> = (1..=64u8).map(|byte| byte.wrapping_mul(149) | 0x80).collect();
    t.set(0, NONE, &NodeInfo::from_bytes(&pattern));
    t.set(0, NONE, &NodeDescription::from_bytes(&pattern));
    t.set(0, NONE, &GuidInfo::from_bytes(&pattern));
    t.set(0, NONE, &PKeyTable::from_bytes(&pattern));
    t.set(0, NONE, &SlToVlMappingTable::from_bytes(&pattern));
    for part in [1, 2, 3, 4, 5, 0, 0x0101, 0x8001, 0xFFFF, 9] {
        let other = VlArbitrationTable::from_bytes(&pattern).with_weight(2, part as u8);
        t.set(part << 16, NONE, &other);
        t.get(AttributeId::VL_ARBITRATION, part << 16, NONE);
        for legal in 1..=4 {
            t.get(AttributeId::VL_ARBITRATION, legal << 16, NONE);
        }
    }
    let other = pattern.iter().map(|byte| byte ^ 0x15).collect::<Vec<_>>();
    t.set(0, NONE, &GuidInfo::from_bytes(&other));
    t.everything();
    t.set(0, NONE, &PKeyTable::from_bytes(&other).with_p_key(7, PKey(0x0707)));
    t.everything();
    t.set(0, NONE, &SlToVlMappingTable::from_bytes(&other));
    t.everything();
    t.set(1 << 16, NONE, &VlArbitrationTable::from_bytes(&other));
    t.everything();
    for method in [Method::GET_TABLE, Method::TRAP_REPRESS] {
        t.send(method, AttributeId::NODE_INFO, NONE);
    }
    let mad = t.bench.request(Method::GET, AttributeId::NODE_INFO, 0);
    let mad = mad.with_header(&mad.header().with_class_version(9));
    let answer = t.bench.send(&mad);
    t.seen.push(answer);

    let found = quiet(&t.port_info(NONE));
    let read_only = PortInfo::from_bytes(&found.bytes().iter().map(|b| b ^ 0x11).collect::<Vec<_>>());
    t.set(0, NONE, &quiet(&read_only).with_m_key(NONE));
    for odd in [
        found.with_lid(Lid(0xD000)),
        found.with_neighbor_mtu(verbatim_wire::Mtu(6)),
        found.with_operational_vls(verbatim_wire::VlCap(7)),
        found.with_operational_vls(verbatim_wire::VlCap(9)),
        found.with_link_width_enabled(verbatim_wire::LinkWidths(0x40)),
        found.with_overrun_errors(1).with_vl_high_limit(9).with_master_sm_sl(3),
        found
            .with_subnet_timeout(verbatim_wire::SubnetTimeout(7))
            .with_local_phy_errors(1),
        found
            .with_gid_prefix(verbatim_wire::values::Hex64(5))
            .with_m_key_violations(9),
        found.with_m_key_violations(0),
        found.with_link_speed_enabled(LinkSpeeds(9)),
        found.with_master_sm_lid(Lid(0xC000)),
        found.with_link_down_default_state(LinkDownDefault(3)),
        found.with_neighbor_mtu(Mtu(0)),
        found.with_lid(Lid(0xFFFF)),
        found
            .with_neighbor_mtu(Mtu(1))
            .with_operational_vls(VlCap(1))
            .with_link_width_enabled(LinkWidths(1))
            .with_link_speed_enabled(LinkSpeeds(1))
            .with_link_down_default_state(LinkDownDefault::SLEEP)
            .with_link_speed_ext_enabled(LinkSpeedExt(1))
            .with_lmc(5)
            .with_lid(Lid(32))
            .with_master_sm_lid(Lid(9)),
    ] {
        t.set(0, NONE, &odd);
        t.set(2, NONE, &odd);
        t.everything();
    }
    t.set(0, NONE, &found.with_m_key_violations(0));
    for key in [NONE, KEY] {
        for level in 0..4 {
            locked(t, key, level, &found);
        }
    }
    (talk.seen, talk.bench.traps)
}

/// One level: wrong and right keys, then leases.
fn locked(t: &mut Talk, key: verbatim_wire::MKey, level: u8, found: &PortInfo) {
    let lock = |lease| {
        found
            .with_m_key(key)
            .with_protect_bits(verbatim_wire::values::ProtectBits(level))
            .with_m_key_lease_period(verbatim_wire::values::LeasePeriod(lease))
    };
    let off = |bit: u32| MKey(key.0 ^ (1 << bit));
    for other in [OTHER, NONE, off(17), off(62)] {
        t.set(0, key, &lock(10));
        for attribute in [AttributeId::NODE_INFO, AttributeId::PORT_INFO] {
            t.get(attribute, 0, other);
            t.get(attribute, 0, key);
        }
        for attribute in 0x10..0x19 {
            t.get(AttributeId(attribute), u32::from(attribute == 0x18) << 16, other);
        }
        // A trap is sent once in a SubnetTimeOut: the last one, and the first of those that follow.
        t.bench.wait(seconds(2));
        t.port_info(key);
        t.set(0, other, &GuidInfo::default().with_guid(1, Guid(u64::from(level) + 1)));
        t.port_info(key);
        t.set(
            0,
            other,
            &PKeyTable::default().with_p_key(1, PKey(u16::from(level) + 1)),
        );
        t.set(0, other, &SlToVlMappingTable::default().with_vl(1, level + 1));
        t.set(
            1 << 16,
            other,
            &VlArbitrationTable::default().with_weight(0, 80 + level),
        );
        t.set(0, other, &NodeInfo::default());
        for attribute in [AttributeId::LED_INFO, AttributeId::SM_INFO, AttributeId(0x0F11)] {
            t.get(attribute, 0, other);
        }
        let led = LedInfo::from_bytes(&[level << 7]);
        t.set(0, other, &led.with_led_mask(level < 2));
        t.get(AttributeId::LED_INFO, 0, key);
        for attribute in 0x10..0x19 {
            t.get(AttributeId(attribute), u32::from(attribute == 0x18) << 16, key);
        }
        t.bench.wait(seconds(2));
        if let Some((_, trap)) = t.bench.traps.last().copied() {
            t.bench.send(&trap.with_method(Method::TRAP_REPRESS).with_m_key(key));
        }
        t.bench.wait(seconds(12));
        t.send(Method::TRAP_REPRESS, AttributeId::NOTICE, other);
        t.port_info(key);
        t.set(0, other, &lock(10).with_overrun_errors(level));
        t.port_info(key);
        t.get(AttributeId::NODE_INFO, 0, other);
        t.get(AttributeId::NODE_INFO, 0, other);
        t.port_info(key);
    }
    let whole = [
        (10, 6, 5),
        (10, 9, 0),
        (10, 10, 0),
        (10, 11, 0),
        (10, 21, 0),
        (0, 61, 0),
        (0, 65_540, 0),
    ];
    let long = [(300, 100, 0), (5000, 1000, 0), (40_000, 33_000, 0), (40_000, 39_990, 0)];
    for (lease, first, second) in whole.into_iter().chain(long) {
        for method in [Method::GET, Method::SET, Method::TRAP_REPRESS] {
            t.set(0, key, &lock(lease));
            match method {
                Method::SET => t.set(0, OTHER, &lock(lease)),
                _ => t.send(method, AttributeId::NODE_INFO, OTHER),
            }
            t.bench.wait(seconds(first));
            if second > 0 {
                t.get(AttributeId::NODE_INFO, 0, key);
                t.get(AttributeId::NODE_INFO, 0, OTHER);
                t.bench.wait(seconds(second));
            }
            t.get(AttributeId::NODE_INFO, 0, OTHER);
            t.port_info(key);
        }
    }
    t.set(0, key, &lock(10));
    t.get(AttributeId::NODE_INFO, 0, OTHER);
    t.bench.wait(seconds(6));
    t.set(0, key, &lock(10));
    t.bench.wait(seconds(5));
    t.port_info(key);
    t.set(0, key, &lock(10));
    t.get(AttributeId::NODE_INFO, 0, OTHER);
    t.bench.port = 2;
    t.get(AttributeId::NODE_INFO, 0, NONE);
    t.bench.port = 1;
    t.bench.wait(seconds(11));
    t.port_info(key);
    t.set(0, key, &lock(0).with_m_key_violations(0));
    t.set(0, key, found);
}

#[test]
fn every_defect_shows_where_it_says_so() {
    // The talk zeroes the counter before it locks; the first two are shown in the M_Key tests. It asks for nothing of which the
    // others are: qualification shows that each of them is seen.
    let elsewhere = [
        ViolationsSaturateAt255,
        ViolationsWrap,
        ViolationsStuckAtMost,
        FormerKeyOpensGets,
        RefusedSetTakesLease,
        BaseVersionIgnored,
        TrapAnswered,
        ResponseReservedEchoed,
        ArmedSkipped,
        ArmedRefused,
        SubnetTimeoutAbove20Cut,
        NeighborMtu256Refused,
        OperationalVls3StoredAs2,
        SlToVl15StoredAs0,
        DirectedInTransitAnswered,
        DirectedLidPartAnswered,
        VlArbitrationLowerClearsUpper,
        CounterSelectIgnored,
        PortCountersNotWritten,
        PortSelectBeyondAccepted,
        CounterSelectLow8Bits,
        PerformanceClassVersion2,
        PerformanceVersionIgnored,
        PerformanceResponseVersion2,
        PerformanceResponseReservedSet,
        PerformanceResponseDataReservedSet,
        SymbolErrorCounter8Bits,
        PortRcvErrors4Bits,
        Vl15Dropped8Bits,
        PortSelect0Accepted,
        PortSelect255Accepted,
        // The bench takes the first answer, and without a LID no port sends a trap.
        ResponseToSetTwice,
        TrapWithoutCapability,
        TrapKeyLow32Bits,
        TrapsEndWithRepress,
        // No Get there has such a number.
        AttributeIdLow8Bits,
        LeaseNotStoppedByTrapRepress,
        // Nothing there Sets extended speeds, or counters of a port that is not there.
        ExtSpeedsUnsupportedKept,
        ExtSpeedsOffRefused,
        PortCountersRefusedWritten,
        RcvErrorDetailsClearErrors,
        AllPortSelectClaimed,
        InitTypeNotKept,
        TrapSuppressionNotKept,
        AllWidthsKeptAsCode,
        AllSpeedsKeptAsCode,
        // SubnetTimeOut stays as it was when the first trap left.
        TrapTimeoutAsFirst,
        // Nothing there has such a method, a wrong TrapRepress, or a Set and another port.
        MethodLow4Bits,
        TrapOfRepressMissing,
        NodeDescriptionByPort,
    ];
    for profile in [Profile::full(), Profile::minimal(), Profile::one_data_vl()] {
        let sound = talk(&profile, &[]);
        let mut unseen = Vec::new();
        for &defect in Defect::ALL {
            if !defect.shows_on(&profile) || elsewhere.contains(&defect) {
                continue;
            }
            if talk(&profile, &[defect]) == sound {
                unseen.push(defect);
            }
        }
        assert_eq!(unseen, [], "{:?}", profile.vl_cap);
    }
}

#[test]
fn names_are_kebab_case_and_find_their_defect() {
    let mut names: Vec<_> = Defect::ALL.iter().map(|defect| defect.name()).collect();
    for &defect in Defect::ALL {
        assert_eq!(defect.to_string().parse(), Ok(defect));
        assert!(defect.about().ends_with('.'));
        assert!(
            ["C1", "7.", "13.", "14.", "16."]
                .iter()
                .any(|start| defect.statement().starts_with(start))
        );
        assert!(
            !defect
                .name()
                .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Defect::ALL.len());
    assert!("no-such-defect".parse::<Defect>().is_err());
}

#[test]
fn defects_of_refusals_show() {
    let get = |defect, attribute, modifier| {
        let answer = Bench::with(defect).get(AttributeId(attribute), modifier, NONE);
        answer.map(|mad| mad.status())
    };
    let (ok, invalid) = (Some(Status::OK), Some(Status::INVALID_FIELD));
    for (defect, part) in [
        (VlArbitrationPart0Accepted, 0),
        (VlArbitrationPart5Accepted, 5),
        (VlArbitrationPartLow3Bits, 9),
        (VlArbitrationPartLow8Bits, 0x0101),
        (VlArbitrationPart32769Accepted, 0x8001),
        (VlArbitrationPart65535Accepted, 0xFFFF),
    ] {
        assert_eq!(get(defect, 0x18, part << 16), ok);
        assert_eq!(get(defect, 0x18, 0x1238 << 16), invalid);
    }
    assert_eq!(get(VlArbitrationBadPartSilent, 0x18, 0), None);
    assert_eq!(get(VlArbitrationBadPartWrongStatus, 0x18, 0), Some(Status(0x0C)));
    assert_eq!(get(PortBeyondAccepted, 0x15, 9), ok);
    assert_eq!(get(GuidBlockBeyondAccepted, 0x14, 9), ok);
    assert_eq!(get(PKeyBlockBeyondAccepted, 0x16, 9), ok);
    assert_eq!(get(SwitchInfoAnswered, 0x12, 0), ok);
    assert_eq!(get(UnsupportedAttributeAccepted, 0x19, 0), ok);
    assert_eq!(get(UnsupportedAttributeWrongStatus, 0x19, 0), invalid);
    assert_eq!(get(UnsupportedAttributeSilent, 0x19, 0), None);
    assert_eq!(get(OwnPortByNumberRefused, 0x15, 1), invalid);
}
