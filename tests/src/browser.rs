//! Chromium without a window.

use std::process::Command;

use crate::oracle::available;
use crate::product::{Place, run};

/// Whether there is one; if not, and nothing may be skipped, a panic.
#[must_use]
pub fn is_here() -> bool {
    available("chromium", "apt-get install chromium")
}

/// What the browser has made of a page when its scripts have had time: time in which nothing is awaited passes at once. `more`
/// are further options of its command line.
///
/// # Panics
/// When it fails.
#[must_use]
pub fn seen(place: &Place, url: &str, more: &[&str]) -> String {
    let mut browser = Command::new("chromium");
    browser
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .arg(format!("--user-data-dir={}", place.path("browser").display()))
        .arg("--virtual-time-budget=5000")
        .args(more)
        .args(["--dump-dom", url]);
    let output = run(&mut browser);
    assert_eq!(output.code(), 0, "{output}");
    output.stdout
}
