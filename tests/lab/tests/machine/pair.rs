//! The verbs set-up: two Soft-RoCE devices on a veth pair.

use verbatim_lab::machine::Machine;

use crate::{PAIR, on, run};

/// Patterns of the two devices' IPv4 GIDs.
const IPV4: [&str; 2] = ["ffff:0a00:0001", "ffff:0a00:0002"];

/// Returns a shell command that prints the index of the first GID table entry that matches `gid`.
fn gid_index(device: &str, gid: &str) -> String {
    format!("grep -l '{gid}' /sys/class/infiniband/{device}/ports/1/gids/* | head -1 | sed 's,.*/,,'")
}

/// Runs a ping-pong between the two devices. `gids` are patterns of the GIDs to use, one for each device.
fn pingpong(machine: &Machine, gids: [&str; 2]) {
    let text = run(
        machine,
        &format!(
            ". /etc/lab.sh\n\
             a=$({}); b=$({}); [ -n \"$a\" ] && [ -n \"$b\" ] || exit 9\n\
             ibv_rc_pingpong -d rxe0 -g $a -n 50 >/run/server.out 2>&1 &\n\
             server=$!; started $server server listens 4853\n\
             timeout 40 ibv_rc_pingpong -d rxe1 -g $b -n 50 127.0.0.1 || {{ kill $server; cat /run/server.out; exit 7; }}\n\
             wait $server",
            gid_index("rxe0", gids[0]),
            gid_index("rxe1", gids[1]),
        ),
    );
    assert!(text.contains("50 iters"), "{text}");
}

#[test]
fn both_devices_are_there_and_active() {
    on(&PAIR, |machine| {
        let links = run(machine, "rdma link");
        for device in ["rxe0", "rxe1"] {
            let line = links
                .lines()
                .find(|line| line.contains(device))
                .unwrap_or_else(|| panic!("{links}"));
            assert!(line.contains("state ACTIVE"), "{line}");
        }
    });
}

#[test]
fn rc_messages_cross_the_pair_over_ipv4() {
    on(&PAIR, |machine| pingpong(machine, IPV4));
}

#[test]
fn rc_messages_cross_the_pair_over_ipv6() {
    on(&PAIR, |machine| pingpong(machine, ["^fd00:.*:0001", "^fd00:.*:0002"]));
}

#[test]
fn messages_cross_the_veth_pair() {
    on(&PAIR, |machine| {
        let packets = |name: &str| -> u64 {
            let text = run(machine, &format!("cat /sys/class/net/{name}/statistics/rx_packets"));
            text.trim().parse().unwrap()
        };
        let before = packets("veth0");
        pingpong(machine, IPV4);
        assert!(packets("veth0") >= before + 50);
    });
}

#[test]
fn management_device_files_exist() {
    on(&PAIR, |machine| {
        let files = run(machine, "ls /dev/infiniband");
        for file in ["umad0", "umad1", "uverbs0", "uverbs1", "rdma_cm"] {
            assert!(files.contains(file), "{files}");
        }
    });
}

#[test]
fn command_returns_any_bytes_and_status() {
    on(&PAIR, |machine| {
        let ran = machine.run("printf '\\0\\377\\nX' ; exit 77", crate::LIMIT).unwrap();
        assert_eq!((ran.status, ran.output.as_slice()), (77, b"\0\xff\nX".as_slice()));
        let many = run(machine, "head -c 300000 /dev/zero | tr '\\0' x");
        assert_eq!(many.len(), 300_000);
    });
}

#[test]
fn rc_messages_cross_pair_over_link_local() {
    on(&PAIR, |machine| pingpong(machine, ["^fe80:", "^fe80:"]));
}
