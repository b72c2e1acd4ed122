//! Checks that `verbatim run` repeats the cases of a qualification.

use verbatim_catalog::TESTS;
use verbatim_device::Defect;
use verbatim_device::link::LinkDefect;
use verbatim_device::rc::RcDefect;
use verbatim_record::Outcome;
use verbatim_rig::VirtualConfig;
use verbatim_run::qualify::{AnyDefect, Extent, Model, Rules, qualify, sound_models};
use verbatim_run::{command, execute};
use verbatim_tester::Test;
use verbatim_tests::judged::test;
use verbatim_tests::product::{Output, Place, program, run};

use crate::command_line::files;

fn extent(tests: &[&'static Test], models: Vec<Model>, defects: Vec<AnyDefect>) -> Extent {
    Extent {
        rules: Rules::Simulated,
        seeds: 2,
        sweep: 16,
        threads: 2,
        tests: tests.to_vec(),
        models,
        defects,
        every: true,
    }
}

/// Runs a command in a shell.
fn shell(place: &Place, command: &str) -> Output {
    let programs = program("verbatim");
    let path = format!("{}:/usr/bin:/bin", programs.parent().unwrap().display());
    run(place.command("sh").args(["-c", command]).env("PATH", path))
}

/// Returns the outcomes and reasons in a run's `--json` output.
fn verdicts(output: &Output) -> Vec<(String, String)> {
    let word = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_string();
    let document = output.json();
    let verdicts = document["verdicts"].as_array().unwrap();
    verdicts
        .iter()
        .map(|of| (word(&of["outcome"]), word(&of["reason"])))
        .collect()
}

#[test]
fn case_and_its_command_give_same_bytes() {
    let place = Place::new();
    let models = sound_models();
    for (id, model, seed, rules) in [
        ("c14-016-get-protect-2", "minimal", 4, Rules::Simulated),
        ("c14-029-counter", "full", 0, Rules::Simulated),
        ("c07-link-crcs", "one-data-vl", 1, Rules::Simulated),
        ("c07-link-crcs", "full", 2, Rules::Simulated),
        ("c09-060-compare-swap", "adapter", 0, Rules::Simulated),
        ("c09-130-rnr-interval", "adapter", 1, Rules::Simulated),
        ("c09-130-rnr-interval-verbs", "adapter", 4, Rules::Simulated),
        // The seeds select a link that loses frames, a link that swaps frames, and a link with all disturbances.
        ("c14-016-get-protect-2", "minimal", 1, Rules::Hardware),
        ("c09-060-compare-swap", "adapter", 2, Rules::Hardware),
        ("c09-060-compare-swap", "adapter", 4, Rules::Hardware),
    ] {
        let model = models.iter().find(|known| known.name == model).unwrap();
        let mut wanted = extent(&[], Vec::new(), Vec::new());
        wanted.rules = rules;
        let mut request = wanted.case(model, test(id), seed);
        let [qualified, repeated] = ["qualified", "repeated"].map(|of| format!("{id}-{}-{seed}-{of}", rules.name()));
        request.record = Some(place.path(&qualified));
        let report = execute(&request, &mut |_| {}).unwrap();
        assert_eq!(report.run.outcome(), Outcome::Pass, "{id}");
        let command = command(&request);
        let output = shell(&place, &format!("{command} --record {repeated}"));
        assert_eq!(output.code(), 0, "{command}: {output}");
        let records = |name: &str| {
            let mut files = files(&place.path(name));
            files.retain(|(name, _)| name.ends_with(".rec"));
            files
        };
        assert_eq!(records(&qualified).len(), 1);
        assert!(records(&qualified) == records(&repeated), "{command}");
    }
}

#[test]
fn false_alarm_command_repeats_verdict() {
    let place = Place::new();
    let tests = ["c14-016-get-protect-2", "c07-link-crcs", "c09-130-rnr-interval"].map(test);
    let known = sound_models().into_iter().filter(|model| !model.is_drawn());
    let models = known.map(|mut model| {
        model.config = VirtualConfig {
            defects: vec![Defect::MKeyIgnoredOnGet],
            link_defects: vec![LinkDefect::BadVcrcAccepted],
            adapter_defects: vec![RcDefect::RnrIntervalHalved],
            ..model.config
        };
        model
    });
    let qualification = qualify(&extent(&tests, models.collect(), Vec::new()), &|_, _| {});
    // Two tests run on three profiles, and the third test on one adapter. Each runs with two seeds.
    assert_eq!(qualification.false_alarms.len(), 3 * 2 * 2 + 2);
    for alarm in qualification.false_alarms {
        let output = shell(&place, &format!("{} --json", alarm.repeat));
        assert_eq!(output.code(), 1, "{}: {output}", alarm.repeat);
        let expected = (alarm.outcome.to_string(), alarm.reason);
        assert_eq!(verdicts(&output), [expected], "{}", alarm.repeat);
    }
}

#[test]
fn survivor_command_runs_its_tests() {
    let place = Place::new();
    // No test can detect this defect: no packet passes through a channel adapter.
    let hidden = AnyDefect::Link(LinkDefect::ForwardedUnmarked);
    let mut wanted = extent(TESTS, sound_models(), vec![hidden]);
    wanted.seeds = 0;
    let qualification = qualify(&wanted, &|_, _| {});
    assert_eq!(qualification.survived, ["link-forwarded-unmarked"]);
    let repeat = &qualification.defects[0].repeat;
    assert!(repeat.contains("link-forwarded-unmarked"), "{repeat}");
    let output = shell(&place, &format!("{repeat} --json"));
    assert_eq!(output.code(), 0, "{repeat}: {output}");
    let there_for_it = TESTS
        .iter()
        .filter(|test| test.statements.contains(&"7.4 discard or corrupt"));
    assert_eq!(verdicts(&output).len(), there_for_it.count());
    // A partial selection of tests need not detect the defect.
    wanted.tests.pop();
    assert_eq!(qualify(&wanted, &|_, _| {}).survived, [] as [&str; 0]);
}

#[test]
fn killed_defect_command_kills_it_again() {
    let place = Place::new();
    let defects = [
        AnyDefect::Agent(Defect::MKeyIgnoredOnGet),
        AnyDefect::Link(LinkDefect::BadVcrcAccepted),
        AnyDefect::Adapter(RcDefect::RnrIntervalHalved),
    ];
    let mut wanted = extent(TESTS, sound_models(), defects.to_vec());
    wanted.seeds = 0;
    let qualification = qualify(&wanted, &|_, _| {});
    assert_eq!(qualification.survived, [] as [&str; 0]);
    assert_eq!(qualification.defects.len(), defects.len());
    for defect in qualification.defects {
        let output = shell(&place, &format!("{} --json", defect.repeat));
        assert_eq!(output.code(), 1, "{}: {output}", defect.repeat);
        let failed = verdicts(&output);
        assert_eq!(failed.len(), defect.killed_by.len());
        assert!(failed.iter().all(|(outcome, _)| outcome == "FAIL"), "{}", defect.repeat);
    }
}

#[test]
fn exception_is_tried_with_own_parameter() {
    let mut wanted = extent(
        TESTS,
        sound_models(),
        AnyDefect::all()
            .filter(|defect| *defect == AnyDefect::Agent(Defect::ZeroLeaseExpiresAfter65536Seconds))
            .collect(),
    );
    (wanted.rules, wanted.seeds) = (Rules::Hardware, 0);
    let qualification = qualify(&wanted, &|_, _| {});
    assert!(qualification.is_good(), "{qualification:?}");
    let [excepted] = qualification.excepted.as_slice() else {
        panic!("{:?}", qualification.excepted);
    };
    assert_eq!(excepted.set, "wait_s=65537");
    assert!(qualification.defects[0].repeat.ends_with("--set wait_s=65537"));
    let place = Place::new();
    let output = shell(&place, &format!("{} --json", qualification.defects[0].repeat));
    assert_eq!(output.code(), 1, "{output}");
}

#[test]
fn past_false_alarms_do_not_fail() {
    let place = Place::new();
    for command in [
        // Responses are late. A sequence NAK follows a packet that arrived soon after the packet that revealed the gap.
        "verbatim run c09-walk --seed 9100215 --rig-key 'profile=\"any\"' --rig-key ipv6=true --set steps=48 --set kinds=0",
        // A refused Set may still have changed the LID, so an SMP to that LID may count as a violation.
        "verbatim run c14-walk --seed 9100068 --set steps=48",
        // A WRITE Middle directly after another operation is not part of a message, so the responder may refuse it.
        "verbatim run c09-walk --seed 759022 --set steps=48 --set kinds=0",
        "verbatim run c09-walk --seed 759027 --rig-key 'profile=\"any\"' --rig-key ipv6=true --set steps=48 --set kinds=0",
        // A NAK of a READ whose responses have all arrived is stale.
        "verbatim run c09-walk --seed 81001474 --set steps=48 --set kinds=0",
        // The NAK is also stale if the READ was being retransmitted when its responses arrived.
        "verbatim run c09-walk --seed 90002473 --rig-key ipv6=true --set steps=48 --set kinds=0",
        // A CNP has the P_Key of the connection, even if the peer's first packet had another P_Key.
        "verbatim run c09-walk --seed 298 --set steps=48",
        // The waiting time of a request begins when the earlier requests are complete.
        "verbatim run c09-walk --seed 2659 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\"]' --rig-key ipv6=true --rig-key simulated=false --set steps=48",
        // The requester retransmits the requests after a postponed atomic, and those after a request whose RNR NAK was
        // lost.
        "verbatim run c09-walk --seed 320009518 --rig-key 'disturbance=[\"loses\", \"swaps\", \"late\"]' --rig-key simulated=false --set steps=48",
        "verbatim run c09-walk --seed 320006174 --rig-key 'disturbance=[\"loses\", \"swaps\", \"late\"]' --rig-key simulated=false --set steps=48",
        // The tester acknowledged a SEND that the link had lost on its way to the tester.
        "verbatim run c09-142-timer-restart --seed 41 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\"]' --rig-key simulated=false",
        "verbatim run c09-142-timer-restart --seed 221 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\"]' --rig-key simulated=false",
        // The first transmission of the packet waits for packets of another queue pair. Its retransmission does not.
        "verbatim run c09-142-timer-restart --seed 212 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\"]' --rig-key simulated=false",
        // A repeated ACK of an earlier request does not acknowledge the lost SEND.
        "verbatim run c09-send-invalidate --seed 259 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\"]' --rig-key simulated=false",
        // The device may retransmit its own requests while it handles the tester's requests.
        "verbatim run c09-reset-again --seed 59 --rig-key 'profile=\"any\"' --rig-key 'disturbance=[\"loses\", \"swaps\", \"late\"]' --rig-key simulated=false",
    ] {
        let output = shell(&place, &format!("{command} --json"));
        let outcome = &verdicts(&output)[0].0;
        // Losses on the link may make a verdict inconclusive.
        let is_so = outcome == "PASS" || command.contains("loses") && outcome == "INCONCLUSIVE";
        assert!(is_so, "{command}: {:?}", verdicts(&output));
    }
}
