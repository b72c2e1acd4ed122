//! Checks by `verbatim doctor` of the parts that a rig needs, on this host and on the agent's host.

use std::fs;
use std::path::Path;
use std::time::Duration;

use verbatim_hw::verbs::Library;
use verbatim_verbs::tls;
use verbatim_wire::Lid;
use verbatim_wire::values::{PhysState, PortState};

use super::env;
use super::file::{AgentConfig, PacketConfig, RigConfig, RigKind, VerbsConfig, Wire};
use super::peer::{kernel_has, machine_is_there};
use verbatim_verbs::AgentClient;

/// Directory in which the kernel lists network interfaces.
const INTERFACES: &str = "/sys/class/net";
/// Directory in which the kernel lists RDMA devices.
const RDMA_DEVICES: &str = "/sys/class/infiniband";
/// Number of CAP_NET_RAW (`linux/capability.h`).
const CAP_NET_RAW: u32 = 13;
/// `IFF_UP` (`linux/if.h`).
const IFF_UP: u64 = 1;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// One part of a rig, with the result of its check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Name of the part.
    pub what: String,
    /// Whether the part can be used as it is.
    pub usable: bool,
    /// The findings and, if the part cannot be used, the remedy.
    pub words: String,
}

/// Checks the parts of a rig of kind `umad`, `packet` or `verbs`. Opens no device and sends no frame. Returns no parts
/// for other kinds, and none for a umad port that does not exist: opening such a rig reports the error.
#[must_use]
pub fn survey(config: &RigConfig) -> Vec<Part> {
    match &config.kind {
        RigKind::Packet(of) => packet(of),
        RigKind::Verbs(of) => pair(of),
        RigKind::Umad {
            device,
            port,
            agent: of_host,
            ..
        } if env::in_force(config) => {
            let mut parts = port_of(config, device, *port);
            parts.extend(of_host.iter().flat_map(|of| agent(of)));
            parts
        }
        RigKind::Virtual(_) | RigKind::Umad { .. } | RigKind::Model { .. } => Vec::new(),
    }
}

/// Returns no parts for a missing port, because opening the rig reports the reason.
fn port_of(config: &RigConfig, device: &str, number: u8) -> Vec<Part> {
    let library = umad::Library::open().ok();
    let devices = library
        .and_then(|library| library.devices(ANSWER_WITHIN).ok())
        .unwrap_or_default();
    let ours = devices.iter().find(|known| known.name == device);
    let port = ours.and_then(|known| known.ports.iter().find(|port| port.number == number));
    port.map_or_else(Vec::new, |port| {
        vec![
            part("link", link(port)),
            part("LID", Ok(lid(port, config.subnet_timeout.is_some()))),
        ]
    })
}

fn link(port: &umad::DevicePort) -> Result<String, String> {
    let (state, physical) = (PortState(port.state), PhysState(port.physical_state));
    let seen = format!("{state}, {physical}, {} Gb/s", port.rate_gbps);
    match (state, physical) {
        (PortState::DOWN, _) => Err(format!(
            "{seen}: the link carries no management packets; check the cable and the power of the other end; enable a \
             disabled port with `ibportstate -D 0 {} enable`",
            port.number
        )),
        (_, PhysState::LINK_UP) => Ok(seen),
        _ => Err(format!(
            "{seen}: the link is not up; check the cable, and the port on its other end"
        )),
    }
}

/// Describes the port's LID. If the port has none, the text names the tests that need a LID or SubnetTimeOut.
fn lid(port: &umad::DevicePort, has_subnet_timeout: bool) -> String {
    match (Lid(port.lid).is_unicast(), has_subnet_timeout) {
        (false, false) => {
            "none: tests of performance counters need one: set `assign_lid` in the rig file, or run `opensm --once`; \
                       if no subnet manager ever set SubnetTimeOut, write subnet_timeout = 18 into the rig file"
                .into()
        }
        (false, true) => {
            "none: tests of performance counters need one: set `assign_lid` in the rig file, or run `opensm --once`"
                .into()
        }
        (true, _) => port.lid.to_string(),
    }
}

fn part(what: &str, looked: Result<String, String>) -> Part {
    let usable = looked.is_ok();
    let (Ok(words) | Err(words)) = looked;
    Part {
        what: what.into(),
        usable,
        words,
    }
}

fn packet(of: &PacketConfig) -> Vec<Part> {
    let mut parts = match &of.wire {
        Wire::Interface(name) => vec![
            part("interface", interface(Path::new(INTERFACES), name)),
            part(
                "raw frames",
                raw_frames(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
            ),
            part("own address", own_address(of, name)),
            part("RoCE", roce(Path::new(RDMA_DEVICES), name)),
        ],
        Wire::Socket { local, remote } => vec![part("own socket", directory(local)), part("machine", machine(remote))],
    };
    parts.extend(agent(&of.agent));
    parts
}

fn pair(of: &VerbsConfig) -> Vec<Part> {
    let mut parts = vec![part("adapter", adapter(&of.device))];
    parts.extend(agent(&of.agent));
    parts
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn interface(all: &Path, name: &str) -> Result<String, String> {
    let place = all.join(name);
    let Some(flags) = read(&place.join("flags")) else {
        return Err(format!(
            "{name} does not exist here; there are: {}; correct `interface` of the rig, or enter the network namespace \
             that it is in",
            names(all).join(", ")
        ));
    };
    let flags = u64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
    if flags & IFF_UP == 0 {
        return Err(format!("{name} is down: `ip link set {name} up`"));
    }
    if read(&place.join("carrier")).as_deref() != Some("1") {
        return Err(format!(
            "{name} is up and has no link: check the cable, and the port on its other end"
        ));
    }
    let show = |file: &str| read(&place.join(file)).unwrap_or_else(|| "unknown".into());
    Ok(format!(
        "{name} is up; MAC address {}, MTU {}",
        show("address"),
        show("mtu")
    ))
}

/// Checks for CAP_NET_RAW. `status` is the content of `/proc/PID/status`.
fn raw_frames(status: &str) -> Result<String, String> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    match bits {
        Some(bits) if bits >> CAP_NET_RAW & 1 == 1 => Ok("this process has CAP_NET_RAW".into()),
        Some(_) => Err(
            "this process lacks CAP_NET_RAW: run it as root, or `setcap cap_net_raw+ep` the program; for the daemon, \
             AmbientCapabilities=CAP_NET_RAW in its unit"
                .into(),
        ),
        None => Err("the rights of this process cannot be read from /proc/self/status: is /proc mounted?".into()),
    }
}

fn own_address(of: &PacketConfig, interface: &str) -> Result<String, String> {
    if kernel_has(of.ip, interface) {
        return Err(format!(
            "{} is configured on this host, whose kernel would answer the device with ICMP: remove it, or give the rig \
             another address",
            of.ip
        ));
    }
    let family = if of.ip.is_ipv4() { "ipv4" } else { "ipv6" };
    let forwards = read(Path::new(&format!(
        "/proc/sys/net/{family}/conf/{interface}/forwarding"
    )))
    .as_deref()
        == Some("1");
    if of.mac.is_none() && forwards {
        return Err(format!(
            "packets to {} have the MAC address of {interface}, and this host's kernel would forward them: give the \
             rig a `mac` of its own, such as \"02:00:00:00:00:02\"",
            of.ip
        ));
    }
    Ok(format!("{}, not configured on this host", of.ip))
}

/// Checks that no RoCE adapter consumes the frames of the tester's port: RoCE hardware takes packets to UDP port 4791
/// before the kernel sees them.
fn roce(devices: &Path, interface: &str) -> Result<String, String> {
    for device in names(devices) {
        let place = devices.join(&device);
        for port in names(&place.join("ports")) {
            let table = place.join("ports").join(&port).join("gid_attrs/ndevs");
            if !names(&table)
                .iter()
                .any(|index| read(&table.join(index)).as_deref() == Some(interface))
            {
                continue;
            }
            // Only a software RoCE device has the file `parent`.
            return if place.join("parent").exists() {
                Ok(format!(
                    "{device} port {port} is RoCE in software on {interface}: the tester still receives all frames"
                ))
            } else {
                Err(format!(
                    "{device} port {port} has RoCE on {interface} and takes packets to UDP port 4791 before the tester \
                     receives them: switch RoCE off on this port (`devlink dev param`, or the driver's option), or use \
                     a port without it"
                ))
            };
        }
    }
    Ok(format!("no RDMA device of this host is on {interface}"))
}

fn directory(local: &Path) -> Result<String, String> {
    let parent = local.parent().unwrap_or(Path::new("/"));
    if parent.is_dir() {
        Ok(local.display().to_string())
    } else {
        Err(format!(
            "the directory {} does not exist: make it, or correct `socket.local` of the rig",
            parent.display()
        ))
    }
}

fn machine(remote: &Path) -> Result<String, String> {
    match machine_is_there(remote) {
        Ok(()) => Ok(format!("has {} open", remote.display())),
        Err(error) => Err(format!(
            "no process has {} open ({error}): start the device, its model, or its machine (QEMU: `-netdev dgram`), or \
             correct `socket.remote` of the rig",
            remote.display()
        )),
    }
}

fn adapter(device: &str) -> Result<String, String> {
    let library = Library::open().map_err(|error| error.to_string())?;
    let names = library.devices().map_err(|error| error.to_string())?;
    if names.iter().any(|name| name == device) {
        return Ok(format!("{device} is there"));
    }
    let there = if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    };
    Err(format!(
        "no RDMA device {device} on this host; there is: {there}; correct `device` of the rig, or load its driver"
    ))
}

fn agent(of: &AgentConfig) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(tls) = &of.address.tls {
        let looked = tls::client(&tls.files).map(|_| format!("{} and its key can be used", tls.files.cert.display()));
        parts.push(part("certificates", looked.map_err(|error| error.to_string())));
    }
    if parts.iter().all(|part| part.usable) {
        parts.push(part("agent", agent_answers(of)));
    }
    parts
}

fn agent_answers(of: &AgentConfig) -> Result<String, String> {
    let client = AgentClient::connect(&of.address, ANSWER_WITHIN)?;
    let told = client.agent();
    match &of.device {
        Some(device) if !told.devices.contains(device) => Err(format!(
            "the agent at {} offers {}, and the rig file says dut_device = {device:?}: correct it, or start the agent with \
             --device {device}",
            of.address,
            told.devices.join(", ")
        )),
        _ => Ok(format!(
            "{} answers: version {} on {}, device {}",
            of.address,
            told.version,
            told.host,
            told.devices.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RigFile;

    fn file(place: &Path, text: &str) {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, text).unwrap();
    }

    #[test]
    fn unusable_interface_has_a_remedy() {
        let all = tempfile::tempdir().unwrap();
        let of = |flags: &str, carrier: &str| {
            file(&all.path().join("e0/flags"), flags);
            file(&all.path().join("e0/carrier"), carrier);
            file(&all.path().join("e0/mtu"), "1500\n");
            interface(all.path(), "e0")
        };
        assert!(of("0x1002\n", "0\n").unwrap_err().contains("ip link set e0 up"));
        assert!(of("0x1003\n", "0\n").unwrap_err().contains("no link"));
        assert!(of("0x1003\n", "1\n").unwrap().contains("MTU 1500"));
        assert!(interface(all.path(), "e1").unwrap_err().contains("there are: e0"));
    }

    #[test]
    fn reports_link_down_and_missing_lid() {
        let mut port = crate::umad::manager::tests::port(0, 0);
        assert!(link(&port).unwrap().contains("Active, LinkUp, 100 Gb/s"));
        (port.state, port.physical_state) = (1, 2);
        assert!(link(&port).unwrap_err().contains("check the cable"));
        port.state = 2;
        assert!(link(&port).unwrap_err().contains("not up"));
        for none in [0, 0xFFFF] {
            port.lid = none;
            assert!(lid(&port, false).contains("subnet_timeout = 18") && !lid(&port, true).contains("subnet_timeout"));
        }
        port.lid = 7;
        assert_eq!(lid(&port, false), "7");
    }

    #[test]
    fn reads_cap_net_raw_from_status() {
        assert!(raw_frames("Name:\tx\nCapEff:\t0000000000002000\n").is_ok());
        assert!(
            raw_frames("CapEff:\t00000000ffffdfff\n")
                .unwrap_err()
                .contains("setcap")
        );
        assert!(raw_frames("").unwrap_err().contains("/proc"));
    }

    #[test]
    fn reports_only_hardware_roce_on_the_port() {
        let devices = tempfile::tempdir().unwrap();
        assert!(roce(devices.path(), "e0").is_ok());
        file(&devices.path().join("mlx5_0/ports/1/gid_attrs/ndevs/0"), "e0\n");
        file(&devices.path().join("rxe0/ports/1/gid_attrs/ndevs/1"), "e1\n");
        file(&devices.path().join("rxe0/parent"), "e1\n");
        let why = roce(devices.path(), "e0").unwrap_err();
        assert!(why.contains("mlx5_0 port 1") && why.contains("4791"), "{why}");
        assert!(roce(devices.path(), "e1").unwrap().contains("in software"));
        assert!(roce(devices.path(), "e2").is_ok());
    }

    #[test]
    fn reports_every_missing_part() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("rigs.toml");
        let text = "config_version = 1\n[[rig]]\nname = \"p\"\nkind = \"packet\"\nip = \"192.0.2.2\"\nmac = \
                    \"02:00:00:00:00:02\"\nsocket = { local = \"no/t\", remote = \"m\" }\nagent = \"127.0.0.1:1\"\nagent_ca \
                    = \"ca.pem\"\nagent_cert = \"c.pem\"\nagent_key = \"k.pem\"\n[[rig]]\nname = \"v\"\nkind = \
                    \"verbs\"\ndevice = \"no_such_device\"\nport = 1\nagent = \"unix:a\"\n";
        let rigs = RigFile::parse(text.as_bytes(), &at).unwrap().rigs;
        let told = survey(&rigs[0]);
        let missing: Vec<_> = told.iter().map(|part| (part.what.as_str(), part.usable)).collect();
        assert_eq!(
            missing,
            [("own socket", false), ("machine", false), ("certificates", false)]
        );
        assert!(told[2].words.contains("c.pem cannot be read"), "{told:?}");
        let told = survey(&rigs[1]);
        let missing: Vec<_> = told.iter().map(|part| (part.what.as_str(), part.usable)).collect();
        assert_eq!(missing, [("adapter", false), ("agent", false)]);
        assert!(told[1].words.contains("verbatim-agent"), "{told:?}");
        assert!(survey(&RigFile::built_in().rigs[0]).is_empty());
    }
}
