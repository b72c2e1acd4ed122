//! Small captures of kinds that occur in practice, stored as files. A generator made the captures; they contain no real
//! traffic.

use std::fs;

use verbatim_tests::product::{Output, Place, run};

use crate::inspect::documents;
use crate::inspect::example::root;

fn inspected(file: &str, options: &str) -> Output {
    // One capture is also part of the documentation.
    let directories = ["tests/data/captures", "docs/examples"].map(|directory| root().join(directory).join(file));
    let path = directories.iter().find(|path| path.exists()).unwrap();
    run(&mut Place::new().verbatim(&format!("inspect {options} {}", path.display())))
}

#[test]
fn wrong_icrcs_of_an_end_are_violations() {
    let output = inspected("both-ends-wrong-icrc.pcap", "--rc");
    assert_eq!(output.code(), 1, "{output}");
    let sum = "6 packets: 6 of 1 reliable connection, 0 not judged; 6 violations";
    assert!(output.stdout.contains(sum), "{output}");

    let output = inspected("responses-byteswapped-icrc.pcap", "--rc");
    assert_eq!(output.code(), 1, "{output}");
    assert!(output.stdout.contains("10.0.0.2 breaks icrc"), "{output}");
    assert!(output.stdout.contains("; 3 violations"), "{output}");
    assert!(!output.stdout.contains("what 10.0.0.2 sends"), "{output}");
}

#[test]
fn wrong_first_icrc_is_shown() {
    let output = inspected("first-packet-wrong-icrc.pcap", "--rc");
    assert_eq!(output.code(), 4, "{output}");
    assert!(output.stdout.contains("#1 10.0.0.1 breaks icrc"), "{output}");
    assert!(
        output.stdout.contains("#2 (with #1) 10.0.0.2 breaks damaged-request"),
        "{output}"
    );
}

#[test]
fn lone_packet_with_wrong_icrc_is_named() {
    let place = Place::new();
    let whole = fs::read(root().join("tests/data/captures/both-ends-wrong-icrc.pcap")).unwrap();
    place.write("one.pcap", &whole[..24 + 16 + 0x7A]);
    let output = run(&mut place.verbatim("inspect --rc one.pcap"));
    assert_eq!(output.code(), 4, "{output}");
    let told = "1 not judged: its ICRC is wrong, and no other packet shows its connection (#1)";
    assert!(output.stdout.contains(told), "{output}");
    assert!(
        output
            .stdout
            .contains("1 packet: 0 of 0 reliable connections, 1 not judged"),
        "{output}"
    );
}

#[test]
fn containers_are_read_by_both_commands() {
    for file in [
        "two-vlan-tags.pcap",
        "linux-cooked-v2.pcap",
        "raw-ip.pcap",
        "vxlan.pcap",
        "infiniband.erf",
    ] {
        let output = inspected(file, "--json");
        assert_eq!(output.code(), 0, "{file}: {output}");
        let (lines, summary) = documents(&output);
        assert_eq!(summary["accepted"], summary["packets"], "{file}: {output}");
        let is_named = |line: &serde_json::Value| line["what"].as_str().is_some_and(|what| what.contains(" RC "));
        assert!(lines.iter().all(is_named), "{file}: {output}");
        let is_tunnel = file == "vxlan.pcap";
        assert_eq!(output.stdout.contains(", in VXLAN"), is_tunnel, "{file}: {output}");

        let output = inspected(file, "--rc --json");
        assert_eq!(output.code(), 0, "{file}: {output}");
        let (connections, of_all) = documents(&output);
        assert_eq!(connections.len(), 1, "{file}: {output}");
        assert_eq!(
            of_all["of_reliable_connections"], summary["packets"],
            "{file}: {output}"
        );
    }
}

#[test]
fn wrong_msn_of_repeated_ack_is_blamed() {
    let output = inspected("duplicate-with-wrong-msn.pcap", "--rc --json");
    assert_eq!(output.code(), 1, "{output}");
    let (connections, _) = documents(&output);
    assert_eq!(connections.len(), 1, "{output}");
    assert_eq!(connections[0]["packets"], 12, "{output}");
    let violations = connections[0]["violations"].as_array().unwrap();
    assert_eq!(
        (violations.len(), &violations[0]["rule"]),
        (1, &"msn".into()),
        "{output}"
    );
    assert_eq!(
        violations[0]["packets"].as_array().unwrap().last().unwrap(),
        8,
        "{output}"
    );
    // With `--lossless`, the repeated SEND breaks a rule too.
    let output = inspected("duplicate-with-wrong-msn.pcap", "--rc --json --lossless");
    let (connections, _) = documents(&output);
    let violations = connections[0]["violations"].as_array().unwrap();
    let last = |violation: &serde_json::Value| violation["packets"].as_array()?.last()?.as_u64();
    let blamed: Vec<Option<u64>> = violations.iter().map(last).collect();
    assert_eq!((connections.len(), blamed), (1, vec![Some(7), Some(8)]), "{output}");
}

#[test]
fn compressed_captures_are_read() {
    let place = Place::new();
    let whole = fs::read(root().join("docs/examples/rc.pcap")).unwrap();
    place.write("rc.pcap", &whole);
    let plain = run(&mut place.verbatim("inspect --rc rc.pcap"));
    for (program, file) in [("gzip", "rc.pcap.gz"), ("zstd", "rc.pcap.zst")] {
        let packed = std::process::Command::new(program)
            .args(["-c", "rc.pcap"])
            .current_dir(place.path("."))
            .output()
            .unwrap();
        place.write(file, &packed.stdout);
        let output = run(&mut place.verbatim(&format!("inspect --rc {file}")));
        assert_eq!((&output.stdout, output.code()), (&plain.stdout, plain.code()), "{file}");
    }
}
