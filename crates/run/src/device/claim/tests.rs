//! Tests with two routes to one device, two state directories, and removed files.

use std::fs;

use super::*;
use verbatim_rig::RigFile;
use verbatim_wire::AttributeId;

/// Returns a rig file with two rigs whose routes may lead to one device. The device name is unique to this test and
/// process.
fn rigs(device: &str) -> RigFile {
    let device = format!("{device}-{}", std::process::id());
    let rig = |name, route| {
        format!(
            "[[rig]]\nname = \"{name}\"\nkind = \"umad\"\ndevice = \"{device}\"\nport = 1\nroute = \"{route}\"\n\
             [rig.env]\nSIM = \"{device}\"\n"
        )
    };
    let text = format!("config_version = 1\n{}{}", rig("a", "0,1"), rig("b", "0,1,2"));
    RigFile::parse(text.as_bytes(), Path::new("/d/f")).unwrap()
}

fn patience(token: u64) -> Patience {
    Patience {
        cancel: Arc::default(),
        lease: Arc::new(Lease::new(token, u64::MAX)),
    }
}

fn area() -> (Area, Vec<Part>) {
    let area = Area {
        attribute: AttributeId::PORT_INFO.0,
        name: "PortInfo".into(),
        own: false,
    };
    let part = Part {
        modifier: 0,
        data: vec![0; 64],
    };
    (area, vec![part])
}

fn left_changed(claimed: &mut Claimed) {
    let (area, parts) = area();
    claimed.save(&area, &parts, &[MKey(7)]).unwrap();
}

#[test]
fn port_guid_lock_waits_under_a_lease() {
    let (file, directory) = (rigs("guid-dut"), tempfile::tempdir().unwrap());
    let open = |rig: &str, patience| Claimed::open(file.find(rig).unwrap(), directory.path(), patience).unwrap();
    let mut first = open("a", patience(0));
    first.identify("0x0001").unwrap();
    first.identify("0x0001").unwrap();
    let mut second = open("b", patience(0));
    let refused = second.identify("0x0001").unwrap_err().to_entry().text;
    let us = format!("process {} of user {}", std::process::id(), nix::unistd::geteuid());
    assert!(
        refused.contains(&us) && refused.contains("PortGUID 0x0001"),
        "{refused}"
    );
    second.identify("0x0002").unwrap();
    drop(second);

    // With a lease, the run waits for the lock or is cancelled.
    let waits = patience(3);
    let cancel = Arc::clone(&waits.cancel);
    let mut second = open("b", waits);
    let waiting = std::thread::spawn(move || (second.identify("0x0001"), second));
    drop(first);
    let (taken, second) = waiting.join().unwrap();
    taken.unwrap();
    let mut third = open("a", patience(3));
    third.patience.cancel = cancel;
    third.patience.cancel.store(true, Ordering::Relaxed);
    assert_eq!(third.identify("0x0001"), Err(Stop::Cancelled));
    drop(second);
}

#[test]
fn finds_changes_of_another_rig_by_port_guid() {
    let (file, directory) = (rigs("guid-left"), tempfile::tempdir().unwrap());
    let open = |rig: &str| Claimed::open(file.find(rig).unwrap(), directory.path(), patience(0)).unwrap();
    let mut first = open("a");
    first.identify("0x0003").unwrap();
    left_changed(&mut first);
    drop(first);
    let refused = open("b").identify("0x0003").unwrap_err().to_entry().text;
    assert!(
        refused.contains("rig a left") && refused.contains("`verbatim rigs restore a`"),
        "{refused}"
    );
    open("b").identify("0x0004").unwrap();
    let mut first = open("a");
    first.identify("0x0003").unwrap();
    first.settle(&area().0).unwrap();
    drop(first);
    open("b").identify("0x0003").unwrap();
}

#[test]
fn finds_changes_of_another_state_directory() {
    let (file, directory) = (rigs("guid-elsewhere"), tempfile::tempdir().unwrap());
    let (here, state) = (directory.path().join("here"), directory.path().join("there"));
    let there = state.join("journals");
    let open = |rig: &str, at: &Path| Claimed::open(file.find(rig).unwrap(), at, patience(0));
    let mut first = open("a", &there).unwrap();
    first.identify("0x0005").unwrap();
    left_changed(&mut first);
    let journal = first.left().path;
    drop(first);

    let by_name = open("a", &here).unwrap_err();
    assert!(
        matches!(&by_name, RunError::LeftElsewhere { journal: found, .. } if *found == journal),
        "{by_name}"
    );
    assert!(by_name.left_changed(), "{by_name}");
    let command = format!(
        "`STATE_DIRECTORY={} verbatim --server none rigs restore a`",
        state.display()
    );
    assert!(by_name.to_string().contains(&command), "{by_name}");
    // The same directory through a symlink counts as the same.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&there, &link).unwrap();
    drop(open("a", &link).unwrap());
    let by_guid = open("b", &here).unwrap().identify("0x0005").unwrap_err();
    assert!(
        by_guid.to_entry().text.contains("there/journals/a/a.journal.json"),
        "{by_guid:?}"
    );

    // Without the journals the device cannot be restored automatically.
    fs::remove_dir_all(&there).unwrap();
    let RunError::JournalGone { lock, .. } = open("a", &here).unwrap_err() else {
        panic!("the journal is gone");
    };
    assert!(open("a", &here).is_err(), "it does not go by asking again");
    fs::remove_file(lock).unwrap();
    drop(open("a", &here).unwrap());
}

#[test]
fn restored_device_is_free_for_any_state_directory() {
    let (file, directory) = (rigs("guid-restored"), tempfile::tempdir().unwrap());
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    let rig = file.find("a").unwrap();
    let mut first = Claimed::open(rig, &there, patience(0)).unwrap();
    first.identify("0x0006").unwrap();
    left_changed(&mut first);
    first.settle(&area().0).unwrap();
    drop(first);
    fs::remove_dir_all(&there).unwrap();
    Claimed::open(rig, &here, patience(0))
        .unwrap()
        .identify("0x0006")
        .unwrap();
}

#[test]
fn reports_a_removed_journal() {
    let (file, directory) = (rigs("guid-missed"), tempfile::tempdir().unwrap());
    let rig = file.find("a").unwrap();
    let open = || Claimed::open(rig, directory.path(), patience(0));
    let of_rig = FileJournal::directory(directory.path(), "a");
    for emptied in [false, true] {
        let mut first = open().unwrap();
        left_changed(&mut first);
        drop(first);
        fs::remove_file(of_rig.join("a.journal.json")).unwrap();
        let lock = of_rig.join("a.lock");
        if emptied {
            fs::write(&lock, "").unwrap();
        } else {
            fs::remove_file(&lock).unwrap();
        }
        for _ in 0..2 {
            let error = open().unwrap_err();
            let is_missed = matches!(error, RunError::Journal(JournalError::Damaged { .. }));
            assert!(
                is_missed && error.to_string().contains("the file is gone"),
                "{emptied}: {error}"
            );
        }
        // Removing the lock file by hand, as the message says, frees the device.
        fs::remove_file(&lock).unwrap();
        drop(open().unwrap());
    }
}

#[test]
fn reports_an_older_copy_of_the_journals() {
    let (file, directory) = (rigs("guid-older"), tempfile::tempdir().unwrap());
    let open = || Claimed::open(file.find("a").unwrap(), directory.path(), patience(0));
    let of_rig = FileJournal::directory(directory.path(), "a");
    let mut first = open().unwrap();
    left_changed(&mut first);
    first.settle(&area().0).unwrap();
    drop(first);
    let copy = fs::read(of_rig.join("a.lock")).unwrap();
    for changed in [true, false] {
        let mut second = open().unwrap();
        left_changed(&mut second);
        if !changed {
            second.settle(&area().0).unwrap();
            // The lock's record has the generation at its last change.
            drop(second);
            second = open().unwrap();
        }
        drop(second);
        // The whole directory as it was before the second run.
        let _ = fs::remove_file(of_rig.join("a.journal.json"));
        fs::write(of_rig.join("a.lock"), &copy).unwrap();
        for _ in 0..2 {
            let error = open().unwrap_err().to_string();
            assert!(error.contains("an older copy of the journals was put back"), "{error}");
        }
        // Removing the lock file by hand, as the message says, frees the device.
        fs::remove_file(of_rig.join("a.lock")).unwrap();
        drop(open().unwrap());
        fs::write(of_rig.join("a.lock"), &copy).unwrap();
    }
}

#[test]
fn removed_damaged_journal_is_not_reported_again() {
    let (file, directory) = (rigs("guid-damaged"), tempfile::tempdir().unwrap());
    let open = || Claimed::open(file.find("a").unwrap(), directory.path(), patience(0));
    let mut first = open().unwrap();
    left_changed(&mut first);
    drop(first);
    let of_rig = FileJournal::directory(directory.path(), "a");
    fs::write(of_rig.join("a.journal.json"), "{}").unwrap();
    assert!(matches!(
        open().unwrap_err(),
        RunError::Journal(JournalError::Damaged { .. })
    ));
    fs::remove_file(of_rig.join("a.journal.json")).unwrap();
    fs::remove_file(of_rig.join("a.lock")).unwrap();
    drop(open().unwrap());
}

#[test]
fn finds_changes_of_a_rig_whose_journal_is_hidden() {
    let (file, directory) = (rigs("guid-unseen"), tempfile::tempdir().unwrap());
    let open = |rig: &str| Claimed::open(file.find(rig).unwrap(), directory.path(), patience(0)).unwrap();
    let mut first = open("a");
    first.identify("0x0007").unwrap();
    left_changed(&mut first);
    drop(first);
    // A systemd unit shows a worker only its own rig's directory.
    let (hidden, own) = (
        directory.path().join("hidden"),
        FileJournal::directory(directory.path(), "a"),
    );
    fs::rename(&own, &hidden).unwrap();
    let refused = open("b").identify("0x0007").unwrap_err().to_entry().text;
    assert!(refused.contains("`verbatim rigs restore a`"), "{refused}");
    fs::rename(&hidden, &own).unwrap();
    open("a").settle(&area().0).unwrap();
    // The lock by PortGUID still has the mark, because rig `a` settled its journal without reading the PortGUID.
    assert!(open("b").identify("0x0007").is_err());
    let mut first = open("a");
    first.identify("0x0007").unwrap();
    left_changed(&mut first);
    first.settle(&area().0).unwrap();
    drop(first);
    open("b").identify("0x0007").unwrap();
}
