//! The page of the matrix: one HTML file without scripts.

use std::{collections::BTreeSet, fmt::Write as _};

use super::Matrix;

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}th,td{border:1px solid #bbb;\
    padding:2px 8px;text-align:left}thead th{vertical-align:bottom}.PASS{background:#d8f0d8}.FAIL{background:#f6c6c6}\
    .KNOWN{background:#f9e6b8}.ERROR{background:#e2c8f0}.INCONCLUSIVE{background:#fdf6c8}.NONE{color:#666}\
    .changed{outline:2px solid #333;outline-offset:-2px}";

/// Returns the page.
pub(super) fn of(matrix: &Matrix) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rxe of several kernels</title>\
         <style>{STYLE}</style></head><body>\n<h1>rxe of several kernels</h1>\n<p>Seed {}, tests {}. A cell links to the \
         record; its tooltip is the reason. A frame marks an outcome that differs from the kernel before.</p>\n<table>\n\
         <thead><tr><th>test</th>",
        matrix.seed,
        escaped(&matrix.tests.join(" "))
    );
    for kernel in &matrix.kernels {
        let _ = write!(
            page,
            "<th>{}<br>{}</th>",
            escaped(&kernel.version),
            escaped(&kernel.package)
        );
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let tests: BTreeSet<&str> = matrix
        .kernels
        .iter()
        .flat_map(|kernel| kernel.cells.keys())
        .map(String::as_str)
        .collect();
    for test in tests {
        let _ = write!(page, "<tr><th>{}</th>", escaped(test));
        for kernel in &matrix.kernels {
            let Some(cell) = kernel.cells.get(test) else {
                page.push_str("<td class=\"NONE\">NOT RUN</td>");
                continue;
            };
            let class = match cell.outcome.as_str() {
                "FAIL" if cell.known => "KNOWN",
                "PASS" | "FAIL" | "ERROR" | "INCONCLUSIVE" => &cell.outcome,
                _ => "NONE",
            };
            let changed = kernel.changed.iter().any(|(of, ..)| of == test);
            let changed = if changed { " changed" } else { "" };
            let known = if cell.known { " (known)" } else { "" };
            let _ = write!(
                page,
                "<td class=\"{class}{changed}\" title=\"{}\"><a href=\"{}\">{}</a>{known}</td>",
                escaped(&cell.reason),
                escaped(&kernel.record),
                escaped(&cell.outcome)
            );
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n<h2>Changes from kernel to kernel</h2>\n");
    for kernel in &matrix.kernels {
        let _ = writeln!(
            page,
            "<h3>{} {}</h3><ul>",
            escaped(&kernel.package),
            escaped(&kernel.version)
        );
        if let Some(why) = &kernel.not_run {
            let _ = writeln!(page, "<li>NOT RUN: {}</li>", escaped(why));
        }
        for (test, before, now) in &kernel.changed {
            let _ = writeln!(
                page,
                "<li>{}: {} → {}</li>",
                escaped(test),
                escaped(before),
                escaped(now)
            );
        }
        for line in &kernel.changelog {
            let _ = writeln!(page, "<li>changelog: {}</li>", escaped(line));
        }
        for line in &kernel.missing {
            let _ = writeln!(page, "<li>known deviation that did not show: {}</li>", escaped(line));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
