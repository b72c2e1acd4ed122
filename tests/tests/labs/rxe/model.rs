//! The reference device on a real Ethernet link: `ibv_rc_pingpong` with the kernel's adapter, in both roles.

use verbatim_lab::machine::Machine;

use crate::rxe::guest::{gid_index, in_machine, run};

/// Makes another veth pair in the machine: the kernel's adapter at one end, the model at the other, where the kernel
/// has no address. The MTU has room for 4096 bytes and all headers.
const LINK: &str = "ip link show vm0 >/dev/null 2>&1 && exit 0
. /etc/lab.sh
ip link add vm0 mtu 4300 type veth peer name vm1 mtu 4300 || exit 1
echo 1 >/proc/sys/net/ipv6/conf/vm1/disable_ipv6
ip link set vm1 up
up vm0 10.9.0.1/24 fd09::1/64
settled vm0
rdma link add rxe2 type rxe netdev vm0";

const SIZES: [u32; 5] = [1, 64, 1024, 4096, 65_536];
const PATH_MTUS: [u32; 3] = [256, 1024, 4096];
/// Returns the number of messages of a size. An emulated machine needs 0.4 s for a message of 64 KiB with the smallest
/// path MTU.
const fn iterations(size: u32) -> u32 {
    if size <= 4096 { 100 } else { 10 }
}

/// The side that listens and answers; the other side sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Kernel,
    Model,
}

/// GID families: the text of the kernel's GID, and the index of the model's GID.
const FAMILIES: [(&str, u32); 2] = [
    ("0000:0000:0000:0000:0000:ffff:0a09:0001", 0),
    ("fd09:0000:0000:0000:0000:0000:0000:0001", 1),
];

fn all_sizes_and_path_mtus(server: Server, family: usize) {
    in_machine(|machine| {
        run(machine, LINK);
        let (gid, own_index) = FAMILIES[family];
        let index = gid_index(machine, "rxe2", gid);
        // Each exchange has its own TCP port, so that none waits for the end of another.
        let ports = 20_000 + 100 * family as u16 + if server == Server::Model { 50 } else { 0 };
        let combinations = PATH_MTUS
            .iter()
            .flat_map(|mtu| SIZES.iter().map(move |size| (*mtu, *size)));
        for (port, (mtu, size)) in (ports..).zip(combinations) {
            let line = exchange(machine, server, (index, own_index), port, (mtu, size));
            eprintln!("{line}");
        }
    });
}

/// Runs both programs, and returns the model's counts. Both must succeed and count all messages.
fn exchange(
    machine: &Machine,
    server: Server,
    (kernel, model): (u32, u32),
    port: u16,
    (mtu, size): (u32, u32),
) -> String {
    let iterations = iterations(size);
    let (to_kernel, to_model) = match server {
        Server::Kernel => ("127.0.0.1", ""),
        Server::Model => ("", "127.0.0.1"),
    };
    let kernel = format!(
        "timeout 500 ibv_rc_pingpong -d rxe2 -g {kernel} -s {size} -m {mtu} -n {iterations} -p {port} {to_model}"
    );
    let model = format!(
        "timeout 500 pingpong --interface vm1 --ip 10.9.0.2 --ip fd09::2 --gid-index {model} --size {size} --mtu {mtu} \
         --iterations {iterations} --port {port} {to_kernel}"
    );
    // Start the server first. The model's client waits for its server; `ibv_rc_pingpong`'s does not.
    let (first, second, wait) = match server {
        Server::Kernel => (&kernel, &model, ":"),
        Server::Model => (&model, &kernel, "started $first server listens $hex"),
    };
    let script = format!(
        ". /etc/lab.sh\nhex=$(printf %04X {port})\n{first} >/run/first.out 2>&1 &\nfirst=$!\n{wait}\n\
         {second} >/run/second.out 2>&1\nsecond=$?\nwait $first\nfirst=$?\n\
         cat /run/first.out /run/second.out\n[ $first = 0 ] && [ $second = 0 ]"
    );
    let ran = machine
        .run(&script, crate::rxe::guest::LIMIT)
        .unwrap_or_else(|error| panic!("{error}"));
    let text = ran.text();
    assert_eq!(
        ran.status, 0,
        "{server:?} as server, {size} bytes, path MTU {mtu}: {text}"
    );
    assert!(text.contains(&format!("{iterations} iters in")), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with("role="))
        .unwrap_or_else(|| panic!("{text}"));
    // The first message of an `ibv_rc_pingpong` client has other contents. All other messages return our bytes.
    let checked = match server {
        Server::Kernel => iterations,
        Server::Model => iterations - 1,
    };
    let counts = format!("size={size} mtu={mtu} sent={iterations} received={iterations} checked={checked} ");
    assert!(line.contains(&counts) && line.ends_with("dropped=0"), "{line}");
    // With this path MTU, the messages need at least this many packets.
    let frames: u32 = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("frames_in=")?.parse().ok())
        .unwrap();
    assert!(frames >= iterations * size.div_ceil(mtu), "{line}");
    line.to_owned()
}

#[test]
fn model_sends_first_over_ipv4() {
    all_sizes_and_path_mtus(Server::Kernel, 0);
}

#[test]
fn model_sends_first_over_ipv6() {
    all_sizes_and_path_mtus(Server::Kernel, 1);
}

#[test]
fn model_answers_over_ipv4() {
    all_sizes_and_path_mtus(Server::Model, 0);
}

#[test]
fn model_answers_over_ipv6() {
    all_sizes_and_path_mtus(Server::Model, 1);
}
