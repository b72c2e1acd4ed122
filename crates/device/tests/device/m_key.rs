//! Tests of the conforming device's M_Key check, and of the defects of that check.

use crate::bench::{Bench, KEY, NONE, OTHER, quiet, seconds};
use verbatim_device::Defect::{self, *};
use verbatim_device::{CounterWrite, Profile};
use verbatim_wire::values::ProtectBits;
use verbatim_wire::{AttributeId, MKey, Method, PortInfo, Status};

fn locked(level: u8, lease: u16, defects: &[Defect]) -> Bench {
    let mut bench = Bench::new(Profile::full(), defects);
    bench.lock(KEY, level, lease);
    bench
}

fn wrong_get(bench: &mut Bench) -> Option<PortInfo> {
    bench.get(AttributeId::PORT_INFO, 0, OTHER).map(|mad| mad.attribute())
}

/// Sends a wrong-key Set of LocalPhyErrors. Returns the status of the response, if any, and whether the device applied
/// the Set.
fn wrong_set(bench: &mut Bench) -> (Option<Status>, bool) {
    let before = bench.port_info(KEY);
    let other = (before.local_phy_errors() + 1) & 15;
    let answer = bench.set(0, OTHER, &quiet(&before).with_local_phy_errors(other));
    let after = bench.port_info(KEY);
    (answer.map(|mad| mad.status()), after.local_phy_errors() == other)
}

fn violations(bench: &mut Bench) -> u16 {
    bench.port_info(KEY).m_key_violations()
}

#[test]
fn zero_key_disables_check() {
    for level in 0..4 {
        let mut bench = Bench::sound();
        bench.lock(NONE, level, 1);
        let before = wrong_get(&mut bench).expect("answered");
        assert_eq!(before.protect_bits(), ProtectBits(level));
        let answer = bench.set(0, OTHER, &quiet(&before).with_overrun_errors(3));
        assert_eq!(answer.expect("answered").status(), Status::OK);
        let repress = bench.request(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        assert!(bench.send(&repress.with_m_key(OTHER)).is_none());
        let after = bench.port_info(OTHER);
        assert_eq!(after.overrun_errors(), 3);
        assert_eq!(after.m_key_violations(), before.m_key_violations());
        bench.wait(seconds(5));
        assert_eq!(bench.port_info(NONE).protect_bits(), ProtectBits(level));
    }
}

#[test]
fn level_0_shows_key_to_wrong_key_get() {
    let mut bench = locked(0, 0, &[]);
    assert_eq!(wrong_get(&mut bench).expect("answered").m_key(), KEY);
    assert_eq!(violations(&mut bench), 0);
}

#[test]
fn level_1_hides_key_from_wrong_key_get() {
    let mut bench = locked(1, 0, &[]);
    let right = bench.port_info(KEY);
    let wrong = wrong_get(&mut bench).expect("answered");
    assert_eq!(right.m_key(), KEY);
    assert_eq!(wrong, right.with_m_key(NONE));
    assert_eq!(violations(&mut bench), 0);
}

#[test]
fn levels_2_and_3_drop_wrong_key_get() {
    for level in [2, 3] {
        let mut bench = locked(level, 0, &[]);
        assert!(wrong_get(&mut bench).is_none());
        assert!(bench.get(AttributeId::NODE_INFO, 0, NONE).is_none());
        assert_eq!(violations(&mut bench), 2);
    }
}

#[test]
fn wrong_key_set_is_a_violation() {
    for level in 0..4 {
        let mut bench = locked(level, 0, &[]);
        assert_eq!(wrong_set(&mut bench), (None, false));
        let repress = bench.request(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        assert!(bench.send(&repress.with_m_key(OTHER)).is_none());
        assert_eq!(violations(&mut bench), 2);
    }
}

#[test]
fn counter_stops_at_65535() {
    for (choice, written) in [
        (CounterWrite::Ignored, 0xFFFF),
        (CounterWrite::Stored, 7),
        (CounterWrite::Zeroed, 0),
    ] {
        the_counter_stops(choice, written);
    }
}

fn the_counter_stops(choice: CounterWrite, written: u16) {
    let mut profile = Profile::full();
    profile.m_key_violations = 0xFFFE;
    profile.choices.counter_write = choice;
    (profile.m_key, profile.protect_bits) = (KEY, ProtectBits(2));
    let mut bench = Bench::new(profile, &[]);
    for _ in 0..3 {
        wrong_get(&mut bench);
    }
    assert_eq!(violations(&mut bench), 0xFFFF);
    let info = bench.port_info(KEY);
    bench.set(0, KEY, &quiet(&info).with_m_key_violations(7));
    assert_eq!(violations(&mut bench), written);
    bench.set(0, KEY, &quiet(&info).with_m_key_violations(0));
    assert_eq!(violations(&mut bench), 0);
}

#[test]
fn lease_expiry_clears_protect_bits() {
    let mut bench = locked(2, 15, &[]);
    wrong_get(&mut bench);
    bench.wait(seconds(14));
    assert!(wrong_get(&mut bench).is_none());
    bench.wait(seconds(1));
    let info = wrong_get(&mut bench).expect("level 0 now");
    assert_eq!((info.m_key(), info.protect_bits()), (KEY, ProtectBits(0)));
    assert_eq!(info.m_key_violations(), 2);
}

#[test]
fn right_key_stops_lease() {
    let mut bench = locked(3, 10, &[]);
    wrong_get(&mut bench);
    bench.wait(seconds(6));
    bench.get(AttributeId::NODE_INFO, 0, KEY).expect("answered");
    bench.wait(seconds(100));
    wrong_get(&mut bench);
    bench.wait(seconds(9));
    assert!(wrong_get(&mut bench).is_none());
    bench.wait(seconds(1));
    assert!(wrong_get(&mut bench).is_some());
}

#[test]
fn lease_period_0_never_expires() {
    let mut bench = locked(2, 0, &[]);
    wrong_get(&mut bench);
    bench.wait(seconds(70_000));
    assert!(wrong_get(&mut bench).is_none());
}

#[test]
fn each_port_has_its_own_key() {
    let mut bench = locked(2, 0, &[]);
    bench.port = 2;
    assert!(wrong_get(&mut bench).is_some());
    let other = bench.get(AttributeId::PORT_INFO, 1, NONE);
    let other: PortInfo = other.expect("answered").attribute();
    assert_eq!(other.m_key(), NONE, "hidden from those who do not have it");
}

#[test]
fn wrong_key_get_defects_are_visible() {
    let get = |defect, level| wrong_get(&mut locked(level, 0, &[defect]));
    let key = |defect, level| get(defect, level).map(|info| info.m_key());
    assert_eq!(key(GetDroppedAtLevel0, 0), None);
    assert_eq!(key(KeyHiddenAtLevel0, 0), Some(NONE));
    assert_eq!(key(KeyShownAtLevel1, 1), Some(KEY));
    assert_eq!(key(GetDroppedAtLevel1, 1), None);
    let blank = get(EverythingHiddenAtLevel1, 1);
    assert_eq!(blank, Some(PortInfo::default()));
    assert!(get(GetAnsweredAtLevel2, 2).is_some() && get(GetAnsweredAtLevel2, 3).is_none());
    assert!(get(GetAnsweredAtLevel3, 3).is_some() && get(GetAnsweredAtLevel3, 2).is_none());
    assert_eq!(key(Level3TakenAsLevel0, 3), Some(KEY));
    for level in 1..4 {
        assert_eq!(key(MKeyIgnoredOnGet, level), Some(KEY));
    }
    let mut bench = locked(2, 0, &[MKeyIgnoredOutsidePortInfo]);
    assert!(wrong_get(&mut bench).is_none());
    assert!(bench.get(AttributeId::NODE_INFO, 0, OTHER).is_some());
    let mut bench = locked(2, 0, &[WrongKeyGetRefusedAloud]);
    let refusal = bench.get(AttributeId::NODE_INFO, 0, OTHER).expect("aloud");
    assert_eq!(refusal.status(), Status::INVALID_FIELD);
}

#[test]
fn comparison_defects_are_visible() {
    let passes = |defect, key: u64| {
        let mut bench = locked(2, 0, &[defect]);
        bench.get(AttributeId::NODE_INFO, 0, MKey(key)).is_some()
    };
    assert!(passes(ComparesHigh32Bits, KEY.0 ^ 1) && !passes(ComparesHigh32Bits, KEY.0 ^ (1 << 40)));
    assert!(passes(ComparesLow32Bits, KEY.0 ^ (1 << 40)) && !passes(ComparesLow32Bits, KEY.0 ^ 1));
    assert!(!passes(ComparesByteSwapped, KEY.0));
    assert!(passes(ComparesByteSwapped, KEY.0.swap_bytes()));
    assert!(passes(ZeroIsMasterKey, 0));
}

#[test]
fn right_key_defects_are_visible() {
    let get = |defect, level| locked(level, 0, &[defect]).get(AttributeId::PORT_INFO, 0, KEY);
    assert!(get(RightKeyGetDroppedAtLevel2, 2).is_none());
    assert!(get(RightKeyGetDroppedAtLevel3, 3).is_none());
    let hidden: PortInfo = get(RightKeyHiddenAtLevel1, 1).expect("answered").attribute();
    assert_eq!(hidden.m_key(), NONE);

    let set = |defect, level| {
        let mut bench = locked(level, 0, &[defect]);
        let wanted = quiet(&bench.port_info(KEY)).with_overrun_errors(1);
        let status = bench.set(0, KEY, &wanted).map(|mad| mad.status());
        (status, bench.port_info(KEY).overrun_errors() == 1)
    };
    assert_eq!(set(RightKeySetDroppedAtLevel0, 0), (None, false));
    assert_eq!(set(RightKeySetDroppedAtLevel2, 2), (None, false));
    assert_eq!(set(RightKeySetDroppedAtLevel3, 3), (None, false));
    assert_eq!(set(RightKeySetIgnoredAtLevel1, 1), (Some(Status::OK), false));
    assert_eq!(set(RightKeySetRefusedAtLevel2, 2), (Some(Status::INVALID_FIELD), false));
    for level in 0..4 {
        assert_eq!(set(RightKeyHiddenAtLevel1, level), (Some(Status::OK), true));
    }
}

#[test]
fn wrong_key_set_defects_are_visible() {
    let obeyed = [
        WrongKeySetObeyedAtLevel0,
        WrongKeySetObeyedAtLevel1,
        WrongKeySetObeyedAtLevel2,
        WrongKeySetObeyedAtLevel3,
    ];
    for level in 0..4u8 {
        for (at, &defect) in obeyed.iter().enumerate() {
            // The Set writes back the M_Key that PortInfo reported, so the right key stays the same.
            let (status, done) = wrong_set(&mut locked(level, 0, &[defect]));
            assert_eq!(status.is_some() && done, usize::from(level) == at);
        }
        let set = |defect| wrong_set(&mut locked(level, 0, &[defect]));
        assert_eq!(set(WrongKeySetAnswered), (Some(Status::OK), false));
        assert_eq!(set(WrongKeySetRefusedAloud), (Some(Status::INVALID_FIELD), false));
        assert_eq!(set(WrongKeySetObeyedSilently), (None, true));
    }
}

#[test]
fn zero_key_defects_are_visible() {
    let bench = |defect| {
        let mut bench = Bench::with(defect);
        bench.lock(NONE, 2, 2);
        bench
    };
    assert!(wrong_get(&mut bench(ZeroKeyChecksGets)).is_none());
    let mut sets = bench(ZeroKeyChecksSets);
    let info = quiet(&sets.port_info(NONE));
    assert!(sets.set(0, OTHER, &info).is_none() && sets.set(0, NONE, &info).is_some());
    let mut represses = bench(ZeroKeyChecksTrapRepress);
    let repress = represses.request(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
    represses.send(&repress.with_m_key(OTHER));
    assert_eq!(represses.port_info(NONE).m_key_violations(), 1);
    let mut counts = bench(ZeroKeyCountsViolations);
    assert!(wrong_get(&mut counts).is_some());
    assert_eq!(counts.port_info(NONE).m_key_violations(), 1);
    let mut leases = bench(ZeroKeyStartsLease);
    wrong_get(&mut leases);
    leases.wait(seconds(3));
    assert_eq!(leases.port_info(NONE).protect_bits(), ProtectBits(0));
}

#[test]
fn counter_defects_are_visible() {
    let count = |defect, level, what: &dyn Fn(&mut Bench)| {
        let mut bench = locked(level, 0, &[defect]);
        what(&mut bench);
        violations(&mut bench)
    };
    let get = |bench: &mut Bench| {
        wrong_get(bench);
    };
    let set = |bench: &mut Bench| {
        bench.set(0, OTHER, &PortInfo::default());
    };
    let repress = |bench: &mut Bench| {
        let mad = bench.request(Method::TRAP_REPRESS, AttributeId::NOTICE, 0);
        bench.send(&mad.with_m_key(OTHER));
    };
    let right = |bench: &mut Bench| {
        bench.port_info(KEY);
    };
    let three = |bench: &mut Bench| (0..3).for_each(|_| get(bench));
    assert_eq!(count(ViolationsNotCounted, 2, &get), 0);
    assert_eq!(count(ViolationsNotCountedOnGet, 2, &get), 0);
    assert_eq!(count(ViolationsNotCountedOnGet, 2, &set), 1);
    assert_eq!(count(ViolationsNotCountedOnSet, 2, &set), 0);
    assert_eq!(count(ViolationsNotCountedOnSet, 2, &get), 1);
    assert_eq!(count(ViolationsNotCountedOnTrapRepress, 2, &repress), 0);
    assert_eq!(count(ViolationsCountedTwice, 2, &get), 2);
    assert!(count(ViolationsCountedOnRightKey, 2, &right) > 0);
    assert_eq!(count(ViolationsCountedAtLevel0, 0, &get), 1);
    assert_eq!(count(ViolationsCountedAtLevel1, 1, &get), 1);
    assert_eq!(count(ViolationsCountedOnce, 2, &three), 1);
    let mut bench = locked(2, 0, &[ViolationsResetByGet]);
    get(&mut bench);
    assert_eq!((violations(&mut bench), violations(&mut bench)), (1, 0));
    for (defect, start, end) in [(ViolationsSaturateAt255, 254, 255), (ViolationsWrap, 0xFFFF, 1)] {
        let mut profile = Profile::full();
        profile.m_key_violations = start;
        let mut bench = Bench::new(profile, &[defect]);
        bench.lock(KEY, 2, 0);
        get(&mut bench);
        get(&mut bench);
        assert_eq!(violations(&mut bench), end);
    }
}

/// Causes an M_Key violation and waits `wait` seconds. Returns whether the device then drops a wrong-key Get.
fn holds(defect: Defect, lease: u16, wait: u64) -> bool {
    let mut bench = locked(2, lease, &[defect]);
    wrong_get(&mut bench);
    bench.wait(seconds(wait));
    wrong_get(&mut bench).is_none()
}

#[test]
fn lease_defects_are_visible() {
    for defect in [LeaseNotStarted, LeaseNeverExpires, LeaseStartedOnlyBySets] {
        assert!(holds(defect, 10, 11));
    }
    let mut bench = locked(2, 10, &[LeaseStartedOnlyByGets]);
    bench.set(0, OTHER, &PortInfo::default());
    bench.wait(seconds(11));
    assert!(wrong_get(&mut bench).is_none());
    assert!(!holds(LeaseExpiresEarly, 10, 6));
    assert!(holds(LeaseExpiresLate, 10, 11) && !holds(LeaseExpiresLate, 10, 21));
    assert!(!holds(ZeroLeaseExpiresAtOnce, 0, 0));
    assert!(holds(ZeroLeaseExpiresAfter60Seconds, 0, 59));
    assert!(!holds(ZeroLeaseExpiresAfter60Seconds, 0, 60));
    assert!(holds(ZeroLeaseExpiresAfter65536Seconds, 0, 65_535));
    assert!(!holds(ZeroLeaseExpiresAfter65536Seconds, 0, 65_536));

    let expired = |defect| {
        let mut bench = locked(2, 10, &[defect]);
        wrong_get(&mut bench);
        bench.wait(seconds(11));
        let info = bench.port_info(KEY);
        (info.m_key(), info.protect_bits().0)
    };
    assert_eq!(expired(LeaseExpiryClearsKey), (NONE, 0));
    assert_eq!(expired(LeaseExpiryKeepsProtectBits), (KEY, 2));
    assert_eq!(expired(LeaseExpiryLowersToLevel1), (KEY, 1));
    assert!(!holds(LeaseExpiryKeepsProtectBits, 10, 11));
}

#[test]
fn lease_stop_defects_are_visible() {
    let holds_after_right_get = |defect, again: bool| {
        let mut bench = locked(2, 10, &[defect]);
        wrong_get(&mut bench);
        bench.wait(seconds(6));
        bench.get(AttributeId::NODE_INFO, 0, KEY);
        if again {
            wrong_get(&mut bench);
        }
        bench.wait(seconds(5));
        wrong_get(&mut bench).is_none()
    };
    assert!(!holds_after_right_get(LeaseNotStoppedByRightKey, false));
    assert!(!holds_after_right_get(LeaseNotStoppedByRightKeyGet, false));
    assert!(holds_after_right_get(LeaseNotReloaded, false));
    assert!(!holds_after_right_get(LeaseNotReloaded, true));
    assert!(holds_after_right_get(AnswersSetsLate, true), "unrelated");
}
