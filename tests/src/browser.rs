//! Chromium without a window.

use std::process::Command;

use crate::oracle::available;
use crate::product::{Place, run};

/// Returns whether Chromium is installed. Panics if it is missing and `CI` is set.
#[must_use]
pub fn is_here() -> bool {
    available("chromium", "apt-get install chromium")
}

/// Returns the DOM of a page after its scripts have run. Time is virtual, so waiting takes no real time. `more` has
/// further options of the command line.
///
/// # Panics
/// When the browser fails.
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
