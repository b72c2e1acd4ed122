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
    let output = run(chromium(place).args(more).args(["--dump-dom", url]));
    assert_eq!(output.code(), 0, "{output}");
    output.stdout
}

/// Prints a page, and returns the number of sheets.
///
/// # Panics
/// When the browser fails.
#[must_use]
pub fn sheets(place: &Place, url: &str) -> usize {
    let pdf = place.path("printed.pdf");
    let output = run(chromium(place)
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(url));
    assert_eq!(output.code(), 0, "{output}");
    let bytes = std::fs::read(&pdf).unwrap();
    let page = b"/Type /Page\n";
    bytes.windows(page.len()).filter(|seen| seen == page).count()
}

/// Returns the width in pixels that the content of a page takes in a window of this width.
///
/// # Panics
/// When the browser fails.
#[must_use]
pub fn width_in(place: &Place, page: &str, window: u32) -> u32 {
    // A window of the browser has a minimum width, but a frame has none.
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = format!("<iframe width=\"{window}\" height=\"800\" frameborder=\"0\" srcdoc=\"{escaped}\"></iframe>");
    let ask = "onload = () => document.title = 'width ' + frames[0].document.documentElement.scrollWidth + ' px'";
    let file = place.write("framed.html", format!("<title></title>{frame}<script>{ask}</script>"));
    let seen = seen(place, &format!("file://{}", file.display()), &[]);
    let width = seen
        .split("<title>width ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    width
        .and_then(|width| width.parse().ok())
        .unwrap_or_else(|| panic!("no width: {seen}"))
}

fn chromium(place: &Place) -> Command {
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
        .arg("--virtual-time-budget=5000");
    browser
}
