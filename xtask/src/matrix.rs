//! `cargo xtask matrix`: the tests of rxe against several kernels of Debian, as one page and one JSON document.
//!
//! Each kernel has a directory below the output, with its record. A kernel whose directory has a report is not run
//! again, so that an interrupted matrix continues where it stopped.

mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use verbatim_lab::machine::ChosenKernel;

/// The kernels by default, the oldest first: packages of Debian 12, and one of its backports.
const KERNELS: [&str; 8] = [
    "linux-image-6.1.0-42-amd64",
    "linux-image-6.1.0-44-amd64",
    "linux-image-6.1.0-47-amd64",
    "linux-image-6.1.0-48-amd64",
    "linux-image-6.1.0-50-amd64",
    "linux-image-6.1.0-53-amd64",
    "linux-image-6.1.0-57-amd64",
    "linux-image-6.12.107+deb12-amd64",
];
/// Most changelog lines that the page shows for one kernel.
const LINES: usize = 12;

/// Arguments of the matrix.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of a kernel package; may be repeated, the oldest version first. Without --kernel and --deb: seven kernels
    /// of Debian 12, and one of its backports.
    #[arg(long, value_name = "PACKAGE")]
    kernel: Vec<String>,
    /// File of a kernel package; may be repeated. These kernels run after those of --kernel.
    #[arg(long, value_name = "FILE")]
    deb: Vec<PathBuf>,
    /// Tests to run, as for `verbatim run`; may be repeated.
    #[arg(long, value_name = "PATTERN", default_value = "c09-*")]
    tests: Vec<String>,
    /// Set a parameter of the tests that have it, as for `verbatim run`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The seed of the runs. One seed for all kernels, so that they get the same packets.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The directory of the page, the document and the records.
    #[arg(long, value_name = "DIR", default_value = "target/matrix")]
    out: PathBuf,
}

/// The document.
#[derive(Debug, Serialize)]
struct Matrix {
    schema: &'static str,
    tests: Vec<String>,
    seed: u64,
    kernels: Vec<Kernel>,
}

/// One kernel, with its verdicts.
#[derive(Debug, Default, Serialize)]
struct Kernel {
    /// Name of the package.
    package: String,
    /// Version of the package; empty if the kernel was not run.
    version: String,
    /// The reason why nothing was run.
    not_run: Option<String>,
    /// Directory of the record, relative to the page.
    record: String,
    cells: BTreeMap<String, Cell>,
    /// Tests whose outcome differs from that of the kernel before: the test, the outcome there, the outcome here.
    changed: Vec<(String, String, String)>,
    /// Lines on RDMA of the package's changelog, since the kernel before.
    changelog: Vec<String>,
    /// Known deviations of the register that this kernel should show, but does not.
    missing: Vec<String>,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Cell {
    outcome: String,
    reason: String,
    /// Whether known deviations of the register explain all findings.
    known: bool,
}

/// The part of a run's document that the matrix needs.
#[derive(Debug, Deserialize)]
struct Report {
    verdicts: Vec<Verdict>,
    #[serde(default)]
    known_deviations: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    test: String,
    outcome: String,
    #[serde(default)]
    reason: String,
}

/// Runs the tests on each kernel that has no report yet, and writes the page and the document.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = std::path::absolute(&arguments.out).context("finding the output directory")?;
    let packages = out.join("packages");
    fs::create_dir_all(&packages).with_context(|| format!("making {}", packages.display()))?;
    let named: Vec<&str> = match arguments.kernel.is_empty() && arguments.deb.is_empty() {
        true => KERNELS.to_vec(),
        false => arguments.kernel.iter().map(String::as_str).collect(),
    };
    let named = named.into_iter().map(|name| (name.to_owned(), None));
    let files = arguments.deb.iter().map(|path| (package_of(path), Some(path.clone())));
    let mut kernels: Vec<Kernel> = Vec::new();
    for (package, file) in named.chain(files) {
        let place = out.join(&package);
        let kernel = match one(arguments, &package, file, (&place, &packages)) {
            Ok(kernel) => kernel,
            Err(error) => {
                eprintln!("xtask: {package} NOT RUN: {error:#}");
                Kernel {
                    package,
                    not_run: Some(format!("{error:#}")),
                    ..Kernel::default()
                }
            }
        };
        kernels.push(kernel);
        compare(&mut kernels);
        let matrix = Matrix {
            schema: "verbatim.matrix.v1",
            tests: arguments.tests.clone(),
            seed: arguments.seed,
            kernels: std::mem::take(&mut kernels),
        };
        // The page is written after each kernel, so that it can be read while the matrix runs.
        let json = serde_json::to_string_pretty(&matrix).context("writing the document")?;
        fs::write(out.join("matrix.json"), json + "\n").context("writing matrix.json")?;
        fs::write(out.join("index.html"), page::of(&matrix)).context("writing index.html")?;
        kernels = matrix.kernels;
    }
    let count = kernels.iter().filter(|kernel| kernel.not_run.is_none()).count();
    println!(
        "{count} of {} kernels ran; {}",
        kernels.len(),
        out.join("index.html").display()
    );
    ensure!(
        count > 0,
        "none of {} kernels ran, expected at least 1; the lines above name the reasons",
        kernels.len()
    );
    Ok(())
}

/// Returns the package's name from the name of its file.
fn package_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.split('_').next().unwrap_or_default().to_owned()
}

/// Runs one kernel, or reads its report if it has run.
fn one(
    arguments: &Arguments,
    package: &str,
    file: Option<PathBuf>,
    (place, packages): (&Path, &Path),
) -> anyhow::Result<Kernel> {
    let (report, facts) = (place.join("report.json"), place.join("package.json"));
    if !report.is_file() {
        let deb = match file {
            Some(file) => file,
            None => downloaded(package, packages)?,
        };
        let version = field(&deb, "Version")?;
        let _ = fs::remove_dir_all(place);
        fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
        let kept = serde_json::json!({ "version": version, "changelog": changelog(&deb, package) });
        fs::write(&facts, kept.to_string()).context("writing package.json")?;
        // The shell writes the document, because the lab's own output goes to stdout too.
        let line = "place=$1; shift; verbatim run --rig rxe --known --record \"$place/record\" --json \"$@\" \
                    >\"$place/part.json\"; code=$?; [ -s \"$place/part.json\" ] && mv \"$place/part.json\" \
                    \"$place/report.json\"; exit $code";
        let words = ["sh", "-c", line, "sh"].map(OsString::from).into_iter();
        let words = words.chain([place.into(), "--seed".into(), arguments.seed.to_string().into()]);
        let set = arguments
            .set
            .iter()
            .flat_map(|set| [OsString::from("--set"), set.into()]);
        let command: Vec<OsString> = words
            .chain(set)
            .chain(arguments.tests.iter().map(OsString::from))
            .collect();
        let kernel = ChosenKernel {
            deb: Some(std::path::absolute(&deb)?),
            ..ChosenKernel::default()
        };
        eprintln!("xtask: {package} {version}");
        verbatim_lab::run_in_rxe(&command, false, &kernel, None)?;
        if deb.starts_with(packages) {
            let _ = fs::remove_file(&deb);
        }
    }
    let text = fs::read_to_string(&report).with_context(|| format!("the run left no {}", report.display()))?;
    let read: Report = serde_json::from_str(&text).with_context(|| format!("reading {}", report.display()))?;
    let kept: serde_json::Value = serde_json::from_str(&fs::read_to_string(&facts)?)?;
    let known = |key: &str| -> Vec<&serde_json::Value> {
        let all = read.known_deviations.iter();
        all.filter(|known| known[key].as_bool() == Some(true)).collect()
    };
    let explained: BTreeSet<&str> = known("explains_all")
        .into_iter()
        .filter_map(|of| of["test"].as_str())
        .collect();
    let cells = read.verdicts.iter().map(|verdict| {
        let cell = Cell {
            outcome: verdict.outcome.clone(),
            reason: verdict.reason.clone(),
            known: explained.contains(verdict.test.as_str()),
        };
        (verdict.test.clone(), cell)
    });
    let lines = kept["changelog"].as_array().into_iter().flatten();
    Ok(Kernel {
        package: package.to_owned(),
        version: kept["version"].as_str().unwrap_or_default().to_owned(),
        record: format!("{package}/record"),
        cells: cells.collect(),
        changelog: lines.filter_map(|line| line.as_str().map(str::to_owned)).collect(),
        missing: missing(&read.known_deviations),
        ..Kernel::default()
    })
}

/// Returns the known deviations that a run should have shown, and did not: those that are neither seen nor only
/// sometimes there.
fn missing(known: &[serde_json::Value]) -> Vec<String> {
    let absent = known.iter().filter(|of| of["showed"].as_str() == Some("NOT_SEEN"));
    absent
        .filter_map(|of| Some(format!("{} in {}", of["id"].as_str()?, of["test"].as_str()?)))
        .collect()
}

/// Downloads a package with apt.
fn downloaded(package: &str, place: &Path) -> anyhow::Result<PathBuf> {
    let output = Command::new("apt-get")
        .args(["download", package])
        .current_dir(place)
        .output();
    let output = output.context("starting apt-get")?;
    let found = fs::read_dir(place)?.flatten().map(|entry| entry.path());
    let found = found.filter(|path| package_of(path) == package).max();
    found.with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().find(|line| line.starts_with("E:")).unwrap_or_default();
        format!("apt-get did not download the package ({why}); run apt-get update, or give its file with --deb")
    })
}

/// Returns a field of a package.
fn field(deb: &Path, name: &str) -> anyhow::Result<String> {
    let output = Command::new("dpkg-deb")
        .arg("--field")
        .arg(deb)
        .arg(name)
        .output()
        .context("starting dpkg-deb")?;
    ensure!(
        output.status.success(),
        "dpkg-deb cannot read {}; download the package again",
        deb.display()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the changelog of a package: its headings, and its lines on RDMA. Empty if the package has none.
fn changelog(deb: &Path, package: &str) -> Vec<String> {
    let script = "dpkg-deb --fsys-tarfile \"$1\" | tar xO \"./usr/share/doc/$2/changelog.gz\" | zcat";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(deb)
        .arg(package)
        .output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let is_wanted = |line: &&str| line.starts_with("linux") || is_of_rdma(line);
    text.lines()
        .filter(is_wanted)
        .take(2000)
        .map(|line| line.trim().to_owned())
        .collect()
}

fn is_of_rdma(line: &str) -> bool {
    ["RDMA/", "IB/", "rxe"].iter().any(|word| line.contains(word))
}

/// Notes what changed between the last kernel and the one before it that ran, and keeps the changelog between them.
fn compare(kernels: &mut [Kernel]) {
    let Some((last, before)) = kernels.split_last_mut() else {
        return;
    };
    let before = before.iter().rev().find(|kernel| kernel.not_run.is_none());
    let is_heading = |line: &String| line.starts_with("linux");
    let Some(before) = before.filter(|_| last.not_run.is_none()) else {
        last.changelog.clear();
        return;
    };
    last.changed = last
        .cells
        .iter()
        .filter_map(|(test, cell)| {
            let old = before.cells.get(test)?;
            (old.outcome != cell.outcome).then(|| (test.clone(), old.outcome.clone(), cell.outcome.clone()))
        })
        .collect();
    // A heading names the version, such as `linux-signed-amd64 (6.1.176+1)` of version 6.1.176-1.
    let heading = format!("({})", before.version.replace('-', "+"));
    let since = last
        .changelog
        .iter()
        .take_while(|line| !is_heading(line) || !line.contains(&heading));
    last.changelog = since.filter(|line| !is_heading(line)).take(LINES).cloned().collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(version: &str, outcome: &str) -> Kernel {
        let cell = Cell {
            outcome: outcome.to_owned(),
            reason: "a <reason>".to_owned(),
            known: false,
        };
        Kernel {
            package: format!("linux-image-{version}"),
            version: version.to_owned(),
            cells: BTreeMap::from([("c09-flush".to_owned(), cell)]),
            changelog: [
                "linux-signed-amd64 (6.1.2+1)",
                "- RDMA/rxe: Fix",
                "linux-signed-amd64 (6.1.1+1)",
                "- RDMA/rxe: Old",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..Kernel::default()
        }
    }

    #[test]
    fn neighbours_differ_by_outcome_and_changelog() {
        let gone = Kernel {
            not_run: Some("gone".to_owned()),
            ..Kernel::default()
        };
        let mut kernels = vec![kernel("6.1.1-1", "FAIL"), gone, kernel("6.1.2-1", "PASS")];
        compare(&mut kernels);
        let last = &kernels[2];
        assert_eq!(
            last.changed,
            [("c09-flush".to_owned(), "FAIL".to_owned(), "PASS".to_owned())]
        );
        assert_eq!(last.changelog, ["- RDMA/rxe: Fix"]);
        let matrix = Matrix {
            schema: "s",
            tests: Vec::new(),
            seed: 0,
            kernels,
        };
        let page = page::of(&matrix);
        assert!(page.contains("a &lt;reason&gt;") && page.contains("NOT RUN"), "{page}");
    }

    #[test]
    fn package_is_named_by_its_file() {
        assert_eq!(package_of(Path::new("/a/linux-image-1_6.1_amd64.deb")), "linux-image-1");
    }
}
