//! Defects that qualification kills by the rules of hardware with the tests of management: each is put into a model at the
//! far end of a cable, and one of the tests that kill it on the virtual rig must fail for it in the machine.

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;
use verbatim_device::Defect;
use verbatim_lab::campaign::{Dice, argument};
use verbatim_lab::{ADAPTER_GUID, SubnetManager, VibLab};

use crate::{House, run};

/// The tests of management.
const TESTS: [&str; 3] = ["c13-*", "c14-*", "c16-*"];

/// It asks for 65,532 values, the telling ones first: what many at once keep the machine busy with for half an hour.
const SWEEP: &str = "c14-024-vl-arbitration-ca";

/// Tries all cases, so many at a time; each port of the adapter has one under way. Returns those that live. With
/// `is_swept`, OpenSM sweeps once before each test.
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
        // One test that fails for it is enough.
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

/// Starts a test with a device of its own; [`next_end`] tells its end.
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
    // A new device: what was to be restored on the one before is none of its own. And a host of its own, as far as locks
    // go: models of one seed say that they have one PortGUID.
    // What a walk does is drawn from the seed.
    let seed = &case.seed;
    let command = format!(
        "{{ rm -rf /run/job.{port}; mkdir -p /run/job.{port}/locks; cd /run/job.{port}; {sweep} STATE_DIRECTORY=$PWD/state \
         unshare -m sh -c 'mount --bind locks /run/lock && exec verbatim --server none run --json --rig vib{rig} --seed {seed} {test}' \
         >said 2>error; echo {port} >/run/done; }} &"
    );
    run(lab, &command).map(drop)
}

/// Waits for the next test that ends: its port, and what it printed.
fn next_end(lab: &VibLab) -> anyhow::Result<(u8, String)> {
    let said = run(
        lab,
        "read -r port </run/done; echo $port; cd /run/job.$port; if [ -s said ]; then cat said; else cat error; fi",
    )?
    .text();
    let (port, said) = said.split_once('\n').context("a job that ended did not say which")?;
    Ok((port.parse()?, said.to_owned()))
}

/// The one verdict of a report.
fn verdict(said: &str) -> Option<Value> {
    let report: Value = serde_json::from_str(said).ok()?;
    report["verdicts"].get(0).cloned()
}

/// Whether the verdict says that the device breaks that statement: what the qualification goes by.
fn fails(said: &str, statement: &str) -> bool {
    let findings = verdict(said).and_then(|verdict| verdict["findings"].as_array().cloned());
    let broken = |check: &Value| check["result"] == "FAIL" && check["statement"] == statement;
    findings.is_some_and(|findings| findings.iter().any(broken))
}

/// The verdict in a line, or what was printed in place of one.
fn outcome(said: &str) -> String {
    let Some(verdict) = verdict(said) else {
        return format!("no verdict: {}", said.lines().next().unwrap_or_default());
    };
    let text = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("test"), text("outcome"), text("reason"))
}

/// OpenSM serves adapters of two ports at most.
const OPENSM_PORTS: u8 = 2;

/// Defects that live on this road, with the reason.
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

/// A defect as the qualification knows it.
struct Case {
    name: String,
    statement: String,
    /// The tests that kill it.
    killers: Vec<String>,
    /// The device on which they do.
    profile: String,
    seed: String,
    /// What they came to here, where it did not die.
    seen: Vec<String>,
}

impl House<'_> {
    /// Tries `sample` defects, 0 being all, `jobs` at a time, and returns how many that were.
    ///
    /// A test waits for deadlines most of its time: each job has a port of the adapter for itself, and a model at the far
    /// end of it.
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
        // Who lives as it was found may die where both ends have a LID, as traps need; and what a busy host leaves open,
        // answers that are late say, a host that does nothing else may show.
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

    /// A machine whose adapter has so many ports, in which tests tell their end.
    fn open_lab(&self, ports: u8) -> anyhow::Result<VibLab> {
        let lab = self.lab(ports, SubnetManager::Never)?;
        // Open for as long as the machine runs: what ends while nobody reads is not lost.
        run(
            &lab,
            "mkdir -p /run/lock; mkfifo /run/done; { while :; do sleep 3600; done <>/run/done & }",
        )?;
        Ok(lab)
    }

    /// All defects that the model as a process can have, with the tests that kill them.
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
        // Those that hardware shows with a parameter of hours alone are left to the virtual rig.
        let of_management = |case: &&Value| {
            let is_known = Defect::ALL.iter().any(|defect| case["name"] == defect.name());
            is_known && case["set"].is_null() && case["killed_by"].as_array().is_some_and(|by| !by.is_empty())
        };
        let mut cases: Vec<Case> = defects
            .iter()
            .filter(of_management)
            .map(case)
            .collect::<anyhow::Result<_>>()?;
        // First the test that looks for little else: who catches much takes long.
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
