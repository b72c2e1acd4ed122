//! Runs on the virtual InfiniBand pair: verbs tests, loss by management, and a tester that dies within a window of loss.

use std::sync::Arc;

use verbatim_catalog::TESTS;
use verbatim_device::Defect;
use verbatim_record::{OWN_PORT, Outcome, Span, Time, Verdict};
use verbatim_record_proto::v1::RunSpec;
use verbatim_rig::{DeviceSeed, OpenRig, RigConfig, Session, VirtualConfig, open};
use verbatim_run::{Request, RunId, execute};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Arrival, Case, FileJournal, Need, Rig, Step, Stimulus, Stop, Test, recover, run};
use verbatim_wire::{AttributeId, Layout, Mad, Method, PortInfo};

fn of_verbs() -> impl Iterator<Item = &'static Test> {
    let needs = |test: &Test, need| test.needs.contains(&need);
    let all = TESTS.iter().copied();
    all.filter(move |test| needs(test, Need::Verbs) && !needs(test, Need::Packets))
}

fn verdicts(rig: RigConfig, tests: &[&str], seed: u64) -> Vec<Verdict> {
    let request = Request {
        id: RunId::of_now(),
        spec: RunSpec {
            rig: rig.name.clone(),
            patterns: tests.iter().map(ToString::to_string).collect(),
            seed,
            ..RunSpec::default()
        },
        rig: rig.in_run(seed),
        record: None,
        cancel: Arc::default(),
        shrinks: false,
        rig_options: String::new(),
        lease: Arc::default(),
    };
    execute(&request, &mut |_| {}).unwrap().verdicts
}

#[test]
fn sound_pair_passes_each_verbs_test() {
    let tests: Vec<_> = of_verbs().map(|test| test.id).collect();
    assert!(tests.len() >= 6, "{tests:?}");
    for seed in 0..4 {
        for verdict in verdicts(RigConfig::pair_of(VirtualConfig::default()), &tests, seed) {
            let (test, reason) = (&verdict.test, &verdict.reason);
            assert_eq!(verdict.outcome(), Outcome::Pass, "seed {seed}, {test}: {reason}");
        }
    }
}

#[test]
fn unmanaged_pair_names_the_remedy() {
    let minimal = VirtualConfig {
        profile: verbatim_rig::ProfileName::Minimal,
        seed: DeviceSeed::None,
        ..VirtualConfig::default()
    };
    let managed = RigConfig::pair_of(minimal);
    let test = "c09-060-requester-verbs";
    let verdict = verdicts(managed.clone(), &[test], 0).remove(0);
    assert_eq!(verdict.outcome(), Outcome::Pass, "{}", verdict.reason);
    let unmanaged = RigConfig {
        assign_lid: None,
        ..managed
    };
    let verdict = verdicts(unmanaged, &[test], 0).remove(0);
    assert_eq!(verdict.outcome(), Outcome::NotApplicable, "{}", verdict.reason);
    assert!(verdict.reason.contains("assign_lid = 5"), "{}", verdict.reason);
}

#[test]
fn port_that_ignores_vl_15_fails() {
    let rig = RigConfig::pair_of(VirtualConfig {
        defects: vec![Defect::SlToVl15Sent],
        seed: DeviceSeed::None,
        ..VirtualConfig::default()
    });
    for verdict in verdicts(rig, &["c09-impaired-requester", "c09-impaired-responder"], 0) {
        assert_eq!(verdict.outcome(), Outcome::Fail, "{}: {}", verdict.test, verdict.reason);
        assert!(verdict.fails("7.6 SL to VL"), "{}", verdict.reason);
    }
}

/// A rig whose tester dies after some stimuli.
struct Mortal {
    rig: VirtualRig,
    left: usize,
    sent: usize,
}

impl Rig for Mortal {
    fn now(&self) -> Time {
        self.rig.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        if self.sent == self.left {
            return Err(Stop::RigGone("the tester died".into()));
        }
        self.sent += 1;
        self.rig.send(what)
    }

    fn wait(&mut self, until: Time) -> Arrival {
        if self.sent == self.left {
            return Arrival::Stop(Stop::RigGone("the tester died".into()));
        }
        self.rig.wait(until)
    }
}

/// Returns PortInfo, SLtoVLMappingTable and P_KeyTable of both ports. Violation counters of PortInfo are 0.
fn tables(rig: &mut VirtualRig) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (port, path) in [(0, &[1][..]), (OWN_PORT, &[])] {
        for attribute in [AttributeId::PORT_INFO, AttributeId::SL_TO_VL, AttributeId::P_KEY_TABLE] {
            let get = Mad::directed(Method::GET, attribute, 0, path).with_transaction_id(u64::MAX);
            rig.send(Stimulus::Mad(port, &get)).unwrap();
            let until = rig.now().after(core::time::Duration::from_secs(1));
            let answer = loop {
                match rig.wait(until) {
                    Arrival::Mad(_, _, mad) if mad.transaction_id() == u64::MAX => break mad,
                    Arrival::Deadline => panic!("no answer to {get}"),
                    _ => {}
                }
            };
            let info: PortInfo = answer.attribute();
            all.push(match attribute {
                AttributeId::PORT_INFO => info.with_p_key_violations(0).bytes().to_vec(),
                _ => answer.data().to_vec(),
            });
        }
    }
    all
}

#[test]
fn restores_both_ports_after_the_tester_died() {
    const KILLS: usize = 15;
    let config = RigConfig::pair_of(VirtualConfig {
        seed: DeviceSeed::None,
        ..VirtualConfig::default()
    });
    let OpenRig { info, session, .. } = open(&config, Arc::default()).unwrap();
    let Session::Virtual(model) = session else { panic!() };
    for id in ["c09-impaired-requester", "c09-impaired-responder"] {
        let case = Case {
            test: TESTS.iter().find(|test| test.id == id).unwrap(),
            seed: 0,
            parameters: Vec::new(),
            catalogue: String::new(),
        };
        let run_until = |left: usize| {
            let directory = tempfile::tempdir().unwrap();
            let mut rig = Mortal {
                rig: model.rig(),
                left: usize::MAX,
                sent: 0,
            };
            let found = tables(&mut rig.rig);
            rig.left = left;
            let mut journal = FileJournal::open(directory.path(), "pair").unwrap();
            run(&mut rig, &info, &mut Vec::new(), &mut journal, &case);
            drop(journal);
            let mut journal = FileJournal::open(directory.path(), "pair").unwrap();
            let changed = tables(&mut rig.rig) != found;
            let left = journal.left();
            recover(&mut rig.rig, &info, &mut Vec::new(), left, &mut journal);
            assert!(journal.pending().is_empty(), "{id}, killed after {}", rig.sent);
            assert_eq!(tables(&mut rig.rig), found, "{id}, killed after {}", rig.sent);
            (rig.sent, changed)
        };
        let (whole, changed) = run_until(usize::MAX);
        assert!(!changed, "{id} itself restores both ports");
        let kills = (1..=KILLS).map(|kill| run_until(whole * kill / (KILLS + 1)));
        let in_window = kills.filter(|(_, changed)| *changed).count();
        assert!(
            in_window >= 3,
            "{id}: only {in_window} of {KILLS} kills fell into a window of loss"
        );
    }
}
