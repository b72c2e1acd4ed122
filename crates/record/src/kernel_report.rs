//! Reports of errors that Linux prints on its console: panic, Oops, BUG, WARN, and reports of its sanitizers.
//!
//! Source: Linux lib/bug.c, kernel/panic.c, mm/kasan/report.c, kernel/locking/lockdep.c, kernel/rcu/tree_stall.h.

/// Most lines of a report that are kept.
const LINES: usize = 80;
/// Most lines between a report and the panic that it causes.
const UNTIL_PANIC: usize = 40;

/// Beginnings of a report's first line, behind the time.
const BEGINNINGS: [&str; 14] = [
    "BUG: ",
    "kernel BUG at ",
    "WARNING: ",
    "Oops",
    "general protection fault",
    "divide error",
    "invalid opcode",
    "UBSAN: ",
    "INFO: task ",
    "INFO: rcu",
    "rcu: INFO: rcu",
    "watchdog: BUG: ",
    "kmemleak: ",
    PANIC,
];
const PANIC: &str = "Kernel panic - not syncing: ";

/// Returns each report on a console, as the lines that the kernel printed. An Oops and the panic that it causes are
/// one report. A line without a kernel timestamp is ignored: programs also write to the console.
#[must_use]
pub fn kernel_reports(console: &str) -> Vec<String> {
    let mut reports: Vec<Vec<&str>> = Vec::new();
    let mut since_line = usize::MAX;
    let mut is_open = false;
    for line in console.lines() {
        since_line = since_line.saturating_add(1);
        let text = without_time(line);
        let in_brackets = line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        let is_timed = in_brackets.is_some_and(|(time, _)| time.trim().parse::<f64>().is_ok());
        let begins = is_timed && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning));
        // An Oops has further lines that look like a beginning, until the end of its trace.
        let is_consequence = is_timed && text.starts_with(PANIC) && since_line <= UNTIL_PANIC;
        if begins && !is_open && !is_consequence {
            reports.push(Vec::new());
        }
        is_open |= begins;
        if is_open || is_consequence {
            since_line = 0;
            if let Some(report) = reports.last_mut().filter(|report| report.len() < LINES || begins) {
                report.push(line);
            }
        }
        let is_one_line = text.starts_with("kmemleak: ");
        is_open &= !text.starts_with("---[ end") && !text.starts_with("=====") && !is_one_line;
    }
    reports.iter().map(|lines| lines.join("\n")).collect()
}

/// Returns a short name of a report: its kind, and the function that it names, such as `panic in rxe_mr_copy`.
#[must_use]
pub fn kernel_report_name(report: &str) -> String {
    let lines = || report.lines().map(without_time);
    let is_panic = lines().any(|line| line.starts_with(PANIC));
    let first = lines().next().unwrap_or_default();
    let kind = if is_panic {
        "panic"
    } else if let Some(sanitizer) = first.strip_prefix("BUG: KASAN: ") {
        return format!("KASAN {}", until(sanitizer, "+0x"));
    } else if first.starts_with("WARNING: CPU") {
        "WARN"
    } else if first.starts_with("BUG: unable") || first.starts_with("Oops") || first.starts_with("general") {
        "Oops"
    } else {
        return first.to_owned();
    };
    let function = lines().find_map(|line| Some(until(line.strip_prefix("RIP: ")?.split_once(':')?.1, "+0x")));
    // In `WARNING: CPU: 0 PID: 1 at FILE:LINE FUNCTION+0x12/0x34`, the last word names the function.
    let last = first
        .split(' ')
        .find(|word| word.contains("+0x"))
        .map(|word| until(word, "+0x"));
    match function.filter(|_| kind != "WARN").or(last).or(function) {
        Some(function) => format!("{kind} in {function}"),
        None => format!("{kind}: {first}"),
    }
}

fn until<'t>(text: &'t str, end: &str) -> &'t str {
    text.split_once(end).map_or(text, |(before, _)| before)
}

/// Returns a line without the time, and without the number of the task or processor, that Linux may print before it.
fn without_time(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((_, behind)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        rest = behind.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const OOPS: &str = "\
[    7.1] rdma_rxe: loaded
[   12.5] BUG: unable to handle page fault for address: ffffc90000a1e000
[   12.5] #PF: supervisor read access in kernel mode
[   12.5] Oops: 0000 [#1] PREEMPT SMP NOPTI
[   12.5] CPU: 0 PID: 9 Comm: ksoftirqd/0 Tainted: G OE 6.1.0-47-amd64
[   12.5] RIP: 0010:crc32_body+0x2a/0x130
[   12.5] Call Trace:
[   12.5] ---[ end trace 0000000000000000 ]---
[   12.5] RIP: 0010:crc32_body+0x2a/0x130
[   12.6] Kernel panic - not syncing: Fatal exception in interrupt
[   12.6] Kernel Offset: disabled
";

    #[test]
    fn oops_and_its_panic_are_one_report() {
        let reports = kernel_reports(OOPS);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!(kernel_report_name(&reports[0]), "panic in crc32_body");
        assert!(!reports[0].contains("loaded"));
    }

    #[test]
    fn reports_are_named_by_kind_and_function() {
        for (line, name) in [
            (
                "[  3.0] WARNING: CPU: 0 PID: 77 at drivers/infiniband/sw/rxe/rxe_pool.c:116 rxe_pool_cleanup+0x12/0x20 [rdma_rxe]",
                "WARN in rxe_pool_cleanup",
            ),
            (
                "[4.2] BUG: KASAN: slab-use-after-free in rxe_recv+0x1/0x9",
                "KASAN slab-use-after-free in rxe_recv",
            ),
            (
                "[1][T9] INFO: task verbatim-agent:71 blocked for more than 120 seconds.",
                "INFO: task verbatim-agent:71 blocked for more than 120 seconds.",
            ),
            (
                "[1] kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
                "kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            ),
        ] {
            let reports = kernel_reports(line);
            assert_eq!(reports.len(), 1, "{line}");
            assert_eq!(kernel_report_name(&reports[0]), name);
        }
    }

    #[test]
    fn two_warnings_are_two_reports() {
        let one = "[1] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2\n[1] ---[ end trace 0 ]---\n";
        assert_eq!(kernel_reports(&format!("{one}[2] noise\n{one}")).len(), 2);
        for other in [
            "[3] eth0 speed is unknown, defaulting to 1000",
            "WARNING: a program wrote this",
            "[agent] WARNING: a program wrote this",
        ] {
            assert!(kernel_reports(other).is_empty(), "{other}");
        }
    }
}
