//! Checks the kernel's queue of unanswered requests by the kernel's own trace events. The tester is on a native
//! InfiniBand port in a machine, above ib_mad and ib_umad. The device drops a thousand requests with a wrong key.

use std::time::Duration;

use verbatim_lab::machine::MachineError;
use verbatim_lab::{VibLab, VibOptions};
use verbatim_tests::product::programs;

/// Time limit for a thousand proofs of silence in windows of 64, with a margin for the busiest host.
const LIMIT: Duration = Duration::from_secs(590);
/// Number of requests of one agent that the kernel has on the wire at a time. The kernel queues further requests.
const THE_KERNEL_SENDS: u32 = 128;
/// Shell code that traces ib_umad's reads and writes, and gives the rig the widest window.
const BEGIN: &str = "mount -t tracefs trace /sys/kernel/tracing 2>/dev/null; cd /sys/kernel/tracing; echo 16384 >buffer_size_kb\n\
                     echo 1 >events/ib_umad/enable; (cat $VERBATIM_RIG_FILE; echo window = 64) >/run/rigs.toml\n\
                     run='verbatim run --server none --rig vib --rig-file /run/rigs.toml --set violations=1000 \
                     c14-029-counter'\n";
/// Shell code that counts in the trace: the requests written, the requests returned unanswered, and the most
/// outstanding requests at a time.
const COUNT: &str = "awk '/ib_umad_write:/ { w++; n++ } /ib_umad_read_recv:/ { n-- } /ib_umad_read_send:/ { b++; n-- } \
                     n > m { m = n } END { print \"counted\", w + 0, b + 0, m + 0 }' trace; echo >trace\n";

fn start() -> Option<VibLab> {
    let options = VibOptions {
        model: ["--profile", "full", "--seed", "1"].iter().map(Into::into).collect(),
        ..VibOptions::default()
    };
    match VibLab::start(programs(), options) {
        Ok(lab) => Some(lab),
        Err(error) => {
            let missing = matches!(error.downcast_ref(), Some(MachineError::NotInstalled { .. }));
            assert!(missing && std::env::var_os("CI").is_none(), "{error:#}");
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

fn counted(said: &str) -> Vec<u32> {
    let line = said.lines().find_map(|line| line.strip_prefix("counted ")).unwrap();
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

#[test]
fn unanswered_requests_leave_kernel_room() {
    let Some(lab) = start() else { return };
    let ran = |command: &str| {
        let script = format!("{}{BEGIN}{command}", lab.environment());
        lab.machine().run(&script, LIMIT).unwrap().text()
    };
    let said = ran(&format!("$run; {COUNT}"));
    assert!(said.contains("PASS           c14-029-counter"), "{said}");
    let [written, back, at_most] = counted(&said)[..] else {
        panic!("{said}");
    };
    // The kernel gives an unanswered request up only after its timeout, and later on a busy host. Nevertheless, no
    // request may wait in the kernel's queue.
    let bears = at_most <= THE_KERNEL_SENDS;
    assert!(
        written >= 1000 && back >= 900 && bears,
        "{written} {back} {at_most}: {said}"
    );
    assert!(
        at_most > 64,
        "the next window begins before the kernel let go of the last: {said}"
    );

    // Cancel the run while a window of requests is on the wire. The run must end without waiting for them, and must
    // restore the device's key.
    let said = ran(&format!(
        "$run & pid=$!; until [ $(grep -c ib_umad_write: trace) -ge 64 ]; do sleep 0.1; done\n\
         kill -INT $pid; wait; {COUNT} ls $STATE_DIRECTORY/journals; smpquery -D portinfo 0,1 | grep ^Prot"
    ));
    assert!(said.contains("[OPERATOR] the run was cancelled"), "{said}");
    let is_open = said
        .lines()
        .any(|line| line.starts_with("Prot") && line.ends_with(".0"));
    assert!(!said.contains("journal.json") && is_open, "{said}");
    assert!(counted(&said)[1] < 64, "the window was waited for: {said}");
}
