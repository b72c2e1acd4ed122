//! Tests on a veth pair in a network namespace. A child process with the same program runs in the namespace.

use std::path::Path;
use std::process::Command as Process;

use verbatim_hw::ether::PacketSocket;
use verbatim_wire::Layout;
use verbatim_wire::ether::{EtherType, Ethernet, Ipv4, MacAddress};

use super::lab::Lab;
use super::with_an_agent::{answer, run_answered};
use super::*;
use verbatim_rig::{RigConfig, RigError, RigFile, Session};

fn ip(arguments: &str) {
    let done = Process::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

#[test]
fn rig_on_interface_sees_its_frames_and_link_loss() {
    let may = Process::new("unshare").args(["-n", "true"]).output();
    if !may.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: needs the right to make a network namespace (root) and util-linux's unshare");
        return;
    }
    let child = Process::new("unshare")
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "peer::on_an_interface::in_a_namespace"])
        .args(["--ignored", "--nocapture"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn config(lab: &Lab, ip: &str) -> RigConfig {
    let text = format!(
        "config_version = 1\n[[rig]]\nname = \"p\"\nkind = \"packet\"\nip = \"{ip}\"\ninterface = \"e0\"\nagent = \
         \"unix:agent.sock\"\n"
    );
    let file = lab.path().join("rigs.toml");
    RigFile::parse(text.as_bytes(), &file).unwrap().rigs.remove(0)
}

fn mac_of(interface: &str) -> MacAddress {
    let text = std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("address"));
    text.unwrap_or_default().trim().parse().unwrap_or_default()
}

fn frame(to: MacAddress, ip: &str, payload: u8) -> Vec<u8> {
    let header = Ethernet::default()
        .with_dst(to)
        .with_src(MacAddress([2, 0, 0, 0, 0, 9]))
        .with_ethertype(EtherType::IPV4);
    let packet = Ipv4::default()
        .with_version(4)
        .with_ihl(5)
        .with_dst(ip.parse().unwrap());
    [header.bytes(), packet.bytes(), &[payload; 26]].concat()
}

#[test]
#[ignore = "another process in a network namespace of its own, started by another test"]
fn in_a_namespace() {
    ip("link add e0 type veth peer name e1");
    let lab = Lab::new();
    let refused = |ip: &str| match verbatim_rig::open(&config(&lab, ip), Arc::default()).unwrap_err() {
        RigError::Lost { why, .. } | RigError::Refused { why, .. } => why,
        other => panic!("{other}"),
    };
    let why = refused("10.9.0.2");
    assert!(why.contains("e0 is down"), "{why}");
    for interface in ["e0", "e1"] {
        ip(&format!("link set {interface} up"));
    }
    ip("address add 10.9.0.9/24 dev e0");
    let why = refused("10.9.0.9");
    assert!(why.contains("configured on this host"), "{why}");

    let open = verbatim_rig::open(&config(&lab, "10.9.0.2"), Arc::default()).unwrap();
    // /sys may still show the interfaces of the parent namespace, but the rig asks the kernel for the MAC address.
    let mac = open.info.frames.as_ref().unwrap().mac;
    assert_eq!(open.fingerprint["link"]["interface_mac"], mac.to_string());
    assert!(mac_of("e0") == mac || mac_of("e0") == MacAddress::default());
    let Session::Real(mut rig) = open.session else {
        panic!("a virtual rig");
    };
    let other = PacketSocket::open("e1").unwrap();
    other.send(&frame(mac, "10.9.0.9", 1)).unwrap();
    other
        .send(&frame(MacAddress([2, 0, 0, 0, 0, 8]), "10.9.0.2", 2))
        .unwrap();
    let left = rig.now();
    other.send(&frame(mac, "10.9.0.2", 3)).unwrap();
    // The kernels of both ends send packets too. Frames of this test have their own source address.
    let first = loop {
        let until = rig.now().after(LONG);
        match rig.wait(until) {
            Arrival::Frame(0, at, bytes) if bytes[6..12] == [2, 0, 0, 0, 0, 9] => break (at, bytes),
            Arrival::Frame(..) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        first.1,
        frame(mac, "10.9.0.2", 3),
        "neither the host's own packets nor those of others"
    );
    assert!(
        first.0.latest >= left && first.0.earliest <= rig.now(),
        "{:?} after {left}",
        first.0
    );

    let sent = rig.send(Stimulus::Frame(0, &frame(mac, "10.9.0.1", 4))).unwrap();
    assert!(sent.earliest <= sent.latest && sent.latest <= rig.now());
    let arrived = loop {
        let frame = other.receive(LONG).unwrap().expect("a frame");
        if frame.bytes[6..12] == [2, 0, 0, 0, 0, 9] {
            break frame.bytes;
        }
    };
    assert_eq!(arrived, frame(mac, "10.9.0.1", 4));
    let long = vec![0; 9000];
    assert!(matches!(rig.send(Stimulus::Frame(0, &long)), Err(Stop::Tester(why)) if why.contains("9000 bytes")));

    let again = Lab::new();
    let answers = || answer(other.receive(MS).unwrap(), |frame| drop(other.send(frame)));
    run_answered(&again, config(&again, "10.9.0.2"), answers, |device| {
        device.go("enough")
    });
    let sources = again.time_sources();
    for received in [false, true] {
        // A single frame may lack a kernel timestamp, so the test looks for any frame with one.
        assert!(sources.contains(&(received, TimeSource::Kernel)), "{sources:?}");
    }

    ip("link set e0 down");
    let why = loop {
        let until = rig.now().after(LONG);
        match rig.wait(until) {
            Arrival::Stop(Stop::RigGone(why)) => break why,
            Arrival::Frame(..) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(
        why.contains("the link to the device is gone: interface e0 is down"),
        "{why}"
    );
}
