//! Runs the commands of docs/install.md as the page shows them, on the host of the rigs and on a client's host.

use std::fs;
use std::process::Command;

use verbatim_lab::ServiceLab;
use verbatim_lab::workspace::root;
use verbatim_tests::pages::shown;
use verbatim_tests::product::{Place, program, programs, run};

use crate::service::{LIMIT, asked, done, user};

/// The address prefix on the page, and the address prefix of the machine.
const NETWORK: [&str; 2] = ["192.0.2.", "10.0.2."];
/// A client's files.
const FILES: [&str; 5] = ["ca.pem", "alice.pem", "alice-key.pem", "client.pem", "client-key.pem"];

/// Runs the commands of the page. The packages stay installed. Returns a client with alice's certificate.
pub(crate) fn holds(lab: &ServiceLab) -> Client {
    let client = Client::new(lab);
    done(
        lab,
        "mkdir /root/work && cp /mnt/share/debs/verbatim*_0.1.0_amd64.deb /root/work",
    );
    for name in ["service.toml", "network.conf"] {
        let text = fs::read_to_string(root().join("docs/examples").join(name)).unwrap();
        let text = text.replace(NETWORK[0], NETWORK[1]);
        done(lab, &format!("cat >/root/work/{name} <<'END'\n{text}END"));
    }
    let mut differs = String::new();
    for command in shown("install.md", &["service", "service-client"]) {
        let printed = if command.lab == "service" {
            in_machine(lab, &command.command)
        } else {
            client.takes_its_files(lab);
            client.says(&command.command)
        };
        differs += &command.differs(printed);
    }
    assert!(differs.is_empty(), "docs/install.md shows what is not so:\n{differs}");
    an_expired_certificate_is_refused(lab, &client);
    // Install the package for the host of a device. This machine also has devices.
    done(
        lab,
        "cd /root/work && apt-get install --yes ./verbatim-agent_0.1.0_amd64.deb 2>&1",
    );
    client
}

fn in_machine(lab: &ServiceLab, command: &str) -> String {
    let command = command.replace(NETWORK[0], NETWORK[1]);
    let as_user = command.strip_prefix("sudo -u ").and_then(|rest| rest.split_once(' '));
    let whole = match as_user {
        Some((name, command)) => user(name, command),
        None => format!("cd /root/work && export DEBIAN_FRONTEND=noninteractive && sudo() {{ \"$@\"; }} && {command}"),
    };
    asked(lab, &whole).1
}

/// Checks that the daemon refuses an expired certificate. Alice's certificate is valid for a day. The test sets the
/// clock two days ahead.
fn an_expired_certificate_is_refused(lab: &ServiceLab, client: &Client) {
    let alice = "verbatim rigs --cert alice.pem --key alice-key.pem";
    assert!(client.says(alice).contains("virtual"));
    done(lab, "date --set '+2 days' && systemctl restart verbatimd");
    let refused = client.says(alice);
    assert!(
        refused.contains("the client's certificate has expired, by the server's clock"),
        "{refused}"
    );
    let log = done(lab, "journalctl --no-pager --unit verbatimd.service");
    for words in [
        "its certificate has expired",
        "its certificate is revoked",
        "was not signed by the CA of the clients",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    done(lab, "date --set '-2 days' && systemctl restart verbatimd");
    assert!(client.says(alice).contains("virtual"));
}

/// A host without rigs.
#[derive(Debug)]
pub(crate) struct Client {
    place: Place,
    server: String,
}

impl Client {
    fn new(lab: &ServiceLab) -> Self {
        Self {
            place: Place::new(),
            server: lab.address().unwrap().to_string(),
        }
    }

    /// Copies the client's files from the machine to the client.
    fn takes_its_files(&self, lab: &ServiceLab) {
        for name in FILES {
            if !self.place.path(name).exists() {
                // Do not log this command's output: it contains keys.
                let read = lab.run(&format!("cat /root/pki/{name}"), LIMIT).unwrap();
                assert_eq!(read.status, 0, "{name}");
                self.place.write(name, read.text());
            }
        }
    }

    /// Returns a command's output on both streams.
    pub(crate) fn says(&self, command: &str) -> String {
        // The page's `export` applies to all later commands. Each command below gets these variables.
        if command.starts_with("export ") {
            assert_eq!(
                command,
                "export VERBATIM_SERVER=https://192.0.2.15:7000 VERBATIM_CA=ca.pem"
            );
            return String::new();
        }
        let mut shell = Command::new("sh");
        let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
        shell
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.place.path(""))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.place.path(""))
            .env("VERBATIM_SERVER", format!("https://{}", self.server))
            .env("VERBATIM_CA", "ca.pem");
        assert!(program("verbatim").is_file());
        let ended = run(&mut shell);
        eprintln!("client# {command}\n{ended}");
        ended.stdout
    }
}
