//! Rigs of the machine's InfiniBand adapter and of the kernel's RoCE stack. Each rig has its own worker unit. A client
//! on another host uses the rigs.

use verbatim_lab::ServiceLab;

use crate::service::page::Client;
use crate::service::{done, user};

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

pub(crate) fn is_reached_by_a_remote_client(lab: &ServiceLab, client: &Client) {
    done(
        lab,
        "echo 'AGENT_OPTIONS=\"--listen 127.0.0.1:7001\"' >/etc/verbatim/agent-rxe0.conf && \
         systemctl start verbatim-agent@rxe0.service",
    );
    done(lab, &format!("cat >>/etc/verbatim/rigs.toml <<'END'\n{RIGS}END"));
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
}
