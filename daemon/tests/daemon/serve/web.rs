//! The web page as a browser requests it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use verbatim_proto::v1::Outcome;

use super::harness::{Bench, Daemon, request};
use super::metrics::ask;

const WEB: &str = "config_version = 1\n[web]\naddress = \"127.0.0.1:0\"\n";

fn role(role: &str, rigs: &str) -> String {
    format!("[[role]]\nrole = \"{role}\"\nwho = [\"web\"]\nrigs = [{rigs}]\n")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("headers end").1
}

#[tokio::test]
async fn page_shows_only_permitted_rigs() {
    let bench = Bench::new();
    let rig = |name: &str, more: &str| format!("\n[[rig]]\nname = \"{name}\"\nkind = \"virtual\"\n{more}");
    let broken = rig("broken", "defects = [\"get-answered-at-level-2\"]\n");
    let rigs = format!("config_version = 1\n{broken}{}", rig("secret", ""));
    fs::write(bench.path("rigs.toml"), rigs).unwrap();
    let config = format!("{WEB}names = [\"lab.example\"]\n{}", role("viewer", "\"broken\""));
    fs::write(bench.path("c.toml"), config).unwrap();
    let mut daemon = Daemon::start(bench.command().arg("--config").arg(bench.path("c.toml")));
    let serving = daemon.says("serving");
    let address = serving.split("web=").nth(1).and_then(|rest| rest.split(' ').next());
    let address = address.expect("the log says where").to_owned();

    let mut clients = bench.clients().await;
    let shown = clients.create(request("broken", &["c14-016-get-protect-2"])).await;
    assert_eq!(clients.ended(&shown.name).await.outcome(), Outcome::Fail);
    let hidden = clients.create(request("secret", &["c14-024-node-info"])).await;
    assert_eq!(clients.ended(&hidden.name).await.outcome(), Outcome::Pass);

    let page = ask(&address, "GET /");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("page.js"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{page}"
    );
    let rigs: Value = serde_json::from_str(body(&ask(&address, "GET /api/rigs"))).unwrap();
    assert_eq!(rigs["rigs"].as_array().unwrap().len(), 1, "{rigs}");
    assert_eq!(
        (&rigs["rigs"][0]["name"], &rigs["rigs"][0]["state"]),
        (&"rigs/broken".into(), &"IDLE".into())
    );
    let runs: Value = serde_json::from_str(body(&ask(&address, "GET /api/runs"))).unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(
        (&runs["runs"][0]["outcome"], &runs["runs"][0]["counts"]["FAIL"]),
        (&"FAIL".into(), &1.into())
    );
    assert_eq!(runs["runs"][0]["name"], shown.name);
    let one: Value = serde_json::from_str(body(&ask(&address, &format!("GET /api/{}", shown.name)))).unwrap();
    assert_eq!(one["verdicts"][0]["test"], "c14-016-get-protect-2", "{one}");
    let report = ask(&address, &format!("GET /{}", shown.name));
    assert!(
        report.starts_with("HTTP/1.1 200") && report.contains("<a href=\"../\">"),
        "{report}"
    );
    // The caller on the socket is an admin and sees the keys. The page shows no keys.
    let whole = format!("{:?}", clients.get(&shown.name).await);
    let keys: BTreeSet<&str> = whole.split("M_Key 0x").skip(1).map(|rest| &rest[..16]).collect();
    assert!(keys.len() > 2, "{whole}");
    for key in keys.iter().filter(|key| **key != "0".repeat(16)) {
        let bytes: Vec<&str> = (0..8).map(|byte| &key[2 * byte..2 * byte + 2]).collect();
        for form in [(*key).to_string(), bytes.join(" ")] {
            assert!(!report.contains(&form), "{form}");
        }
    }
    assert!(report.contains("M_Key #1"));

    let refused = ask(&address, &format!("GET /{}", hidden.name));
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    assert!(ask(&address, "GET /runs/../../etc/passwd").starts_with("HTTP/1.1 404"));
    assert!(ask(&address, "GET /runs/x").starts_with("HTTP/1.1 400"));
    assert!(ask(&address, "POST /api/rigs").starts_with("HTTP/1.1 405"));
    let host = |name: &str| ask(&address, &format!("GET / HTTP/1.1\r\nHost: {name}\r\nX: "));
    assert!(host("lab.example").starts_with("HTTP/1.1 200"));

    // Clients that send nothing, or never end their request, do not keep another client out.
    let slow = |number: usize| {
        let mut slow = TcpStream::connect(&address).unwrap();
        if number.is_multiple_of(2) {
            slow.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").unwrap();
        }
        slow
    };
    let mut slow: Vec<TcpStream> = (0..200).map(slow).collect();
    assert!(ask(&address, "GET /api/rigs").starts_with("HTTP/1.1 200"));
    let evicted = slow[0].read(&mut [0; 64]);
    assert!(evicted.is_err() || evicted.is_ok_and(|count| count == 0));
}

#[test]
fn page_needs_a_viewer_role() {
    let bench = Bench::new();
    for (config, expected) in [
        (WEB.to_owned(), "no [[role]] has who = [\"web\"]"),
        (
            format!("{WEB}{}", role("operator", "")),
            "expected role = \"viewer\", seen \"operator\"",
        ),
    ] {
        fs::write(bench.path("c.toml"), config).unwrap();
        let output = bench
            .command()
            .arg("--config")
            .arg(bench.path("c.toml"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
}
