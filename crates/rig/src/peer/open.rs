//! Opens rigs of kind `packet` and `verbs`.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use verbatim_hw::ether::{DatagramPair, PacketSocket};
use verbatim_record::Side;
use verbatim_record::verbs::pb;
use verbatim_tester::{FramePort, RigInfo, Stop};
use verbatim_verbs::Limits;
use verbatim_wire::ether::MacAddress;

use super::kernel::kernel_has;
use super::link::{OfInterface, OfMachine, Own, link_local, machine_is_there};
use super::{FrameLink, Pace, PeerRig};
use crate::file::{AgentConfig, PacketConfig, VerbsConfig, Wire};
use crate::fingerprint::{self, of_host};
use crate::{OpenRig, RigConfig, RigError, Session, info};
use verbatim_verbs::{AgentClient, LocalVerbs, VerbsLink};

/// Time limit for connecting to an agent.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Opens a rig of kind `packet`.
pub(crate) fn packet(config: &RigConfig, of: &PacketConfig, cancel: Arc<AtomicBool>) -> Result<OpenRig, RigError> {
    let (link, mac, wire) = frame_link(config, of)?;
    let (agent, told) = agent(config, &of.agent)?;
    let mut rig = PeerRig::new(Some(link), vec![(Side::Dut, agent)], Pace::of(config), cancel);
    let dut = opened(config, &mut rig, Side::Dut)?;
    is_the_device(config, &of.agent, &dut)?;
    is_not_us(config, of.ip, mac, &dut)?;
    let info = RigInfo {
        frames: Some(FramePort {
            mac,
            ip: of.ip,
            dut_ip: of.dut_ip,
        }),
        gid_indices: (of.dut_gid_index, None),
        ..info(config, rig.measure_host_bound())
    };
    let fingerprint = json!({
        "kind": "packet",
        "program": env!("CARGO_PKG_VERSION"),
        "kernel": fingerprint::kernel(),
        "link": wire,
        "mac": mac.to_string(),
        "ip": of.ip.to_string(),
        "agent": told,
    });
    Ok(OpenRig {
        info,
        session: Session::Real(Box::new(rig)),
        fingerprint,
    })
}

/// Opens a rig of kind `verbs`.
pub(crate) fn pair(config: &RigConfig, of: &VerbsConfig, cancel: Arc<AtomicBool>) -> Result<OpenRig, RigError> {
    let (mut rig, told, _) = hosts(config, (&of.device, of.port), &of.agent, cancel)?;
    let info = RigInfo {
        gid_indices: (of.dut_gid_index, of.gid_index),
        ..info(config, rig.measure_host_bound())
    };
    let mut fingerprint = json!({
        "kind": "verbs",
        "program": env!("CARGO_PKG_VERSION"),
        "kernel": fingerprint::kernel(),
    });
    fingerprint["adapter"] = told["adapter"].clone();
    fingerprint["agent"] = told["agent"].clone();
    Ok(OpenRig {
        info,
        session: Session::Real(Box::new(rig)),
        fingerprint,
    })
}

/// Opens the adapters of the tester and of the DUT's host. Also returns the descriptions of both, and whether they are
/// on InfiniBand.
pub(crate) fn hosts(
    config: &RigConfig,
    (device, port): (&str, u8),
    of: &AgentConfig,
    cancel: Arc<AtomicBool>,
) -> Result<(PeerRig, Value, bool), RigError> {
    let own = LocalVerbs::open(device, port, Limits::default()).map_err(|why| lost(config, why))?;
    let (agent, told) = agent(config, of)?;
    let mut rig = PeerRig::new(
        None,
        vec![(Side::Dut, agent), (Side::Tester, Box::new(own))],
        Pace::of(config),
        cancel,
    );
    let tester = opened(config, &mut rig, Side::Tester)?;
    let dut = opened(config, &mut rig, Side::Dut)?;
    is_the_device(config, of, &dut)?;
    if dut.ethernet != tester.ethernet {
        let kind = |ethernet| if ethernet { "Ethernet" } else { "InfiniBand" };
        return Err(refused(
            config,
            format!(
                "the link of the tester's {} is {}, that of the DUT's {} is {}: they cannot be on one link",
                tester.device,
                kind(tester.ethernet),
                dut.device,
                kind(dut.ethernet)
            ),
        ));
    }
    let mut adapter = of_host(&tester);
    adapter["driver"] = fingerprint::driver(device);
    let told = json!({ "adapter": adapter, "agent": told, "device": of_host(&dut) });
    Ok((rig, told, !dut.ethernet))
}

/// Returns the descriptions of the agent and of its device, for a rig that uses the agent only for these descriptions.
pub(crate) fn dut_host(config: &RigConfig, of: &AgentConfig, cancel: Arc<AtomicBool>) -> Result<Value, RigError> {
    let (agent, told) = agent(config, of)?;
    let mut rig = PeerRig::new(None, vec![(Side::Dut, agent)], Pace::of(config), cancel);
    let dut = opened(config, &mut rig, Side::Dut)?;
    is_the_device(config, of, &dut)?;
    Ok(json!({ "agent": told, "device": of_host(&dut) }))
}

fn lost(config: &RigConfig, why: impl Into<String>) -> RigError {
    RigError::Lost {
        rig: config.name.clone(),
        why: why.into(),
    }
}

fn refused(config: &RigConfig, why: impl Into<String>) -> RigError {
    RigError::Refused {
        rig: config.name.clone(),
        why: why.into(),
    }
}

/// Opens the link for frames. Also returns the tester's MAC address and a description of the link.
fn frame_link(config: &RigConfig, of: &PacketConfig) -> Result<(Box<dyn FrameLink>, MacAddress, Value), RigError> {
    match &of.wire {
        Wire::Interface(name) => {
            if kernel_has(of.ip, name) {
                return Err(refused(
                    config,
                    format!(
                        "ip {ip} is configured on this host, whose kernel would answer the device's packets with its \
                         own ICMP and ARP; remove it (`ip address del {ip}/… dev …`), or give the rig an unused \
                         address of the device's link",
                        ip = of.ip
                    ),
                ));
            }
            let socket = PacketSocket::open(name).map_err(|error| lost(config, error.to_string()))?;
            let its = MacAddress(socket.mac());
            let mac = of.mac.unwrap_or(its);
            if mac == MacAddress::default() {
                return Err(refused(
                    config,
                    format!(
                        "interface {name} has no MAC address; give the rig one, such as `mac = \"02:00:00:00:00:02\"`"
                    ),
                ));
            }
            let wire = json!({
                "interface": name,
                "interface_mac": its.to_string(),
                "mtu": socket.mtu(),
                "driver": fingerprint::interface_driver(name),
            });
            let own = Own {
                mac,
                ip: of.ip,
                shared: mac == its,
            };
            Ok((Box::new(OfInterface { socket, own }), mac, wire))
        }
        Wire::Socket { local, remote } => {
            let pair = DatagramPair::open(local, remote).map_err(|error| lost(config, error.to_string()))?;
            let pair = match config.slow.send_within {
                Some(bound) => pair
                    .with_send_bound(bound)
                    .map_err(|error| lost(config, error.to_string()))?,
                None => pair,
            };
            machine_is_there(remote).map_err(|error| {
                lost(
                    config,
                    format!(
                        "no process receives at the socket {} ({error}): the device, or its model, must bind `remote` \
                         of the rig's `socket` before a run begins; start it, or correct `remote`",
                        remote.display()
                    ),
                )
            })?;
            let Some(mac) = of.mac else {
                return Err(refused(config, "it has no `mac`, and a socket has none either"));
            };
            let wire = json!({ "local": local, "remote": remote });
            let remote = remote.clone();
            Ok((Box::new(OfMachine { pair, remote }), mac, wire))
        }
    }
}

/// Connects to the agent. Also returns the agent's description.
fn agent(config: &RigConfig, of: &AgentConfig) -> Result<(Box<dyn VerbsLink>, Value), RigError> {
    let client = AgentClient::connect(&of.address, CONNECT_WITHIN).map_err(|why| lost(config, why))?;
    let told = client.agent();
    let told = json!({
        "address": of.address.to_string(),
        "version": told.version,
        "host": told.host,
    });
    Ok((Box::new(client), told))
}

/// Opens a host's device, and returns the device's description.
fn opened(config: &RigConfig, rig: &mut PeerRig, side: Side) -> Result<pb::Opened, RigError> {
    fingerprint::ask_host(rig, side).map_err(|stop| match stop {
        Stop::RigGone(why)
        | Stop::Disturbed(why)
        | Stop::Tester(why)
        | Stop::Stalled(why)
        | Stop::Refused(why)
        | Stop::NotOffered(why)
        | Stop::NoAnswer(why) => lost(config, why),
        Stop::Cancelled | Stop::LeaseEnded => lost(config, "the run was cancelled while the rig was opened"),
    })
}

fn is_the_device(config: &RigConfig, of: &AgentConfig, dut: &pb::Opened) -> Result<(), RigError> {
    match &of.device {
        Some(expected) if *expected != dut.device => Err(refused(
            config,
            format!(
                "the agent at {} has {} open, and the rig file says dut_device = {expected:?}; correct it, or start the \
                 agent with --device {expected}",
                of.address, dut.device
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses an address that the DUT has too, because two stations with one address answer each other's packets.
fn is_not_us(config: &RigConfig, ip: IpAddr, mac: MacAddress, dut: &pb::Opened) -> Result<(), RigError> {
    let own_ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let has = |address: core::net::Ipv6Addr| dut.gids.iter().any(|gid| gid.gid == address.octets());
    let both = if has(own_ip) {
        format!("ip {ip}")
    } else if has(link_local(mac)) {
        format!("mac {mac}")
    } else {
        return Ok(());
    };
    Err(refused(
        config,
        format!(
            "{both} of the rig is also in the GID table of the DUT's {}; give the tester an address of its own",
            dut.device
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RigFile;

    fn config() -> RigConfig {
        RigFile::built_in().rigs.remove(0)
    }

    fn with_gid(ip: &str) -> pb::Opened {
        let address: core::net::Ipv6Addr = ip.parse().unwrap();
        pb::Opened {
            device: "rxe0".into(),
            gids: vec![pb::Gid {
                index: 0,
                gid: address.octets().to_vec(),
                kind: "RoCE v2".into(),
            }],
            ..pb::Opened::default()
        }
    }

    #[test]
    fn refuses_an_address_of_the_dut() {
        let (ip, mac) = ("10.0.0.2".parse().unwrap(), MacAddress([2, 0, 0, 0, 0, 2]));
        let check = |gid: &str| is_not_us(&config(), ip, mac, &with_gid(gid));
        assert!(check("::ffff:10.0.0.1").is_ok() && check("fe80::1").is_ok());
        let error = check("::ffff:10.0.0.2").unwrap_err().to_string();
        assert!(
            error.contains("ip 10.0.0.2 of the rig is also in the GID table of the DUT's rxe0"),
            "{error}"
        );
        let error = check("fe80::ff:fe00:2").unwrap_err().to_string();
        assert!(error.contains("mac 02:00:00:00:00:02 of the rig"), "{error}");
    }

    #[test]
    fn refuses_an_agent_with_another_device() {
        let mut of = AgentConfig {
            address: verbatim_verbs::AgentAddress {
                place: verbatim_verbs::Place::Unix("/a".into()),
                tls: None,
            },
            device: None,
        };
        assert!(is_the_device(&config(), &of, &with_gid("fe80::1")).is_ok());
        of.device = Some("rxe7".into());
        let error = is_the_device(&config(), &of, &with_gid("fe80::1"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("has rxe0 open") && error.contains("--device rxe7"),
            "{error}"
        );
    }
}
