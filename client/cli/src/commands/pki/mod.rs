//! `verbatim pki`: certificates for daemons and agents on other hosts, and for their clients.

mod certificates;

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use clap::Subcommand;
use time::OffsetDateTime;
use verbatim_text::Text;

use crate::exit::Usage;
use crate::print;
use certificates::{Ca, For, Pair};

/// Make, and revoke, certificates for daemons and agents on other hosts and for their clients.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a small CA, a certificate for the daemon or agent and one for its first client
    Init(Init),
    /// Make a certificate for another client, or with --server-host for another daemon or agent
    Issue(Issue),
    /// Put a certificate on the CA's list of revoked certificates
    Revoke(Revoke),
}

#[derive(clap::Args)]
struct Init {
    /// Directory for the files; the command makes it if it does not exist, and overwrites no file
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A name or address of the server's host, besides localhost, 127.0.0.1 and ::1; may be given several times
    #[arg(long = "server-host", visible_alias = "agent", value_name = "NAME_OR_IP")]
    servers: Vec<Host>,
    /// Name of the client in its certificate, in roles and in logs
    #[arg(long, value_name = "NAME", default_value = "admin", value_parser = client_name)]
    client: String,
    /// Lifetime of the certificates
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Issue {
    /// The directory of `verbatim pki init`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Name in roles and logs, and of the files NAME.pem and NAME-key.pem
    #[arg(value_name = "NAME", value_parser = client_name)]
    name: String,
    /// Make a server certificate for this name or address, and for localhost; may be given several times
    #[arg(long = "server-host", value_name = "NAME_OR_IP")]
    servers: Vec<Host>,
    /// Lifetime of the certificate; it ends with that of the CA at the latest
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
}

#[derive(clap::Args)]
struct Revoke {
    /// The directory of `verbatim pki init`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The certificate: the NAME of its file NAME.pem in the directory, or a path
    #[arg(value_name = "NAME_OR_FILE")]
    certificate: PathBuf,
}

/// Parses a name that is safe as a file name and in a log line.
fn client_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(plain) && !text.starts_with(['.', '-']) {
        Ok(text.into())
    } else {
        Err("expected 1 to 64 letters, digits and -_.@, such as alice or ci@lab".into())
    }
}

/// A name or an address in a server's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a host name such as dut.lab, or an address such as 10.0.2.15 or fd00::15, \
                                without a port";
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let label = |label: &str| {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            (1..=63).contains(&label.len())
                && label.chars().all(inside)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A name of digits and dots is a mistyped address.
        let is_name =
            text.len() <= 253 && text.split('.').all(label) && text.contains(|c: char| c.is_ascii_alphabetic());
        if is_name {
            Ok(Self::Name(text.into()))
        } else {
            Err(EXPECTED.into())
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A file to create.
#[derive(Clone)]
struct Planned {
    name: String,
    about: String,
    /// Whether only this user may read the file.
    secret: bool,
    text: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Init(init) => make(init),
        Command::Issue(issue) => self::issue(issue),
        Command::Revoke(revoke) => self::revoke(revoke),
    }
}

fn make(init: &Init) -> anyhow::Result<ExitCode> {
    let directory = std::path::absolute(&init.directory).context("the directory's name")?;
    let names = names(&init.servers);
    let (planned, until) = plan(&names, &init.client, init.days).context("cannot make the certificates")?;
    refuse_present(&directory, &planned)?;
    fs::create_dir_all(&directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    write_all(&directory, &planned)?;
    report(init, &directory, &names, &planned, &until)
}

/// Fails if one of the files exists.
fn refuse_present(directory: &Path, planned: &[Planned]) -> Result<(), Usage> {
    let names = planned.iter().map(|file| file.name.as_str());
    let present: Vec<&str> = names
        .filter(|name| directory.join(name).symlink_metadata().is_ok())
        .collect();
    if present.is_empty() {
        return Ok(());
    }
    Err(Usage(format!(
        "{} has {} already, and nothing is overwritten: give another directory or name, or remove unused files",
        directory.display(),
        present.join(", ")
    )))
}

/// Loads the CA of a directory.
fn ca_of(directory: &Path) -> anyhow::Result<Ca> {
    let read = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).map_err(|error| {
            Usage(format!(
                "{}: {error}; expected the directory of `verbatim pki init`, with the CA's key",
                path.display()
            ))
        })
    };
    Ca::of(read("ca.pem")?, read("ca-key.pem")?)
}

fn issue(issue: &Issue) -> anyhow::Result<ExitCode> {
    let directory = std::path::absolute(&issue.directory).context("the directory's name")?;
    let ca = ca_of(&directory)?;
    let names = names(&issue.servers);
    let (what, about) = match &issue.servers[..] {
        [] => (For::Client(&issue.name), "client"),
        _ => (For::Server(&names), "server"),
    };
    let (pair, until) = ca
        .issue(&what, OffsetDateTime::now_utc(), issue.days)
        .context("cannot make the certificate")?;
    let planned = pair_of(
        &issue.name,
        &format!("the {about}'s certificate"),
        &format!("the {about}'s key"),
        pair,
    );
    refuse_present(&directory, &planned)?;
    write_all(&directory, &planned)?;
    let path = |name: &str| directory.join(name).display().to_string();
    let mut text = format!(
        "made {} and {}, valid until {}\n",
        path(&planned[0].name),
        path(&planned[1].name),
        until.date()
    );
    if issue.servers.is_empty() {
        text.push_str(&format!(
            "give both files and ca.pem to {0}; in the daemon's configuration, give a role to cert:{0}\n",
            issue.name
        ));
    }
    print::text(&Text::own(&text))?;
    Ok(ExitCode::SUCCESS)
}

fn revoke(revoke: &Revoke) -> anyhow::Result<ExitCode> {
    let directory = std::path::absolute(&revoke.directory).context("the directory's name")?;
    let ca = ca_of(&directory)?;
    let named = directory.join(&revoke.certificate).with_extension("pem");
    let path = if named.is_file() {
        named
    } else {
        revoke.certificate.clone()
    };
    let pem = fs::read_to_string(&path).map_err(|error| {
        Usage(format!(
            "{}: {error}; expected a certificate, or the NAME of one in {}",
            path.display(),
            directory.display()
        ))
    })?;
    let (serial, _) = certificates::read(&pem).with_context(|| path.display().to_string())?;
    let list = directory.join("crl.pem");
    let (mut serials, last) = match fs::read_to_string(&list) {
        Ok(text) => certificates::revoked(&text).with_context(|| list.display().to_string())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), 0),
        Err(error) => return Err(error).with_context(|| list.display().to_string()),
    };
    if !serials.contains(&serial) {
        serials.push(serial);
    }
    let text = ca
        .revoke(&serials, last, OffsetDateTime::now_utc())
        .context("cannot make the list of revoked certificates")?;
    replace(&list, &text)?;
    print::text(&Text::of(format_args!(
        "{} is revoked; {} lists {}. Copy this list to the path `crl` of the daemon's configuration, or --tls-crl of \
         the agent. The daemon reads it at once, the agent at SIGHUP",
        path.display(),
        list.display(),
        print::counted(serials.len() as u64, "certificate", "certificates")
    )))?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces a file atomically.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let named = || path.display().to_string();
    let new = path.with_extension("pem.new");
    let _ = fs::remove_file(&new);
    let mut open = create(&new, false).with_context(named)?;
    let written = open.write_all(text.as_bytes()).and_then(|()| open.sync_all());
    written.and_then(|()| fs::rename(&new, path)).with_context(named)
}

/// Returns the names in a server's certificate. Localhost is always included, for forwarded ports.
fn names(given: &[Host]) -> Vec<Host> {
    let mut names = vec![
        Host::Name("localhost".into()),
        Host::Address(IpAddr::from([127, 0, 0, 1])),
        Host::Address(std::net::Ipv6Addr::LOCALHOST.into()),
    ];
    for server in given {
        if !names.contains(server) {
            names.push(server.clone());
        }
    }
    names
}

/// Creates all files of `pki init`, and returns the end of their validity.
fn plan(names: &[Host], client: &str, days: u16) -> Result<(Vec<Planned>, String), rcgen::Error> {
    let now = OffsetDateTime::now_utc();
    let ca = Ca::make(now, days)?;
    let (server, until) = ca.issue(&For::Server(names), now, days)?;
    let (of_client, _) = ca.issue(&For::Client(client), now, days)?;
    let list = Planned {
        name: "crl.pem".into(),
        about: "the CA's list of revoked certificates, for servers".into(),
        secret: false,
        text: ca.revoke(&[], 0, now)?,
    };
    let mut planned = pair_of(
        "ca",
        "the CA's certificate, for all hosts",
        "the CA's key, only for `pki issue` and `pki revoke`; keep it secret",
        ca.pair,
    )
    .to_vec();
    planned.push(list);
    planned.extend(pair_of(
        "server",
        "the certificate of the daemon or agent",
        "its key",
        server,
    ));
    planned.extend(pair_of(
        "client",
        &format!("the certificate of its client {client:?}"),
        "its key",
        of_client,
    ));
    Ok((planned, until.date().to_string()))
}

/// Returns the files of a certificate and its key.
fn pair_of(name: &str, certificate: &str, key: &str, pair: Pair) -> [Planned; 2] {
    let file = |name: String, about: &str, secret, text| Planned {
        name,
        about: about.into(),
        secret,
        text,
    };
    [
        file(format!("{name}.pem"), certificate, false, pair.certificate),
        file(format!("{name}-key.pem"), key, true, pair.key),
    ]
}

/// Creates all files, or none on an error.
fn write_all(directory: &Path, planned: &[Planned]) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for file in planned {
        let path = directory.join(&file.name);
        let written = create(&path, file.secret).and_then(|mut open| {
            made.push(path.clone());
            open.write_all(file.text.as_bytes())?;
            open.sync_all()
        });
        if let Err(error) = written {
            for path in made {
                let _ = fs::remove_file(path);
            }
            return Err(error).with_context(|| format!("cannot make {}; no new file was left", path.display()));
        }
    }
    Ok(())
}

fn create(path: &Path, secret: bool) -> io::Result<File> {
    let mode = if secret { 0o600 } else { 0o644 };
    File::options().write(true).create_new(true).mode(mode).open(path)
}

fn report(init: &Init, directory: &Path, names: &[Host], planned: &[Planned], until: &str) -> anyhow::Result<ExitCode> {
    const LOCAL: usize = 3;
    let path = |name: &str| directory.join(name).display().to_string();
    let first = names.get(LOCAL).unwrap_or(&names[1]);
    let address = match first {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
        other => other.to_string(),
    };
    let listen = match first {
        Host::Address(_) => format!("{address}:7000"),
        Host::Name(_) => "0.0.0.0:7000".into(),
    };
    let agent = format!(
        "verbatim-agent --listen {listen} --device DEVICE --tls-cert {} --tls-key {} --tls-client-ca {}",
        path("server.pem"),
        path("server-key.pem"),
        path("ca.pem")
    );
    let daemon = format!(
        "[listen]\n  address = \"0.0.0.0:7443\"\n  cert = \"{}\"\n  key = \"{}\"\n  client_ca = \"{}\"\n  crl = \"{}\"\n\n  \
         [[role]]\n  role = \"admin\"\n  who = [\"cert:{}\"]\n",
        path("server.pem"),
        path("server-key.pem"),
        path("ca.pem"),
        path("crl.pem"),
        init.client
    );
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    if init.json {
        let files: Vec<_> = planned
            .iter()
            .map(|file| serde_json::json!({ "path": path(&file.name), "about": file.about }))
            .collect();
        print::json(&serde_json::json!({
            "directory": directory,
            "valid_until": until,
            "server_names": names,
            "client": init.client,
            "files": files,
            "agent_command": agent,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("made in {}, valid until {until}:\n", directory.display());
    for file in planned {
        text.push_str(&format!("  {:<15} {}\n", file.name, file.about));
    }
    text.push_str(&format!("the server's certificate is for {}\n", names.join(", ")));
    text.push_str(&format!(
        "for a daemon, on its host, in /etc/verbatim/verbatimd.toml:\n  config_version = 1\n\n  {daemon}and on the client:\n  \
         verbatim --server https://{address}:7443 --ca {0} --cert {1} --key {2} rigs\n",
        path("ca.pem"),
        path("client.pem"),
        path("client-key.pem")
    ));
    text.push_str(&format!(
        "for an agent, on the device's host:\n  {agent}\nand on the tester, in the rig file:\n  agent = \"{address}:7000\"\n  \
         agent_ca = \"{}\"\n  agent_cert = \"{}\"\n  agent_key = \"{}\"\n  agent_name = \"{first}\"\n",
        path("ca.pem"),
        path("client.pem"),
        path("client-key.pem")
    ));
    print::text(&Text::own(&text))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_a_host_name_or_an_address() {
        assert_eq!("dut.lab".parse(), Ok(Host::Name("dut.lab".into())));
        assert_eq!("fd00::15".parse(), Ok(Host::Address("fd00::15".parse().unwrap())));
        for wrong in [
            "",
            "a..b",
            "-a",
            "a-",
            "dut.lab:7000",
            "10.0.0.256",
            "10.0.2.15:7000",
            "[::1]",
            "a b",
            "ü.lab",
            "*",
        ] {
            assert!(
                wrong.parse::<Host>().unwrap_err().contains("expected a host name"),
                "{wrong}"
            );
        }
        assert!(format!("{}.lab", "a".repeat(64)).parse::<Host>().is_err());
    }

    #[test]
    fn certificate_names_include_localhost_once() {
        let given = [
            "127.0.0.1".parse().unwrap(),
            "dut".parse().unwrap(),
            "dut".parse().unwrap(),
        ];
        let names: Vec<String> = names(&given).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["localhost", "127.0.0.1", "::1", "dut"]);
    }

    #[test]
    fn failed_write_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let (planned, _) = plan(&names(&[]), "admin", 1).unwrap();
        // A file with the name of the last planned file exists.
        fs::write(directory.path().join("client-key.pem"), "mine").unwrap();
        assert!(write_all(directory.path(), &planned).is_err());
        let left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, ["client-key.pem"]);
        assert_eq!(fs::read(directory.path().join("client-key.pem")).unwrap(), b"mine");
    }
}
