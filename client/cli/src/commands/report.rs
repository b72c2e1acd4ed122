//! `verbatim report`: reports on a run for people and for programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use tempfile::TempDir;
use verbatim_catalog::Register;
use verbatim_catalog::deviations::Known;
use verbatim_report::{Digest, Past, Reported};

use verbatim_client::v1;

use crate::commands::known;
use crate::commands::runs::artifacts::download_all;
use crate::exit::{self, Usage};
use crate::print;
use crate::server::{self, Finder, Place, run_named};

/// Report on a run.
#[derive(clap::Args)]
#[command(
    after_help = "Without an option, Markdown goes to stdout. FILE may be - for stdout. The verdicts are judged anew \
    from the record, as `verbatim judge` does. Exit codes: 0 the report is written, with any verdict; 2 usage; 3 the \
    record cannot be read or judged; 4 the report is written, but the record has no test."
)]
pub(crate) struct Arguments {
    /// The directory that `verbatim run --record` left; or a run of the daemon: runs/ID, ID, or latest; or a run of
    /// another daemon: ADDR/runs/ID
    run: String,
    #[command(flatten)]
    files: Files,
    /// In the HTML page, compare verdicts and measured times with this earlier run, a directory or a run of the daemon;
    /// give the option once for each run, the oldest first
    #[arg(long, value_name = "RUN")]
    before: Vec<String>,
    /// In the HTML page, compare with the last N runs of this rig that the daemon keeps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100), conflicts_with = "before")]
    history: Option<u16>,
    #[command(flatten)]
    known: known::Arguments,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

/// A function that creates a report in one format.
type Form = fn(&Reported<'_>) -> String;

/// The files of a report.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// One self-contained HTML page: tests, findings, and ladders of the passed tests
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// JUnit XML, for Jenkins, GitLab and GitHub
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The Test Anything Protocol, version 13, which parsers of version 14 also accept
    #[arg(long, value_name = "FILE")]
    tap: Option<PathBuf>,
    /// KTAP, for the kernel's kselftest and kunit.py; with `verbatim run`, - prints it instead of the usual lines
    #[arg(long, value_name = "FILE")]
    ktap: Option<PathBuf>,
    /// Markdown, for a merge request or a ticket
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Files {
    /// Returns each file with its format.
    pub(crate) fn wanted(&self) -> Vec<(&Path, Form)> {
        let all: [(&Option<PathBuf>, Form); 5] = [
            (&self.html, verbatim_report::html),
            (&self.junit, verbatim_report::junit),
            (&self.tap, verbatim_report::tap),
            (&self.ktap, verbatim_report::ktap),
            (&self.markdown, verbatim_report::markdown),
        ];
        let given = all
            .into_iter()
            .filter_map(|(file, form)| Some((file.as_deref()?, form)));
        given.collect()
    }

    /// Returns whether KTAP goes to stdout.
    pub(crate) fn prints_ktap(&self) -> bool {
        self.ktap.as_deref().is_some_and(is_stdout)
    }

    /// Returns the files that an invalid command line names.
    pub(crate) fn named_in(words: &[String]) -> Self {
        let named = |option: &str| {
            let file = words.iter().enumerate().find_map(|(place, word)| {
                match word.strip_prefix(option)? {
                    "" => words.get(place + 1).map(String::as_str),
                    given => given.strip_prefix('='),
                }
                .filter(|file| !file.is_empty() && !file.starts_with('-'))
            });
            file.map(PathBuf::from)
        };
        Self {
            html: named("--html"),
            junit: named("--junit"),
            tap: named("--tap"),
            ktap: named("--ktap"),
            markdown: named("--markdown"),
        }
    }

    /// Removes the files of an earlier run, so that they do not pass for the result of this run.
    pub(crate) fn remove_earlier(&self) -> anyhow::Result<()> {
        for (file, _) in self.wanted() {
            if !is_stdout(file) && file.is_file() {
                std::fs::remove_file(file)
                    .with_context(|| format!("cannot remove the earlier report {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// Writes the files that this run has not yet written, with the reason why it failed.
    pub(crate) fn write_missing(&self, spec: &v1::RunSpec, why: &(v1::Cause, String)) -> anyhow::Result<()> {
        let is_missing = |file: &Option<PathBuf>| {
            let file = file.as_ref()?;
            (!is_stdout(file) && !file.exists() && directory_of(file).is_dir()).then(|| file.clone())
        };
        let missing = Self {
            html: is_missing(&self.html),
            junit: is_missing(&self.junit),
            tap: is_missing(&self.tap),
            ktap: is_missing(&self.ktap),
            markdown: is_missing(&self.markdown),
        };
        missing.write_without_record(spec, why)
    }

    /// Checks that the files of a run can be written at its end. `json`: whether the run prints JSON.
    pub(crate) fn refuse_unwritable(&self, json: bool) -> Result<(), Usage> {
        let on_stdout = self.wanted().iter().filter(|(file, _)| is_stdout(file)).count();
        if on_stdout > usize::from(self.prints_ktap()) {
            return Err(Usage(
                "a report of `verbatim run` needs a file: stdout has the lines of the run; `verbatim report` can print \
                 to stdout"
                    .into(),
            ));
        }
        if json && on_stdout > 0 {
            return Err(Usage(
                "--json and --ktap - both print on stdout; give --ktap a file".into(),
            ));
        }
        for (file, _) in self.wanted() {
            if !is_stdout(file) && !directory_of(file).is_dir() {
                return Err(Usage(format!(
                    "cannot write {}: its directory does not exist",
                    file.display()
                )));
            }
        }
        Ok(())
    }

    /// Writes the files of a run that has ended, from its record. Overwrites existing files.
    pub(crate) fn write_all(&self, record: &Path, known: &[Known], tolerates_known: bool) -> anyhow::Result<()> {
        let kept = verbatim_run::read_bundle(record, Digest::of)?;
        let reported = Reported {
            run: &kept.report.run,
            verdicts: &kept.report.verdicts,
            records: &kept.records,
            before: &[],
            not_judged_anew: &kept.report.not_judged_anew,
            known,
            tolerates_known,
            seal: &kept.seal,
        };
        self.write_each(&reported)
    }

    /// Writes the files of a run that left no record, with one test case that has the reason. A CI server then shows
    /// the reason, and not the absence of tests.
    pub(crate) fn write_without_record(&self, spec: &v1::RunSpec, why: &(v1::Cause, String)) -> anyhow::Result<()> {
        let mut verdict = v1::Verdict {
            test: "run".into(),
            reason: why.1.clone(),
            ..v1::Verdict::default()
        };
        verdict.set_outcome(v1::Outcome::Error);
        verdict.set_cause(why.0);
        let run = v1::RunInfo {
            rig: spec.rig.clone(),
            seed: spec.seed,
            catalogue: verbatim_catalog::VERSION.into(),
            ..v1::RunInfo::default()
        };
        self.write_each(&Reported {
            run: &run,
            verdicts: &[verdict],
            records: &[],
            before: &[],
            not_judged_anew: &BTreeMap::new(),
            known: &[],
            tolerates_known: false,
            seal: "",
        })
    }

    fn write_each(&self, reported: &Reported<'_>) -> anyhow::Result<()> {
        self.wanted().into_iter().try_for_each(|wanted| put(wanted, reported))
    }
}

/// Writes a report to its file, or prints it.
fn put((file, form): (&Path, Form), reported: &Reported<'_>) -> anyhow::Result<()> {
    let text = form(reported);
    if is_stdout(file) {
        return print::document_of_another_form(&text);
    }
    write(file, &text)?;
    print::note(format_args!("wrote {}", file.display()));
    Ok(())
}

/// Returns whether a directory has the whole record of a run.
pub(crate) fn is_record(directory: &Path) -> bool {
    directory.join("manifest.json").exists()
}

pub(crate) fn run(arguments: &Arguments, finder: Finder<'_>) -> anyhow::Result<ExitCode> {
    let mut wanted = arguments.files.wanted();
    if wanted.is_empty() {
        wanted.push((Path::new("-"), verbatim_report::markdown));
    }
    if wanted.iter().filter(|(file, _)| is_stdout(file)).count() > 1 {
        return Err(Usage("two reports would go to stdout; give one of them a file".into()).into());
    }
    // Check for existing files now, because judging the record may take long.
    if let Some((file, _)) = wanted
        .iter()
        .find(|(file, _)| !is_stdout(file) && !arguments.force && file.exists())
    {
        let file = file.display();
        return Err(Usage(format!("{file} exists already; --force overwrites it")).into());
    }
    let of_page = !arguments.before.is_empty() || arguments.history.is_some();
    if of_page && arguments.files.html.is_none() {
        return Err(Usage("--before and --history are for the HTML page; give --html FILE, too".into()).into());
    }
    let deviations = arguments.known.added_to(&Register::default())?;
    let bundle = Source::find(&arguments.run, finder)?;
    let kept = verbatim_run::read_bundle(bundle.directory(), Digest::of)?;
    print::judged_otherwise(&kept.report, &kept.drift);
    let before = match arguments.history {
        Some(count) => kept_before(&kept.report.run, count, &finder.of_run(&arguments.run)?.0)?,
        None => given_before(&arguments.before, finder)?,
    };
    let run = &kept.report.run;
    let known = deviations.known(&run.fingerprint, run.started_ns, &kept.report.verdicts);
    let reported = Reported {
        run,
        verdicts: &kept.report.verdicts,
        records: &kept.records,
        before: &before,
        not_judged_anew: &kept.report.not_judged_anew,
        known: &known,
        tolerates_known: arguments.known.known,
        seal: &kept.seal,
    };
    wanted.into_iter().try_for_each(|wanted| put(wanted, &reported))?;
    Ok(ExitCode::from(if kept.report.verdicts.is_empty() {
        exit::UNDECIDED
    } else {
        0
    }))
}

/// Judges the earlier runs of `--before` again.
fn given_before(named: &[String], finder: Finder<'_>) -> anyhow::Result<Vec<Past>> {
    named
        .iter()
        .map(|run| {
            let bundle = Source::find(run, finder)?;
            let report = verbatim_run::judge_bundle(bundle.directory())?.0;
            Ok(Past {
                run: report.run,
                verdicts: report.verdicts,
            })
        })
        .collect()
}

/// Returns earlier runs of the same rig from the daemon, the oldest first.
fn kept_before(run: &v1::RunInfo, count: u16, place: &Place) -> anyhow::Result<Vec<Past>> {
    let address = place.server("--history")?;
    let filter = format!("rig={} AND state=ENDED", run.rig);
    server::at(address, |client| async move {
        let mut past = Vec::new();
        // The list starts with the latest runs. Some may be later than this run; skip them.
        for listed in client.list_runs(&filter, 1000, "").await?.runs {
            if past.len() == usize::from(count) {
                break;
            }
            let earlier = |info: &v1::RunInfo| info.id != run.id && info.started_ns < run.started_ns;
            if !listed.info.as_ref().is_some_and(earlier) {
                continue;
            }
            // A run in a list has no measured values, so fetch the run itself.
            let whole = client.get_run(&listed.name.parse()?).await?;
            past.extend(whole.info.map(|info| Past {
                run: info,
                verdicts: whole.verdicts,
            }));
        }
        past.reverse();
        Ok(past)
    })
}

fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a file atomically. Writes into a device or a pipe, and does not replace it.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let directory = directory_of(file);
    let written = || -> std::io::Result<()> {
        if file.exists() && !file.is_file() {
            return std::fs::write(file, text);
        }
        // The default mode 0600 of a temporary file is too strict here. With 0666, the umask decides.
        let readable = std::fs::Permissions::from_mode(0o666);
        let mut part = tempfile::Builder::new()
            .prefix(".report-")
            .permissions(readable)
            .tempfile_in(directory)?;
        part.write_all(text.as_bytes())?;
        part.persist(file)?;
        Ok(())
    };
    written().with_context(|| {
        format!(
            "cannot write {}; check that its directory exists, that you may write there, and that the disk has space",
            file.display()
        )
    })
}

/// The directory of the bundle: given, or downloaded from the daemon.
pub(crate) enum Source {
    Here(PathBuf),
    Fetched(TempDir),
}

impl Source {
    /// Returns the directory of that name, else downloads the run from the daemon.
    pub(crate) fn find(run: &str, finder: Finder<'_>) -> anyhow::Result<Self> {
        let directory = Path::new(run);
        if directory.is_dir() {
            return Ok(Self::Here(directory.into()));
        }
        let looks_like_a_path = run.starts_with(['.', '/']) || run.ends_with('/');
        let (place, run) = finder.of_run(run)?;
        let address = match place.server("a run of a daemon") {
            Ok(address) if !looks_like_a_path => address,
            _ => {
                return Err(Usage(format!(
                    "{run:?}: no such directory; expected the directory that `verbatim run --record DIR` left, or a \
                     run of a daemon"
                ))
                .into());
            }
        };
        let fetched = tempfile::tempdir().context("cannot make a temporary directory for the run's files")?;
        server::at(address, |client| async move {
            let name = run_named(&client, run).await?;
            download_all(&client, &name, fetched.path()).await?;
            Ok(Self::Fetched(fetched))
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Here(directory) => directory,
            Self::Fetched(directory) => directory.path(),
        }
    }
}
