//! `inspect --interface` on a pair of virtual Ethernet interfaces. The test starts this program again in a network
//! namespace. The namespace ends with the process.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use verbatim_hw::ether::PacketSocket;
use verbatim_tests::oracle::skipped;
use verbatim_tests::product::{Output, Place, Running};

use crate::inspect::documents;
use crate::inspect::generated::{Dialogue, frames};

const LIMIT: Duration = Duration::from_secs(480);

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

#[test]
fn captures_both_directions_and_losses() {
    let may = Command::new("unshare").args(["-n", "true"]).output();
    if !may.is_ok_and(|done| done.status.success()) {
        skipped(
            "the right to make a network namespace",
            "run as root, with util-linux's unshare",
        );
        return;
    }
    let child = Command::new("unshare")
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inspect::live::in_a_namespace", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

/// Starts the capture of `e0`, and returns when both its sockets exist.
fn captures(place: &Place) -> Running {
    let sockets = || std::fs::read_to_string("/proc/net/packet").unwrap().lines().count();
    let before = sockets();
    let mut running = Running::start(&mut place.verbatim("inspect --rc --interface e0 --json"));
    // One socket is for sent packets, the other for received packets.
    while sockets() < before + 2 {
        assert!(running.is_running(), "{}", running.end(LIMIT));
        std::thread::yield_now();
    }
    running
}

/// Sends a dialogue. Requests leave by `e0`, and responses arrive at `e0`. Returns the number of frames.
fn speak(ends: &[PacketSocket; 2]) -> usize {
    let said = Dialogue::Sends.said();
    let frames = frames(&said, &Dialogue::Sends.networks());
    for ((is_response, _), frame) in said.iter().zip(&frames) {
        ends[usize::from(*is_response)].send(frame).unwrap();
    }
    frames.len()
}

/// Ends the capture after another socket has received `count` RoCE frames of the interface.
fn end(running: Running, seen: &PacketSocket, count: usize) -> Output {
    let mut left = count;
    while left > 0 {
        let frame = seen.receive(LIMIT).unwrap().expect("a frame");
        left -= usize::from(frame.bytes.get(36..38) == Some(&[0x12, 0xB7]));
    }
    running.signal(Signal::SIGINT);
    running.end(LIMIT)
}

#[test]
#[ignore = "another process in a network namespace of its own, started by another test"]
fn in_a_namespace() {
    ip("link add e0 type veth peer name e1");
    ip("link set e0 up");
    ip("link set e1 up");
    let ends = ["e0", "e1"].map(|name| PacketSocket::open(name).unwrap());
    let place = Place::new();

    let seen = PacketSocket::listen("e0").unwrap();
    let running = captures(&place);
    let count = speak(&ends);
    let output = end(running, &seen, count);
    assert_eq!(output.code(), 0, "{output}");
    let (connections, summary) = documents(&output);
    assert_eq!(connections.len(), 1, "{output}");
    assert_eq!(summary["of_reliable_connections"], count, "{output}");
    assert_eq!(summary["lost_by_the_capture"], 0, "{output}");
    assert!(!output.stderr.contains("lost"), "{output}");

    // Stop the capture, and send more frames than the kernel can buffer.
    let running = captures(&place);
    running.signal(Signal::SIGSTOP);
    let large = vec![0; 1500];
    for _ in 0..40_000 {
        ends[0].send(&large).unwrap();
    }
    running.signal(Signal::SIGINT);
    running.signal(Signal::SIGCONT);
    let output = running.end(LIMIT);
    let lost = documents(&output).1["lost_by_the_capture"].as_u64().unwrap();
    assert!(lost > 0, "{output}");
    let told = format!("e0: the capture lost {lost} packets, because the kernel's buffer was full");
    assert!(output.stderr.contains(&told), "{output}");
}

#[test]
fn rejects_missing_interface() {
    let place = Place::new();
    let output = Running::start(&mut place.verbatim("inspect --rc --interface none0")).end(LIMIT);
    assert_eq!(output.code(), 2, "{output}");
    assert!(output.stderr.contains("--interface: "), "{output}");
    let both = Running::start(&mut place.verbatim("inspect --interface e0 capture.pcap")).end(LIMIT);
    assert_eq!(both.code(), 2, "{both}");
}
