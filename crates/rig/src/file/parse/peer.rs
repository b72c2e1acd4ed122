//! The parser of rigs of kind `packet` and `verbs`.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use verbatim_verbs::tls::ClientFiles;
use verbatim_wire::ether::MacAddress;

use super::super::{AgentConfig, PacketConfig, VerbsConfig, Wire};
use super::{RawRig, Socket, Wrong, below, missing, required, within, wrong};
use verbatim_verbs::{AgentAddress, AgentTls, Place};

/// The longest interface name, in bytes.
const LONGEST_INTERFACE: usize = 15;
/// The longest path of a unix socket, in bytes (`sun_path` without the final NUL).
const LONGEST_SOCKET: usize = 107;
/// The largest GID index: verbs store it in 8 bits of the GRH attributes.
const LAST_GID_INDEX: i64 = 255;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SocketPair {
    local: Spanned<String>,
    remote: Spanned<String>,
}

/// Path of the rig file, the rig's kind, and the place of its header.
#[derive(Clone)]
pub(super) struct At<'a> {
    pub(super) file: &'a Path,
    pub(super) kind: &'a str,
    pub(super) header: Range<usize>,
}

pub(super) fn packet(rig: &RawRig, at: &At<'_>) -> Result<PacketConfig, Wrong> {
    let wire = wire(rig, at)?;
    let mac = rig.mac.as_ref().map(station).transpose()?;
    if mac.is_none() && matches!(wire, Wire::Socket { .. }) {
        return wrong(
            at.header.clone(),
            "missing key \"mac\"; a rig with \"socket\" has no interface with a MAC address: write the tester's own, \
             such as `mac = \"02:00:00:00:00:02\"`",
        );
    }
    let Some(own) = &rig.ip else {
        return missing("ip", at.kind, at.header.clone());
    };
    let ip = host(own, "ip")?;
    let dut_ip = rig.dut_ip.as_ref().map(|text| host(text, "dut_ip")).transpose()?;
    if let (Some(text), Some(other)) = (&rig.dut_ip, dut_ip) {
        if other.is_ipv4() != ip.is_ipv4() {
            return wrong(
                text.span(),
                format!("\"dut_ip\" {other} and \"ip\" {ip} are of different families; both IPv4, or both IPv6"),
            );
        }
        if other == ip {
            return wrong(
                text.span(),
                format!("\"dut_ip\" and \"ip\" are both {ip}; the tester needs an address of its own"),
            );
        }
    }
    Ok(PacketConfig {
        wire,
        mac,
        ip,
        dut_ip,
        dut_gid_index: within(rig.gid_index.as_ref(), "gid_index", 0, LAST_GID_INDEX)?,
        agent: agent(rig, at)?,
    })
}

pub(super) fn verbs(rig: &RawRig, at: &At<'_>) -> Result<VerbsConfig, Wrong> {
    Ok(VerbsConfig {
        device: required(rig.device.as_ref(), "device", at.kind, &at.header)?,
        port: match within(rig.port.as_ref(), "port", 1, 254)? {
            Some(port) => port,
            None => return missing("port", at.kind, at.header.clone()),
        },
        gid_index: within(rig.gid_index.as_ref(), "gid_index", 0, LAST_GID_INDEX)?,
        dut_gid_index: within(rig.dut_gid_index.as_ref(), "dut_gid_index", 0, LAST_GID_INDEX)?,
        agent: agent(rig, at)?,
    })
}

fn wire(rig: &RawRig, at: &At<'_>) -> Result<Wire, Wrong> {
    match (&rig.interface, &rig.socket) {
        (Some(_), Some(socket)) => wrong(
            socket.span(),
            "\"interface\" and \"socket\" are both set; keep the one that carries the frames",
        ),
        (None, None) => wrong(
            at.header.clone(),
            "neither \"interface\" nor \"socket\" is set; write `interface = \"enp3s0\"` for the port that is cabled \
             to the device, or `socket = { local = \"t.sock\", remote = \"m.sock\" }` for an emulated machine",
        ),
        (Some(name), None) => {
            let text = name.get_ref();
            let unfit = |byte: u8| byte == b'/' || byte == b':' || !byte.is_ascii_graphic();
            if !(1..=LONGEST_INTERFACE).contains(&text.len()) || text.bytes().any(unfit) {
                return wrong(
                    name.span(),
                    format!(
                        "{text:?} is not a valid interface name; expected 1 to {LONGEST_INTERFACE} letters, digits and \
                         signs without \"/\" and \":\", as `ip link` shows it"
                    ),
                );
            }
            Ok(Wire::Interface(text.clone()))
        }
        (None, Some(socket)) => match socket.get_ref() {
            Socket::Path(path) => wrong(
                socket.span(),
                format!(
                    "\"socket\" is {path:?}; a rig of kind {:?} has two: `socket = {{ local = \"t.sock\", remote = \
                     \"m.sock\" }}`",
                    at.kind
                ),
            ),
            Socket::Pair(pair) => {
                let local = socket_path(&pair.local, "local", at)?;
                let remote = socket_path(&pair.remote, "remote", at)?;
                if local == remote {
                    return wrong(
                        pair.remote.span(),
                        "\"local\" and \"remote\" are the same; \"local\" is the tester's socket, \"remote\" the \
                         machine's",
                    );
                }
                Ok(Wire::Socket { local, remote })
            }
        },
    }
}

fn socket_path(text: &Spanned<String>, key: &str, at: &At<'_>) -> Result<PathBuf, Wrong> {
    let path = below(at.file, required(Some(text), key, at.kind, &at.header)?);
    if path.as_os_str().len() > LONGEST_SOCKET {
        return wrong(
            text.span(),
            format!(
                "{key:?} is {} bytes long with its directory ({}); a unix socket's path has at most {LONGEST_SOCKET} \
                 bytes: choose a shorter path",
                path.as_os_str().len(),
                path.display()
            ),
        );
    }
    Ok(path)
}

/// Parses a unicast MAC address.
fn station(text: &Spanned<String>) -> Result<MacAddress, Wrong> {
    let mac = MacAddress::from_str(text.get_ref())
        .or_else(|error| wrong(text.span(), format!("\"mac\" is no MAC address: {error}")))?;
    if mac.is_multicast() || mac == MacAddress::default() {
        let what = match mac {
            MacAddress::BROADCAST => "is the broadcast address",
            _ if mac.is_multicast() => "is a multicast address (the lowest bit of its first byte is set)",
            _ => "is no station's address",
        };
        return wrong(
            text.span(),
            format!("\"mac\" {mac} {what}; expected the tester's own, such as 02:00:00:00:00:02"),
        );
    }
    Ok(mac)
}

/// Parses the unicast IP address of a host.
fn host(text: &Spanned<String>, key: &str) -> Result<IpAddr, Wrong> {
    let Ok(ip) = IpAddr::from_str(text.get_ref()) else {
        return wrong(
            text.span(),
            format!(
                "{key:?} is {:?}; expected an IPv4 or IPv6 address without a prefix length, such as \"10.0.0.2\" or \
                 \"fd00::2\"",
                text.get_ref()
            ),
        );
    };
    let mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    let what = match ip {
        _ if ip.is_unspecified() => "is the unspecified address",
        _ if ip.is_loopback() => "is a loopback address",
        _ if ip.is_multicast() || ip == Ipv4Addr::BROADCAST => "is a multicast or broadcast address",
        _ if mapped => "is an IPv4-mapped IPv6 address",
        _ => return Ok(ip),
    };
    wrong(
        text.span(),
        format!("{key:?} {ip} {what}; expected the address of one host on the link of the device"),
    )
}

/// Parses the agent of a rig for which an agent is optional. Returns None if the rig has no key of an agent.
pub(super) fn agent_if_any(rig: &RawRig, at: &At<'_>) -> Result<Option<AgentConfig>, Wrong> {
    let of_agent = [
        &rig.agent_ca,
        &rig.agent_cert,
        &rig.agent_key,
        &rig.agent_name,
        &rig.dut_device,
    ];
    match (&rig.agent, of_agent.into_iter().flatten().next()) {
        (None, None) => Ok(None),
        (None, Some(key)) => wrong(
            key.span(),
            "this key belongs to an agent, and \"agent\" is not set; write `agent = \"10.1.2.3:7000\"`, or remove this \
             key",
        ),
        (Some(_), _) => agent(rig, at).map(Some),
    }
}

fn agent(rig: &RawRig, at: &At<'_>) -> Result<AgentConfig, Wrong> {
    let Some(text) = &rig.agent else {
        return missing("agent", at.kind, at.header.clone());
    };
    let place = agent_place(text, at)?;
    let tls = agent_tls(rig, at)?;
    let on_another_host = match &place {
        Place::Unix(_) if tls.is_some() => {
            let span = rig.agent_ca.as_ref().map_or(at.header.clone(), Spanned::span);
            return wrong(
                span,
                "\"agent\" is a unix socket, which carries no TLS; remove \"agent_ca\", \"agent_cert\", \"agent_key\" and \
                 \"agent_name\"",
            );
        }
        place => !place.is_local(),
    };
    if on_another_host && tls.is_none() {
        return wrong(
            text.span(),
            format!(
                "\"agent\" {:?} is no loopback address and not \"localhost\", and an agent is only reached with TLS there; give \
                 \"agent_ca\", \"agent_cert\" and \"agent_key\" (`verbatim pki init DIR` makes the files)",
                text.get_ref()
            ),
        );
    }
    Ok(AgentConfig {
        address: AgentAddress { place, tls },
        device: match &rig.dut_device {
            None => None,
            some => Some(required(some.as_ref(), "dut_device", at.kind, &at.header)?),
        },
    })
}

fn agent_place(text: &Spanned<String>, at: &At<'_>) -> Result<Place, Wrong> {
    if let Some(path) = text.get_ref().strip_prefix("unix:") {
        if path.is_empty() || path.contains('\0') {
            return wrong(text.span(), "\"agent\" names no socket after \"unix:\"");
        }
        return Ok(Place::Unix(below(at.file, path)));
    }
    match SocketAddr::from_str(text.get_ref()) {
        Ok(address) if address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast() => {
            Ok(Place::Tcp(address))
        }
        // The client resolves the name when it connects. The rig file must parse even while the resolver does not know
        // a host.
        parsed => match Place::named(text.get_ref()).filter(|_| parsed.is_err()) {
            Some(named) => Ok(named),
            None => wrong(
                text.span(),
                format!(
                    "\"agent\" is {:?}; expected \"unix:/run/agent.sock\", or an address or name and a port such as \
                     \"10.1.2.3:7000\", \"[fd00::1]:7000\" or \"dut-host.example:7000\"",
                    text.get_ref()
                ),
            ),
        },
    }
}

fn agent_tls(rig: &RawRig, at: &At<'_>) -> Result<Option<AgentTls>, Wrong> {
    let files = [
        ("agent_ca", &rig.agent_ca),
        ("agent_cert", &rig.agent_cert),
        ("agent_key", &rig.agent_key),
    ];
    let all = files.iter().map(|(_, value)| value.as_ref());
    let Some(given) = all.chain([rig.agent_name.as_ref()]).flatten().next() else {
        return Ok(None);
    };
    if let Some((absent, _)) = files.iter().find(|(_, value)| value.is_none()) {
        return wrong(
            given.span(),
            format!(
                "{absent:?} is missing; TLS with an agent needs all of \"agent_ca\", \"agent_cert\" and \"agent_key\""
            ),
        );
    }
    let file = |place: usize| {
        let (key, value) = files[place];
        required(value.as_ref(), key, at.kind, &at.header).map(|path| below(at.file, path))
    };
    Ok(Some(AgentTls {
        files: ClientFiles {
            ca: file(0)?,
            cert: file(1)?,
            key: file(2)?,
        },
        server_name: match &rig.agent_name {
            None => None,
            some => Some(required(some.as_ref(), "agent_name", at.kind, &at.header)?),
        },
    }))
}
