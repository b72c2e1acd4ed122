//! Runs management tests against device models with a defect, at the far end of a cable of the machine. A test
//! kills a defect if the test fails because of the defect. The campaign takes each defect that a management test
//! kills when `verbatim qualify` runs with the rules of hardware. In the machine, at least one of the same tests
//! must kill the defect too.

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;
use verbatim_device::Defect;
use verbatim_lab::campaign::{Dice, argument};
use verbatim_lab::{ADAPTER_GUID, SubnetManager, VibLab};

use crate::{House, run};

/// Patterns of the management tests.
const TESTS: [&str; 3] = ["c13-*", "c14-*", "c16-*"];

/// This test sends 65,532 values, first the values that find most defects. Several of these tests at once would keep
/// the machine busy for half an hour, so tests that run in parallel send only 200 values.
const SWEEP: &str = "c14-024-vl-arbitration-ca";

/// Tries all cases, `jobs` at a time. Each port of the adapter runs one case at a time. Returns the surviving cases.
/// With `is_swept`, OpenSM sweeps once before each test.
fn wave(lab: &mut VibLab, cases: Vec<Case>, is_swept: bool, jobs: u8) -> anyhow::Result<Vec<Case>> {
    let mut waiting: VecDeque<Case> = cases.into();
    let mut free: Vec<u8> = (1..=jobs).collect();
    let mut under_way = BTreeMap::new();
    let mut lived = Vec::new();
    loop {
        while let Some(port) = free.pop() {
            let Some(case) = waiting.pop_front() else { break };
            start(lab, port, &case, 0, is_swept, jobs == 1)?;
            under_way.insert(port, (case, 0));
        }
        if under_way.is_empty() {
            return Ok(lived);
        }
        let (port, said) = next_end(lab)?;
        let (mut case, killer) = under_way.remove(&port).context("a job that was not begun")?;
        // One test that kills the defect is enough.
        if fails(&said, &case.statement) {
            eprintln!("vib campaign: {} dies", case.name);
            free.push(port);
            continue;
        }
        let seen = outcome(&said);
        if !case.seen.contains(&seen) {
            case.seen.push(seen);
        }
        if killer + 1 < case.killers.len() {
            start(lab, port, &case, killer + 1, is_swept, jobs == 1)?;
            under_way.insert(port, (case, killer + 1));
        } else {
            eprintln!("vib campaign: {} lives so far: {}", case.name, outcome(&said));
            lived.push(case);
            free.push(port);
        }
    }
}

/// Starts a test with a new device. [`next_end`] returns when the test has ended.
fn start(lab: &mut VibLab, port: u8, case: &Case, killer: usize, is_swept: bool, is_alone: bool) -> anyhow::Result<()> {
    let model = ["--profile", &case.profile, "--seed", &case.seed, "--defect", &case.name];
    lab.exchange_model(port, &model.map(Into::into))?;
    let rig = if port == 1 { String::new() } else { port.to_string() };
    let guid = ADAPTER_GUID + u64::from(port);
    let sweep = if is_swept {
        format!("OSM_CACHE_DIR=. OSM_TMP_DIR=. opensm --guid {guid:#x} --once --log_file opensm.log >opensm.out 2>&1;")
    } else {
        String::new()
    };
    let test = match case.killers[killer].as_str() {
        SWEEP if !is_alone => format!("{SWEEP} --set illegal_parts=200"),
        test => test.to_owned(),
    };
    // Each test gets new state directories, because a restore journal of the previous device does not apply to the new
    // device. Each test gets a network namespace, because models with one seed report the same PortGUID, and a lock by
    // PortGUID is valid in one namespace. The run gets the case's seed, because the seed determines the random steps of
    // a test.
    let seed = &case.seed;
    let command = format!(
        "{{ rm -rf /run/job.{port}; mkdir -p /run/job.{port}; cd /run/job.{port}; {sweep} STATE_DIRECTORY=$PWD/state \
         XDG_STATE_HOME=$PWD unshare -n verbatim --server none run --json --rig vib{rig} --seed {seed} {test} \
         >said 2>error; echo {port} >/run/done; }} &"
    );
    run(lab, &command).map(drop)
}

/// Waits for the next test to end; returns its port and its output.
fn next_end(lab: &VibLab) -> anyhow::Result<(u8, String)> {
    let said = run(
        lab,
        "read -r port </run/done; echo $port; cd /run/job.$port; if [ -s said ]; then cat said; else cat error; fi",
    )?
    .text();
    let (port, said) = said.split_once('\n').context("a job that ended did not say which")?;
    Ok((port.parse()?, said.to_owned()))
}

/// Returns the only verdict of a report.
fn verdict(said: &str) -> Option<Value> {
    let report: Value = serde_json::from_str(said).ok()?;
    report["verdicts"].get(0).cloned()
}

/// Returns whether the verdict has a FAIL for this statement. Qualification uses the same criterion.
fn fails(said: &str, statement: &str) -> bool {
    let findings = verdict(said).and_then(|verdict| verdict["findings"].as_array().cloned());
    let broken = |check: &Value| check["result"] == "FAIL" && check["statement"] == statement;
    findings.is_some_and(|findings| findings.iter().any(broken))
}

/// Returns the verdict in a line, or the first line of output if there is no verdict.
fn outcome(said: &str) -> String {
    let Some(verdict) = verdict(said) else {
        return format!("no verdict: {}", said.lines().next().unwrap_or_default());
    };
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("test"), text("outcome"), text("reason"))
}

/// Largest number of the adapter's ports that OpenSM can serve.
const OPENSM_PORTS: u8 = 2;

/// Defects that survive on this rig, with the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "base-version-ignored",
        "the tester's kernel sends no MAD of another base version, and takes none",
    ),
    (
        "lease-stopped-at-another-port",
        "the SMP that stops it comes to another port of the device; the rig is cabled to one",
    ),
    ("node-description-by-port", ONE_CABLE),
    ("node-info-node-guid-per-port", ONE_CABLE),
    ("node-info-system-image-guid-per-port", ONE_CABLE),
    (
        "response-dr-slid-lost",
        "the tester's kernel drops such answers: the device is silent to all who ask by a directed route",
    ),
    (
        "response-to-set-twice",
        "the tester's kernel gives a request its first answer, and drops what comes after it",
    ),
];
const ONE_CABLE: &str = "two ports of the device are compared; the rig is cabled to one";

/// A defect from the report of the qualification.
struct Case {
    name: String,
    statement: String,
    /// The tests that kill the defect.
    killers: Vec<String>,
    /// The device profile with which these tests kill the defect.
    profile: String,
    seed: String,
    /// Outcomes of the tests in the machine that did not kill the defect.
    seen: Vec<String>,
}

impl House<'_> {
    /// Tries `sample` defects (0: all), `jobs` at a time. Returns the number of defects tried.
    ///
    /// A test mostly waits for deadlines, so each job has its own port of the adapter, with a model at its far end.
    pub(crate) fn defects(&mut self, sample: u64, jobs: u8, dice: &mut Dice) -> anyhow::Result<usize> {
        let mut cases = self.cases()?;
        if let Some(part) = argument("--only") {
            cases.retain(|case| case.name.contains(&part));
        }
        ensure!(!cases.is_empty(), "the qualification knows no defect of management");
        let sample = if sample == 0 {
            cases.len()
        } else {
            cases.len().min(sample as usize)
        };
        for place in 0..sample {
            let other = place + dice.below(cases.len() - place);
            cases.swap(place, other);
        }
        cases.truncate(sample);
        let mut lab = self.open_lab(jobs)?;
        // A defect may show only with LIDs at both ends, for example in traps, so try survivors again with OpenSM. Late
        // responses on a busy host may make a test inconclusive, so then try the survivors one at a time.
        cases = wave(&mut lab, cases, false, jobs)?;
        if !cases.is_empty() {
            let mut managed = self.open_lab(OPENSM_PORTS)?;
            cases = wave(&mut managed, cases, true, OPENSM_PORTS)?;
        }
        cases = wave(&mut lab, cases, false, 1)?;
        for case in &cases {
            match EXCEPTIONS.iter().find(|(name, _)| *name == case.name) {
                Some((name, reason)) => println!("excepted: {name}: {reason}"),
                None => self.except(format!("{} lives: {}", case.name, case.seen.join("; "))),
            }
        }
        Ok(sample)
    }

    /// Starts a machine whose adapter has `ports` ports, with a FIFO through which tests report their end.
    fn open_lab(&self, ports: u8) -> anyhow::Result<VibLab> {
        let lab = self.lab(ports, SubnetManager::Never)?;
        // Keep the FIFO open while the machine runs: a line without a reader would be lost.
        run(&lab, "mkfifo /run/done; { while :; do sleep 3600; done <>/run/done & }")?;
        Ok(lab)
    }

    /// Returns all defects that the model can have as a process, with the tests that kill them.
    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let output = Command::new(self.binaries.join("verbatim"))
            .args(["qualify", "--rules", "hardware", "--seeds", "1", "--json"])
            .args(TESTS)
            .output()
            .context("starting verbatim qualify")?;
        let qualified: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            format!(
                "`verbatim qualify --json` printed no JSON: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        })?;
        let defects = qualified["qualifications"][0]["defects"]
            .as_array()
            .context("a qualification without defects")?;
        // Leave out defects of other layers. Also leave out defects that only a test with a parameter kills: such
        // tests take hours.
        let of_management = |case: &&Value| {
            let is_known = Defect::ALL.iter().any(|defect| case["name"] == defect.name());
            is_known && case["set"].is_null() && case["killed_by"].as_array().is_some_and(|by| !by.is_empty())
        };
        let mut cases: Vec<Case> = defects
            .iter()
            .filter(of_management)
            .map(case)
            .collect::<anyhow::Result<_>>()?;
        // Try first the test that kills the fewest defects: a test that kills many defects takes long.
        let mut kills = BTreeMap::new();
        for killer in cases.iter().flat_map(|case| &case.killers) {
            *kills.entry(killer.clone()).or_insert(0) += 1;
        }
        for case in &mut cases {
            case.killers.sort_by_key(|killer| kills[killer]);
        }
        Ok(cases)
    }
}

fn case(defect: &Value) -> anyhow::Result<Case> {
    let text =
        |key: &str| Ok::<_, anyhow::Error>(defect[key].as_str().with_context(|| format!("no {key}"))?.to_owned());
    let killers = defect["killed_by"].as_array().context("no killed_by")?;
    let repeat = text("repeat")?;
    let mut words = repeat.split_whitespace().skip_while(|word| *word != "--seed");
    let seed = words
        .nth(1)
        .with_context(|| format!("no --seed in {repeat:?}"))?
        .to_owned();
    let profile = repeat
        .split("profile=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Ok(Case {
        name: text("name")?,
        statement: text("statement")?,
        killers: killers
            .iter()
            .filter_map(|test| Some(test.as_str()?.to_owned()))
            .collect(),
        profile: profile.unwrap_or("full").to_owned(),
        seed,
        seen: Vec::new(),
    })
}
