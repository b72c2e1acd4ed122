//! A daemon with many held rigs, many waiting runs and many ended runs. A running daemon limits the leases of one
//! identity, so the bench writes the state before the daemon starts, with the store's own code.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use verbatim_client::{Address, Client};
use verbatim_daemon::access::Identity;
use verbatim_daemon::store::{
    AskedLease, AskedRun, HistoryStore as _, LeaseId, LeaseStore as _, Patience, SqlStore, StoredLease, StoredRun,
};
use verbatim_proto::v1::{Cause, LeaseState, Outcome, Priority, RunSpec, RunState};
use verbatim_run::state::StateDirectory;
use verbatim_run::{RunId, now_ns};

/// The test of all waiting and ended runs.
const TEST: &str = "c14-017-lease-zero";
/// Number of concurrent writer threads. The store combines their changes into large transactions.
const WRITERS: usize = 128;
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Number of owners among whom the leases and runs are divided.
const OWNERS: usize = 100;

/// Size of the daemon's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Rigs that are held.
    pub(crate) rigs: usize,
    /// Rigs that are free.
    pub(crate) free: usize,
    /// Runs that wait.
    pub(crate) queued: usize,
    /// Runs that have ended.
    pub(crate) kept: usize,
}

pub(crate) fn rig(number: usize) -> String {
    format!("rig-{number:04}")
}

/// A daemon with its state directory.
pub(crate) struct House {
    directory: tempfile::TempDir,
    program: PathBuf,
    daemon: Option<Child>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop();
    }
}

impl House {
    /// Writes the daemon's state without starting the daemon.
    pub(crate) fn furnish(program: &Path, load: Load) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut rigs = String::from("config_version = 1\n");
        for number in 0..load.rigs + load.free {
            rigs.push_str(&format!("[[rig]]\nname = {:?}\nkind = \"virtual\"\n", rig(number)));
        }
        std::fs::write(directory.path().join("rigs.toml"), rigs)?;
        let state = StateDirectory::at(directory.path().join("state"));
        std::fs::create_dir_all(state.path())?;
        fill(&SqlStore::sqlite(&state)?, load)?;
        Ok(Self {
            directory,
            program: program.into(),
            daemon: None,
        })
    }

    /// Starts the daemon. Returns a client, and the time until the daemon's first response.
    pub(crate) async fn start(&mut self) -> anyhow::Result<(Client, Duration)> {
        let (socket, began) = (self.directory.path().join("socket"), Instant::now());
        let mut daemon = Command::new(&self.program)
            .args(["serve", "--socket"])
            .arg(&socket)
            .arg("--state")
            .arg(self.directory.path().join("state"))
            .arg("--rig-file")
            .arg(self.directory.path().join("rigs.toml"))
            .env("RUST_LOG", "verbatim=warn")
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}", self.program.display()))?;
        let stderr = BufReader::new(daemon.stderr.take().context("stderr is piped")?);
        thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok);
            lines.for_each(|line| eprintln!("daemon: {line}"));
        });
        self.daemon = Some(daemon);
        let address = Address::unix(&socket)?;
        loop {
            if let Ok(client) = Client::connect(address.clone()).await
                && client.list_runs("", 1, "").await.is_ok()
            {
                return Ok((client, began.elapsed()));
            }
            if let Some(status) = self.daemon.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("the daemon ended with {status}");
            }
            // Poll, because the socket does not exist yet.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Returns the processor time of the daemon in seconds.
    pub(crate) fn busy_s(&self) -> anyhow::Result<f64> {
        let stat = self.of_process("stat")?;
        let fields = stat.rsplit(')').next().context("no fields in stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        // Field values are in USER_HZ ticks; USER_HZ is 100 on every Linux architecture in use.
        Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
    }

    /// Returns the daemon's peak resident memory so far, in MiB.
    pub(crate) fn most_memory(&self) -> anyhow::Result<f64> {
        let status = self.of_process("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kilobytes.context("no VmHWM")?.parse::<f64>()? / 1024.0)
    }

    fn of_process(&self, file: &str) -> anyhow::Result<String> {
        let id = self.daemon.as_ref().context("the daemon does not run")?.id();
        Ok(std::fs::read_to_string(format!("/proc/{id}/{file}"))?)
    }
}

fn fill(store: &SqlStore, load: Load) -> anyhow::Result<()> {
    let now = now_ns();
    each(load.kept, |number| {
        let id = RunId::new(now - 3 * DAY_NS + number as u64 * 1_000_000, 0);
        let run = StoredRun {
            state: RunState::Ended,
            outcome: Some(Outcome::Error),
            cause: Some(Cause::Rig),
            reason: "was written by a bench".into(),
            started_ns: Some(now - 2 * DAY_NS),
            ended_ns: Some(now - 2 * DAY_NS),
            ..run(id, number, &rig(number % (load.rigs + load.free)))
        };
        Ok(store.create(&run)?)
    })?;
    each(load.rigs, |number| {
        let id = LeaseId::like(&RunId::new(now - DAY_NS / 4 + number as u64 * 1_000_000, 0));
        let waits = lease(id, number, &rig(number), None);
        store.put(&waits)?;
        let active = StoredLease {
            state: LeaseState::Active,
            rig: rig(number),
            token: number as u64 + 1,
            granted_ns: Some(now - DAY_NS / 4),
            until_ns: Some(now + DAY_NS / 4),
            ..waits
        };
        store.put(&active)?;
        Ok(())
    })?;
    each(load.queued, |number| {
        let id = RunId::new(now - DAY_NS / 8 + number as u64 * 1_000_000, 0);
        let rig = rig(number % load.rigs);
        store.create(&run(id.clone(), number, &rig))?;
        store.put(&lease(LeaseId::like(&id), number, &rig, Some(id)))?;
        Ok(())
    })
}

/// Calls `act` for each number on many threads, so that the store's writer commits their changes together.
fn each(numbers: usize, act: impl Fn(usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    let act = &act;
    thread::scope(|scope| {
        let of = |first: usize| (first..numbers).step_by(WRITERS).try_for_each(act);
        let threads: Vec<_> = (0..WRITERS).map(|first| scope.spawn(move || of(first))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("a thread that writes the state panicked"))
        })
    })
}

fn owner(number: usize) -> Identity {
    Identity::Certificate(format!("owner-{}", number % OWNERS))
}

fn run(id: RunId, number: usize, rig: &str) -> StoredRun {
    StoredRun {
        created_ns: now_ns(),
        request_id: String::new(),
        owner: owner(number),
        spec: RunSpec {
            rig: rig.into(),
            patterns: vec![TEST.into()],
            ..RunSpec::default()
        },
        lease: LeaseId::like(&id),
        tests: vec![TEST.into()],
        state: RunState::Queued,
        outcome: None,
        cause: None,
        reason: String::new(),
        started_ns: None,
        ended_ns: None,
        info: None,
        host: String::new(),
        patience: Patience::default(),
        asked: AskedRun::default(),
        id,
    }
}

fn lease(id: LeaseId, number: usize, rig: &str, run: Option<RunId>) -> StoredLease {
    StoredLease {
        id,
        owner: owner(number),
        request_id: String::new(),
        state: LeaseState::Pending,
        priority: Priority::Normal,
        rigs: vec![rig.into()],
        rig: String::new(),
        token: 0,
        run,
        lasts_s: 3600,
        created_ns: now_ns() - DAY_NS / 8,
        granted_ns: None,
        until_ns: None,
        ended_ns: None,
        reason: String::new(),
        host: String::new(),
        posted: false,
        attended: false,
        boot: None,
        asked: AskedLease::default(),
    }
}
