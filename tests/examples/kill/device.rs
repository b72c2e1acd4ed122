//! Reads the state of the device under test, independently of the run that changed the state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;
use verbatim_lab::IbsimLab;
use verbatim_tests::reading;

use crate::house::wait_for_line;

/// Values by name: the fields of all attributes that the tests change, or the outcomes of tests.
pub(crate) type Fields = BTreeMap<String, String>;

/// Name endings of counters and of fields that the device changes by itself. These fields are not compared.
const COUNTERS: [&str; 4] = [
    "M_KeyViolations",
    "P_KeyViolations",
    "Q_KeyViolations",
    "ClientReregister",
];

/// Reads the device model through its socket, over a separate connection.
pub(crate) fn of_model(rig_file: &Path, rig: &str) -> anyhow::Result<Fields> {
    let fields = reading::fields(rig_file, rig)?;
    let counts =
        |name: &str| COUNTERS.iter().any(|counter| name.ends_with(counter)) || name.starts_with("PortCounters");
    Ok(fields.into_iter().filter(|(name, _)| !counts(name)).collect())
}

/// Reads ibsim's adapter with smpquery, an independent tool.
pub(crate) fn of_ibsim(lab: &IbsimLab) -> anyhow::Result<Fields> {
    let mut fields = Fields::new();
    for query in ["portinfo", "vlarb", "nodeinfo", "nodedesc"] {
        let mut command = Command::new("smpquery");
        command.args(["-D", query, "0,1"]);
        lab.attach(&mut command, "A");
        command.current_dir(lab.directory());
        let output = command
            .output()
            .context("smpquery: `apt-get install infiniband-diags`")?;
        if !output.status.success() {
            bail!("smpquery {query}: {}", String::from_utf8_lossy(&output.stderr));
        }
        for (number, line) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
            let counter = ["Violations", "ClientReregister"]
                .iter()
                .any(|word| line.contains(word));
            if !counter {
                fields.insert(format!("{query} line {number}"), line.into());
            }
        }
    }
    Ok(fields)
}

/// The test that shows that the daemon can use a device behind an agent.
pub(crate) const SERVED: &str = "c09-060-send-responder";

/// Starts the Python device with its agent. All sockets are in `directory`.
pub(crate) fn start_agent(directory: &Path) -> anyhow::Result<Child> {
    let python = verbatim_lab::workspace::root().join("client/python");
    // Remove the sockets of a killed agent.
    for socket in ["agent.sock", "device.sock"] {
        let _ = std::fs::remove_file(directory.join(socket));
    }
    let mut agent = Command::new("/usr/bin/python3")
        .arg(python.join("examples/soft_roce.py"))
        .arg("--listen")
        .arg(format!("unix:{}", directory.join("agent.sock").display()))
        .arg("--socket")
        .arg(directory.join("device.sock"))
        .arg("--peer")
        .arg(directory.join("tester.sock"))
        .env("PYTHONPATH", &python)
        .stderr(Stdio::piped())
        .spawn()
        .context("/usr/bin/python3")?;
    wait_for_line(&mut agent, "listening on").context("`apt-get install python3-grpcio python3-protobuf`")?;
    Ok(agent)
}

/// Writes the rig file of the Python device, and returns the file's path.
pub(crate) fn agent_rig(directory: &Path) -> anyhow::Result<PathBuf> {
    let file = directory.join("rigs.toml");
    let agent = format!("unix:{}", directory.join("agent.sock").display());
    std::fs::write(
        &file,
        format!(
            "config_version = 1\n[[rig]]\nname = \"dut\"\nkind = \"packet\"\n\
             socket = {{ local = \"tester.sock\", remote = \"device.sock\" }}\n\
             mac = \"02:00:00:00:00:02\"\nip = \"10.0.0.2\"\nagent = {agent:?}\n"
        ),
    )?;
    Ok(file)
}

/// Returns the outcome of each test of a report.
pub(crate) fn of_report(report: &Value) -> Fields {
    let verdicts = report["verdicts"].as_array().into_iter().flatten();
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    verdicts
        .map(|verdict| (text(&verdict["test"]), text(&verdict["outcome"])))
        .collect()
}

/// Returns the fields in which two readings differ.
pub(crate) fn differences(found: &Fields, now: &Fields) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = found.keys().chain(now.keys()).collect();
    names
        .into_iter()
        .filter(|name| found.get(*name) != now.get(*name))
        .map(|name| format!("{name}: found {:?}, left {:?}", found.get(name), now.get(name)))
        .collect()
}
