//! Tests of a daemon on a network, with certificates of `verbatim pki`: authentication, roles, and messages.

use std::fs;

use nix::sys::signal::Signal;

use super::support::{Place, Running};

/// A daemon with the certificates of `verbatim pki init`. The clients "alice" and "eve" have certificates too, but only
/// alice has a role at the daemon.
struct Lab {
    place: Place,
    daemon: Running,
    url: String,
}

impl Lab {
    fn new(role: &str) -> Self {
        Self::with(role, "")
    }

    /// Creates a lab in which alice has this role. Appends `more` to the daemon's configuration.
    fn with(role: &str, more: &str) -> Self {
        let place = Place::new();
        for made in ["pki init pki", "pki issue pki alice", "pki issue pki eve"] {
            let output = place.verbatim(made);
            assert_eq!(output.code, Some(0), "{output:?}");
        }
        let config = format!(
            "config_version = 1\n[listen]\naddress = \"127.0.0.1:0\"\ncert = \"pki/server.pem\"\n\
             key = \"pki/server-key.pem\"\nclient_ca = \"pki/ca.pem\"\ncrl = \"pki/crl.pem\"\n\
             [[role]]\nrole = \"admin\"\nwho = [\"cert:admin\"]\n\
             [[role]]\nrole = \"{role}\"\nwho = [\"cert:alice\"]\nrigs = [\"virt*\"]\n{more}"
        );
        fs::write(place.path("verbatimd.toml"), config).unwrap();
        let (daemon, line) = place.daemon_with("--config verbatimd.toml");
        let address = line.split("address=").nth(1).unwrap().split(' ').next().unwrap();
        Self {
            url: format!("https://{address}"),
            place,
            daemon,
        }
    }

    /// Returns the options of a client with this name's certificate.
    fn client(&self, name: &str) -> String {
        format!(
            "--daemon {} --ca pki/ca.pem --cert pki/{name}.pem --key pki/{name}-key.pem",
            self.url
        )
    }

    /// Returns the error message of a client with these options, which the daemon refuses.
    fn refused(&self, options: &str) -> String {
        let output = self.place.verbatim(&format!("{options} rigs"));
        assert_ne!(output.code, Some(0), "{output:?}");
        output.stderr
    }
}

#[test]
fn client_certificate_allows_remote_runs() {
    let lab = Lab::new("operator");
    let run = lab.place.verbatim(&format!(
        "{} run --rig virtual c14-024-node-info --json",
        lab.client("alice")
    ));
    assert_eq!(run.code, Some(0), "{run:?}");
    let shown = lab
        .place
        .verbatim(&format!("{} runs show latest --json", lab.client("client")))
        .json();
    assert_eq!(shown["owner"], "cert:alice");
    let audit = fs::read_to_string(lab.place.path("state/audit.jsonl")).unwrap();
    assert!(
        audit.contains("\"who\":\"cert:alice\",\"from\":\"127.0.0.1:") && audit.contains("CreateRun"),
        "{audit}"
    );
}

#[test]
fn labels_select_only_permitted_rigs() {
    // The client alice may see both rigs of kind `virtual`.
    let lab = Lab::with("operator", "[[role]]\nrole = \"viewer\"\nwho = [\"cert:alice\"]\n");
    let reserve = |who: &str| {
        let options = lab.client(who);
        lab.place
            .verbatim(&format!("{options} reserve --label kind=virtual --detach --json"))
            .json()
    };
    // The rig `broken` comes first and is free, but alice may use only `virtual`.
    let held = reserve("alice");
    assert_eq!(
        (held["state"].as_str(), held["rig"].as_str()),
        (Some("ACTIVE"), Some("virtual"))
    );
    assert_eq!(reserve("alice")["state"], "PENDING");
    let others = reserve("client");
    assert_eq!(
        (others["state"].as_str(), others["rig"].as_str()),
        (Some("ACTIVE"), Some("broken"))
    );
}

#[test]
fn refused_client_and_daemon_log_name_the_reason() {
    let mut lab = Lab::new("operator");
    let error = lab.refused(&format!("--server {}", lab.url));
    assert!(error.contains("takes a certificate, and --ca is missing"), "{error}");

    let other = Lab::new("operator");
    for name in ["ca.pem", "alice.pem", "alice-key.pem"] {
        fs::copy(
            other.place.path("pki").join(name),
            lab.place.path("pki").join(format!("foreign-{name}")),
        )
        .unwrap();
    }
    let foreign = "--cert pki/foreign-alice.pem --key pki/foreign-alice-key.pem";
    let error = lab.refused(&format!("--server {} --ca pki/ca.pem {foreign}", lab.url));
    assert!(
        error.contains("the client's certificate was not signed by the CA that the server has as client_ca"),
        "{error}"
    );
    lab.daemon.says("was not signed by the CA of the clients");
    let error = lab.refused(&format!("--server {} --ca pki/foreign-ca.pem {foreign}", lab.url));
    assert!(
        error.contains("the server's certificate was not signed by the CA"),
        "{error}"
    );

    let error = lab.refused(&lab.client("server"));
    assert!(error.contains("not made for clients"), "{error}");
    let error = lab.refused(&format!("{} --server-name bench.lab", lab.client("alice")));
    assert!(error.contains("is not made for bench.lab"), "{error}");
    let error = lab.refused(&lab.client("eve"));
    assert!(
        error.contains("cert:eve has no role") && error.contains("[[role]]"),
        "{error}"
    );
    lab.daemon.says("cert:eve has no role");
    let error = lab.refused(&format!("--server http{}", lab.url.strip_prefix("https").unwrap()));
    assert!(error.contains("plain TCP is not offered"), "{error}");
}

#[test]
fn revoked_certificate_is_refused_without_restart() {
    let mut lab = Lab::new("operator");
    let first = fs::read(lab.place.path("pki/crl.pem")).unwrap();
    assert_eq!(
        lab.place.verbatim(&format!("{} rigs", lab.client("alice"))).code,
        Some(0)
    );
    let revoked = lab.place.verbatim("pki revoke pki alice");
    assert!(revoked.stdout.contains("lists 1 certificate."), "{revoked:?}");
    lab.daemon.says("were read again");
    let error = lab.refused(&lab.client("alice"));
    assert!(error.contains("the client's certificate is revoked"), "{error}");
    lab.daemon
        .says("(\"alice\") was not let in: its certificate is revoked");
    assert_eq!(
        lab.place.verbatim(&format!("{} rigs", lab.client("client"))).code,
        Some(0)
    );
    // The second certificate is added to the list, and does not replace the first.
    let revoked = lab.place.verbatim("pki revoke pki eve");
    assert!(revoked.stdout.contains("lists 2 certificates"), "{revoked:?}");
    // If the list is unreadable, the daemon keeps its revocations, even after a SIGHUP.
    fs::write(lab.place.path("pki/crl.pem"), "").unwrap();
    lab.daemon.says("stay as they were");
    lab.daemon.signal(Signal::SIGHUP);
    lab.daemon.says("SIGHUP");
    assert!(lab.refused(&lab.client("alice")).contains("certificate is revoked"));
    assert_eq!(
        lab.place.verbatim(&format!("{} rigs", lab.client("client"))).code,
        Some(0)
    );
    // An older list would accept alice again. The daemon refuses this list, also after a restart.
    fs::write(lab.place.path("pki/crl.pem"), first).unwrap();
    lab.daemon.says("older than one that was in use");
    assert!(lab.refused(&lab.client("alice")).contains("certificate is revoked"));
    lab.daemon.signal(Signal::SIGTERM);
    lab.daemon.end();
    let refused = lab.place.start_daemon("--config verbatimd.toml").end();
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("older than one that was in use"), "{refused:?}");
}

#[test]
fn roles_apply_per_rig_and_viewer_cannot_run() {
    let lab = Lab::new("viewer");
    let rigs = lab
        .place
        .verbatim(&format!("{} rigs --json", lab.client("alice")))
        .json();
    let names: Vec<_> = rigs["rigs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rig| &rig["name"])
        .collect();
    assert_eq!(names, ["rigs/virtual"]);
    let run = lab
        .place
        .verbatim(&format!("{} run --rig virtual c14-024-node-info", lab.client("alice")));
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(
        run.stderr
            .contains("this needs the role operator on the rig, and cert:alice has viewer"),
        "{run:?}"
    );
    let run = lab.place.verbatim(&format!(
        "{} run --rig broken --detach c14-024-node-info",
        lab.client("client")
    ));
    assert_eq!(run.code, Some(0), "{run:?}");
    let runs = lab
        .place
        .verbatim(&format!("{} runs list --json", lab.client("alice")))
        .json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(0), "{runs}");
    let shown = lab
        .place
        .verbatim(&format!("{} runs show {}", lab.client("alice"), run.stdout.trim()));
    // A run on a hidden rig looks like an absent one.
    assert!(shown.stderr.contains("there is no run"), "{shown:?}");
    let audit = fs::read_to_string(lab.place.path("state/audit.jsonl")).unwrap();
    assert!(audit.contains("cert:alice has viewer"), "{audit}");
}

#[test]
fn client_configuration_replaces_options() {
    let lab = Lab::new("operator");
    fs::create_dir_all(lab.place.path(".config/verbatim")).unwrap();
    let config = format!(
        "server = \"{}\"\nca = \"../../pki/ca.pem\"\ncert = \"../../pki/alice.pem\"\nkey = \"../../pki/alice-key.pem\"\n",
        lab.url
    );
    fs::write(lab.place.path(".config/verbatim/client.toml"), config).unwrap();
    let rigs = lab.place.verbatim("rigs --json").json();
    assert_eq!(rigs["server"], lab.url);
    // The command line overrides the configuration.
    let inside = lab.place.verbatim("--server none rigs --json");
    assert_eq!(inside.code, Some(0), "{inside:?}");
    assert!(!inside.stdout.contains(&lab.url), "{inside:?}");
    fs::write(lab.place.path(".config/verbatim/client.toml"), "colour = 1\n").unwrap();
    let wrong = lab.place.verbatim("rigs");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(
        wrong.stderr.contains("client.toml") && wrong.stderr.contains("colour"),
        "{wrong:?}"
    );
}
