//! Loss of frames. A link may lose any frame, because one changed bit is enough. A lost frame must not make a
//! conforming adapter FAIL. An adapter must not PASS because of packets that did not arrive.

use std::collections::BTreeSet;

use verbatim_catalog::TESTS;
use verbatim_device::Profile;
use verbatim_device::rc::RcDefect;
use verbatim_record::{Outcome, Side, Span, Time, Verdict};
use verbatim_sim::{Disturbance, VirtualRig};
use verbatim_tester::{Arrival, Need, Rig, RigInfo, Step, Stimulus, Test};
use verbatim_tests::judged;
use verbatim_wire::MKey;

/// There is one run for each frame, which loses only that frame. From this frame on, there is a run only for every 19th
/// frame.
const SINGLY: usize = 60;

/// Tests that send a packet without effect on a conforming device. The loss of this packet has no effect either, so
/// such a test could pass a device with a defect.
const PROVOKE: [&str; 5] = [
    "c09-060-ack-of-read",
    "c09-060-coalesced-ack",
    "c09-060-reserved-syndrome",
    "c09-psn-sequence",
    "c09-q-key",
];

/// A rig that loses the frame number `lost`, counted over both directions.
struct Lossy {
    rig: VirtualRig,
    passed: usize,
    lost: usize,
}

impl Lossy {
    fn loses(&mut self) -> bool {
        self.passed += 1;
        self.passed == self.lost
    }
}

impl Rig for Lossy {
    fn now(&self) -> Time {
        self.rig.now()
    }

    fn send(&mut self, what: Stimulus<'_>) -> Step<Span> {
        match what {
            Stimulus::Frame(..) if self.loses() => Ok(Span::exactly(self.rig.now())),
            _ => self.rig.send(what),
        }
    }

    fn wait(&mut self, until: Time) -> Arrival {
        loop {
            match self.rig.wait(until) {
                Arrival::Frame(..) if self.loses() => {}
                arrival => return arrival,
            }
        }
    }
}

fn tests_of(need: Need) -> impl Iterator<Item = &'static Test> {
    TESTS.iter().copied().filter(move |test| test.needs.contains(&need))
}

/// Judges a test by the rules of hardware.
fn judged(test: &'static Test, rig: &mut dyn Rig) -> Verdict {
    let info = RigInfo {
        simulated: false,
        ..VirtualRig::info(MKey(0))
    };
    // Send fewer messages than usual, because the number of runs grows with the number of frames.
    let few = [("messages", 300)];
    judged::judged(rig, &info, test, 1, &few).verdict
}

#[test]
fn one_lost_frame_fails_no_adapter() {
    let mut failed = BTreeSet::new();
    for test in tests_of(Need::Packets) {
        // The longest tests repeat the same exchange hundreds of times. Therefore only some of the later frames get a
        // run.
        for lost in (1..SINGLY).chain((SINGLY..).step_by(19)) {
            let rig = VirtualRig::new(Profile::full().vary(3), &[]);
            let mut rig = Lossy { rig, passed: 0, lost };
            let verdict = judged(test, &mut rig);
            if verdict.outcome() == Outcome::Fail {
                failed.insert(format!("{}, frame {lost}: {}", test.id, verdict.reason));
            }
            if rig.passed < lost {
                assert_eq!(verdict.outcome(), Outcome::Pass, "{}: {}", test.id, verdict.reason);
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn lossy_link_fails_no_verbs_test() {
    let mut failed = BTreeSet::new();
    for test in tests_of(Need::Verbs) {
        for seed in 0..20 {
            let disturbance = Disturbance {
                lost: 30,
                seed,
                ..Disturbance::default()
            };
            let mut rig = VirtualRig::new(Profile::full().vary(3), &[]).with_disturbance(disturbance);
            let verdict = judged(test, &mut rig);
            if verdict.outcome() == Outcome::Fail {
                failed.insert(format!("{} seed {seed}: {}", test.id, verdict.reason));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn one_lost_frame_hides_no_defect() {
    let mut passed = BTreeSet::new();
    for test in tests_of(Need::Packets).filter(|test| PROVOKE.contains(&test.id)) {
        for &defect in RcDefect::ALL {
            let adapter = VirtualRig::adapter_profile(Side::Dut);
            let lossy = |lost| Lossy {
                rig: VirtualRig::new(Profile::full(), &[]).with_adapter(adapter.clone(), &[defect]),
                passed: 0,
                lost,
            };
            if judged(test, &mut lossy(0)).outcome() != Outcome::Fail {
                continue;
            }
            for lost in 1.. {
                let mut rig = lossy(lost);
                if judged(test, &mut rig).outcome() == Outcome::Pass {
                    passed.insert(format!("{}, {defect:?}, frame {lost}", test.id));
                }
                if rig.passed < lost {
                    break;
                }
            }
        }
    }
    assert!(passed.is_empty(), "{passed:#?}");
}
