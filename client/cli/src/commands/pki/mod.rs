//! `verbatim pki`: certificates for agents on other hosts.

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

use crate::exit::Usage;
use crate::print;
use certificates::Pki;

/// Make certificates for agents on other hosts.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a small CA with a certificate for the agent and one for the tester
    Init(Init),
}

#[derive(clap::Args)]
struct Init {
    /// Where to put the files; the directory is made if it is not there, and nothing is overwritten
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A name or address of the agent's host, besides localhost, 127.0.0.1 and ::1; may be given several times
    #[arg(long = "agent", value_name = "NAME_OR_IP")]
    servers: Vec<Server>,
    /// How long the certificates are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What a certificate can be made for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Server {
    Name(String),
    Address(IpAddr),
}

impl FromStr for Server {
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
        // A name of digits and dots is an address with a slip of the pen.
        let is_name =
            text.len() <= 253 && text.split('.').all(label) && text.contains(|c: char| c.is_ascii_alphabetic());
        if is_name {
            Ok(Self::Name(text.into()))
        } else {
            Err(EXPECTED.into())
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A file to make.
struct Planned {
    name: &'static str,
    about: &'static str,
    /// Nobody else may read it.
    secret: bool,
    text: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Init(init) => make(init),
    }
}

fn make(init: &Init) -> anyhow::Result<ExitCode> {
    let directory = std::path::absolute(&init.directory).context("the directory's name")?;
    let names = names(&init.servers);
    let pki = Pki::make(&names, OffsetDateTime::now_utc(), init.days).context("making certificates")?;
    let until = pki.until.clone();
    let planned = plan(pki);
    let present: Vec<&str> = planned
        .iter()
        .map(|file| file.name)
        .filter(|name| directory.join(name).symlink_metadata().is_ok())
        .collect();
    if !present.is_empty() {
        return Err(Usage(format!(
            "{} has {} already, and nothing is overwritten: name another directory, or remove them if no agent uses them",
            directory.display(),
            present.join(", ")
        ))
        .into());
    }
    fs::create_dir_all(&directory).with_context(|| format!("the directory {}", directory.display()))?;
    write_all(&directory, &planned)?;
    report(init, &directory, &names, &planned, &until)?;
    Ok(ExitCode::SUCCESS)
}

/// What the agent's certificate is for: always this host, so that a forwarded port works.
fn names(given: &[Server]) -> Vec<Server> {
    let mut names = vec![
        Server::Name("localhost".into()),
        Server::Address(IpAddr::from([127, 0, 0, 1])),
        Server::Address(std::net::Ipv6Addr::LOCALHOST.into()),
    ];
    for server in given {
        if !names.contains(server) {
            names.push(server.clone());
        }
    }
    names
}

fn plan(pki: Pki) -> [Planned; 6] {
    let file = |name, about, secret, text| Planned {
        name,
        about,
        secret,
        text,
    };
    [
        file(
            "ca.pem",
            "the CA's certificate, for both hosts",
            false,
            pki.ca.certificate,
        ),
        file(
            "ca-key.pem",
            "the CA's key: for nobody, keep it or delete it",
            true,
            pki.ca.key,
        ),
        file("server.pem", "the agent's certificate", false, pki.server.certificate),
        file("server-key.pem", "the agent's key", true, pki.server.key),
        file("client.pem", "the tester's certificate", false, pki.client.certificate),
        file("client-key.pem", "the tester's key", true, pki.client.key),
    ]
}

/// Makes all files or none.
fn write_all(directory: &Path, planned: &[Planned]) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for file in planned {
        let path = directory.join(file.name);
        let written = create(&path, file.secret).and_then(|mut open| {
            made.push(path.clone());
            open.write_all(file.text.as_bytes())?;
            open.sync_all()
        });
        if let Err(error) = written {
            for path in made {
                let _ = fs::remove_file(path);
            }
            return Err(error).with_context(|| format!("{} cannot be made; nothing was", path.display()));
        }
    }
    Ok(())
}

fn create(path: &Path, secret: bool) -> io::Result<File> {
    let mode = if secret { 0o600 } else { 0o644 };
    File::options().write(true).create_new(true).mode(mode).open(path)
}

fn report(init: &Init, directory: &Path, names: &[Server], planned: &[Planned], until: &str) -> anyhow::Result<()> {
    const LOCAL: usize = 3;
    let path = |name: &str| directory.join(name).display().to_string();
    let first = names.get(LOCAL).unwrap_or(&names[1]);
    let address = match first {
        Server::Address(IpAddr::V6(address)) => format!("[{address}]"),
        other => other.to_string(),
    };
    let listen = match first {
        Server::Address(_) => format!("{address}:7000"),
        Server::Name(_) => "0.0.0.0:7000".into(),
    };
    let agent = format!(
        "verbatim-agent --listen {listen} --device DEVICE --tls-cert {} --tls-key {} --tls-client-ca {}",
        path("server.pem"),
        path("server-key.pem"),
        path("ca.pem")
    );
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    if init.json {
        let files: Vec<_> = planned
            .iter()
            .map(|file| serde_json::json!({ "path": path(file.name), "about": file.about }))
            .collect();
        return print::json(&serde_json::json!({
            "directory": directory,
            "valid_until": until,
            "server_names": names,
            "files": files,
            "agent_command": agent,
        }));
    }
    let mut text = format!("made in {}, valid until {until}:\n", directory.display());
    for file in planned {
        text.push_str(&format!("  {:<15} {}\n", file.name, file.about));
    }
    text.push_str(&format!("the agent's certificate is for {}\n", names.join(", ")));
    text.push_str(&format!(
        "on the device's host, with ca.pem, server.pem and server-key.pem:\n  {agent}\n"
    ));
    text.push_str(&format!(
        "on the tester, in the rig file:\n  agent = \"{address}:7000\"\n  agent_ca = \"{}\"\n  agent_cert = \"{}\"\n  \
         agent_key = \"{}\"\n  agent_name = \"{first}\"\n",
        path("ca.pem"),
        path("client.pem"),
        path("client-key.pem")
    ));
    print::text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_name_or_an_address() {
        assert_eq!("dut.lab".parse(), Ok(Server::Name("dut.lab".into())));
        assert_eq!("fd00::15".parse(), Ok(Server::Address("fd00::15".parse().unwrap())));
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
                wrong.parse::<Server>().unwrap_err().contains("expected a host name"),
                "{wrong}"
            );
        }
        assert!(format!("{}.lab", "a".repeat(64)).parse::<Server>().is_err());
    }

    #[test]
    fn the_agents_certificate_is_always_for_this_host_and_names_nothing_twice() {
        let given = [
            "127.0.0.1".parse().unwrap(),
            "dut".parse().unwrap(),
            "dut".parse().unwrap(),
        ];
        let names: Vec<String> = names(&given).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["localhost", "127.0.0.1", "::1", "dut"]);
    }

    #[test]
    fn when_a_file_cannot_be_made_none_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let planned = plan(Pki::make(&names(&[]), OffsetDateTime::now_utc(), 1).unwrap());
        // The last one is in the way.
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
