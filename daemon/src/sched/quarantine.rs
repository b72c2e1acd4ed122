//! What people are told of a quarantined rig: why, which keys may be in force, and the commands that bring it back.

use std::fmt::Write;

use verbatim_tester::Route;
use verbatim_wire::{AttributeId, Layout, PortInfo};

use super::journal::Journal;
use verbatim_rig::{RigConfig, RigKind};

/// Why a rig is quarantined and how it gets out, a line for each thing to know.
#[must_use]
pub(super) fn reason(rig: &RigConfig, journal: Option<&Journal>, failure: &str) -> String {
    let name = &rig.name;
    let mut text = format!("its device could not be restored: {failure}\n");
    if let Some(journal) = journal {
        let keys = if journal.keys.is_empty() {
            "none known".to_string()
        } else {
            journal.keys.join(", ")
        };
        let _ = writeln!(text, "left changed: {}", journal.in_words().join("; "));
        let _ = writeln!(text, "M_Keys that may be in force, the likeliest first: {keys}");
        if journal.lease_s > 0 {
            let _ = writeln!(
                text,
                "an M_Key that nobody knows expires after {} s in which nobody uses it",
                journal.lease_s
            );
        }
        let _ = writeln!(text, "journal: {}", journal.path.display());
    }
    let _ = writeln!(
        text,
        "mend the device or its cabling, then: verbatim rigs restore {name}"
    );
    if let (RigKind::Umad { device, port }, Some(journal)) = (&rig.kind, journal) {
        by_hand(&mut text, rig, (device, *port), journal);
    }
    if let Some(journal) = journal {
        let _ = writeln!(
            text,
            "after restoring it by hand, or when it was replaced: rm {} && verbatim rigs restore {name}",
            journal.path.display()
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// The same with the tools of infiniband-diags, for each key that may be in force.
fn by_hand(text: &mut String, rig: &RigConfig, (device, port): (&str, u8), journal: &Journal) {
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
            "by hand, which M_Key is in force: smpquery {} portinfo {destination}",
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
                "by hand, with the M_Key that is in force: ibportstate {} {destination} {} mkey {} mkeylease {} mkeyprot {}",
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
    fn the_reason_names_keys_journal_and_every_command() {
        let found = PortInfo::default().with_m_key(MKey(0xAB));
        let journal = Journal {
            path: "/j/b.journal.json".into(),
            keys: vec!["0x00000000000000ab".into(), "0x0000000000000077".into()],
            lease_s: 15,
            areas: vec![Pending {
                area: Area {
                    attribute: AttributeId::PORT_INFO.0,
                    name: "PortInfo of port 1".into(),
                },
                parts: vec![Part {
                    modifier: 1,
                    data: found.bytes().to_vec(),
                }],
            }],
            damage: String::new(),
        };
        let said = reason(&rig(), Some(&journal), "no answer");
        for expected in [
            "could not be restored: no answer",
            "left changed: PortInfo of port 1",
            "0x00000000000000ab, 0x0000000000000077",
            "expires after 15 s",
            "verbatim rigs restore b",
            "smpquery -C mlx5_0 -P 1 -y 0x0000000000000077 -D portinfo 0,1",
            "ibportstate -C mlx5_0 -P 1 -y 0x0000000000000077 -D 0,1 1 mkey 0x00000000000000ab mkeylease 0 mkeyprot 0",
            "rm /j/b.journal.json",
        ] {
            assert!(said.contains(expected), "{expected} in:\n{said}");
        }
    }
}
