//! A simulator, a directory for the program, and the device's tables, read by another program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use verbatim_lab::host::{apt_line, program};
use verbatim_lab::{IbsimLab, LabError, TWO_ADAPTERS};
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::{Output, Place, Running, run};

/// Longest time of a run, on the busiest host. A run that hangs takes far longer.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(480);
/// A test that changes the device at once, and then takes seconds.
pub(crate) const LONG: &str = "c14-024-vl-arbitration-ca";
/// A test to run after [`LONG`].
pub(crate) const AFTER: &str = "c14-029-trap-repress";
/// A test that changes nothing on the device.
pub(crate) const PLAIN: &str = "c13-013-resp-time-value";

/// Queries of smpquery for every attribute of an adapter that smpquery knows.
const TABLES: [&str; 6] = ["nodeinfo", "nodedesc", "portinfo", "pkeys", "sl2vl", "vlarb"];
/// Counters, which a restore cannot undo.
const COUNTERS: [&str; 3] = ["MkeyViolations", "PkeyViolations", "QkeyViolations"];

/// A simulator for one test.
pub(crate) struct Sim {
    pub(crate) lab: IbsimLab,
    pub(crate) place: Place,
}

impl Sim {
    /// Starts a simulator. Returns `None` with a message if ibsim is not installed; fails if `CI` is set.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(TWO_ADAPTERS)
    }

    /// Starts a simulator of this fabric, as [`Sim::start`] does.
    pub(crate) fn start_with(fabric: &str) -> Option<Self> {
        let lab = match IbsimLab::start_with(fabric) {
            Ok(lab) => lab,
            Err(error @ LabError::NotInstalled { .. }) => {
                skipped("ibsim", &error.to_string());
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        if program("smpquery").is_none() {
            skipped("smpquery", &apt_line(&["infiniband-diags"]));
            return None;
        }
        let place = Place::new();
        Some(Self { lab, place })
    }

    /// Returns a command of `verbatim` with these arguments and the lab's rig file.
    pub(crate) fn verbatim(&self, arguments: &str) -> Command {
        let mut command = self.place.verbatim(arguments);
        command.env("VERBATIM_RIG_FILE", self.lab.rig_file());
        command
    }

    /// Starts the long test with a record, and returns when the test has changed the device.
    pub(crate) fn long_run(&self, more: &str) -> Running {
        let mut running =
            Running::start(&mut self.verbatim(&format!("run --rig ibsim {LONG} {more} --json --record record")));
        let record = self.place.path(&format!("record/001-{LONG}.rec"));
        let deadline = Instant::now() + Duration::from_secs(240);
        // The test writes legal parts first, which need far less than 1 MiB of record. The sweep then adds tens of
        // megabytes.
        while fs::metadata(&record).map_or(0, |file| file.len()) < 1 << 20 {
            if !running.is_running() || Instant::now() > deadline {
                panic!("no record of 1 MiB at {}: {}", record.display(), running.end(RUN_LIMIT));
            }
            sleep(Duration::from_millis(1));
        }
        running
    }

    /// Returns the path of the rig's restore journal, which exists until the device is restored.
    pub(crate) fn journal(&self) -> PathBuf {
        self.place.path("state/journals/ibsim/ibsim.journal.json")
    }

    /// Returns all tables of the device, line by line, without counters.
    pub(crate) fn tables(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for table in TABLES {
            let mut smpquery = self.place.command(program("smpquery").unwrap());
            self.lab.attach(&mut smpquery, "A");
            let output: Output = run(smpquery.args(["--show_keys", "-D", table, "0,1"]));
            assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{table}: {output}");
            let fields: Vec<_> = output.stdout.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(!fields.is_empty(), "{table}");
            let kept = fields
                .iter()
                .filter(|line| !COUNTERS.iter().any(|name| line.starts_with(name)));
            lines.extend(kept.map(|line| format!("{table}: {line}")));
        }
        assert!(lines.len() > 80, "{lines:#?}");
        lines
    }
}

/// Returns outcome and cause of a run of one test, from its JSON.
pub(crate) fn came_to(output: &Output) -> (String, String) {
    let verdict = &output.json()["verdicts"][0];
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("cause"))
}
