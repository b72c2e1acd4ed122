//! A device, the daemon that drives it, and the kills of their processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use verbatim_lab::IbsimLab;

use crate::device::{self, Fields};

/// Prefix of a report about a lost run.
pub(crate) const LOST: &str = "lost";
/// Prefix of a report about a run that exists twice.
pub(crate) const DOUBLED: &str = "doubled";
/// Prefix of a report about a daemon that cannot read its store.
pub(crate) const CORRUPT: &str = "corrupt";

/// The kind of device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// `verbatimd model`: a process that survives the daemon and its workers.
    Model,
    Ibsim,
    /// The Python device and its agent, in one process.
    Agent,
}

impl Kind {
    /// Returns tests that take long enough for a kill in mid-run, and a short test for the queued runs. The long
    /// tests for `Model` and `Ibsim` change the device.
    pub(crate) fn tests(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Model | Self::Ibsim => (
                &["c14-016-set-protect-2", "c14-024-vl-arbitration-ca"],
                "c14-024-node-info",
            ),
            Self::Agent => (&["c09-walk", "c09-130-rnr-interval"], device::SERVED),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Victim {
    Daemon,
    /// The process that drives the device for the daemon.
    Worker,
    /// The client that created the run and follows it.
    Client,
    /// The process that restores the device after another process was killed.
    Restore,
    /// The process of the agent and the device. The campaign starts the process again, as a service manager would.
    Agent,
}

/// The outcome of a kill.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Came {
    /// Number of runs that the kill cut short.
    pub(crate) interrupted: usize,
    /// Whether the daemon quarantined the rig, and a requested restore repaired the device.
    pub(crate) quarantined: bool,
    /// Whether the campaign killed a restore in progress.
    pub(crate) restore_killed: bool,
}

enum Device {
    Model(Child),
    Ibsim(Box<IbsimLab>),
    Agent(Child),
}

/// A device, and a daemon with its own state directory.
pub(crate) struct House {
    directory: tempfile::TempDir,
    binaries: PathBuf,
    rig_file: PathBuf,
    rig: &'static str,
    device: Device,
    daemon: Option<Child>,
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if let Device::Model(process) | Device::Agent(process) = &mut self.device {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl House {
    /// Starts the device and the daemon.
    pub(crate) fn open(kind: Kind, binaries: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (device, rig_file, rig) = match kind {
            Kind::Model => {
                let socket = directory.path().join("model");
                let mut model = Command::new(binaries.join("verbatimd"))
                    .args(["model", "--seed", "3", "--listen"])
                    .arg(&socket)
                    .stderr(Stdio::piped())
                    .spawn()?;
                wait_for_line(&mut model, "listening on")?;
                let file = directory.path().join("rigs.toml");
                let text =
                    format!("config_version = 1\n[[rig]]\nname = \"dut\"\nkind = \"model\"\nsocket = {socket:?}\n");
                std::fs::write(&file, text)?;
                (Device::Model(model), file, "dut")
            }
            Kind::Ibsim => {
                let lab = IbsimLab::start()?;
                let file = lab.rig_file();
                (Device::Ibsim(Box::new(lab)), file, "ibsim")
            }
            Kind::Agent => {
                let agent = device::start_agent(directory.path())?;
                (Device::Agent(agent), device::agent_rig(directory.path())?, "dut")
            }
        };
        let mut house = Self {
            directory,
            binaries: binaries.into(),
            rig_file,
            rig,
            device,
            daemon: None,
        };
        house.start_daemon()?;
        house.wait_until_idle()?;
        Ok(house)
    }

    fn start_daemon(&mut self) -> anyhow::Result<()> {
        // A daemon with a corrupt store does not start, so a failed start is reported as CORRUPT.
        let mut daemon = Command::new(self.binaries.join("verbatimd"))
            .args(["serve", "--socket"])
            .arg(self.socket())
            .arg("--state")
            .arg(self.directory.path().join("state"))
            .arg("--rig-file")
            .arg(&self.rig_file)
            .stderr(Stdio::piped())
            .spawn()?;
        wait_for_line(&mut daemon, "serving").context(CORRUPT)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn verbatim(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(self.binaries.join("verbatim"))
            .arg("--server")
            .arg(self.socket())
            .args(arguments)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.is_empty() && !output.status.success() {
            bail!("verbatim {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }

    fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self.verbatim(arguments)?;
        serde_json::from_str(&text).with_context(|| format!("verbatim {arguments:?} printed {text:?}"))
    }

    /// Waits until the device is restored and the rig is idle. Returns true if a restore had to be requested.
    fn wait_until_idle(&self) -> anyhow::Result<bool> {
        // There is no event for "idle", so poll the state. The bound is longer than any sound restore.
        let bound = Instant::now() + Duration::from_secs(240);
        let mut quarantined = false;
        loop {
            let rigs = self.json(&["rigs", "--json"])?;
            let rig = rigs["rigs"]
                .as_array()
                .and_then(|rigs| rigs.iter().find(|rig| rig["name"] == format!("rigs/{}", self.rig)));
            match rig.and_then(|rig| rig["state"].as_str()) {
                Some("IDLE") => return Ok(quarantined),
                Some("QUARANTINED") if quarantined => bail!(
                    "the rig is quarantined after a restore by hand: {}",
                    rig.map_or(&Value::Null, |r| &r["state_reason"])
                ),
                Some("QUARANTINED") => {
                    quarantined = true;
                    self.verbatim(&["rigs", "restore", self.rig])?;
                }
                _ if Instant::now() > bound => bail!("the rig is not idle after 240 s: {rigs}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Queues runs, kills the victims while the first run is under way, and starts the killed processes again. Then
    /// waits for the end of all runs and for the restore.
    pub(crate) fn kill_in_mid_run(
        &mut self,
        victims: &BTreeSet<Victim>,
        wait: Duration,
        tests: &[&str],
    ) -> anyhow::Result<Came> {
        let mut came = Came::default();
        let before = self.runs()?;
        // A client follows the first run; the other runs are detached.
        let mut client = Command::new(self.binaries.join("verbatim"))
            .arg("--server")
            .arg(self.socket())
            .args(["run", "--rig", self.rig, tests[0]])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut asked = Vec::new();
        for test in &tests[1..] {
            let run = self.verbatim(&["run", "--detach", "--rig", self.rig, test])?;
            asked.push(run.trim().to_string());
        }
        std::thread::sleep(wait);
        // The daemon may or may not have created the killed client's run. Both are correct.
        if victims.contains(&Victim::Client) {
            // The client may have ended already; that is fine.
            let _ = client.kill();
        }
        if victims.contains(&Victim::Worker) {
            self.kill_workers()?;
        }
        if victims.contains(&Victim::Agent)
            && let Device::Agent(agent) = &mut self.device
        {
            agent.kill()?;
            agent.wait()?;
            *agent = device::start_agent(self.directory.path())?;
        }
        if victims.contains(&Victim::Daemon) {
            if let Some(mut daemon) = self.daemon.take() {
                daemon.kill()?;
                daemon.wait()?;
            }
            if victims.contains(&Victim::Restore) {
                // The worker of a dead daemon restores the device.
                std::thread::sleep(wait / 8);
                came.restore_killed |= self.kill_workers()?;
            }
            self.wait_for_workers()?;
            self.start_daemon()?;
        } else if victims.contains(&Victim::Restore) {
            std::thread::sleep(wait / 8);
            came.restore_killed |= self.kill_workers()?;
        }
        let bound = Instant::now() + Duration::from_secs(900);
        while client.try_wait()?.is_none() {
            if Instant::now() > bound {
                client.kill()?;
                client.wait()?;
                bail!("the client of the first run still waits after 900 s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Wait for all new runs, including the run of a killed client: the rig may be briefly idle before that run
        // begins.
        let taken = self.runs()?.into_keys().filter(|run| !before.contains_key(run));
        for run in taken.chain(asked.iter().cloned()) {
            self.wait_until_ended(&run)?;
        }
        came.quarantined = self.wait_until_idle()?;
        let after = self.runs()?;
        let new: Vec<&Value> = after
            .iter()
            .filter(|(name, _)| !before.contains_key(*name))
            .map(|(_, run)| run)
            .collect();
        for run in &asked {
            if !after.contains_key(run) {
                bail!("{LOST}: {run} was taken, and is not listed");
            }
        }
        if before.keys().any(|name| !after.contains_key(name)) {
            bail!("{LOST}: a run of before is not listed any more");
        }
        // The first client adds at most one run: the client repeats a request with the same id when the daemon is away.
        if new.len() > asked.len() + 1 {
            bail!(
                "{DOUBLED}: {} runs were asked for, {} are listed",
                asked.len() + 1,
                new.len()
            );
        }
        for run in new {
            came.interrupted += usize::from(self.is_interrupted(run)?);
        }
        Ok(came)
    }

    fn runs(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let listed = self.json(&["runs", "--all", "--json"])?;
        let runs = listed["runs"].as_array().context("a list of runs")?;
        let named = runs
            .iter()
            .map(|run| (run["name"].as_str().unwrap_or_default().to_string(), run.clone()));
        let map: BTreeMap<String, Value> = named.collect();
        if map.len() != runs.len() {
            bail!("{DOUBLED}: one run is listed twice: {listed}");
        }
        Ok(map)
    }

    /// Returns whether an ended run was cut short. Fails if a run that was cut short has no cause or no record.
    fn is_interrupted(&self, run: &Value) -> anyhow::Result<bool> {
        let name = run["name"].as_str().context("a run has a name")?;
        if run["state"] != "ENDED" {
            bail!("{name} has not ended: {run}");
        }
        // A FAIL is no interruption: an M_Key test fails on ibsim, which stores no key.
        let began = !run["start_time"].is_null();
        let interrupted = run["outcome"] == "ERROR" && began;
        if run["outcome"] == "ERROR" && run["cause"].is_null() {
            bail!("an interrupted run ended without a cause: {run}");
        }
        let record = self
            .directory
            .path()
            .join("state/runs")
            .join(self.rig)
            .join(name.trim_start_matches("runs/"));
        // A run that was killed before its first test began has no record.
        if interrupted
            && !record.is_dir()
            && self
                .verbatim(&["runs", "watch", name, "--json"])?
                .contains("\"test_started\"")
        {
            bail!("{LOST}: the partial record is gone: {}", record.display());
        }
        Ok(interrupted)
    }

    fn wait_until_ended(&self, run: &str) -> anyhow::Result<()> {
        let bound = Instant::now() + Duration::from_secs(900);
        while self.json(&["runs", "show", run, "--json"])?["state"] != "ENDED" {
            if Instant::now() > bound {
                bail!("{run} has not ended after 900 s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the processes that drive the device; returns whether there was one.
    fn kill_workers(&self) -> anyhow::Result<bool> {
        let workers = self.workers();
        for worker in &workers {
            kill(*worker)?;
        }
        Ok(!workers.is_empty())
    }

    /// Returns the worker processes of this daemon. Their command lines name the daemon's state directory.
    fn workers(&self) -> Vec<u32> {
        let mark = self.directory.path().to_string_lossy().into_owned();
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                line.contains("worker") && line.contains(&mark)
            })
            .collect()
    }

    /// Waits for the workers of a dead daemon to restore the device and end by themselves.
    fn wait_for_workers(&self) -> anyhow::Result<()> {
        let bound = Instant::now() + Duration::from_secs(120);
        while !self.workers().is_empty() {
            if Instant::now() > bound {
                bail!("workers {:?} still run 120 s after their daemon died", self.workers());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns the state of the device, read independently of daemon and worker.
    pub(crate) fn fields(&self) -> anyhow::Result<Fields> {
        let read = || match &self.device {
            Device::Model(_) => device::of_model(&self.rig_file, self.rig),
            Device::Ibsim(lab) => device::of_ibsim(lab),
            // The agent's device has no state beyond a session, so check that the device serves the next session.
            Device::Agent(_) => {
                let report = self.json(&["run", "--json", "--rig", self.rig, device::SERVED])?;
                Ok(device::of_report(&report))
            }
        };
        // On a loaded host a response may miss its deadline, so read up to three times. Reading does not change the
        // device.
        read().or_else(|_| read()).or_else(|_| read())
    }

    /// Ends the daemon with SIGTERM, as a service manager would.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            Command::new("kill").arg(daemon.id().to_string()).status()?;
            let status = daemon.wait()?;
            if !status.success() {
                bail!("the daemon ended with {status} at SIGTERM");
            }
        }
        Ok(())
    }
}

fn kill(pid: u32) -> anyhow::Result<()> {
    // The worker may have ended already; that is fine.
    Command::new("kill")
        .args(["-9", &pid.to_string()])
        .stderr(Stdio::null())
        .status()?;
    Ok(())
}

/// Waits for a line on the stderr of a child. A thread discards all later lines.
pub(crate) fn wait_for_line(child: &mut Child, words: &str) -> anyhow::Result<()> {
    let stderr = child.stderr.take().context("stderr was piped")?;
    let mut lines = BufReader::new(stderr).lines();
    let mut seen = String::new();
    for line in lines.by_ref() {
        let line = line?;
        seen.push_str(&line);
        seen.push('\n');
        if line.contains(words) {
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(());
        }
    }
    bail!("no line with {words:?} on stderr: {seen}")
}
