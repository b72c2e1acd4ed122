//! Reads a device by a rig of kind `umad`, as the tests do, and prints each field of each attribute in a line:
//! `Attribute[modifier].Field = 0x1f`, of a table one number for each element. For tests that compare what a device holds with what
//! another program says, or with what it held before.
//!
//! `umad_read RIG_FILE RIG`. The performance counters are read where the device has a LID.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use verbatim_record::{Findings, Gap, Label, Trace};
use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Case, MemoryJournal, Need, Step, Test, Tester, run};
use verbatim_wire::{
    AnyAttribute, Attribute, GuidInfo, Lid, NodeDescription, NodeInfo, PKeyTable, PortCounters, PortInfo,
    SlToVlMappingTable, VlArbitrationTable, get_bits,
};

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

/// One for all, whatever it asks for.
const LABEL: &str = "read";

fn read(t: &mut Tester<'_>) -> Step {
    fn ask<A: Attribute>(t: &mut Tester<'_>, modifier: u32) -> Step {
        let key = t.rig_key();
        t.ask_at(Label::<A>::new(LABEL), key, modifier).map(drop)
    }
    let key = t.rig_key();
    let port = t.get(Label::<PortInfo>::new(LABEL), key)?;
    ask::<NodeDescription>(t, 0)?;
    ask::<NodeInfo>(t, 0)?;
    ask::<GuidInfo>(t, 0)?;
    ask::<PKeyTable>(t, 0)?;
    ask::<SlToVlMappingTable>(t, 0)?;
    for part in 1..=4 {
        ask::<VlArbitrationTable>(t, part << 16)?;
    }
    if port.lid() != Lid(0) {
        let counters = PortCounters::default().with_port_select(port.local_port_num());
        t.ask_with(Label::new(LABEL), &counters)?;
    }
    Ok(())
}

fn judge(_: &Trace, _: &mut Findings<'_>) -> Result<(), Gap> {
    Ok(())
}

fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umad_read: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rig] = arguments.as_slice() else {
        bail!("usage: umad_read RIG_FILE RIG");
    };
    let config = RigFile::load(Some(file.as_ref()))?.find(rig)?.clone();
    let mut open = verbatim_rig::open(&config, Arc::new(AtomicBool::new(false)))?;
    let Session::Real(port) = &mut open.session else {
        bail!("rig {rig} must be a real one")
    };
    let case = Case {
        test: &READ,
        seed: 0,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    let mut entries = Vec::new();
    let mut journal = MemoryJournal::default();
    let ran = run(port.as_mut(), &open.info, &mut entries, &mut journal, &case);
    if let Some(stopped) = ran.stopped {
        bail!("the device cannot be read: {stopped:?}");
    }
    let trace = Trace::new(entries)?;
    for exchange in trace.each(Label::<PortInfo>::new(LABEL)) {
        let request = &exchange.request;
        let answer = exchange.answer().with_context(|| format!("{request:?} unanswered"))?;
        let Some(attribute) = AnyAttribute::of(&answer.mad) else {
            continue;
        };
        let name = AnyAttribute::name(request.class(), request.attribute_id());
        let head = format!("{name}[{}]", request.modifier());
        println!("{head}.status = {}", answer.mad.status());
        for field in attribute.fields() {
            let element = |index| get_bits(attribute.bytes(), field.offset + index * field.stride, field.width);
            let values: Vec<String> = (0..field.count).map(|index| format!("{:#x}", element(index))).collect();
            println!("{head}.{} = {}", field.name, values.join(" "));
        }
    }
    Ok(())
}
