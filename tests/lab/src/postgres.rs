//! A private PostgreSQL server in a temporary directory, on a Unix socket. The server ends with its owner.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::process::Process;
use crate::host::{apt_line, program};

/// Longest time until the server is ready, on a busy host.
const LIMIT: Duration = Duration::from_secs(1200);
/// End of the log line that reports readiness.
const READY: &str = "database system is ready to accept connections";

/// A server with an empty database `verbatim`, owned by the user `verbatim`, without a password.
#[derive(Debug)]
pub struct Postgres {
    /// The server's process, and a channel: a message reports readiness, and disconnection reports the server's end.
    server: Option<(Process, Receiver<()>)>,
    directory: TempDir,
    binaries: PathBuf,
    /// User and group id of the server if this process is root. PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl Postgres {
    /// Returns whether PostgreSQL is installed.
    #[must_use]
    pub fn is_installed() -> bool {
        binaries().is_some()
    }

    /// Makes the database and starts the server.
    ///
    /// # Errors
    ///
    /// When PostgreSQL is not installed, with the command that installs it, or when the server does not start.
    pub fn start() -> anyhow::Result<Self> {
        let Some(binaries) = binaries() else {
            bail!("PostgreSQL is missing: {}", apt_line(&["postgresql"]));
        };
        let directory = tempfile::Builder::new().prefix("verbatim-pg-").tempdir();
        let directory = directory.context("making a temporary directory")?;
        let user = (fs::metadata("/proc/self")?.uid() == 0)
            .then(unprivileged)
            .transpose()?;
        if let Some((uid, gid)) = user {
            chown(directory.path(), Some(uid), Some(gid)).context("giving the directory to PostgreSQL's user")?;
        }
        // Clients that run as other users must reach the socket.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let mut of = Self {
            server: None,
            directory,
            binaries,
            user,
        };
        let data = of.path("data");
        let data = data.to_string_lossy();
        of.run(&[
            "initdb",
            "--auth=trust",
            "--username=verbatim",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
            &data,
        ])?;
        of.go_on()?;
        of.run(&["createdb", "--host", &of.socket(), "--username=verbatim", "verbatim"])?;
        Ok(of)
    }

    /// Makes another database, and returns its URL.
    ///
    /// # Errors
    ///
    /// When a database of that name exists.
    pub fn database(&self, name: &str) -> anyhow::Result<String> {
        self.run(&["createdb", "--host", &self.socket(), "--username=verbatim", name])?;
        Ok(self.url().replacen("verbatim", name, 1))
    }

    /// Runs statements in a database of that name.
    ///
    /// # Errors
    ///
    /// When a statement fails.
    pub fn execute(&self, name: &str, sql: &str) -> anyhow::Result<()> {
        let socket = self.socket();
        let user = "--username=verbatim";
        let how = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--command", sql];
        self.run(&[&["psql", "--host", &socket, user, "--dbname", name], &how[..]].concat())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn socket(&self) -> String {
        self.directory.path().display().to_string()
    }

    /// Returns the path of the server's Unix socket.
    #[must_use]
    pub fn socket_file(&self) -> PathBuf {
        self.path(".s.PGSQL.5432")
    }

    /// Returns the URL of the database.
    #[must_use]
    pub fn url(&self) -> String {
        url_at(self.directory.path())
    }

    /// Returns a command of a PostgreSQL program, which runs as the server's user.
    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        match self.user {
            Some((uid, gid)) => {
                command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
                command.arg("--clear-groups");
            }
            None => drop(command.arg("--inh-caps=-all")),
        }
        command.arg("--").arg(self.binaries.join(line[0])).args(&line[1..]);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &[&str]) -> anyhow::Result<()> {
        let done = self
            .command(line)
            .output()
            .with_context(|| format!("running {}", line[0]))?;
        if !done.status.success() {
            bail!("{} failed: {}", line[0], String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(())
    }

    /// Starts the server, for the first time or after [`Postgres::kill`].
    ///
    /// # Errors
    ///
    /// When the server is not ready in time. The error contains the server's log.
    pub fn go_on(&mut self) -> anyhow::Result<()> {
        let log = self.path("log");
        let mut file = fs::File::options().create(true).append(true).open(&log)?;
        let (says, said) = std::io::pipe()?;
        // -F turns off fsync, because the data need not survive a power failure.
        let data = self.path("data").display().to_string();
        let socket = self.socket();
        let settings = ["-h", "", "-k", &socket, "-N", "100", "-F", "-c", "lc_messages=C"];
        let command = self.command(&[&["postgres", "-D", &data][..], &settings].concat());
        let prepare = |of: &mut Command| {
            of.args(command.get_args()).current_dir(self.directory.path());
            of.stdin(Stdio::null()).stderr(said);
        };
        let server = Process::start(prepare, Path::new("setpriv")).context("starting postgres")?;
        let (tell, told) = mpsc::channel();
        // The loop ends when the server and all its children have ended.
        thread::Builder::new().name("postgres".into()).spawn(move || {
            for line in BufReader::new(says).lines().map_while(Result::ok) {
                let _ = writeln!(file, "{line}");
                if line.ends_with(READY) {
                    let _ = tell.send(());
                }
            }
        })?;
        self.server = Some((server, told));
        let is_ready = self.server.as_ref().map(|(_, told)| told.recv_timeout(LIMIT));
        if !matches!(is_ready, Some(Ok(()))) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("postgres does not serve: {}", said.trim());
        }
        Ok(())
    }

    /// Ends the server at once, like a crash: all connections break, and committed data stays.
    pub fn kill(&mut self) {
        if let Some((mut server, told)) = self.server.take() {
            // On SIGQUIT the server first ends its children, which use its shared memory.
            let _ = Command::new("sh")
                .args(["-c", "kill -s QUIT \"$1\"", "sh", &server.pid.to_string()])
                .stderr(Stdio::null())
                .status();
            while told.recv_timeout(LIMIT).is_ok() {}
            server.kill();
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the URL of the database `verbatim` of a server whose socket is in this directory.
#[must_use]
pub fn url_at(directory: &Path) -> String {
    format!("postgres:///verbatim?host={}&user=verbatim", directory.display())
}

/// Returns the directory of PostgreSQL's programs: Debian's newest version, or the directory on the PATH.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.sort();
    found.reverse();
    found.extend(program("initdb").and_then(|initdb| Some(initdb.parent()?.to_path_buf())));
    let has_all = |directory: &PathBuf| {
        ["initdb", "postgres", "pg_isready"]
            .iter()
            .all(|name| directory.join(name).is_file())
    };
    found.into_iter().find(has_all)
}

/// Returns user and group id of the user of Debian's package, or else of the user `nobody`.
fn unprivileged() -> anyhow::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    let id = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    id("postgres")
        .or_else(|| id("nobody"))
        .context("this host has neither a user postgres nor a user nobody to run PostgreSQL")
}
