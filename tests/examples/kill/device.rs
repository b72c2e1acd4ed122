//! What the device under test holds, read by something else than the run that changed it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use verbatim_lab::IbsimLab;
use verbatim_tests::reading;

/// Every field of every attribute that the tests touch, by name.
pub(crate) type Fields = BTreeMap<String, String>;

/// Fields that move by themselves or count: not compared.
const COUNTERS: [&str; 4] = [
    "M_KeyViolations",
    "P_KeyViolations",
    "Q_KeyViolations",
    "ClientReregister",
];

/// Reads the device model through its socket, with a connection of its own.
pub(crate) fn of_model(rig_file: &Path, rig: &str) -> anyhow::Result<Fields> {
    let fields = reading::fields(rig_file, rig)?;
    let counts =
        |name: &str| COUNTERS.iter().any(|counter| name.ends_with(counter)) || name.starts_with("PortCounters");
    Ok(fields.into_iter().filter(|(name, _)| !counts(name)).collect())
}

/// Reads ibsim's adapter with smpquery, a tool of others.
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

/// The fields in which two readings differ.
pub(crate) fn differences(found: &Fields, now: &Fields) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = found.keys().chain(now.keys()).collect();
    names
        .into_iter()
        .filter(|name| found.get(*name) != now.get(*name))
        .map(|name| format!("{name}: found {:?}, left {:?}", found.get(name), now.get(name)))
        .collect()
}
