use super::*;

fn run(serial: u16) -> RunId {
    RunId::new(0, serial)
}

/// A plan of one rig `r` at rest.
fn plan() -> Plan {
    Plan::new([("r", Left::AsFound)]).0
}

fn busy() -> Plan {
    let mut plan = plan();
    assert_eq!(plan.submit("r", run(1)), Ok(vec![Action::Start(run(1))]));
    plan
}

#[test]
fn runs_of_a_rig_come_one_after_the_other_in_the_order_of_their_creation() {
    let mut plan = busy();
    assert_eq!(plan.submit("r", run(2)), Ok(vec![]));
    assert_eq!(plan.submit("r", run(3)), Ok(vec![]));
    assert_eq!((plan.place("r", &run(2)), plan.place("r", &run(3))), (Some(1), Some(2)));
    assert_eq!(plan.run_ended("r", Left::AsFound), [Action::Start(run(2))]);
    assert_eq!(plan.place("r", &run(3)), Some(1));
    assert_eq!(plan.run_ended("r", Left::AsFound), [Action::Start(run(3))]);
    assert_eq!(plan.run_ended("r", Left::AsFound), []);
    assert_eq!(plan.under_way().count(), 0);
}

#[test]
fn rigs_do_not_wait_for_each_other() {
    let (mut plan, actions) = Plan::new([("a", Left::AsFound), ("b", Left::AsFound)]);
    assert_eq!(actions, []);
    assert_eq!(plan.submit("a", run(1)), Ok(vec![Action::Start(run(1))]));
    assert_eq!(plan.submit("b", run(2)), Ok(vec![Action::Start(run(2))]));
    assert_eq!(plan.submit("c", run(3)), Err(Refusal::UnknownRig("c".into())));
}

#[test]
fn a_device_left_changed_is_restored_before_the_next_run() {
    let mut plan = busy();
    plan.submit("r", run(2)).unwrap();
    assert_eq!(plan.run_ended("r", Left::Changed), [Action::Restore("r".into())]);
    assert_eq!(plan.submit("r", run(3)), Ok(vec![]), "it waits meanwhile");
    assert_eq!(plan.restore_ended("r", Ok(())), [Action::Start(run(2))]);
}

#[test]
fn a_device_left_changed_before_the_start_is_restored_first() {
    let (mut plan, actions) = Plan::new([("r", Left::Changed)]);
    assert_eq!(actions, [Action::Restore("r".into())]);
    assert_eq!(plan.submit("r", run(1)), Ok(vec![]));
    assert_eq!(plan.restore_ended("r", Ok(())), [Action::Start(run(1))]);
}

#[test]
fn a_failed_restore_quarantines_the_rig_and_ends_what_waits_until_one_succeeds() {
    let mut plan = busy();
    plan.submit("r", run(2)).unwrap();
    plan.run_ended("r", Left::Changed);
    let ended = plan.restore_ended("r", Err("locked".into()));
    assert_eq!(ended, [Action::End(run(2), NeverBegan::Quarantined("locked".into()))]);
    let refused = plan.submit("r", run(3)).unwrap_err();
    assert!(refused.to_string().contains("quarantined: locked"), "{refused}");
    assert_eq!(plan.restore("r"), Ok(vec![Action::Restore("r".into())]));
    assert_eq!(plan.restore_ended("r", Ok(())), []);
    assert_eq!(plan.submit("r", run(4)), Ok(vec![Action::Start(run(4))]));
}

#[test]
fn a_busy_rig_is_not_restored_and_says_why() {
    let mut plan = busy();
    let running = Refusal::Running {
        rig: "r".into(),
        run: run(1),
    };
    assert_eq!(plan.restore("r"), Err(running));
    plan.run_ended("r", Left::Changed);
    assert_eq!(plan.restore("r"), Err(Refusal::Restoring("r".into())));
}

#[test]
fn a_run_that_waits_is_cancelled_at_once_and_one_under_way_is_asked_to_stop() {
    let mut plan = busy();
    plan.submit("r", run(2)).unwrap();
    let ended = vec![Action::End(run(2), NeverBegan::Cancelled)];
    assert_eq!(plan.cancel("r", &run(2)), Cancelled::Waiting(ended));
    assert_eq!(plan.cancel("r", &run(2)), Cancelled::NotThere);
    assert_eq!(
        plan.cancel("r", &run(1)),
        Cancelled::UnderWay(vec![Action::Stop(run(1))])
    );
    assert_eq!(
        plan.run_ended("r", Left::AsFound),
        [],
        "what was cancelled does not run"
    );
}

#[test]
fn a_stop_ends_what_waits_stops_what_runs_and_still_restores() {
    let mut plan = busy();
    plan.submit("r", run(2)).unwrap();
    let actions = plan.stop();
    assert_eq!(
        actions,
        [Action::End(run(2), NeverBegan::Stopping), Action::Stop(run(1))]
    );
    assert_eq!(plan.submit("r", run(3)), Err(Refusal::Stopping));
    assert_eq!(plan.run_ended("r", Left::Changed), [Action::Restore("r".into())]);
    assert_eq!(plan.under_way().collect::<Vec<_>>(), ["r"]);
    assert_eq!(plan.restore_ended("r", Ok(())), []);
    assert_eq!(plan.under_way().count(), 0);
}
