use std::collections::BTreeSet;

use proptest::prelude::*;
use verbatim_run::RunId;

use super::*;

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// A waiting lease that owns its data.
#[derive(Clone, Debug)]
struct Asked {
    lease: LeaseId,
    owner: Identity,
    class: Class,
    since: Duration,
    rigs: Vec<String>,
}

impl Asked {
    fn new(number: u16, owner: u32, class: Class, since_min: u64, rigs: &[&str]) -> Self {
        Self {
            lease: lease(number),
            owner: Identity::User(owner),
            class,
            since: minutes(since_min),
            rigs: rigs.iter().map(ToString::to_string).collect(),
        }
    }

    fn waits(&self) -> Waiting<'_> {
        Waiting {
            lease: &self.lease,
            owner: &self.owner,
            class: self.class,
            since: self.since,
            last_turn: None,
            rigs: &self.rigs,
            lasts: minutes(60),
        }
    }
}

fn lease(number: u16) -> LeaseId {
    LeaseId::like(&RunId::new(0, number))
}

fn free(rig: &str) -> Use<'_> {
    Use { rig, by: By::Nobody }
}

fn waits(asked: &[Asked]) -> Vec<Waiting<'_>> {
    asked.iter().map(Asked::waits).collect()
}

/// Reference implementation of `decide`: searches all leases for each rig, and all rigs for each lease.
fn decide_by_looking_at_all(
    now: Duration,
    waiting: &[Waiting<'_>],
    rigs: &[Use<'_>],
    shares: &Shares,
) -> Vec<Decision> {
    let mut shares = shares.clone();
    let is_first = |of: &Waiting<'_>| {
        let earlier =
            |other: &&Waiting<'_>| other.owner == of.owner && (other.since, other.lease) < (of.since, of.lease);
        let mut earlier = waiting.iter().filter(earlier);
        !earlier.any(|other| other.rigs.iter().any(|rig| of.rigs.contains(rig)))
    };
    let mut left: Vec<&Waiting<'_>> = waiting.iter().collect();
    let mut decisions = Vec::new();
    for free in rigs.iter().filter(|rig| rig.by == By::Nobody) {
        let fits = |waiting: &&Waiting<'_>| waiting.rigs.iter().any(|rig| rig == free.rig);
        let first = left
            .iter()
            .copied()
            .filter(fits)
            .min_by_key(|waiting| rank(now, waiting, is_first(waiting), &shares));
        if let Some(first) = first {
            shares.entry(first.owner.clone()).or_default().0 += 1;
            left.retain(|waiting| waiting.lease != first.lease);
            decisions.push(Decision::Grant {
                lease: first.lease.clone(),
                rig: free.rig.into(),
            });
        }
    }
    let mut asked: Vec<&str> = Vec::new();
    left.sort_by_key(|waiting| rank(now, waiting, is_first(waiting), &shares));
    for waiting in left {
        let lower = rigs.iter().filter_map(|rig| match rig.by {
            By::Lease {
                lease,
                class,
                gives_way: true,
                ..
            } if class < waiting.class
                && !asked.contains(&rig.rig)
                && waiting.rigs.iter().any(|wanted| wanted == rig.rig) =>
            {
                Some((class, rig.rig, lease))
            }
            _ => None,
        });
        if let Some((_, rig, lease)) = lower.min_by_key(|(class, _, lease)| (*class, Reverse(*lease))) {
            asked.push(rig);
            decisions.push(Decision::GiveWay {
                lease: lease.clone(),
                rig: rig.into(),
                to: waiting.lease.clone(),
            });
        }
    }
    decisions
}

/// Returns the order in which the leases get the rig `r`, each for ten minutes, when no other leases arrive.
fn all_get(asked: &[Asked], mut now: Duration) -> Vec<LeaseId> {
    let (mut left, mut got, mut shares) = (asked.to_vec(), Vec::new(), Shares::new());
    while !left.is_empty() {
        let decisions = decide(now, &waits(&left), &[free("r")], &shares);
        let [Decision::Grant { lease, .. }] = &decisions[..] else {
            panic!("{decisions:?}");
        };
        let of = left.iter().find(|asked| asked.lease == *lease).unwrap();
        shares.entry(of.owner.clone()).or_default().1 += minutes(10);
        now += minutes(10);
        got.push(lease.clone());
        left.retain(|asked| asked.lease != got[got.len() - 1]);
    }
    got
}

#[test]
fn orders_by_class_share_and_arrival() {
    let asked = [
        Asked::new(1, 7, Class::Normal, 0, &["r"]),
        Asked::new(2, 7, Class::Normal, 1, &["r"]),
        Asked::new(3, 8, Class::Normal, 2, &["r"]),
        Asked::new(4, 9, Class::High, 3, &["r"]),
        Asked::new(5, 6, Class::Low, 0, &["r"]),
    ];
    let numbers = [4, 1, 3, 2, 5].map(lease);
    // No lease waits long enough to rise.
    assert_eq!(all_get(&asked[..4], minutes(3)), numbers[..4]);
    let order = waits(&asked);
    let order = in_order(minutes(3), &order, &Shares::new());
    assert_eq!(*order.last().unwrap().lease, lease(5));
}

#[test]
fn long_wait_rises_above_all_classes() {
    let asked = [
        Asked::new(1, 7, Class::Low, 0, &["r"]),
        Asked::new(2, 8, Class::High, 100, &["r"]),
    ];
    let shares: Shares = [(Identity::User(7), (3, minutes(500)))].into();
    let first = |now| {
        let waiting = waits(&asked);
        in_order(now, &waiting, &shares)[0].lease.clone()
    };
    assert_eq!(first(minutes(89)), lease(2));
    assert_eq!(first(minutes(91)), lease(1));
}

#[test]
fn only_first_lease_of_an_owner_rises() {
    let mut asked: Vec<Asked> = (1..=20)
        .map(|number| Asked::new(number, 7, Class::Normal, 0, &["r"]))
        .collect();
    asked.push(Asked::new(21, 8, Class::Normal, 300, &["r"]));
    let shares: Shares = [(Identity::User(7), (1, Duration::ZERO))].into();
    let waiting = waits(&asked);
    let order = in_order(minutes(301), &waiting, &shares);
    let first_three: Vec<_> = order[..3].iter().map(|waiting| waiting.lease.clone()).collect();
    assert_eq!(first_three, [1, 21, 2].map(lease));
}

#[test]
fn recent_turn_goes_behind_new_owners() {
    let asked = [
        Asked::new(1, 7, Class::Normal, 0, &["r"]),
        Asked::new(2, 8, Class::Normal, 100, &["r"]),
    ];
    let first = |now, last| {
        let mut waiting = waits(&asked);
        waiting[0].last_turn = Some(last);
        in_order(now, &waiting, &Shares::new())[0].lease.clone()
    };
    assert_eq!(first(minutes(500), minutes(10)), lease(2));
    assert_eq!(first(minutes(10) + RECENTLY, minutes(10)), lease(1));
}

#[test]
fn first_fitting_lease_gets_each_rig() {
    let asked = [
        Asked::new(1, 7, Class::Normal, 0, &["a", "b"]),
        Asked::new(2, 8, Class::Normal, 1, &["a"]),
        Asked::new(3, 9, Class::Normal, 2, &["b"]),
        Asked::new(4, 9, Class::Normal, 3, &["c"]),
    ];
    let decisions = decide(minutes(5), &waits(&asked), &[free("a"), free("b")], &Shares::new());
    let grant = |number, rig: &str| Decision::Grant {
        lease: lease(number),
        rig: rig.into(),
    };
    assert_eq!(decisions, [grant(1, "a"), grant(3, "b")]);
}

#[test]
fn only_higher_class_makes_run_give_way() {
    let holder = Identity::User(1);
    let (one, other) = (lease(100), lease(101));
    let held = |rig, lease, class, gives_way| Use {
        rig,
        by: By::Lease {
            lease,
            owner: &holder,
            class,
            until: minutes(60),
            gives_way,
        },
    };
    let rigs = [
        held("a", &one, Class::Normal, true),
        held("b", &other, Class::Low, true),
    ];
    let ask = |class| [Asked::new(1, 7, class, 0, &["a", "b"])];
    assert_eq!(decide(minutes(1), &waits(&ask(Class::Low)), &rigs, &Shares::new()), []);
    let way = |lease: &LeaseId, rig: &str, to: &LeaseId| Decision::GiveWay {
        lease: lease.clone(),
        rig: rig.into(),
        to: to.clone(),
    };
    let high = ask(Class::High);
    assert_eq!(
        decide(minutes(1), &waits(&high), &rigs, &Shares::new()),
        [way(&other, "b", &high[0].lease)]
    );
    // A low lease that has waited long rises in the queue, but no run gives way to it.
    assert_eq!(
        decide(minutes(900), &waits(&ask(Class::Low)), &rigs, &Shares::new()),
        []
    );
    let reserved = [held("a", &one, Class::Low, false)];
    assert_eq!(decide(minutes(1), &waits(&high), &reserved, &Shares::new()), []);
}

#[test]
fn why_reports_place_holders_and_latest() {
    let holder = Identity::User(1);
    let (held_by, other) = (lease(100), lease(101));
    let held = |rig, lease, until| Use {
        rig,
        by: By::Lease {
            lease,
            owner: &holder,
            class: Class::Normal,
            until: minutes(until),
            gives_way: false,
        },
    };
    let rigs = [
        held("a", &held_by, 30),
        held("b", &other, 20),
        Use {
            rig: "c",
            by: By::Closed,
        },
    ];
    let asked = [
        Asked::new(1, 7, Class::Normal, 0, &["a"]),
        Asked::new(2, 8, Class::Normal, 1, &["a"]),
        Asked::new(3, 9, Class::Normal, 2, &["b", "c"]),
        Asked::new(4, 9, Class::Normal, 3, &["c"]),
    ];
    let waiting = waits(&asked);
    let told = |number| why(minutes(5), &lease(number), &waiting, &rigs, &Shares::new()).unwrap();
    let wait = |place, holders: &[&LeaseId], latest: Option<u64>| Wait {
        place,
        holders: holders.iter().map(|lease| (*lease).clone()).collect(),
        latest: latest.map(minutes),
    };
    assert_eq!(told(1), wait(1, &[&held_by], Some(30)));
    assert_eq!(told(2), wait(2, &[&held_by], Some(90)));
    assert_eq!(told(3), wait(1, &[&other], Some(20)));
    assert_eq!(told(4), wait(2, &[], None), "nobody knows when c is back");
    // A run holds the rig, and its end is unknown.
    let mut of_run = held("a", &held_by, 30);
    if let By::Lease { until, .. } = &mut of_run.by {
        *until = Duration::MAX;
    }
    let told = why(minutes(5), &lease(1), &waiting, &[of_run], &Shares::new()).unwrap();
    assert_eq!(told, wait(1, &[&held_by], None));
}

const RIGS: [&str; 4] = ["a", "b", "c", "d"];

fn some_asked() -> impl Strategy<Value = Vec<Asked>> {
    let class = prop_oneof![Just(Class::Low), Just(Class::Normal), Just(Class::High)];
    let rigs = proptest::sample::subsequence(RIGS.to_vec(), 1..=RIGS.len());
    let one = (0_u32..5, class, 0_u64..300, rigs);
    proptest::collection::vec(one, 0..40).prop_map(|all| {
        let asked = |(number, (owner, class, since, rigs)): (usize, (u32, Class, u64, Vec<&str>))| {
            Asked::new(u16::try_from(number).unwrap(), owner, class, since, &rigs)
        };
        all.into_iter().enumerate().map(asked).collect()
    })
}

/// Draws the use of each rig.
fn some_uses() -> impl Strategy<Value = Vec<(u8, Class, bool)>> {
    let class = prop_oneof![Just(Class::Low), Just(Class::Normal), Just(Class::High)];
    proptest::collection::vec((0..3_u8, class, any::<bool>()), RIGS.len())
}

proptest! {
    /// The shortcuts of `decide` don't change its decisions.
    #[test]
    fn decide_matches_reference(
        asked in some_asked(),
        uses in some_uses(),
        had in proptest::collection::vec((0..4_usize, 0..50_u64), 5),
    ) {
        let holder = Identity::User(1);
        let held: Vec<LeaseId> = (0..RIGS.len()).map(|number| lease(2000 + number as u16)).collect();
        let used = |(at, (what, class, gives_way)): (usize, &(u8, Class, bool))| Use {
            rig: RIGS[at],
            by: match what {
                0 => By::Nobody,
                1 => By::Closed,
                _ => By::Lease {
                    lease: &held[at],
                    owner: &holder,
                    class: *class,
                    until: minutes(400),
                    gives_way: *gives_way,
                },
            },
        };
        let rigs: Vec<Use<'_>> = uses.iter().enumerate().map(used).collect();
        let shares: Shares = (0..5).map(Identity::User).zip(had.into_iter().map(|(held, had)| (held, minutes(had)))).collect();
        let waiting = waits(&asked);
        let decided = decide(minutes(300), &waiting, &rigs, &shares);
        prop_assert_eq!(decided, decide_by_looking_at_all(minutes(300), &waiting, &rigs, &shares));
    }

    /// No rig is granted twice, no wanted rig stays free, and no lease gets a rig that it doesn't accept.
    #[test]
    fn grants_each_wanted_rig_once(
        asked in some_asked(),
        free_rigs in proptest::sample::subsequence(RIGS.to_vec(), 0..=RIGS.len()),
    ) {
        let rigs: Vec<Use<'_>> = free_rigs.iter().map(|rig| free(rig)).collect();
        let waiting = waits(&asked);
        let decisions = decide(minutes(300), &waiting, &rigs, &Shares::new());
        let (mut given, mut got) = (BTreeSet::new(), BTreeSet::new());
        for decision in &decisions {
            let Decision::Grant { lease, rig } = decision else { panic!("nobody holds anything") };
            prop_assert!(given.insert(rig.clone()) && got.insert(lease.clone()));
            let of = asked.iter().find(|asked| asked.lease == *lease).unwrap();
            prop_assert!(of.rigs.contains(rig) && free_rigs.contains(&rig.as_str()));
        }
        for asked in asked.iter().filter(|asked| !got.contains(&asked.lease)) {
            prop_assert!(asked.rigs.iter().all(|rig| given.contains(rig) || !free_rigs.contains(&rig.as_str())));
        }
    }

    /// No lease starves. A lease that has risen above all classes waits only for leases that arrived earlier.
    #[test]
    fn no_lease_starves(asked in some_asked(), class in 0..3_usize) {
        let class = [Class::Low, Class::Normal, Class::High][class];
        let own = Asked::new(9999, 99, class, 300, &["r"]);
        let mut left: Vec<Asked> = asked.into_iter().map(|asked| Asked { rigs: vec!["r".into()], ..asked }).collect();
        let before = left.len();
        left.push(own.clone());
        // The owner of this lease has used rigs for a long time.
        let mut shares: Shares = [(own.owner.clone(), (7, minutes(10_000)))].into();
        let mut now = minutes(300);
        for step in 0_u16.. {
            let decisions = decide(now, &waits(&left), &[free("r")], &shares);
            let [Decision::Grant { lease, .. }] = &decisions[..] else { panic!("{decisions:?}") };
            if *lease == own.lease {
                break;
            }
            // Each lease has the rig for ten minutes. Meanwhile two new leases of the highest class arrive, whose
            // owners have used no rigs.
            let risen = 3 * RISES_EVERY.as_secs() / 600;
            prop_assert!(u64::from(step) <= before as u64 + risen + 1, "it starves");
            left.retain(|asked| asked.lease != *lease);
            now += minutes(10);
            for another in 0..2 {
                let number = 1000 + 2 * step + another;
                let since = now.as_secs() / 60;
                left.push(Asked::new(number, 1000 + u32::from(number), Class::High, since, &["r"]));
            }
            shares.entry(Identity::User(0)).or_default().1 += minutes(10);
        }
    }

    /// The order of the input does not change the result.
    #[test]
    fn order_ignores_input_order(asked in some_asked()) {
        let forth = waits(&asked);
        let back: Vec<_> = forth.iter().rev().cloned().collect();
        let ids = |waiting: &[Waiting<'_>]| -> Vec<LeaseId> {
            in_order(minutes(301), waiting, &Shares::new()).iter().map(|waiting| waiting.lease.clone()).collect()
        };
        prop_assert_eq!(ids(&forth), ids(&back));
    }
}
