//! Reads a device through a rig, as the tests do: every field of every attribute that the tests use.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::bail;
use verbatim_record::{Label, Trace};
use verbatim_rig::{RigFile, Session};
use verbatim_tester::{Case, MemoryJournal, Need, Step, Test, Tester, run};
use verbatim_wire::{
    AnyAttribute, Attribute, GuidInfo, Lid, MgmtClass, NodeDescription, NodeInfo, PKeyTable, PortCounters, PortInfo,
    SlToVlMappingTable, VlArbitrationTable, get_bits,
};

static READ: Test = Test {
    needs: &[Need::Mad],
    ..Test::of("read", read)
};

/// How long a check of the daemon may use a device model, which answers one tester at a time.
const USED_AT_MOST: Duration = Duration::from_secs(60);

/// The label of all requests.
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

/// Returns every field of the device in the order of reading. A field has the name `Attribute[modifier].Field` and
/// a value in hexadecimal; a table has one number for each element. The performance counters are included if the
/// device has a LID and responds to requests for the counters.
///
/// # Errors
/// When the rig is unavailable or virtual, or the device does not respond.
pub fn fields(rig_file: &Path, rig: &str) -> anyhow::Result<Vec<(String, String)>> {
    let until = Instant::now() + USED_AT_MOST;
    loop {
        match fields_once(rig_file, rig) {
            Err(error) if format!("{error:#}").contains("another tester") && Instant::now() < until => {}
            read => return read,
        }
    }
}

fn fields_once(rig_file: &Path, rig: &str) -> anyhow::Result<Vec<(String, String)>> {
    let config = RigFile::load(Some(rig_file))?.find(rig)?.clone();
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
    let mut fields = Vec::new();
    for exchange in trace.each(Label::<PortInfo>::new(LABEL)) {
        let request = &exchange.request;
        let answer = match exchange.answer() {
            Some(answer) => answer,
            // Skip the counters: GMPs pass only Active links, and a subnet manager that restarts sets links back to
            // Initialize for a while.
            None if request.class() == MgmtClass::PERF => continue,
            None => bail!("{request:?} unanswered"),
        };
        let Some(attribute) = AnyAttribute::of(&answer.mad) else {
            continue;
        };
        let name = AnyAttribute::name(request.class(), request.attribute_id());
        let head = format!("{name}[{}]", request.modifier());
        fields.push((format!("{head}.status"), answer.mad.status().to_string()));
        for field in attribute.fields() {
            let element = |index| get_bits(attribute.bytes(), field.offset + index * field.stride, field.width);
            let values: Vec<String> = (0..field.count).map(|index| format!("{:#x}", element(index))).collect();
            fields.push((format!("{head}.{}", field.name), values.join(" ")));
        }
    }
    Ok(fields)
}
