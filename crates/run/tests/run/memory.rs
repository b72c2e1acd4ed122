//! Memory use of a run. The process may be the daemon, so it must stay small.

use std::process::Command;
use std::sync::Arc;

use verbatim_record_proto::v1::{Outcome, RunSpec};
use verbatim_rig::RigFile;
use verbatim_run::{Request, RunId, execute};

/// Limit of the peak memory, in KiB. It is above the 140 MiB of the largest test, and below that test's use with a
/// second copy of the entries.
const MOST_KIB: u64 = 190 << 10;
/// Environment variable of the child process that measures.
const ALONE: &str = "VERBATIM_TEST_MEMORY_ALONE";

/// Measures in a child process, because the memory of other tests in this process would count too.
#[test]
fn longest_record_has_no_second_copy() {
    if std::env::var_os(ALONE).is_some() {
        return runs_in_little_memory();
    }
    let name = "memory::longest_record_has_no_second_copy";
    let alone = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&alone.stderr)
    );
}

fn runs_in_little_memory() {
    let file = RigFile::parse(
        b"config_version = 1\n[[rig]]\nname = \"a\"\nkind = \"virtual\"\n",
        "rigs.toml".as_ref(),
    )
    .unwrap();
    let request = Request {
        id: RunId::of_now(),
        rig: file.rigs[0].clone(),
        spec: RunSpec {
            rig: "a".into(),
            patterns: vec!["c14-024-vl-arbitration-ca".into()],
            ..RunSpec::default()
        },
        record: None,
        cancel: Arc::default(),
        shrinks: true,
        rig_options: String::new(),
        lease: Arc::default(),
    };
    let report = execute(&request, &mut |_| {}).unwrap();
    assert_eq!(report.verdicts[0].outcome(), Outcome::Pass);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < MOST_KIB, "{peak} KiB");
}
