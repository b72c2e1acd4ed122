use super::*;

fn run(serial: u16) -> RunId {
    RunId::new(0, serial)
}

fn lease_id(serial: u16) -> LeaseId {
    LeaseId::like(&run(serial))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const HOUR: Duration = Duration::from_secs(3600);

/// Returns a reserved lease of an hour.
fn reserved(serial: u16, rigs: &[&str]) -> Lease {
    Lease {
        id: lease_id(serial),
        owner: Identity::User(u32::from(serial)),
        class: Class::Normal,
        rigs: rigs.iter().map(ToString::to_string).collect(),
        lasts: HOUR,
        run: None,
        since: at(u64::from(serial)),
        held: None,
        ends: None,
        gives_way: None,
        began: false,
        runs: VecDeque::new(),
    }
}

fn of_run(serial: u16, rig: &str) -> Lease {
    Lease {
        run: Some(run(serial)),
        runs: [run(serial)].into(),
        ..reserved(serial, &[rig])
    }
}

/// Returns a rig of the rig file.
fn found<'r>((rig, left): (&'r str, Left)) -> Found<'r> {
    Found {
        rig,
        left,
        drained: None,
        leaving: false,
        is_looked_at: false,
    }
}

/// Returns the plan of a starting daemon.
fn started<'r>(
    rigs: impl IntoIterator<Item = (&'r str, Left)>,
    leases: Vec<Lease>,
    last_token: u64,
) -> (Plan, Vec<Action>) {
    Plan::new(at(0), rigs.into_iter().map(found), leases, last_token)
}

/// Returns a plan of idle rigs.
fn plan_of(rigs: &[&str]) -> Plan {
    started(rigs.iter().map(|rig| (*rig, Left::AsFound)), Vec::new(), 0).0
}

fn submit(plan: &mut Plan, serial: u16) -> Result<Vec<Action>, Refusal> {
    plan.ask(at(10), of_run(serial, "r"))
}

/// Returns the actions that grant a rig to a run and start the run.
fn begins(serial: u16) -> Vec<Action> {
    vec![Action::Keep(lease_id(serial)), Action::Start(run(serial))]
}

/// Filters out the ends of leases.
fn without_ends(actions: Vec<Action>) -> Vec<Action> {
    actions
        .into_iter()
        .filter(|action| !matches!(action, Action::LeaseEnded(..)))
        .collect()
}

/// Returns the leases that end, and why.
fn ends(actions: &[Action]) -> Vec<(LeaseId, String)> {
    let end = |action: &Action| match action {
        Action::LeaseEnded(lease, why) => Some((lease.id.clone(), why.clone())),
        _ => None,
    };
    actions.iter().filter_map(end).collect()
}

/// Returns a plan in which run 1 is running on the rig `r`.
fn busy() -> Plan {
    let mut plan = plan_of(&["r"]);
    assert_eq!(submit(&mut plan, 1), Ok(begins(1)));
    plan
}

#[test]
fn runs_of_a_rig_start_in_creation_order() {
    let mut plan = busy();
    assert_eq!(submit(&mut plan, 2), Ok(vec![]));
    assert_eq!(submit(&mut plan, 3), Ok(vec![]));
    let place = |plan: &Plan, serial| plan.place(at(10), &run(serial));
    assert_eq!((place(&plan, 2), place(&plan, 3)), (Some(1), Some(2)));
    assert_eq!(plan.slots(at(10))["r"].queue, [run(2), run(3)]);
    let ended = plan.run_ended(at(11), "r", Left::AsFound);
    assert_eq!(ends(&ended), [(lease_id(1), "ended with its run".into())]);
    assert_eq!(without_ends(ended), begins(2));
    assert_eq!(place(&plan, 3), Some(1));
    assert_eq!(without_ends(plan.run_ended(at(12), "r", Left::AsFound)), begins(3));
    assert_eq!(without_ends(plan.run_ended(at(13), "r", Left::AsFound)), []);
    assert_eq!(plan.under_way().count(), 0);
    assert_eq!(plan.slot("r"), Some(&RigSlot::default()));
}

#[test]
fn rigs_run_independently() {
    let mut plan = plan_of(&["a", "b"]);
    assert_eq!(plan.ask(at(1), of_run(1, "a")), Ok(begins(1)));
    assert_eq!(plan.ask(at(1), of_run(2, "b")), Ok(begins(2)));
    assert_eq!(plan.ask(at(1), of_run(3, "c")), Err(Refusal::UnknownRig("c".into())));
}

#[test]
fn changed_device_is_restored_before_next_run() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    let ended = plan.run_ended(at(11), "r", Left::Changed);
    assert_eq!(without_ends(ended), [Action::Restore("r".into())]);
    assert_eq!(submit(&mut plan, 3), Ok(vec![]), "it waits meanwhile");
    assert_eq!(plan.restore_ended(at(12), "r", Ok(())), begins(2));
}

#[test]
fn device_changed_before_start_is_restored() {
    let (mut plan, actions) = started([("r", Left::Changed)], Vec::new(), 0);
    assert_eq!(actions, [Action::Restore("r".into())]);
    assert_eq!(submit(&mut plan, 1), Ok(vec![]));
    assert_eq!(plan.restore_ended(at(12), "r", Ok(())), begins(1));
}

#[test]
fn failed_restore_quarantines_rig() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    plan.run_ended(at(11), "r", Left::Changed);
    let ended = plan.restore_ended(at(12), "r", Err("locked".into()));
    assert_eq!(ends(&ended).len(), 1);
    assert_eq!(
        without_ends(ended),
        [Action::End(run(2), NeverBegan::Quarantined("locked".into()))]
    );
    let refused = submit(&mut plan, 3).unwrap_err();
    assert!(refused.to_string().contains("quarantined: locked"), "{refused}");
    assert_eq!(plan.restore("r"), Ok(vec![Action::Restore("r".into())]));
    assert_eq!(plan.restore_ended(at(13), "r", Ok(())), []);
    assert_eq!(submit(&mut plan, 4), Ok(begins(4)));
}

#[test]
fn lease_with_another_rig_survives_quarantine() {
    let mut plan = plan_of(&["a", "b"]);
    plan.ask(at(1), reserved(1, &["a"])).unwrap();
    plan.ask(at(1), reserved(2, &["b"])).unwrap();
    plan.ask(at(1), reserved(3, &["a", "b"])).unwrap();
    plan.restore("a").unwrap();
    let ended = plan.restore_ended(at(2), "a", Err("locked".into()));
    assert_eq!(ends(&ended), [(lease_id(1), "ended: its rig was quarantined".into())]);
    let given = plan.end_lease(at(3), &lease_id(2), "was ended");
    assert_eq!(without_ends(given), [Action::Keep(lease_id(3))]);
}

#[test]
fn busy_rig_refuses_a_restore() {
    let mut plan = busy();
    let running = Refusal::Running {
        rig: "r".into(),
        run: run(1),
    };
    assert_eq!(plan.restore("r"), Err(running));
    plan.run_ended(at(11), "r", Left::Changed);
    assert_eq!(plan.restore("r"), Err(Refusal::Restoring("r".into())));
}

#[test]
fn cancel_ends_waiting_and_stops_running() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    let Cancelled::Waiting(actions) = plan.cancel(at(11), &run(2)) else {
        panic!("it waits");
    };
    assert_eq!(ends(&actions), [(lease_id(2), "ended: its run left the queue".into())]);
    assert_eq!(without_ends(actions), [Action::End(run(2), NeverBegan::Cancelled)]);
    assert_eq!(plan.cancel(at(11), &run(2)), Cancelled::NotThere);
    let stop = vec![Action::Stop(run(1), String::new())];
    assert_eq!(plan.cancel(at(11), &run(1)), Cancelled::UnderWay(stop));
    let ended = plan.run_ended(at(12), "r", Left::AsFound);
    assert_eq!(without_ends(ended), [], "what was cancelled does not run");
}

#[test]
fn stop_keeps_waiting_runs_and_restores() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    let why = "stopped with the daemon".to_string();
    assert_eq!(plan.stop(), [Action::Stop(run(1), why)]);
    assert_eq!(submit(&mut plan, 3), Err(Refusal::Stopping));
    let ended = plan.run_ended(at(12), "r", Left::Changed);
    assert_eq!(without_ends(ended), [Action::Restore("r".into())]);
    assert_eq!(plan.under_way().collect::<Vec<_>>(), ["r"]);
    assert_eq!(plan.restore_ended(at(13), "r", Ok(())), []);
    assert_eq!(plan.under_way().count(), 0);
}

#[test]
fn lease_runs_only_its_own_runs_in_order() {
    let mut plan = plan_of(&["r"]);
    assert_eq!(
        plan.ask(at(0), reserved(1, &["r"])),
        Ok(vec![Action::Keep(lease_id(1))])
    );
    assert_eq!(plan.submit(&lease_id(1), run(11)), Ok(vec![Action::Start(run(11))]));
    assert_eq!(submit(&mut plan, 2), Ok(vec![]));
    assert_eq!(plan.submit(&lease_id(1), run(12)), Ok(vec![]));
    assert_eq!(plan.place(at(1), &run(12)), Some(1));
    assert_eq!(plan.run_ended(at(2), "r", Left::AsFound), [Action::Start(run(12))]);
    assert_eq!(
        plan.run_ended(at(3), "r", Left::AsFound),
        [],
        "the lease goes on, and run 2 waits"
    );
    let ended = plan.end_lease(at(4), &lease_id(1), "was ended by uid:1");
    assert_eq!(ends(&ended), [(lease_id(1), "was ended by uid:1".into())]);
    assert_eq!(without_ends(ended), begins(2));
    assert_eq!(plan.submit(&lease_id(1), run(13)), Err(Refusal::LeaseOver(lease_id(1))));
}

#[test]
fn lease_expiring_in_a_run_ends_after_stop() {
    let mut plan = plan_of(&["r"]);
    plan.ask(at(0), reserved(1, &["r"])).unwrap();
    plan.submit(&lease_id(1), run(11)).unwrap();
    plan.submit(&lease_id(1), run(12)).unwrap();
    submit(&mut plan, 2).unwrap();
    assert_eq!(plan.next_end(), Some(HOUR));
    assert_eq!(plan.tick(HOUR - at(1)), []);
    let why = format!("the lease {} expired", lease_id(1));
    assert_eq!(
        plan.tick(HOUR),
        [
            Action::End(run(12), NeverBegan::LeaseEnded("expired".into())),
            Action::Stop(run(11), why)
        ]
    );
    assert_eq!(plan.tick(HOUR + at(1)), [], "once");
    assert_eq!(plan.next_end(), None);
    let ended = plan.run_ended(HOUR + at(2), "r", Left::Changed);
    assert_eq!(ends(&ended), [(lease_id(1), "expired".into())]);
    assert_eq!(
        without_ends(ended),
        [Action::Restore("r".into())],
        "nobody gets it as it is"
    );
    assert_eq!(plan.restore_ended(HOUR + at(3), "r", Ok(())), begins(2));
}

#[test]
fn renewal_is_limited_from_grant_on() {
    let mut plan = plan_of(&["r"]);
    plan.ask(at(0), reserved(1, &["r"])).unwrap();
    plan.ask(at(0), reserved(2, &["r"])).unwrap();
    let most = 2 * HOUR;
    assert_eq!(
        plan.renew(at(1800), &lease_id(1), HOUR, most),
        Ok(vec![Action::Keep(lease_id(1))])
    );
    assert_eq!(plan.next_end(), Some(at(5400)));
    let refused = plan.renew(at(5000), &lease_id(1), HOUR, most);
    let too_long = Refusal::TooLong {
        most_s: 7200,
        left_s: 2200,
    };
    assert_eq!(refused, Err(too_long));
    assert_eq!(
        plan.renew(at(1), &lease_id(2), HOUR, most),
        Err(Refusal::LeaseWaits(lease_id(2)))
    );
    assert_eq!(
        plan.renew(at(1), &lease_id(9), HOUR, most),
        Err(Refusal::LeaseOver(lease_id(9)))
    );
}

#[test]
fn tokens_grow_across_restarts() {
    let mut plan = plan_of(&["a", "b"]);
    plan.ask(at(0), reserved(1, &["a"])).unwrap();
    plan.ask(at(0), reserved(2, &["b"])).unwrap();
    let token = |plan: &Plan, serial| plan.lease(&lease_id(serial)).unwrap().held.as_ref().unwrap().token;
    assert_eq!((token(&plan, 1), token(&plan, 2)), (1, 2));
    let kept = [1, 2].map(|serial| plan.lease(&lease_id(serial)).unwrap().clone());
    // The rig file no longer has rig b.
    let (mut plan, actions) = started([("a", Left::AsFound)], kept.into(), 2);
    assert_eq!(ends(&actions).len(), 1);
    assert_eq!(token(&plan, 1), 1);
    plan.ask(at(1), reserved(3, &["a"])).unwrap();
    plan.end_lease(at(2), &lease_id(1), "was ended");
    assert_eq!(token(&plan, 3), 3);
}

#[test]
fn drained_rig_is_not_granted() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    assert_eq!(plan.drain(at(11), "r", Some("new cable".into())), Ok(vec![]));
    assert_eq!(
        without_ends(plan.run_ended(at(12), "r", Left::AsFound)),
        [],
        "who had it kept it"
    );
    assert_eq!(plan.drain(at(13), "r", None), Ok(begins(2)));
    assert!(plan.drain(at(13), "none", None).is_err());
}

#[test]
fn lease_of_a_run_takes_no_other_run() {
    let mut plan = busy();
    let refused = Refusal::OnlyForRun {
        lease: lease_id(1),
        run: run(1),
    };
    assert_eq!(plan.submit(&lease_id(1), run(2)), Err(refused));
}

/// Returns the lease of a run of this class.
fn of_class(class: Class, serial: u16, rigs: &[&str]) -> Lease {
    Lease {
        class,
        run: Some(run(serial)),
        runs: [run(serial)].into(),
        ..reserved(serial, rigs)
    }
}

/// Returns the lease with a grant of its first rig.
fn holding(lease: Lease) -> Lease {
    let held = Held {
        rig: lease.rigs[0].clone(),
        token: 1,
        since: at(0),
        until: HOUR,
    };
    Lease {
        held: Some(held),
        ..lease
    }
}

#[test]
fn run_gives_way_to_higher_class() {
    let mut plan = busy();
    submit(&mut plan, 2).unwrap();
    let keep = |serial| Action::Keep(lease_id(serial));
    assert_eq!(plan.ask(at(11), of_class(Class::High, 3, &["r"])), Ok(vec![keep(1)]));
    assert_eq!(plan.lease(&lease_id(1)).unwrap().gives_way, Some(lease_id(3)));
    assert_eq!(
        plan.ask(at(11), of_class(Class::High, 4, &["r"])),
        Ok(vec![]),
        "it is asked once"
    );
    let gave_way = plan.gave_way(at(12), "r", Left::AsFound).unwrap();
    let waits_again = [Action::WaitAgain(run(1), lease_id(3)), keep(1)];
    assert_eq!(gave_way, [&waits_again[..], &begins(3)].concat());
    assert_eq!(plan.lease(&lease_id(1)).unwrap().held, None);
    assert_eq!(
        plan.slots(at(12))["r"].queue,
        [run(4), run(1), run(2)],
        "at its place, before who came later"
    );
    assert_eq!(without_ends(plan.run_ended(at(13), "r", Left::AsFound)), begins(4));
    let token = |plan: &Plan| plan.lease_of(&run(1)).unwrap().held.as_ref().map(|held| held.token);
    assert_eq!(without_ends(plan.run_ended(at(14), "r", Left::AsFound)), begins(1));
    assert_eq!(token(&plan), Some(4), "under a new token");
    assert_eq!(without_ends(plan.run_ended(at(15), "r", Left::AsFound)), begins(2));
}

#[test]
fn device_is_restored_after_giving_way() {
    let mut plan = busy();
    plan.ask(at(11), of_class(Class::High, 2, &["r"])).unwrap();
    let gave_way = plan.gave_way(at(12), "r", Left::Changed).unwrap();
    let expected = [
        Action::WaitAgain(run(1), lease_id(2)),
        Action::Restore("r".into()),
        Action::Keep(lease_id(1)),
    ];
    assert_eq!(gave_way, expected);
    assert_eq!(plan.restore_ended(at(13), "r", Ok(())), begins(2));
}

#[test]
fn lease_waiting_for_restore_gives_way() {
    let (mut plan, _) = started(
        [("r", Left::Changed)],
        vec![holding(of_class(Class::Low, 2, &["r"]))],
        1,
    );
    plan.ask(at(14), of_class(Class::Normal, 3, &["r"])).unwrap();
    let ended = plan.restore_ended(at(15), "r", Ok(()));
    assert_eq!(ended, [&[Action::Keep(lease_id(2))][..], &begins(3)].concat());
    assert_eq!(plan.place(at(16), &run(2)), Some(1));
}

#[test]
fn reserved_or_risen_lease_keeps_its_rig() {
    let mut plan = plan_of(&["r"]);
    plan.ask(at(0), reserved(1, &["r"])).unwrap();
    plan.submit(&lease_id(1), run(11)).unwrap();
    let high = |serial| of_class(Class::High, serial, &["r"]);
    assert_eq!(plan.ask(at(1), high(2)), Ok(vec![]));

    let mut plan = busy();
    plan.ask(at(10), of_class(Class::Low, 2, &["r"])).unwrap();
    let long = at(20_000);
    assert_eq!(without_ends(plan.run_ended(long, "r", Left::AsFound)), begins(2));
    assert_eq!(plan.ask(long, high(3)), Ok(vec![]), "it counts as of that class by now");
}

#[test]
fn run_of_ended_lease_does_not_wait_again() {
    let mut plan = busy();
    plan.ask(at(11), of_class(Class::High, 2, &["r"])).unwrap();
    plan.end_lease(at(12), &lease_id(1), "expired");
    assert_eq!(plan.gave_way(at(13), "r", Left::AsFound), None);
    assert_eq!(without_ends(plan.run_ended(at(13), "r", Left::AsFound)), begins(2));
}

#[test]
fn restart_keeps_order_and_drained_rigs() {
    let rigs = [("r", Left::AsFound), ("s", Left::AsFound)];
    let mut mine = holding(reserved(1, &["r"]));
    mine.runs = [run(11), run(12)].into();
    let waiting = vec![of_run(4, "r"), mine, of_run(3, "r"), of_run(5, "s")];
    let mut rigs = rigs.map(found);
    rigs[1].drained = Some("new cable".into());
    let (mut plan, actions) = Plan::new(at(100), rigs, waiting, 7);
    assert_eq!(actions, [Action::Start(run(11))]);
    assert_eq!(plan.run_ended(at(101), "r", Left::AsFound), [Action::Start(run(12))]);
    plan.run_ended(at(102), "r", Left::AsFound);
    assert_eq!(
        without_ends(plan.end_lease(at(103), &lease_id(1), "was ended")),
        begins(3)
    );
    assert_eq!(without_ends(plan.run_ended(at(104), "r", Left::AsFound)), begins(4));
    assert_eq!(plan.drain(at(105), "s", None), Ok(begins(5)));
}

#[test]
fn reload_keeps_rigs_in_use() {
    let mut plan = plan_of(&["busy", "held", "idle", "stays"]);
    plan.ask(at(1), of_run(1, "busy")).unwrap();
    plan.ask(at(1), reserved(2, &["held"])).unwrap();
    plan.ask(at(1), reserved(3, &["stays"])).unwrap();
    plan.ask(at(1), of_run(4, "busy")).unwrap();
    plan.ask(at(1), reserved(5, &["held", "stays"])).unwrap();
    let names = ["busy", "held", "idle"].map(String::from);
    let file = [("stays", Left::AsFound), ("new", Left::AsFound), ("old", Left::Changed)];
    let (stay, actions) = plan.reload(at(2), file.map(found).into(), &names);
    assert_eq!(stay, ["busy", "held"]);
    assert_eq!(
        ends(&actions),
        [(lease_id(4), "ended: its rig is no longer in the rig file".into())]
    );
    assert!(actions.contains(&Action::Restore("old".into())) && plan.slot("idle").is_none());
    assert_eq!(plan.lease(&lease_id(5)).unwrap().rigs, ["stays"]);
    assert_eq!(plan.ask(at(3), of_run(6, "new")), Ok(begins(6)));
    let refused = Err(Refusal::LeftOver("held".into()));
    assert_eq!(plan.ask(at(3), of_run(7, "held")), refused);
    assert_eq!(plan.submit(&lease_id(2), run(8)), refused);
    assert_eq!(
        plan.end_lease(at(4), &lease_id(2), "was ended").len(),
        1,
        "nobody gets it"
    );
    // After the file names the rig again, leases get it as before.
    let (stay, _) = plan.reload(at(5), vec![found(("held", Left::AsFound))], &["busy".into()]);
    assert_eq!(stay, ["busy"], "as long as its run is under way");
    plan.run_ended(at(6), "busy", Left::AsFound);
    assert_eq!(plan.ask(at(7), of_run(9, "held")), Ok(begins(9)));
    assert!(plan.reload(at(8), Vec::new(), &["busy".into()]).0.is_empty());
    assert!(plan.slot("busy").is_none());
}

/// Returns a plan of rigs whose devices can be unreachable.
fn looked_at(rigs: &[&str]) -> Plan {
    let found = rigs.iter().map(|rig| Found {
        is_looked_at: true,
        ..found((rig, Left::AsFound))
    });
    Plan::new(at(0), found, Vec::new(), 0).0
}

#[test]
fn unreachable_rig_is_not_granted() {
    let mut plan = looked_at(&["r"]);
    let look = || vec![Action::Look("r".into())];
    assert_eq!(submit(&mut plan, 1), Ok(look()));
    assert!(plan.is_looked_at_for(&lease_id(1)), "it is about to begin");
    assert_eq!(submit(&mut plan, 2), Ok(vec![]), "once");
    assert_eq!(plan.looked(at(11), "r", Err("no cable".into())), []);
    assert_eq!(plan.slot("r").unwrap().reach.away(), Some("no cable"));
    assert!(plan.closed(&lease_id(1))[0].1.contains("no cable"));
    assert!(!plan.is_look_due(at(11)) && plan.is_look_due(at(12)));
    assert_eq!(plan.look(at(12)), look());
    assert!(!plan.is_looked_at_for(&lease_id(1)), "it was away");
    assert_eq!(plan.looked(at(12), "r", Err("no cable".into())), []);
    assert!(!plan.is_look_due(at(13)), "each time later");
    assert_eq!(plan.look(at(14)), look());
    assert_eq!(plan.looked(at(14), "r", Ok(())), begins(1));
    assert_eq!(plan.slot("r").unwrap().reach.away(), None);
    // A run whose device responded counts as a successful check. After a run that failed because of the rig, a new
    // check is necessary.
    plan.answered(at(500), "r", Ok(()));
    assert_eq!(without_ends(plan.run_ended(at(500), "r", Left::AsFound)), begins(2));
    submit(&mut plan, 3).unwrap();
    plan.answered(at(501), "r", Err("runs/2: no answer".into()));
    assert_eq!(without_ends(plan.run_ended(at(501), "r", Left::AsFound)), look());
    assert_eq!(plan.looked(at(502), "r", Ok(())), begins(3));
}

#[test]
fn rig_that_did_not_answer_says_so_until_a_run_is_answered() {
    let mut plan = looked_at(&["r"]);
    let state = |plan: &Plan| plan.slot("r").unwrap().state();
    submit(&mut plan, 1).unwrap();
    plan.looked(at(1), "r", Ok(()));
    plan.answered(at(2), "r", Err("runs/1: no answer".into()));
    plan.run_ended(at(2), "r", Left::AsFound);
    let (at_once, why) = state(&plan);
    assert_eq!(at_once, RigState::Unreachable, "before any check");
    assert!(
        why.contains("runs/1: no answer") && plan.stands()["r"].unreachable,
        "{why}"
    );
    // The port opens, but the check sends nothing to the device.
    assert_eq!(plan.look(at(3)), [Action::Look("r".into())]);
    plan.looked(at(3), "r", Ok(()));
    let (later, why) = state(&plan);
    assert_eq!(later, RigState::Idle);
    assert!(
        why.contains("runs/1: no answer") && plan.stands()["r"].unreachable,
        "{why}"
    );
    assert_eq!(submit(&mut plan, 2), Ok(begins(2)), "the next run tries again");
    plan.answered(at(4), "r", Ok(()));
    plan.run_ended(at(4), "r", Left::AsFound);
    assert_eq!(state(&plan), (RigState::Idle, String::new()));
    assert!(!plan.stands()["r"].unreachable);
}

#[test]
fn idle_rigs_are_checked_every_minute() {
    let mut plan = looked_at(&["a", "b", "c"]);
    assert_eq!(plan.look(at(1)).len(), 2);
    assert_eq!(plan.look(at(1)), []);
    plan.looked(at(2), "a", Ok(()));
    assert_eq!(plan.look(at(2)), [Action::Look("c".into())]);
    plan.looked(at(2), "b", Ok(()));
    plan.looked(at(2), "c", Ok(()));
    assert!(!plan.is_look_due(at(61)) && plan.is_look_due(at(62)));
    assert_eq!(
        plan.ask(at(61), of_run(1, "a")),
        Ok(begins(1)),
        "it was there a minute ago"
    );
    assert_eq!(plan.look(at(62)).len(), 2, "not the one that is used");
}

#[test]
fn lease_gets_other_rig_if_first_is_away() {
    let mut plan = looked_at(&["a", "b"]);
    let look = |rig: &str| vec![Action::Look(rig.into())];
    assert_eq!(plan.ask(at(1), reserved(1, &["a", "b"])), Ok(look("a")));
    assert_eq!(plan.looked(at(2), "a", Err("no cable".into())), look("b"));
    assert_eq!(plan.looked(at(3), "b", Ok(())), [Action::Keep(lease_id(1))]);
}

#[test]
fn end_of_a_lease_leaves_another_holder() {
    // Two stored leases hold the same rig.
    let (plan, actions) = started(
        [("r", Left::AsFound)],
        vec![holding(reserved(1, &["r"])), holding(reserved(2, &["r"]))],
        2,
    );
    assert_eq!(ends(&actions).len(), 1);
    assert_eq!(plan.slot("r").unwrap().holder, Some(lease_id(1)));
}

#[test]
fn waiting_hours_of_an_owner_are_limited() {
    let mut plan = plan_of(&["a", "b"]);
    let of = |serial, rig| Lease {
        owner: Identity::User(7),
        ..reserved(serial, &[rig])
    };
    (1..=3).for_each(|serial| drop(plan.ask(at(1), of(serial, "a")).unwrap()));
    plan.ask(
        at(1),
        Lease {
            owner: Identity::User(7),
            ..of_run(4, "a")
        },
    )
    .unwrap();
    let another = |who, rigs: &[&str], hours| {
        let rigs: Vec<String> = rigs.iter().map(ToString::to_string).collect();
        let who = Identity::User(who);
        let reserved: Vec<_> = plan.reserved(&who).collect();
        has_hours(&who, reserved.into_iter(), (&rigs, HOUR * hours), HOUR * 4)
    };
    // One lease holds rig a, and two leases wait.
    assert_eq!(another(7, &["a"], 2), Ok(()));
    let refused = another(7, &["b", "a"], 3).unwrap_err().to_string();
    assert!(
        refused.contains("2 h of rig a") && refused.contains("at most 4 h"),
        "{refused}"
    );
    assert_eq!(another(8, &["a"], 3), Ok(()));
    assert_eq!(another(7, &["b"], 24), Ok(()), "one lease is always accepted");
}

/// Greedy owners keep the rig busy for a year: each always has many waiting leases of the longest duration, one owner
/// of a higher class. Meanwhile new owners arrive.
#[test]
fn greedy_owners_keep_no_new_owner_waiting() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let (greedy, many) = (1..=5_u32, 20);
    let mut plan = plan_of(&["r"]);
    let (mut now, mut serial, mut turns) = (at(0), 0_u16, BTreeMap::<Identity, u32>::new());
    let mut newcomer: Option<(LeaseId, Duration)> = None;
    // In the first week, the greedy owners are new themselves.
    let (mut arrives, mut longest, mut new_owners) = (DAY * 7, Duration::ZERO, 0_u32);
    while now < DAY * 365 {
        let mut ask = |plan: &mut Plan, owner, class, lasts| {
            serial += 1;
            let lease = Lease {
                owner: Identity::User(owner),
                class,
                lasts,
                since: now,
                ..reserved(serial, &["r"])
            };
            let id = lease.id.clone();
            plan.ask(now, lease).unwrap();
            id
        };
        for owner in greedy.clone() {
            let class = if owner == 1 { Class::High } else { Class::Normal };
            for _ in plan.leases.of_owner(&Identity::User(owner)).count()..many {
                ask(&mut plan, owner, class, DAY);
            }
        }
        if now >= arrives && newcomer.is_none() {
            new_owners += 1;
            newcomer = Some((ask(&mut plan, 1000 + new_owners, Class::Normal, HOUR), now));
            // The newcomers arrive at varying times of the day.
            arrives = now + HOUR * (61 + new_owners % 24);
        }
        let next = plan.next_end().unwrap();
        now = if newcomer.is_none() {
            next.min(arrives.max(now))
        } else {
            next
        };
        for (ended, _) in ends(&plan.tick(now)) {
            if newcomer.as_ref().is_some_and(|(id, _)| *id == ended) {
                newcomer = None;
            }
        }
        let holder = plan.slot("r").unwrap().holder.clone().unwrap();
        *turns.entry(plan.lease(&holder).unwrap().owner.clone()).or_default() += 1;
        if let Some((_, since)) = newcomer.as_ref().filter(|(id, _)| *id == holder) {
            longest = longest.max(now - *since);
        }
    }
    assert!(new_owners > 80, "{new_owners}");
    assert!(longest <= DAY + DAY, "{longest:?}");
    let of_greedy: Vec<u32> = greedy.map(|owner| turns[&Identity::User(owner)]).collect();
    assert!(of_greedy.iter().all(|turns| *turns >= 40), "{of_greedy:?}");
}
