//! Our packages in a Debian with systemd, in a machine. The test installs, starts, uses, upgrades (in mid-run), removes
//! and purges them.

mod hardware;
mod isolation;
mod page;

use std::time::Duration;

use verbatim_lab::machine::MachineError;
use verbatim_lab::{LAB_PROFILE, ServiceLab, build_packages};
use verbatim_tests::product::programs;

/// Longest time of a command in the machine, on the busiest host.
const LIMIT: Duration = Duration::from_secs(1800);
/// Starts a machine without our packages installed. Returns `None` if this host lacks a package and may skip the test.
fn lab() -> Option<ServiceLab> {
    let mut packages = build_packages(LAB_PROFILE, Some("0.1.0")).unwrap();
    packages.extend(build_packages(LAB_PROFILE, Some("0.1.1")).unwrap());
    match ServiceLab::with_hardware(&packages, programs()) {
        Ok(lab) => Some(lab),
        Err(error) => {
            let missing = matches!(error.downcast_ref(), Some(MachineError::NotInstalled { .. }));
            assert!(missing && std::env::var_os("CI").is_none(), "{error:#}");
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

/// Returns a command's exit status and output.
fn asked(lab: &ServiceLab, command: &str) -> (u8, String) {
    let ran = lab.run(command, LIMIT).unwrap();
    eprintln!("# {command}\n{}[exit {}]", ran.text(), ran.status);
    (ran.status, ran.text())
}

/// Returns the output of a command that must succeed. On failure, panics with the log of the services.
fn done(lab: &ServiceLab, command: &str) -> String {
    let (status, text) = asked(lab, command);
    if status != 0 {
        let log = asked(
            lab,
            "journalctl --no-pager --lines 60; systemctl --no-pager status 'verbatim*'",
        )
        .1;
        panic!("{command}: exit {status}: {text}\n{log}");
    }
    text
}

/// Returns a command line that runs as an ordinary user.
fn user(name: &str, command: &str) -> String {
    format!("cd /home/{name} && setpriv --reuid {name} --regid {name} --init-groups env HOME=/home/{name} {command}")
}

fn exposure(lab: &ServiceLab, unit: &str) -> f64 {
    let text = done(lab, &format!("systemd-analyze security --no-pager {unit} | tail -n 1"));
    let level = text.split(": ").last().and_then(|level| level.split(' ').next());
    level
        .and_then(|level| level.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn packages_install_run_upgrade_and_purge() {
    let Some(lab) = lab() else { return };
    let client = page::holds(&lab);
    installed(&lab);
    used_by_the_group_alone(&lab);
    hardware::is_reached_by_a_remote_client(&lab, &client);
    isolation::a_worker_reaches_its_own_rig_alone(&lab);
    the_worker_of_a_rig_has_what_the_rig_needs(&lab);
    watched_and_reloaded(&lab);
    upgraded_in_mid_run(&lab);
    removed_and_purged(&lab);
}

fn installed(lab: &ServiceLab) {
    let state = done(
        lab,
        "systemctl is-enabled verbatimd.socket verbatimd.service | tr '\\n' ' '",
    );
    assert_eq!(state.trim(), "enabled enabled");
    let modes = done(
        lab,
        "stat --format '%A %U %G %n' /var/lib/verbatim /run/verbatim/verbatim.sock /etc/verbatim",
    );
    assert!(
        modes.contains("drwx------ verbatim verbatim /var/lib/verbatim"),
        "{modes}"
    );
    assert!(
        modes.contains("srw-rw---- verbatim verbatim /run/verbatim/verbatim.sock"),
        "{modes}"
    );
    assert!(modes.contains("drwxr-x--- root verbatim /etc/verbatim"), "{modes}");
    assert!(exposure(lab, "verbatimd.service") <= 2.0);
    assert!(exposure(lab, "verbatim-worker@model.service") <= 3.0);
    for (package, program, recommends) in [
        ("verbatim", "verbatim", "libibumad3, libibverbs1, ibverbs-providers"),
        (
            "verbatim-daemon",
            "verbatimd",
            "verbatim, libibumad3, libibverbs1, ibverbs-providers",
        ),
        ("verbatim-agent", "verbatim-agent", "libibverbs1, ibverbs-providers"),
    ] {
        let said = done(
            lab,
            &format!("dpkg-query --show --showformat '${{Recommends}}' {package}"),
        );
        assert_eq!(said.trim(), recommends, "{package}");
        let has = done(lab, &format!("dpkg-query --listfiles {package}"));
        for file in [
            format!("man/man1/{program}.1"),
            format!("bash-completion/completions/{program}.bash"),
            format!("zsh/vendor-completions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
        ] {
            let path = format!("/usr/share/{file}");
            assert!(
                has.lines().any(|line| line.starts_with(&path)),
                "{package}: {path}: {has}"
            );
        }
    }
}

fn used_by_the_group_alone(lab: &ServiceLab) {
    let run = done(lab, &user("alice", "verbatim run --rig virtual c14-024-node-info"));
    assert!(run.contains("1 passed; runs/"), "{run}");
    let (status, refused) = asked(lab, &user("bob", "verbatim run --rig virtual c14-024-node-info 2>&1"));
    assert_eq!(status, 3, "{refused}");
    assert!(
        refused.contains("/run/verbatim/verbatim.sock") && refused.contains("members of the group verbatim may"),
        "{refused}"
    );
    let status = done(
        lab,
        "cat /proc/$(systemctl show --value --property MainPID verbatimd.service)/status",
    );
    for line in [
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

fn the_worker_of_a_rig_has_what_the_rig_needs(lab: &ServiceLab) {
    done(
        lab,
        "systemd-run --quiet --unit model --property User=verbatim --property RuntimeDirectory=model --property Type=exec \
         verbatimd model --listen /run/model/socket",
    );
    let rig = "[[rig]]\nname = \"model\"\nkind = \"model\"\nsocket = \"/run/model/socket\"\nsubnet_timeout = 8\n";
    done(lab, &format!("cat >>/etc/verbatim/rigs.toml <<'END'\n{rig}END"));
    done(
        lab,
        "place=/etc/systemd/system/verbatim-worker@model.service.d && mkdir -p $place && \
         verbatimd worker-unit model >$place/rig.conf && cat $place/rig.conf && systemctl daemon-reload && \
         systemctl enable --now verbatim-worker@model.socket && systemctl reload verbatimd.service",
    );
    let known = user("alice", "verbatim rigs");
    done(lab, &format!("until ({known}) | grep -q model; do :; done"));
    let run = done(lab, &user("alice", "verbatim run --rig model c14-024-node-info"));
    assert!(run.contains("1 passed; runs/"), "{run}");
    let log = done(lab, "journalctl --no-pager --unit verbatim-worker@model.service");
    assert!(log.contains("Started verbatim-worker@model.service"), "{log}");
}

fn watched_and_reloaded(lab: &ServiceLab) {
    let fields =
        "journalctl --no-pager --output json --output-fields RUN,TEST,MESSAGE RIG=virtual TEST=c14-024-node-info";
    let log = done(lab, fields);
    assert!(log.contains("\"RUN\"") && log.contains("test ended run="), "{log}");
    let show = "systemctl show verbatimd.service --property WatchdogUSec,NRestarts,StatusText,ActiveState";
    let state = done(lab, show);
    assert!(
        state.contains("WatchdogUSec=1min") && state.contains("ActiveState=active"),
        "{state}"
    );
    assert!(state.contains("NRestarts=0"), "{state}");
}

fn upgraded_in_mid_run(lab: &ServiceLab) {
    // These tests lock the device, try wrong keys and wait for silence for minutes. Even on the busiest host the
    // upgrade happens in mid-run.
    done(
        lab,
        &format!(
            "{{ {}; echo \"exit $?\"; }} >/run/run.out 2>&1 & \
             until ls /var/lib/verbatim/journals/model/model.journal.json; do busybox usleep 100000; done",
            user("alice", "verbatim run --rig model c14-017-*")
        ),
    );
    let pid = "systemctl show --value --property MainPID verbatim-worker@model.service";
    let status = done(lab, &format!("cat /proc/$({pid})/status"));
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    done(lab, "dpkg --install /mnt/share/debs/*_0.1.1_amd64.deb 2>&1");
    let ended = done(
        lab,
        "until grep -q '^exit' /run/run.out; do busybox usleep 100000; done; cat /run/run.out",
    );
    assert!(!ended.contains("exit 0") && !ended.contains("FAIL  "), "{ended}");
    let run = done(lab, &user("alice", "verbatim run --rig model c14-024-node-info"));
    assert!(
        run.contains("1 passed; runs/"),
        "the device answers without a key, as it was found: {run}"
    );
    let rigs = done(lab, &user("alice", "verbatim rigs"));
    assert!(!rigs.contains("QUARANTINED"), "{rigs}");
    done(lab, "verbatimd --version && dpkg-query --show 'verbatim*'");
}

fn removed_and_purged(lab: &ServiceLab) {
    done(
        lab,
        "systemctl disable verbatim-worker@model.socket verbatim-worker@rxe.socket verbatim-worker@vib.socket",
    );
    done(lab, "dpkg --remove verbatim-daemon verbatim-agent verbatim 2>&1");
    let (_, left) = asked(
        lab,
        "systemctl is-active verbatimd.service verbatimd.socket verbatim-worker@model.socket",
    );
    assert!(!left.lines().any(|line| line == "active"), "{left}");
    let kept = done(lab, "ls -d /var/lib/verbatim /etc/verbatim/rigs.toml");
    assert_eq!(kept.lines().count(), 2, "what was configured, and runs, stay: {kept}");
    done(
        lab,
        "rm -r /etc/verbatim/pki /etc/verbatim/verbatimd.toml /etc/verbatim/agent-rxe0.conf",
    );
    done(lab, "dpkg --purge verbatim-daemon verbatim-agent verbatim 2>&1");
    let (_, left) = asked(
        lab,
        "ls -d /var/lib/verbatim /etc/verbatim /run/verbatim /usr/bin/verbatim* /usr/lib/systemd/system/verbatim* \
         /usr/lib/udev/rules.d/*verbatim* /var/lib/systemd/deb-systemd-helper-enabled/verbatim* 2>/dev/null; pidof verbatimd",
    );
    // Keep only the paths. pidof prints the process of the model, which does not belong to the packages.
    let left: Vec<&str> = left.lines().filter(|line| line.starts_with('/')).collect();
    assert!(left.is_empty(), "{left:?}");
}
