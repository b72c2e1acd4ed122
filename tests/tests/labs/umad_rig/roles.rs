//! The roles of the test processes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use verbatim_record::{Entry, Label};
use verbatim_rig::{OpenRig, RigFile, Session};
use verbatim_tester::{Arrival, Case, MemoryJournal, Need, Rig, Stimulus, Test, run};
use verbatim_wire::{AttributeId, Mad, Method, PortInfo};

const AGAIN: Label<PortInfo> = Label::new("again and again");
const AREA: Label<PortInfo> = Label::new("as found");
const CHANGE: Label<PortInfo> = Label::new("change");

const BLANK: Test = Test {
    needs: &[Need::Mad],
    ..Test::of("role", |_| Ok(()))
};

/// Sends requests until the run is stopped.
const BUSY: Test = Test {
    procedure: |tester| {
        let key = tester.rig_key();
        say("running", "busy");
        loop {
            tester.get(AGAIN, key)?;
        }
    },
    ..BLANK
};

/// Sends requests that get no response, and waits for the responses.
const AWAITING: Test = Test {
    procedure: |tester| {
        say("running", "awaiting");
        let key = tester.rig_key();
        loop {
            tester.send_once::<PortInfo>(AGAIN, Method::TRAP_REPRESS, 0, key)?;
        }
    },
    ..BLANK
};

const PAUSING: Test = Test {
    procedure: |tester| {
        say("running", "pausing");
        tester.pause(Duration::from_secs(600))
    },
    ..BLANK
};

/// The barrier between the role that changes the device and the thread that cancels the run.
static CHANGED: Barrier = Barrier::new(2);

/// Changes a field of the device, then pauses.
const CHANGING: Test = Test {
    procedure: |tester| {
        let key = tester.rig_key();
        let guard = tester.guard(AREA, key)?;
        let changed = guard.quiet().change(|info| {
            let other = info.local_phy_errors() ^ 1;
            info.with_local_phy_errors(other)
        });
        tester.set(CHANGE, &guard, changed)?;
        CHANGED.wait();
        tester.pause(Duration::from_secs(600))
    },
    ..BLANK
};

fn say(key: &str, what: impl std::fmt::Display) {
    // The test harness captures printed output, but not writes to the stream itself.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n{key}: {what}").and_then(|()| out.flush());
}

fn open(cancel: Arc<AtomicBool>) -> OpenRig {
    let file = RigFile::load(None).unwrap();
    let config = file.find("ibsim").unwrap();
    if let Err(error) = verbatim_rig::env::enter(config) {
        panic!("{error}");
    }
    verbatim_rig::open(config, cancel).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn play(role: &str) {
    match role {
        "catalogue" => catalogue(),
        "busy" => say("stopped", perform(&BUSY, Arc::default())),
        "awaiting" => say("stopped", perform(&AWAITING, Arc::default())),
        "pausing" => say("stopped", perform(&PAUSING, Arc::default())),
        "cancel" => cancel(),
        "twice" => {
            say("first", perform(&BLANK, Arc::default()));
            say("second", perform(&BLANK, Arc::default()));
        }
        "window" => window(),
        other => panic!("no role is called {other}"),
    }
}

fn real(session: &mut Session) -> &mut dyn Rig {
    match session {
        Session::Real(rig) => &mut **rig,
        Session::Virtual(_) | Session::Closed => panic!("not a real rig"),
    }
}

/// Runs a test. Returns the reason of its early end.
fn perform(test: &Test, cancel: Arc<AtomicBool>) -> String {
    let mut open = open(cancel);
    let (mut entries, mut journal): (Vec<Entry>, _) = (Vec::new(), MemoryJournal::default());
    let case = Case {
        test,
        seed: 1,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    let ran = run(real(&mut open.session), &open.info, &mut entries, &mut journal, &case);
    if !ran.restored.is_empty() {
        let whole = ran.restored.iter().all(verbatim_record::Restored::is_complete);
        say("restored", if whole { "complete" } else { "not complete" });
    }
    format!("{:?}", ran.stopped)
}

fn catalogue() {
    let mut open = open(Arc::default());
    say("fingerprint", &open.fingerprint);
    assert!(open.info.host_bound >= Duration::from_millis(10));
    let device = verbatim_rig::device_fingerprint(real(&mut open.session), &open.info).unwrap();
    say("device", device);
    let (mut entries, mut journal): (Vec<Entry>, _) = (Vec::new(), MemoryJournal::default());
    let case = Case {
        test: &BLANK,
        seed: 1,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    let ran = run(real(&mut open.session), &open.info, &mut entries, &mut journal, &case);
    let returned = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Returned { errno: 110, .. }))
        .count();
    let silent = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Silence { .. }))
        .count();
    assert_eq!(returned, silent, "what ibsim cannot deliver it gives back at once");
    say("stopped", format!("{:?}", ran.stopped));
}

fn cancel() {
    let cancel: Arc<AtomicBool> = Arc::default();
    let other = Arc::clone(&cancel);
    let canceller = std::thread::spawn(move || {
        CHANGED.wait();
        other.store(true, Ordering::Release);
    });
    say("stopped", perform(&CHANGING, cancel));
    canceller.join().unwrap();
}

/// Measures bare round trips through the rig.
fn window() {
    let mut open = open(Arc::default());
    let rig = real(&mut open.session);
    let get = |id: u64| Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_transaction_id(id);
    let mut answered = 0;
    let mut rounds = |rig: &mut dyn Rig, window: u64, rounds: u64| {
        let start = Instant::now();
        for round in 0..rounds {
            let first = round * window;
            for id in first..first + window {
                rig.send(Stimulus::Mad(0, &get(id))).unwrap();
            }
            for _ in 0..window {
                let Arrival::Mad(0, at, _) = rig.wait(rig.now().after(Duration::from_secs(5))) else {
                    panic!("an answer is lost");
                };
                assert!(at.earliest <= at.latest);
                answered += 1;
            }
        }
        (window * rounds) as f64 / start.elapsed().as_secs_f64()
    };
    rounds(rig, 64, 10);
    let one = rounds(rig, 1, 3200);
    let many = rounds(rig, 64, 40);
    say("answered", answered);
    say("round trips a second, window 1", one.round());
    say("round trips a second, window 64", many.round());
}
