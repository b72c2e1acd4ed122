//! The runner restores the device: after a panic, lost responses, or a failing journal or disk.

use core::time::Duration;

use verbatim_device::{Defect, Profile};
use verbatim_record::{Entry, Label, Role, Sink, StopReason, Trace};
use verbatim_sim::VirtualRig;
use verbatim_tester::{Area, Case, Journal, JournalError, MemoryJournal, Need, Part, Ran, Step, Test, Tester, run};
use verbatim_wire::values::{LeasePeriod, ProtectBits};
use verbatim_wire::{AttributeId, Layout, MKey, Method, PortInfo, VlArbitrationTable};

const FOUND: Label<PortInfo> = Label::new("as found");
const LOCK: Label<PortInfo> = Label::new("lock");
const TABLE: Label<VlArbitrationTable> = Label::new("table as found");
const WRITE: Label<VlArbitrationTable> = Label::new("write the table");
const OURS: MKey = MKey(0xABCD_EF01);

const fn test(procedure: fn(&mut Tester<'_>) -> Step) -> Test {
    Test {
        needs: &[Need::Mad],
        ..Test::of("a-test-of-the-runner", procedure)
    }
}

/// Changes key, protect level, lease, thresholds and the arbitration tables.
fn change_much(t: &mut Tester<'_>) -> Step {
    let key = t.rig_key();
    let port = t.guard(FOUND, key)?;
    let locked = port.quiet().change(|info| {
        info.with_m_key(OURS)
            .with_protect_bits(ProtectBits(2))
            .with_m_key_lease_period(LeasePeriod(100))
            .with_local_phy_errors(info.local_phy_errors() ^ 5)
            .with_vl_high_limit(info.vl_high_limit() ^ 1)
    });
    t.set(LOCK, &port, locked)?;
    let parts = t.guard_parts(TABLE, OURS, &[1 << 16, 3 << 16])?;
    for modifier in [1 << 16, 3 << 16] {
        let value = parts
            .quiet_at(modifier)
            .change(|table| table.with_vl(0, 0).with_weight(0, 77));
        t.set_once(WRITE, &parts, (OURS, modifier), value)?;
    }
    Ok(())
}

fn execute(rig: &mut VirtualRig, journal: &mut dyn Journal, sink: &mut dyn Sink, test: &Test) -> Ran {
    let case = Case {
        test,
        seed: 1,
        parameters: Vec::new(),
        catalogue: String::new(),
    };
    run(rig, &VirtualRig::info(MKey(0)), sink, journal, &case)
}

/// Reads PortInfo and the arbitration tables, without counters and measured values.
fn state(rig: &mut VirtualRig) -> (PortInfo, Vec<VlArbitrationTable>) {
    const PORT: Label<PortInfo> = Label::new("port");
    const PART: Label<VlArbitrationTable> = Label::new("part");
    let mut entries = Vec::new();
    let read = test(|t| {
        t.get(PORT, MKey(0))?;
        for part in 1..=4 {
            t.ask_at(PART, MKey(0), part << 16)?;
        }
        Ok(())
    });
    execute(rig, &mut MemoryJournal::default(), &mut entries, &read);
    let trace = Trace::new(entries).unwrap();
    let tables = trace
        .each(PART)
        .filter(|exchange| !exchange.is_busy())
        .filter_map(|exchange| Some(exchange.answer()?.mad.attribute()))
        .collect();
    let port: PortInfo = trace.answer(PORT).unwrap();
    let port = port
        .with_m_key_violations(0)
        .with_p_key_violations(0)
        .with_q_key_violations(0)
        .with_link_round_trip_latency(0);
    (port, tables)
}

fn is_restored(rig: &mut VirtualRig, test: &Test) -> Ran {
    let before = state(rig);
    let mut journal = MemoryJournal::default();
    let ran = execute(rig, &mut journal, &mut Vec::new(), test);
    assert!(ran.restored.iter().all(|restored| restored.is_complete()), "{ran:#?}");
    assert_eq!(state(rig), before);
    assert!(journal.pending().is_empty());
    ran
}

#[test]
fn restores_after_return() {
    for seed in 0..30 {
        let mut rig = VirtualRig::new(Profile::full().vary(seed), &[]);
        let ran = is_restored(&mut rig, &test(change_much));
        assert_eq!((ran.stopped, ran.restored.len()), (None, 2), "seed {seed}");
    }
}

#[test]
fn restores_after_panic() {
    let mut rig = VirtualRig::new(Profile::full().vary(2), &[]);
    let ran = is_restored(
        &mut rig,
        &test(|t| {
            change_much(t)?;
            panic!("a defect of the test")
        }),
    );
    let stopped = ran.stopped.unwrap();
    assert_eq!(
        (stopped.reason, stopped.text.as_str()),
        (StopReason::Panicked, "a defect of the test")
    );
}

#[test]
fn restores_despite_one_lost_response() {
    for lost in 0..24 {
        let mut seen = 0;
        let mut rig = VirtualRig::new(Profile::full().vary(4), &[]).with_tamper(Box::new(move |mad| {
            seen += 1;
            if seen == lost + 6 {
                Vec::new()
            } else {
                vec![(Duration::ZERO, *mad)]
            }
        }));
        is_restored(&mut rig, &test(change_much));
    }
}

#[test]
fn restores_despite_two_lost_responses() {
    for lost in 0..24 {
        let mut seen = 0;
        let mut rig = VirtualRig::new(Profile::full().vary(6), &[]).with_tamper(Box::new(move |mad| {
            seen += 1;
            if (lost + 7..lost + 9).contains(&seen) {
                Vec::new()
            } else {
                vec![(Duration::ZERO, *mad)]
            }
        }));
        is_restored(&mut rig, &test(change_much));
    }
}

#[test]
fn restore_waits_for_lease_expiry() {
    // At protect level 2 the device ignores the right key, so the port is accessible only after the lease expires.
    let mut rig = VirtualRig::new(Profile::full(), &[Defect::RightKeyGetDroppedAtLevel2]);
    let before = state(&mut rig);
    let mut journal = MemoryJournal::default();
    let mut entries = Vec::new();
    let ran = execute(&mut rig, &mut journal, &mut entries, &test(change_much));
    assert!(ran.restored.iter().all(|restored| restored.is_complete()), "{ran:#?}");
    assert!(
        entries
            .iter()
            .any(|entry| matches!(entry, Entry::Note(note) if note.text.contains("M_Key lease period")))
    );
    assert_eq!(state(&mut rig), before);
}

#[test]
fn unrestorable_entries_are_named() {
    let procedure = test(|t| {
        let parts = t.guard_parts(TABLE, MKey(0), &[1 << 16])?;
        let value = parts
            .quiet_at(1 << 16)
            .change(|_| VlArbitrationTable::default().with_weight(0, 1));
        t.set_once(WRITE, &parts, (MKey(0), 1 << 16), value)?;
        Ok(())
    });
    // The device starts with weights above 127, but stores only 7 bits of a written weight. The restore therefore
    // cannot write these weights back.
    let mut named = 0;
    for seed in 0..10 {
        let profile = Profile {
            foreign_vls: false,
            ..Profile::full().vary(seed)
        };
        let mut rig = VirtualRig::new(profile, &[Defect::VlArbitrationWeights7Bits]);
        let mut journal = MemoryJournal::default();
        let ran = execute(&mut rig, &mut journal, &mut Vec::new(), &procedure);
        let left = &ran.restored[0].left;
        for words in left {
            let (entry, found) = words.split_once(": found ").unwrap();
            let found = found.split(',').next().unwrap().parse::<u8>().unwrap();
            assert!(entry.starts_with("Weight ") && found > 127, "{words}");
        }
        named += left.len();
        assert_eq!(
            journal.pending().is_empty(),
            left.is_empty(),
            "what is not restored stays in the journal"
        );
    }
    assert!(named > 0);
}

/// A journal whose disk is full.
struct FullDisk(MemoryJournal);

impl Journal for FullDisk {
    fn save(&mut self, _: &Area, _: &[Part], _: &[MKey]) -> Result<Vec<Part>, JournalError> {
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(JournalError::Io {
            path: "journal".into(),
            source,
        })
    }
    fn may_be_in_force(&mut self, keys: &[MKey], lease_s: u16) -> Result<(), JournalError> {
        self.0.may_be_in_force(keys, lease_s)
    }
    fn settle(&mut self, area: &Area) -> Result<(), JournalError> {
        self.0.settle(area)
    }
    fn lease_s(&self) -> u16 {
        self.0.lease_s()
    }
    fn identify(&mut self, device: &str) -> Step {
        self.0.identify(device)
    }
}

#[test]
fn no_set_without_journal() {
    let mut rig = VirtualRig::new(Profile::full(), &[]);
    let mut entries = Vec::new();
    let ran = execute(
        &mut rig,
        &mut FullDisk(MemoryJournal::default()),
        &mut entries,
        &test(change_much),
    );
    let stopped = ran.stopped.unwrap();
    assert_eq!(stopped.reason, StopReason::Tester);
    assert!(
        stopped
            .text
            .starts_with("nothing was changed on the device: restore journal journal"),
        "{}",
        stopped.text
    );
    let sets = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Sent(sent) if sent.mad.method() == Method::SET));
    assert_eq!(sets.count(), 0);
}

#[test]
fn journal_applies_only_to_its_device() {
    use verbatim_tester::{FileJournal, recover};
    let directory = tempfile::tempdir().unwrap();
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    let (found, _) = state(&mut VirtualRig::new(Profile::full().vary(1), &[]));
    journal.identify("0x0000000000000001").unwrap();
    let area = Area {
        attribute: AttributeId::PORT_INFO.0,
        name: "PortInfo".into(),
        own: false,
    };
    let part = Part {
        modifier: 0,
        data: found.bytes().to_vec(),
    };
    journal.save(&area, &[part], &[MKey(0)]).unwrap();
    drop(journal);
    let mut other = VirtualRig::new(Profile::full().vary(2), &[]);
    let before = state(&mut other);
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    let restored = recover(
        &mut other,
        &VirtualRig::info(MKey(0)),
        &mut Vec::new(),
        journal.left(),
        &mut journal,
    );
    assert!(
        restored
            .iter()
            .all(|r| r.failure.contains("the journal belongs to the device with PortGUID")),
        "{restored:#?}"
    );
    assert_eq!(state(&mut other), before);
    assert!(!journal.pending().is_empty(), "it waits for its own device");
}

/// A sink whose disk is full after 20 entries.
#[derive(Default)]
struct FillingDisk(usize, Vec<Entry>);

impl Sink for FillingDisk {
    fn put(&mut self, entry: Entry) {
        self.0 += 1;
        self.1.push(entry);
    }
    fn flush(&mut self) {}
    fn error(&self) -> Option<String> {
        (self.0 > 20).then(|| "no space left on device".into())
    }
}

#[test]
fn full_disk_stops_and_restores() {
    let mut rig = VirtualRig::new(Profile::full(), &[]);
    let before = state(&mut rig);
    let endless = test(|t| {
        change_much(t)?;
        loop {
            t.get(Label::<PortInfo>::new("again"), OURS)?;
        }
    });
    let mut sink = FillingDisk::default();
    let ran = execute(&mut rig, &mut MemoryJournal::default(), &mut sink, &endless);
    assert_eq!(ran.stopped.unwrap().text, "no space left on device");
    assert!(ran.restored.iter().all(|restored| restored.is_complete()));
    assert_eq!(state(&mut rig), before);
    assert!(
        sink.1
            .iter()
            .any(|entry| matches!(entry, Entry::Label { role: Role::Runner, .. }))
    );
}

#[test]
fn event_budget_stops_endless_procedure() {
    let mut rig = VirtualRig::new(Profile::full(), &[]).with_event_budget(10_000);
    struct Forgetful;
    impl Sink for Forgetful {
        fn put(&mut self, _: Entry) {}
        fn flush(&mut self) {}
    }
    let endless = test(|t| {
        loop {
            t.pause(Duration::from_nanos(1))?;
        }
    });
    let ran = execute(&mut rig, &mut MemoryJournal::default(), &mut Forgetful, &endless);
    assert!(ran.stopped.unwrap().text.contains("event budget"));
}

#[test]
fn unknown_key_stops_before_any_set() {
    let mut profile = Profile::full();
    profile.m_key = MKey(0x77);
    let mut rig = VirtualRig::new(profile, &[]);
    let mut entries = Vec::new();
    let ran = execute(
        &mut rig,
        &mut MemoryJournal::default(),
        &mut entries,
        &test(change_much),
    );
    let stopped = ran.stopped.unwrap();
    assert_eq!(stopped.reason, StopReason::NotSane);
    assert!(
        stopped
            .text
            .contains("put m_key = \"0x0000000000000077\" into the rig file"),
        "{}",
        stopped.text
    );
}
