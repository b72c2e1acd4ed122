//! `verbatim doctor --agent`: checks whether an agent conforms to `verbatim.agent.v1`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use verbatim_text::Text;
use verbatim_verbs::conformance::{self, Finding, Outcome};
use verbatim_verbs::tls::ClientFiles;
use verbatim_verbs::{AgentAddress, AgentTls, Place};

use crate::{exit, print};

/// Options for the agent's address and certificates.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Check whether the agent at this address conforms to verbatim.agent.v1: unix:PATH, IP:PORT or NAME:PORT. Sends no
    /// packet
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["rig", "rig_file"])]
    pub(super) agent: Option<String>,
    /// The CA of the agent's certificate (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "agent",
        requires = "agent_cert",
        requires = "agent_key"
    )]
    agent_ca: Option<PathBuf>,
    /// The certificate that this client shows to the agent (PEM)
    #[arg(long, value_name = "FILE", requires = "agent_ca")]
    agent_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "agent_ca")]
    agent_key: Option<PathBuf>,
    /// The name in the agent's certificate; by default the host name in --agent
    #[arg(long, value_name = "NAME", requires = "agent_ca")]
    agent_name: Option<String>,
    /// Leave out the check of keep-alive pings, which takes half a minute
    #[arg(long, requires = "agent")]
    quick: bool,
}

/// A finding in JSON.
#[derive(Serialize)]
struct InJson<'a> {
    what: &'a str,
    outcome: String,
    usable: bool,
    words: &'a str,
}

/// Checks an agent. The exit code tells whether a check failed.
pub(super) fn run(given: &str, options: &Options, json: bool) -> anyhow::Result<ExitCode> {
    let address = address(given, options)?;
    let mut findings: Vec<Finding> = Vec::new();
    let mut written = Ok(());
    conformance::check(&address, !options.quick, |finding| {
        if !json && written.is_ok() {
            let Finding { outcome, what, words } = &finding;
            written = print::text(&Text::of(format_args!("{outcome:<4} {what:<20} {words}")));
        }
        findings.push(finding);
    });
    written?;
    let failed = count(&findings, Outcome::Fail);
    if json {
        let found: Vec<InJson<'_>> = findings
            .iter()
            .map(|finding| InJson {
                what: finding.what,
                outcome: finding.outcome.to_string(),
                usable: finding.outcome != Outcome::Fail,
                words: &finding.words,
            })
            .collect();
        print::json(&serde_json::json!({ "agent": given, "found": found }))?;
    } else {
        let mut text = Text::of("");
        text.line(summary(given, &findings));
        print::text(&text)?;
    }
    Ok(ExitCode::from(if failed == 0 { 0 } else { exit::ERROR }))
}

fn count(findings: &[Finding], of: Outcome) -> u64 {
    findings.iter().filter(|finding| finding.outcome == of).count() as u64
}

fn summary(given: &str, findings: &[Finding]) -> String {
    let count = |of| count(findings, of);
    format!(
        "{} of the agent at {given}: {} passed, {} failed, {}, {} left out",
        print::counted(findings.len() as u64, "check", "checks"),
        count(Outcome::Pass),
        count(Outcome::Fail),
        print::counted(count(Outcome::Note), "note", "notes"),
        count(Outcome::Skip),
    )
}

/// Returns the agent's address with the certificates.
fn address(given: &str, options: &Options) -> anyhow::Result<AgentAddress> {
    let usage = |words: String| exit::Usage(words);
    if let Some(path) = given.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(usage(
                "--agent unix: names no socket; expected unix:PATH, such as unix:/run/agent.sock".into(),
            )
            .into());
        }
        if options.agent_ca.is_some() {
            return Err(usage(format!(
                "--agent {given} is a unix socket, which has no TLS: leave --agent-ca out"
            ))
            .into());
        }
        return Ok(AgentAddress {
            place: Place::Unix(Path::new(path).to_path_buf()),
            tls: None,
        });
    }
    let (host, at) = resolved(given)?;
    let files = match (&options.agent_ca, &options.agent_cert, &options.agent_key) {
        (Some(ca), Some(cert), Some(key)) => Some(ClientFiles {
            ca: ca.clone(),
            cert: cert.clone(),
            key: key.clone(),
        }),
        _ => None,
    };
    if files.is_none() && !at.ip().to_canonical().is_loopback() {
        return Err(usage(format!(
            "--agent {given} is not a loopback address: an agent at such an address needs TLS; give --agent-ca, \
             --agent-cert and --agent-key (`verbatim pki init DIR` makes the files)"
        ))
        .into());
    }
    Ok(AgentAddress {
        place: Place::Tcp(at),
        tls: files.map(|files| AgentTls {
            files,
            server_name: options.agent_name.clone().or(host),
        }),
    })
}

/// Resolves the address. Also returns the host name, if the address has one.
fn resolved(given: &str) -> anyhow::Result<(Option<String>, SocketAddr)> {
    if let Ok(address) = given.parse() {
        return Ok((None, address));
    }
    let expected = "expected unix:PATH, IP:PORT or NAME:PORT, such as 127.0.0.1:7000, [::1]:7000 or dut-3:7000";
    let port = given
        .rsplit_once(':')
        .filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let Some((host, _)) = port else {
        return Err(exit::Usage(format!("--agent {given:?} is not an address; {expected}")).into());
    };
    match given.to_socket_addrs().map(|mut all| all.next()) {
        Ok(Some(address)) => Ok((Some(host.into()), address)),
        Ok(None) => Err(exit::Usage(format!("--agent {given:?}: {host} has no address; {expected}")).into()),
        Err(error) => Err(exit::Usage(format!("--agent {given:?}: {host} is not found ({error}); {expected}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_singular_and_plural() {
        let finding = |outcome| Finding {
            what: "hello",
            outcome,
            words: String::new(),
        };
        assert_eq!(
            summary("unix:a", &[finding(Outcome::Note)]),
            "1 check of the agent at unix:a: 0 passed, 0 failed, 1 note, 0 left out"
        );
        assert_eq!(
            summary("unix:a", &[finding(Outcome::Pass), finding(Outcome::Fail)]),
            "2 checks of the agent at unix:a: 1 passed, 1 failed, 0 notes, 0 left out"
        );
    }
}
