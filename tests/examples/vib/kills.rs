//! Sends SIGKILL to the worker, the daemon, OpenSM or the machine at random instants, while tests change the device.
//! The model at the far end of the cable continues. After the next start the model must be in its original state.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use verbatim_lab::campaign::Dice;
use verbatim_lab::{SubnetManager, VibLab};

use crate::{House, run};

/// Tests that change the device throughout their run: an M_Key with protection, tables, PortInfo.
const TESTS: [&str; 3] = [
    "c14-016-set-protect-2",
    // With all 65,532 values this test would take minutes on a busy machine. That is too long if OpenSM is killed,
    // because the test then runs to its end.
    "c14-024-vl-arbitration-ca --set illegal_parts=8000",
    "c14-024-port-info-rw",
];
/// Longest time of a restore, retries included.
const RESTORED_WITHIN: Duration = Duration::from_secs(180);
/// Number of kills with one device and machine.
const PER_HOUSE: u64 = 4;

/// Shell function `of WORDS`: prints the ids of the processes whose command line, without the program's directory,
/// begins with WORDS. The machine has no pgrep.
const PROCESSES: &str = r#"of() {
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <$process/cmdline | sed 's,^[^ ]*/,,' | grep -q "^$1" && echo ${process##*/}
    done
}"#;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Victim {
    Worker,
    Daemon,
    Machine,
    OpenSm,
}

pub(crate) struct Killed {
    pub(crate) times: u64,
    pub(crate) interrupted: u64,
}

impl House<'_> {
    pub(crate) fn kills(&mut self, times: u64, dice: &mut Dice) -> anyhow::Result<Killed> {
        let mut killed = Killed { times, interrupted: 0 };
        let mut left = times;
        let mut managed = false;
        while left > 0 {
            let manager = if managed {
                SubnetManager::Before
            } else {
                SubnetManager::Never
            };
            let mut lab = self.lab(1, manager)?;
            let found = fields(&lab)?;
            for turn in 0..left.min(PER_HOUSE) {
                left -= 1;
                let victims = [Victim::OpenSm, Victim::Worker, Victim::Machine, Victim::Daemon];
                let victims = &victims[if managed { 0 } else { 1 }..];
                // Take the victims in turn, so that a few kills cover all victims.
                let victim = victims[(turn % victims.len() as u64) as usize];
                let test = dice.pick(&TESTS);
                let wait = Duration::from_millis(200 + dice.draw() % 4000);
                let what = format!(
                    "{victim:?} killed {} ms into {test}{}",
                    wait.as_millis(),
                    if managed { " beside OpenSM" } else { "" }
                );
                eprintln!("vib campaign: {what}");
                match kill(&mut lab, victim, test, wait).and_then(|cut| Ok((cut, fields(&lab)?))) {
                    Ok((cut, now)) => {
                        killed.interrupted += u64::from(cut);
                        for line in differences(&found, &now) {
                            self.except(format!("{what}: {line}"));
                        }
                    }
                    Err(error) => self.except(format!("{what}: {error:#}")),
                }
            }
            managed = !managed;
        }
        Ok(killed)
    }
}

/// Kills a process in mid-run, starts it again, and waits for the restore. Returns true if the run was interrupted.
fn kill(lab: &mut VibLab, victim: Victim, test: &str, wait: Duration) -> anyhow::Result<bool> {
    let ran = run(lab, &format!("verbatim run --detach --rig vib {test}"))?;
    let id = ran.text().trim().to_owned();
    if !id.starts_with("runs/") {
        bail!("`verbatim run --detach` printed {id:?}");
    }
    std::thread::sleep(wait);
    match victim {
        // The worker may have ended already; that is fine.
        Victim::Worker => drop(run(lab, &format!("{PROCESSES}\nkill -9 $(of 'verbatimd worker')"))?),
        Victim::OpenSm => must(
            lab,
            "kill -9 $(of opensm) && { sh /mnt/share/opensm.cmd >/dev/null 2>&1 & }",
        )?,
        // The killed daemon's worker restores the device by itself. Start the next daemon after the restore.
        Victim::Daemon => must(
            lab,
            "kill -9 $(of 'verbatimd serve') && while [ -n \"$(of 'verbatimd worker')\" ]; do sleep 0.2; done && \
             { sh /mnt/share/daemon.cmd >/run/daemon.out 2>&1 & }",
        )?,
        Victim::Machine => lab.pull_the_plug()?,
    }
    wait_until(lab, "the run ends", &format!("verbatim runs show {id} --json"), |run| {
        run["state"] == "ENDED"
    })?;
    wait_until(lab, "the rig is idle", "verbatim rigs --json", |rigs| {
        let rigs = rigs["rigs"].as_array();
        rigs.is_some_and(|rigs| {
            rigs.iter()
                .any(|rig| rig["name"] == "rigs/vib" && rig["state"] == "IDLE")
        })
    })?;
    let ended: Value = serde_json::from_str(&run(lab, &format!("verbatim runs show {id} --json"))?.text())?;
    Ok(ended["outcome"] == "ERROR")
}

/// Runs a command that must succeed. The command may use the function of [`PROCESSES`].
fn must(lab: &VibLab, command: &str) -> anyhow::Result<()> {
    let ran = run(lab, &format!("{PROCESSES}\n{command}"))?;
    ensure!(ran.status == 0, "`{command}` ended with {}: {}", ran.status, ran.text());
    Ok(())
}

/// Repeats a command until its JSON output satisfies `is_so`.
fn wait_until(lab: &VibLab, what: &str, command: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    let bound = Instant::now() + RESTORED_WITHIN;
    loop {
        let said = run(lab, command)?.text();
        // While a daemon starts, the command prints an error instead of JSON.
        if serde_json::from_str(&said).is_ok_and(|value| is_so(&value)) {
            return Ok(());
        }
        if Instant::now() > bound {
            bail!(
                "{what}: not within {RESTORED_WITHIN:?}; `{command}` says {}",
                said.trim()
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the state of the device, read independently of daemon and worker.
fn fields(lab: &VibLab) -> anyhow::Result<Vec<String>> {
    let ran = run(lab, "umad_read $VERBATIM_RIG_FILE vib")?;
    if ran.status != 0 {
        bail!("the device cannot be read: {}", ran.text());
    }
    // Leave out counters, and fields that a subnet manager or the link's own start changes.
    let moving = ["Violations", "ClientReregister", "PortCounters", "PortState"];
    let text = ran.text();
    let lines = text
        .lines()
        .filter(|line| !moving.iter().any(|word| line.contains(word)));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.first().context("nothing was read")?;
    Ok(lines)
}

fn differences(found: &[String], now: &[String]) -> Vec<String> {
    let lost = found
        .iter()
        .filter(|line| !now.contains(line))
        .map(|line| format!("found {line}"));
    let new = now
        .iter()
        .filter(|line| !found.contains(line))
        .map(|line| format!("left {line}"));
    lost.chain(new).collect()
}
