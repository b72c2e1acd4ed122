//! The captures of `verbatim export --pcapng`, read by tshark.

use std::collections::HashMap;

use serde_json::Value;
use verbatim_record::{Entry, read_file};
use verbatim_tests::oracle::available;
use verbatim_tests::product::{Place, programs, run};

use crate::command_line::{BROKEN, SHORT, records};

const INSTALL: &str = "sudo apt-get install -y --no-install-recommends tshark";
/// Lowest severity of tshark's expert information that means an error.
const ERROR: u64 = 0x0080_0000;

struct Packet {
    protocols: String,
    comments: Vec<String>,
}

/// Returns every packet of a capture, and asserts that no packet is malformed.
fn dissect(place: &Place, file: &str) -> Vec<Packet> {
    let fields = [
        "frame.protocols",
        "frame.comment",
        "_ws.malformed",
        "_ws.expert.severity",
    ];
    let mut tshark = place.command("tshark");
    tshark.args([
        "-n",
        "-r",
        file,
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "aggregator=|",
    ]);
    let output = run(tshark.args(fields.iter().flat_map(|field| ["-e", field])));
    assert_eq!(output.code(), 0, "{output}");
    let lines = output.stdout.lines().enumerate();
    lines
        .map(|(number, line)| {
            let columns: Vec<_> = line.split('\t').collect();
            let [protocols, comments, malformed, severities] = columns[..] else {
                panic!("{line}")
            };
            assert_eq!(malformed, "", "packet {}: {line}", number + 1);
            let severe = severities
                .split('|')
                .filter_map(|text| text.parse().ok())
                .any(|s: u64| s >= ERROR);
            assert!(!severe, "packet {}: {line}", number + 1);
            Packet {
                protocols: protocols.to_owned(),
                comments: comments.split('|').map(str::to_owned).collect(),
            }
        })
        .collect()
}

/// Returns the packets of each exchange. The key has the test and the exchange's number. Unsolicited packets, such as
/// traps, belong to no exchange and are left out.
fn by_exchange(packets: &[Packet]) -> HashMap<String, Vec<&Packet>> {
    let mut exchanges: HashMap<_, Vec<_>> = HashMap::new();
    for packet in packets {
        match packet.comments[0].split_once(" \"") {
            Some((exchange, _)) => exchanges.entry(exchange.to_owned()).or_default().push(packet),
            None => assert!(packet.comments[0].contains(" unasked ["), "{:?}", packet.comments),
        }
    }
    exchanges
}

fn mads(place: &Place, record: &str) -> usize {
    let mut count = 0;
    for (name, _) in records(&place.path(record)) {
        let entries = read_file(&place.path(record).join(name)).unwrap();
        count += entries
            .iter()
            .filter(|entry| matches!(entry, Entry::Sent(_) | Entry::Arrived(_)))
            .count();
    }
    count
}

#[test]
fn tshark_reads_packets_and_statements() {
    if !available("tshark", INSTALL) {
        return;
    }
    let place = Place::new();
    place.write("rigs.toml", BROKEN);
    for (rig, words) in [("virtual", "Pass: "), ("broken", "Fail: ")] {
        let ran = run(&mut place.verbatim(&format!(
            "run --json --rig-file rigs.toml --rig {rig} --record {rig} {SHORT} c13-* c14-*"
        )));
        let exported = run(&mut place.verbatim(&format!("export {rig} --pcapng {rig}.pcapng")));
        assert_eq!((exported.code(), exported.stdout.as_str()), (0, ""), "{exported}");
        let packets = dissect(&place, &format!("{rig}.pcapng"));
        assert_eq!(packets.len(), mads(&place, rig), "each MAD of the records is a packet");
        for packet in &packets {
            assert!(packet.protocols.contains("infiniband"), "{}", packet.protocols);
            assert!(
                packet.comments.iter().any(|c| c.contains("headers reconstructed")),
                "{:?}",
                packet.comments
            );
        }
        let exchanges = by_exchange(&packets);
        let mut found = 0;
        let report: Value = ran.json();
        for verdict in report["verdicts"].as_array().unwrap() {
            let checks = ["passed", "findings"].map(|list| verdict[list].as_array().unwrap());
            for check in checks.into_iter().flatten() {
                for number in check["exchanges"].as_array().unwrap() {
                    let name = format!("{} exchange #{number}", verdict["test"].as_str().unwrap());
                    let statement = check["statement"].as_str().unwrap();
                    let packets = exchanges.get(&name).unwrap_or_else(|| panic!("no packet of {name}"));
                    for packet in packets {
                        let carries = packet
                            .comments
                            .iter()
                            .any(|comment| comment.contains(&format!(": {statement} ")));
                        assert!(carries, "{name}: {statement} is not in {:?}", packet.comments);
                        found += usize::from(packet.comments.iter().any(|comment| comment.starts_with(words)));
                    }
                }
            }
        }
        assert!(found > 5, "{rig}: {found} comments begin with {words}");
    }
}

#[test]
fn unwritable_capture_error_names_path() {
    let place = Place::new();
    assert_eq!(run(&mut place.verbatim("run C13_013 --record record")).code(), 0);
    place.write("mine.pcapng", "mine");
    for (file, code, words) in [
        (
            "no/such/directory.pcapng",
            3,
            "there is no directory no/such; make it, or name another file",
        ),
        (
            "mine.pcapng",
            2,
            "exists already; name a new file, or write over it with --force",
        ),
    ] {
        let output = run(&mut place.verbatim(&format!("export record --pcapng {file}")));
        assert_eq!((output.code(), output.stdout.as_str()), (code, ""), "{output}");
        assert!(
            output.stderr.contains(file) && output.stderr.contains(words),
            "{output}"
        );
    }
    assert_eq!(std::fs::read_to_string(place.path("mine.pcapng")).unwrap(), "mine");
    let forced = run(&mut place.verbatim("export record --pcapng mine.pcapng --force"));
    assert_eq!(forced.code(), 0, "{forced}");
    assert!(std::fs::metadata(place.path("mine.pcapng")).unwrap().len() > 1_000);
}

#[test]
fn inspect_ignores_reconstructed_lids() {
    let place = Place::new();
    // The test's traps are LID-routed, but a record has no LIDs.
    let ran = run(&mut place.verbatim("run c14-016-get-protect-2 --record record"));
    assert_eq!(ran.code(), 0, "{ran}");
    assert_eq!(run(&mut place.verbatim("export record --pcapng own.pcapng")).code(), 0);
    let inspected = run(&mut place.verbatim("inspect own.pcapng"));
    assert_eq!(inspected.code(), 0, "{inspected}");
    assert!(
        inspected.stdout.contains("its LIDs are not in this capture"),
        "{inspected}"
    );
    assert!(inspected.stdout.contains(" 0 discarded, "), "{inspected}");
}

#[test]
fn failed_export_leaves_no_file() {
    let place = Place::new();
    assert_eq!(run(&mut place.verbatim("run C13_013 --record record")).code(), 0);
    let nowhere = run(&mut place.verbatim("export record --pcapng nowhere/record.pcapng"));
    assert_eq!(nowhere.code(), 3, "{nowhere}");
    assert!(
        nowhere.stderr.contains("there is no directory nowhere; make it"),
        "{nowhere}"
    );
    // The file size limit of the process stands for a full disk: a write beyond the limit fails.
    let script = r#"trap '' XFSZ; ulimit -f 1; exec "$0" export record --pcapng record.pcapng"#;
    let mut bash = place.command("bash");
    let output = run(bash.args(["-c", script]).arg(programs().join("verbatim")));
    assert_eq!(output.code(), 3, "{output}");
    assert!(output.stderr.contains("record.pcapng: "), "{output}");
    let left: Vec<_> = std::fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().contains("pcapng") || name.to_string_lossy().contains("export"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Tests in which tester and device send only sound frames.
const SOUND: &str = "c09-027-* c09-060-send* c09-060-write* c09-060-read c09-060-read-responder c09-060-fetch-add* \
                     c09-060-compare-swap* c09-130-rnr-interval c09-rnr-retry c09-duplicates";

#[test]
fn tshark_finds_no_malformed_frame() {
    if !available("tshark", INSTALL) {
        return;
    }
    let place = Place::new();
    let ran = run(&mut place.verbatim(&format!("run --record record {SOUND}")));
    assert_eq!(ran.code(), 0, "{ran}");
    let exported = run(&mut place.verbatim("export record --pcapng record.pcapng"));
    assert_eq!(exported.code(), 0, "{exported}");
    let mut tshark = place.command("tshark");
    // Disable heuristic dissectors, which may misread the payload.
    tshark.args(["-n", "-r", "record.pcapng", "-T", "fields"]);
    let guesses = [
        "drbd",
        "fcoib",
        "infiniband.eoib",
        "infiniband_sdp",
        "iser",
        "lnet",
        "nvme-rdma",
        "rpcordma",
        "smb_direct",
        "smc",
    ];
    tshark.args(guesses.iter().flat_map(|guess| ["--disable-protocol", *guess]));
    let fields = [
        "frame.interface_name",
        "frame.protocols",
        "_ws.malformed",
        "infiniband.bth.opcode",
    ];
    let output = run(tshark.args(fields.iter().flat_map(|field| ["-e", field])));
    assert_eq!(output.code(), 0, "{output}");
    let (mut dialogue, mut told) = (0, 0);
    for line in output.stdout.lines() {
        let columns: Vec<_> = line.split('\t').collect();
        assert_eq!(columns[2], "", "{line}");
        if columns[1] == "exported_pdu:syslog" {
            assert_eq!(columns[0], "verbs DUT", "{line}");
            told += 1;
            continue;
        }
        assert_eq!(columns[0], "ether0", "{line}");
        dialogue += usize::from(!columns[3].is_empty());
    }
    assert!(dialogue > 100, "{dialogue} packets of connections");
    assert!(told > 100, "{told} lines of what the host was told and said");
}
