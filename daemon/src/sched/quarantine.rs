//! Explains a quarantined rig: the reason, the M_Keys that may be in force, and the commands that restore its device.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use verbatim_tester::{FileJournal, Route, Unrestored};
use verbatim_wire::{AttributeId, Layout, PortInfo};

use verbatim_rig::{RigConfig, RigKind};

/// Returns why a rig is quarantined and how to restore it, one fact a line. Every user who may see the rig may
/// read this text. So it contains no M_Keys: those are in files that only the daemon's user may read.
#[must_use]
pub(super) fn reason(rig: &RigConfig, journal: Option<&Unrestored>, failure: &str) -> String {
    let name = &rig.name;
    let mut text = format!("its device could not be restored: {failure}\n");
    if let Some(journal) = journal {
        let _ = writeln!(text, "left changed: {}", journal.in_words().join("; "));
        let _ = writeln!(
            text,
            "M_Keys that may be in force, and the commands for a restore by hand: {}",
            place(journal).display()
        );
        if journal.lease_s > 0 {
            let _ = writeln!(
                text,
                "an unknown M_Key expires after {} s without a request that uses it",
                journal.lease_s
            );
        }
        let _ = writeln!(text, "journal: {}", journal.path.display());
    }
    let _ = writeln!(
        text,
        "mend the device or its cabling: the daemon tries the restore again by itself, or at once with: verbatim rigs \
         restore {name}"
    );
    if let Some(journal) = journal {
        let _ = writeln!(
            text,
            "after a restore by hand, or a replacement of the device: rm {} {} && verbatim rigs restore {name}",
            journal.path.display(),
            journal.lock().display(),
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns the path of the file with the commands that restore a device by hand.
fn place(journal: &Unrestored) -> PathBuf {
    journal.path.with_extension("by-hand.txt")
}

/// Writes the commands that restore the device by hand, readable by the daemon's user only.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_down(rig: &RigConfig, journal: &Unrestored) -> io::Result<()> {
    let path = place(journal);
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(commands(rig, journal).as_bytes())
}

/// Removes the file with the commands, once nothing is left to restore.
pub(super) fn forget(journals: &Path, rig: &str) {
    // Ignore an error: the file need not exist.
    let _ = std::fs::remove_file(FileJournal::directory(journals, rig).join(format!("{rig}.journal.by-hand.txt")));
}

/// Returns the M_Keys, the values of the attributes before the run, and the commands.
fn commands(rig: &RigConfig, journal: &Unrestored) -> String {
    let keys = if journal.keys.is_empty() {
        "none known".to_string()
    } else {
        journal.keys.join(", ")
    };
    let mut text = format!(
        "rig {}: {}\nleft changed: {}\nM_Keys that may be in force, the most likely first: {keys}\n",
        rig.name,
        rig.kind.device(),
        journal.in_words().join("; ")
    );
    for pending in &journal.areas {
        for part in &pending.parts {
            let bytes: String = part.data.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = writeln!(
                text,
                "found in {}, AttributeModifier {:#x}: {bytes}",
                pending.area.name, part.modifier
            );
        }
    }
    if let RigKind::Umad { device, port, .. } = &rig.kind {
        by_hand(&mut text, rig, (device, *port), journal);
    }
    text
}

/// Appends the commands of infiniband-diags, for each M_Key that may be in force.
fn by_hand(text: &mut String, rig: &RigConfig, (device, port): (&str, u8), journal: &Unrestored) {
    let (flag, destination) = match &rig.route {
        Route::Directed(ports) => {
            let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
            ("-D", format!("0,{}", ports.join(",")))
        }
        Route::Lid(lid) => ("-L", lid.0.to_string()),
    };
    let options = |key: &str| format!("-C {device} -P {port} -y {key} {flag}");
    for key in &journal.keys {
        let _ = writeln!(
            text,
            "by hand, to find the M_Key in force: smpquery {} portinfo {destination}",
            options(key)
        );
    }
    let ports = journal
        .areas
        .iter()
        .filter(|pending| pending.area.attribute == AttributeId::PORT_INFO.0);
    for part in ports.flat_map(|pending| &pending.parts) {
        let found = PortInfo::from_bytes(&part.data);
        for key in &journal.keys {
            let _ = writeln!(
                text,
                "by hand, with the M_Key in force: ibportstate {} {destination} {} mkey {} mkeylease {} mkeyprot {}",
                options(key),
                part.modifier,
                found.m_key(),
                found.m_key_lease_period().0,
                found.protect_bits().0,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use verbatim_rig::RigFile;
    use verbatim_tester::{Area, Part, Pending};
    use verbatim_wire::MKey;

    fn rig() -> RigConfig {
        let text = "config_version = 1\n[[rig]]\nname = \"b\"\nkind = \"umad\"\ndevice = \"mlx5_0\"\nport = 1\nroute = \"0,1\"\n";
        RigFile::parse(text.as_bytes(), Path::new("/f"))
            .unwrap()
            .find("b")
            .unwrap()
            .clone()
    }

    #[test]
    fn reason_names_files_but_no_keys() {
        let found = PortInfo::default().with_m_key(MKey(0xAB));
        let journal = Unrestored {
            path: "/j/b.journal.json".into(),
            keys: vec!["0x00000000000000ab".into(), "0x0000000000000077".into()],
            lease_s: 15,
            areas: vec![Pending {
                area: Area {
                    attribute: AttributeId::PORT_INFO.0,
                    name: "PortInfo of port 1".into(),
                    own: false,
                },
                parts: vec![Part {
                    modifier: 1,
                    data: found.bytes().to_vec(),
                }],
            }],
            owner: "b".into(),
            device: String::new(),
            damage: String::new(),
        };
        let said = reason(&rig(), Some(&journal), "no answer");
        for expected in [
            "could not be restored: no answer",
            "left changed: PortInfo of port 1",
            "/j/b.journal.by-hand.txt",
            "expires after 15 s",
            "verbatim rigs restore b",
            "rm /j/b.journal.json /j/b.lock",
        ] {
            assert!(said.contains(expected), "{expected} in:\n{said}");
        }
        assert!(!said.contains("0x"), "a key in what everybody may read:\n{said}");
        let told = commands(&rig(), &journal);
        for expected in [
            "0x00000000000000ab, 0x0000000000000077",
            "found in PortInfo of port 1, AttributeModifier 0x1: 00000000000000ab",
            "smpquery -C mlx5_0 -P 1 -y 0x0000000000000077 -D portinfo 0,1",
            "ibportstate -C mlx5_0 -P 1 -y 0x0000000000000077 -D 0,1 1 mkey 0x00000000000000ab mkeylease 0 mkeyprot 0",
        ] {
            assert!(told.contains(expected), "{expected} in:\n{told}");
        }
    }
}
