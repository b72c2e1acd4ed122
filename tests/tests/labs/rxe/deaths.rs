//! Runs that end suddenly: the agent, the agent's client, the device or the whole machine disappears. The run must give
//! no verdict on the device. Afterwards the kernel's counts must show that every object of the agent is destroyed.

use std::time::{Duration, Instant};

use serde_json::Value;
use verbatim_lab::RxeVerbsLab;
use verbatim_lab::machine::Machine;
use verbatim_tests::product::{Place, Running};

use crate::rxe::guest::{LIMIT, run, rxe_lab, verbs_lab};

/// A test that has queue pairs for about four seconds: six intervals of 655.36 ms.
const VERBS_TEST: &str = "c09-130-rnr-interval-verbs --set rnr_code=0 --set rnr_retry=6";
/// The same test with packets that the tester makes itself.
const PACKET_TEST: &str = "c09-130-rnr-interval --set rnr_code=0 --set rnr_retry=6";
/// The verbs test with a short duration: one interval of 81.92 ms, which even a busy machine can measure.
const SHORT_TEST: &str = "c09-130-rnr-interval-verbs --set rnr_code=26 --set rnr_retry=1";

/// Returns the numbers of queue pairs and memory regions of a device, from `rdma resource`. Returns `None` if the
/// device is absent.
fn resources(machine: &Machine, device: &str) -> Option<(u32, u32)> {
    let ran = machine.run(&format!("rdma resource show {device}"), LIMIT).unwrap();
    let text = ran.text();
    let number = |name: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse().ok()
    };
    // For an absent device, `rdma` omits the device's line but exits with 0.
    text.contains(&format!(": {device}: ")).then(|| {
        number("qp")
            .zip(number("mr"))
            .unwrap_or_else(|| panic!("no counts in: {text}"))
    })
}

/// Waits until the numbers of a device's objects equal `before`.
fn counts_back(machine: &Machine, device: &str, before: Option<(u32, u32)>) {
    let deadline = Instant::now() + Duration::from_secs(240);
    loop {
        let now = resources(machine, device);
        if now == before {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "queue pairs and memory regions of {device}: {before:?} before, {now:?} left"
        );
    }
}

/// Shell function that waits until the agent has a connected queue pair on rxe0.
const UNDER_WAY: &str = "under_way() {
    n=0
    until rdma resource show qp link rxe0 | grep 'type RC' | grep -q 'state RTS'; do
        n=$((n+1)); [ $n -gt 12000 ] && { cat /run/run.json /run/run.err; exit 91; }
        sleep 0.02
    done
}";

/// Starts the verbs test in the machine and runs `death` while the test has queue pairs. Returns the run's exit code
/// and its output.
fn interrupted(lab: &RxeVerbsLab, environment: &str, death: &str) -> (u32, String) {
    let text = run(
        lab.machine(),
        &format!(
            "{environment}\n{UNDER_WAY}\n\
             verbatim run --rig rxe-verbs {VERBS_TEST} --json >/run/run.json 2>/run/run.err &\nrun=$!\nunder_way\n\
             rdma resource show rxe0\n{death}\nwait $run\ncode=$?\ncat /run/run.err\necho \"exit $code\"\ncat /run/run.json"
        ),
    );
    let (before, after) = text.split_once("\nexit ").unwrap_or_else(|| panic!("{text}"));
    eprintln!("{before}");
    let (code, json) = after.split_once('\n').unwrap();
    (code.parse().unwrap(), json.to_owned())
}

/// Checks that a run gave no verdict on the device. Returns the reason in the report.
fn no_verdict_on_the_device(code: u32, json: &str) -> String {
    let report: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: exit {code}: {json}"));
    let verdict = &report["verdicts"][0];
    let outcome = verdict["outcome"].as_str().unwrap_or_default();
    let reason = verdict["reason"].as_str().unwrap_or_default();
    assert!(
        matches!(outcome, "ERROR" | "INCONCLUSIVE") && code != 0,
        "exit {code}: {json}"
    );
    assert!(verdict["cause"].is_string() && !reason.is_empty(), "{json}");
    eprintln!("{outcome} {}: {reason}", verdict["cause"]);
    reason.to_owned()
}

#[test]
fn killed_agent_gives_no_verdict() {
    let Some(lab) = verbs_lab() else { return };
    let before = ["rxe0", "rxe1"].map(|device| resources(lab.machine(), device));
    let (code, json) = interrupted(&lab, &lab.environment(), "kill -9 $(pidof verbatim-agent)");
    let reason = no_verdict_on_the_device(code, &json);
    assert!(
        reason.starts_with("agent at unix:/run/agent.sock: ")
            && reason.contains("killed")
            && reason.contains("start the agent again"),
        "{reason}"
    );
    for (device, before) in ["rxe0", "rxe1"].into_iter().zip(before) {
        counts_back(lab.machine(), device, before);
    }
}

#[test]
fn killed_client_leaves_no_objects() {
    let Some(lab) = verbs_lab() else { return };
    let before = ["rxe0", "rxe1"].map(|device| resources(lab.machine(), device));
    // Without the daemon, `verbatim` itself is the agent's client.
    let own = "export STATE_DIRECTORY=/run/own RUNTIME_DIRECTORY=/run/none VERBATIM_RIG_FILE=/mnt/share/rigs.toml";
    let (code, _) = interrupted(&lab, own, "kill -9 $run");
    assert_eq!(code, 137);
    for (device, before) in ["rxe0", "rxe1"].into_iter().zip(before) {
        counts_back(lab.machine(), device, before);
    }
    // On a busy machine the test may be inconclusive (exit code 4), because it measures an interval. That outcome also
    // shows that the agent served the run.
    let next = run(
        lab.machine(),
        &format!("{own}\nverbatim run --rig rxe-verbs {SHORT_TEST} 2>&1 || [ $? -eq 4 ]"),
    );
    assert!(next.contains("1 test on rxe-verbs"), "{next}");
    for (device, before) in ["rxe0", "rxe1"].into_iter().zip(before) {
        counts_back(lab.machine(), device, before);
    }
}

#[test]
fn removed_device_gives_no_verdict() {
    let Some(lab) = verbs_lab() else { return };
    let before = resources(lab.machine(), "rxe1");
    // Delete the device in the background: the kernel may delay the deletion until no process has the device open.
    let death = "rdma link delete rxe0 & deleted=$!";
    let (code, json) = interrupted(&lab, &lab.environment(), death);
    let reason = no_verdict_on_the_device(code, &json);
    assert!(reason.contains("gone") || reason.contains("away"), "{reason}");
    counts_back(lab.machine(), "rxe0", None);
    counts_back(lab.machine(), "rxe1", before);
}

#[test]
fn killed_machine_is_rig_error() {
    let Some(mut lab) = rxe_lab() else { return };
    let place = Place::new();
    let mut command = place.verbatim(&format!("run --rig rxe {PACKET_TEST} --json --record record"));
    command.envs(lab.environment());
    let running = Running::start(&mut command);
    run(lab.machine(), &format!("{UNDER_WAY}\nunder_way"));
    lab.machine_mut().kill();
    let output = running.end(LIMIT);
    let reason = no_verdict_on_the_device(u32::try_from(output.code()).unwrap(), &output.stdout);
    assert!(
        reason.contains("its host went down") || reason.contains(" is gone"),
        "{reason}"
    );
    assert_eq!(output.json()["verdicts"][0]["cause"], "RIG", "{output}");
    // Judging the partial record gives the same verdicts.
    let judged = verbatim_tests::product::run(&mut place.verbatim("judge record --json"));
    assert_eq!(judged.json()["verdicts"], output.json()["verdicts"]);
}
