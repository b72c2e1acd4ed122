//! Observations about a kernel between the tester and the device must not affect the outcome.

use verbatim_archives::golden;
use verbatim_catalog::judge;
use verbatim_record::{Entry, Outcome, Span, StopReason, Stopped, Time, Trace, Verdict};

/// Returns a golden record, altered as if it came from this kind of rig.
fn entries_on(kind: &str, name: &str) -> Vec<Entry> {
    let mut entries = golden::entries(name);
    let Entry::Begin(begin) = &mut entries[0] else {
        panic!("no Begin");
    };
    begin.rig_kind = kind.into();
    entries
}

fn on(kind: &str, name: &str) -> Verdict {
    judge(entries_on(kind, name)).unwrap()
}

/// Returns a record in which the kernel gave up the first unanswered request `after_ns` nanoseconds after the request's
/// deadline.
fn given_up(after_ns: i64) -> Vec<Entry> {
    let mut entries = entries_on("umad", "c14-016-get-protect-2");
    let silence = entries
        .iter()
        .position(|entry| matches!(entry, Entry::Silence { .. }))
        .unwrap();
    let Entry::Silence { exchange, at, .. } = entries[silence] else {
        unreachable!()
    };
    let at = Span::exactly(Time(at.earliest.0.saturating_add_signed(after_ns)));
    entries.insert(
        silence + 1,
        Entry::Returned {
            exchange,
            at,
            errno: 110,
        },
    );
    entries
}

#[test]
fn early_return_by_kernel_is_inconclusive() {
    let later = given_up(2_000_000_000);
    let trace = Trace::new(later.clone()).unwrap();
    let silent = trace
        .exchanges
        .iter()
        .find(|exchange| exchange.returned.is_some())
        .unwrap();
    assert!(silent.is_silent(&trace.begin));
    let words = silent.in_words();
    assert!(words.contains("; the host gave the request up after "), "{words}");
    assert_eq!(judge(later).unwrap().outcome(), Outcome::Pass);
    let sooner = given_up(-1_000_000_000);
    assert_eq!(judge(sooner).unwrap().outcome(), Outcome::Inconclusive);
}

#[test]
fn disturbed_rig_makes_pass_inconclusive() {
    let mut entries = entries_on("umad", "c14-024-node-info");
    let text = "a subnet manager at LID 3 took over".to_string();
    let reason = StopReason::Disturbed;
    let before_the_end = entries.len() - 1;
    entries.insert(
        before_the_end,
        Entry::Stopped(Stopped {
            reason,
            text: text.clone(),
        }),
    );
    let verdict = judge(entries).unwrap();
    assert_eq!((verdict.outcome(), verdict.reason), (Outcome::Inconclusive, text));
}

#[test]
fn kernel_observations_leave_verdict_unchanged() {
    for (name, words) in [
        ("c14-016-get-protect-2", "that the tester's kernel dropped"),
        (
            "c14-003-methods-and-attributes",
            "status 0x000C may come from the kernel",
        ),
        ("c16-link-counters", "the driver may answer"),
        ("c14-024-node-description", "the driver may keep NodeDescription"),
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
