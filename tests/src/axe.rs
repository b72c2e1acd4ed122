//! Accessibility checks of web pages with axe-core, in Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use verbatim_lab::workspace::root;

use crate::browser;
use crate::oracle::skipped;
use crate::product::Place;
use crate::python::environment;

/// Opens every folded element, runs axe, and replaces the page's text with the result.
const ASK: &str = "document.querySelectorAll('details').forEach(one => one.open = true);
axe.run(document).then(found => {
  const lines = found.violations.flatMap(rule => rule.nodes.map(node =>
    [rule.impact, rule.id, node.target.join(' '), node.failureSummary].join(': ').replace(/\\s+/g, ' ')));
  document.body.textContent = ['asked', ...lines].join('\\n') + '\\nrules: ' + found.passes.length;
});";

/// Asserts that axe finds no violation in a page, in light and dark colours, in a wide and a narrow window. The check
/// removes the page's own scripts first.
///
/// # Panics
/// When axe finds a violation, or cannot run.
pub fn finds_nothing(place: &Place, page: &str) {
    let Some(axe) = axe() else { return };
    let page: String = page
        .split("<script")
        .enumerate()
        .map(|(number, part)| match number {
            0 => part,
            // The page's own scripts have already run, and must not run again.
            _ => part.split_once("</script>").map_or("", |(_, rest)| rest),
        })
        .collect();
    let script = fs::read_to_string(axe).unwrap_or_else(|error| panic!("{}: {error}", axe.display()));
    let file = place.write(
        "asked.html",
        format!("{page}<script>{script}</script><script>{ASK}</script>"),
    );
    let url = format!("file://{}", file.display());
    for (colours, scheme) in [("light", 1), ("dark", 0)] {
        for window in ["1280,900", "400,800"] {
            let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
            let size = format!("--window-size={window}");
            let seen = browser::seen(place, &url, &[&scheme, &size, "--virtual-time-budget=60000"]);
            let answer = seen.split("<body>").nth(1).unwrap_or(&seen);
            let lines: Vec<&str> = answer.lines().collect();
            assert!(
                lines.len() == 2 && lines[0] == "asked" && lines[1].starts_with("rules: "),
                "{colours}, {window}: {}",
                answer.chars().take(4000).collect::<String>()
            );
        }
    }
}

/// Returns the path of axe-core. The library (MPL-2.0, half a megabyte) is not in the repository. pip fetches the
/// library from PyPI, or a mirror of PyPI, by version and hash.
fn axe() -> Option<&'static Path> {
    static AXE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = AXE.get_or_init(|| {
        let python = environment(&root().join("tests/data/axe/requirements.txt"))?;
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let output = Command::new(python)
            .args(["-c", ask])
            .output()
            .map_err(|error| error.to_string())?;
        let packages = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Path::new(&packages).join("axe_playwright_python/axe.min.js"))
    });
    match found {
        Ok(path) => Some(path),
        Err(why) => {
            skipped(
                &format!("axe-core ({why})"),
                "apt-get install python3-venv; the first run then fetches axe-playwright-python from pypi.org by pip",
            );
            None
        }
    }
}
