//! A flipped bit or a cut file gives an error with the file's path: no panic and no verdict.

use std::path::Path;

use proptest::prelude::*;
use verbatim_wire::{AttributeId, MKey, Mad, Method, RespTime, SubnetTimeout};

use crate::{
    Arrived, Begin, Bundle, BundleWriter, Entry, FileSink, Match, Role, Sent, Sink, Span, Time, read, read_file,
};

fn entries() -> Vec<Entry> {
    let request = Mad::directed(Method::GET, AttributeId::PORT_INFO, 0, &[1]).with_m_key(MKey(5));
    let at = |from, to| Span::between(Time(from), Time(to));
    vec![
        Entry::Begin(Box::new(Begin {
            test: "c14-016-get-protect-2".into(),
            seed: 9,
            ..Begin::default()
        })),
        Entry::Label {
            number: 1,
            name: "port as found".into(),
            role: Role::Test,
        },
        Entry::Sent(Box::new(Sent {
            exchange: 1,
            label: 1,
            attempt: 0,
            port: 0,
            at: at(5, 7),
            mad: request,
            dlid: None,
        })),
        Entry::Arrived(Box::new(Arrived {
            exchange: 1,
            how: Match::Answer,
            port: 0,
            at: at(8, 9),
            mad: request.with_method(Method::GET_RESP),
        })),
        Entry::Silence {
            exchange: 1,
            at: at(90, 91),
            resp_time: RespTime(18),
            subnet_timeout: SubnetTimeout(19),
        },
        Entry::Journal {
            area: "PortInfo".into(),
            change: "saved".into(),
        },
    ]
}

fn record(directory: &Path) -> Vec<u8> {
    let mut writer = BundleWriter::create(directory).unwrap();
    let mut sink = writer.record("t").unwrap();
    entries().into_iter().for_each(|entry| sink.put(entry));
    sink.finish(Time(99)).unwrap();
    writer.write("run.json", "{}\n").unwrap();
    writer.seal().unwrap();
    std::fs::read(directory.join("001-t.rec")).unwrap()
}

#[test]
fn record_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = record(directory.path());
    assert_eq!(read(&bytes, Path::new("r")).unwrap(), entries());
    assert_eq!(Bundle::open(directory.path()).unwrap().records().unwrap(), [entries()]);
}

fn note_of(bytes: usize) -> Entry {
    Entry::Journal {
        area: "memory".into(),
        change: "x".repeat(bytes),
    }
}

#[test]
fn largest_entry_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.rec");
    let mut sink = FileSink::create(&path).unwrap();
    let written = [entries().remove(0), note_of(16 << 20)];
    written.clone().into_iter().for_each(|entry| sink.put(entry));
    sink.finish(Time(9)).unwrap();
    assert!(
        read_file(&path).unwrap() == written,
        "what was read is not what was written"
    );
}

#[test]
fn oversized_entry_fails_at_write() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = FileSink::create(&directory.path().join("large.rec")).unwrap();
    sink.put(entries().remove(0));
    sink.put(note_of(17 << 20));
    let error = sink.finish(Time(9)).unwrap_err().to_string();
    assert!(error.contains("large.rec") && error.contains("at most"), "{error}");
}

#[test]
fn cut_record_error_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = record(directory.path());
    for length in 0..bytes.len() {
        let error = read(&bytes[..length], Path::new("r.rec")).unwrap_err().to_string();
        assert!(error.contains("r.rec"), "{error}");
    }
}

#[test]
fn rejects_any_flipped_bit_and_any_cut_file() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        for place in 0..whole.len() {
            for bit in [0, 3, 5, 7] {
                let mut broken = whole.clone();
                broken[place] ^= 1 << bit;
                std::fs::write(&path, &broken).unwrap();
                let error = Bundle::open(directory.path()).expect_err("a flipped bit").to_string();
                assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
            }
            std::fs::write(&path, &whole[..place]).unwrap();
            Bundle::open(directory.path()).expect_err("a cut file");
        }
        std::fs::remove_file(&path).unwrap();
        Bundle::open(directory.path()).expect_err("a missing file");
        std::fs::write(&path, &whole).unwrap();
    }
    Bundle::open(directory.path()).expect("whole again");
}

#[test]
fn create_rejects_non_empty_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x"), "").unwrap();
    let error = BundleWriter::create(directory.path()).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}

#[test]
fn resume_keeps_complete_records() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let there = |name: &str| directory.path().join(name).exists();
    // The writer died in the second record, or after it had written the manifest.
    for left in ["002-cut.rec", ".manifest.json.part", "manifest.json"] {
        std::fs::write(directory.path().join(left), "VBTM").unwrap();
    }
    let mut writer = BundleWriter::resume(directory.path(), 1).unwrap();
    assert!(there("001-t.rec") && !there("002-cut.rec") && !there("manifest.json") && !there(".manifest.json.part"));
    assert_eq!(writer.recorded("t").unwrap(), entries());
    let mut sink = writer.record("cut").unwrap();
    entries().into_iter().take(2).for_each(|entry| sink.put(entry));
    sink.finish(Time(0)).unwrap();
    writer.seal().unwrap();
    let records = Bundle::open(directory.path()).unwrap().records().unwrap();
    assert_eq!(records, [entries(), entries()[..2].to_vec()]);
    assert!(
        BundleWriter::resume(directory.path(), 2)
            .unwrap()
            .recorded("other")
            .is_err()
    );
}

proptest! {
    #[test]
    fn rejects_any_bytes_as_record(bytes in proptest::collection::vec(any::<u8>(), 0..400), magic: bool) {
        let bytes = if magic { [&crate::MAGIC[..], &bytes].concat() } else { bytes };
        prop_assert!(read(&bytes, Path::new("r")).is_err());
    }

    #[test]
    fn any_entries_are_traced_without_panic(
        picks in proptest::collection::vec((0usize..6, 0u32..4), 0..30)
    ) {
        let all = entries();
        let made = picks.into_iter().map(|(pick, number)| {
            let mut entry = all[pick].clone();
            match &mut entry {
                Entry::Sent(sent) => { sent.exchange = number; sent.label = number; }
                Entry::Arrived(arrived) => arrived.exchange = number,
                Entry::Silence { exchange, .. } => *exchange = number,
                Entry::Label { number: n, .. } => *n = number,
                _ => {}
            }
            entry
        });
        let _ = crate::Trace::new(made.collect());
    }
}
