//! Rigs of the machine's InfiniBand adapter and of the kernel's RoCE stack. Each rig has its own worker unit. A client
//! on another host uses the rigs.

use verbatim_lab::ServiceLab;

use crate::service::page::Client;
use crate::service::{asked, done, user};

const RIGS: &str = r#"
[[rig]]
name = "rxe"
kind = "packet"
interface = "veth1"
ip = "10.0.0.2"
dut_ip = "10.0.0.1"
dut_device = "rxe0"
agent = "127.0.0.1:7001"

[[rig]]
name = "vib"
kind = "umad"
device = "vib0"
port = 1
route = "0,1"
write_counters = true

[[rig]]
name = "vib2"
kind = "umad"
device = "vib0"
port = 2
route = "0,2"
write_counters = true
"#;

/// Drives a rig of the daemon from a container with its own nodes, lock directories and network.
fn a_container_cannot_drive_a_port_in_use(lab: &ServiceLab) {
    done(
        lab,
        &format!(
            "({}) >/run/held.out 2>&1 & \
             until ls /var/lib/verbatim/journals/vib/vib.journal.json; do busybox usleep 50000; done",
            user("alice", "verbatim run --rig vib c14-017-lease-zero")
        ),
    );
    let (status, said) = asked(
        lab,
        "unshare --mount --net sh -c 'numbers=$(stat --format \"%Hr %Lr\" /dev/infiniband/umad0) && \
         mount -t tmpfs own /dev/infiniband && mknod /dev/infiniband/umad0 c $numbers && \
         HOME=/root/own verbatim --server none run --rig-file /etc/verbatim/rigs.toml --rig vib \
         c14-024-node-info' 2>&1",
    );
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("another process drives its device"), "{said}");
    assert!(said.contains("a process that uses the port"), "{said}");
    done(
        lab,
        "kill -INT $(pidof verbatim); while pidof verbatim; do busybox usleep 50000; done; cat /run/held.out",
    );
}

/// Runs perftest as a user who has nothing to do with Verbatim.
fn verbs_stay_open_to_every_user(lab: &ServiceLab) {
    let access = done(
        lab,
        "udevadm settle && getfacl --absolute-names --omit-header /dev/infiniband/umad0",
    );
    assert!(
        access.contains("user:verbatim:rw-") && access.contains("other::---"),
        "{access}"
    );
    let sends = |to: &str| {
        user(
            "bob",
            &format!("timeout 120 ib_send_bw --ib-dev rxe0 --iters 100 --CPU-freq {to}"),
        )
    };
    let said = done(
        lab,
        &format!(
            "{{ {}; }} >/run/server.out 2>&1 & tries=0; until ({}) || [ $((tries += 1)) -gt 50 ]; do \
             busybox usleep 100000; done; wait; cat /run/server.out",
            sends(""),
            sends("10.0.0.1")
        ),
    );
    assert!(said.contains("BW average"), "{said}");
}

fn an_agent_reaches_nothing_of_the_daemon(lab: &ServiceLab) {
    let agent = "pid=$(systemctl show --value --property MainPID verbatim-agent@rxe0.service)";
    let user = done(lab, &format!("{agent}; stat --format %U /proc/$pid"));
    assert_eq!(user.trim(), "verbatim-agent");
    for path in [
        "/var/lib/verbatim/daemon.lock",
        "/run/verbatim/verbatim.sock",
        "/run/verbatim-locks/.",
    ] {
        done(lab, &format!("test -e {path}"));
        let seen = format!(
            "{agent}; nsenter --target $pid --mount setpriv --reuid verbatim-agent --regid verbatim-agent \
             --init-groups test -e {path}"
        );
        assert_eq!(asked(lab, &seen).0, 1, "an agent sees {path}");
    }
}

pub(crate) fn is_reached_by_a_remote_client(lab: &ServiceLab, client: &Client) {
    done(
        lab,
        "echo 'AGENT_OPTIONS=\"--listen 127.0.0.1:7001\"' >/etc/verbatim/agent-rxe0.conf && \
         systemctl start verbatim-agent@rxe0.service",
    );
    done(lab, &format!("cat >>/etc/verbatim/rigs.toml <<'END'\n{RIGS}END"));
    verbs_stay_open_to_every_user(lab);
    an_agent_reaches_nothing_of_the_daemon(lab);
    for rig in ["rxe", "vib", "vib2"] {
        done(
            lab,
            &format!(
                "place=/etc/systemd/system/verbatim-worker@{rig}.service.d && mkdir -p $place && \
                 verbatimd worker-unit {rig} >$place/rig.conf && cat $place/rig.conf"
            ),
        );
    }
    done(
        lab,
        "systemctl daemon-reload && systemctl enable --now verbatim-worker@rxe.socket verbatim-worker@vib.socket \
         verbatim-worker@vib2.socket && systemctl reload verbatimd.service",
    );
    let known = user("alice", "verbatim rigs");
    done(lab, &format!("until ({known}) | grep -q vib2; do :; done"));
    for (rig, tests) in [("vib", "c14-024-node-info"), ("rxe", "c09-060-send c09-icrc")] {
        let said = client.says(&format!(
            "verbatim run --cert alice.pem --key alice-key.pem --rig {rig} {tests}"
        ));
        let passed = format!("{} passed; runs/", tests.split(' ').count());
        if !said.contains(&passed) {
            done(
                lab,
                &format!(
                    "journalctl --no-pager --lines 40 --unit verbatim-worker@{rig}.service --unit verbatimd.service"
                ),
            );
            panic!("{rig}: {said}");
        }
    }
    a_container_cannot_drive_a_port_in_use(lab);
}
