//! What a kernel on the way may have made of a record is said in the verdict, and decides nothing.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::path::Path;

use verbatim_catalog::judge;
use verbatim_record::{Entry, Verdict, read_file};

/// The verdict of a golden record, as if it were from a rig of that kind.
fn on(kind: &str, name: &str) -> Verdict {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut entries = read_file(&place.join(format!("{name}.rec"))).unwrap();
    let Entry::Begin(begin) = &mut entries[0] else {
        panic!("no Begin");
    };
    begin.rig_kind = kind.into();
    judge(entries).unwrap()
}

#[test]
fn on_a_port_of_this_machine_the_verdict_says_what_a_kernel_may_have_made_and_stays_what_it_is() {
    for (name, words) in [
        ("c14-016-get-protect-2", "the tester's kernel lets be seen"),
        (
            "c14-003-methods-and-attributes",
            "status 0x000C may be the kernel's own answer",
        ),
        ("c16-link-counters", "answered by its driver"),
        ("c14-024-node-description", "NodeDescription may be kept by its driver"),
    ] {
        let (here, simulated) = (on("umad", name), on("virtual", name));
        let said = |verdict: &Verdict| verdict.observations.iter().filter(|of| of.text.contains(words)).count();
        assert_eq!(
            (said(&here), said(&simulated)),
            (1, 0),
            "{name}: {:?}",
            here.observations
        );
        assert_eq!(
            (here.outcome(), here.passed),
            (simulated.outcome(), simulated.passed),
            "{name}"
        );
    }
}
