//! The metrics for Prometheus.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use verbatim_proto::v1::Outcome;

use super::harness::{Bench, Daemon, LIMIT, request};

/// Returns the whole response to an HTTP/1.1 request.
pub(crate) fn ask(address: &str, first_line: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    // If the first line already contains a Host header, do not add another one.
    let host = if first_line.contains("Host:") {
        ""
    } else {
        " HTTP/1.1\r\nHost: localhost"
    };
    write!(stream, "{first_line}{host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn serves_metrics_and_nothing_else() {
    let bench = Bench::new();
    let rigs = "config_version = 1\n\n[[rig]]\nname = \"broken\"\nkind = \"virtual\"\ndefects = [\"get-answered-at-level-2\"]\n";
    fs::write(bench.path("rigs.toml"), rigs).unwrap();
    fs::write(
        bench.path("c.toml"),
        "config_version = 1\n[metrics]\naddress = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let mut daemon = Daemon::start(bench.command().arg("--config").arg(bench.path("c.toml")));
    let serving = daemon.says("serving");
    let address = serving.split("metrics=").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.expect("the log says where").to_owned();
    let before = ask(&address, "GET /metrics");
    assert!(
        before.contains("\nverbatim_runs_ended_total{outcome=\"fail\"} 0\n"),
        "{before}"
    );

    let mut clients = bench.clients().await;
    let run = clients
        .create(request("broken", &["c14-016-get-protect-2", "c14-024-node-info"]))
        .await;
    assert_eq!(clients.ended(&run.name).await.outcome(), Outcome::Fail);
    // The daemon counts the end of a run slightly after the watchers see the end.
    let counted = |page: &String| page.contains("\nverbatim_runs_ended_total{outcome=\"fail\"} 1\n");
    let mut pages = (0..1000).map(|_| ask(&address, "GET /metrics"));
    let after = pages.find(counted).unwrap_or_else(|| ask(&address, "GET /metrics"));
    assert!(after.starts_with("HTTP/1.1 200"), "{after}");
    for series in [
        "verbatim_runs_created_total 1",
        "verbatim_runs_ended_total{outcome=\"fail\"} 1",
        "verbatim_tests_ended_total{outcome=\"fail\"} 1",
        "verbatim_tests_ended_total{outcome=\"pass\"} 1",
        "verbatim_run_duration_seconds_count 1",
        "verbatim_run_wait_seconds_count 1",
        "verbatim_rig_quarantined{rig=\"broken\"} 0",
    ] {
        assert!(after.lines().any(|line| line == series), "{series}: {after}");
    }
    let id = run.name.trim_start_matches("runs/");
    assert!(!after.contains(id), "a run's id is no label: {after}");
    assert!(ask(&address, "GET /").starts_with("HTTP/1.1 404"));
    assert!(ask(&address, "POST /metrics").starts_with("HTTP/1.1 405"));
}

#[test]
fn bad_address_error_names_line() {
    let bench = Bench::new();
    fs::write(
        bench.path("c.toml"),
        "config_version = 1\n[metrics]\naddress = \"localhost\"\n",
    )
    .unwrap();
    let output = bench
        .command()
        .arg("--config")
        .arg(bench.path("c.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        said.contains("line 3") && said.contains("expected an IP address and a port"),
        "{said}"
    );
}
