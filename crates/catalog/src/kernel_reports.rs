//! Reports of errors that the kernels of the rig's hosts printed during a test.

use verbatim_record::{Cause, Evidence, Findings, Outcome, Passed, Side, Trace, kernel_report_name};

use crate::judging::Came;

/// Adds the kernels' reports of errors to the verdict. A report of the DUT's kernel fails the device. After a report of
/// the tester's kernel, a verdict of the device cannot be trusted.
pub(crate) fn with_kernel_reports(trace: &Trace, mut came: Came, findings: &mut Findings<'_>) -> Came {
    for report in &trace.kernel_reports {
        let name = kernel_report_name(&report.text);
        let first = report.text.lines().next().unwrap_or_default();
        if report.side == Side::Tester {
            findings.observe(format!("the tester's kernel reported an error: {first}"), &[]);
            if came.0 != Outcome::Error {
                let reason =
                    format!("the tester's kernel reported an error, {name}: repeat the test on a sound kernel");
                came = (Outcome::Error, Some(Cause::Tester), reason);
            }
            continue;
        }
        // Only after a crash are the last frames of the tester its probable cause.
        let sent = trace
            .timeline
            .frames
            .iter()
            .rev()
            .filter(|frame| trace.stopped.is_some() && !frame.received && !frame.label.is_empty());
        let last = sent.take(2).map(Evidence::from);
        findings
            .claim(KERNEL, format!("kernel {name}"))
            .by_all(last.collect::<Vec<_>>())
            .saw(first.trim())
            .comes_to("no report of an error on the console of the DUT's host", Passed::Fail);
        if came.0 != Outcome::Fail {
            let found = findings.checks.last().map(ToString::to_string).unwrap_or_default();
            let before = if came.2.is_empty() {
                String::new()
            } else {
                format!(" (with it: {} {})", came.0, came.2)
            };
            came = (Outcome::Fail, Some(Cause::Dut), format!("{found}{before}"));
        }
    }
    came
}

/// The statement that the kernel of the DUT's host reports no error.
pub const KERNEL: &str = "9.6 sound kernel";

#[cfg(test)]
mod tests {
    use verbatim_archives::golden;
    use verbatim_record::verbs::KernelReport;
    use verbatim_record::{Entry, Outcome, Side};

    const WARN: &str = "[1] WARNING: CPU: 0 PID: 1 at rxe_mr.c:1 rxe_mr_copy+0x1/0x2";

    #[test]
    fn report_fails_the_kernel_that_made_it() {
        for (side, outcome, part) in [
            (Side::Dut, Outcome::Fail, "kernel WARN in rxe_mr_copy"),
            (
                Side::Tester,
                Outcome::Error,
                "the tester's kernel reported an error, WARN in rxe_mr_copy",
            ),
        ] {
            let mut entries = golden::entries("c09-060-send");
            let text = WARN.to_owned();
            let end = entries.len() - 1;
            entries.insert(end, Entry::KernelReport(KernelReport { side, text }));
            let verdict = crate::judge(entries).unwrap();
            assert_eq!(verdict.outcome(), outcome);
            assert!(verdict.reason.contains(part), "{}", verdict.reason);
        }
    }
}
