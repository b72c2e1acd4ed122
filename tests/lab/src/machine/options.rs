//! The options of a machine's boot.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The MAC address of the machine's data interface.
pub const DATA_MAC: &str = "52:54:00:00:00:01";
/// The MAC address of the machine's management interface.
pub const MANAGEMENT_MAC: &str = "52:54:00:00:00:02";

/// Default limit of a boot. A boot takes seconds, but the host may be busy.
const LIMIT: Duration = Duration::from_secs(1200);

/// The two ends of the data cable: Unix datagram sockets. Each datagram is one Ethernet frame without its FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSockets {
    /// The machine's end. QEMU makes this socket, and the tester sends to it.
    pub machine: PathBuf,
    /// The tester's end, which the tester binds. Until then, frames of the machine are lost, as on an unplugged cable.
    pub tester: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataNic {
    Absent,
    Private,
    At(DataSockets),
}

/// Options of a machine's boot. The defaults are one virtual processor, 384 MiB, and 1200 s to boot.
#[derive(Clone, Debug)]
pub struct BootOptions {
    pub(crate) share: PathBuf,
    pub(crate) script: String,
    pub(crate) console: PathBuf,
    pub(crate) data: DataNic,
    pub(crate) agent_port: bool,
    pub(crate) output: bool,
    pub(crate) cables: Vec<PathBuf>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) cpus: u8,
    pub(crate) counted_time: bool,
    pub(crate) memory: u32,
    pub(crate) limit: Duration,
    pub(crate) reboots: bool,
    pub(crate) capture: Option<PathBuf>,
}

impl BootOptions {
    /// Returns options for a machine that mounts the directory `share` at `/mnt/share` and runs its file `script`. The
    /// script reports when it is ready; see `ready` in `guest/lab.sh`. The machine appends its console's log to the
    /// file `console`, which is kept after the machine's end.
    #[must_use]
    pub fn new(share: impl Into<PathBuf>, script: impl Into<String>, console: impl Into<PathBuf>) -> Self {
        Self {
            share: share.into(),
            script: script.into(),
            console: console.into(),
            data: DataNic::Absent,
            agent_port: false,
            output: false,
            cables: Vec::new(),
            directory: None,
            cpus: 1,
            counted_time: false,
            memory: 384,
            limit: LIMIT,
            reboots: false,
            capture: None,
        }
    }

    /// Adds a data interface with a new cable. [`crate::machine::Machine::data_sockets`] returns the cable's ends.
    #[must_use]
    pub fn with_data_nic(mut self) -> Self {
        self.data = DataNic::Private;
        self
    }

    /// Adds a data interface between these sockets, whose paths must be shorter than 108 bytes. With the ends exchanged
    /// in a second machine's options, the two machines are cabled together.
    #[must_use]
    pub fn with_data_nic_at(mut self, sockets: DataSockets) -> Self {
        self.data = DataNic::At(sockets);
        self
    }

    /// Adds a management interface: a free TCP port of 127.0.0.1 forwards to 10.0.2.15:7000 in the machine. All other
    /// traffic is blocked. [`crate::machine::Machine::agent_address`] returns the port.
    #[must_use]
    pub fn with_agent_port(mut self) -> Self {
        self.agent_port = true;
        self
    }

    /// Adds ports `out` and `err`, to which a script may write any bytes; see [`crate::machine::Machine::take_output`].
    #[must_use]
    pub fn with_output(mut self) -> Self {
        self.output = true;
        self
    }

    /// Adds one port for each of these Unix stream sockets: `cable1`, `cable2` and so on. A port carries bytes in
    /// both directions. A process must already listen at each socket.
    #[must_use]
    pub fn with_cables(mut self, sockets: Vec<PathBuf>) -> Self {
        self.cables = sockets;
        self
    }

    /// Mounts a directory of the host at the same path in the machine, writable. The script starts in this directory.
    /// The boot fails if the mount would hide one of the machine's own directories.
    #[must_use]
    pub fn with_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Sets the number of virtual processors.
    #[must_use]
    pub fn with_cpus(mut self, cpus: u8) -> Self {
        self.cpus = cpus;
        self
    }

    /// Uses a clock that advances by 2 ns with each instruction. The machine then has one virtual processor, for any
    /// value of [`BootOptions::with_cpus`], because two processors do not boot with this clock. A duration in the
    /// machine is a count of instructions. It is the same in every measurement: the host's other programs and the
    /// emulator's caches have no effect. The duration is unrelated to real time.
    #[must_use]
    pub fn with_counted_time(mut self) -> Self {
        self.counted_time = true;
        self
    }

    /// Sets the memory in MiB. The image itself takes about 60.
    #[must_use]
    pub fn with_memory(mut self, mebibytes: u32) -> Self {
        self.memory = mebibytes;
        self
    }

    /// Lets the machine boot again after a panic of its kernel. Otherwise the machine ends.
    #[must_use]
    pub fn with_reboots(mut self) -> Self {
        self.reboots = true;
        self
    }

    /// Writes all frames of the data interface to this file, as pcap. The path must be absolute.
    #[must_use]
    pub fn with_capture(mut self, path: Option<PathBuf>) -> Self {
        self.capture = path;
        self
    }

    /// Sets the time limit of a boot. A second attempt has the same limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

/// Returns whether a directory of the host can be mounted at its own path without hiding a directory of the machine.
#[must_use]
pub(crate) fn is_mountable(path: &Path) -> bool {
    const OURS: [&str; 13] = [
        "bin", "sbin", "lib", "lib64", "usr", "etc", "proc", "sys", "dev", "run", "root", "mnt", "modules",
    ];
    let Some(text) = path.to_str().filter(|text| !text.contains(char::is_whitespace)) else {
        return false;
    };
    let mut parts = text.split('/').skip(1).filter(|part| !part.is_empty());
    match parts.next() {
        None => false,
        Some("tmp") => parts.next().is_some(),
        // Under /root and /mnt, the machine's scripts need only /mnt/share.
        Some("root" | "mnt") => parts.next().is_some_and(|part| part != "share"),
        Some(first) => path.is_absolute() && !OURS.contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_mounts_over_machine_directories() {
        for path in ["/work/main", "/home/me", "/tmp/x", "/root/verbatim", "/mnt/disk/x"] {
            assert!(is_mountable(Path::new(path)), "{path}");
        }
        for path in [
            "/",
            "/tmp",
            "/usr/local",
            "/proc/1",
            "/mnt",
            "/mnt/share",
            "/root",
            "x",
            "/a b",
            "",
        ] {
            assert!(!is_mountable(Path::new(path)), "{path}");
        }
    }
}
