//! Loss of MADs. Hardware may lose any MAD, and a host may return a MAD unsent. A lost MAD must not make a conforming
//! device FAIL. A device must not PASS because of MADs that did not arrive. The device must be restored in any case.

use core::time::Duration;
use std::collections::VecDeque;

use verbatim_catalog::TESTS;
use verbatim_device::Profile;
use verbatim_record::{Cause, Outcome, Span, Time, Verdict};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Arrival, Need, Ran, Rig, RigInfo, Step, Stimulus, Stop, Test};
use verbatim_tests::judged::{judged, judged_with, test};
use verbatim_wire::{AttributeId, Layout as _, MKey, Mad, Method, PortCounters, PortInfo};

/// The outcome of sending a MAD.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Arrives,
    IsLost,
    ComesBack,
}

/// A rig with the rules of hardware. `fate` decides the outcome of each sent MAD.
struct Lossy<F> {
    rig: VirtualRig,
    fate: F,
    back: VecDeque<Mad>,
}

/// Returns the tests that need MADs only. The rig [`Lossy`] offers nothing else.
fn mad_tests() -> impl Iterator<Item = &'static Test> {
    let offered = [Need::Mad, Need::OwnSubnet, Need::SecondPort, Need::Counters];
    let only_mads = move |test: &&Test| test.needs.iter().all(|need| offered.contains(need));
    TESTS.iter().copied().filter(only_mads)
}

impl<F: FnMut(&Mad) -> Fate> Rig for Lossy<F> {
    fn now(&self) -> Time {
        self.rig.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        let Stimulus::Mad(_, mad) = what else {
            return self.rig.send(what);
        };
        match (self.fate)(mad) {
            Fate::Arrives => return self.rig.send(what),
            Fate::IsLost => {}
            Fate::ComesBack => self.back.push_back(*mad),
        }
        Ok(Span::exactly(self.rig.now()))
    }

    fn wait(&mut self, until: Time) -> Arrival {
        match self.back.pop_front() {
            Some(mad) => Arrival::Returned(0, Span::exactly(self.rig.now()), mad, 5),
            None => self.rig.wait(until),
        }
    }
}

fn hardware() -> RigInfo {
    RigInfo {
        simulated: false,
        host_bound: Duration::from_millis(10),
        ..VirtualRig::info(MKey(0))
    }
}

fn execute(test: &Test, rig: &mut dyn Rig, info: &RigInfo) -> (Verdict, Ran) {
    let parameters = [("illegal_parts", 40), ("violations", 20), ("wait_s", 30)];
    let judged = judged(rig, info, test, 1, &parameters);
    (judged.verdict, judged.ran)
}

fn with_fate(test: &Test, fate: impl FnMut(&Mad) -> Fate) -> (Verdict, Ran) {
    let mut rig = Lossy {
        rig: VirtualRig::new(Profile::full(), &[]),
        fate,
        back: VecDeque::new(),
    };
    execute(test, &mut rig, &hardware())
}

/// Returns a function that gives only the `n`th MAD the fate `met`.
fn nth(n: usize, met: Fate) -> impl FnMut(&Mad) -> Fate {
    let mut sent = 0;
    move |_| {
        sent += 1;
        if sent == n { met } else { Fate::Arrives }
    }
}

#[test]
fn every_test_passes_without_losses() {
    for test in mad_tests() {
        let (verdict, _) = with_fate(test, |_| Fate::Arrives);
        assert!(
            matches!(verdict.outcome(), Outcome::Pass | Outcome::NotApplicable),
            "{}: {} {}",
            test.id,
            verdict.outcome(),
            verdict.reason
        );
    }
}

#[test]
fn one_lost_mad_fails_no_device() {
    for test in mad_tests() {
        for met in [Fate::IsLost, Fate::ComesBack] {
            for n in 1..60 {
                let (verdict, ran) = with_fate(test, nth(n, met));
                assert!(
                    verdict.outcome() != Outcome::Fail,
                    "{} {met:?} {n}: {verdict:#?}",
                    test.id
                );
                assert!(
                    ran.restored.iter().all(|r| r.is_complete()),
                    "{} {met:?} {n}: {:#?}",
                    test.id,
                    ran.restored
                );
            }
        }
    }
}

#[test]
fn three_lost_mads_fail_no_link_test() {
    // Take only tests with packets. In other tests, three unanswered tries of one MAD prove silence.
    let by_packets = |test: &&&Test| test.needs.contains(&Need::Link);
    for test in TESTS.iter().filter(by_packets) {
        // The first MADs check that the device is sane.
        for first in 4..24 {
            let mut sent = 0;
            let (verdict, ran) = with_fate(test, |_| {
                sent += 1;
                let is_lost = (first..first + 3).contains(&sent);
                if is_lost { Fate::IsLost } else { Fate::Arrives }
            });
            let was_restored = ran.restored.iter().all(|restored| restored.is_complete());
            assert!(
                !was_restored || !matches!(verdict.outcome(), Outcome::Fail | Outcome::Error),
                "{} {first}: {verdict:#?}",
                test.id
            );
        }
    }
}

#[test]
fn lost_violation_proves_nothing() {
    for id in [
        "c14-016-get-protect-2",
        "c14-017-lease-not-early",
        "c14-017-lease-expires",
        "c14-017-lease-reset",
        "c14-017-lease-reload",
        "c14-017-lease-zero",
        "c14-015-trap-repress",
    ] {
        let test = test(id);
        for met in [Fate::IsLost, Fate::ComesBack] {
            let mut keys = Vec::new();
            let (verdict, _) = with_fate(test, move |mad| {
                // Lose every Get with a key that was not Set, and every TrapRepress.
                if mad.method() == Method::SET && mad.attribute_id() == AttributeId::PORT_INFO {
                    keys.push(mad.attribute::<verbatim_wire::PortInfo>().m_key());
                }
                let wrong = mad.method() == Method::GET && mad.m_key() != MKey(0) && !keys.contains(&mad.m_key());
                if wrong || mad.method() == Method::TRAP_REPRESS {
                    met
                } else {
                    Fate::Arrives
                }
            });
            let lost_unseen = id == "c14-015-trap-repress" && met == Fate::IsLost;
            assert!(
                verdict.outcome() != Outcome::Pass || lost_unseen,
                "{id} {met:?}: {verdict:#?}"
            );
        }
    }
}

#[test]
fn dying_device_is_rig_error() {
    for test in mad_tests() {
        for lives in [3, 5, 8, 12] {
            let mut sent = 0;
            let (verdict, _) = with_fate(test, move |_| {
                sent += 1;
                if sent > lives { Fate::IsLost } else { Fate::Arrives }
            });
            let over_before = matches!(verdict.outcome(), Outcome::Pass | Outcome::NotApplicable);
            assert!(
                over_before
                    || (verdict.outcome(), verdict.cause()) == (Outcome::Error, Cause::Rig)
                    || verdict.outcome() == Outcome::Inconclusive,
                "{} after {lives}: {verdict:#?}",
                test.id
            );
        }
    }
}

#[test]
fn recovery_uses_key_of_journal() {
    use verbatim_tester::{FileJournal, recover};
    for id in [
        "c14-016-set-protect-1",
        "c14-016-get-protect-1",
        "c14-017-lease-expires-after-set",
    ] {
        for lives in 5..12 {
            let directory = tempfile::tempdir().unwrap();
            let mut journal = FileJournal::open(directory.path(), "r").unwrap();
            let mut sent = 0;
            let mut rig = Dying {
                rig: VirtualRig::new(Profile::full(), &[]),
                dead: false,
                fate: move || {
                    sent += 1;
                    sent > lives
                },
            };
            judged_with(&mut journal, &mut rig, &hardware(), test(id), 1, &[]);
            let mut rig = rig.rig;
            drop(journal);
            let mut journal = FileJournal::open(directory.path(), "r").unwrap();
            let restored = recover(&mut rig, &hardware(), &mut Vec::new(), journal.left(), &mut journal);
            assert!(
                restored.iter().all(|r| r.is_complete()),
                "{id} after {lives}: {restored:#?}"
            );
            assert!(journal.pending().is_empty());
            // The sanity check would fail if a key of the interrupted run were still set.
            let (verdict, _) = execute(mad_tests().next().unwrap(), &mut rig, &hardware());
            assert_eq!(
                verdict.outcome(),
                Outcome::Pass,
                "{id} after {lives}: {}",
                verdict.reason
            );
        }
    }
}

/// A rig whose tester dies. The rig fails for this tester, and the device continues for the next tester.
struct Dying<F> {
    rig: VirtualRig,
    dead: bool,
    fate: F,
}

impl<F: FnMut() -> bool> Rig for Dying<F> {
    fn now(&self) -> Time {
        self.rig.now()
    }
    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        if self.dead {
            return Err(Stop::RigGone("the tester died".into()));
        }
        self.dead = (self.fate)();
        self.rig.send(what)
    }
    fn wait(&mut self, until: Time) -> Arrival {
        if self.dead {
            // A MAD on the wire still reaches the device.
            let _ = self.rig.wait(self.rig.now().after(Duration::from_millis(20)));
            return Arrival::Stop(Stop::RigGone("the tester died".into()));
        }
        self.rig.wait(until)
    }
}

#[test]
fn busy_response_fails_no_device() {
    for test in mad_tests() {
        let mut answers = 0;
        let rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(move |mad| {
            answers += 1;
            let busy = mad.with_status(verbatim_wire::Status::BUSY);
            vec![(Duration::ZERO, if answers == 2 { busy } else { *mad })]
        }));
        let mut rig = rig;
        let (verdict, _) = execute(test, &mut rig, &VirtualRig::info(MKey(0)));
        assert!(
            matches!(
                verdict.outcome(),
                Outcome::Pass | Outcome::NotApplicable | Outcome::Inconclusive
            ),
            "{}: {verdict:#?}",
            test.id
        );
    }
}

#[test]
fn foreign_violation_counts_fail_no_test() {
    let mut info = hardware();
    info.shared_subnet = true;
    info.offers.retain(|need| *need != Need::OwnSubnet);
    for test in mad_tests() {
        for shown in [0, 700] {
            let mut answers = 0;
            let tamper = move |mad: &Mad| {
                answers += 1;
                let is_port = mad.attribute_id() == AttributeId::PORT_INFO && mad.method() == Method::GET_RESP;
                let mad = match is_port && answers > 2 {
                    true => mad.with_data(mad.attribute::<PortInfo>().with_m_key_violations(shown).bytes()),
                    false => *mad,
                };
                vec![(Duration::ZERO, mad)]
            };
            let mut rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(tamper));
            let (verdict, _) = execute(test, &mut rig, &info);
            assert!(verdict.outcome() != Outcome::Fail, "{} {shown}: {verdict:#?}", test.id);
        }
    }
}

#[test]
fn foreign_traffic_fails_no_device() {
    // Each response shows a higher count than the test Set, as if other hosts' traffic or link errors had been
    // counted.
    for (name, by) in [
        ("PortXmitData", 100_000),
        ("PortRcvPkts", 30_000),
        ("PortXmitDiscards", 3),
        ("SymbolErrorCounter", 2),
    ] {
        let tamper = move |mad: &Mad| {
            let is_read = mad.attribute_id() == AttributeId::PORT_COUNTERS && mad.method() == Method::GET_RESP;
            let mut bytes = mad.attribute::<PortCounters>().bytes().to_vec();
            let field = PortCounters::field(name);
            let end = u64::MAX >> (64 - field.width);
            let shown = (field.bits(&bytes, 0) + by).min(end);
            verbatim_wire::set_bits(&mut bytes, field.offset, field.width, shown);
            let mad = if is_read { mad.with_data(&bytes) } else { *mad };
            vec![(Duration::ZERO, mad)]
        };
        let mut rig = VirtualRig::new(Profile::full(), &[]).with_tamper(Box::new(tamper));
        let (verdict, _) = execute(test("c16-port-counters"), &mut rig, &hardware());
        assert!(
            [Outcome::Pass, Outcome::Inconclusive].contains(&verdict.outcome()),
            "{name}: {verdict:#?}"
        );
    }
}

#[test]
fn unknown_m_key_is_rig_error() {
    let mut profile = Profile::full();
    (profile.m_key, profile.protect_bits) = (MKey(0x77), verbatim_wire::values::ProtectBits(1));
    for test in mad_tests() {
        let (verdict, _) = execute(test, &mut VirtualRig::new(profile.clone(), &[]), &hardware());
        let is_the_rigs = verdict.outcome() == Outcome::Error && verdict.reason.contains("another M_Key");
        assert!(
            is_the_rigs || verdict.outcome() == Outcome::NotApplicable,
            "{}: {} {}",
            test.id,
            verdict.outcome(),
            verdict.reason
        );
    }
}
