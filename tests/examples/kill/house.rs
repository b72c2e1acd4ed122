//! A device, a daemon before it, and what kills them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use verbatim_lab::IbsimLab;

use crate::device::{self, Fields};

/// What the device is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// `verbatimd model`: a process that survives its testers.
    Model,
    /// ibsim.
    Ibsim,
}

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Victim {
    Daemon,
    Worker,
    Both,
}

enum Device {
    Model(Child),
    Ibsim(Box<IbsimLab>),
}

/// A device and a daemon with a state directory of their own.
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
        if let Device::Model(model) = &mut self.device {
            let _ = model.kill();
            let _ = model.wait();
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
        Ok(house)
    }

    fn start_daemon(&mut self) -> anyhow::Result<()> {
        let mut daemon = Command::new(self.binaries.join("verbatimd"))
            .args(["serve", "--socket"])
            .arg(self.socket())
            .arg("--state")
            .arg(self.directory.path().join("state"))
            .arg("--rig-file")
            .arg(&self.rig_file)
            .stderr(Stdio::piped())
            .spawn()?;
        wait_for_line(&mut daemon, "serving")?;
        self.daemon = Some(daemon);
        self.wait_until_idle()
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

    /// Waits until the rig has restored what was left and runs nothing.
    fn wait_until_idle(&self) -> anyhow::Result<()> {
        // There is no event for "idle": the state is asked for, with a bound that no sound restore reaches.
        let bound = Instant::now() + Duration::from_secs(180);
        loop {
            let rigs = self.json(&["rigs", "--json"])?;
            let rig = rigs["rigs"]
                .as_array()
                .and_then(|rigs| rigs.iter().find(|rig| rig["name"] == self.rig));
            match rig.and_then(|rig| rig["state"].as_str()) {
                Some("IDLE") => return Ok(()),
                Some("QUARANTINED") => bail!(
                    "the rig is quarantined: {}",
                    rig.map_or(&Value::Null, |r| &r["state_reason"])
                ),
                _ if Instant::now() > bound => bail!("the rig is not idle after 180 s: {rigs}"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Starts a run, kills, starts what is dead again, waits for the restore. True when the run was interrupted.
    pub(crate) fn kill_in_mid_run(&mut self, victim: Victim, wait: Duration, m_key: bool) -> anyhow::Result<bool> {
        let test = if m_key {
            "c14-016-set-protect-2"
        } else {
            "c14-024-vl-arbitration-ca"
        };
        let run = self
            .verbatim(&["run", "--detach", "--rig", self.rig, test])?
            .trim()
            .to_string();
        std::thread::sleep(wait);
        if victim != Victim::Daemon {
            for worker in self.workers() {
                kill(worker)?;
            }
        }
        if victim != Victim::Worker {
            if let Some(mut daemon) = self.daemon.take() {
                daemon.kill()?;
                daemon.wait()?;
            }
            self.wait_for_workers()?;
            self.start_daemon()?;
        }
        self.wait_until_ended(&run)?;
        self.wait_until_idle()?;
        let ended = self.json(&["runs", "show", &run, "--json"])?;
        let outcome = ended["outcome"].as_str().unwrap_or_default();
        // An M_Key test on ibsim fails at once: it keeps no key. What matters here is whether the run was cut short.
        // A run that lost its worker has a report all the same.
        let interrupted = ended["report"].is_null() || outcome == "ERROR";
        if interrupted {
            if outcome != "ERROR" || ended["cause"].is_null() {
                bail!("an interrupted run ended {outcome} with cause {}", ended["cause"]);
            }
            let id = run.trim_start_matches("runs/");
            let record = self.directory.path().join("state/runs").join(id);
            if !record.is_dir() {
                bail!("the partial record is gone: {}", record.display());
            }
        }
        Ok(interrupted)
    }

    fn wait_until_ended(&self, run: &str) -> anyhow::Result<()> {
        let bound = Instant::now() + Duration::from_secs(300);
        while self.json(&["runs", "show", run, "--json"])?["state"] != "ENDED" {
            if Instant::now() > bound {
                bail!("{run} has not ended after 300 s");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Workers of this house: they know its state directory.
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

    /// A worker whose daemon died restores and ends by itself.
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

    /// What the device holds now, read by something that is neither daemon nor worker.
    pub(crate) fn fields(&self) -> anyhow::Result<Fields> {
        match &self.device {
            Device::Model(_) => device::of_model(&self.rig_file, self.rig),
            Device::Ibsim(lab) => device::of_ibsim(lab),
        }
    }

    /// Ends the daemon as a service manager would.
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
    // A worker that ended meanwhile is as good as killed.
    Command::new("kill")
        .args(["-9", &pid.to_string()])
        .stderr(Stdio::null())
        .status()?;
    Ok(())
}

/// Waits for a line on the stderr of a child, and keeps reading it to nowhere afterwards.
fn wait_for_line(child: &mut Child, words: &str) -> anyhow::Result<()> {
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
