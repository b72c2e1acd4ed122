//! Journal files that are damaged, removed, renamed, or read by others.

use super::super::tests::area;
use super::*;

#[test]
fn reopened_journal_lists_saved_areas() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    journal.save(&area, &parts, &[MKey(0)]).unwrap();
    journal.may_be_in_force(&[MKey(7)], 15).unwrap();
    drop(journal);
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    assert_eq!(
        journal.pending(),
        [Pending {
            area: area.clone(),
            parts
        }]
    );
    assert_eq!(journal.keys(), [MKey(7), MKey(0)], "the likeliest first");
    assert_eq!(journal.lease_s(), 15);
    journal.settle(&area).unwrap();
    assert!(!journal.path().exists());
}

#[test]
fn second_process_finds_rig_busy() {
    let directory = tempfile::tempdir().unwrap();
    let _first = FileJournal::open(directory.path(), "r").unwrap();
    let error = FileJournal::open(directory.path(), "r").unwrap_err();
    assert!(matches!(error, JournalError::Busy { .. }), "{error}");
}

#[test]
fn truncated_journal_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    journal.save(&area, &parts, &[MKey(1)]).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = FileJournal::open(directory.path(), "r").unwrap_err();
        assert!(matches!(error, JournalError::Damaged { .. }), "cut at {cut}: {error}");
    }
}

fn owner(rig: &str, device: &str) -> Owner {
    Owner {
        device: device.into(),
        ..rig.into()
    }
}

/// Saves a journal with one area. Returns its directory, its path and its bytes.
fn saved() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), owner("r", "a model")).unwrap();
    journal.save(&area, &parts, &[MKey(1)]).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    (directory, path, whole)
}

#[test]
fn rejects_any_bit_flip() {
    let (directory, path, whole) = saved();
    let good = FileJournal::open(directory.path(), "r").unwrap().content.clone();
    for bit in 0..whole.len() * 8 {
        let mut altered = whole.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &altered).unwrap();
        match FileJournal::open(directory.path(), "r") {
            Err(JournalError::Damaged { .. }) => {}
            // A flip that turns a blank between JSON fields into other whitespace does not change the content.
            Ok(journal) => assert_eq!(
                (journal.pending(), journal.keys()),
                (&*good.areas, vec![MKey(1)]),
                "bit {bit}"
            ),
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn rejects_any_overwritten_bytes() {
    let (directory, path, whole) = saved();
    for begin in 0..whole.len() {
        for length in [1, 7, 64, whole.len()] {
            for filler in [0, 0xFF, b'0'] {
                let mut altered = whole.clone();
                let end = altered.len().min(begin + length);
                altered[begin..end].fill(filler);
                if altered == whole {
                    continue;
                }
                std::fs::write(&path, &altered).unwrap();
                let opened = FileJournal::open(directory.path(), "r");
                assert!(
                    matches!(opened, Err(JournalError::Damaged { .. })),
                    "{length} bytes of {filler:#x} from {begin} on: {opened:?}"
                );
            }
        }
    }
}

#[test]
fn removed_journal_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    journal.save(&area, &parts, &[]).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    std::fs::remove_file(&path).unwrap();
    let error = FileJournal::open(directory.path(), "r").unwrap_err().to_string();
    assert!(
        error.contains("the file is gone") && error.contains("r.lock"),
        "{error}"
    );
    assert!(FileJournal::look(directory.path(), "r").is_some());
    assert_eq!(FileJournal::all(directory.path()).len(), 1);
    std::fs::remove_file(lock_place(directory.path(), "r")).unwrap();
    assert!(FileJournal::open(directory.path(), "r").unwrap().pending().is_empty());
    assert_eq!(FileJournal::look(directory.path(), "r"), None);
}

#[test]
fn removed_journal_and_lock_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    FileJournal::prepare(directory.path(), "r").unwrap();
    assert!(!FileJournal::miss(directory.path(), "r").unwrap(), "nothing was saved");
    assert_eq!(FileJournal::look(directory.path(), "r"), None);
    std::fs::remove_file(lock_place(directory.path(), "r")).unwrap();
    assert!(FileJournal::miss(directory.path(), "r").unwrap());
    let error = FileJournal::open(directory.path(), "r").unwrap_err();
    assert!(matches!(error, JournalError::Damaged { .. }), "{error}");
}

#[test]
fn journal_follows_renamed_rig() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), owner("old", "a model")).unwrap();
    journal.save(&area, &parts, &[]).unwrap();
    drop(journal);
    assert_eq!(
        FileJournal::look(directory.path(), owner("other", "another model")),
        None
    );
    assert!(FileJournal::look(directory.path(), owner("new", "a model")).is_some());
    let mut journal = FileJournal::open(directory.path(), owner("new", "a model")).unwrap();
    assert_eq!(journal.pending().len(), 1);
    assert!(FileJournal::open(directory.path(), "old").unwrap().pending().is_empty());
    journal.settle(&area).unwrap();
    assert!(FileJournal::all(directory.path()).is_empty());
}

#[test]
fn rejects_journal_of_another_device() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), owner("r", "a model")).unwrap();
    journal.save(&area, &parts, &[]).unwrap();
    drop(journal);
    let error = FileJournal::open(directory.path(), owner("r", "another model")).unwrap_err();
    assert!(matches!(error, JournalError::OtherDevice { .. }), "{error}");
    let seen = FileJournal::look(directory.path(), owner("r", "another model")).unwrap();
    assert!(seen.damage.contains("it belongs to a model"), "{seen:?}");
}

#[test]
fn look_takes_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(FileJournal::look(directory.path(), "r"), None);
    let mut held = FileJournal::open(directory.path(), "r").unwrap();
    let area = Area {
        attribute: 0x15,
        name: "PortInfo".into(),
        own: false,
    };
    let part = Part {
        modifier: 1,
        data: vec![0; 64],
    };
    held.save(&area, &[part], &[MKey(0x1234)]).unwrap();
    held.may_be_in_force(&[MKey(0x77)], 15).unwrap();
    let seen = FileJournal::look(directory.path(), "r").unwrap();
    let mut keys = seen.keys.clone();
    keys.sort();
    assert_eq!(keys, ["0x0000000000000077", "0x0000000000001234"]);
    assert_eq!((seen.lease_s, seen.in_words()), (15, vec!["PortInfo".to_string()]));
    let all = FileJournal::all(directory.path());
    assert_eq!(FileJournal::among(&all, "r"), Some(seen));
    assert_eq!(FileJournal::among(&all, "another"), None);
    held.settle(&area).unwrap();
    assert_eq!(FileJournal::look(directory.path(), "r"), None);
}

#[test]
fn rig_is_held_while_journal_is_open() {
    let directory = tempfile::tempdir().unwrap();
    assert!(!FileJournal::is_held(directory.path(), "r"));
    let held = FileJournal::open(directory.path(), "r").unwrap();
    assert!(FileJournal::is_held(directory.path(), "r") && !FileJournal::is_held(directory.path(), "other"));
    drop(held);
    assert!(!FileJournal::is_held(directory.path(), "r"));
}

#[test]
fn unreadable_journal_counts_as_unrestored() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), "r").unwrap();
    std::fs::write(place(directory.path(), "r"), "{").unwrap();
    let seen = FileJournal::look(directory.path(), "r").unwrap();
    assert!(seen.in_words()[0].contains("it is no journal"), "{seen:?}");
}

#[test]
fn older_journal_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), "r").unwrap();
    let (path, lock) = (journal.path().to_path_buf(), lock_place(directory.path(), "r"));
    journal.save(&area, &parts, &[MKey(1)]).unwrap();
    let first = std::fs::read(&path).unwrap();
    journal.may_be_in_force(&[MKey(7)], 15).unwrap();
    let (second, of_second) = (std::fs::read(&path).unwrap(), std::fs::read(&lock).unwrap());
    journal.settle(&area).unwrap();
    let settled = std::fs::read(&lock).unwrap();
    drop(journal);
    let opened = |journal: &[u8], of_lock: &[u8]| {
        std::fs::write(&path, journal).unwrap();
        std::fs::write(&lock, of_lock).unwrap();
        let opened = FileJournal::open(directory.path(), "r").map(|journal| journal.pending().len());
        opened.map_err(|error| error.to_string())
    };
    assert_eq!(opened(&second, &of_second), Ok(1));
    // The process may die between the write of the journal and the write of the lock file.
    assert_eq!(opened(&second, b""), Ok(1));
    assert_eq!(opened(&second, &settled), Ok(0));
    for of_lock in [&of_second, &settled] {
        let error = opened(&first, of_lock).unwrap_err();
        assert!(
            error.contains("its generation is 1") && error.contains("older copy"),
            "{error}"
        );
    }
    let mut altered = of_second.clone();
    let digit = altered
        .windows(14)
        .position(|bytes| bytes == b"\"generation\":2")
        .unwrap()
        + 13;
    altered[digit] = b'1';
    assert!(opened(&second, &altered).unwrap_err().contains("lock file was altered"));
    // A rig that takes over a journal of its device keeps its own generations.
    assert_eq!(opened(&second, &of_second), Ok(1));
    FileJournal::require(directory.path(), &"s".into(), 40, "").unwrap();
    assert_eq!(FileJournal::generation_of(directory.path(), "r"), Some(2));
    assert_eq!(FileJournal::generation_of(directory.path(), "s"), None);
}
