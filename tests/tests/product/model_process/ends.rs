//! Runs that end suddenly: the tester is killed at each of its MADs or interrupted, or the device disappears.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use verbatim_tests::product::{Output, Running, program, run};
use verbatim_wire::MKey;

use crate::model_process::device::{Device, LOCKS, PLAIN};
use crate::model_process::proxy::{Moment, Proxy};

/// Longest time of a run. Some requests stay unanswered, each for 4.3 s plus the round trip.
const LIMIT: Duration = Duration::from_secs(600);

/// Starts a run and kills it when the proxy has cut the cable at `moment`. Returns the run's output if the run ended
/// earlier.
fn killed_at(device: &Device, arguments: &str, moment: Moment) -> Option<Output> {
    let proxy = Proxy::start(&device.place.path("."), &device.socket(), Some(moment));
    device.rig_file(&proxy.socket);
    let mut running = Running::start(&mut device.verbatim(arguments));
    let ended = loop {
        if proxy.is_cut() {
            running.kill();
            break None;
        }
        if !running.is_running() {
            break Some(running.end(LIMIT));
        }
    };
    device.rig_file(&device.socket());
    ended
}

/// Checks that the run after a kill passes. If there is a journal, the run must restore the device first.
fn next_run(device: &Device, when: &str) {
    let left = device.journal().exists();
    let output = Running::start(&mut device.verbatim(&format!("run {PLAIN}"))).end(LIMIT);
    assert_eq!(output.code(), 0, "{when}: {output}");
    let says = output
        .stderr
        .contains("an earlier run left the device changed; restored first: PortInfo");
    assert_eq!(says, left, "{when}: {output}");
    assert!(!device.journal().exists(), "{when}");
}

/// Kills runs at all moments in parallel, each on its own device. Returns the number of killed runs.
fn kills(key: MKey, mads: impl Iterator<Item = usize>) -> usize {
    let moments = mads.flat_map(|mad| [false, true].map(|arrives| Moment { mad, arrives }));
    let one = move |moment: Moment| {
        let device = Device::start(key);
        let before = device.port_info().unwrap();
        let when = format!("{moment:?}");
        if let Some(output) = killed_at(&device, &format!("run {LOCKS}"), moment) {
            assert_eq!(output.code(), 0, "{when}: {output}");
            device.is_as_before(&before, &when);
            return 0;
        }
        if !device.journal().exists() {
            device.is_as_before(&before, &format!("{when}, without a journal"));
        }
        next_run(&device, &when);
        device.is_as_before(&before, &when);
        1
    };
    let threads: Vec<_> = moments.map(|moment| std::thread::spawn(move || one(moment))).collect();
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .sum()
}

#[test]
fn next_run_restores_after_any_kill() {
    let killed = kills(MKey(0), 10..=28);
    assert!(killed >= 20, "{killed}");
}

#[test]
fn restore_brings_back_devices_own_key() {
    let killed = kills(MKey(0x0123_4567_89AB_CDEF), 14..=24);
    assert!(killed >= 12, "{killed}");
}

#[test]
fn killed_restore_is_repeated() {
    let threads: Vec<_> = (1..=8)
        .map(|mad| {
            std::thread::spawn(move || {
                let device = Device::start(MKey(0));
                let before = device.port_info().unwrap();
                let locked = Moment { mad: 20, arrives: true };
                assert!(killed_at(&device, &format!("run {LOCKS}"), locked).is_none());
                assert!(device.journal().exists());
                assert!(
                    device.port_info().is_none_or(|info| info.m_key() != MKey(0)),
                    "it is locked"
                );
                let again = Moment {
                    mad,
                    arrives: mad % 2 == 0,
                };
                let ended = killed_at(&device, &format!("run {PLAIN}"), again);
                assert!(ended.is_none_or(|output| output.code() == 0));
                next_run(&device, &format!("{again:?} of the restore"));
                device.is_as_before(&before, "killed twice");
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

/// Starts a run of the locking test. Returns when the run has locked the device and waits in vain for a response.
fn waiting(device: &Device, more: &str) -> (Running, Proxy) {
    let proxy = Proxy::start(&device.place.path("."), &device.socket(), None);
    device.rig_file(&proxy.socket);
    let running = Running::start(&mut device.verbatim(&format!("run {LOCKS} {more} --json --record record")));
    let deadline = Instant::now() + LIMIT;
    while proxy.mads() < 7 || !device.journal().exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    (running, proxy)
}

fn came_to(output: &Output, place: usize) -> (String, String) {
    let verdict = &output.json()["verdicts"][place];
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("cause"))
}

#[test]
fn interrupt_restores_device_at_once() {
    let device = Device::start(MKey(0));
    let before = device.port_info().unwrap();
    let (running, proxy) = waiting(&device, "c14-029-counter");
    running.signal(Signal::SIGINT);
    let output = running.end(LIMIT);
    assert_eq!(
        (output.code(), came_to(&output, 0)),
        (3, ("ERROR".into(), "OPERATOR".into())),
        "{output}"
    );
    assert_eq!(came_to(&output, 1).0, "SKIPPED");
    assert!(
        output.stderr.contains("stopped; restored 1 attribute: PortInfo"),
        "{output}"
    );
    assert!(!device.journal().exists());
    drop(proxy);
    device.is_as_before(&before, "interrupted");
}

/// `timeout(1)` sends its signal twice: to its child, then to its whole process group.
#[test]
fn repeated_signal_restores_device() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let device = Device::start(MKey(0));
        let before = device.port_info().unwrap();
        let (running, proxy) = waiting(&device, "c14-029-counter");
        for _ in 0..2 {
            running.signal_delivered(signal);
        }
        let output = running.end(LIMIT);
        assert_eq!(
            (output.code(), came_to(&output, 0)),
            (3, ("ERROR".into(), "OPERATOR".into())),
            "{output}"
        );
        assert!(!device.journal().exists());
        drop(proxy);
        device.is_as_before(&before, "interrupted");
    }
}

#[test]
fn killed_model_is_rig_error() {
    let mut device = Device::start(MKey(0));
    let before = device.port_info().unwrap();
    let mut command = device.verbatim(&format!("run {LOCKS} c14-029-counter --json --record record"));
    let running = Running::start(&mut command);
    let deadline = Instant::now() + LIMIT;
    while !device.journal().exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut restore = device.place.verbatim("rigs restore model --rig-file rigs.toml");
    device.restart_model(|| {
        let output = running.end(LIMIT);
        assert_eq!(
            (output.code(), came_to(&output, 0)),
            (3, ("ERROR".into(), "RIG".into())),
            "{output}"
        );
        assert!(output.stdout.contains("went away"), "{output}");
        assert_eq!(came_to(&output, 1).0, "SKIPPED");
        let restored = run(&mut restore);
        assert_eq!((restored.code(), restored.stdout.as_str()), (3, ""), "{restored}");
        assert!(restored.stderr.contains("model.socket"), "{restored}");
    });
    let judged = run(&mut device.place.verbatim("judge record --json"));
    assert_eq!(
        (judged.code(), came_to(&judged, 0)),
        (3, ("ERROR".into(), "RIG".into())),
        "{judged}"
    );
    assert!(device.journal().exists(), "nobody could restore");
    next_run(&device, "after the model was killed");
    device.is_as_before(&before, "after the model was killed");
}

#[test]
fn missing_model_makes_rig_unavailable() {
    let mut device = Device::start(MKey(0));
    let mut command = device.verbatim(&format!("run {PLAIN} --json"));
    device.restart_model(|| {
        let output = run(&mut command);
        assert_eq!((output.code(), output.stdout.as_str()), (3, ""), "{output}");
        assert!(
            output
                .stderr
                .contains("rig \"model\" is unavailable: no device model answers at"),
            "{output}"
        );
        assert!(output.stderr.contains("`verbatimd model --listen "), "{output}");
    });
    assert_eq!(
        run(&mut device.verbatim(&format!("run {PLAIN}"))).code(),
        0,
        "the successor took over the socket"
    );
}

#[test]
fn second_model_leaves_socket_alone() {
    let device = Device::start(MKey(0));
    let second = run(device
        .place
        .command(program("verbatimd"))
        .args(["model", "--listen", "model.socket"]));
    assert_eq!((second.code(), second.stdout.as_str()), (3, ""), "{second}");
    assert!(second.stderr.contains("model.socket is in use"), "{second}");
    assert!(device.port_info().is_some(), "the first one serves on");
    let socket = device.socket();
    device.model.signal(Signal::SIGTERM);
    let output = device.model.end(Duration::from_secs(240));
    assert_eq!(output.code(), 0, "{output}");
    assert!(!socket.exists());
}
