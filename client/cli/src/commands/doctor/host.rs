//! Checks of the host that do not depend on a rig: versions, kernel modules, clock, systemd units.

use std::fs;
use std::path::Path;
use std::process::Command;

use verbatim_rig::file::Wire;
use verbatim_rig::{RigConfig, RigKind};

use super::{Found, bad, good};

/// The rig file of the daemon's service.
const SERVED: &str = "/etc/verbatim/rigs.toml";
/// Clock sources that some hosts fall back to; reading one takes microseconds.
const SLOW: [&str; 2] = ["hpet", "acpi_pm"];
/// Clock sources with a resolution of milliseconds.
const COARSE: [&str; 2] = ["jiffies", "refined-jiffies"];

/// Checks this host. `rigs` are the rigs of `file`; `root` is `/` except in tests.
pub(super) fn look(root: &Path, file: Option<&Path>, rigs: &[RigConfig]) -> Vec<Found> {
    let mut found = vec![versions(root), clock(root)];
    found.extend(modules(root, rigs));
    if root.join("run/systemd/system").is_dir() {
        let served = file == Some(Path::new(SERVED));
        found.extend(units(if served { rigs } else { &[] }, show));
    }
    found
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn versions(root: &Path) -> Found {
    let kernel = read(&root.join("proc/sys/kernel/osrelease")).unwrap_or_else(|| "unknown".into());
    good(
        "versions",
        format!("verbatim {}, Linux {kernel}", env!("CARGO_PKG_VERSION")),
    )
}

/// Checks the clock source, because response times are measured with it.
fn clock(root: &Path) -> Found {
    const WHAT: &str = "clock source";
    let place = root.join("sys/devices/system/clocksource/clocksource0");
    let Some(current) = read(&place.join("current_clocksource")) else {
        return good(WHAT, "this kernel does not report it".into());
    };
    let others = read(&place.join("available_clocksource")).unwrap_or_default();
    let remedy = format!(
        "available: {others}; boot with `clocksource=tsc tsc=reliable` if the processor's time-stamp counter runs at a \
         constant rate, or give a virtual machine its host's clock"
    );
    if COARSE.contains(&current.as_str()) {
        return bad(
            WHAT,
            format!("{current} counts in steps of milliseconds: tests cannot measure response times; {remedy}"),
        );
    }
    if SLOW.contains(&current.as_str()) {
        return good(
            WHAT,
            format!(
                "{current}: each reading takes microseconds, which makes measured response times less exact; {remedy}"
            ),
        );
    }
    good(WHAT, current)
}

/// Checks the kernel modules that the rigs need. A loaded module has a directory in /sys/class.
fn modules(root: &Path, rigs: &[RigConfig]) -> Vec<Found> {
    let needed = [
        (
            "ib_umad",
            "infiniband_mad",
            rigs.iter()
                .find(|rig| matches!(rig.kind, RigKind::Umad { .. }) && rig.env.is_empty()),
        ),
        (
            "ib_uverbs",
            "infiniband_verbs",
            rigs.iter().find(|rig| matches!(rig.kind, RigKind::Verbs(_))),
        ),
    ];
    let of = |(module, class, rig): (&str, &str, Option<&RigConfig>)| {
        let (what, rig) = (format!("module {module}"), rig?);
        Some(if root.join("sys/class").join(class).is_dir() {
            good(&what, "loaded".into())
        } else {
            bad(
                &what,
                format!(
                    "rig {} needs this module, which is not loaded: `modprobe {module}` loads it now; \
                     `echo {module} >>/etc/modules-load.d/verbatim.conf`, once, makes each boot load it; for a \
                     container, do both on the host",
                    rig.name
                ),
            )
        })
    };
    needed.into_iter().filter_map(of).collect()
}

/// Returns the properties `LoadState`, `ActiveState` and `Result` of a unit; None if systemctl fails.
fn show(unit: &str) -> Option<[String; 3]> {
    let output = Command::new("systemctl")
        .args(["show", "--property", "LoadState,ActiveState,Result", unit])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.map(|value| value.trim_start_matches('=').to_owned())
    };
    Some([of("LoadState")?, of("ActiveState")?, of("Result").unwrap_or_default()])
}

/// Checks the daemon's units if its package is installed, and then also the worker units of rigs with hardware.
fn units(rigs: &[RigConfig], show: impl Fn(&str) -> Option<[String; 3]>) -> Vec<Found> {
    let mut found = Vec::new();
    for unit in ["verbatimd.socket", "verbatimd.service"] {
        let Some([load, active, result]) = show(unit) else {
            continue;
        };
        if load == "not-found" {
            continue;
        }
        let what = format!("unit {unit}");
        // An activating service counts as usable, because clients wait at its socket.
        found.push(match active.as_str() {
            "active" | "reloading" | "activating" => good(&what, active),
            _ if load == "masked" => bad(&what, format!("masked: `systemctl unmask {unit}`, then start it")),
            _ => bad(
                &what,
                format!(
                    "{active} ({result}): `systemctl start {unit}`; `journalctl -u {unit}` shows why it ended, and \
                     `verbatimd check-config` checks the rig file"
                ),
            ),
        });
    }
    if found.is_empty() {
        return found;
    }
    for rig in rigs.iter().filter(|rig| has_hardware(rig)) {
        let name = &rig.name;
        let unit = format!("verbatim-worker@{name}.socket");
        let Some([_, active, _]) = show(&unit) else { continue };
        let what = format!("unit {unit}");
        found.push(match active.as_str() {
            "active" => good(&what, active),
            _ => bad(
                &what,
                format!(
                    "{active}: the daemon has no privilege to reach the hardware of {name}; as root: \
                     place=/etc/systemd/system/verbatim-worker@{name}.service.d; mkdir -p $place && verbatimd \
                     worker-unit {name} >$place/rig.conf && systemctl daemon-reload && systemctl enable --now {unit}"
                ),
            ),
        });
    }
    found
}

/// Returns whether a rig needs privileges that the daemon does not have.
fn has_hardware(rig: &RigConfig) -> bool {
    match &rig.kind {
        RigKind::Umad { .. } => rig.env.is_empty(),
        RigKind::Packet(of) => matches!(of.wire, Wire::Interface(_)),
        RigKind::Verbs(_) => true,
        RigKind::Virtual(_) | RigKind::Model { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use verbatim_rig::RigFile;

    use super::*;

    fn rigs() -> Vec<RigConfig> {
        let text = "config_version = 1\n\
                    [[rig]]\nname = \"b\"\nkind = \"umad\"\ndevice = \"mlx5_0\"\nport = 1\nroute = \"0,1\"\n\
                    [[rig]]\nname = \"m\"\nkind = \"model\"\nsocket = \"/run/m\"\n";
        RigFile::parse(text.as_bytes(), "rigs.toml".as_ref()).unwrap().rigs
    }

    fn of<'a>(found: &'a [Found], what: &str) -> &'a Found {
        found
            .iter()
            .find(|found| found.what == what)
            .unwrap_or_else(|| panic!("{what}"))
    }

    #[test]
    fn problems_of_the_host_have_remedies() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let place = "sys/devices/system/clocksource/clocksource0";
        put("proc/sys/kernel/osrelease", "6.1.0-28\n");
        put(&format!("{place}/available_clocksource"), "tsc hpet acpi_pm \n");
        for (current, usable, words) in [
            ("tsc", true, "tsc"),
            ("hpet", true, "clocksource=tsc"),
            ("jiffies", false, "clocksource=tsc"),
        ] {
            put(&format!("{place}/current_clocksource"), current);
            let found = look(root.path(), None, &rigs());
            let clock = of(&found, "clock source");
            assert!(
                clock.usable == usable && clock.words.contains(words),
                "{current}: {}",
                clock.words
            );
            assert!(of(&found, "versions").words.ends_with("Linux 6.1.0-28"));
            let module = of(&found, "module ib_umad");
            assert!(!module.usable && module.words.contains("rig b") && module.words.contains("modprobe ib_umad"));
        }
        fs::create_dir_all(root.path().join("sys/class/infiniband_mad")).unwrap();
        assert!(of(&look(root.path(), None, &rigs()), "module ib_umad").usable);
        assert!(
            !look(root.path(), None, &[])
                .iter()
                .any(|found| found.what.starts_with("module"))
        );
    }

    #[test]
    fn reports_failed_and_missing_units() {
        let states = |active: &'static str| {
            move |unit: &str| {
                let active = if unit.contains('@') { "inactive" } else { active };
                Some(["loaded".to_string(), active.into(), "exit-code".into()])
            }
        };
        let found = units(&rigs(), states("active"));
        assert!(of(&found, "unit verbatimd.socket").usable && of(&found, "unit verbatimd.service").usable);
        let worker = of(&found, "unit verbatim-worker@b.socket");
        assert!(
            !worker.usable && worker.words.contains("verbatimd worker-unit b"),
            "{}",
            worker.words
        );
        assert_eq!(found.len(), 3, "a model needs no unit");
        let failed = units(&[], states("failed"));
        let service = of(&failed, "unit verbatimd.service");
        assert!(
            !service.usable && service.words.contains("journalctl -u verbatimd.service"),
            "{}",
            service.words
        );
        let none = units(&rigs(), |_| {
            Some(["not-found".into(), "inactive".into(), String::new()])
        });
        assert!(none.is_empty());
    }
}
