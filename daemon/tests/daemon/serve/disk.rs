//! The disk of the state directory is full or read-only. The daemon reports this, loses no run that it accepted,
//! and leaves the device as it was found.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tonic::Code;
use verbatim_proto::v1::{ListRunsRequest, Outcome};

use super::harness::{Bench, Clients, is_ended, request, within};

/// A short test that changes the device and restores it.
const SETS: &str = "c14-024-node-description";

/// A file system in memory that is small enough to fill.
struct Small(PathBuf);

impl Small {
    /// Mounts the file system; `None` if this user may not mount.
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        if mount(&["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs"], &at) {
            return Some(Self(at));
        }
        eprintln!("skipped: this user may not mount a file system; root may");
        None
    }

    fn remount(&self, how: &str) {
        assert!(mount(&["-o", how], &self.0), "{how}");
    }

    /// Fills the file system to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mounted = Command::new("mount").args(arguments).arg(at).output();
    mounted.is_ok_and(|output| output.status.success())
}

/// Returns the names of all runs, newest first.
async fn listed(clients: &mut Clients) -> Vec<String> {
    let listed = within(clients.runs.list_runs(ListRunsRequest::default()))
        .await
        .unwrap();
    listed.into_inner().runs.into_iter().map(|run| run.name).collect()
}

#[tokio::test]
async fn full_disk_loses_no_accepted_run() {
    let mut bench = Bench::new();
    let Some(disk) = Small::mount(bench.path("state")) else {
        return;
    };
    bench.start_model();
    let found = bench.key_of_device();
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let first = clients.create(request("model", &[SETS])).await;
    assert_eq!(clients.ended(&first.name).await.outcome(), Outcome::Pass);
    let mut taken = vec![first.name];

    let filler = disk.fill();
    // The database accepts runs while its own file has unused space. Each accepted run must still end, with a
    // reason if it is not PASS.
    let refused = loop {
        match within(clients.runs.create_run(request("model", &[SETS]))).await {
            Ok(run) => taken.push(run.into_inner().run.unwrap().name),
            Err(refused) => break refused,
        }
        let run = clients.ended(taken.last().unwrap()).await;
        assert!(is_ended(&run), "{run:?}");
        assert!(run.outcome() == Outcome::Pass || !run.reason.is_empty(), "{run:?}");
        assert!(taken.len() < 200, "a disk that is full takes everything");
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("free space"), "{}", refused.message());

    fs::remove_file(filler).unwrap();
    let last = clients.create(request("model", &[SETS])).await;
    assert_eq!(clients.ended(&last.name).await.outcome(), Outcome::Pass);
    taken.push(last.name);
    taken.reverse();
    assert_eq!(listed(&mut clients).await, taken);

    daemon.end(Signal::KILL).await;
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    assert_eq!(listed(&mut clients).await, taken, "each once, over a restart too");
    for run in &taken {
        assert!(is_ended(&clients.get(run).await), "{run}");
    }
    assert_eq!(bench.key_of_device(), found);
}

#[tokio::test]
async fn refuses_read_only_state_directory() {
    let bench = Bench::new();
    let Some(disk) = Small::mount(bench.path("state")) else {
        return;
    };
    let mut daemon = bench.serve();
    let mut clients = bench.clients().await;
    let run = clients.create(request("virtual", &["c14-024-node-info"])).await;
    clients.ended(&run.name).await;
    drop(clients);
    daemon.end(Signal::TERM).await;

    disk.remount("remount,ro");
    let refused = bench.command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains(&*disk.0.to_string_lossy()) || said.contains("state directory"),
        "{said}"
    );
    assert!(
        said.to_lowercase().contains("read-only") || said.contains("readonly"),
        "{said}"
    );

    disk.remount("remount,rw");
    let _daemon = bench.serve();
    let mut clients = bench.clients().await;
    assert_eq!(listed(&mut clients).await, [run.name]);
}
