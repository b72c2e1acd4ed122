//! Property tests: after any events, the indexes match a search of all leases, and the plan keeps its invariants.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::view::waits;
use super::*;

const RIGS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
enum Happens {
    Reserve {
        owner: u32,
        class: Class,
        rigs: Vec<&'static str>,
        lasts_s: u64,
    },
    Run {
        owner: u32,
        class: Class,
        rig: usize,
    },
    Submit {
        lease: usize,
    },
    End {
        lease: usize,
    },
    Renew {
        lease: usize,
        lasts_s: u64,
    },
    Cancel {
        run: usize,
    },
    Ended {
        rig: usize,
        left: Left,
    },
    Restored {
        rig: usize,
        well: bool,
    },
    AskRestore {
        rig: usize,
    },
    Looked {
        rig: usize,
        well: bool,
    },
    Drain {
        rig: usize,
        out: bool,
    },
    Reload {
        gone: Vec<&'static str>,
    },
    Passes {
        seconds: u64,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    let class = || prop_oneof![Just(Class::Low), Just(Class::Normal), Just(Class::High)];
    let rig = || 0..RIGS.len();
    let some = |least| proptest::sample::subsequence(RIGS.to_vec(), least..=RIGS.len());
    let number = || 0..64_usize;
    prop_oneof![
        4 => (0..4_u32, class(), some(1), 1..5000_u64)
            .prop_map(|(owner, class, rigs, lasts_s)| Happens::Reserve { owner, class, rigs, lasts_s }),
        4 => (0..4_u32, class(), rig()).prop_map(|(owner, class, rig)| Happens::Run { owner, class, rig }),
        2 => number().prop_map(|lease| Happens::Submit { lease }),
        2 => number().prop_map(|lease| Happens::End { lease }),
        1 => (number(), 1..5000_u64).prop_map(|(lease, lasts_s)| Happens::Renew { lease, lasts_s }),
        1 => number().prop_map(|run| Happens::Cancel { run }),
        4 => (rig(), prop_oneof![3 => Just(Left::AsFound), 1 => Just(Left::Changed)])
            .prop_map(|(rig, left)| Happens::Ended { rig, left }),
        2 => (rig(), any::<bool>()).prop_map(|(rig, well)| Happens::Restored { rig, well }),
        1 => rig().prop_map(|rig| Happens::AskRestore { rig }),
        1 => (rig(), any::<bool>()).prop_map(|(rig, well)| Happens::Looked { rig, well }),
        1 => (rig(), any::<bool>()).prop_map(|(rig, out)| Happens::Drain { rig, out }),
        1 => some(0).prop_map(|gone| Happens::Reload { gone }),
        2 => (1..4000_u64).prop_map(|seconds| Happens::Passes { seconds }),
    ]
}

/// A plan, and the state of a scheduler that carries out its actions.
struct World {
    plan: Plan,
    now: Duration,
    serial: u16,
    leases: Vec<LeaseId>,
    runs: Vec<RunId>,
    tokens: BTreeSet<u64>,
    ended: BTreeSet<LeaseId>,
    begun: BTreeSet<RunId>,
}

fn found(rig: &str) -> Found<'_> {
    Found {
        rig,
        left: Left::AsFound,
        drained: None,
        leaving: false,
        is_looked_at: rig == "e",
    }
}

impl World {
    fn new() -> Self {
        let now = Duration::from_secs(10);
        let (plan, actions) = Plan::new(now, RIGS.iter().map(|rig| found(rig)), Vec::new(), 0);
        assert!(actions.is_empty());
        Self {
            plan,
            now,
            serial: 0,
            leases: Vec::new(),
            runs: Vec::new(),
            tokens: BTreeSet::new(),
            ended: BTreeSet::new(),
            begun: BTreeSet::new(),
        }
    }

    fn id(&mut self) -> RunId {
        self.serial += 1;
        RunId::new(0, self.serial)
    }

    fn lease(&mut self, owner: u32, class: Class, rigs: &[&str], lasts_s: u64, is_of_run: bool) -> Lease {
        let run = self.id();
        let id = LeaseId::like(&run);
        self.leases.push(id.clone());
        if is_of_run {
            self.runs.push(run.clone());
        }
        let run = is_of_run.then_some(run);
        Lease {
            id,
            owner: Identity::User(owner),
            class,
            rigs: rigs.iter().map(ToString::to_string).collect(),
            lasts: Duration::from_secs(lasts_s),
            runs: run.iter().cloned().collect(),
            run,
            since: self.now,
            held: None,
            ends: None,
            gives_way: None,
            began: false,
        }
    }

    fn of<T: Clone>(all: &[T], number: usize) -> Option<T> {
        (!all.is_empty()).then(|| all[number % all.len()].clone())
    }

    fn happens(&mut self, what: Happens) -> Vec<Action> {
        let now = self.now;
        match what {
            Happens::Reserve {
                owner,
                class,
                rigs,
                lasts_s,
            } => {
                let lease = self.lease(owner, class, &rigs, lasts_s, false);
                self.plan.ask(now, lease).unwrap_or_default()
            }
            Happens::Run { owner, class, rig } => {
                let lease = self.lease(owner, class, &RIGS[rig..=rig], 86_400, true);
                self.plan.ask(now, lease).unwrap_or_default()
            }
            Happens::Submit { lease } => {
                let Some(lease) = Self::of(&self.leases, lease) else {
                    return Vec::new();
                };
                let run = self.id();
                let actions = self.plan.submit(&lease, run.clone());
                if actions.is_ok() {
                    self.runs.push(run);
                }
                actions.unwrap_or_default()
            }
            Happens::End { lease } => {
                let lease =
                    Self::of(&self.leases, lease).filter(|id| self.plan.lease(id).is_some_and(|of| of.run.is_none()));
                lease.map_or_else(Vec::new, |lease| self.plan.end_lease(now, &lease, "was ended"))
            }
            Happens::Renew { lease, lasts_s } => {
                let Some(lease) = Self::of(&self.leases, lease) else {
                    return Vec::new();
                };
                let renewed = self
                    .plan
                    .renew(now, &lease, Duration::from_secs(lasts_s), Duration::from_secs(86_400));
                renewed.unwrap_or_default()
            }
            Happens::Cancel { run } => match Self::of(&self.runs, run).map(|run| self.plan.cancel(now, &run)) {
                Some(Cancelled::Waiting(actions) | Cancelled::UnderWay(actions)) => actions,
                _ => Vec::new(),
            },
            Happens::Ended { rig, left } => match self.plan.slot(RIGS[rig]).map(|slot| &slot.phase) {
                Some(Phase::Running(_)) => self.plan.run_ended(now, RIGS[rig], left),
                _ => Vec::new(),
            },
            Happens::Restored { rig, well } => match self.plan.slot(RIGS[rig]).map(|slot| &slot.phase) {
                Some(Phase::Restoring) => {
                    let how = if well { Ok(()) } else { Err("no answer".into()) };
                    self.plan.restore_ended(now, RIGS[rig], how)
                }
                _ => Vec::new(),
            },
            Happens::AskRestore { rig } => self.plan.restore(RIGS[rig]).unwrap_or_default(),
            Happens::Looked { rig, well } => match self.plan.slot(RIGS[rig]).map(|slot| &slot.phase) {
                Some(Phase::Looking) => {
                    let how = if well { Ok(()) } else { Err("no cable".into()) };
                    self.plan.looked(now, RIGS[rig], how)
                }
                _ => Vec::new(),
            },
            Happens::Drain { rig, out } => {
                let why = out.then(|| "out".to_string());
                self.plan.drain(now, RIGS[rig], why).unwrap_or_default()
            }
            Happens::Reload { gone } => {
                let stay: Vec<String> = gone.iter().map(ToString::to_string).collect();
                let missing: Vec<Found<'_>> = RIGS
                    .iter()
                    .filter(|rig| !gone.contains(rig))
                    .map(|rig| found(rig))
                    .collect();
                self.plan.reload(now, missing, &stay).1
            }
            Happens::Passes { seconds } => {
                self.now += Duration::from_secs(seconds);
                let mut actions = self.plan.tick(self.now);
                if self.plan.is_look_due(self.now) {
                    actions.extend(self.plan.look(self.now));
                }
                actions
            }
        }
    }

    /// Records the actions, and checks them.
    fn follow(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::LeaseEnded(lease, _) => {
                    assert!(self.ended.insert(lease.id.clone()), "{} ended twice", lease.id);
                }
                Action::Start(run) => {
                    self.begun.insert(run.clone());
                    let under = self.plan.lease_of(run).expect("a run that begins has a lease");
                    assert!(under.held.is_some(), "{run} begins without a rig");
                }
                _ => {}
            }
        }
    }

    /// Checks the invariants.
    fn holds(&mut self) {
        let plan = &self.plan;
        let all: Vec<&Lease> = plan.leases.values().collect();
        // The indexes match a search of all leases.
        let sets = (0..RIGS.len())
            .map(|at| vec![RIGS[at]])
            .chain([vec!["a", "c"], RIGS.to_vec(), vec!["no such rig"]]);
        for rigs in sets {
            let rigs: Vec<String> = rigs.iter().map(ToString::to_string).collect();
            let by_index: Vec<&LeaseId> = plan.leases.of_rigs(&rigs).into_iter().map(|lease| &lease.id).collect();
            let looked = all
                .iter()
                .filter(|lease| lease.rigs.iter().any(|rig| rigs.contains(rig)));
            assert_eq!(by_index, looked.map(|lease| &lease.id).collect::<Vec<_>>(), "{rigs:?}");
        }
        for owner in (0..5).map(Identity::User) {
            let by_index: Vec<&LeaseId> = plan.leases.of_owner(&owner).map(|lease| &lease.id).collect();
            let looked = all.iter().filter(|lease| lease.owner == owner);
            assert_eq!(by_index, looked.map(|lease| &lease.id).collect::<Vec<_>>(), "{owner}");
        }
        assert_eq!(plan.leases.len(), all.len());
        assert_eq!(
            plan.leases.of_runs(),
            all.iter().filter(|lease| lease.run.is_some()).count()
        );
        // Each waiting run has an entry that names its lease.
        let of_run: BTreeMap<&RunId, &LeaseId> = plan.of_run.iter().collect();
        for lease in &all {
            for run in &lease.runs {
                assert_eq!(of_run.get(run), Some(&&lease.id));
            }
        }
        // A rig is held at most once, and the rig and its lease name each other.
        let mut held = BTreeSet::new();
        for lease in &all {
            if let Some(of) = &lease.held {
                assert!(held.insert(of.rig.clone()), "{} is held twice", of.rig);
                assert!(
                    lease.rigs.contains(&of.rig) || plan.slots[&of.rig].leaving,
                    "{} was not asked for",
                    of.rig
                );
                assert_eq!(plan.slots[&of.rig].holder.as_ref(), Some(&lease.id));
            }
            assert!(!self.ended.contains(&lease.id), "{} has ended", lease.id);
        }
        for (rig, slot) in &plan.slots {
            if let Some(holder) = &slot.holder {
                let of = plan.leases.get(holder).and_then(|lease| lease.held.as_ref());
                assert_eq!(of.map(|held| &held.rig), Some(rig));
            }
            // No usable rig stays free while a lease waits for it.
            let is_free = plan.used(self.now, rig, slot).by == crate::sched::queue::By::Nobody;
            let wanted = all.iter().any(|lease| waits(lease) && lease.rigs.contains(rig));
            assert!(!is_free || !wanted, "{rig} is free, and somebody waits for it");
        }
        // The next tick must not come later than the first expiry, or a lease would hold its rig for too long.
        let first = all
            .iter()
            .filter(|lease| lease.ends.is_none())
            .filter_map(|lease| Some(lease.held.as_ref()?.until))
            .min();
        if let Some(first) = first {
            assert!(
                plan.next_end().is_some_and(|next| next <= first),
                "nobody looks when {first:?} is over"
            );
        }
        let tokens: Vec<u64> = all
            .iter()
            .filter_map(|lease| Some(lease.held.as_ref()?.token))
            .collect();
        assert_eq!(
            tokens.len(),
            tokens.iter().collect::<BTreeSet<_>>().len(),
            "two grants of one token"
        );
        self.tokens.extend(tokens);
    }
}

proptest! {
    #[test]
    fn plan_keeps_its_invariants(
        all in proptest::collection::vec(happens(), 1..120)
    ) {
        let mut world = World::new();
        for what in all {
            let actions = world.happens(what);
            world.follow(&actions);
            world.holds();
        }
    }
}
