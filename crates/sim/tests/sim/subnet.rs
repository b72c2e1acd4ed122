//! A run on a port that no subnet manager initialized, on a busy device, and on a port that is down.

use verbatim_device::{Profile, Unassigned};
use verbatim_record::{Entry, Exchange, Label, Restored, StopReason, Trace};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Case, MemoryJournal, Need, Ran, RigInfo, Settable, Step, Test, Tester, run};
use verbatim_wire::values::ProtectBits;
use verbatim_wire::{Layout, Lid, MKey, Mad, Method, PortInfo, PortState};

const FOUND: Label<PortInfo> = Label::new("as found");
const LOCK: Label<PortInfo> = Label::new("lock");
const LOCKED: Label<PortInfo> = Label::new("locked");
const OURS: MKey = MKey(0xABCD_EF01);

fn execute(rig: &mut VirtualRig, info: &RigInfo, procedure: fn(&mut Tester<'_>) -> Step) -> (Ran, Trace) {
    let test = Test {
        needs: &[Need::Mad],
        ..Test::of("a-test", procedure)
    };
    let case = Case {
        test: &test,
        seed: 1,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    let mut entries: Vec<Entry> = Vec::new();
    let ran = run(rig, info, &mut entries, &mut MemoryJournal::default(), &case);
    (ran, Trace::new(entries).unwrap())
}

/// Locks the port with the tester's key and reads it.
fn lock(t: &mut Tester<'_>) -> Step {
    let port = t.guard(FOUND, t.rig_key())?;
    let locked = port.quiet().change(|info| {
        info.with_m_key(OURS)
            .with_protect_bits(ProtectBits(2))
            .with_overrun_errors(info.overrun_errors() ^ 1)
    });
    t.set(LOCK, &port, locked)?;
    t.get(LOCKED, t.key())?;
    Ok(())
}

fn read(t: &mut Tester<'_>) -> Step {
    t.get(FOUND, t.rig_key())?;
    Ok(())
}

fn port_of(rig: &mut VirtualRig) -> PortInfo {
    let (_, trace) = execute(rig, &VirtualRig::info(MKey(0)), read);
    trace.answer(FOUND).unwrap()
}

fn is_complete(restored: &[Restored]) -> bool {
    restored.iter().all(Restored::is_complete)
}

#[test]
fn assigned_lid_remains_rest_is_restored() {
    for choice in [Unassigned::Obeyed, Unassigned::RefusedInPart, Unassigned::Refused] {
        let mut profile = Profile::minimal();
        profile.choices.unassigned = choice;
        profile.choices.illegal_set_applies_nothing = true;
        let mut rig = VirtualRig::new(profile, &[]);
        let before = port_of(&mut rig);
        assert_eq!(before.lid(), Lid(0));
        let info = RigInfo {
            assign_lid: Some(Lid(7)),
            ..VirtualRig::info(MKey(0))
        };
        let (ran, trace) = execute(&mut rig, &info, lock);
        assert_eq!(ran.stopped, None);
        let locked: PortInfo = trace.answer(LOCKED).unwrap();
        assert_eq!(
            (locked.lid(), locked.master_sm_lid(), locked.m_key()),
            (Lid(7), Lid(1), OURS)
        );
        assert!(is_complete(&ran.restored), "{:?}", ran.restored);
        // An assigned LID can be changed but not removed. The report names this limit.
        assert!(
            ran.restored[0].not_restorable[0].starts_with("LID: found 0"),
            "{:?}",
            ran.restored
        );
        let after = port_of(&mut rig);
        let differ: Vec<_> = before.differences(&after).iter().map(|of| of.field.name).collect();
        assert_eq!(differ, ["LID", "MasterSMLID"], "{choice:?}");
    }
}

#[test]
fn refused_sets_leave_port_unchanged() {
    let mut profile = Profile::minimal();
    profile.choices.unassigned = Unassigned::Refused;
    let mut rig = VirtualRig::new(profile, &[]);
    let before = port_of(&mut rig);
    let (ran, trace) = execute(&mut rig, &VirtualRig::info(MKey(0)), lock);
    assert!(ran.stopped.is_none() && is_complete(&ran.restored), "{ran:?}");
    assert_eq!(trace.answer::<PortInfo>(LOCKED).unwrap().m_key(), MKey(0));
    assert_eq!(port_of(&mut rig), before);
}

#[test]
fn busy_device_is_retried_and_restored() {
    for done in [false, true] {
        for seed in 0..40 {
            let mut profile = Profile::full().vary(seed);
            (profile.choices.busy, profile.choices.busy_and_done) = (6, done);
            profile.choices.unassigned = Unassigned::Obeyed;
            let mut rig = VirtualRig::new(profile, &[]);
            let before = port_of(&mut rig);
            let (ran, trace) = execute(&mut rig, &VirtualRig::info(MKey(0)), lock);
            assert_eq!((ran.stopped, is_complete(&ran.restored)), (None, true), "seed {seed}");
            assert_eq!(trace.answer::<PortInfo>(LOCKED).unwrap().m_key(), OURS);
            let after = port_of(&mut rig);
            let after = after.with_fields_of(&before, PortInfo::NOT_RESTORABLE);
            let after = after.with_fields_of(&before, &["LinkRoundTripLatency"]);
            assert_eq!(after, before, "seed {seed}");
        }
    }
}

#[test]
fn always_busy_device_is_not_sane() {
    let mut profile = Profile::full();
    profile.choices.busy = 16;
    let mut rig = VirtualRig::new(profile, &[]);
    let (ran, trace) = execute(&mut rig, &VirtualRig::info(MKey(0)), lock);
    let stopped = ran.stopped.unwrap();
    assert_eq!(stopped.reason, StopReason::NotSane);
    assert!(stopped.text.contains("busy at each of 12 requests"), "{}", stopped.text);
    let is_get = |of: &Exchange| of.request.method() == Method::GET;
    assert!(trace.exchanges.iter().all(|of| is_get(of) && of.is_busy()));
}

#[test]
fn port_that_is_down_is_not_sane() {
    let tamper = |mad: &Mad| {
        let info: PortInfo = mad.attribute();
        let down = mad.with_data(info.with_port_state(PortState::DOWN).bytes());
        vec![(core::time::Duration::ZERO, down)]
    };
    let mut rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(tamper));
    let (ran, _) = execute(&mut rig, &VirtualRig::info(MKey(0)), read);
    let stopped = ran.stopped.unwrap();
    assert_eq!(stopped.reason, StopReason::NotSane);
    assert!(stopped.text.contains("its port state is"), "{}", stopped.text);
}

#[test]
fn set_carries_current_violation_counters() {
    let mut profile = Profile::full();
    (profile.m_key_violations, profile.q_key_violations) = (3, 9);
    let mut rig = VirtualRig::new(profile, &[]);
    let (_, trace) = execute(&mut rig, &VirtualRig::info(MKey(0)), |t| {
        lock(t)?;
        t.get_once(Label::<PortInfo>::new("wrong key"), MKey(1))?;
        t.get(Label::<PortInfo>::new("counted"), OURS)?;
        Ok(())
    });
    let sets = trace.exchanges.iter().filter(|of| of.request.method() == Method::SET);
    let carried: Vec<_> = sets
        .map(|set| set.request.attribute::<PortInfo>())
        .map(|info| {
            (
                info.m_key_violations(),
                info.p_key_violations(),
                info.q_key_violations(),
            )
        })
        .collect();
    // The second Set is the restore. The request with the wrong key before it has increased M_KeyViolations.
    assert_eq!(carried, [(3, 0, 9), (4, 0, 9)]);
}
