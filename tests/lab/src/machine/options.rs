//! How a machine is booted.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The MAC address of the machine's data interface.
pub const DATA_MAC: &str = "52:54:00:00:00:01";
/// The MAC address of the machine's management interface.
pub const MANAGEMENT_MAC: &str = "52:54:00:00:00:02";

/// How long a boot may take: seconds, but the host may be busy.
const LIMIT: Duration = Duration::from_secs(1200);

/// The two ends of the data cable: unix datagram sockets, each datagram one Ethernet frame without its FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSockets {
    /// The machine's end: QEMU makes it, the tester sends to it.
    pub machine: PathBuf,
    /// The tester's end: the tester binds it. What the machine sends while nobody has is lost, as on a dead cable.
    pub tester: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataNic {
    Absent,
    Private,
    At(DataSockets),
}

/// What a machine is booted with. One virtual processor, 384 MiB and 60 s to come up, unless said otherwise.
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
}

impl BootOptions {
    /// A machine that mounts the directory `share` at `/mnt/share` and runs the file `script` of it. The script tells
    /// the host when it serves, see `ready` in `guest/lab.sh`. The console's log is appended to `console`, and stays.
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
        }
    }

    /// With a data interface on a cable of its own; [`crate::machine::Machine::data_sockets`] has its ends.
    #[must_use]
    pub fn with_data_nic(mut self) -> Self {
        self.data = DataNic::Private;
        self
    }

    /// With a data interface between these sockets, whose paths must be shorter than 108 bytes. With the ends exchanged
    /// in a second machine's options, the two are cabled together.
    #[must_use]
    pub fn with_data_nic_at(mut self, sockets: DataSockets) -> Self {
        self.data = DataNic::At(sockets);
        self
    }

    /// With a management interface: a free TCP port of 127.0.0.1 leads to 10.0.2.15:7000 in the machine, and nothing
    /// else gets in or out. [`crate::machine::Machine::agent_address`] has it.
    #[must_use]
    pub fn with_agent_port(mut self) -> Self {
        self.agent_port = true;
        self
    }

    /// With ports `out` and `err`, to which a script may write any bytes; see [`crate::machine::Machine::take_output`].
    #[must_use]
    pub fn with_output(mut self) -> Self {
        self.output = true;
        self
    }

    /// With ports `cable1` and up, each a stream of bytes both ways between the machine and a unix stream socket where
    /// somebody listens already.
    #[must_use]
    pub fn with_cables(mut self, sockets: Vec<PathBuf>) -> Self {
        self.cables = sockets;
        self
    }

    /// With a directory of the host, read and written at the same path in the machine, in which the script starts.
    /// Refused where it would hide a directory of the machine's own.
    #[must_use]
    pub fn with_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// With so many virtual processors.
    #[must_use]
    pub fn with_cpus(mut self, cpus: u8) -> Self {
        self.cpus = cpus;
        self
    }

    /// With a clock that advances by 2 ns with each instruction and stands still otherwise, and one virtual processor
    /// whatever [`BootOptions::with_cpus`] says: two do not come up by such a clock. What takes a time in there takes the
    /// same whenever it is measured: it is a count of work, without what the host's other programs and the emulator's
    /// caches do. It says nothing about the time outside.
    #[must_use]
    pub fn with_counted_time(mut self) -> Self {
        self.counted_time = true;
        self
    }

    /// With so much memory, in MiB. The image itself takes about 60.
    #[must_use]
    pub fn with_memory(mut self, mebibytes: u32) -> Self {
        self.memory = mebibytes;
        self
    }

    /// With so long to come up; a second attempt gets as long again.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

/// Whether a directory of the host can be mounted at its own path: it must hide nothing of the machine.
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
        // Below these the image has nothing of that depth that a script needs.
        Some("root" | "mnt") => parts.next().is_some_and(|part| part != "share"),
        Some(first) => path.is_absolute() && !OURS.contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_would_hide_the_machines_own_is_not_mounted() {
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
