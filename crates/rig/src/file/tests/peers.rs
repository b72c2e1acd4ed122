//! Rigs of kind `packet` and `verbs`.

use verbatim_verbs::tls::ClientFiles;

use super::super::{AgentConfig, PacketConfig, RigKind, VerbsConfig, Wire};
use super::{fails, parse, rig};
use verbatim_verbs::{AgentAddress, AgentTls, Place};

const PACKET: &str = "name = \"p\"\nkind = \"packet\"\nip = \"10.0.0.2\"\n";
const AGENT: &str = "agent = \"unix:a.sock\"\n";
const VERBS: &str = "name = \"v\"\nkind = \"verbs\"\ndevice = \"rxe1\"\nport = 1\n";
const TLS: &str = "agent_ca = \"pki/ca.pem\"\nagent_cert = \"/pki/client.pem\"\nagent_key = \"pki/key.pem\"\nagent_name = \"dut-host\"\n";

fn kind(text: &str) -> RigKind {
    parse(&rig(text)).unwrap().rigs.remove(0).kind
}

/// Checks the error of `line`, which is line 6 of the file, after the keys of a packet rig. The error points at the
/// value after "= ".
#[track_caller]
fn packet_fails(line: &str, words: &[&str]) {
    let column = line.find("= ").unwrap() + 3;
    fails(&rig(&format!("{PACKET}{line}\n")), (6, column), words);
}

#[test]
fn reads_packet_rigs() {
    let RigKind::Packet(on_interface) = kind(&format!(
        "{PACKET}interface = \"enp3s0\"\ndut_ip = \"10.0.0.1\"\ngid_index = 1\nagent = \"10.1.2.3:7000\"\n{TLS}dut_device = \
         \"rxe0\"\n"
    )) else {
        panic!("no packet rig");
    };
    assert_eq!(
        *on_interface,
        PacketConfig {
            wire: Wire::Interface("enp3s0".into()),
            mac: None,
            ip: "10.0.0.2".parse().unwrap(),
            dut_ip: Some("10.0.0.1".parse().unwrap()),
            dut_gid_index: Some(1),
            agent: AgentConfig {
                address: AgentAddress {
                    place: Place::Tcp("10.1.2.3:7000".parse().unwrap()),
                    tls: Some(AgentTls {
                        files: ClientFiles {
                            ca: "/etc/x/pki/ca.pem".into(),
                            cert: "/pki/client.pem".into(),
                            key: "/etc/x/pki/key.pem".into(),
                        },
                        server_name: Some("dut-host".into()),
                    }),
                },
                device: Some("rxe0".into()),
            },
        }
    );
    let text = "name = \"p\"\nkind = \"packet\"\nip = \"fd00::2\"\nmac = \"02:00:00:00:00:02\"\nsocket = { local = \
                \"t.sock\", remote = \"/run/m.sock\" }\nagent = \"unix:run/a.sock\"\n";
    let kind = kind(text);
    assert_eq!(kind.device(), "socket /etc/x/t.sock, agent at unix:/etc/x/run/a.sock");
    let RigKind::Packet(on_sockets) = kind else {
        panic!("no packet rig");
    };
    assert_eq!(
        on_sockets.wire,
        Wire::Socket {
            local: "/etc/x/t.sock".into(),
            remote: "/run/m.sock".into()
        }
    );
    assert_eq!(on_sockets.mac.unwrap().to_string(), "02:00:00:00:00:02");
    assert_eq!((on_sockets.dut_ip, on_sockets.agent.address.tls), (None, None));
}

#[test]
fn reads_verbs_rigs() {
    let RigKind::Verbs(verbs) = kind(&format!(
        "{VERBS}gid_index = 1\ndut_gid_index = 3\nagent = \"127.0.0.1:7000\"\n"
    )) else {
        panic!("no verbs rig");
    };
    assert_eq!(
        *verbs,
        VerbsConfig {
            device: "rxe1".into(),
            port: 1,
            gid_index: Some(1),
            dut_gid_index: Some(3),
            agent: AgentConfig {
                address: AgentAddress {
                    place: Place::Tcp("127.0.0.1:7000".parse().unwrap()),
                    tls: None,
                },
                device: None,
            },
        }
    );
    let RigKind::Verbs(verbs) = kind(&format!("{VERBS}agent = \"[::1]:7000\"\n{TLS}")) else {
        panic!("no verbs rig");
    };
    assert!(verbs.agent.address.tls.is_some());
    let RigKind::Verbs(verbs) = kind(&format!("{VERBS}agent = \"unix:/a\"\n")) else {
        panic!("no verbs rig");
    };
    assert_eq!(verbs.agent.address.to_string(), "unix:/a");
    let files: String = TLS.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    let RigKind::Verbs(verbs) = kind(&format!("{VERBS}agent = \"10.1.2.3:7000\"\n{files}")) else {
        panic!("no verbs rig");
    };
    assert_eq!(verbs.agent.address.tls.unwrap().server_name, None);
}

#[test]
fn missing_peer_key_points_at_its_rig() {
    let whole = format!("{PACKET}interface = \"e\"\n{AGENT}");
    for (without, words) in [
        ("ip", "missing key \"ip\"; a rig of kind \"packet\" needs it"),
        ("interface", "neither \"interface\" nor \"socket\""),
        ("agent", "missing key \"agent\""),
    ] {
        let text: String = whole
            .lines()
            .filter(|line| !line.starts_with(without))
            .flat_map(|line| [line, "\n"])
            .collect();
        fails(&rig(&text), (2, 1), &[words]);
    }
    let no_mac = format!("{PACKET}socket = {{ local = \"a\", remote = \"b\" }}\n{AGENT}");
    fails(&rig(&no_mac), (2, 1), &["missing key \"mac\"", "02:00:00:00:00:02"]);
    fails(&rig(VERBS), (2, 1), &["missing key \"agent\""]);
    fails(
        &rig(&format!("name = \"v\"\nkind = \"verbs\"\nport = 1\n{AGENT}")),
        (2, 1),
        &["missing key \"device\""],
    );
    fails(
        &rig(&format!("name = \"v\"\nkind = \"verbs\"\ndevice = \"d\"\n{AGENT}")),
        (2, 1),
        &["missing key \"port\""],
    );
}

#[test]
fn refuses_invalid_wire() {
    packet_fails("interface = \"\"", &["not a valid interface name"]);
    packet_fails("interface = \"a/b\"", &["not a valid interface name"]);
    packet_fails("interface = \"eth0:1\"", &["not a valid interface name"]);
    packet_fails("interface = \"sixteen-letters-\"", &["1 to 15 letters"]);
    packet_fails("socket = \"t.sock\"", &["has two", "local = \"t.sock\""]);
    packet_fails("socket = 7", &["a path, or { local"]);
    let both = format!("{PACKET}interface = \"e\"\nsocket = {{ local = \"a\", remote = \"b\" }}\n");
    fails(&rig(&both), (7, 10), &["both set"]);
    let one = format!("{PACKET}socket = {{ local = \"a\" }}\n");
    fails(&rig(&one), (6, 10), &["missing key `remote`"]);
    let other = format!("{PACKET}socket = {{ local = \"a\", remoet = \"b\" }}\n");
    fails(&rig(&other), (6, 25), &["did you mean \"remote\"?"]);
    let same = format!("{PACKET}socket = {{ local = \"a\", remote = \"a\" }}\n");
    fails(&rig(&same), (6, 34), &["are the same"]);
    let long = format!(
        "{PACKET}socket = {{ local = \"{}\", remote = \"a\" }}\n",
        "x".repeat(107)
    );
    fails(&rig(&long), (6, 20), &["has at most 107"]);
    let model = "name = \"m\"\nkind = \"model\"\nsocket = { local = \"a\", remote = \"b\" }\n";
    fails(&rig(model), (5, 10), &["has one socket"]);
}

#[test]
fn refuses_addresses_that_are_not_unicast() {
    let mac = |mac: &str, words: &str| {
        let text = format!("{PACKET}interface = \"e\"\n{AGENT}mac = \"{mac}\"\n");
        fails(&rig(&text), (8, 7), &[words]);
    };
    mac("ff:ff:ff:ff:ff:ff", "is the broadcast address");
    mac("01:00:5e:00:00:01", "is a multicast address");
    mac("00:00:00:00:00:00", "is no station's address");
    mac("02:00:00:00:00", "is no MAC address");
    mac("enp3s0", "is no MAC address");
    let ip = |ip: &str, words: &str| {
        let text = format!("name = \"p\"\nkind = \"packet\"\ninterface = \"e\"\nip = \"{ip}\"\n{AGENT}");
        fails(&rig(&text), (6, 6), &["\"ip\"", words]);
    };
    ip("0.0.0.0", "is the unspecified address");
    ip("127.0.0.1", "is a loopback address");
    ip("::1", "is a loopback address");
    ip("224.0.0.1", "is a multicast or broadcast address");
    ip("255.255.255.255", "is a multicast or broadcast address");
    ip("::ffff:10.0.0.1", "is an IPv4-mapped IPv6 address");
    ip("10.0.0.2/24", "without a prefix length");
    ip("tester", "expected an IPv4 or IPv6 address");
}

#[test]
fn refuses_mismatched_dut_ip() {
    let dut = |ip: &str, words: &str| {
        let text = format!("{PACKET}interface = \"e\"\n{AGENT}dut_ip = \"{ip}\"\n");
        fails(&rig(&text), (8, 10), &[words]);
    };
    dut("fd00::1", "of different families");
    dut("10.0.0.2", "both 10.0.0.2");
    dut("224.0.0.1", "is a multicast or broadcast address");
}

#[test]
fn agent_name_is_not_resolved_while_parsing() {
    let of = |agent: &str| {
        parse(&rig(&format!("{PACKET}interface = \"e\"\nagent = \"{agent}\"\n{TLS}")))
            .unwrap()
            .rigs
            .remove(0)
    };
    // RFC 6761: names below `.invalid` never resolve.
    let named = of("dut-3.lab.invalid:7000");
    assert!(named.kind.device().ends_with("agent at dut-3.lab.invalid:7000"));
    let identity = named.device_identity();
    assert_eq!(identity.as_deref(), Some("agent dut-3.lab.invalid:7000 None"));
    assert_eq!(
        of("DUT-3.lab.Invalid.:7000").device_identity(),
        identity,
        "written otherwise it is the same"
    );
    for other in ["dut-4.lab.invalid:7000", "dut-3.lab.invalid:7001", "10.1.2.3:7000"] {
        assert_ne!(of(other).device_identity(), identity, "{other}");
    }
}

#[test]
fn agent_on_localhost_needs_no_tls() {
    let text = format!("{PACKET}interface = \"e\"\nagent = \"localhost:7000\"\n");
    assert!(kind(&text).device().ends_with("agent at localhost:7000"));
}

#[test]
fn refuses_insecure_agents() {
    let agent = |agent: &str, words: &[&str]| {
        let text = format!("{PACKET}interface = \"e\"\nagent = \"{agent}\"\n");
        fails(&rig(&text), (7, 9), words);
    };
    agent("unix:", &["names no socket"]);
    agent(
        "dut-host",
        &["expected \"unix:/run/agent.sock\"", "dut-host.example:7000"],
    );
    agent("10.1.2.3", &["expected \"unix:/run/agent.sock\""]);
    agent("10.1.2.333:7000", &["an address or name and a port"]);
    agent("127.0.0.1:0", &["an address or name and a port"]);
    agent("0.0.0.0:7000", &["an address or name and a port"]);
    agent(
        "dut-host:7000",
        &["only reached with TLS", "agent_ca", "verbatim pki init"],
    );
    agent(
        "10.1.2.3:7000",
        &["only reached with TLS", "agent_ca", "verbatim pki init"],
    );
    agent("[::ffff:10.1.2.3]:7000", &["only reached with TLS"]);
    let unix_tls = format!("{PACKET}interface = \"e\"\n{AGENT}{TLS}");
    fails(&rig(&unix_tls), (8, 12), &["carries no TLS"]);
    for key in ["agent_ca", "agent_cert", "agent_key"] {
        let some: String = TLS
            .lines()
            .filter(|line| !line.starts_with(&format!("{key} =")))
            .flat_map(|line| [line, "\n"])
            .collect();
        let column = some.find("= ").unwrap() + 3;
        let text = format!("{PACKET}interface = \"e\"\nagent = \"10.1.2.3:7000\"\n{some}");
        fails(
            &rig(&text),
            (8, column),
            &[&format!("{key:?} is missing"), "needs all of"],
        );
    }
    let empty = format!("{PACKET}interface = \"e\"\n{AGENT}dut_device = \"\"\n");
    fails(&rig(&empty), (8, 14), &["\"dut_device\" is empty"]);
}

#[test]
fn refuses_keys_of_other_kinds() {
    for (line, owners) in [
        ("m_key = 1", "\"virtual\" or \"umad\" or \"model\""),
        ("route = \"0,1\"", "\"virtual\" or \"umad\" or \"model\""),
        ("lid = 1", "\"virtual\" or \"umad\" or \"model\""),
        ("shared_subnet = true", "\"virtual\" or \"umad\" or \"model\""),
        ("window = 1", "\"virtual\" or \"umad\" or \"model\""),
        ("subnet_timeout = 1", "\"virtual\" or \"umad\" or \"model\""),
        ("device = \"d\"", "\"umad\" or \"verbs\""),
        ("dut_gid_index = 1", "\"verbs\""),
        ("env = { A = \"1\" }", "\"umad\""),
    ] {
        packet_fails(
            line,
            &[&format!(
                "is a key of rigs of kind {owners}, and this one is \"packet\""
            )],
        );
    }
    for line in [
        "interface = \"e\"",
        "mac = \"02:00:00:00:00:02\"",
        "ip = \"10.0.0.2\"",
        "socket = \"s\"",
    ] {
        let column = line.find("= ").unwrap() + 3;
        fails(
            &rig(&format!("{VERBS}{line}\n")),
            (7, column),
            &["this one is \"verbs\""],
        );
    }
    for (line, owners) in [
        ("gid_index = 1", "of kind \"packet\" or \"verbs\""),
        ("agent = \"unix:a\"", "of kind \"umad\" or \"packet\" or \"verbs\""),
        ("dut_device = \"d\"", "of kind \"umad\" or \"packet\" or \"verbs\""),
        ("agent_ca = \"c\"", "of kind \"umad\" or \"packet\" or \"verbs\""),
    ] {
        let column = line.find("= ").unwrap() + 3;
        let text = rig(&format!("name = \"a\"\nkind = \"model\"\n{line}\n"));
        fails(&text, (5, column), &[owners]);
    }
    for key in ["gid_index", "dut_gid_index"] {
        let text = format!("{VERBS}{AGENT}{key} = 256\n");
        fails(&rig(&text), (8, key.len() + 4), &["expected 0 to 255"]);
    }
}

#[test]
fn umad_rig_may_have_an_agent() {
    let umad = |lines: &str| {
        rig(&format!(
            "name = \"a\"\nkind = \"umad\"\ndevice = \"d\"\nport = 1\nroute = \"0,1\"\n{lines}"
        ))
    };
    let agent = |lines: &str| match parse(&umad(lines)).unwrap().rigs.remove(0).kind {
        RigKind::Umad { agent, .. } => agent,
        other => panic!("{other:?}"),
    };
    assert_eq!(agent(""), None);
    let of = agent("agent = \"unix:/run/a\"\ndut_device = \"mlx5_1\"\n").unwrap();
    assert_eq!(
        (of.address.to_string(), of.device.as_deref()),
        ("unix:/run/a".into(), Some("mlx5_1"))
    );
    fails(
        &umad("dut_device = \"mlx5_1\"\n"),
        (8, 14),
        &["belongs to an agent", "write `agent ="],
    );
    fails(&umad("agent = \"10.1.2.3:7000\"\n"), (8, 9), &["no loopback address"]);
}
