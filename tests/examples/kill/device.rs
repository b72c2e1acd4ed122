//! What the device under test holds, read by something else than the run that changed it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use verbatim_lab::IbsimLab;
use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Case, MemoryJournal, Need, Step, Test, Tester, run};
use verbatim_wire::{AnyAttribute, Layout, PortInfo, VlArbitrationTable};

/// Every field of every attribute that the tests touch, by name.
pub(crate) type Fields = BTreeMap<String, String>;

/// Fields that move by themselves or count: not compared.
const COUNTERS: [&str; 4] = [
    "M_KeyViolations",
    "P_KeyViolations",
    "Q_KeyViolations",
    "ClientReregister",
];

const PORT: Label<PortInfo> = Label::new("port");
const PARTS: Label<VlArbitrationTable> = Label::new("parts");

static READ: Test = Test {
    id: "read",
    aliases: &[],
    revision: 1,
    about: "",
    reading: "",
    statements: &[],
    needs: &[Need::Mad],
    parameters: &[],
    procedure: read,
    judge,
};

fn read(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    t.get(PORT, key)?;
    for part in 1..=4 {
        t.ask_at(PARTS, key, part << 16)?;
    }
    Ok(())
}

fn judge(_: &Trace, _: &mut Findings<'_>) -> Result<(), Gap> {
    Ok(())
}

/// Reads the device model through its socket, with a connection of its own.
pub(crate) fn of_model(rig_file: &Path, rig: &str) -> anyhow::Result<Fields> {
    let config = RigFile::load(Some(rig_file))?.find(rig)?.clone();
    let mut open = verbatim_rig::open(&config, Arc::new(AtomicBool::new(false)))?;
    let Session::Real(port) = &mut open.session else {
        bail!("rig {rig} must be a model")
    };
    let case = Case {
        test: &READ,
        seed: 0,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    let mut entries = Vec::new();
    let ran = run(
        port.as_mut(),
        &open.info,
        &mut entries,
        &mut MemoryJournal::default(),
        &case,
    );
    if let Some(stopped) = ran.stopped {
        bail!("the device cannot be read: {stopped:?}");
    }
    let trace = Trace::new(entries)?;
    let mut fields = Fields::new();
    for exchange in trace.each(PORT) {
        let answer = exchange.answer().context("PortInfo unanswered")?;
        let Some(attribute) = AnyAttribute::of(&answer.mad) else {
            continue;
        };
        for field in attribute
            .fields()
            .iter()
            .filter(|field| !COUNTERS.contains(&field.name))
        {
            fields.insert(field.name.into(), field.words(attribute.bytes()));
        }
    }
    for exchange in trace.each(PARTS) {
        let Some(answer) = exchange.answer() else { continue };
        let table: VlArbitrationTable = answer.mad.attribute();
        let words = format!("{} {:02x?}", answer.mad.status(), table.bytes());
        fields.insert(
            format!("VLArbitration part {}", exchange.request.modifier() >> 16),
            words,
        );
    }
    Ok(fields)
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
