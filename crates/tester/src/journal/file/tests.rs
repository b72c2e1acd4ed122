//! What is on disk, whatever becomes of it: damaged, removed, renamed, read by others.

use super::super::tests::area;
use super::*;

#[test]
fn what_was_saved_is_there_after_reopening_and_gone_after_settling() {
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
fn a_second_process_is_told_that_the_rig_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let _first = FileJournal::open(directory.path(), "r").unwrap();
    let error = FileJournal::open(directory.path(), "r").unwrap_err();
    assert!(matches!(error, JournalError::Busy { .. }), "{error}");
}

#[test]
fn a_damaged_journal_is_an_error_that_says_what_to_do_and_never_an_empty_one() {
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

/// A journal with something to restore: its directory, its file, and what that holds.
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
fn a_journal_of_which_any_one_bit_is_another_is_never_applied() {
    let (directory, path, whole) = saved();
    let good = FileJournal::open(directory.path(), "r").unwrap().content.clone();
    for bit in 0..whole.len() * 8 {
        let mut altered = whole.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &altered).unwrap();
        match FileJournal::open(directory.path(), "r") {
            Err(JournalError::Damaged { .. }) => {}
            // Blanks between the fields mean nothing.
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
fn a_journal_of_which_any_part_is_nought_or_of_another_is_never_applied() {
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
fn a_journal_that_was_removed_is_missed_until_its_lock_is_removed_too() {
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
fn a_journal_that_was_removed_with_its_lock_is_missed_where_the_rig_was_in_use() {
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
fn a_journal_goes_with_the_device_when_its_rig_is_renamed() {
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
fn a_journal_is_not_applied_to_another_device_of_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let (area, parts) = area();
    let mut journal = FileJournal::open(directory.path(), owner("r", "a model")).unwrap();
    journal.save(&area, &parts, &[]).unwrap();
    drop(journal);
    let error = FileJournal::open(directory.path(), owner("r", "another model")).unwrap_err();
    assert!(matches!(error, JournalError::OtherDevice { .. }), "{error}");
    let seen = FileJournal::look(directory.path(), owner("r", "another model")).unwrap();
    assert!(seen.damage.contains("it is of a model"), "{seen:?}");
}

#[test]
fn a_journal_is_read_while_a_worker_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(FileJournal::look(directory.path(), "r"), None);
    let mut held = FileJournal::open(directory.path(), "r").unwrap();
    let area = Area {
        attribute: 0x15,
        name: "PortInfo".into(),
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
fn a_rig_is_held_until_who_holds_it_lets_go() {
    let directory = tempfile::tempdir().unwrap();
    assert!(!FileJournal::is_held(directory.path(), "r"));
    let held = FileJournal::open(directory.path(), "r").unwrap();
    assert!(FileJournal::is_held(directory.path(), "r") && !FileJournal::is_held(directory.path(), "other"));
    drop(held);
    assert!(!FileJournal::is_held(directory.path(), "r"));
}

#[test]
fn a_journal_that_cannot_be_read_counts_as_something_to_restore() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path(), "r").unwrap();
    std::fs::write(place(directory.path(), "r"), "{").unwrap();
    let seen = FileJournal::look(directory.path(), "r").unwrap();
    assert!(seen.in_words()[0].contains("it is no journal"), "{seen:?}");
}
